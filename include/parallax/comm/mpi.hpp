// Ranks as MPI processes: trainers call `run_mpi`, or make an MpiCommunicator if MPI runs already. Blocks are non-blocking
// messages, or go through shared memory within a host; they are polled under a deadline from the main thread.
#pragma once

#include <mpi.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/core/clock.hpp"
#include "parallax/detail/core/function_ref.hpp"
#include "parallax/detail/core/pointer.hpp"
#include "parallax/detail/launch/entrances.hpp"
#include "parallax/detail/launch/guard.hpp"
#include "parallax/detail/transport/mpi/endpoint.hpp"
#include "parallax/detail/transport/mpi/job.hpp"

namespace parallax::inline v0_2 {

// Runs `body(MpiCommunicator&)` on this rank of the job, and returns the process's exit status: the result of `body` if an int,
// else 0; `mpi_abort_code` if a session was left without `finish`. Initialises and finalises MPI, unless it was initialised
// before. When a rank leaves by an exception, its words, with the rank, are the last line of the program on stderr, and the job
// ends with `mpi_abort_code`, all ranks with it. So it does, before `body` runs, with an Error (misuse) if MPI_COMM_WORLD is
// smaller than the number launched (detail/launch/guard.hpp). Throws Error (transport) if MPI cannot be initialised.
//   int main(int argc, char** argv) {
//     return px::run_mpi(argc, argv, [](px::MpiCommunicator& world) { … });
//   }
template <class Body>
int run_mpi(int& argc, char**& argv, Body&& body, MpiOptions options = {});

// One rank's end of a private duplicate of a user's MPI communicator. Owns the duplicate; move-only, also while operations are
// in flight. MPI must be initialised (any thread level), every call comes from its main thread.
//   constructing   collective over `comm`. A rank missing at the deadline ends the job. All options but the
//                  deadline must be the same on all ranks (Error mismatch)
//   destroying     frees the duplicate, unless MPI is finalised, the job is ending or an exception is unwinding; reports
//                  on stderr a block expected by no operation
//   abort          reports on stderr and ends the whole job with `mpi_abort_code`, within a second; returns only if the
//                  reason is an exception leaving (Errc::aborted), so that its handler can speak: destroy it then
// Ranks in disagreement: a block of another size than expected is a mismatch at the receiver. A block known only to the
// receiver is waited for until the deadline, or, through shared memory, until the sender's next operation on the channel, and
// is a mismatch then; one known only to the sender is reported when the communicator is destroyed, or, if it is large, waited
// for by the sender until the deadline. Neither is ever taken for another operation's.
class MpiCommunicator {
 public:
  // A move-only token on an operation in flight; does not outlive the communicator. Destroyed before `test` returned true, it
  // cancels the messages not begun, waits for the rest, and ends the job after more than a second of it. `test` moves on all
  // operations of this rank, and throws Error: mismatch, transport. `waiting_for` returns a rank still to deliver, else one
  // still to take.
  using Request = detail::InFlight<detail::MpiEndpoint>;
  // Memory allocated here is within reach of the host's ranks, in place.
  using lent_space = SharedSpace;

  // Collective over all ranks of the job, with the options as they are by default. Throws the errors of the other constructor.
  MpiCommunicator() : MpiCommunicator{MPI_COMM_WORLD} {}
  // Collective over `comm`, which stays the caller's: waits for all its ranks. Throws Error: misuse if MPI is not usable,
  // invalid_argument for a null communicator, an intercommunicator or an option out of bounds, mismatch, transport.
  explicit MpiCommunicator(MPI_Comm comm, MpiOptions options = {});

  // Returns this rank's number, as in `comm`.
  int rank() const { return end_->rank; }
  // Returns the number of ranks of `comm`.
  int size() const { return end_->size; }
  // Returns the longest wait, as the options have it: 60 s by default.
  std::chrono::nanoseconds deadline() const { return end_->options.deadline; }
  // Returns MPI_Wtime; its clock need not be the one of other ranks.
  std::chrono::nanoseconds now() const;
  // Returns true if this host has more ranks than hardware threads; waiting then yields at once.
  bool oversubscribed() const { return end_->oversubscribed; }
  bool serialized() const;  // MPI_THREAD_SERIALIZED or more
  // Returns true if blocks between two ranks go through memory: of one rank, or of one host if memory can be shared there.
  bool shares_memory(int one, int other) const { return one == other || end_->meet(one, other); }
  // Returns the order of sums, as the options have it: `fixed` by default.
  SumOrder sum_order() const { return end_->options.order; }

  // Returns the host of every rank, by rank; hosts are numbered from 0 in the order of their first rank.
  std::vector<int> const& hosts() const { return end_->hosts; }

  // Collective on a channel. Posts the receives, then the sends; the rank's own block is copied at once. Error:
  // invalid_argument for lists of another length than `size` and for channels out of range, misuse for a busy channel,
  // mismatch, transport.
  Request ialltoallv(int channel, Transfer const& transfer);

  // Collective on a channel. Posts a sum by MPI_Iallreduce, in place if `send` is `receive`; nothing is checked: all ranks must
  // name the same count and type. Throws Error (misuse) unless constructed with order = vendor, or for a busy channel.
  Request iallreduce(int channel, float const* send, float* receive, std::size_t count);
  // Posts a sum of doubles, as the overload for floats.
  Request iallreduce(int channel, double const* send, double* receive, std::size_t count);

  // Collective. Returns an object that sums, over a duplicate of its own, for steps checked once. Throws Error (transport).
  MpiBareSums bare() { return MpiBareSums{end_->comm}; }

  // Local. Ends the job, and mostly does not return: see the class. The rank at fault speaks first.
  void abort(Error const& reason);

