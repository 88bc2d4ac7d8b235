// Bodies of parallax/comm/mpi.hpp.
#pragma once

#include "parallax/comm/mpi.hpp"

namespace parallax::inline v0_2 {

PARALLAX_INLINE MpiCommunicator::MpiCommunicator(MPI_Comm comm, MpiOptions options)
    : end_{make_owned<detail::MpiEndpoint>(comm, options)} {}

PARALLAX_INLINE bool MpiCommunicator::serialized() const {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  return level >= MPI_THREAD_SERIALIZED;
}

// Ranks leaving by one error, caused by one of them, say it once.
PARALLAX_INLINE void MpiCommunicator::abort(Error const& reason) {
  if (detail::mpi_process.in_child()) return;
  if (reason.code() != Errc::aborted) detail::end_mpi_job(rank(), reason);
  bool const speaks = rank() == (reason.rank() < 0 ? 0 : reason.rank());
  detail::MpiEnd::soon(rank(), reason.what(), speaks && !detail::mpi_body_is_run);
}

PARALLAX_INLINE std::byte* MpiCommunicator::window(int channel, std::size_t bytes) {
  auto& window = end_->windows[static_cast<std::size_t>(channel)];
  window.resize_with_slack(bytes);
  return window.data();
}

PARALLAX_INLINE std::byte* MpiCommunicator::address_of(Place const& place) {
  std::byte* const memory = detail::shared_blocks.address_of(place);
  if (!memory)
    detail::mpi_fail({Errc::transport, rank(), "lending", "",
                      joined({place.bytes, " bytes of process ", place.process, " cannot be mapped: ", std::strerror(errno)})});
  return memory;
}

PARALLAX_INLINE std::chrono::nanoseconds MpiCommunicator::now() const {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::duration<double>{MPI_Wtime()});
}

PARALLAX_INLINE MpiCommunicator::Request MpiCommunicator::ialltoallv(int channel, Transfer const& transfer) {
  auto const self = static_cast<std::size_t>(rank());
  check_lists(rank(), size(), "ialltoallv", transfer);
  ByteRange const out = transfer.to[self], in = transfer.from[self];
  if (out.bytes != in.bytes)
    throw Error{Errc::mismatch, rank(), "ialltoallv", "",
                "rank " + std::to_string(rank()) + " sends " + std::to_string(out.bytes) + " bytes to itself but expects " +
                    std::to_string(in.bytes)};
  end_->open(channel, "ialltoallv");
  Request request{end_.get(), channel};
  for (int k = 1; k < size(); ++k) {
    int const peer = (rank() - k + size()) % size();
    auto const [offset, bytes] = transfer.from[static_cast<std::size_t>(peer)];
    end_->receive(channel, peer, transfer.receive + offset, bytes);
  }
  for (int k = 1; k < size(); ++k) {
    int const peer = (rank() + k) % size();
    auto const [offset, bytes] = transfer.to[static_cast<std::size_t>(peer)];
    end_->send(channel, peer, transfer.send + offset, bytes);
  }
  if (out.bytes) std::memmove(transfer.receive + in.offset, transfer.send + out.offset, out.bytes);
  return request;
}

PARALLAX_INLINE MpiCommunicator::Request MpiCommunicator::iallreduce(int channel, float const* send, float* receive,
                                                                     std::size_t count) {
  return sum(channel, MPI_FLOAT, send, receive, count);
}
PARALLAX_INLINE MpiCommunicator::Request MpiCommunicator::iallreduce(int channel, double const* send, double* receive,
                                                                     std::size_t count) {
  return sum(channel, MPI_DOUBLE, send, receive, count);
}

PARALLAX_INLINE std::vector<int> mpi_hosts(MpiCommunicator const& comm) { return comm.hosts(); }

}  // namespace parallax

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE char const* mpi_claims(Environment variable) {
  for (char const* name :
       {"PMI_RANK", "PMI_SIZE", "PMI_FD", "PMI_PORT", "PMI_CONTROL_PORT", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE"})
    if (char const* const value = variable(name)) return value;
  return nullptr;
}

PARALLAX_INLINE std::string mpi_library() {
  std::string words(MPI_MAX_LIBRARY_VERSION_STRING, '\0');
  int length = 0;
  MPI_Get_library_version(words.data(), &length);
  words.resize(static_cast<std::size_t>(length));
  return words;
}

PARALLAX_INLINE int join_mpi(int& argc, char**& argv, RunOptions const& options, FunctionRef<int(JoinedWorld&)> body) {
  auto const as_joined = [&](MpiCommunicator& own) {
    JoinedWorld world{own};
    return body(world);
  };
  return run_mpi_rank(argc, argv, as_joined, {.deadline = options.deadline}, false);
}

// Throws Error (misuse) if MPI_COMM_WORLD is smaller than the number launched.
inline void check_mpi_start() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  auto const variable = [](char const* name) -> char const* { return std::getenv(name); };
  check_start({variable, getpid()}, {"MPI", size, true}, "run_mpi");
}

PARALLAX_INLINE int run_mpi_rank(int& argc, char**& argv, FunctionRef<int(MpiCommunicator&)> body, MpiOptions const& options,
                                 bool guarded) {
  int status = 0;
  {
    MpiEnvironment const environment{argc, argv};
    mpi_body_is_run = true;
    try {
      if (guarded) check_mpi_start();
      MpiCommunicator world{MPI_COMM_WORLD, options};
      status = body(world);
    } catch (...) {
      int rank = 0;
      MPI_Comm_rank(MPI_COMM_WORLD, &rank);
      end_child(mpi_process, rank);
      end_mpi_job(rank, current_error(rank, "the training of a rank"));
    }
    if (mpi_job_is_ending) MpiEnd::await();  // `body` caught the exception of a session
    mpi_body_is_run = false;
  }
  return MpiDebts::status(status);
}

}  // namespace parallax::detail
