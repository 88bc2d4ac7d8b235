// A transfer being put together, posted, counted and awaited: the only place that hands spans to the transport. Mails,
// agreements and the collectives on spans each hold one, and a dense exchange works on its caller's.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <utility>

#include "parallax/comm/topology.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/memory/buffer.hpp"

namespace parallax::inline v0_2 {

// Kinds of a transfer's bytes: elements of dense vectors, rows of tables, the rows' indices, the number of indices of each row,
// or ranks' words on all of these.
enum class Payload : unsigned char { dense, rows, ids, counts, control };
// The number of kinds.
inline constexpr std::size_t payloads = 5;

// Counted bytes, by payload. A rank's bytes to itself do not count; `between_hosts` counts bytes across a host boundary of the
// declared topology (without one, every rank is a host).
struct Traffic {
  // Bytes of one kind, in one direction.
  struct Bytes {
    // To or from other ranks.
    std::uint64_t all = 0, between_hosts = 0;  // the share of `all` across hosts
  };
  // Bytes sent, by kind, since this object was made.
  std::array<Bytes, payloads> sent{}, received{};  // bytes received, by kind
  std::uint64_t messages = 0;                      // non-empty blocks sent to other ranks
  std::uint64_t transfers = 0;                     // operations posted

  // Adds the bytes, control left out, that came to a counting object between its readings `before` and `after`.
  void add_payload(Traffic const& before, Traffic const& after) {
    for (std::size_t p = 0; p < payloads; ++p) {
      if (p == static_cast<std::size_t>(Payload::control)) continue;
      add(sent[p], before.sent[p], after.sent[p]);
      add(received[p], before.received[p], after.received[p]);
    }
  }

  // Returns the bytes of one kind, to other ranks.
  Bytes const& sent_of(Payload payload) const { return sent[static_cast<std::size_t>(payload)]; }
  // Returns the bytes of one kind, from other ranks.
  Bytes const& received_of(Payload payload) const { return received[static_cast<std::size_t>(payload)]; }
  // Returns the bytes to other ranks, without control.
  std::uint64_t payload_sent() const { return sum(sent, &Bytes::all); }
  // Returns the bytes from other ranks, without control.
  std::uint64_t payload_received() const { return sum(received, &Bytes::all); }
  // Returns the bytes that leave this rank's host, without control.
  std::uint64_t payload_sent_between_hosts() const { return sum(sent, &Bytes::between_hosts); }
  // Returns the bytes that come from other hosts, without control.
  std::uint64_t payload_received_between_hosts() const { return sum(received, &Bytes::between_hosts); }

 private:
  // Adds the growth of a count, from `before` to `after`, to the count `to`.
  static void add(Bytes& to, Bytes const& before, Bytes const& after) {
    to.all += after.all - before.all;
    to.between_hosts += after.between_hosts - before.between_hosts;
  }
  // Returns the sum over all kinds but control.
  static std::uint64_t sum(std::array<Bytes, payloads> const& counts, std::uint64_t Bytes::*member) {
    std::uint64_t total = 0;
    for (std::size_t p = 0; p < payloads; ++p)
      if (p != static_cast<std::size_t>(Payload::control)) total += counts[p].*member;
    return total;
  }
};

namespace detail {

// Scratch of a hop between ranks that lend memory: the loan of this rank, the loans told to it, and an owner's view of them.
struct LoanRoom {
  // A loan as it travels: its number at the lender, bytes of its vector and of an element, places of the addends, of all sums
  // and of the window, and flags if the first two pass through the window.
  struct Loan {
    std::uint64_t number, bytes, unit;
    Place input, whole, window;
    bool stages_input, stages_whole;
  };
  // A lender in the eyes of its owner: its rank, its loan's number, and addresses in this process, null if nothing is lent.
  struct Peer {
    int rank;
    std::uint64_t number;
    void const* input;
    void *whole, *window;  // `window`: the slots of this owner's part
    bool stages_input, stages_whole;
  };

  // Makes room for each rank. Two tokens, bytes that say a step is done, go out; behind them lie two from each rank.
  explicit LoanRoom(std::size_t ranks) : heard{ranks}, peers{ranks}, tokens(2 * ranks + 2) {}

