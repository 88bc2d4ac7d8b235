// Ranks as MPI processes: blocks are non-blocking messages, or go through shared memory within a host; polled under a deadline
// from the main thread.
#pragma once

#include <mpi.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/comm/mpi/bare_sums.hpp"
#include "parallax/comm/mpi/job.hpp"
#include "parallax/comm/mpi/neighbours.hpp"
#include "parallax/core/algorithm.hpp"
#include "parallax/memory/shared.hpp"

namespace parallax {

struct MpiOptions {
  std::chrono::nanoseconds deadline = std::chrono::seconds{60};
  SumOrder order = SumOrder::fixed;  // vendor: MPI's own all-reduce, on one more communicator per channel
  std::size_t largest_message = std::size_t{1} << 30;  // bytes; what is larger travels in chunks. At most INT_MAX
  bool shared_memory = true;  // within a host; where it cannot be had, messages
};

// One rank's end of a private duplicate of a user's MPI communicator. Owns the duplicate; move-only, also while
// operations are in flight. MPI must be initialised (any thread level), every call comes from its main thread.
//   constructing   collective over `comm`. A rank that does not come within the deadline ends the job. All options but the
//                  deadline must be the same on all ranks (Error mismatch)
//   destroying     frees the duplicate, unless MPI is finalised, the job is ending or an exception is unwinding; says
//                  on stderr if a block has come that no operation expected
//   abort          reports on stderr and ends the whole job with `mpi_abort_code`, within a second; does not return
// Where ranks disagree: a block of another size than expected is a mismatch at the receiver. A block that only the
// receiver knows of is waited for until the deadline, or, through shared memory, until the sender's next operation on the
// channel, and is a mismatch then; one that only the sender knows of is reported when the communicator is destroyed, or, if it
// is large, waited for by the sender until the deadline. Neither is ever taken for another operation's.
class MpiCommunicator {
 public:
  class Request;
  using lent_space = SharedSpace;

  MpiCommunicator() : MpiCommunicator{MPI_COMM_WORLD} {}
  explicit MpiCommunicator(MPI_Comm comm, MpiOptions options = {}) : end_{std::make_unique<Endpoint>(comm, options)} {}

  int rank() const { return end_->rank; }
  int size() const { return end_->size; }
  std::chrono::nanoseconds deadline() const { return end_->options.deadline; }
  std::chrono::nanoseconds now() const;
  bool oversubscribed() const { return end_->oversubscribed; }
  bool serialized() const {  // MPI_THREAD_SERIALIZED or more
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    return level >= MPI_THREAD_SERIALIZED;
  }
  bool shares_memory(int one, int other) const { return one == other || end_->meet(end_->blocks, one, other); }
  SumOrder sum_order() const { return end_->options.order; }

  // The host of every rank; hosts are numbered from 0 in the order of their first rank.
  std::vector<int> const& hosts() const { return end_->hosts; }

  Request ialltoallv(int channel, Transfer const& transfer);

  // Collective on a channel. By MPI_Iallreduce, in place where `send` is `receive`, which checks nothing: all ranks must name
  // the same count and type. Error misuse unless constructed with order = vendor.
  Request iallreduce(int channel, float const* send, float* receive, std::size_t count);
  Request iallreduce(int channel, double const* send, double* receive, std::size_t count);

  // Collective. For steps that are checked once. Error transport.
  MpiBareSums bare() { return MpiBareSums{end_->comm}; }

  [[noreturn]] void abort(Error const& reason) { end_->abort(reason.what()); }

  // Journals of other ranks are asked for by letters beside the channels; who is not waiting does not answer.
  Journal& journal() { return end_->watch.journal; }
  std::optional<Status> status_of(int rank, bool& fresh) { return end_->status_of(rank, fresh); }
  void answer() { end_->answer(); }

