// Arguments and results of `Session::save`, `restore`, `gather` and `scatter`: options, and values of the trainer beside its
// variables. A trainer fills them in.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "parallax/core/archive.hpp"
#include "parallax/step/grad.hpp"

namespace parallax::inline v0_2 {

// Options of a save. Equal on all ranks.
struct SaveOptions {
  // Number of generations that stay, this one included; older ones are removed once it is there. 0: all.
  int keep = 0;
  // Seconds for a generation to stay, by the clock of its file system, as long as there is a newer one; 0: for ever.
  double keep_for = 0;
  // Most bytes under a checksum, and of a read, from 1 to 1 MiB; a row at least.
  std::int64_t block_bytes = 1 << 20;
  // Seconds for a rank to write its files: the others wait for it so much longer than the deadline.
  double at_most = 600;
};

// Options of a restore. Equal on all ranks.
struct RestoreOptions {
  // The number of the generation; 0: the newest complete one.
  std::int64_t generation = 0;
  // Lets variables missing in the checkpoint keep their content, instead of being refused.
  bool partial = false;
  // Renamed variables: the name now, and the name in the checkpoint.
  std::vector<std::pair<std::string, std::string>> names = {};
  // Seconds for a rank to read its files: the others wait for it so much longer than the deadline.
  double at_most = 600;
  // A flag: every block of every file is compared with its checksum before anything is changed. All files are then read twice.
  // A newest generation with damage anywhere is then passed over for an older, whole one. One asked for by its number is
  // refused, and the session goes on.
  bool whole = false;
};

// Result of `Session::save`.
struct Saved {
  // Number of the generation, from 1 on: one more than the highest in the folder.
  std::int64_t generation;
  // Steps of the session when it was saved.
  std::int64_t step;
  // Path of the generation's folder.
  std::string path;
};

// Result of `Session::restore`.
struct Restored {
  // The number of the generation.
  std::int64_t generation;
  // Steps of the session when it was saved.
  std::int64_t step;
  // Lost items of ranks' own, if there are not as many ranks as before: "VARIABLE/ITEM", or the name of a value.
  std::vector<std::string> lost;
  // Reasons for passing over newer generations: a sentence for each, with the name of the file, from the newest on. They are
  // the same on all ranks.
  std::vector<std::string> passed_over;
};

// A value of the trainer in a checkpoint. Refers to value and name: both outlive this. `shared_value`, `own_value` make one.
template <class T>
struct SavedValue {
  // Distinct among the values of a checkpoint.
  std::string_view name;
  // The trainer's value, to be saved or set.
  T* value;
  // Share::any, or Share::own.
  Share share;
};
// Returns a value equal on all ranks, such as the number of an epoch: a number, a std::string, a std::vector of numbers, an
// aggregate of numbers, or any type with `template <class Items> void visit(Items&)`. It is saved once, and all ranks get it
// back. Refers to both arguments.
template <class T>
SavedValue<T> shared_value(std::string_view name, T& value) {
  return {name, &value, Share::any};
}
// Returns a value of each rank's own, such as its random numbers' state: given back to as many ranks. Refers to both arguments.
template <class T>
SavedValue<T> own_value(std::string_view name, T& value) {
  return {name, &value, Share::own};
}

// Ranks that take the rows of a `gather`, and ranks that give those of a `scatter`. P: the number of ranks, servers too.
enum class WholeAt : unsigned char {
  // Rank 0 has all rows outside of the session: it takes all, or gives all, and they go to their holders.
  rank_0,
  // Every rank has all rows outside of the session: it takes all, as for an evaluation. In a scatter it gives the rows held by
  // it, so nothing travels; replicas are given by each rank alike.
  every_rank,
  // Rank r takes the rows [r * rows / P, (r + 1) * rows / P). In a scatter each row is given once: of rows held by owners, by
  // its owner, and nothing travels; of rows held by every rank, by the rank of its part, and the others get it.
  parts
};
// Returns a WholeAt in words, for messages.
constexpr std::string_view to_string(WholeAt at) {
  return at == WholeAt::rank_0 ? "rank 0" : at == WholeAt::every_rank ? "every rank" : "parts";
}

// Content of `Session::gather` and `Session::scatter`. Equal on all ranks; they compare it.
//
// The rows are those of a table, [rows() x width()]; of a dense variable its elements, [size() x 1], or, if its optimizer
// measures rows (px::Unit::row), the rows given when it was bound. Of a slot they are the entries beside those rows, of a row
// slot [rows x 1]. Values and slots are as of the last step: rows left behind by an exact optimizer are settled first, as for
// `local()`, without a change of anything ever read.
//
// The callable of a gather is take(std::span<std::int64_t const> numbers, RowsView<T const> rows), and of a scatter
// give(std::span<std::int64_t const> numbers, RowsView<T> rows), which fills all of `rows`. T is the scalar type of the
// variable, or of the slot; rows lie one behind the other in the host's memory, row i is number numbers[i] of all, and both are
// valid for the call. A callable not for the item's T is an Error (invalid_argument). Each row comes once. Taken rows, and rows
// given by rank 0 or a part, ascend without a gap: row i is number numbers[0] + i. A holder that gives its own rows is asked
// for them in their order in memory. A rank without rows is not called. Calls do not use the session.
struct WholeOptions {
  // The name of a slot of the optimizer (slot_names: "m" and "v" of Adam); empty: the parameters.
  std::string slot = {};
  // Ranks that take or give the rows.
  WholeAt at = WholeAt::rank_0;
  // Bytes of one call, a row being its elements and 16 bytes; at least a row. With `parts`, if rows travel, they are of P calls
  // together, for P ranks take or give at once. However large the table is, a rank needs no more than four times as many, and
  // of a table on a device once as many there.
  std::int64_t call_bytes = 4 << 20;
  // Seconds for a rank's one call: the others wait for it so much longer than the deadline.
  double at_most = 600;
};

namespace detail {

// True for values that may be saved beside variables and ranges of them.
template <class T>
inline constexpr bool is_saved_value = false;
template <class T>
inline constexpr bool is_saved_value<SavedValue<T>> = true;

// Returns true if all may stand in a checkpoint; else false, after an assertion that names the right things.
template <class... Things>
consteval bool check_saved() {
  constexpr bool right =
      (true && ... && (VariableOrRange<std::remove_cvref_t<Things>> || is_saved_value<std::remove_cvref_t<Things>>));
  static_assert(right,
                "parallax: a checkpoint is of variables, ranges of variables, and values: shared_value(\"name\", value) or "
                "own_value(\"name\", value)");
  return right;
}

}  // namespace detail
}  // namespace parallax
