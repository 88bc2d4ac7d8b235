// What a memory space's static operations offer, as concepts: signatures, for both index types and both scalars.
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <span>

#include "parallax/detail/kernel/host.hpp"

namespace operations {

using parallax::Directory;
using parallax::Grouping;
using parallax::RowsView;
using parallax::SortScratch;
using parallax::Unscaled;

// A rule with one slot, for checking signatures.
struct ProbeRule {
  void operator()(float& parameter, float gradient, float& slot) const noexcept {
    slot += gradient;
    parameter -= slot;
  }
};

// The operations of plans: they group keys of one index type, sum over the groups, and cut sorted keys.
template <class Ops, class Index>
concept GroupsKeys = requires(Grouping<Index, typename Ops::space>& out, Grouping<Index, typename Ops::space> const& groups,
                              SortScratch<Index, typename Ops::space>& scratch, std::span<Index const> keys,
                              RowsView<float const> values, std::span<std::uint32_t const> counts,
                              std::span<std::size_t> begins, std::size_t k, std::int64_t bound, float* sums,
                              std::uint32_t* lengths) {
  Ops::unique_with_inverse(keys, bound, out, scratch);
  Ops::coalesce(values, groups, k, k, sums);
  Ops::run_lengths(groups, k, k, lengths);
  Ops::sum_counts(counts, groups, k, k, lengths);
  Ops::bucket(keys, keys, begins);
};

// The operations on table rows by indices of type Index.
template <class Ops, class Index>
concept MovesRows = requires(RowsView<float> table, RowsView<float const> source, std::span<Index const> indices,
                             Directory<Index> directory, float* out, float const* rows, float scale, ProbeRule rule) {
  Ops::gather_rows(source, indices, directory, out);
  Ops::scatter_rows(table, indices, directory, rows);
  Ops::scatter_add_rows(table, indices, directory, rows);
  Ops::apply_rows(indices, directory, table, rows, scale, rule, table);
};

// The operations on contiguous elements of type T. The probed rule is one of float.
template <class Ops, class T>
concept ComputesElements = requires(T* out, T const* in, std::int64_t n, T factor, float* floats, ProbeRule rule) {
  Ops::copy_from(out, in, n);
  Ops::add_to(out, in, n);
  Ops::scale_down(out, n, factor);
  Ops::apply_elements(n, floats, floats, 1.0f, rule, floats);
  Ops::apply_elements(n, floats, floats, Unscaled{}, rule, floats);
};

// Grouping, summing, moving and updating rows are there as static functions, for both index types and both scalars. Their
// results are checked against `RowOps<HostSpace>`.
template <class Ops>
concept RowOperations = parallax::MemorySpace<typename Ops::space> && GroupsKeys<Ops, std::int32_t> &&
    GroupsKeys<Ops, std::int64_t> && MovesRows<Ops, std::int32_t> && MovesRows<Ops, std::int64_t> &&
    MovesRows<Ops, std::uint32_t> && ComputesElements<Ops, float> && ComputesElements<Ops, double>;

}  // namespace operations
