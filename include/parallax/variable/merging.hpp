// Several updates of one variable in one step become one.
#pragma once

#include <optional>
#include <vector>

namespace parallax {

// What the updates of one variable ended with, in their order, while a step collects them; the first one leads: the others
// are added to its result, which is transformed, measured and applied once.
template <class Result>
struct Merging {
  std::optional<Result> first;
  std::vector<Result> others;
  int group = -1;  // the clip group, -1 for none

  void clear() noexcept {
    first.reset();
    others.clear();
    group = -1;
  }
};

}  // namespace parallax