  // What lies in SharedSpace is lent where it lies. A job that aborts ends, so that nothing needs to be held.
  bool lends(int one, int other) const { return one == other || end_->meet(end_->loans, one, other); }
  Place place_of(void const* memory) const { return detail::shared_blocks.place_of(memory); }
  std::byte* window(int channel, std::size_t bytes);
  std::byte* address_of(Place const& place);
  std::uint64_t lend(int /*channel*/) const { return 0; }
  bool hold(int /*channel*/, int /*rank*/, std::uint64_t /*number*/) const { return true; }
  void release(int /*channel*/, int /*rank*/) const noexcept {}
  void reclaim(int /*channel*/) const noexcept {}

 private:
  // A message in flight: bytes [begin, begin + bytes) of a block of `block` bytes, or part of a vendor's sum (peer -1).
  struct Message {
    MPI_Request request;
    int peer, bytes;
    std::size_t begin, block;
    bool receive;
  };

  // The operation in flight on one channel; `number` counts the channel's operations, `next` is looked at first.
  struct Lane {
    std::vector<Message> messages;
    std::size_t next = 0;
    std::uint64_t number = 0;
    bool busy = false;
  };

  // Letters between ranks that wait: questions and answers. Once one was written, one may be under way until the job ends.
  struct Watch {
    struct Letter {
      int asks;
      Status status;
    };
    Journal journal;
    bool used = false;
    std::vector<std::unique_ptr<Letter>> sent;  // MPI may read them until the job ends
    std::vector<std::optional<Status>> heard;   // by rank, since this rank asked
    std::vector<char> asked;
  };

  // What a communicator owns. Its address stays, so that a communicator may move while requests are in flight.
  struct Endpoint {
    Endpoint(MPI_Comm parent, MpiOptions const& given);
    Endpoint(Endpoint const&) = delete;
    Endpoint& operator=(Endpoint const&) = delete;
    ~Endpoint() { release(); }

    void duplicate(MPI_Comm parent);
    void agree();
    void meet_neighbours(MPI_Comm host, std::vector<int> here);
    static bool meet(std::vector<int> const& groups, int one, int other) {
      auto const group = groups[static_cast<std::size_t>(one)];
      return group >= 0 && group == groups[static_cast<std::size_t>(other)];
    }
    void release() noexcept;

    Lane& lane(int channel) { return lanes[static_cast<std::size_t>(channel)]; }
    void open(int channel, std::string_view operation);
    void start(int channel, Transfer const& transfer, int peer, bool receive);
    void start_message(int channel, Transfer const& transfer, int peer, bool receive);
    template <class T>
    void start_sum(int channel, MPI_Datatype type, T const* send, T* receive, std::size_t count);
    bool progress(int channel);
    bool progress_messages(int channel);
    int waiting_for(int channel) const;
    void withdraw(int channel) noexcept;
    std::optional<Status> status_of(int rank, bool& fresh);
    void answer();
    void write(int other, bool asks);

    void finish(Message const& message, int code, MPI_Status const& status) const;
    [[noreturn]] void disagree(int peer, std::string const& sent, std::size_t expected) const;
    void check(int code, std::string_view call, int peer = -1) const;
    [[noreturn]] void fail(Error const& error) const;
    [[noreturn]] void abort(std::string_view report) const;

    MpiOptions options;
    MPI_Comm comm = MPI_COMM_NULL;
    std::vector<MPI_Comm> sums;  // one per channel, for the vendor's all-reduce
    std::array<Lane, channels> lanes;
    std::vector<int> hosts;
    std::vector<int> blocks, loans;  // by rank: the first rank of those with whom it exchanges so through memory, or -1
    std::array<SharedBuffer<std::byte>, channels> windows;
    int rank = 0, size = 1, exceptions = std::uncaught_exceptions();
    Watch watch;
    std::unique_ptr<detail::Neighbours> neighbours;
    std::size_t messages = 0;  // in flight, on all lanes
    std::uint64_t tags_per_channel = 32768 / tags;
    bool oversubscribed = false;
  };

  template <class T>
  Request sum(int channel, MPI_Datatype type, T const* send, T* receive, std::size_t count);

  static constexpr int tags = channels + 1, letters = channels;  // a message's tag modulo `tags`: its channel, or a letter

