// MPI's own all-reduce with nothing around it: made by `MpiCommunicator::bare`, for steps that are checked once.
#pragma once

#include <mpi.h>

#include <cstddef>
#include <utility>

#include "parallax/detail/transport/mpi/bodies.hpp"
#include "parallax/detail/transport/mpi/job.hpp"

namespace parallax {

// MPI's own all-reduce and nothing else: no channels, no deadline, no chunks. What fails, MPI ends the job for. Owns a
// duplicate of the communicator; move-only.
class MpiBareSums {
 public:
  // Of a sum in flight: the caller's, and null again once `test` was true.
  using Request = MPI_Request;

  // Collective over `comm`, which it duplicates. Error transport.
  explicit MpiBareSums(MPI_Comm comm);
  // Takes the duplicate over; `other` is only to be destroyed. Not while a sum is in flight.
  MpiBareSums(MpiBareSums&& other) noexcept : comm_{std::exchange(other.comm_, MPI_COMM_NULL)} {}
  MpiBareSums& operator=(MpiBareSums&&) = delete;
  ~MpiBareSums();

  // Collective. The sum of `count` elements, at most INT_MAX of them.
  // `send` and `receive` do not overlap; both stay until `test` is true.
  void iallreduce(float const* send, float* receive, std::size_t count, Request& request) {
    MPI_Iallreduce(send, receive, static_cast<int>(count), MPI_FLOAT, MPI_SUM, comm_, &request);
  }
  // The same of doubles.
  void iallreduce(double const* send, double* receive, std::size_t count, Request& request) {
    MPI_Iallreduce(send, receive, static_cast<int>(count), MPI_DOUBLE, MPI_SUM, comm_, &request);
  }
  // Local. Whether it is complete.
  static bool test(Request& request);

 private:
  MPI_Comm comm_ = MPI_COMM_NULL;
};

#if PARALLAX_MPI_BODIES
PARALLAX_MPI_INLINE MpiBareSums::MpiBareSums(MPI_Comm comm) {
  int code = MPI_Comm_dup(comm, &comm_);
  if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(comm_, MPI_ERRORS_ARE_FATAL);
  if (code != MPI_SUCCESS) throw detail::mpi_error(code, -1, "MPI_Comm_dup");
}

PARALLAX_MPI_INLINE MpiBareSums::~MpiBareSums() {
  if (comm_ != MPI_COMM_NULL && detail::mpi_is_usable() && !detail::mpi_job_is_ending) MPI_Comm_free(&comm_);
}

PARALLAX_MPI_INLINE bool MpiBareSums::test(Request& request) {
  int complete;
  MPI_Test(&request, &complete, MPI_STATUS_IGNORE);
  return complete != 0;
}
#endif

}  // namespace parallax
