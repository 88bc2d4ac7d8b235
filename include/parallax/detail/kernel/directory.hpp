// From the key of a table to the row in memory: rows are gathered, scattered and updated by it. Tables make a directory, and
// every operation on rows by key is handed it.
#pragma once

#include <cstdint>

#include "parallax/detail/core/config.hpp"

namespace parallax::inline v0_2 {

// The rows of one owner, in the order of their keys, from `first` on; a default directory takes keys for rows. Every operation
// on rows by key finds a row by this call, on the host and in kernels, which are handed a directory by value: a table with
// another way to its rows changes this type alone. Another owner's key is a precondition violated.
template <class Key>
struct Directory {
  // The key of the owner's first row; 0 if keys are rows.
  std::int64_t first = 0;

  // Returns the local row of `key`, counted from the first row of the table's memory. Called once for each touched row.
  PARALLAX_HOST_DEVICE constexpr std::int64_t operator()(Key key) const { return static_cast<std::int64_t>(key) - first; }
};

}  // namespace parallax
