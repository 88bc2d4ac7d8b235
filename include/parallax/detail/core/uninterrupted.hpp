// Calls of the system that go on after an interruption by a signal. Included by headers that open a file or wait.
#pragma once

#include <cerrno>
#include <type_traits>

namespace parallax::inline v0_2::detail {

// Makes a call again for as long as a signal interrupts it. Returns its last result, with its errno; -1, or null, after a
// failure.
template <class Call>
auto uninterrupted(Call const& call) {
  for (;;) {
    auto const result = call();
    if constexpr (std::is_pointer_v<decltype(call())>) {
      if (result || errno != EINTR) return result;
    } else {
      if (result != -1 || errno != EINTR) return result;
    }
  }
}

}  // namespace parallax::detail
