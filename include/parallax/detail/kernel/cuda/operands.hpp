// Operands of operations on a CUDA device beside rows: groupings of keys, copies, optimizers' state. For every compiler:
// kernel/cuda/row_ops.hpp declares operations on it, and the launchers are handed it as it is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "parallax/detail/core/view.hpp"
#include "parallax/detail/kernel/row_ops.hpp"

namespace parallax::inline v0_2::device {

// A view of a `Grouping` (detail/kernel/row_ops.hpp) in device memory: n keys grouped by value, u distinct ones. Does not own.
// u is known on the device alone, until somebody copies it; all arrays have room for u = n.
template <class Index>
struct GroupingView {
  Index* keys = nullptr;              // u of n: the distinct keys, ascending
  std::uint32_t* offsets = nullptr;   // u + 1 of n + 1: the beginning of each key's run in `order`
  std::uint32_t* order = nullptr;     // n: positions of the keys, run after run, ascending within a run
  std::uint32_t* inverse = nullptr;   // n: position -> number of its distinct key
  std::uint32_t* distinct = nullptr;  // 1: u
  std::uint32_t count = 0;            // n

  // Returns the most there may be of the distinct keys [first, last); a `last` of ~0u is the end of all.
  std::uint32_t most(std::uint32_t first, std::uint32_t last) const {
    if (last == ~0u) last = count;
    return last > first ? last - first : 0;
  }
};

// Tables kept one behind the other, and a batch of bags, as many for each table: its ids are numbers in the table of their bag.
// Does not own. In device memory; by default there is one table, and ids are numbers in it.
template <class Index>
struct StackView {
  Index const* firsts = nullptr;          // tables + 1: the first row of each, and the end
  std::uint32_t const* begins = nullptr;  // tables * bags + 1: the beginning of each bag among the ids
  std::uint32_t tables = 1;               // how many there are
  std::uint32_t bags = 0;                 // of one table
};

// Padding of a batch's groups.
struct Padding {
  // Number of owners.
  std::uint32_t owners = 0;
  // Most keys to each owner.
  std::uint32_t capacity = 0;
  // True if an index outside the table is an error: the batch then misfits, and is left out on all ranks.
  bool refuses = false;
};
// Parts of batches without a place, summed over all batches of a padded table. All zeros at first.
struct PaddingTally {
  // The number of indices outside the table that took no part.
  std::uint64_t dropped = 0;
  // The number of indices outside the table that were errors.
  std::uint64_t refused = 0;
  // The number of wrong offsets of bags.
  std::uint64_t wrong = 0;
  // The number of runs of keys to an owner longer than the capacity.
  std::uint64_t overflows = 0;
  // The keys of the longest such run.
  std::uint64_t longest = 0;
};

// Returns the number of blocks that check and take the offsets of so many bags: each leaves a number, added up by a kernel of
// one block.
constexpr std::size_t blocks_of_offsets(std::size_t bags) {
  constexpr std::size_t most = 64, offsets_of_block = 256;
  std::size_t const needed = bags / offsets_of_block + 1;
  return needed < most ? needed : most;
}

// One copy of many. Ranges written overlap nothing.
struct Copy {
  // Source, in device memory.
  void const* from;
  // Destination, in device memory.
  void* to;
  // Bytes; 0 is a copy of nothing.
  std::uint64_t bytes;
};

// The copies of one kernel, handed to it by value: nothing has to be sent ahead, and nothing waited for.
struct CopyList {
  // Room of a list: 4 KiB, the most for a kernel's arguments.
  static constexpr std::uint32_t capacity = 168;

  // The first `count` of them are to be made.
  Copy copies[capacity];
  // Number of copies added.
  std::uint32_t count = 0;
  // Bytes of the largest, which shape the kernel's grid.
  std::uint64_t most_bytes = 0;

  // Returns true if there is no room for another one.
  bool full() const { return count == capacity; }
  // Adds a copy to a list that is not full.
  void add(Copy const& copy) {
    copies[count++] = copy;
    if (copy.bytes > most_bytes) most_bytes = copy.bytes;
  }
};
static_assert(sizeof(CopyList) + sizeof(unsigned) <= 4096);

// Does not own. State of an optimizer beside the rows of a table, a view for each slot; of one number a row: the width is 1.
// Handed to kernels by value, as a list of a first table and the rest.
//   Slots{RowsView{m, rows, width}, RowsView{v, rows, width}}
template <class... S>
struct Slots;

// The slots of an optimizer without state, and the end of every list.
template <>
struct Slots<> {
  // Returns `f()`: there is no table left.
  template <class F>
  decltype(auto) with_on_host(F const& f) const {
    return f();
  }
};

// A table of slots, and those after it.
template <class S, class... Rest>
struct Slots<S, Rest...> {
  // The first slot: one of S for each element, or each row, of the table.
  RowsView<S> first;
  // The other slots, in the rule's order.
  Slots<Rest...> rest;

  // Makes the slots of a rule, in its order.
  explicit Slots(RowsView<S> table, RowsView<Rest>... tables) : first{table}, rest{tables...} {}

  // Returns `f(table…)`, called on the host: launchers ask all tables before they choose a kernel.
  template <class F>
  decltype(auto) with_on_host(F const& f) const {
    return rest.with_on_host([&](auto... tables) -> decltype(auto) { return f(first, tables...); });
  }
};

// The types of slots follow from their tables.
template <class... S>
Slots(RowsView<S>...) -> Slots<S...>;

// An optimizer's rule for operations: by value; or, for a step captured once and launched with other rules, its place in device
// memory, filled by the time a kernel runs. See Capture.
template <class Rule>
struct PlacedRule {
  // The rule of the step at hand.
  Rule rule;
  // Null, or the place of the rule in device memory, read instead.
  Rule const* there = nullptr;
};

// Ages of rows in device memory: the step that last moved each row, and the rules of the steps since. Does not own. Before a
// row is read or moved, it takes the rules of all steps since its own, each with a gradient of zero.
template <class Rule>
struct RowAges {
  // By row: the last step that has moved it.
  std::int64_t* settled;
  // The rules of the steps since then.
  KeptRules<Rule> kept;
  // Rows are brought up to this step.
  std::int64_t last;
  // Null, or, in a captured step, the place of the step after the last, read in place of `last` and `kept`.
  LaunchedStep<Rule> const* next = nullptr;
  // True if the next step is going to move the rows itself, so they are as of it from here on.
  bool updates = false;
};

namespace detail {
// A rule's own type, at any place.
template <class Rule>
struct BareRuleOf {
  using type = Rule;
};
template <class Rule>
struct BareRuleOf<PlacedRule<Rule>> {
  using type = Rule;
};
}  // namespace detail
// The rule's type of an operation, placed or not.
template <class Rule>
using BareRule = typename detail::BareRuleOf<Rule>::type;

}  // namespace parallax::device
