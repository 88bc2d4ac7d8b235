// Whether memory that a step may overwrite is memory of another of its gradients.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

namespace parallax::detail {

// Where a gradient lies, and whether it was given in_place.
struct GradientMemory {
  std::byte const *begin, *end;
  bool in_place;
  std::string_view variable;
};

// Two gradients that share an element, of which at least one was given in_place: that one first. Sorts them.
inline std::optional<std::pair<GradientMemory, GradientMemory>> shared_memory(std::vector<GradientMemory>& gradients) {
  std::erase_if(gradients, [](GradientMemory const& g) { return g.begin == g.end; });
  std::less<std::byte const*> const before;
  std::ranges::sort(gradients, before, &GradientMemory::begin);
  GradientMemory const *longest = nullptr, *in_place = nullptr;  // of those behind us, that which ends last
  auto const reaches = [&](GradientMemory const* one, GradientMemory const& other) {
    return one && before(other.begin, one->end);
  };
  for (GradientMemory const& g : gradients) {
    if (reaches(in_place, g)) return std::pair{*in_place, g};
    if (g.in_place && reaches(longest, g)) return std::pair{g, *longest};
    if (!longest || before(longest->end, g.end)) longest = &g;
    if (g.in_place) in_place = &g;
  }
  return std::nullopt;
}

}  // namespace parallax::detail
