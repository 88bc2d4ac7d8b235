// Source of parallax::compiled_mpi: ranks as processes of an MPI job.
#define PARALLAX_INLINE
#include "parallax/detail/transport/mpi-inl.hpp"
#include "parallax/detail/transport/mpi/endpoint-inl.hpp"
#include "parallax/detail/transport/mpi/job-inl.hpp"
#include "parallax/detail/transport/mpi/mailbox-inl.hpp"
#include "parallax/detail/transport/mpi/messages-inl.hpp"
