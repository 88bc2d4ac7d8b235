// Catch2 as detail/conformance/catch.hpp has it, and what our own tests add: matchers, and test cases that cannot run here.
#pragma once

#include <cstdio>
#include <string>

#include "parallax/detail/conformance/catch.hpp"

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
