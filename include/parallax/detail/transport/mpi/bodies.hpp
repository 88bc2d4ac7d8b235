// Where the bodies of the MPI backend are compiled: in every program that includes it, or once, in the library
// parallax::compiled_mpi, whose users have PARALLAX_COMPILED_MPI defined. detail/core/config.hpp says the same of the engine.
#pragma once

#if !defined(PARALLAX_COMPILED_MPI)
// What stands before the body of a function that is no template: `inline` where every program compiles it, else nothing.
#define PARALLAX_MPI_INLINE inline
// Whether this translation unit compiles those bodies: 1, or 0 where the library has them.
#define PARALLAX_MPI_BODIES 1
#else
#define PARALLAX_MPI_INLINE
#if defined(PARALLAX_COMPILING_MPI)
#define PARALLAX_MPI_BODIES 1
#else
#define PARALLAX_MPI_BODIES 0
#endif
#endif
