// Blocks and vendors' sums on their way as MPI's messages, by channel: an MpiEndpoint owns one, for ranks that share no memory.
// And MPI's own all-reduce alone: made by `MpiCommunicator::bare`, for steps that are checked once.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/transport/mpi/job.hpp"

namespace parallax::inline v0_2::detail {

// The tag of a message modulo this many is its channel.
inline constexpr int mpi_tags = channels;

// Messages of one rank, by channel. Owns no communicator and no block. Local, and never waits. MPI's errors: Error (transport).
class MpiMessages {
 public:
  // Joins `comm`, once, before anything else, with the same `largest` on all ranks: bytes; larger blocks go in chunks.
  void join(MPI_Comm comm, std::size_t largest);

  // Starts to send a block of the channel's operation `number`. The memory must stay until the channel has no messages left.
  void send(int channel, std::uint64_t number, int peer, std::byte const* from, std::size_t bytes);
  // Starts to receive a block of that operation. Its memory must stay until the channel has no messages left.
  void receive(int channel, std::uint64_t number, int peer, std::byte* to, std::size_t bytes);
  // Collective over `ranks`, the channel's own. Starts a sum by MPI_Iallreduce; `from` may be `to`. Memory stays as for `send`.
  template <class T>
  void sum(int channel, MPI_Comm ranks, MPI_Datatype type, T const* from, T* to, std::size_t count) {
    std::size_t const chunk = std::max<std::size_t>(1, largest_ / sizeof(T));
    for (std::size_t begin = 0; begin < count; begin += chunk) {
      int const part = mpi_count(std::min(chunk, count - begin));
      void const* const addend = from == to ? MPI_IN_PLACE : from + begin;
      mpi_check(MPI_Iallreduce(addend, to + begin, part, type, MPI_SUM, ranks, add(channel, {})), "iallreduce");
    }
  }

  bool any() const { return in_flight_ > 0; }  // on any channel
  // Returns true if the channel has no messages in flight.
  bool none(int channel) const { return of(channel).messages.empty(); }

  // Returns true once none of the channel's messages is in flight. Throws Error: mismatch for one of another size, transport.
  // Every test of a message drives all of them; so a poll looks at a few missing ones, in turn.
  bool progress(int channel);
  // Returns a rank whose message is missing, else one that has not taken a message; -1 without any, or for a sum.
  int waiting_for(int channel) const;

  // Cancels the receipt of all messages of the channel that have not begun to come.
  void cancel(int channel) noexcept;
  // Forgets the channel's messages up to one that has not ended, in any way. Returns that one's peer; -1 for none, or a sum.
  int forget(int channel) noexcept;

  // Throws Error (mismatch). `sent`: the size of the peer's block, in words; `expected`: bytes, by this rank.
  [[noreturn]] void disagree(int peer, std::string const& sent, std::size_t expected) const;

 private:
  // Bytes [begin, begin + bytes) of a block of `block` bytes, or part of a sum (peer -1).
  struct Message {
    MPI_Request request = MPI_REQUEST_NULL;
    int peer = -1, bytes = 0;
    std::size_t begin = 0, block = 0;
    bool receive = false;
  };
  // The messages of one channel, in no certain order.
  struct ChannelState {
    List<Message> messages;
    std::size_t next = 0;  // is looked at first
  };
  // Returns a channel's state; the endpoint has checked the channel.
  ChannelState& of(int channel) { return states_[static_cast<std::size_t>(channel)]; }
  ChannelState const& of(int channel) const { return states_[static_cast<std::size_t>(channel)]; }

  // Notes a message before it is started. Returns the place of its request, good until the channel's next one is noted.
  MPI_Request* add(int channel, Message const& message);

  // Notes the chunks of a block, and starts each by a call of `start`: of `largest` bytes each, and a last one that is smaller,
  // even if empty. So two ranks that disagree on the block's size always meet at a message whose size gives it away. The tag
  // carries the operation's number beside the channel, so no message is ever taken for one of another operation.
  template <class Start>
  void each_chunk(int channel, std::uint64_t number, int peer, std::size_t block, bool receive, Start&& start) {
    int const tag = static_cast<int>(number % tags_per_channel_) * mpi_tags + channel;
    for (std::size_t begin = 0; block > 0; begin += largest_) {
      std::size_t const left = block - begin;
      int const bytes = mpi_count(std::min(left, largest_));
      MPI_Request* const request = add(channel, {MPI_REQUEST_NULL, peer, bytes, begin, block, receive});
      mpi_check(start(begin, bytes, tag, request), "ialltoallv", peer);
      if (left < largest_) break;
    }
  }

  // Accepts an ended message. Throws Error: transport if it failed, mismatch if it has another size than this rank expects.
  void finish(Message const& message, int code, MPI_Status const& status) const;

  MPI_Comm comm_ = MPI_COMM_NULL;
  std::size_t largest_ = 1;
  int rank_ = 0;
  // Operations of a channel with different tags, by MPI's largest tag: after so many, tags come again.
  std::uint64_t tags_per_channel_ = 32768 / mpi_tags;
  std::array<ChannelState, channels> states_;
  std::size_t in_flight_ = 0;
};

}  // namespace parallax::detail

namespace parallax::inline v0_2 {

// MPI's own all-reduce and nothing else: no channels, no deadline, no chunks. After a failure MPI ends the job. Owns a
// duplicate of the communicator; move-only.
class MpiBareSums {
 public:
  // Of a sum in flight: the caller's, and null again once `test` was true.
  using Request = MPI_Request;

  // Collective over `comm`, which stays the caller's. Duplicates it. Throws Error (transport).
  explicit MpiBareSums(MPI_Comm comm);
  // Takes the duplicate over; `other` is only to be destroyed. Not while a sum is in flight.
  MpiBareSums(MpiBareSums&& other) noexcept : comm_{std::exchange(other.comm_, MPI_COMM_NULL)} {}
  MpiBareSums& operator=(MpiBareSums&&) = delete;
  ~MpiBareSums();

  // Collective. Posts a sum of `count` elements, at most INT_MAX. `send` and `receive`, apart, stay until `test` is true.
  void iallreduce(float const* send, float* receive, std::size_t count, Request& request) {
    MPI_Iallreduce(send, receive, static_cast<int>(count), MPI_FLOAT, MPI_SUM, comm_, &request);
  }
  // Posts a sum of doubles, with the same rules as the overload for floats.
  void iallreduce(double const* send, double* receive, std::size_t count, Request& request) {
    MPI_Iallreduce(send, receive, static_cast<int>(count), MPI_DOUBLE, MPI_SUM, comm_, &request);
  }
  // Local. Returns true if the sum is complete; `request` is then null. Does not wait.
  static bool test(Request& request);

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace parallax

#if !defined(PARALLAX_COMPILED_MPI)
#include "parallax/detail/transport/mpi/messages-inl.hpp"
#endif
