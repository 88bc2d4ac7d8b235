// The standard algorithms, without the ranges that <algorithm> brings along, which cost a compiler twice as much. Headers of
// every room include it instead of <algorithm>.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#if defined(__GLIBCXX__) && __has_include(<bits/stl_algo.h>)
#include <bits/stl_algo.h>
#else
#include <algorithm>
#endif

namespace parallax::detail {

// std::erase_if, at a third of what it costs a compiler: drops the entries of which `condition` is true, and keeps the order of
// the others. Linear; frees no memory.
template <class T, class Condition>
void drop_if(std::vector<T>& list, Condition&& condition) {
  std::size_t kept = 0;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (condition(static_cast<T const&>(list[i]))) continue;
    if (kept != i) list[kept] = std::move(list[i]);
    ++kept;
  }
  while (list.size() > kept) list.pop_back();
}

// The middle one of `n` numbers, of two middle ones the greater. For a few; sorts them.
inline double median(double* values, std::size_t n) {
  for (std::size_t i = 1; i < n; ++i)
    for (std::size_t j = i; j > 0 && values[j] < values[j - 1]; --j) std::swap(values[j], values[j - 1]);
  return values[n / 2];
}

}  // namespace parallax::detail
