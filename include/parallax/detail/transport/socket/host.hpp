// What a rank over sockets has with those of its host: how they come to memory that they share, and what they do through it.
// An endpoint (detail/transport/socket/endpoint.hpp) owns one of each.
#pragma once

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/core/function_ref.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/transport/host/bells.hpp"
#include "parallax/detail/transport/host/loans.hpp"
#include "parallax/detail/transport/host/memory.hpp"
#include "parallax/detail/transport/host/neighbours.hpp"
#include "parallax/detail/transport/socket/peers.hpp"

namespace parallax::inline v0_2::detail {

// The ranks of every host by messages: a rank tells those of its host what it shows, and then all ranks of the world whether it
// has found what they show; so every rank knows who shares memory with whom.
class SocketHostMeeting final : public HostMeeting {
 public:
  // `await(missing)` moves on everything until `missing()`, a rank that is waited for, is -1. It throws what ends the meeting.
  using Await = FunctionRef<void(FunctionRef<int()>)>;

  explicit SocketHostMeeting(int size) : ranks_(static_cast<std::size_t>(size)), groups_(ranks_.size(), -1) {}

  // Collective over the world: memory of so many bytes for each pair of ranks of this host. `hosts`: by rank. None where this
  // rank is alone, or where it cannot be had.
  template <class Bytes>
  std::unique_ptr<HostMemory> meet(SocketPeers& peers, int rank, std::vector<int> const& hosts, Bytes const& bytes,
                                   Await await);
  // Whether this rank has said all that others wait for: from then on they may be quicker.
  bool has_answered() const { return here_.size() == 1 || ranks_[static_cast<std::size_t>(rank_)].answer != Answer::none; }
  // The first rank of this host whose process that is, or -1.
  int owner_of(Place const& place) const {
    auto const is = [&](int rank) { return ranks_[static_cast<std::size_t>(rank)].place.process == place.process; };
    auto const found = std::find_if(here_.begin(), here_.end(), is);
    return found == here_.end() ? -1 : *found;
  }
  // The ranks of this host, in their order, and this one's place among them.
  std::vector<int> const& here() const { return here_; }
  std::size_t self() const { return static_cast<std::size_t>(std::find(here_.begin(), here_.end(), rank_) - here_.begin()); }
  // Whether two ranks share memory: the same on every rank that asks, once they have met.
  bool share(int one, int other) const {
    int const group = groups_[static_cast<std::size_t>(one)];
    return group >= 0 && group == groups_[static_cast<std::size_t>(other)];
  }

  // Returns the room for a place that begins to come from that rank.
  std::byte* begin(int from) { return reinterpret_cast<std::byte*>(&at(from).place); }
  // It is there.
  void come(int from) { at(from).shows = true; }
  // That rank says whether it has found what those of its host show.
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
  // Waits for the answers of all who are not alone, and says who shares memory.
  void hear_answers();

  std::vector<Rank> ranks_;
  std::vector<int> here_, groups_;  // groups_: by rank, its host where that has shared memory, else -1
  int rank_ = 0;
  std::vector<int> const* hosts_ = nullptr;
  SocketPeers* peers_ = nullptr;
  Await const* await_ = nullptr;
};

// What a rank has with others of its host once they share memory. Blocks go through it; who sleeps is rung by a message.
class SocketHost {
 public:
  // `here`: the ranks of the host, of which this one has place `self`.
  SocketHost(std::unique_ptr<HostMemory> memory, std::vector<int> const& here, std::size_t self, int rank, int size)
      : memory_{std::move(memory)},
        bells_{memory_->data(), self},
        neighbours_{memory_->data() + Bells::memory_bytes(here.size()), {here.begin(), here.end()}, rank, size},
        loans_{memory_->data() + memory_bytes(here.size()) - Loans::memory_bytes(here.size()), here.size(), self},
        rank_{rank} {}
  // What so many ranks need of memory.
  static std::size_t memory_bytes(std::size_t ranks) {
    return Bells::memory_bytes(ranks) + Neighbours::memory_bytes(ranks) + Loans::memory_bytes(ranks);
  }

  // The blocks; who posts some rings afterwards.
  Neighbours& neighbours() { return neighbours_; }
  Neighbours const& neighbours() const { return neighbours_; }
  // What these ranks lend each other.
  Loans& loans() { return loans_; }

  // What changes from here on is news.
  void look() { bells_.look(); }
  // Moves on all blocks, and rings. Error (mismatch).
  void move_on(SocketPeers& peers);
  // Wakes who sleeps and has to see what this rank has changed.
  void ring(SocketPeers& peers) {
    moved_ = neighbours_.tell([&](std::size_t place, int rank) {
      if (bells_.announce(place)) peers.tell(rank, FrameKind::bell, 0, {});
    });
    news_ = news_ || moved_;
  }
  // True where nothing has moved and nothing is new: then others ring, until this rank gets up.
  bool lie_down() {
    bool const may = bells_.lie_down() && !news_;
    news_ = false;
    return may;
  }
  void get_up() { bells_.get_up(); }
  // Whether the last `move_on` has moved anything: then there may be more.
  bool moved() const { return moved_; }

 private:
  // Error (mismatch) of a rank that has sent what was not expected.
  Error disagreement(int rank, std::string_view sent, std::size_t expected) const {
    return {Errc::mismatch, rank, "ialltoallv", "",
            joined({"rank ", rank, " sent ", sent, " bytes where ", expected, " were expected by rank ", rank_})};
  }

  std::unique_ptr<HostMemory> memory_;
  Bells bells_;
  Neighbours neighbours_;
  Loans loans_;
  int rank_;
  bool moved_ = false, news_ = false;  // news_: something has moved since `lie_down`
};

template <class Bytes>
std::unique_ptr<HostMemory> SocketHostMeeting::meet(SocketPeers& peers, int rank, std::vector<int> const& hosts,
                                                    Bytes const& bytes, Await await) {
  rank_ = rank;
  hosts_ = &hosts;
  peers_ = &peers;
  await_ = &await;
  for (std::size_t other = 0; other < hosts.size(); ++other)
    if (hosts[other] == hosts[static_cast<std::size_t>(rank)]) here_.push_back(static_cast<int>(other));
  std::unique_ptr<HostMemory> memory;
  if (here_.size() > 1) {
    memory = std::make_unique<HostMemory>(*this, self(), bytes(here_.size()));
    if (!memory->data()) memory.reset();
  } else {
    hear_answers();
  }
  return memory;
}

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/socket/host-inl.hpp"
#endif
