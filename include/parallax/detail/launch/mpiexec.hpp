// The command of mpiexec for the ranks of a file of hosts, after --px-mpi on the command line. Only `run` includes it.
#pragma once

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallax/detail/launch/launcher.hpp"
#include "parallax/detail/launch/resources.hpp"

namespace parallax::inline v0_2::detail {

// Family of an mpiexec's options: Hydra's, as MPICH and its relatives have them, or Open MPI's.
enum class MpiexecKind { unknown, hydra, open_mpi };

// Returns the kind of mpiexec that starts a library of MPI, from the library's own words (MPI_Get_library_version).
MpiexecKind starts_library(std::string_view words);
// Returns the kind of an mpiexec, from its own words (mpiexec --version).
MpiexecKind kind_of_mpiexec(std::string_view words);

// Returns the command that runs `program` as every rank, in the folder `folder`, and passes the variables `names` on to other
// hosts. Ranks are numbered along the file; each has its device in CUDA_VISIBLE_DEVICES, if its host has devices. Throws Error
// (invalid_argument) if a line has settings of ssh alone: a user, a port, or an address of version 6.
std::vector<std::string> mpiexec_command(MpiexecKind kind, std::string_view mpiexec, Resources const& resources,
                                         std::span<std::string const> program, std::string_view folder,
                                         std::span<std::string const> names);

// Returns the names of the variables that go along: of ssh's way, of MPI and of its transports. Lists of names for mpiexec are
// parted by signs that no such name has.
std::vector<std::string> names_for_mpiexec();

// Becomes mpiexec: `given`, else the value of MPIEXEC, else `mpiexec`; never returns. `library`: the words of the MPI linked
// with the program. Throws Error: mpiexec_command's, invalid_argument for another MPI's mpiexec; file if it cannot be run.
[[noreturn]] void become_mpiexec(char const* given, std::string_view library, Resources const& resources,
                                 std::span<std::string const> program, bool all_speak);

// Puts a rank's number before its lines, or drops them, in a rank started so by mpiexec and as rank 0 was told by --px-output.
// A process of its own passes them on, until nobody can write to it any more. Does nothing without PARALLAX_OUTPUT.
void speak_as_rank();

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/launch/mpiexec-inl.hpp"
#endif
