// The two kinds of variable, the reduction of several ranks' gradients to one, and the treatment of indices outside a table.
// Included by variables, policies and pulls.
#pragma once

#include <string_view>

namespace parallax::inline v0_2 {

// Kind with a gradient for every element. The first argument of `Variable`.
struct Dense {
  // Name of the kind in messages.
  static constexpr std::string_view name = "Dense";
};

// Kind of a table of rows by width, with a gradient for the few rows touched by a batch. The first argument of `Variable`.
struct Sparse {
  // Name of the kind in messages.
  static constexpr std::string_view name = "Sparse";
};

// Combination of the gradients of all ranks. `mean` divides their sum once by the number of ranks; `mean_by_count` divides
// every row by the number of its indices, over all ranks (a dense gradient is named once by each rank).
enum class Reduce : unsigned char { mean, sum, mean_by_count };

// Treatment of an index outside [0, rows) of a table. `error`: the operation is refused on every rank, before anything is sent.
// `drop_and_count`: the index takes no part, its row reads as zeros, and the variable counts it. `hash`: it stands for a row
// chosen by its hash.
enum class BadIds : unsigned char { error, drop_and_count, hash };

// Pooling of the rows of a bag into one when bags are pulled. `mean` divides their sum by their number.
enum class Pool : unsigned char { sum, mean };

// Returns the policy in the words of the enumeration, as in signatures of variables.
constexpr std::string_view to_string(BadIds policy) {
  return policy == BadIds::error ? "error" : policy == BadIds::hash ? "hash" : "drop_and_count";
}

// Returns the reduction in the words of the enumeration, as in signatures of variables.
constexpr std::string_view to_string(Reduce reduce) {
  return reduce == Reduce::mean ? "mean" : reduce == Reduce::sum ? "sum" : "mean_by_count";
}

}  // namespace parallax
