// Whether a gradient that a step may overwrite shares memory with another one: asked by a flight when gradients have moved.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "parallax/core/algorithm.hpp"
#include "parallax/policy/exchange.hpp"

namespace parallax::detail {

// Two gradients that share an element, of which at least one was given in_place: that one first. Sorts them.
inline std::optional<std::pair<GradientMemory, GradientMemory>> shared_memory(std::vector<GradientMemory>& gradients) {
  std::erase_if(gradients, [](GradientMemory const& g) { return g.begin == g.end; });
  auto const before = [](std::byte const* one, std::byte const* other) {  // they need not lie in one array
    return reinterpret_cast<std::uintptr_t>(one) < reinterpret_cast<std::uintptr_t>(other);
  };
  std::sort(gradients.begin(), gradients.end(),
            [&](GradientMemory const& one, GradientMemory const& other) { return before(one.begin, other.begin); });
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
