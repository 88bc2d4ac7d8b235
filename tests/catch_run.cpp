// Catch2's own code, where it is version 2, compiled once for all tests.
#define CATCH_CONFIG_RUNNER
#include "catch.hpp"

#if __has_include(<catch2/catch_session.hpp>)
#include <catch2/catch_session.hpp>
#endif

int parallax_test::run(int argc, char const* const* argv) {
  Catch::Session session;
  session.configData().rngSeed = 1;  // the same on every rank and run
  int failed = session.applyCommandLine(argc, argv);
  if (failed == 0) failed = session.run();
  return failed != 0 ? 1 : skipped > 0 ? 77 : 0;
}
