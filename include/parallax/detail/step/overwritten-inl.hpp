// Bodies of parallax/detail/step/overwritten.hpp.
#pragma once

#include "parallax/detail/step/overwritten.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE SharedMemory shared_memory(List<GradientMemory>& gradients) {
  static constexpr auto before = [](std::byte const* one, std::byte const* other) {  // they need not lie in one array
    return reinterpret_cast<std::uintptr_t>(one) < reinterpret_cast<std::uintptr_t>(other);
  };
  std::qsort(gradients.data(), gradients.size(), sizeof(GradientMemory), [](void const* one, void const* other) {
    auto const *a = static_cast<GradientMemory const*>(one)->begin, *b = static_cast<GradientMemory const*>(other)->begin;
    return before(b, a) - before(a, b);
  });
  GradientMemory const *longest = nullptr, *in_place = nullptr;  // of those behind us, the one with the last end
  auto const reaches = [&](GradientMemory const* one, GradientMemory const& other) {
    return one && before(other.begin, one->end);
  };
  for (GradientMemory const& g : gradients) {
    if (g.begin == g.end) continue;
    if (reaches(in_place, g)) return {in_place, &g};
    if (g.in_place && reaches(longest, g)) return {&g, longest};
    if (!longest || before(longest->end, g.end)) longest = &g;
    if (g.in_place) in_place = &g;
  }
  return {};
}

}  // namespace parallax::detail