  std::unique_ptr<Endpoint> end_;
};

// A move-only token on an operation in flight; does not outlive the communicator. Destroyed before `test` returned
// true, it cancels what has not begun, waits for the rest, and ends the job if that takes more than a second.
class MpiCommunicator::Request {
 public:
  Request() = default;
  Request(Request&& other) noexcept : end_{std::exchange(other.end_, nullptr)}, channel_{other.channel_} {}
  Request& operator=(Request&& other) noexcept {
    if (this != &other) {
      drop();
      end_ = std::exchange(other.end_, nullptr);
      channel_ = other.channel_;
    }
    return *this;
  }
  ~Request() { drop(); }

  bool test() {
    if (end_ && end_->progress(channel_)) end_ = nullptr;
    return !end_;
  }
  int waiting_for() const { return end_ ? end_->waiting_for(channel_) : -1; }

 private:
  friend class MpiCommunicator;
  Request(Endpoint* end, int channel) : end_{end}, channel_{channel} {}
  void drop() noexcept {
    if (end_) end_->withdraw(channel_);
    end_ = nullptr;
  }

  Endpoint* end_ = nullptr;
  int channel_ = 0;
};

// The host of every rank, for topologies of two hops. Local: the ranks told each other when `comm` was constructed.
inline std::vector<int> mpi_hosts(MpiCommunicator const& comm) { return comm.hosts(); }

// ---- below: how it is done ----

inline MpiCommunicator::Endpoint::Endpoint(MPI_Comm parent, MpiOptions const& given) : options{given} {
  auto const refuse = [](Errc code, std::string const& why) { throw Error{code, -1, "MpiCommunicator", "", why}; };
  if (!detail::mpi_is_usable())
    refuse(Errc::misuse, "MPI is not initialised, or finalised: call MPI_Init or own an MpiEnvironment");
  if (parent == MPI_COMM_NULL) refuse(Errc::invalid_argument, "the communicator is MPI_COMM_NULL");
  int inter = 0;
  MPI_Comm_test_inter(parent, &inter);
  if (inter) refuse(Errc::invalid_argument, "the communicator is an intercommunicator");
  if (options.largest_message < 1 || options.largest_message > std::size_t{std::numeric_limits<int>::max()})
    refuse(Errc::invalid_argument, "largest_message is " + std::to_string(options.largest_message));
  try {
    duplicate(parent);
    agree();
    watch.heard.resize(static_cast<std::size_t>(size));
    watch.asked.resize(static_cast<std::size_t>(size));
    if (options.order == SumOrder::vendor) {
      sums.assign(channels, MPI_COMM_NULL);
      for (MPI_Comm& sum : sums) check(MPI_Comm_dup(comm, &sum), "MPI_Comm_dup");
    }
  } catch (...) {
    release();
    throw;
  }
}

// The first meeting of the ranks: under the deadline, for one may never come.
inline void MpiCommunicator::Endpoint::duplicate(MPI_Comm parent) {
  MPI_Comm_rank(parent, &rank);
  MPI_Comm_size(parent, &size);
  detail::MpiErrorsAreReturned const returned;
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Comm_idup(parent, &comm, &request), "MPI_Comm_idup");
  double const begin = MPI_Wtime();
  for (int complete = 0;;) {
    check(MPI_Test(&request, &complete, MPI_STATUS_IGNORE), "MPI_Comm_idup");
    if (complete) break;
    if (MPI_Wtime() - begin > std::chrono::duration<double>{options.deadline}.count())
      detail::end_mpi_job(rank, "a rank did not construct its MpiCommunicator within the deadline");
    std::this_thread::yield();
  }
  check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
  int* limit = nullptr;
  int found = 0;
  check(MPI_Comm_get_attr(comm, MPI_TAG_UB, static_cast<void*>(&limit), &found), "MPI_Comm_get_attr");
  if (found) tags_per_channel = (static_cast<std::uint64_t>(*limit) + 1) / tags;
}

