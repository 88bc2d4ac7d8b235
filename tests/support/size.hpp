// How much of a promise a test runs: PARALLAX_SIZE=full in the environment asks for all of it, PARALLAX_SIZE=small, which tests under
// sanitizers are given, for as much as goes through all of its code.
#pragma once

#include <cstdlib>
#include <string_view>

namespace parallax_test {

template <class Number>
Number sized(Number small, Number usual, Number full) {
  char const* const given = std::getenv("PARALLAX_SIZE");
  std::string_view const size = given ? given : "";
  return size == "full" ? full : size == "small" ? small : usual;
}
inline bool full_size() { return sized(false, false, true); }

}  // namespace parallax_test
