// The members of a variable's state that its ways may ask for, and no others: VariableState for all ways, DenseVariableState
// and TableState for those of each kind. The states of detail/variable/ satisfy them; ways know a state by nothing else.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>

#include "parallax/detail/core/kind.hpp"
#include "parallax/detail/core/pointer.hpp"
#include "parallax/detail/kernel/row_ops.hpp"
#include "parallax/detail/policy/merging.hpp"
#include "parallax/detail/policy/update.hpp"

namespace parallax::inline v0_2 {

// A rank's share of a variable, as the ways of both kinds see it. No member is collective: a state sends nothing, and each rank
// calls its own. A flight holds the state, by Shared, from a way's `prepare` to its `close`.
template <class S>
concept VariableState = std::derived_from<S, Counted> && requires(S& state, S const& seen) {
  // The type of an element of a gradient, its memory space, and the exchange of the variable's policy for its kind.
  typename S::scalar_type;
  typename S::space;
  typename S::Exchange;
  // The variable's name, for messages; alike on all ranks.
  { seen.name() } -> std::same_as<std::string const&>;
  // Operations on memory of the space, in the order of this rank's queue.
  { seen.ops() } -> std::same_as<RowOps<typename S::space> const&>;
  // The rule by which the gradients of the ranks become one; alike on all ranks.
  { seen.reduce() } -> std::same_as<Reduce>;
  // The results of a step's updates, empty between steps: a Merging.
  state.merging;
  // The exchange's `memory<State>`, or nothing.
  state.policy_state;
  // Called by a leader's `merge`, before the commit: throws the errors of the optimizer's `at`, and an Error for a setting that
  // is not finite.
  state.reserve_update();
  // Called last in `apply`: counts the step.
  state.end_update();
};

namespace detail {

// A state that moves elements once they have gradients: `apply(first, gradients, n, scale, rule)` those of [first, first + n).
template <class S, class T = typename S::scalar_type>
concept AppliesAtOnce = requires(S& state, T const* gradients, T scale) {
  state.apply(std::size_t{}, gradients, std::size_t{}, scale, state.rule());
};
// A state that moves elements by sums, each divided by `divisor(ranks)`: `apply_sums(first, sums, n, divisor, scale, rule)`.
template <class S, class T = typename S::scalar_type>
concept AppliesSums = requires(S& state, S const& seen, T const* sums, T scale) {
  { seen.divisor(int{}) } -> std::same_as<T>;
  state.apply_sums(std::size_t{}, sums, std::size_t{}, scale, scale, state.rule());
};
// A state with an optimizer that measures the whole tensor first: `measure` writes `measured_sums` numbers of elements [first,
// first + n) to `out`, and `finish` moves elements by the rule made of all these numbers.
template <class S, class T = typename S::scalar_type>
concept MeasuresTensor = requires(S& state, T const* gradients, T scale, double* out) {
  { S::measured_sums } -> std::convertible_to<std::size_t>;
  state.measure(std::size_t{}, gradients, std::size_t{}, scale, out);
  state.finish(std::size_t{}, gradients, std::size_t{}, scale, state.rule());
};

// A state with the functions of its rule: MeasuresTensor or AppliesAtOnce, and AppliesSums if the rule is by element.
template <class S>
concept Applies = (!S::measures || MeasuresTensor<S>)&&(S::measures || AppliesAtOnce<S>)&&(!S::by_element || AppliesSums<S>);

}  // namespace detail

// A rank's share of a dense variable: asked by DenseWay and by its sums. All functions are local, and those that update are for
// the time after the commit.
template <class S>
concept DenseVariableState = VariableState<S> && detail::Applies<S> &&
    requires(S& state, S const& seen, std::span<typename S::scalar_type> sums) {
  // True if owners update their parts alone; if a rule sees an element and no other; if it measures the whole tensor first.
  { S::sharded } -> std::convertible_to<bool>;
  { S::by_element } -> std::convertible_to<bool>;
  { S::measures } -> std::convertible_to<bool>;
  { state.merging } -> std::same_as<Merging<decltype(sums)>&>;
  // All parameters on this rank; their number; and the elements of a row that no part divides, 1 for a rule by element.
  { seen.values() } -> std::same_as<decltype(sums)>;
  { seen.size() } -> std::same_as<std::size_t>;
  { seen.unit() } -> std::same_as<std::size_t>;
  // Divides elements of a sum in place: by the given number of ranks, unless `reduce` says sum.
  seen.average(sums, int{});
  // First in `apply`; then the optimizer's rule for this step.
  state.begin_update();
  seen.rule();
};

namespace detail {

// More of a table in memory of a device.
template <class S, class T = typename S::scalar_type>
concept TableStateThere = requires(S& state, typename S::Plan& plan,
                                   ReducedRows<typename S::index_type, T, typename S::space> const& reduced) {
  // True if its batches may be padded.
  { S::can_pad } -> std::convertible_to<bool>;
  // The first keys of owners, and the first rows of a stack's tables, in the device's memory, as long as the state.
  { state.bases_there() } -> std::same_as<std::span<typename S::index_type const>>;
  { state.firsts_there() } -> std::same_as<std::span<typename S::index_type const>>;
  // Sums addends by groups, averages over so many ranks, and applies the optimizer, in one; put in the device's queue.
  state.apply_runs(reduced, RowsView<T const>{}, plan.top(), int{});
};

}  // namespace detail

// A rank's share of a table: asked by the ways of rows, and by what makes a batch of indices into a plan. All functions are
// local. Keys are numbers of rows in the order of owners, of `index_type`; rows of a gradient have `width()` elements.
template <class S>
concept TableState = VariableState<S> &&(S::space::host_readable || detail::TableStateThere<S>)&&requires(
    S& state, S const& seen, ReducedRows<typename S::index_type, typename S::scalar_type, typename S::space> const& reduced,
    std::span<typename S::index_type const> keys, typename S::scalar_type scale) {
  // A RowPlan of this index and space, and the policy, for its name.
  typename S::Plan;
  { S::policy::name } -> std::convertible_to<std::string_view>;
  // True if the optimizer leaves rows alone that nobody named; if a device can tell the owners of rows.
  { S::lazy } -> std::convertible_to<bool>;
  { S::placed_there } -> std::convertible_to<bool>;
  { state.merging } -> std::same_as<Merging<std::remove_cvref_t<decltype(reduced)>>&>;
  // Rows of the whole table, and elements of a row.
  { seen.rows() } -> std::same_as<std::int64_t>;
  { seen.width() } -> std::same_as<std::int64_t>;
  // Tables of a stack, or 1; the first row of one, and for `tables()` the end.
  { seen.tables() } -> std::same_as<std::size_t>;
  { seen.first_row(std::size_t{}) } -> std::same_as<std::int64_t>;
  // True if sums are divided by the numbers of indices, which then travel beside them.
  { seen.counted() } -> std::same_as<bool>;
  // The fate of indices outside the table; and a function that counts so many more of them as left out.
  { seen.bad_ids() } -> std::same_as<BadIds>;
  state.count_dropped(std::size_t{});
  { state.padded() } -> std::same_as<PaddedBatches<typename S::space>&>;
  // The key of a row, the row of a key, and the first key of each owner, behind them the end.
  { seen.placement().key(std::int64_t{}) } -> std::same_as<typename S::index_type>;
  { seen.placement().row(typename S::index_type{}) } -> std::convertible_to<std::int64_t>;
  { seen.placement().bases() } -> std::same_as<decltype(keys)>;
  // A plan without users, of the state's pool, which owns it; may throw std::bad_alloc.
  { state.take_plan() } -> std::same_as<typename S::Plan&>;
  // Table rows of keys: in the host's memory, and where the keys are, for tables with all rows on every rank. Valid until the
  // next call.
  { state.rows_of(keys) } -> std::same_as<decltype(keys)>;
  state.rows_named(reduced.keys);
  // Divides sums in place, by so many ranks or by counts; or the scale that `apply` takes instead, to the same bits: 0 if none.
  state.average(reduced, int{});
  { seen.average_by_scale(int{}) } -> std::same_as<double>;
  // Applies the rule to rows, each named once, [keys x width()], times a scale; and to all rows from one on, behind each its
  // count if there are counts.
  state.apply(reduced.keys, reduced.rows, scale);
  state.apply_densified(std::int64_t{}, RowsView<typename S::scalar_type const>{}, bool{}, scale);
  // The use of the table by this rank in the step at hand, in rows: pushed, merged for its host, and owned of the sum.
  { state.seen.pushed } -> std::same_as<double&>;
  { state.seen.merged } -> std::same_as<double&>;
  { state.seen.owned } -> std::same_as<double&>;
};

}  // namespace parallax