// Tells every rank who shares a host with whom, and finds options on which the ranks disagree.
inline void MpiCommunicator::Endpoint::agree() {
  struct Host {
    MPI_Comm comm = MPI_COMM_NULL;
    ~Host() {
      if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
    }
  } host;
  int ranks_here = 1;
  check(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host.comm), "MPI_Comm_split_type");
  MPI_Comm_size(host.comm, &ranks_here);
  std::vector<int> here(static_cast<std::size_t>(ranks_here));
  check(MPI_Allgather(&rank, 1, MPI_INT, here.data(), 1, MPI_INT, host.comm), "MPI_Allgather");
  unsigned const cores = std::thread::hardware_concurrency();
  oversubscribed = cores > 0 && static_cast<unsigned>(ranks_here) > cores;

  struct Facts {
    std::int64_t leader, order, largest_message, shared_memory;
  };
  Facts const mine{here[0], static_cast<std::int64_t>(options.order), static_cast<std::int64_t>(options.largest_message),
                   options.shared_memory};
  std::vector<Facts> all(static_cast<std::size_t>(size));
  check(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, comm), "MPI_Allgather");
  int next = 0;
  for (int other = 0; Facts const& facts : all) {
    if (facts.order != all[0].order || facts.largest_message != all[0].largest_message ||
        facts.shared_memory != all[0].shared_memory)
      throw Error{Errc::mismatch, other, "MpiCommunicator", "",
                  "rank " + std::to_string(other) + " was given another order, largest_message or shared_memory than rank 0"};
    hosts.push_back(facts.leader == other ? next++ : hosts[static_cast<std::size_t>(facts.leader)]);
    ++other;
  }
  meet_neighbours(host.comm, std::move(here));
}

// Which ranks exchange through memory, and which can also map each other's: all of a host, or none, and known everywhere.
inline void MpiCommunicator::Endpoint::meet_neighbours(MPI_Comm host, std::vector<int> here) {
  int groups[2] = {-1, -1};
  int const first = here[0];
  if (options.shared_memory && here.size() > 1) {
    neighbours = std::make_unique<detail::Neighbours>(host, std::move(here), rank, size);
    if (neighbours->has(first)) groups[0] = first;
    if (detail::reach_each_other(host)) groups[1] = first;
  }
  std::vector<int> all(2 * static_cast<std::size_t>(size));
  check(MPI_Allgather(groups, 2, MPI_INT, all.data(), 2, MPI_INT, comm), "MPI_Allgather");
  for (std::size_t i = 0; i < all.size(); i += 2) {
    blocks.push_back(all[i]);
    loans.push_back(all[i + 1]);
  }
}

inline void MpiCommunicator::Endpoint::release() noexcept {
  if (detail::mpi_job_is_ending || std::uncaught_exceptions() > exceptions || !detail::mpi_is_usable()) return;
  for (MPI_Comm& sum : sums)
    if (sum != MPI_COMM_NULL) MPI_Comm_free(&sum);
  if (comm == MPI_COMM_NULL || watch.used) return;
  int stray = 0;
  MPI_Status status;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &stray, &status);
  if (!stray) MPI_Comm_free(&comm);  // MPICH 5 ends the job over a message that nobody received
  auto const report = [&](int source, int channel) {
    std::fprintf(stderr, "parallax: rank %d was sent a block by rank %d on channel %d that it did not expect\n", rank, source,
                 channel);
  };
  if (stray) report(status.MPI_SOURCE, status.MPI_TAG % tags);
  if (!neighbours) return;
  if (auto const block = neighbours->stray(); block.rank >= 0) report(block.rank, block.channel);
}

inline void MpiCommunicator::Endpoint::check(int code, std::string_view call, int peer) const {
  if (code != MPI_SUCCESS) fail(detail::mpi_error(code, peer, call));
}

inline void MpiCommunicator::Endpoint::fail(Error const& error) const {
  detail::mpi_last_failure = error.what();
  throw error;
}

inline void MpiCommunicator::Endpoint::abort(std::string_view report) const { detail::end_mpi_job(rank, report); }

inline void MpiCommunicator::Endpoint::open(int channel, std::string_view operation) {
  auto const refuse = [&](Errc code, std::string const& why) {
    throw Error{code, rank, std::string{operation}, "", why + std::to_string(channel)};
  };
  if (channel < 0 || channel >= channels) refuse(Errc::invalid_argument, "there is no channel ");
  if (lane(channel).busy) refuse(Errc::misuse, "an operation is in flight on channel ");
  lane(channel).number += 1;
  lane(channel).next = 0;
  lane(channel).busy = true;
}

