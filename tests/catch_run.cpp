// Catch2's own code, where it is version 2, compiled once for all tests.
#define CATCH_CONFIG_RUNNER
#include "catch.hpp"

#include <cstdlib>
#include <thread>

#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#include <catch2/reporters/catch_reporter_event_listener.hpp>
#include <catch2/reporters/catch_reporter_registrars.hpp>
using Listener = Catch::EventListenerBase;
#else
using Listener = Catch::TestEventListenerBase;
#endif

namespace {

// Catch2 keeps its assertions in memory without locks: an assertion of another thread ends the program, whether or not the
// threads have met in that memory this time. Some assertions are announced, some only told.
class AssertionsOnOneThread : public Listener {
 public:
  using Listener::Listener;
  void assertionStarting(Catch::AssertionInfo const& info) override { check(info.lineInfo); }
  auto assertionEnded(Catch::AssertionStats const& stats) -> decltype(Listener::assertionEnded(stats)) override {
    check(stats.assertionResult.getSourceInfo());
    return Listener::assertionEnded(stats);
  }

 private:
  void check(Catch::SourceLineInfo const& line) const {
    if (std::this_thread::get_id() == own_) return;
    std::fprintf(stderr, "%s:%zu: an assertion on a thread that Catch2 does not run on; note what was seen, assert it after\n",
                 line.file, line.line);
    std::abort();
  }

  std::thread::id const own_ = std::this_thread::get_id();
};

}  // namespace

CATCH_REGISTER_LISTENER(AssertionsOnOneThread)

int parallax_test::run(int argc, char const* const* argv) {
  Catch::Session session;
  session.configData().rngSeed = 1;  // the same on every rank and run
  int failed = session.applyCommandLine(argc, argv);
  if (failed == 0) failed = session.run();
  return failed != 0 ? 1 : skipped > 0 ? 77 : 0;
}
