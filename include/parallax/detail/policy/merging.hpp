// Several updates of one variable in one step become one. Each state has a Merging, which the ways of a flight fill and empty.
#pragma once

#include <optional>

#include "parallax/detail/core/list.hpp"

namespace parallax::inline v0_2 {

// The results of the updates of one variable, in their order, while a step collects them. The first one leads: the others are
// added to its result, which is transformed, measured and applied once.
template <class Result>
struct Merging {
  // The leader's result, while a step collects or applies.
  std::optional<Result> first;
  // The later updates' results, in their order, for the leader to add to its own.
  List<Result> others;
  int clip = -1;  // the clip group, -1 for none

  // Empties it, as it is between steps. Called when the leader's way is done with or given up.
  void clear() noexcept {
    first.reset();
    others.clear();
    clip = -1;
  }
};

}  // namespace parallax