inline void MpiCommunicator::Endpoint::start(int channel, Transfer const& transfer, int peer, bool receive) {
  ByteRange const block = (receive ? transfer.from : transfer.to)[static_cast<std::size_t>(peer)];
  if (block.bytes == 0) return;
  if (!neighbours || !neighbours->has(peer)) return start_message(channel, transfer, peer, receive);
  std::uint64_t const number = lane(channel).number;
  if (receive) neighbours->receive(channel, number, peer, transfer.receive + block.offset, block.bytes);
  else neighbours->send(channel, number, peer, transfer.send + block.offset, block.bytes);
}

// A block travels as chunks of `largest_message` bytes and a last one that is smaller, even if empty: so two ranks that
// disagree on its size always meet at a message whose size gives it away. The tag carries the operation's number beside
// the channel, so that no message is ever taken for one of another operation.
inline void MpiCommunicator::Endpoint::start_message(int channel, Transfer const& transfer, int peer, bool receive) {
  int const tag = static_cast<int>(lane(channel).number % tags_per_channel) * tags + channel;
  ByteRange const block = (receive ? transfer.from : transfer.to)[static_cast<std::size_t>(peer)];
  for (std::size_t begin = 0; block.bytes > 0; begin += options.largest_message) {
    std::size_t const left = block.bytes - begin, offset = block.offset + begin;
    int const bytes = detail::mpi_count(std::min(left, options.largest_message));
    Message& message =
        lane(channel).messages.emplace_back(Message{MPI_REQUEST_NULL, peer, bytes, begin, block.bytes, receive});
    ++messages;
    int const code = receive ? MPI_Irecv(transfer.receive + offset, bytes, MPI_BYTE, peer, tag, comm, &message.request)
                             : MPI_Isend(transfer.send + offset, bytes, MPI_BYTE, peer, tag, comm, &message.request);
    check(code, "ialltoallv", peer);
    if (left < options.largest_message) break;
  }
}

template <class T>
void MpiCommunicator::Endpoint::start_sum(int channel, MPI_Datatype type, T const* send, T* receive, std::size_t count) {
  MPI_Comm const sum = sums[static_cast<std::size_t>(channel)];
  std::size_t const chunk = std::max<std::size_t>(1, options.largest_message / sizeof(T));
  for (std::size_t begin = 0; begin < count; begin += chunk) {
    int const part = detail::mpi_count(std::min(chunk, count - begin));
    Message& message = lane(channel).messages.emplace_back(Message{MPI_REQUEST_NULL, -1, 0, 0, 0, false});
    ++messages;
    void const* const from = send == receive ? MPI_IN_PLACE : send + begin;
    check(MPI_Iallreduce(from, receive + begin, part, type, MPI_SUM, sum, &message.request), "iallreduce");
  }
}

// Whatever is polled, all lanes are moved on: a peer may be waiting for another one.
inline bool MpiCommunicator::Endpoint::progress(int channel) {
  if (!lane(channel).busy) return true;
  if (neighbours)
    neighbours->progress([&](int peer, std::string const& sent, std::size_t expected) { disagree(peer, sent, expected); });
  if (!lane(channel).messages.empty()) {
    if (!progress_messages(channel)) return false;
  } else if (messages > 0) {
    int found = 0;
    check(MPI_Iprobe(MPI_ANY_SOURCE, letters, comm, &found, MPI_STATUS_IGNORE), "MPI_Iprobe");
  }
  if (neighbours && !neighbours->complete(channel)) return false;
  lane(channel).busy = false;
  return true;
}

