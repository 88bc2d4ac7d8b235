// The row operations of a sparse update written with Thrust's algorithms alone, for every system of Thrust's: the reference for
// the kernels beside it. It needs no nvcc if Thrust's device is the CPU (-DTHRUST_DEVICE_SYSTEM=THRUST_DEVICE_SYSTEM_CPP).
#pragma once

#include <thrust/binary_search.h>
#include <thrust/copy.h>
#include <thrust/fill.h>
#include <thrust/for_each.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/sequence.h>
#include <thrust/sort.h>
#include <thrust/transform_scan.h>

#include <cstdint>

#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/view.hpp"
#include "parallax/detail/kernel/cuda/operands.hpp"
#include "parallax/detail/kernel/cuda/strict.cuh"
#include "parallax/detail/kernel/row_ops.hpp"

PARALLAX_STRICT_ARITHMETIC_BEGIN

namespace parallax::inline v0_2::device::portable {
namespace detail {

using device::detail::add;
using device::detail::narrowed;
using device::detail::widened;

// Returns 1 if a run begins at sorted position p, else 0. Summed over all positions it numbers the runs.
template <class Key>
struct BeginsRun {
  Key const* sorted;

  PARALLAX_HOST_DEVICE std::uint32_t operator()(std::uint64_t p) const { return p == 0 || sorted[p] != sorted[p - 1]; }
};

// Writes the grouping of sorted position p; numbers[p] is one more than the number of its run.
template <class Index>
struct EmitRun {
  Index const* sorted;
  std::uint32_t const* numbers;
  GroupingView<Index> out;

  PARALLAX_HOST_DEVICE void operator()(std::uint64_t p) const {
    std::uint32_t const run = numbers[p] - 1;
    out.inverse[out.order[p]] = run;
    if (p == 0 || numbers[p - 1] == run) {
      out.keys[run] = sorted[p];
      out.offsets[run] = static_cast<std::uint32_t>(p);
    }
    if (p + 1 == out.count) {
      out.offsets[run + 1] = out.count;
      *out.distinct = run + 1;
    }
  }
};

// One element of a gather: element `at` of the packed rows.
template <class T, class Index>
struct CopyElement {
  RowsView<T const> table;
  Index const* indices;
  Directory<Index> directory;
  T* out;

  PARALLAX_HOST_DEVICE void operator()(std::int64_t at) const {
    std::int64_t const i = at / table.width;
    out[at] = table.row(directory(indices[i]))[at - i * table.width];
  }
};

// One column of one run's sum: chunk by chunk, each from a copy of its first addend, the chunks' sums in order.
template <class V, class Index>
struct SumElement {
  RowsView<V const> values;
  GroupingView<Index> groups;

  PARALLAX_HOST_DEVICE Computed<V> operator()(std::uint64_t run, std::int64_t column) const {
    std::uint64_t const begin = groups.offsets[run], end = groups.offsets[run + 1];
    auto const addend = [&](std::uint64_t p) { return widened(values.row(groups.order[p])[column]); };
    Computed<V> total{};
    for (std::uint64_t first = begin; first < end; first += sum_chunk) {
      std::uint64_t const last = first + sum_chunk < end ? first + sum_chunk : end;
      Computed<V> sum = addend(first);
      for (std::uint64_t p = first + 1; p < last; ++p) sum = add(sum, addend(p));
      total = first == begin ? sum : add(total, sum);
    }
    return total;
  }
};

// Writes one column of one run's sum; beyond the last run there is nothing.
template <class V, class Index, class T>
struct StoreSum {
  SumElement<V, Index> sum;
  T* out;

  PARALLAX_HOST_DEVICE void operator()(std::uint64_t at) const {
    std::uint64_t const run = at / static_cast<std::uint64_t>(sum.values.width);
    if (run >= *sum.groups.distinct) return;
    auto const column = static_cast<std::int64_t>(at - run * static_cast<std::uint64_t>(sum.values.width));
    out[at] = narrowed<T>(sum(run, column));
  }
};

// Applies the rule to one element whose slot, if it has one, lies at the same place of another table.
template <class V, class Index, class T, class Rule>
struct UpdateElement {
  SumElement<V, Index> sum;
  Directory<Index> directory;
  RowsView<T> table;
  Rule rule;
  T* slot;

