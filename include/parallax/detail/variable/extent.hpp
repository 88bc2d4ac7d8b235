// The extent of a rank's rows in an array, and an archive's view of them in any memory space. Called by the states of
// variables.
#pragma once

#include <cstdint>
#include <string_view>

#include "parallax/core/archive.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/kernel/host.hpp"
#include "parallax/detail/memory/buffer.hpp"

namespace parallax::inline v0_2 {

// `count` rows here, of `rows` in all; `row(i)` is the number of local row i. Refers to its functions, which outlive it.
struct Extent {
  // Rows of the whole array, all ranks together.
  std::int64_t rows;
  // The array's share: `part` if the rows here are some of all.
  Share share;
  // Number of rows here.
  std::int64_t count;
  // The number in [0, rows) of local row i, called with 0 <= i < count.
  FunctionRef<std::int64_t(std::int64_t)> row;
  // Of `part`: the place of row number 0 … rows - 1, on whatever rank.
  FunctionRef<RowPlace(std::int64_t)> where = no_owner;
};

// Shows `items` the rows of an array of `width` elements each, packed in memory of the space from `memory` on. Called by a
// state's `visit` for parameters, slots and state of rows. A device's rows go through a buffer of the host, about 2^20 elements
// at a time; all at once if the archive has `static constexpr bool whole = true`. Throws the archive's errors.
template <class A, MemorySpace Space, class T>
void visit_rows(Items<A>& items, RowOps<Space> const& ops, std::string_view name, T* memory, std::int64_t width,
                Extent const& extent) {
  if constexpr (Space::host_readable) {
    items.rows(name, memory, extent.rows, width, extent.share, extent.count, extent.row, extent.where);
  } else {
    std::int64_t at_once = std::max<std::int64_t>(1, (std::int64_t{1} << 20) / std::max<std::int64_t>(width, 1));
    if constexpr (requires { requires A::whole; }) at_once = std::max<std::int64_t>(1, extent.count);
    Buffer<T> here{static_cast<std::size_t>(std::min(at_once, extent.count) * width)};
    std::int64_t first = 0;
    do {
      std::int64_t const count = std::min(at_once, extent.count - first);
      auto const elements = static_cast<std::size_t>(count * width);
      if constexpr (!A::reads) ops.to_host(here.data(), memory + first * width, elements);
      items.rows(
          name, here.data(), extent.rows, width, extent.share, count, [&](std::int64_t i) { return extent.row(first + i); },
          extent.where);
      if constexpr (A::reads) ops.from_host(memory + first * width, here.data(), elements);
      first += count;
    } while (first < extent.count);
  }
}

// Shows the policy's own state of a variable, `policy_state`, if it has a `visit`. Throws the archive's errors.
template <class A, class State>
void visit_policy_state(Items<A>& items, State& state) {
  if constexpr (requires { state.policy_state.visit(items); }) state.policy_state.visit(items);
}

}  // namespace parallax
