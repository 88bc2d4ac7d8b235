// main of the tests that run under mpiexec: the same test cases on every rank, in step. Rank 0 reports as usual, the others
// print only their failures. A rank that failed a test case waits a moment for its peers to end theirs; one that is left
// behind, perhaps in a collective that nobody will join, ends the whole job, so that no failure becomes a hang.
#define CATCH_CONFIG_EXTERNAL_INTERFACES
#include "catch.hpp"

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_test_case_info.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
using Listener = Catch::EventListenerBase;
using AssertionEnded = void;
#else
using Listener = Catch::TestEventListenerBase;
using AssertionEnded = bool;
#endif

#include <chrono>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <mpi.h>

namespace {

constexpr auto patience = std::chrono::seconds{5};

MPI_Comm own = MPI_COMM_NULL;  // no message of a test can meet ours
int own_rank = 0;

class InStep : public Listener {
 public:
  using Listener::Listener;

  AssertionEnded assertionEnded(Catch::AssertionStats const& stats) override {
    auto const& result = stats.assertionResult;
    if (own_rank > 0 && !result.isOk()) {
      std::ostringstream line;
      line << "[rank " << own_rank << "] " << result.getSourceInfo() << ": FAILED: " << result.getExpressionInMacro();
      if (result.hasExpandedExpression()) line << "\n[rank " << own_rank << "]   " << result.getExpandedExpression();
      if (result.hasMessage()) line << "\n[rank " << own_rank << "]   " << result.getMessage();
      for (auto const& info : stats.infoMessages) line << "\n[rank " << own_rank << "]   " << info.message;
      std::cerr << line.str() << std::endl;
    }
    return AssertionEnded(true);
  }

  void testCaseStarting(Catch::TestCaseInfo const& info) override { name_ = info.name; }

  void testCaseEnded(Catch::TestCaseStats const& stats) override {
    bool const failed = stats.totals.assertions.failed > 0;
    auto const give_up = std::chrono::steady_clock::now() + patience;
    MPI_Request all_here = MPI_REQUEST_NULL;
    MPI_Ibarrier(own, &all_here);
    for (int done = 0; MPI_Test(&all_here, &done, MPI_STATUS_IGNORE), !done;) {
      if (failed && std::chrono::steady_clock::now() > give_up) {
        std::cout.flush();
        std::cerr << "[rank " << own_rank << "] ends the job: the test case \"" << name_
                  << "\" failed here, and a peer is still in it" << std::endl;
        MPI_Abort(MPI_COMM_WORLD, 1);
      }
      std::this_thread::sleep_for(std::chrono::microseconds{50});
    }
  }

 private:
  std::string name_;
};

CATCH_REGISTER_LISTENER(InStep)

}  // namespace

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_dup(MPI_COMM_WORLD, &own);
  MPI_Comm_rank(own, &own_rank);

  std::vector<char const*> arguments(argv, argv + argc);
  if (own_rank > 0) arguments.insert(arguments.end(), {"-o", "/dev/null"});

  int const result = parallax_test::run(int(arguments.size()), arguments.data());

  int anywhere[2] = {result == 1 ? 1 : 0, result == 77 ? 77 : 0};
  MPI_Allreduce(MPI_IN_PLACE, anywhere, 2, MPI_INT, MPI_MAX, own);
  if (own_rank == 0 && anywhere[0] != 0 && result != 1) std::cerr << "FAILED on another rank, see above" << std::endl;
  MPI_Comm_free(&own);
  MPI_Finalize();
  return anywhere[0] != 0 ? anywhere[0] : anywhere[1];
}
