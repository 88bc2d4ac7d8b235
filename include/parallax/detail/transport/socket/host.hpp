// A rank's ties over sockets to others of its host: the meeting for common memory, its use, and loans. An endpoint
// (detail/transport/socket/endpoint.hpp) owns one of each.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/core/birth.hpp"
#include "parallax/detail/core/function_ref.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/transport/host/bells.hpp"
#include "parallax/detail/transport/host/loans.hpp"
#include "parallax/detail/transport/host/memory.hpp"
#include "parallax/detail/transport/host/neighbours.hpp"
#include "parallax/detail/transport/socket/peers.hpp"
#include "parallax/memory/shared.hpp"

namespace parallax::inline v0_2::detail {

// A meeting of the ranks of each host, by messages. A rank sends the Place of memory of its own to the others of its host, and
// then tells all ranks of the world if it has found the memory of all these: so every rank knows all ranks with common memory.
class SocketHostMeeting final : public HostMeeting {
 public:
  // `await(missing)` waits, moving on all, until `missing()`, an awaited rank, is -1. It throws errors that end the meeting.
  using Await = FunctionRef<void(FunctionRef<int()>)>;

  explicit SocketHostMeeting(int size) : ranks_(static_cast<std::size_t>(size)), groups_(ranks_.size(), -1) {}

  // Collective over the world; waits by `await`, and throws its errors. Returns memory for a SocketHost of the ranks of this
  // host; null if this rank is alone, or if there is no memory. `hosts`: by rank. All given is referred to until the return.
  std::unique_ptr<HostMemory> meet(SocketPeers& peers, int rank, std::vector<int> const& hosts, Await await);
  // Returns true if this rank has said all words awaited by others: these may then end the meeting before it.
  bool has_answered() const { return here_.size() == 1 || ranks_[static_cast<std::size_t>(rank_)].answer != Answer::none; }
  // Returns the first rank of this host in the process of that place, or -1.
  int owner_of(Place const& place) const {
    auto const is = [&](int rank) { return ranks_[static_cast<std::size_t>(rank)].place.process == place.process; };
    auto const found = std::find_if(here_.begin(), here_.end(), is);
    return found == here_.end() ? -1 : *found;
  }
  // Returns the ranks of this host, ascending; `self` is the index of this one among them. Good once `meet` was called.
  std::vector<int> const& here() const { return here_; }
  std::size_t self() const { return static_cast<std::size_t>(std::find(here_.begin(), here_.end(), rank_) - here_.begin()); }
  // Returns true if two ranks share memory: the same on every rank, once `meet` has returned.
  bool share(int one, int other) const {
    int const group = groups_[static_cast<std::size_t>(one)];
    return group >= 0 && group == groups_[static_cast<std::size_t>(other)];
  }

  // Returns room for a Place in arrival from rank `from`, until `come`.
  std::byte* begin(int from) { return reinterpret_cast<std::byte*>(&at(from).place); }
  // Notes that all of the Place of rank `from` is there.
  void come(int from) { at(from).shows = true; }
  // Notes a rank's answer: it has found all places of its host, or not.
  void answer(int from, bool found) { at(from).answer = found ? Answer::found : Answer::missed; }

  List<Place> gather(Place const& mine) override;
  bool all(bool mine) override;

 private:
  enum class Answer : unsigned char { none, found, missed };
  struct Rank {
    Place place;
    bool shows = false;
    Answer answer = Answer::none;
  };
  Rank& at(int rank) { return ranks_[static_cast<std::size_t>(rank)]; }
  // Waits for the answers of all ranks not alone on their host, by `await`, and finds the groups with common memory.
  void hear_answers();

  std::vector<Rank> ranks_;
  std::vector<int> here_, groups_;  // groups_: by rank, its host if it has shared memory, else -1
  int rank_ = 0;
  std::vector<int> const* hosts_ = nullptr;
  SocketPeers* peers_ = nullptr;
  Await const* await_ = nullptr;
};

// A rank's ties to others of its host with common memory, which it owns. Blocks go through it; a message wakes sleepers.
class SocketHost {
 public:
  // `memory`: of memory_bytes. `here`: the ranks of the host, `self` the index of this one, `rank` of `size` in the world.
  SocketHost(std::unique_ptr<HostMemory> memory, std::vector<int> const& here, std::size_t self, int rank, int size)
      : memory_{std::move(memory)},
        bells_{memory_->data(), self},
        neighbours_{memory_->data() + Bells::memory_bytes(here.size()), {here.begin(), here.end()}, rank, size},
        loans_{memory_->data() + memory_bytes(here.size()) - Loans::memory_bytes(here.size()), here.size(), self},
        rank_{rank} {}
  // Returns the bytes of memory needed for so many ranks of a host.
  static std::size_t memory_bytes(std::size_t ranks) {
    return Bells::memory_bytes(ranks) + Neighbours::memory_bytes(ranks) + Loans::memory_bytes(ranks);
  }

