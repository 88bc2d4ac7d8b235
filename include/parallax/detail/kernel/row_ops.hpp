// The operations on rows in a memory space, and the grouping of equal keys that ties them together. Plans, ways and tables
// include it for the types; detail/kernel/host.hpp has the operations. The room `kernel` computes: it groups keys, and gathers,
// sums and updates rows, on the host and on devices.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/measures.hpp"
#include "parallax/detail/core/view.hpp"
#include "parallax/detail/memory/buffer.hpp"
#include "parallax/detail/memory/space.hpp"

namespace parallax::inline v0_2 {

// The rows of one owner, in the order of their keys, from `first` on; a default directory takes keys for rows. Every operation
// on rows by key finds a row by this call, on the host and in kernels, which are handed a directory by value: a table with
// another order of its rows changes this type alone. Another owner's key is a precondition violated.
template <class Key>
struct Directory {
  // The key of the owner's first row; 0 if keys are rows.
  std::int64_t first = 0;

  // Returns the local row of `key`, counted from the first row of the table's memory. Called once for each touched row.
  PARALLAX_HOST_DEVICE constexpr std::int64_t operator()(Key key) const { return static_cast<std::int64_t>(key) - first; }
};

// n keys grouped by value, with their memory: `size()` = u distinct ones, `count()` = n positions. The positions of distinct
// key k are order[offsets[k]] … order[offsets[k + 1] - 1]: its run. Made by `RowOps<Space>::unique_with_inverse`, which reuses
// the memory.
template <class Index, MemorySpace Space = HostSpace>
struct Grouping {
  Buffer<Index, Space> keys;             // the u distinct keys, ascending
  Buffer<std::uint32_t, Space> offsets;  // u + 1: the beginning of each key's run in `order`
  Buffer<std::uint32_t, Space> order;    // n: positions of the keys, run after run, ascending within a run
  Buffer<std::uint32_t, Space> inverse;  // n: position -> number of its distinct key

