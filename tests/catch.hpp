// Catch2, whichever is installed: version 3 or Debian 12's version 2. Tests include this and nothing of Catch2's own.
// Assertions are for the thread that runs the test case: collect what other threads find, and check it after they ended.
#pragma once

#if __has_include(<catch2/catch_test_macros.hpp>)
#include <catch2/catch_approx.hpp>
#include <catch2/catch_template_test_macros.hpp>
#include <catch2/catch_test_macros.hpp>
#include <catch2/generators/catch_generators.hpp>
#include <catch2/generators/catch_generators_adapters.hpp>
#include <catch2/generators/catch_generators_range.hpp>
#include <catch2/matchers/catch_matchers_floating_point.hpp>
#include <catch2/matchers/catch_matchers_string.hpp>
using Catch::Approx;
#else
#include <catch2/catch.hpp>
#endif

#include <cstdio>
#include <string>

namespace parallax_test {

// For REQUIRE_THROWS_WITH and CHECK_THAT: a string that contains `text`.
inline auto contains(std::string const& text) {
#if __has_include(<catch2/catch_test_macros.hpp>)
  return Catch::Matchers::ContainsSubstring(text);
#else
  return Catch::Matchers::Contains(text);
#endif
}

inline int skipped = 0;  // test cases of this program that could not run here

// Runs the test cases that the command line asks for: 0 when all passed, 77 when all did but some were skipped, else 1.
int run(int argc, char const* const* argv);

}  // namespace parallax_test

// Leaves a test case that cannot run here. The program then counts as skipped (unless something fails), and CI prints why.
#define PARALLAX_SKIP(reason)                                  \
  do {                                                         \
    ++parallax_test::skipped;                                  \
    std::printf("SKIPPED: %s\n", std::string{reason}.c_str()); \
    SUCCEED();                                                 \
    return;                                                    \
  } while (false)