// Every test of a message drives all of them; so a poll looks at a few of those that are missing, in turn.
inline bool MpiCommunicator::Endpoint::progress_messages(int channel) {
  constexpr int looks = 16;  // also at one message alone: the library moves more than that one on
  auto& [of_lane, next, number, busy] = lane(channel);
  detail::MpiErrorsAreReturned const returned;
  for (int missing = 0; !of_lane.empty();) {
    Message& message = of_lane[next];
    int complete = 0;
    MPI_Status status;
    int const code = MPI_Test(&message.request, &complete, &status);
    if (code == MPI_SUCCESS && !complete) {
      next = (next + 1) % of_lane.size();
      if (++missing >= looks) return false;
      continue;
    }
    Message const done = std::exchange(message, of_lane.back());
    of_lane.pop_back();
    --messages;
    if (next >= of_lane.size()) next = 0;
    finish(done, code, status);
  }
  return true;
}

inline void MpiCommunicator::Endpoint::disagree(int peer, std::string const& sent, std::size_t expected) const {
  fail({Errc::mismatch, peer, "ialltoallv", "",
        "rank " + std::to_string(peer) + " sent " + sent + " bytes where " + std::to_string(expected) +
            " were expected by rank " + std::to_string(rank)});
}

// Accepts a message that has ended, if it ended well and has the size that this rank expected.
inline void MpiCommunicator::Endpoint::finish(Message const& message, int code, MPI_Status const& status) const {
  if (code != MPI_SUCCESS) {
    int kind = MPI_ERR_OTHER;
    MPI_Error_class(code, &kind);
    if (kind == MPI_ERR_TRUNCATE && message.receive)
      disagree(message.peer, "more than " + std::to_string(message.block), message.block);
    check(code, message.peer < 0 ? "iallreduce" : "ialltoallv", message.peer);
  }
  if (!message.receive) return;
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  if (bytes != message.bytes)
    disagree(message.peer, std::to_string(message.begin + static_cast<std::size_t>(bytes)), message.block);
}

inline int MpiCommunicator::Endpoint::waiting_for(int channel) const {
  Lane const& lane = lanes[static_cast<std::size_t>(channel)];
  if (!lane.busy) return -1;
  if (int const peer = neighbours ? neighbours->waiting_for(channel) : -1; peer >= 0) return peer;
  if (lane.messages.empty()) return -1;
  auto const receive =
      std::find_if(lane.messages.begin(), lane.messages.end(), [](Message const& m) { return m.receive; });
  return receive != lane.messages.end() ? receive->peer : lane.messages.front().peer;
}

inline void MpiCommunicator::Endpoint::withdraw(int channel) noexcept {
  constexpr double patience = 1;  // seconds
  auto& [of_lane, next, number, busy] = lane(channel);
  if (!busy || detail::mpi_job_is_ending) return;
  detail::MpiErrorsAreReturned const returned;
  for (Message& message : of_lane)
    if (message.receive) MPI_Cancel(&message.request);
  if (neighbours) neighbours->withdraw(channel);
  for (double const begin = MPI_Wtime();; std::this_thread::yield()) {
    if (!of_lane.empty()) {
      int complete = 0;
      int const code = MPI_Test(&of_lane.back().request, &complete, MPI_STATUS_IGNORE);
      if (complete || code != MPI_SUCCESS) {
        of_lane.pop_back();
        --messages;
        continue;
      }
    }
    int const peer = !of_lane.empty() ? of_lane.back().peer : neighbours ? neighbours->untaken(channel) : -1;
    if (peer < 0) break;
    if (MPI_Wtime() - begin > patience)
      abort("an operation is given up while rank " + std::to_string(peer) + " may still use its memory");
    if (neighbours) neighbours->progress_sends();
  }
  busy = false;
}

// A rank that asks is about to give up: the letters of a job are few.
inline void MpiCommunicator::Endpoint::write(int other, bool asks) {
  watch.used = true;
  auto& letter = *watch.sent.emplace_back(std::make_unique<Watch::Letter>(Watch::Letter{asks, watch.journal.status()}));
  MPI_Request request = MPI_REQUEST_NULL;
  check(MPI_Isend(&letter, sizeof letter, MPI_BYTE, other, letters, comm, &request), "MPI_Isend", other);
  MPI_Request_free(&request);
}

