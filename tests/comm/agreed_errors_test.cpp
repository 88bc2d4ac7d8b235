// An error on which ranks agree has the same words on all of them, over threads and over sockets, however late some of them
// look. tests/mpi/agreed_errors_test.cpp has the same programs over MPI.
#include "agreed_errors.hpp"

#include "../catch.hpp"
#include "../support/size.hpp"
#include "sockets.hpp"

namespace {

using namespace parallax_test::agreed_errors;

Answers by_sockets(Program const& program) {
  Answers answers(static_cast<std::size_t>(program.ranks));
  try {
    run_sockets(program.ranks, [&](px::SocketCommunicator& own) { run_rank(program, own, answers); },
                {.deadline = 60s, .shared_memory = program.shared_memory});
  } catch (px::Error const&) {}
  return answers;
}

}  // namespace

TEST_CASE("ranks that agree on an error are told the same, over threads and sockets, however late they look",
          "[comm][socket][agreement]") {
  int const programs = parallax_test::sized(20, 60, 2000);
  std::uint64_t const seed = 36;
  INFO("seed " << seed << ", " << programs << " programs");
  for (int i = 0; i < programs; ++i) {
    Program const program{seed * 100'000 + static_cast<std::uint64_t>(i)};
    Answers const threads = by_threads(program), sockets = by_sockets(program);
    CAPTURE(i, program.ranks, program.culprit, static_cast<int>(program.refusal), static_cast<int>(program.handler));
    CAPTURE(program.shared_memory, program.levels, program.starts, program.variables);
    REQUIRE(threads[0]);
    for (auto const& answer : threads) CHECK(answer == threads[0]);
    for (auto const& answer : sockets) CHECK(answer == threads[0]);
  }
}
