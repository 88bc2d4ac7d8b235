// Standard algorithms without <algorithm>'s ranges, which cost a compiler twice as much. Included in its place by every room.
#pragma once

#include <cstddef>
#include <utility>

#if defined(__GLIBCXX__) && __has_include(<bits/stl_algo.h>)
#include <bits/stl_algo.h>
#else
#include <algorithm>
#endif

namespace parallax::inline v0_2::detail {

// Drops the entries for which `condition` is true, and keeps the order of those left. Linear; frees no memory. It is
// std::erase_if for a List, or for a std::vector at a third of its cost to a compiler.
template <class Entries, class Condition>
void drop_if(Entries& list, Condition&& condition) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (condition(static_cast<typename Entries::value_type const&>(list[i]))) continue;
    if (kept != i) list[kept] = std::move(list[i]);
    ++kept;
  }
  while (list.size() > kept) list.pop_back();
}

// Returns true if the condition is true of an element. libstdc++ 12 writes std::any_of out four times over; lists of a few
// elements do not gain by it, and each condition costs a compiler the fourfold.
template <class Elements, class Condition>
bool any_of(Elements const& elements, Condition&& condition) {
  for (auto const& element : elements)
    if (condition(element)) return true;
  return false;
}
// Returns true if the condition is true of every element, also if there is none.
template <class Elements, class Condition>
bool all_of(Elements const& elements, Condition&& condition) {
  for (auto const& element : elements)
    if (!condition(element)) return false;
  return true;
}

// Returns the middle one of `n` numbers, at least one; of two middle ones the greater. For a few; sorts them in place.
inline double median(double* values, std::size_t n) {
  for (std::size_t i = 1; i < n; ++i)
    for (std::size_t j = i; j > 0 && values[j] < values[j - 1]; --j) std::swap(values[j], values[j - 1]);
  return values[n / 2];
}

}  // namespace parallax::detail
