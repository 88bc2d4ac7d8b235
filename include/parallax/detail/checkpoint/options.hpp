// What `Session::save`, `restore`, `gather` and `scatter` are given and return: options, and values of the trainer beside its variables.
// A trainer fills them in.
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

// How a checkpoint is saved. The same on all ranks.
struct SaveOptions {
  // How many generations stay, this one included; older ones are removed once it is there. 0: all.
  int keep = 0;
  // Seconds that a generation stays, by the clock of its file system, as long as there is a newer one; 0: for ever.
  double keep_for = 0;
  // Bytes that a checksum is of, and that are read at once, at most 1 MiB; a row at least.
  std::int64_t block_bytes = 1 << 20;
  // Seconds that a rank may take to write its files: so much longer than the deadline do the others wait for it.
  double at_most = 600;
};

// How a checkpoint is restored. The same on all ranks.
struct RestoreOptions {
  // The number of the generation; 0: the newest that is complete.
  std::int64_t generation = 0;
  // Whether variables that the checkpoint does not have keep what they have, instead of being refused.
  bool partial = false;
  // Of variables that are called otherwise than in the checkpoint: the name now, and the name there.
  std::vector<std::pair<std::string, std::string>> names = {};
  // Seconds that a rank may take to read: see SaveOptions.
  double at_most = 600;
  // A flag: every block of every file is compared with its checksum before anything is changed. All files are then read twice.
  // A newest generation that is damaged anywhere is then passed over for an older one that is whole. One that was asked for by
  // its number is refused, and the session goes on.
  bool whole = false;
};

// What `Session::save` has made.
struct Saved {
  // From 1 on, one more than the highest in the folder.
  std::int64_t generation;
  // Of `Session::steps`.
  std::int64_t step;
  // The generation's folder.
  std::string path;
};

// What `Session::restore` has read.
struct Restored {
  // The number of the generation.
  std::int64_t generation;
  // How many steps the session had taken when it was saved.
  std::int64_t step;
  // What ranks had of their own, and lost, because there are as many ranks no more: "VARIABLE/ITEM", or the name of a value.
  std::vector<std::string> lost;
  // Why newer generations were passed over: a sentence for each, with the name of the file, from the newest on. They are the
  // same on all ranks.
  std::vector<std::string> passed_over;
};

// A value of the trainer in a checkpoint. Refers to it. `shared_value` and `own_value` make one.
template <class T>
struct SavedValue {
  // Distinct among the values of a checkpoint.
  std::string_view name;
  // What is saved, or set.
  T* value;
  // Share::any, or Share::own.
  Share share;
};
// A value that all ranks have alike, such as the number of an epoch: a number, a std::string, a std::vector of numbers, an aggregate
// of numbers, or what has `template <class Items> void visit(Items&)`. It is saved once, and every rank is given it back.
template <class T>
SavedValue<T> shared_value(std::string_view name, T& value) {
  return {name, &value, Share::any};
}
// A value that every rank has one of, such as the state of its random numbers. It is given back where there are as many ranks again.
template <class T>
SavedValue<T> own_value(std::string_view name, T& value) {
  return {name, &value, Share::own};
}

// Which ranks take the rows of a `gather`, and which ones give those of a `scatter`. P: the number of ranks, servers too.
enum class WholeAt : unsigned char {
  // Rank 0 has all rows outside of the session: it takes all, or gives all, and they go to who holds them.
  rank_0,
  // Every rank has all rows outside of the session: it takes all, as for an evaluation. In a scatter it gives those that it
  // holds, so that nothing travels; replicas are given by each rank alike.
  every_rank,
  // Rank r takes the rows [r * rows / P, (r + 1) * rows / P). In a scatter each row is given once: where owners hold the rows,
  // by its owner, and nothing travels; where every rank holds all, by the rank whose part it is in, and the others get it.
  parts
};
// A WholeAt as messages show it.
constexpr std::string_view to_string(WholeAt at) {
  return at == WholeAt::rank_0 ? "rank 0" : at == WholeAt::every_rank ? "every rank" : "parts";
}

// What `Session::gather` shows, and `Session::scatter` sets. The same on all ranks, which compare it.
//
// The rows are those of a table, [rows() x width()]; of a dense variable its elements, [size() x 1], or, where its optimizer
// measures rows (px::Unit::row), the rows that it was bound by. Of a slot they are the entries beside those rows, of a row slot
// [rows x 1]. Values and slots are as of the last step: rows that an exact optimizer has left behind are settled first, as for
// `local()`, which changes nothing that is ever read.
//
// The callable of a gather is take(std::span<std::int64_t const> numbers, RowsView<T const> rows), that of a scatter
// give(std::span<std::int64_t const> numbers, RowsView<T> rows), which fills all of `rows`. T is the scalar type of the
// variable, or of the slot; rows lie one behind the other in the host's memory, row i is number numbers[i] of all, and both are
// valid for the call. A callable that is not for the item's T is an Error (invalid_argument). Each row comes once. What is
// taken, and what rank 0 or a part gives, ascends without a gap: row i is number numbers[0] + i. A holder that gives its own
// rows is asked for them in the order in which they lie. A rank that has no rows is not called. Calls do not use the session.
struct WholeOptions {
  // The name of a slot of the optimizer (slot_names: "m" and "v" of Adam); empty: the parameters.
  std::string slot = {};
  // Which ranks take or give the rows.
  WholeAt at = WholeAt::rank_0;
  // Bytes of one call, a row being its elements and 16 bytes; at least a row. With `parts`, where rows travel, they are of P
  // calls together, for P ranks take or give at once. However large the table is, a rank needs no more than four times as many,
  // and of a table on a device once as many there.
  std::int64_t call_bytes = 4 << 20;
  // Seconds that a rank may take for one call: so much longer than the deadline do the others wait for it.
  double at_most = 600;
};

namespace detail {

// The values that may be saved beside variables and ranges of them.
template <class T>
inline constexpr bool is_saved_value = false;
template <class T>
inline constexpr bool is_saved_value<SavedValue<T>> = true;

// False where the assertion has told the user.
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
