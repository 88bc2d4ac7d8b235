// An MPI rank's means of communication: a duplicate of the user's communicator, and the ranks near. MpiCommunicator owns one.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/core/clock.hpp"
#include "parallax/detail/core/cores.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/pointer.hpp"
#include "parallax/detail/transport/host/memory.hpp"
#include "parallax/detail/transport/host/neighbours.hpp"
#include "parallax/detail/transport/mpi/job.hpp"
#include "parallax/detail/transport/mpi/mailbox.hpp"
#include "parallax/detail/transport/mpi/messages.hpp"
#include "parallax/memory/shared.hpp"

namespace parallax::inline v0_2 {

// Options of an MpiCommunicator. All but the deadline must be the same on all ranks.
struct MpiOptions {
  // Longest wait, before an Error (timeout), and longest delay of a rank at the construction, before the job's end.
  std::chrono::nanoseconds deadline = std::chrono::seconds{60};
  SumOrder order = SumOrder::fixed;                    // vendor: MPI's own all-reduce, on one more communicator per channel
  std::size_t largest_message = std::size_t{1} << 30;  // bytes; larger ones travel in chunks. At most INT_MAX
  bool shared_memory = true;                           // within a host; if there is none, messages
  MailboxBounds mailbox = {};                          // `largest` at most INT_MAX
};

namespace detail {

// The meeting of the ranks of `host`, a communicator of the caller's, by MPI's collectives. Throws Error (transport).
class MpiHostMeeting final : public HostMeeting {
 public:
  explicit MpiHostMeeting(MPI_Comm host) : host_{host} {}
  List<Place> gather(Place const& mine) override {
    int ranks = 0;
    MPI_Comm_size(host_, &ranks);
    List<Place> all(static_cast<std::size_t>(ranks));
    mpi_check(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, host_), "MPI_Allgather");
    return all;
  }
  bool all(bool mine) override {
    int all = mine;
    mpi_check(MPI_Allreduce(MPI_IN_PLACE, &all, 1, MPI_INT, MPI_MIN, host_), "MPI_Allreduce");
    return all != 0;
  }

 private:
  MPI_Comm host_;
};

// Endpoint of a rank; owns its communicators. Its address stays, so a communicator may move while requests are in flight.
struct MpiEndpoint {
  // Collective over `parent`, the caller's: waits for its ranks; one missing at the deadline ends the job. Throws Error: misuse
  // without a usable MPI, invalid_argument for a wrong communicator or option, mismatch if options differ, transport.
  MpiEndpoint(MPI_Comm parent, MpiOptions const& given);
  MpiEndpoint(MpiEndpoint&&) = delete;
  ~MpiEndpoint();

  // Opens an operation on a channel, and then the caller starts its blocks and polls. Throws Error: invalid_argument for no
  // channel, misuse for one in use or in a forked child. Does not return if the job is ending. `operation`: named in errors.
  void open(int channel, std::string_view operation);
  // Starts a block to a peer, or the receipt of one: through memory, or by messages with other hosts. The block's memory must
  // stay until the operation is complete or withdrawn. Throws Error (transport).
  void send(int channel, int peer, std::byte const* from, std::size_t bytes);
  void receive(int channel, int peer, std::byte* to, std::size_t bytes);
  // Moves on everything, without waiting. Returns true once the channel's operation is complete: then the channel is free.
  // Throws Error: mismatch for a block of another size or missing, transport.
  bool progress(int channel);
  // Returns a rank that has not delivered on the channel or not taken this rank's block, one of this host first; or -1.
  int waiting_for(int channel) const;
  // Cancels the channel's operation. Waits at most a second for peers that still use its memory; then ends the job.
  void withdraw(int channel) noexcept;

  // Returns true if two ranks exchange through memory, and may lend to each other: the same on every rank.
  bool meet(int one, int other) const;

  MpiOptions options;
  MPI_Comm comm = MPI_COMM_NULL, letters = MPI_COMM_NULL;  // of blocks, and of both kinds of letters
  List<MPI_Comm> sums;                                     // one per channel, for the vendor's all-reduce
  std::vector<int> hosts;                                  // by rank: its host, numbered from 0 by the hosts' first ranks
  List<int> groups;                                        // by rank: the first rank of its group of shared memory, or -1
  std::array<SharedBuffer<std::byte>, channels> windows;   // by channel: a window for loans of memory out of peers' reach
  // In `comm`; and how many exceptions were unwinding when it was made.
  int rank = 0, size = 1, exceptions = std::uncaught_exceptions();
  MpiMailbox mailbox;
  MpiJournals journals;
  MpiMessages messages;
  // Null if no other rank of the host exchanges through memory.
  Owned<HostMemory> memory;
  Owned<Neighbours> neighbours;
  bool oversubscribed = false;  // the host has more ranks than hardware threads

 private:
  struct ChannelState {
    std::uint64_t number = 0;  // of the channel's operations
    bool busy = false;
  };
  // Returns a channel's state; `open` has checked the channel.
  ChannelState& state(int channel) { return states[static_cast<std::size_t>(channel)]; }
  // Returns true if blocks to and from that rank go through memory.
  bool near(int peer) const { return neighbours && neighbours->has(peer); }

  // Collective over `parent`. Duplicates it. Throws Error (transport); ends the job if a rank is missing at the deadline.
  void duplicate(MPI_Comm parent);
  // Collective over the duplicate. Finds the hosts, and compares the options. Throws Error: mismatch if they differ, transport.
  void agree();
  // Collective over the duplicate, and over `host`, of the ranks `here`. Finds the neighbours. Throws Error (transport).
  void meet_neighbours(MPI_Comm host, List<int> here);
  // Frees the duplicates, except those with messages perhaps still under way, and reports unexpected blocks.
  void release() noexcept;

  std::array<ChannelState, channels> states;
};

}  // namespace detail
}  // namespace parallax

#if !defined(PARALLAX_COMPILED_MPI)
#include "parallax/detail/transport/mpi/endpoint-inl.hpp"
#endif
