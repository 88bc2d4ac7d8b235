// What operations on a CUDA device are given beside rows: groupings of keys, copies, optimizers' state. For every compiler:
// kernel/cuda/row_ops.hpp declares operations on it, and the launchers are handed it as it is.
#pragma once

#include <cstddef>
#include <cstdint>

#include "parallax/detail/core/view.hpp"
#include "parallax/detail/kernel/row_ops.hpp"

namespace parallax::inline v0_2::device {

// Does not own. `Grouping` (detail/kernel/row_ops.hpp) in device memory: n keys grouped by value, u distinct ones. u is known
// on the device alone, until somebody copies it; all arrays have room for u = n.
template <class Index>
struct GroupingView {
  Index* keys = nullptr;              // u of n: the distinct keys, ascending
  std::uint32_t* offsets = nullptr;   // u + 1 of n + 1: where each key's run begins in `order`
  std::uint32_t* order = nullptr;     // n: positions of the keys, run after run, ascending within a run
  std::uint32_t* inverse = nullptr;   // n: position -> number of its distinct key
  std::uint32_t* distinct = nullptr;  // 1: u
  std::uint32_t count = 0;            // n

  // How many there may be of the distinct keys [first, last), of which a `last` of ~0u is the end of all.
  std::uint32_t most(std::uint32_t first, std::uint32_t last) const {
    if (last == ~0u) last = count;
    return last > first ? last - first : 0;
  }
};

// Does not own. Tables that are kept one behind the other, and a batch of bags, of which each table has as many: its ids are
// numbers in the table of their bag. In device memory; as it is made, there is one table, and ids are numbers in it.
template <class Index>
struct StackView {
  Index const* firsts = nullptr;          // tables + 1: the first row of each, and the end
  std::uint32_t const* begins = nullptr;  // tables * bags + 1: where each bag begins among the ids
  std::uint32_t tables = 1;               // how many there are
  std::uint32_t bags = 0;                 // of one table
};

// How the groups of a batch are padded.
struct Padding {
  // To how many owners keys go.
  std::uint32_t owners = 0;
  // How many keys to each at most.
  std::uint32_t capacity = 0;
  // Whether indices outside the table are errors, by which a batch misfits.
  bool refuses = false;
};
// What batches have named that found no place, summed over all batches of a padded table. All zeros at first.
struct PaddingTally {
  // Indices outside the table that took no part.
  std::uint64_t dropped = 0;
  // Those that are errors.
  std::uint64_t refused = 0;
  // Offsets of bags that were wrong.
  std::uint64_t wrong = 0;
  // Runs of keys that were longer than the capacity.
  std::uint64_t overflows = 0;
  // How long the longest of them was.
  std::uint64_t longest = 0;
};

// How many blocks check and take the offsets of so many bags: each leaves a number, which a kernel of one block adds up.
constexpr std::size_t blocks_of_offsets(std::size_t bags) {
  constexpr std::size_t most = 64, offsets_of_block = 256;
  std::size_t const needed = bags / offsets_of_block + 1;
  return needed < most ? needed : most;
}

// One copy of many. Ranges written overlap nothing.
struct Copy {
  // Where the bytes are, in device memory.
  void const* from;
  // Where they go, in device memory.
  void* to;
  // How many; 0 is a copy of nothing.
  std::uint64_t bytes;
};

// The copies that one kernel makes, which is handed them by value: nothing has to be sent ahead of it, and nothing waited for.
struct CopyList {
  // How many a list has room for: those of 4 KiB, which is what a kernel's arguments may take.
  static constexpr std::uint32_t capacity = 168;

  // The first `count` of them are to be made.
  Copy copies[capacity];
  // How many were added.
  std::uint32_t count = 0;
  // Bytes of the largest, by which the kernel's grid is shaped.
  std::uint64_t most_bytes = 0;

  // Whether there is no room for another one.
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

// The slots of an optimizer that keeps nothing, and the end of every list.
template <>
struct Slots<> {
  // `f()`: there is no table left.
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
  // The other slots, in the order in which the rule takes them.
  Slots<Rest...> rest;

  // The slots of a rule, in its order.
  explicit Slots(RowsView<S> table, RowsView<Rest>... tables) : first{table}, rest{tables...} {}

  // `f(table…)`, on the host: what launchers ask of all tables before they choose a kernel.
  template <class F>
  decltype(auto) with_on_host(F const& f) const {
    return rest.with_on_host([&](auto... tables) -> decltype(auto) { return f(first, tables...); });
  }
};

// The types of slots follow from their tables.
template <class... S>
Slots(RowsView<S>...) -> Slots<S...>;

// An optimizer's rule as operations are given it: by value; or, of a step that is captured once and launched with other rules, where
// device memory has it by the time that a kernel runs. See Capture.
template <class Rule>
struct PlacedRule {
  // The rule of the step at hand.
  Rule rule;
  // Null, or where it is instead.
  Rule const* there = nullptr;
};

// Does not own. As of which step each row of a table is, and what the steps since then do to it, in device memory. A row that no step
// has named meanwhile has to take them all, with a gradient of zero, before it is read or moved.
template <class Rule>
struct RowAges {
  // By row: the last step that has moved it.
  std::int64_t* settled;
  // The rules of the steps since then.
  KeptRules<Rule> kept;
  // Rows are brought up to this step.
  std::int64_t last;
  // Null, or where the step after it is instead, of a step that is captured, and the rules.
  LaunchedStep<Rule> const* next = nullptr;
  // Whether that step is going to move the rows itself, so that they are as of it from here on.
  bool updates = false;
};

namespace detail {
// What a rule is, wherever it lies.
template <class Rule>
struct BareRuleOf {
  using type = Rule;
};
template <class Rule>
struct BareRuleOf<PlacedRule<Rule>> {
  using type = Rule;
};
}  // namespace detail
// The optimizer's rule that an operation is given, whether it is placed or not.
template <class Rule>
using BareRule = typename detail::BareRuleOf<Rule>::type;

}  // namespace parallax::device