  // Letters have a duplicate of their own, and are MPI's messages also within a host.
  // Returns the most requests from one rank to another not yet taken, as the options say.
  int window() const { return end_->mailbox.bounds().window; }
  // Returns the most bytes of a letter, as the options say.
  std::size_t largest() const { return end_->mailbox.bounds().largest; }
  // Local. Posts a letter: see Mailbox. A request goes by MPI_Issend, and counts in the window until its receiver has begun to
  // take the letter. Throws Error: invalid_argument, transport.
  bool post(LetterLane lane, int to, LetterParts parts) { return end_->mailbox.post(lane, to, parts); }
  // Local. Takes a letter: see Mailbox. Moves MPI on, also if no letter is there. Throws Error: invalid_argument, transport.
  bool take(LetterLane lane, int from, Letter& letter) { return end_->mailbox.take(lane, from, letter); }

  // Returns this rank's journal, owned by this object; peers ask for it by letters. A rank not waiting does not answer.
  Journal& journal() { return end_->journals.journal; }
  // Local. Asks that rank by a letter; a later call returns its answer, with `fresh` true, or its pause. Nothing before that.
  std::optional<RankStatus> status_of(int rank, bool& fresh) { return end_->journals.status_of(rank, fresh); }
  // Local. Takes in arrived questions and answers, and answers the questions.
  void answer() { end_->journals.answer(); }
  // Local. Writes a letter to every other rank; waits up to a second for the letters to be gone.
  void announce() { end_->journals.announce(); }
  // Local. Takes in arrived letters; returns the longest pause announced by other ranks and not ended, 0 for none.
  std::chrono::nanoseconds longest_pause() const { return end_->journals.longest_pause(); }

  // Memory in SharedSpace is lent in place. An aborting job ends, so nothing needs to be held.
  // Returns true if both are one, or of a host with ranks able to map each other's blocks.
  bool lends(int one, int other) const { return one == other || end_->meet(one, other); }
  // Local. Returns the place of memory in SharedSpace; one with id 0 for any other.
  Place place_of(void const* memory) const { return detail::shared_blocks.place_of(memory); }
  // Local. Returns so many bytes of the channel's own in SharedSpace, until it grows. Throws Error (out_of_memory).
  std::byte* window(int channel, std::size_t bytes);
  // Local. Returns the address here of a peer's memory; maps its block when it is first asked for. Throws Error (transport).
  std::byte* address_of(Place const& place);
  // Returns 0: loans are not told apart.
  std::uint64_t lend(int /*channel*/) const { return 0; }
  // Returns true: lent memory stays until the operation is complete, or the job ends.
  bool hold(int /*channel*/, int /*rank*/, std::uint64_t /*number*/) const { return true; }
  // Does nothing, as `hold` notes nothing.
  void release(int /*channel*/, int /*rank*/) const noexcept {}
  // Returns at once: nobody holds anything.
  void reclaim(int /*channel*/) const noexcept {}

 private:
  // Does the work of both overloads of `iallreduce`.
  template <class T>
  Request sum(int channel, MPI_Datatype type, T const* send, T* receive, std::size_t count);

  // On the heap, as requests refer to it and this object may move.
  Owned<detail::MpiEndpoint> end_;
};

// Returns the host of every rank, for topologies of two hops. Local: the ranks told each other when `comm` was constructed.
std::vector<int> mpi_hosts(MpiCommunicator const& comm);

// ---- below: how it is done ----

template <class T>
MpiCommunicator::Request MpiCommunicator::sum(int channel, MPI_Datatype type, T const* send, T* receive, std::size_t count) {
  if (sum_order() != SumOrder::vendor)
    throw Error{Errc::misuse, rank(), "iallreduce", "", "the communicator was constructed with another order than vendor"};
  end_->open(channel, "iallreduce");
  Request request{end_.get(), channel};
  end_->messages.sum(channel, end_->sums[static_cast<std::size_t>(channel)], type, send, receive, count);
  return request;
}

static_assert(BareAllreduce<MpiCommunicator> && AnnouncesPauses<MpiCommunicator> && VendorAllreduce<MpiCommunicator> &&
              OwnClock<MpiCommunicator> && KnowsOversubscription<MpiCommunicator> && LendsMemory<MpiCommunicator> &&
              Mailbox<MpiCommunicator>);

namespace detail {

// Does the work of run_mpi, by a body's address. `guarded`: the number launched is compared with the number joined.
int run_mpi_rank(int& argc, char**& argv, FunctionRef<int(MpiCommunicator&)> body, MpiOptions const& options, bool guarded);

// Joins by MPI as an entrance of `run`: calls the body on this rank, and returns the exit code. Ends the job as run_mpi does.
int join_mpi(int& argc, char**& argv, RunOptions const& options, FunctionRef<int(JoinedWorld&)> body);
// Returns the value of the first launcher's variable found, of PMI (MPICH's mpiexec, srun), PMIx and Open MPI; else null.
char const* mpi_claims(Environment variable);
// Returns MPI's name and version in its own words, also before it is initialised.
std::string mpi_library();
inline constinit Entrance mpi_entrance{
    .name = "MPI", .precedence = 10, .claims = mpi_claims, .join = join_mpi, .library = mpi_library};
inline bool const mpi_entrance_is_known = add_entrance(mpi_entrance);

}  // namespace detail

template <class Body>
int run_mpi(int& argc, char**& argv, Body&& body, MpiOptions options) {
  auto const call = [&](MpiCommunicator& world) { return detail::exit_code_of(body, world); };
  return detail::run_mpi_rank(argc, argv, call, options, true);
}

}  // namespace parallax

#if !defined(PARALLAX_COMPILED_MPI)
#include "parallax/detail/transport/mpi-inl.hpp"
#endif