  // Returns the number u of distinct keys.
  std::size_t size() const noexcept { return keys.size(); }
  // Returns the number n of grouped keys, duplicates included.
  std::size_t count() const noexcept { return order.size(); }
};

// The fate of elements at rest in the steps of a rule. See Resting.
enum class Rest : std::int64_t {
  never,    // none rests, whatever its slots are
  looks,    // one may rest: it is looked for in the first step, and rests in the others then
  goes_on,  // one at rest in the step before rests in these
};

// An optimizer's rule, and the number of its first step. Devices take rows by these through the steps that have passed them by.
template <class Rule>
struct NumberedRule {
  // The number of the rule's first step; the variable's first one is 1.
  std::int64_t step;
  // The change of an element by its steps.
  Rule rule;
  // The fate of elements at rest in its steps.
  Rest rest = Rest::never;
};

// The rules of all steps that rows may be behind, in memory of a device. Does not own.
template <class Rule>
struct KeptRules {
  // Ascending by step: a rule is of all steps before the next one's.
  NumberedRule<Rule> const* rules = nullptr;
  // The number of rules.
  std::int64_t count = 0;
  // The last step without rest.
  std::int64_t restless = 0;
};

// A step of a graph's, in memory of a device, for kernels at the graph's launch.
template <class Rule>
struct LaunchedStep {
  // Its number and rule.
  NumberedRule<Rule> own;
  // The rules of the steps before it.
  KeptRules<Rule> before;
};

// Memory for sorting, kept by a caller from step to step, so steady steps allocate nothing. Specialised beside RowOps for each
// memory space whose operations group keys.
template <class Index, MemorySpace Space = HostSpace>
struct SortScratch;

// The customisation point: row operations on memory of one space. `RowOps<HostSpace>` (detail/kernel/host.hpp) documents the
// contract of each operation and is the oracle of every other: a specialisation yields the same bits. Nothing here
// communicates, and shapes are preconditions. On the host nothing but `unique_with_inverse` allocates or throws; on a device
// every call that puts work in a queue may, and scratch is taken from the queue's memory.
//
//   unique_with_inverse  groups keys by value                 gather_rows       table rows by index, packed
//   coalesce             sums the rows of every run           scatter_rows      packed rows to table rows
//   run_lengths          positions per distinct key           scatter_add_rows  adds packed rows to table rows
//   sum_counts           sums given counts per run            apply_rows        an optimizer's rule, row by row
//   bucket               cuts sorted keys at boundaries       apply_elements    an optimizer's rule, element by element
//   coalesce_terms · sum_term_runs · gather_terms             sums of rows by reference, for bags of rows
//   place_in_bags        the bag of an index, the number kept by a bag, and their shares in a mean
//   pack_rows · copies · copy_bytes · clear · fill            rows and bytes moved or set as they are
//   scale_rows_down · scale_counted_rows_down                 rows divided by their number of namings
//   copy_from · add_to · scale_down                           arithmetic on contiguous elements
//   measure_elements     an optimizer's measures of them      finish_rule   its rule, made of the measures
//
// `Findings` (detail/kernel/findings.hpp) seek the facts about elements on which a step depends. A device has settle_rows and
// settle_all_rows beside apply_rows, for rows passed by in steps: the host takes each of those steps by apply_elements. A
// device groups and cuts keys for `Groups` (detail/kernel/groups.hpp), and need not offer the first and the last of the left
// column. All else works on rows in memory of the space, in the order of its queue. An object is made of the queue
// (RowOps<Space>{queue}), and finds the host's data by `Shown`.
template <MemorySpace Space>
struct RowOps;

// The copy by which operations in a space find elements T of the host's memory, owned if there must be one. `of(ops, host)` is
// the copy, made at the first call since a `renew`; `renew` says that the host has changed them. Plans, tables and ways hold
// one for each array they show.
template <class T, MemorySpace Space>
class Shown;
// In the host's memory operations read elements in their own place, and nothing is owned.
template <class T>
class Shown<T, HostSpace> {
 public:
  // Returns the host's own elements, which must stay.
  std::span<T const> of(RowOps<HostSpace> const&, std::span<T const> host) const { return host; }
  // Does nothing: no copy could be old.
  void renew() {}
};

// The cut of a sum: the addends of one run in chunks of this many, counted from the run's start. The bits of a result depend on
// it; a GPU can sum the chunks in parallel and arrive at the same bits.
inline constexpr std::size_t sum_chunk = 64;

// The cut of a sum over elements, of squares or of an optimizer's measures: blocks of this many. A block's sum is of eight
// partial sums, number k of its elements k, k + 8, k + 16, …: ((0 + 1) + (2 + 3)) + ((4 + 5) + (6 + 7)); the blocks' sums are
// added in groups, by the rule of sum_group. No vector width changes it, and a GPU sums the blocks side by side.
inline constexpr std::int64_t measured_block = 4096;

// The adding of many sums, first of a row's blocks and then of rows: in groups of this many, counted from the first. A group is
// added in order, from zero; the groups' sums are numbers, added in groups again, until one is left. So up to this many are
// added one after another, and a GPU adds the groups of more side by side.
inline constexpr std::size_t sum_group = 64;

// A rank's rows in their place, without ownership: row k is the sum, like `coalesce`'s, of rows `order[offsets[k]]` …
// `order[offsets[k + 1] - 1]`; without an order, row k itself. Between ranks that find each other's memory it takes the place
// of sent rows: the owner reads the lender's by it.
template <class T>
struct LentRows {
  // The rows to be summed, in the lender's memory; they stay until the borrower is done.
  RowsView<T const> rows;
  // Positions of rows, run after run; null if rows are lent as they are.
  std::uint32_t const *order = nullptr, *offsets = nullptr;  // the beginning of each run in `order`, or null, too
};

// In place of a scale: gradients as they are, without a question at run time.
struct Unscaled {};
// In place of a scale: sums over ranks, divided on their way to the rule, then scaled. The quotients are never written back.
template <class T>
struct Averaged {
  // Divisor of the sums: the number of ranks, for the mean over them.
  T divisor, scale = T{1};  // factor of the quotients: a clip, for example
};

// Padded batches of a table, and the telling of their errors to the host: a table's state has one, of its memory's space. In
// the host's memory no table is padded; detail/kernel/cuda/padded_batches.hpp has those of a device.
template <MemorySpace Space>
class PaddedBatches {
 public:
  // Returns true if batches are padded.
  static constexpr bool on() { return false; }
};

}  // namespace parallax
