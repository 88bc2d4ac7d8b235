// Random trainings in phases on ranks of MPI, each phase on some of them, against the model of phases.hpp.
//   mpiexec -n 3 trust.phases_mpi_test [--programs n] [--first seed]
#include <mpi.h>

#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>

#include "../interop/scratch.hpp"
#include "../support/size.hpp"
#include "parallax/comm/mpi.hpp"
#include "phases_of.hpp"

namespace parallax_test::phases {
namespace {

namespace px = parallax;

// Runs a phase of this rank's walk, which goes through it alone where the world has fewer ranks. Returns nothing, or what was
// wrong.
std::string run_phase(Walk& walk, World const& world, int rank) {
  MPI_Comm some = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank < world.ranks ? 0 : MPI_UNDEFINED, rank, &some);
  if (some == MPI_COMM_NULL) return walk.run(nullptr), std::string{};
  try {
    px::MpiCommunicator own{some};
    px::AnyCommunicator communicator{std::ref(own)};
    walk.run(&*doer_of(communicator, world));
  } catch (std::exception const& error) {
    return error.what();
  }
  MPI_Comm_free(&some);
  return {};
}

std::string folder_for_all(std::optional<parallax_test::Scratch> const& scratch) {
  char name[1024] = {};
  if (scratch) std::snprintf(name, sizeof name, "%s", scratch->path("run").c_str());
  MPI_Bcast(name, sizeof name, MPI_CHAR, 0, MPI_COMM_WORLD);
  return name;
}

}  // namespace
}  // namespace parallax_test::phases

int main(int argc, char** argv) {
  using namespace parallax_test::phases;
  int provided = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &provided);
  std::uint64_t first = 1, programs = parallax_test::sized(3u, 10u, 300u);
  for (int i = 1; i + 1 < argc; i += 2) {
    std::string const option = argv[i];
    if (option == "--programs") programs = std::strtoull(argv[i + 1], nullptr, 10);
    if (option == "--first") first = std::strtoull(argv[i + 1], nullptr, 10);
  }
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  long phases = 0;
  {
    std::optional<parallax_test::Scratch> scratch;
    if (rank == 0) scratch.emplace();
    std::string const base = folder_for_all(scratch);
    for (std::uint64_t seed = first; seed < first + programs; ++seed) {
      std::string const folder = base + std::to_string(seed);
      Walk walk{seed, size, folder, false, false};
      for (int phase = 1; phase <= walk.phases(); ++phase, ++phases) {
        World const world = walk.enter_phase();
        if (std::string const complaint = run_phase(walk, world, rank); !complaint.empty()) {
          std::printf("FAILED: seed %llu, phase %d, rank %d: %s\n", static_cast<unsigned long long>(seed), phase, rank,
                      complaint.c_str());
          std::fflush(stdout);
          MPI_Abort(MPI_COMM_WORLD, 1);
        }
        MPI_Barrier(MPI_COMM_WORLD);
      }
      if (rank == 0) std::filesystem::remove_all(folder);
    }
  }
  if (rank == 0)
    std::printf("seeds %llu to %llu on up to %d ranks of MPI: %llu programs of %ld phases, 0 failed\n",
                static_cast<unsigned long long>(first), static_cast<unsigned long long>(first + programs - 1), size,
                static_cast<unsigned long long>(programs), phases);
  MPI_Finalize();
}