  PARALLAX_HOST_DEVICE void operator()(std::uint64_t at) const {
    std::uint64_t const run = at / static_cast<std::uint64_t>(table.width);
    if (run >= *sum.groups.distinct) return;
    auto const column = static_cast<std::int64_t>(at - run * static_cast<std::uint64_t>(table.width));
    std::int64_t const row = directory(sum.groups.keys[run]);
    T& parameter = table.row(row)[column];
    Strict<T> updated{parameter}, gradient{sum(run, column)};
    if constexpr (std::is_invocable_v<Rule const&, Strict<T>&, Strict<T>>) {
      rule(updated, gradient);
    } else {
      T& stored = slot[row * table.stride + column];
      Strict<T> held{stored};
      rule(updated, gradient, held);
      stored = held.value;
    }
    parameter = updated.value;
  }
};

// Calls f(0) … f(n - 1), in any order, on the policy's system.
template <class Policy, class F>
void for_each_index(Policy const& policy, std::uint64_t n, F const& f) {
  thrust::for_each_n(policy, thrust::counting_iterator<std::uint64_t>{0}, n, f);
}

}  // namespace detail

// Groups like device::group_keys. `policy` is one of Thrust's, with the system and, on a device, the stream; `sorted` has room
// for out.count keys, `numbers` for as many numbers.
template <class Policy, class Index>
void group_keys(Policy const& policy, Index const* keys, GroupingView<Index> const& out, Index* sorted,
                std::uint32_t* numbers) {
  std::uint64_t const n = out.count;
  if (n == 0) {
    thrust::fill_n(policy, out.offsets, 1, 0u);
    thrust::fill_n(policy, out.distinct, 1, 0u);
    return;
  }
  thrust::copy_n(policy, keys, n, sorted);
  thrust::sequence(policy, out.order, out.order + n);
  thrust::stable_sort_by_key(policy, sorted, sorted + n, out.order);
  thrust::counting_iterator<std::uint64_t> const first{0};
  thrust::transform_inclusive_scan(policy, first, first + n, numbers, detail::BeginsRun<Index>{sorted},
                                   thrust::plus<std::uint32_t>{});
  detail::for_each_index(policy, n, detail::EmitRun<Index>{sorted, numbers, out});
}

// Gathers like device::gather_rows.
template <class Policy, class T, class Index>
void gather_rows(Policy const& policy, RowsView<T const> table, Index const* indices, std::uint64_t n,
                 Directory<Index> directory, T* out) {
  detail::for_each_index(policy, n * static_cast<std::uint64_t>(table.width),
                         detail::CopyElement<T, Index>{table, indices, directory, out});
}

// Cuts like device::bucket.
template <class Policy, class Key>
void bucket(Policy const& policy, Key const* sorted_keys, std::uint32_t n, Key const* bases, std::uint32_t boundaries,
            std::uint32_t* begins) {
  thrust::lower_bound(policy, sorted_keys, sorted_keys + n, bases, bases + boundaries - 1, begins);
  thrust::fill_n(policy, begins + boundaries - 1, 1, n);
}

// Sums like device::coalesce.
template <class Policy, class V, class Index, class T>
void coalesce(Policy const& policy, RowsView<V const> values, GroupingView<Index> const& groups, T* out) {
  detail::for_each_index(policy, groups.count * static_cast<std::uint64_t>(values.width),
                         detail::StoreSum<V, Index, T>{{values, groups}, out});
}

// Updates like device::update_runs, for rules of elements with at most one slot, a table that lies like the parameters.
template <class Policy, class V, class Index, class T, class Rule>
void update_runs(Policy const& policy, RowsView<V const> values, GroupingView<Index> const& groups, Directory<Index> directory,
                 RowsView<T> table, Rule const& rule, T* slot) {
  detail::for_each_index(policy, groups.count * static_cast<std::uint64_t>(table.width),
                         detail::UpdateElement<V, Index, T, Rule>{{values, groups}, directory, table, rule, slot});
}

}  // namespace parallax::device::portable

PARALLAX_STRICT_ARITHMETIC_END
