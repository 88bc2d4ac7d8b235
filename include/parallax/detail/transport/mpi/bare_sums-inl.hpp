// Bodies of parallax/detail/transport/mpi/bare_sums.hpp.
#pragma once

#include "parallax/detail/transport/mpi/bare_sums.hpp"

namespace parallax::inline v0_2 {

PARALLAX_INLINE MpiBareSums::MpiBareSums(MPI_Comm comm) {
  int code = MPI_Comm_dup(comm, &comm_);
  if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(comm_, MPI_ERRORS_ARE_FATAL);
  if (code != MPI_SUCCESS) throw detail::mpi_error(code, -1, "MPI_Comm_dup");
}

PARALLAX_INLINE MpiBareSums::~MpiBareSums() {
  if (comm_ != MPI_COMM_NULL && detail::mpi_is_usable() && !detail::mpi_job_is_ending) MPI_Comm_free(&comm_);
}

PARALLAX_INLINE bool MpiBareSums::test(Request& request) {
  int complete;
  MPI_Test(&request, &complete, MPI_STATUS_IGNORE);
  return complete != 0;
}

}  // namespace parallax
