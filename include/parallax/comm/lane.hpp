// A transfer being put together, posted, counted and awaited: the only place where spans are handed to the transport.
#pragma once

#include <array>
#include <bit>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include "parallax/comm/topology.hpp"
#include "parallax/core/algorithm.hpp"
#include "parallax/memory/buffer.hpp"

namespace parallax {

// What the bytes of a transfer are.
enum class Payload : unsigned char { dense, rows, ids, counts, control };
inline constexpr std::size_t payloads = 5;

// Counted bytes, by payload. Bytes that a rank sends to itself do not count; `between_hosts` counts those that cross a host
// boundary of the declared topology (without one, every rank is a host).
struct Traffic {
  struct Bytes {
    std::uint64_t all = 0, between_hosts = 0;
  };
  std::array<Bytes, payloads> sent{}, received{};
  std::uint64_t messages = 0;   // non-empty blocks sent to other ranks
  std::uint64_t transfers = 0;  // operations posted

  Bytes const& sent_of(Payload payload) const { return sent[static_cast<std::size_t>(payload)]; }
  Bytes const& received_of(Payload payload) const { return received[static_cast<std::size_t>(payload)]; }
  // All that is not control.
  std::uint64_t payload_sent() const { return sum(sent, &Bytes::all); }
  std::uint64_t payload_received() const { return sum(received, &Bytes::all); }
  std::uint64_t payload_sent_between_hosts() const { return sum(sent, &Bytes::between_hosts); }
  std::uint64_t payload_received_between_hosts() const { return sum(received, &Bytes::between_hosts); }

 private:
  static std::uint64_t sum(std::array<Bytes, payloads> const& counts, std::uint64_t Bytes::*member) {
    std::uint64_t total = 0;
    for (std::size_t p = 0; p < payloads; ++p)
      if (p != static_cast<std::size_t>(Payload::control)) total += counts[p].*member;
    return total;
  }
};

namespace detail {

// What ranks tell each other of what they lend, and what an owner makes of it.
struct LoanRoom {
  struct Loan {
    std::uint64_t number, bytes, unit;
    Place input, whole, window;
    bool stages_input, stages_whole;
  };
  struct Peer {
    int rank;
    std::uint64_t number;
    void const* input;
    void *whole, *window;  // `window`: the slots of this owner's part
    bool stages_input, stages_whole;
  };

  explicit LoanRoom(std::size_t ranks) : tokens(2 * ranks + 2) {
    heard.resize(ranks);
    peers.resize(ranks);
  }

  Loan mine{};
  Buffer<Loan> heard;
  Buffer<Peer> peers;
  std::vector<std::byte> tokens;
};

// A loan of this rank's on a channel, as long as it lives: of communicators that lend.
template <Communicator C>
class OpenLoan {
 public:
  OpenLoan() = default;
  OpenLoan(OpenLoan&& other) noexcept : world_{std::exchange(other.world_, nullptr)}, channel_{other.channel_} {}
  OpenLoan& operator=(OpenLoan&& other) noexcept {
    close();
    world_ = std::exchange(other.world_, nullptr);
    channel_ = other.channel_;
    return *this;
  }
  ~OpenLoan() { close(); }

  // Returns its number.
  std::uint64_t open(C& world, int channel) {
    close();
    world_ = &world;
    channel_ = channel;
    return world.lend(channel);
  }
  // Returns once no peer holds it.
  void close() noexcept {
    if constexpr (LendsMemory<C>)
      if (world_) world_->reclaim(channel_);
    world_ = nullptr;
  }

 private:
  C* world_ = nullptr;
  int channel_ = 0;
};

// In place of a queue that is not there, after an assertion has said so.
struct AnyQueue {
  template <class Q>
  operator Q() const;
};

template <class C>
struct HeldDeviceRequest {
  struct type {  // never made
    bool test() { return true; }
    int waiting_for() const { return -1; }
  };
};
template <CarriesDevice C>
struct HeldDeviceRequest<C> {
  using type = device_request_of<C>;
};

}  // namespace detail

// Whether the communicator carries memory of this space, and the queue of this rank's work on it.
template <class C, class Space>
concept Carries = std::same_as<Space, HostSpace> ||(CarriesDevice<C>&& std::same_as<typename C::device_space, Space>);
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

// One channel of a topology's communicator and the transfer on it. Blocks are declared with `send` and `expect` (several
// for one rank must be adjacent), then `post` hands them over. The memory given to `post` must stay until `test` is true.
template <Communicator C>
class Lane {
 public:
  Lane(Topology<C> const& topology, int channel, Traffic& traffic);

