// An error on which ranks agree has the words over MPI that it has over threads, on each rank: the random programs of
// tests/comm/agreed_errors.hpp, with a handler within the session. Programs after which a session has ended are left out, for
// they end the job (tests/mpi/endings.cpp).
#include "../comm/agreed_errors.hpp"

#include <mpi.h>

#include <sstream>

#include "../catch.hpp"
#include "../support/size.hpp"
#include "parallax/comm/mpi.hpp"

namespace {

using namespace parallax_test::agreed_errors;

// Returns what this rank of the program was told.
std::optional<Told> by_mpi(Program const& program, MPI_Comm ranks) {
  std::optional<Told> told;
  px::MpiCommunicator own{ranks, {.deadline = 60s, .shared_memory = program.shared_memory}};
  auto const rank = static_cast<std::size_t>(own.rank());
  Late<px::MpiCommunicator> world{own, program.seed + rank, program.one_in[rank]};
  train(program, world, [&](auto const& steps) {
    try {
      steps();
    } catch (px::Error const& error) {
      told = told_by(error);
    }
  });
  return told;
}

// Returns the texts of all ranks on rank 0.
std::vector<std::string> gather(std::optional<Told> const& told, MPI_Comm ranks) {
  std::ostringstream words;
  words << told;
  std::string text = words.str();
  text.resize(2000);
  int rank = 0, size = 0;
  MPI_Comm_rank(ranks, &rank), MPI_Comm_size(ranks, &size);
  std::string all(rank == 0 ? text.size() * static_cast<std::size_t>(size) : 0, '\0');
  int const length = static_cast<int>(text.size());
  MPI_Gather(text.data(), length, MPI_CHAR, all.data(), length, MPI_CHAR, 0, ranks);
  std::vector<std::string> texts;
  for (std::size_t at = 0; at < all.size(); at += text.size()) texts.push_back(all.substr(at, all.find('\0', at) - at));
  return texts;
}

}  // namespace

TEST_CASE("ranks of MPI that agree on an error are told what threads are told, however late they look", "[mpi][agreement]") {
  int rank = 0, size = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank), MPI_Comm_size(MPI_COMM_WORLD, &size);
  int const programs = parallax_test::sized(20, 60, 225);
  std::uint64_t const seed = 36;
  INFO("seed " << seed << ", " << programs << " programs");
  int told = 0;
  for (std::uint64_t i = 0; told < programs; ++i) {
    Program const program{seed * 100'000 + i, size};
    if (program.ends()) continue;
    ++told;
    MPI_Comm some = MPI_COMM_NULL;
    MPI_Comm_split(MPI_COMM_WORLD, rank < program.ranks ? 0 : MPI_UNDEFINED, rank, &some);
    if (some == MPI_COMM_NULL) continue;
    std::vector<std::string> const texts = gather(by_mpi(program, some), some);
    MPI_Comm_free(&some);
    if (rank > 0) continue;
    CAPTURE(i, program.ranks, program.culprit, static_cast<int>(program.refusal), program.starts, program.levels);
    std::ostringstream words;
    words << by_threads(program)[0];
    for (std::string const& text : texts) CHECK(text == words.str());
  }
  if (rank == 0 && parallax_test::full_size()) WARN(told << " programs over MPI, " << size << " ranks at most");
}