  // This rank's words to every owner of a hop.
  Loan mine{};
  Buffer<Loan> heard;
  Buffer<Peer> peers;
  List<std::byte> tokens;
};

// In place of a missing queue, after an assertion has said so.
struct AnyQueue {
  // Stands for any queue, so that the assertion is the only message.
  template <class Q>
  operator Q() const;
};

// Stand-in for communicators without device memory: so that a Lane has one form.
template <class C>
struct DeviceRequestOf {
  struct type {};  // never made
};
template <CarriesDevice C>
struct DeviceRequestOf<C> {
  using type = device_request_of<C>;
};

}  // namespace detail

// True if the communicator carries memory of this space: every one carries the host's.
template <class C, class Space>
concept Carries = std::same_as<Space, HostSpace> ||(CarriesDevice<C>&& std::same_as<typename C::device_space, Space>);
// Local. Returns the queue of this rank's work on memory of the space, for copies and kernels: of the host's, an empty
// HostQueue.
template <MemorySpace Space, Communicator C>
auto queue_of([[maybe_unused]] C& world) {
  static_assert(
      Carries<C, Space>,
      "parallax: this communicator carries no memory of the variable's space: take one that does (CudaThreadCommunicator, "
      "Staged, NcclCommunicator)");
  if constexpr (std::same_as<Space, HostSpace>) return HostQueue{};
  else if constexpr (Carries<C, Space>) return world.queue();
  else return detail::AnyQueue{};
}

// One channel of a topology's communicator and the transfer on it. Blocks are declared with `send` and `expect` (several for
// one rank must be adjacent), then `post` hands them over. The memory given to `post` must stay until `test` is true. A loan of
// this rank's on the channel ends with the lane at the latest.
template <Communicator C>
class Lane {
 public:
  // Local. Refers to the topology and to the counts, which must outlive it. Nothing else may use the channel while something is
  // in flight.
  Lane(Topology<C> const& topology, int channel, Traffic& traffic);
  Lane(Lane const&) = delete;
  Lane& operator=(Lane const&) = delete;
  // Closes the loan, and then withdraws the transfer: returns once no peer touches memory of either.
  ~Lane() { reclaim(); }

  // Returns the topology of the lane's ranks.
  Topology<C> const& topology() const { return *topology_; }
  // Returns the channel of the topology's communicator, from 0 to `channels` - 1.
  int channel() const { return channel_; }

  // Local, before the first block of a transfer. Forgets all blocks, and the bytes to be counted for them.
  void clear();
  // Local. Declares a block: `bytes` at `offset` of the sent memory given to `post` go to `rank`, which may be this one.
  void send(int rank, std::size_t offset, std::size_t bytes, Payload payload) {
    declare(to_, sent_, rank, offset, bytes, payload);
  }
  // Local. Declares a block: `bytes` from `rank` come to `offset` of the receiving memory given to `post`.
  void expect(int rank, std::size_t offset, std::size_t bytes, Payload payload) {
    declare(from_, received_, rank, offset, bytes, payload);
  }

  // Local. Counts the bytes that `rank` and this rank read and write in each other's memory as if they were sent.
  void count_lent(int rank, std::size_t sent, std::size_t received, Payload payload);

  // Collective in the order of the channel. Posts and counts the transfer, and does not wait. Both memories are the caller's,
  // of a space that the communicator carries, and must stay until `test` is true. Throws the communicator's errors.
  template <class Space = HostSpace>
  void post(void const* send, void* receive) {
    Transfer const transfer{static_cast<std::byte const*>(send), to_, static_cast<std::byte*>(receive), from_};
    if constexpr (std::same_as<Space, HostSpace>) request_.emplace(topology_->world().ialltoallv(channel_, transfer));
    else device_request_.emplace(topology_->world().ialltoallv_device(channel_, transfer));
    for (int rank = 0; rank < topology_->size(); ++rank)
      traffic_->messages += rank != topology_->rank() && to_[static_cast<std::size_t>(rank)].bytes > 0;
    count();
  }

  // Collective in the order of the channel, with the same count on all ranks. Posts the vendor's all-reduce, and does not wait:
  // `send` and `receive`, one range or two without overlap, must stay until `test` is true. Counts the bytes of an optimal one
  // (Patarasuk and Yuan, JPDC 2009), sent and received: 2 (N - 1) / N of the buffer. Throws the communicator's errors.
  template <class Space, class T>
  void post_allreduce(T const* send, T* receive, std::size_t count_of_values) {
    clear();
    if constexpr (std::same_as<Space, HostSpace>)
      request_.emplace(topology_->world().iallreduce(channel_, send, receive, count_of_values));
    else device_request_.emplace(topology_->world().iallreduce_device(channel_, send, receive, count_of_values));
    auto const ranks = static_cast<std::size_t>(topology_->size());
    std::size_t const bytes = 2 * (ranks - 1) * count_of_values * sizeof(T) / ranks;
    sent_[static_cast<std::size_t>(Payload::dense)] = received_[static_cast<std::size_t>(Payload::dense)] = {bytes, bytes};
    tallied_ = 1u << static_cast<unsigned>(Payload::dense);
    count();
  }

  // Returns true if something was posted that `test` has not seen to be complete.
  bool in_flight() const { return request_.has_value() || device_request_.has_value(); }
  // Makes progress; returns true once nothing is in flight. Throws the errors of a Request's `test`.
  bool test();
  // Returns a rank that has not delivered, or -1.
  int waiting_for() const;
  // Withdraws the transfer, after an abort alone, and closes the loan. Returns once no peer touches memory of either any more.
  void withdraw() noexcept;

