// The two kinds of variable, how gradients of several ranks become one, and what is done about indices that no table has.
// Variables, policies and pulls include it.
#pragma once

#include <string_view>

namespace parallax::inline v0_2 {

// A gradient for every element. The first argument of `Variable`.
struct Dense {
  // The kind as messages show it.
  static constexpr std::string_view name = "Dense";
};

// A table of rows by width; a gradient for the few rows that a batch touched. The first argument of `Variable`.
struct Sparse {
  // The kind as messages show it.
  static constexpr std::string_view name = "Sparse";
};

// How the gradients of all ranks are combined. `mean` divides their sum once by the number of ranks; `mean_by_count`
// divides every row by the number of indices that named it, over all ranks (a dense gradient is named once by each rank).
enum class Reduce : unsigned char { mean, sum, mean_by_count };

// What happens to an index outside [0, rows) of a table. `error`: the operation is refused on every rank, before anything is
// sent. `drop_and_count`: the index takes no part, its row reads as zeros, and the variable counts it. `hash`: it stands for a
// row that its hash chooses.
enum class BadIds : unsigned char { error, drop_and_count, hash };

// How the rows of a bag become one when bags are pulled. `mean` divides their sum by their number.
enum class Pool : unsigned char { sum, mean };

// The policy in the words of the enumeration, as signatures of variables show it.
constexpr std::string_view to_string(BadIds policy) {
  return policy == BadIds::error ? "error" : policy == BadIds::hash ? "hash" : "drop_and_count";
}

// The reduction in the words of the enumeration, as signatures of variables show it.
constexpr std::string_view to_string(Reduce reduce) {
  return reduce == Reduce::mean ? "mean" : reduce == Reduce::sum ? "sum" : "mean_by_count";
}

}  // namespace parallax