  Topology<C> const& topology() const { return *topology_; }
  int channel() const { return channel_; }

  void clear();
  void send(int rank, std::size_t offset, std::size_t bytes, Payload payload);
  void expect(int rank, std::size_t offset, std::size_t bytes, Payload payload);

  // Counts what the rank and this one read and write in each other's memory, with the transfer at hand.
  void count_lent(int rank, std::size_t sent, std::size_t received, Payload payload);

  // Of memory of the space, which the communicator carries. `arrival`: only where it reads in place.
  template <class Space = HostSpace>
  void post(void const* send, void* receive, Arrival* arrival = nullptr) {
    Transfer const transfer{static_cast<std::byte const*>(send), to_, static_cast<std::byte*>(receive), from_, arrival};
    if constexpr (std::same_as<Space, HostSpace>) request_.emplace(topology_->world().ialltoallv(channel_, transfer));
    else device_request_.emplace(topology_->world().ialltoallv_device(channel_, transfer));
    for (int rank = 0; rank < topology_->size(); ++rank)
      traffic_->messages += rank != topology_->rank() && to_[static_cast<std::size_t>(rank)].bytes > 0;
    count();
  }

  // The vendor's all-reduce. What crosses the wire is the vendor's affair; counted is what an optimal one sends and
  // receives (Patarasuk and Yuan, JPDC 2009): 2 (N - 1) / N of the buffer.
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

  bool in_flight() const { return request_.has_value() || device_request_.has_value(); }
  bool test();
  int waiting_for() const;
  // Legal after an abort. Returns once no peer touches the memory of the transfer, or what is lent, any more.
  void withdraw() noexcept;

  // Local. Opens a loan on the channel and returns its number; `reclaim` ends it once no peer uses it.
  std::uint64_t lend() requires LendsMemory<C>;
  void reclaim() noexcept { loan_.close(); }
  detail::LoanRoom& loan_room() { return loan_room_; }

 private:
  using Counts = std::array<Traffic::Bytes, payloads>;

  static void extend(ByteRange& block, std::size_t offset, std::size_t bytes);
  void tally(Counts& counts, int rank, std::size_t bytes, Payload payload);
  std::size_t first_tallied() const { return static_cast<std::size_t>(std::countr_zero(tallied_)); }
  void count();

  Topology<C> const* topology_;
  Traffic* traffic_;
  int channel_;
  std::vector<ByteRange> to_, from_;
  Counts sent_{}, received_{};
  unsigned tallied_ = 0;  // a bit for each payload that is in them
  detail::LoanRoom loan_room_;
  std::optional<request_of<C>> request_;
  std::optional<typename detail::HeldDeviceRequest<C>::type> device_request_;
  detail::OpenLoan<C> loan_;
};

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
void Lane<C>::send(int rank, std::size_t offset, std::size_t bytes, Payload payload) {
  extend(to_[static_cast<std::size_t>(rank)], offset, bytes);
  tally(sent_, rank, bytes, payload);
}

template <Communicator C>
void Lane<C>::expect(int rank, std::size_t offset, std::size_t bytes, Payload payload) {
  extend(from_[static_cast<std::size_t>(rank)], offset, bytes);
  tally(received_, rank, bytes, payload);
}

template <Communicator C>
void Lane<C>::count_lent(int rank, std::size_t sent, std::size_t received, Payload payload) {
  tally(sent_, rank, sent, payload);
  tally(received_, rank, received, payload);
}

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
  loan_.close();
}

template <Communicator C>
std::uint64_t Lane<C>::lend() requires LendsMemory<C> {
  return loan_.open(topology_->world(), channel_);
}

template <Communicator C>
void Lane<C>::extend(ByteRange& block, std::size_t offset, std::size_t bytes) {
  if (block.bytes == 0) block.offset = offset;
  block.bytes += bytes;
}

template <Communicator C>
void Lane<C>::tally(Counts& counts, int rank, std::size_t bytes, Payload payload) {
  if (rank == topology_->rank()) return;
  tallied_ |= 1u << static_cast<unsigned>(payload);
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