  // Returns the exchange of blocks. Whoever posts some calls `ring` or `move_on` afterwards.
  Neighbours& neighbours() { return neighbours_; }
  Neighbours const& neighbours() const { return neighbours_; }
  // Returns the loans among the ranks of this host.
  Loans& loans() { return loans_; }

  // Notes the changes announced so far, for `move_on`: those announced later keep the rank from sleep.
  void look() { bells_.look(); }
  // Moves on all blocks, and rings. Throws Error (mismatch) for a block that was not expected, or not with its size.
  void move_on(SocketPeers& peers);
  // Wakes the sleeping ranks for which this one has changed memory since the last call, each by a message.
  void ring(SocketPeers& peers) {
    moved_ = neighbours_.tell([&](std::size_t place, int rank) {
      if (bells_.announce(place)) peers.tell(rank, FrameKind::bell, 0, {});
    });
    news_ = news_ || moved_;
  }
  // Returns true if nothing has moved since the last call, or was announced since `look`: the rank may sleep until it is rung.
  bool lie_down() {
    bool const may = bells_.lie_down() && !news_;
    news_ = false;
    return may;
  }
  void get_up() { bells_.get_up(); }
  // Returns true if the last `move_on` has moved anything: then there may be more.
  bool moved() const { return moved_; }

 private:
  std::unique_ptr<HostMemory> memory_;
  Bells bells_;
  Neighbours neighbours_;
  Loans loans_;
  int rank_;
  bool moved_ = false, news_ = false;  // news_: something has moved since `lie_down`
};

// Loans of one rank. Memory of SharedSpace is lent in its place. A rank waits for the holders of a returned loan, but not for a
// process that has ended, nor for long: then it takes other pages for the lent memory.
class SocketLending {
 public:
  // Joins these loans of the ranks `here`, those of the host. Before, nobody holds anything. Both must outlive this object.
  void join(Loans& loans, std::vector<int> const& here) {
    loans_ = &loans;
    here_ = &here;
    cut_off_.resize(here.size());
  }

  // Lends and holds, as LendsMemory has it; local, never waiting. `window` throws Error (out_of_memory).
  Place place_of(void const* memory) {
    Place const place = shared_blocks.place_of(memory);
    if (place.id && std::find(shown_.begin(), shown_.end(), place.id) == shown_.end()) shown_.push_back(place.id);
    return place;
  }
  std::byte* window(int channel, std::size_t bytes) {
    auto& window = windows_[static_cast<std::size_t>(channel)];
    window.resize_with_slack(bytes);
    return window.data();
  }
  std::uint64_t lend(int channel) {
    lent_[static_cast<std::size_t>(channel)].swap(shown_);
    shown_.clear();
    return loans_ ? loans_->open(channel) : 0;
  }
  bool hold(int channel, int rank, std::uint64_t number) { return !loans_ || loans_->hold(channel, place(rank), number); }
  void release(int channel, int rank) noexcept {
    if (loans_) loans_->release(channel, place(rank));
  }
  // Takes back the channel's lent memory: waits up to `patience` for each holder, then moves it. Not in a forked child.
  void reclaim(int channel, SocketPeers& peers) noexcept;
  // Returns the address of a place; null if its memory has gone, or never was. Throws Error (transport) with `rank`, this one,
  // if this process lacks descriptors or memory.
  std::byte* address_of(Place const& place, int rank) const {
    std::byte* const memory = shared_blocks.address_of(place);
    if (memory || !is_lack()) return memory;
    throw Error{Errc::transport, rank, "lending", "",
                joined({place.bytes, " bytes that another rank lends cannot be mapped: ", std::strerror(errno)})};
  }

 private:
  static constexpr std::chrono::milliseconds patience{100};  // with a holder: it sums for less than one

  std::size_t place(int rank) const {
    return static_cast<std::size_t>(std::find(here_->begin(), here_->end(), rank) - here_->begin());
  }
  // Returns true if the rank with index `holder` on the host may still touch the memory lent on the channel.
  bool held(int channel, std::size_t holder, SocketPeers& peers) {
    return loans_->held(channel, holder) && !cut_off_[holder] && !peers.connection((*here_)[holder]).ended();
  }
  // Moves the memory lent on a channel to other pages, at the same address. Returns false if there is no memory for them.
  bool renew(int channel) noexcept {
    auto const& blocks = lent_[static_cast<std::size_t>(channel)];
    return std::all_of(blocks.begin(), blocks.end(), [](std::uint64_t id) { return shared_blocks.renew(id); });
  }

  Birth birth_;
  Loans* loans_ = nullptr;
  std::vector<int> const* here_ = nullptr;
  std::vector<char> cut_off_;  // by place: it holds something on pages left by this rank
  std::array<SharedBuffer<std::byte>, channels> windows_;
  std::vector<std::uint64_t> shown_;                       // the blocks of places asked for since the last loan
  std::array<std::vector<std::uint64_t>, channels> lent_;  // the blocks of the channel's loan
};

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/socket/host-inl.hpp"
#endif
