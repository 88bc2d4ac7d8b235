// Bodies of parallax/detail/transport/mpi/endpoint.hpp.
#pragma once

#include "parallax/detail/transport/mpi/endpoint.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE MpiEndpoint::MpiEndpoint(MPI_Comm parent, MpiOptions const& given) : options{given} {
  if (mpi_job_is_ending) MpiEnd::await();
  auto const refuse = [](Errc code, std::string const& why) { throw Error{code, -1, "MpiCommunicator", "", why}; };
  if (!mpi_is_usable()) refuse(Errc::misuse, "MPI is not initialised, or finalised: call MPI_Init or own an MpiEnvironment");
  if (parent == MPI_COMM_NULL) refuse(Errc::invalid_argument, "the communicator is MPI_COMM_NULL");
  int inter = 0;
  MPI_Comm_test_inter(parent, &inter);
  if (inter) refuse(Errc::invalid_argument, "the communicator is an intercommunicator");
  if (options.largest_message < 1 || options.largest_message > std::size_t{std::numeric_limits<int>::max()})
    refuse(Errc::invalid_argument, "largest_message is " + std::to_string(options.largest_message));
  check_bounds(options.mailbox, std::size_t{std::numeric_limits<int>::max()}, "MpiCommunicator");
  try {
    duplicate(parent);
    agree();
    mpi_check(MPI_Comm_dup(comm, &letters), "MPI_Comm_dup");  // here, for it takes all ranks, and a letter only one
    mpi_check(MPI_Comm_set_errhandler(letters, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    mailbox.join(letters, 0, options.mailbox);
    journals.join(letters, 2, options.deadline);
    messages.join(comm, options.largest_message);
    if (options.order == SumOrder::vendor) {
      sums.assign(channels, MPI_COMM_NULL);
      for (MPI_Comm& sum : sums) mpi_check(MPI_Comm_dup(comm, &sum), "MPI_Comm_dup");
    }
  } catch (...) {
    release();
    throw;
  }
}

PARALLAX_INLINE MpiEndpoint::~MpiEndpoint() { release(); }

PARALLAX_INLINE bool MpiEndpoint::meet(int one, int other) const {
  auto const group = groups[static_cast<std::size_t>(one)];
  return group >= 0 && group == groups[static_cast<std::size_t>(other)];
}

// Collective. Meets the ranks for the first time; one missing at the deadline ends the job. Throws Error (transport).
PARALLAX_INLINE void MpiEndpoint::duplicate(MPI_Comm parent) {
  MPI_Comm_rank(parent, &rank);
  MPI_Comm_size(parent, &size);
  MpiErrorsAreReturned const returned;
  MPI_Request request = MPI_REQUEST_NULL;
  mpi_check(MPI_Comm_idup(parent, &comm, &request), "MPI_Comm_idup");
  double const begin = MPI_Wtime();
  for (int complete = 0;;) {
    mpi_check(MPI_Test(&request, &complete, MPI_STATUS_IGNORE), "MPI_Comm_idup");
    if (complete) break;
    if (MPI_Wtime() - begin > std::chrono::duration<double>{options.deadline}.count())
      MpiEnd::now(rank, "a rank did not construct its MpiCommunicator within the deadline");
    rest();
  }
  mpi_check(MPI_Comm_set_errhandler(comm, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
}

// Collective. Tells every rank the ranks of each host. Throws Error: mismatch if ranks have different options, transport.
PARALLAX_INLINE void MpiEndpoint::agree() {
  struct Host {
    MPI_Comm comm = MPI_COMM_NULL;
    ~Host() {
      if (comm != MPI_COMM_NULL) MPI_Comm_free(&comm);
    }
  } host;
  int ranks_here = 1;
  mpi_check(MPI_Comm_split_type(comm, MPI_COMM_TYPE_SHARED, rank, MPI_INFO_NULL, &host.comm), "MPI_Comm_split_type");
  MPI_Comm_size(host.comm, &ranks_here);
  struct OneHere {
    CoreSet cores = CoreSet::own();  // often of its own: launchers bind ranks
    std::int64_t rank = 0;
  };
  OneHere own;
  own.rank = rank;
  List<OneHere> all_here(static_cast<std::size_t>(ranks_here));
  mpi_check(MPI_Allgather(&own, sizeof own, MPI_BYTE, all_here.data(), sizeof own, MPI_BYTE, host.comm), "MPI_Allgather");
  List<int> here;
  CoreSet cores;
  for (OneHere const& one : all_here) here.push_back(static_cast<int>(one.rank)), cores.add(one.cores);
  oversubscribed = outnumber(ranks_here, usable_cores(cores));

  struct Facts {
    std::int64_t leader, order, largest_message, shared_memory, window, largest_letter;
  };
  Facts const mine{here[0],
                   static_cast<std::int64_t>(options.order),
                   static_cast<std::int64_t>(options.largest_message),
                   options.shared_memory,
                   options.mailbox.window,
                   static_cast<std::int64_t>(options.mailbox.largest)};
  List<Facts> all(static_cast<std::size_t>(size));
  mpi_check(MPI_Allgather(&mine, sizeof mine, MPI_BYTE, all.data(), sizeof mine, MPI_BYTE, comm), "MPI_Allgather");
  int next = 0;
  for (int other = 0; Facts const& facts : all) {
    if (facts.order != all[0].order || facts.largest_message != all[0].largest_message ||
        facts.shared_memory != all[0].shared_memory || facts.window != all[0].window ||
        facts.largest_letter != all[0].largest_letter)
      throw Error{Errc::mismatch, other, "MpiCommunicator", "",
                  joined({"rank ", other, " was given another order, largest_message, shared_memory or mailbox than rank 0"})};
    hosts.push_back(facts.leader == other ? next++ : hosts[static_cast<std::size_t>(facts.leader)]);
    ++other;
  }
  meet_neighbours(host.comm, std::move(here));
}

// Collective. Finds the ranks with shared memory: all of a host, or none, and known everywhere. Throws Error (transport).
PARALLAX_INLINE void MpiEndpoint::meet_neighbours(MPI_Comm host, List<int> here) {
  int group = -1;
  if (options.shared_memory && here.size() > 1) {
    std::size_t self = 0;
    while (here[self] != rank) ++self;
    MpiHostMeeting meeting{host};
    memory = make_owned<HostMemory>(meeting, self, Neighbours::memory_bytes(here.size()));
    if (memory->data()) {
      group = here[0];
      neighbours = make_owned<Neighbours>(memory->data(), std::move(here), rank, size);
    }
  }
  groups.resize(static_cast<std::size_t>(size));
  mpi_check(MPI_Allgather(&group, 1, MPI_INT, groups.data(), 1, MPI_INT, comm), "MPI_Allgather");
}

PARALLAX_INLINE void MpiEndpoint::release() noexcept {
  if (mpi_job_is_ending || std::uncaught_exceptions() > exceptions || !mpi_is_usable()) return;
  for (MPI_Comm& sum : sums)
    if (sum != MPI_COMM_NULL) MPI_Comm_free(&sum);
  if (letters != MPI_COMM_NULL && !mailbox.used() && !journals.used()) MPI_Comm_free(&letters);
  if (comm == MPI_COMM_NULL) return;
  int stray = 0;
  MPI_Status status;
  MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm, &stray, &status);
  if (!stray) MPI_Comm_free(&comm);  // MPICH 5 ends the job over an unreceived message
  auto const report = [&](int source, int channel) {
    std::fprintf(stderr, "parallax: rank %d was sent a block by rank %d on channel %d that it did not expect\n", rank, source,
                 channel);
  };
  if (stray) report(status.MPI_SOURCE, status.MPI_TAG % mpi_tags);
  if (!neighbours) return;
  if (auto const block = neighbours->stray(); block.rank >= 0) report(block.rank, block.channel);
}

PARALLAX_INLINE void MpiEndpoint::open(int channel, std::string_view operation) {
  mpi_process.check(rank, operation);
  if (mpi_job_is_ending) MpiEnd::await();
  check_channel(rank, operation, channel);
  if (state(channel).busy) throw busy_channel(rank, std::string{operation}, channel);
  state(channel).number += 1;
  state(channel).busy = true;
}

PARALLAX_INLINE void MpiEndpoint::send(int channel, int peer, std::byte const* from, std::size_t bytes) {
  if (bytes == 0) return;
  if (near(peer)) neighbours->send(channel, state(channel).number, peer, from, bytes);
  else messages.send(channel, state(channel).number, peer, from, bytes);
}
PARALLAX_INLINE void MpiEndpoint::receive(int channel, int peer, std::byte* to, std::size_t bytes) {
  if (bytes == 0) return;
  if (near(peer)) neighbours->receive(channel, state(channel).number, peer, to, bytes);
  else messages.receive(channel, state(channel).number, peer, to, bytes);
}

// Moves all channels on, for any one: a peer may be waiting for another one.
PARALLAX_INLINE bool MpiEndpoint::progress(int channel) {
  if (!state(channel).busy) return true;
  if (neighbours) neighbours->progress(mpi_fail);
  if (!messages.none(channel)) {
    if (!messages.progress(channel)) return false;
  } else if (messages.any() || mailbox.sends()) {
    mailbox.move_on();
  }
  if (neighbours && !neighbours->complete(channel)) return false;
  state(channel).busy = false;
  return true;
}

PARALLAX_INLINE int MpiEndpoint::waiting_for(int channel) const {
  if (!states[static_cast<std::size_t>(channel)].busy) return -1;
  int const peer = neighbours ? neighbours->waiting_for(channel) : -1;
  return peer >= 0 ? peer : messages.waiting_for(channel);
}

PARALLAX_INLINE void MpiEndpoint::withdraw(int channel) noexcept {
  constexpr double patience = 1;  // seconds
  if (!state(channel).busy || mpi_job_is_ending || mpi_process.in_child()) return;
  messages.cancel(channel);
  if (neighbours) neighbours->withdraw(channel);
  for (double const begin = MPI_Wtime();; rest()) {
    int peer = messages.forget(channel);
    if (messages.none(channel) && neighbours) peer = neighbours->untaken(channel);
    if (messages.none(channel) && peer < 0) break;
    if (MPI_Wtime() - begin > patience)
      MpiEnd::now(rank, "an operation is given up while " + (peer < 0 ? "others" : "rank " + std::to_string(peer)) +
                            " may still use its memory");
    if (neighbours) neighbours->progress_sends();
  }
  state(channel).busy = false;
}

}  // namespace parallax::detail
