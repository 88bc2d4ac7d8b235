// MPI's own all-reduce alone: made by `MpiCommunicator::bare`, for steps that are checked once.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <utility>

#include "parallax/detail/transport/mpi/job.hpp"

namespace parallax::inline v0_2 {

// MPI's own all-reduce and nothing else: no channels, no deadline, no chunks. After a failure MPI ends the job. Owns a
// duplicate of the communicator; move-only.
class MpiBareSums {
 public:
  // Of a sum in flight: the caller's, and null again once `test` was true.
  using Request = MPI_Request;

  // Collective over `comm`. Duplicates it. Error transport.
  explicit MpiBareSums(MPI_Comm comm);
  // Takes the duplicate over; `other` is only to be destroyed. Not while a sum is in flight.
  MpiBareSums(MpiBareSums&& other) noexcept : comm_{std::exchange(other.comm_, MPI_COMM_NULL)} {}
  MpiBareSums& operator=(MpiBareSums&&) = delete;
  ~MpiBareSums();

  // Collective. Sums `count` elements, at most INT_MAX. `send` and `receive` do not overlap; both stay until `test` is true.
  void iallreduce(float const* send, float* receive, std::size_t count, Request& request) {
    MPI_Iallreduce(send, receive, static_cast<int>(count), MPI_FLOAT, MPI_SUM, comm_, &request);
  }
  // Sums doubles likewise.
  void iallreduce(double const* send, double* receive, std::size_t count, Request& request) {
    MPI_Iallreduce(send, receive, static_cast<int>(count), MPI_DOUBLE, MPI_SUM, comm_, &request);
  }
  // Local. Returns true if the sum is complete.
  static bool test(Request& request);

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

}  // namespace parallax

#if !defined(PARALLAX_COMPILED_MPI)
#include "parallax/detail/transport/mpi/bare_sums-inl.hpp"
#endif