  // Local. Closes an open loan as `reclaim` does, opens another on the channel and returns its number.
  std::uint64_t lend() requires LendsMemory<C> {
    reclaim();
    lends_ = true;
    return topology_->world().lend(channel_);
  }
  // Local. Closes this rank's loan on the channel; waits until no peer holds it. Nothing happens without an open loan.
  void reclaim() noexcept {
    if constexpr (LendsMemory<C>)
      if (std::exchange(lends_, false)) topology_->world().reclaim(channel_);
  }
  // Returns the scratch of the LentHop at hand; of communicators that lend nothing it has no room for a rank.
  detail::LoanRoom& loan_room() { return loan_room_; }

 private:
  using Counts = std::array<Traffic::Bytes, payloads>;

  // Lengthens a rank's block by the `bytes` at `offset`, its end, and notes them for the transfer at hand. An empty block
  // begins there.
  void declare(List<ByteRange>& blocks, Counts& counts, int rank, std::size_t offset, std::size_t bytes, Payload payload);
  // Adds bytes to, or from, another rank; this rank's for itself do not count.
  void add(Counts& counts, int rank, std::size_t bytes, Payload payload) const;
  // Returns the lowest noted kind of payload, if there is any.
  std::size_t first_tallied() const { return static_cast<std::size_t>(std::countr_zero(tallied_)); }
  // Adds the noted bytes to the Traffic: once for each transfer posted.
  void count();

  Topology<C> const* topology_;
  Traffic* traffic_;
  int channel_;
  // The blocks of the transfer at hand, by rank: the request refers to them.
  List<ByteRange> to_, from_;
  Counts sent_{}, received_{};
  unsigned tallied_ = 0;  // a bit for each payload in them
  bool lends_ = false;    // an open loan
  detail::LoanRoom loan_room_;
  std::optional<request_of<C>> request_;
  std::optional<typename detail::DeviceRequestOf<C>::type> device_request_;
};

template <Communicator C>
bool Lane<C>::test() {
  if (request_ && request_->test()) request_.reset();
  if constexpr (CarriesDevice<C>)
    if (device_request_ && device_request_->test()) device_request_.reset();
  return !in_flight();
}

template <Communicator C>
int Lane<C>::waiting_for() const {
  if constexpr (CarriesDevice<C>)
    if (device_request_) return device_request_->waiting_for();
  return request_ ? request_->waiting_for() : -1;
}

template <Communicator C>
void Lane<C>::withdraw() noexcept {
  request_.reset();
  device_request_.reset();
  reclaim();
}

template <Communicator C>
void Lane<C>::count_lent(int rank, std::size_t sent, std::size_t received, Payload payload) {
  add(traffic_->sent, rank, sent, payload);
  add(traffic_->received, rank, received, payload);
}

template <Communicator C>
Lane<C>::Lane(Topology<C> const& topology, int channel, Traffic& traffic)
    : topology_{&topology},
      traffic_{&traffic},
      channel_{channel},
      to_(static_cast<std::size_t>(topology.size())),
      from_(static_cast<std::size_t>(topology.size())),
      loan_room_{static_cast<std::size_t>(LendsMemory<C> ? topology.size() : 0)} {}

template <Communicator C>
void Lane<C>::clear() {
  std::fill(to_.begin(), to_.end(), ByteRange{});
  std::fill(from_.begin(), from_.end(), ByteRange{});
  for (; tallied_; tallied_ &= tallied_ - 1) sent_[first_tallied()] = received_[first_tallied()] = {};
}

template <Communicator C>
void Lane<C>::declare(List<ByteRange>& blocks, Counts& counts, int rank, std::size_t offset, std::size_t bytes,
                      Payload payload) {
  ByteRange& block = blocks[static_cast<std::size_t>(rank)];
  if (block.bytes == 0) block.offset = offset;
  block.bytes += bytes;
  tallied_ |= 1u << static_cast<unsigned>(payload);
  add(counts, rank, bytes, payload);
}

template <Communicator C>
void Lane<C>::add(Counts& counts, int rank, std::size_t bytes, Payload payload) const {
  if (bytes == 0 || rank == topology_->rank()) return;
  auto& entry = counts[static_cast<std::size_t>(payload)];
  entry.all += bytes;
  if (!topology_->same_host(rank)) entry.between_hosts += bytes;
}

template <Communicator C>
void Lane<C>::count() {
  ++traffic_->transfers;
  for (unsigned rest = tallied_; rest; rest &= rest - 1) {
    auto const p = static_cast<std::size_t>(std::countr_zero(rest));
    traffic_->sent[p].all += sent_[p].all;
    traffic_->sent[p].between_hosts += sent_[p].between_hosts;
    traffic_->received[p].all += received_[p].all;
    traffic_->received[p].between_hosts += received_[p].between_hosts;
  }
}

}  // namespace parallax
