// One optimizer's kernels, for the files that instantiate them.
#pragma once

#include "parallax/detail/kernel/cuda/row_ops.cuh"

namespace pc = parallax::device;

template <class O>
using RuleOf = parallax::device::PlacedRule<decltype(O{}.at(std::int64_t{1}))>;

// For gradients V and parameters T, with the element slots and row slots that are given as lists.
template <class O, class V, class T, class Index, class... S, class... R>
void update(cudaStream_t stream, parallax::RowsView<V const> values, pc::GroupingView<Index> const& groups,
            parallax::RowsView<T> table, RuleOf<O> const& rule, pc::Slots<S...> const& slots,
            pc::Slots<R...> const& row_slots) {
  pc::update_runs(stream, values, groups, {}, {}, table, rule, slots, row_slots, nullptr);
  pc::apply_rows(stream, std::span<Index const>{groups.keys, groups.count}, {}, table, values.data, {}, rule, slots, row_slots,
                 groups.distinct);
  pc::detail::with_packs(
      [&]<int N>() {
        pc::detail::update_rows<N>(stream, pc::detail::SpacedRows<V>{values.data, values.width, values.stride, true},
                                   static_cast<std::uint32_t const*>(nullptr), {}, {5}, pc::Scaling<pc::Computed<T>>{}, table,
                                   rule, slots, row_slots);
      },
      slots, table, values);
  slots.with_on_host([&](auto... tables) {
    if constexpr (!pc::detail::Measures<pc::BareRule<RuleOf<O>>, T, S...>)
      pc::apply_elements(stream, 5, table.data, values.data, {}, rule, tables.data...);
    else if constexpr (sizeof...(R) == 0) {
      pc::measure_elements(stream, 5, table.data, values.data, {}, rule, static_cast<double*>(nullptr), tables.data...);
      using Ops = parallax::RowOps<parallax::CudaSpace>;
      auto const finished = Ops{{}}.finish_rule(rule, parallax::MeasuredParts<parallax::measure_count<O, T>>{}, 5);
      pc::apply_elements(stream, 5, table.data, values.data, {}, pc::detail::as_argument(finished), tables.data...);
    }
  });
}
// What an optimizer with exact semantics has beside them.
template <class O, class T, class Index, class... S, class... R>
void settle(cudaStream_t stream, Index const* keys, pc::RowAges<decltype(O{}.at(std::int64_t{1}))> const& ages,
            parallax::RowsView<T> table, pc::Slots<S...> const& slots, pc::Slots<R...> const& row_slots) {
  pc::settle_rows(stream, keys, {5}, {}, ages, table, slots, row_slots);
}
#define UPDATE(O, V, T, Index, Elements, Rows)                                                                            \
  template void update<O, V, T, Index>(cudaStream_t, parallax::RowsView<V const>, pc::GroupingView<Index> const&,               \
                                       parallax::RowsView<T>, RuleOf<O> const&, pc::Elements const&, pc::Rows const&);
#define SETTLE(O, T, Index, Elements, Rows)                                                                            \
  template void settle<O, T, Index>(cudaStream_t, Index const*, pc::RowAges<decltype(O{}.at(std::int64_t{1}))> const&, \
                                    parallax::RowsView<T>, pc::Elements const&, pc::Rows const&);
