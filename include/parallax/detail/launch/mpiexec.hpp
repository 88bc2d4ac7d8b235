// The command of mpiexec that starts the ranks of a file of hosts, where the command line says --px-mpi. Only `run` includes it.
#pragma once

#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallax/detail/launch/launcher.hpp"
#include "parallax/detail/launch/resources.hpp"

namespace parallax::inline v0_2::detail {

// Whose options an mpiexec has: Hydra's, as MPICH and its relatives have them, or Open MPI's.
enum class MpiexecKind { unknown, hydra, open_mpi };

// What a library of MPI is started by, from its own words (MPI_Get_library_version).
MpiexecKind starts_library(std::string_view words);
// What an mpiexec is, from its own words (mpiexec --version).
MpiexecKind kind_of_mpiexec(std::string_view words);

// The command that runs `program` as every rank, in the folder `folder`, and passes the variables `names` on to other hosts. Ranks are
// numbered along the file; each has its device in CUDA_VISIBLE_DEVICES, where its host has devices. Throws Error (invalid_argument)
// where a line says what only ssh is told: a user, a port, or an address of version 6.
std::vector<std::string> mpiexec_command(MpiexecKind kind, std::string_view mpiexec, Resources const& resources,
                                         std::span<std::string const> program, std::string_view folder,
                                         std::span<std::string const> names);

// Returns the names of the variables that go along: those of ssh's way, of MPI and of its transports. Lists of them, as mpiexec
// takes them, are parted by signs that no such name has.
std::vector<std::string> names_for_mpiexec();

// This process becomes mpiexec, which is `given`, else what MPIEXEC names, else `mpiexec`. `library`: the words of the MPI that the program
// is linked with. Throws Error: invalid_argument as above, and where it is the mpiexec of another MPI; file where it cannot be run.
[[noreturn]] void become_mpiexec(char const* given, std::string_view library, Resources const& resources,
                                 std::span<std::string const> program, bool all_speak);

// In a rank that mpiexec has started so: its lines get its rank before them, or are not heard, as rank 0 was told by --px-output. A process
// of its own passes them on, until nobody can write to it any more. Nothing, where no PARALLAX_OUTPUT says so.
void speak_as_rank();

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/launch/mpiexec-inl.hpp"
#endif