inline void MpiCommunicator::Endpoint::answer() {
  detail::MpiErrorsAreReturned const returned;
  for (int found = 1; found;) {
    MPI_Status from;
    check(MPI_Iprobe(MPI_ANY_SOURCE, letters, comm, &found, &from), "MPI_Iprobe");
    if (!found) return;
    Watch::Letter letter;
    check(MPI_Recv(&letter, sizeof letter, MPI_BYTE, from.MPI_SOURCE, letters, comm, MPI_STATUS_IGNORE), "MPI_Recv");
    watch.used = true;
    watch.heard[static_cast<std::size_t>(from.MPI_SOURCE)] = letter.status;
    if (letter.asks) write(from.MPI_SOURCE, false);
  }
}

inline std::optional<Status> MpiCommunicator::Endpoint::status_of(int other, bool& fresh) {
  if (other == rank) return watch.journal.status();
  auto const at = static_cast<std::size_t>(other);
  if (!std::exchange(watch.asked[at], 1)) {
    watch.heard[at].reset();
    write(other, true);
  }
  fresh = watch.heard[at].has_value();
  return watch.heard[at];
}

inline std::byte* MpiCommunicator::window(int channel, std::size_t bytes) {
  auto& window = end_->windows[static_cast<std::size_t>(channel)];
  window.resize_with_slack(bytes);
  return window.data();
}

inline std::byte* MpiCommunicator::address_of(Place const& place) {
  std::byte* const memory = detail::shared_blocks.address_of(place);
  if (!memory)
    end_->fail({Errc::transport, rank(), "lending", "",
                std::to_string(place.bytes) + " bytes of process " + std::to_string(place.process) + " cannot be mapped"});
  return memory;
}

inline std::chrono::nanoseconds MpiCommunicator::now() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>{MPI_Wtime()});
}

inline MpiCommunicator::Request MpiCommunicator::ialltoallv(int channel, Transfer const& transfer) {
  auto const ranks = static_cast<std::size_t>(size()), self = static_cast<std::size_t>(rank());
  if (transfer.to.size() != ranks || transfer.from.size() != ranks)
    throw Error{Errc::invalid_argument, rank(), "ialltoallv", "", "the lists of blocks need one entry per rank"};
  ByteRange const out = transfer.to[self], in = transfer.from[self];
  if (out.bytes != in.bytes)
    throw Error{Errc::mismatch, rank(), "ialltoallv", "",
                "rank " + std::to_string(rank()) + " sends " + std::to_string(out.bytes) +
                    " bytes to itself but expects " + std::to_string(in.bytes)};
  end_->open(channel, "ialltoallv");
  Request request{end_.get(), channel};
  for (int k = 1; k < size(); ++k) end_->start(channel, transfer, (rank() - k + size()) % size(), true);
  for (int k = 1; k < size(); ++k) end_->start(channel, transfer, (rank() + k) % size(), false);
  if (out.bytes) std::memmove(transfer.receive + in.offset, transfer.send + out.offset, out.bytes);
  return request;
}

template <class T>
MpiCommunicator::Request MpiCommunicator::sum(int channel, MPI_Datatype type, T const* send, T* receive, std::size_t count) {
  if (sum_order() != SumOrder::vendor)
    throw Error{Errc::misuse, rank(), "iallreduce", "",
                "the communicator was constructed with another order than vendor"};
  end_->open(channel, "iallreduce");
  Request request{end_.get(), channel};
  end_->start_sum(channel, type, send, receive, count);
  return request;
}

inline MpiCommunicator::Request MpiCommunicator::iallreduce(int channel, float const* send, float* receive, std::size_t count) {
  return sum(channel, MPI_FLOAT, send, receive, count);
}
inline MpiCommunicator::Request MpiCommunicator::iallreduce(int channel, double const* send, double* receive,
                                                            std::size_t count) {
  return sum(channel, MPI_DOUBLE, send, receive, count);
}

static_assert(BareAllreduce<MpiCommunicator> && KeepsJournals<MpiCommunicator> && VendorAllreduce<MpiCommunicator> &&
              OwnClock<MpiCommunicator> && KnowsOversubscription<MpiCommunicator> && LendsMemory<MpiCommunicator>);

}  // namespace parallax
