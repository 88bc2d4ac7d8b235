// Optimizer rules applied on a CUDA device: to rows as their gradients are summed, to rows of summed gradients, to elements.
// Steps update tables and dense variables on a device by it, through RowOps<CudaSpace>.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>

#include "parallax/core/error.hpp"
#include "parallax/detail/kernel/cuda/elements.cuh"
#include "parallax/detail/kernel/cuda/gradients.cuh"
#include "parallax/detail/kernel/cuda/groups.cuh"
#include "parallax/detail/kernel/cuda/launch.cuh"
#include "parallax/detail/kernel/cuda/operands.hpp"
#include "parallax/detail/kernel/cuda/packs.cuh"
#include "parallax/detail/kernel/cuda/strict.cuh"
#include "parallax/detail/kernel/cuda/sums.cuh"

PARALLAX_STRICT_ARITHMETIC_BEGIN

namespace parallax::inline v0_2::device {

namespace detail {

// Returns f(table…) of slots, called on the device.
template <class F>
__device__ decltype(auto) with_tables(Slots<> const&, F const& f) {
  return f();
}
template <class S, class... Rest, class F>
__device__ decltype(auto) with_tables(Slots<S, Rest...> const& element_slots, F const& f) {
  return with_tables(element_slots.rest, [&](auto... tables) -> decltype(auto) { return f(element_slots.first, tables...); });
}

// Calls f<N>() on the host, as with_packs does, for the tables of slots as well.
template <class F, class... S, class... T>
void with_packs(F const& f, Slots<S...> const& held, RowsView<T>... tables) {
  held.with_on_host([&](RowsView<S>... of_slots) { with_packs(f, tables..., of_slots...); });
}

// Type of a stored number for a rule: whole numbers as they are, all others strict, in their type of arithmetic.
template <class T>
struct loaded_as {
  using type = T;
};
template <class T>
  requires(!std::is_integral_v<T>)
struct loaded_as<T> {
  using type = Strict<Computed<T>>;
};

// In place of a rule: one left in device memory by an earlier kernel.
template <class Rule>
struct RuleThere {
  Rule const* rule;
};
// Returns the rule itself, from any place.
template <class Rule>
__device__ Rule const& settled(Rule const& rule) {
  return rule;
}
template <class Rule>
__device__ Rule settled(RuleThere<Rule> there) {
  return *there.rule;
}
template <class Rule>
__device__ Rule settled(PlacedRule<Rule> const& placed) {
  return placed.there ? *placed.there : placed.rule;
}

// N neighbouring numbers, for a rule, and their place.
template <class T, int N>
struct Loaded {
  typename loaded_as<T>::type values[N];
  T* at;

  // Reads N numbers from `place`, aligned for `load`.
  __device__ explicit Loaded(T* place) : at{place} {
    Pack<T, N> const pack = load<N>(place);
    for (int j = 0; j < N; ++j)
      if constexpr (std::is_integral_v<T>) values[j] = pack.at[j];
      else values[j] = {widened(pack.at[j])};
  }
  // Writes them back, narrowed to the stored type.
  __device__ void put() const {
    Pack<T, N> pack;
    for (int j = 0; j < N; ++j)
      if constexpr (std::is_integral_v<T>) pack.at[j] = values[j];
      else pack.at[j] = narrowed<T>(values[j].value);
    store<N>(at, pack);
  }
};

// Returns N numbers from `place` on, held for a rule.
template <int N, class T>
__device__ inline Loaded<T, N> loaded_at(T* place) {
  return Loaded<T, N>{place};
}

// Returns the plain number in it, for a rule of plain numbers.
template <class T>
__device__ inline T& plain(Strict<T>& number) {
  return number.value;
}
template <class T>
__device__ inline T& plain(T& number) {
  return number;
}

// Applies the rule to one element. A rule not written for any type of number is called with plain ones, and may be contracted.
template <class Rule, class C, class... H>
__device__ void call_rule(Rule const& rule, Strict<C>& parameter, Strict<C> gradient, H&... held) {
  if constexpr (std::is_invocable_v<Rule const&, Strict<C>&, Strict<C>, H&...>) {
    static_assert(std::is_nothrow_invocable_v<Rule const&, Strict<C>&, Strict<C>, H&...>,
                  "parallax: an optimizer's rule must be noexcept: an update is applied as a whole or not at all");
    rule(parameter, gradient, held...);
  } else {
    rule(parameter.value, gradient.value, plain(held)...);
  }
}

// Applies the rule to N neighbouring elements; then parameters and slots are stored.
template <int N, class Rule, class C, class T, class... S>
__device__ void update_pack(Rule const& rule, Strict<C> const (&gradients)[N], Loaded<T, N> parameters, Loaded<S, N>... slot) {
  for (int j = 0; j < N; ++j) call_rule(rule, parameters.values[j], gradients[j], slot.values[j]...);
  parameters.put();
  (slot.put(), ...);
}

// Applies the rule as update_pack does, to the gradients of `get`: parameters and slots are on their way by then, as they need
// no gradients. The rule is looked for last, so no registers hold it before.
template <class C, int N, class Rule, class Get, class T, class... S>
__device__ void update_ahead(Rule const& given, Get const& get, Loaded<T, N> parameters, Loaded<S, N>... slot) {
  Strict<C> gradients[N];
  get(gradients);
  update_pack(settled(given), gradients, parameters, slot...);
}

// True of a rule with more intermediate results than 64 registers hold beside a pack.
template <class Rule>
inline constexpr bool is_large = requires {
  requires Rule::large;
};
template <class Rule>
inline constexpr bool is_large<PlacedRule<Rule>> = is_large<Rule>;

// Grid: a team of `lanes` threads a row, all teams stride over the rows. Memory: gradients are read once, and the rows of the
// table and of its slots read and written once; sums of gradients stay in registers.
template <int N, class Source, class C, class T, class Index, class Rule, class ElementSlots>
__global__ void __launch_bounds__(block_threads, resident_blocks<C>(N, sizeof(T), is_large<Rule>))
    update_rows_kernel(Source source, Index const* indices, Directory<Index> directory, Count count, Scaling<C> scaling,
                       RowsView<T> table, Rule rule, ElementSlots element_slots, unsigned lanes) {
  Team const team{lanes};
  if (team.idle) return;
  std::uint64_t const n = count();
  for (std::uint64_t k = team.number; k < n; k += team.count) {
    if (left_alone(source, k)) continue;
    std::int64_t const row = updated_row(indices, k, directory);
    for (std::int64_t at = std::int64_t{team.lane} * N; at < table.width; at += std::int64_t{lanes} * N) {
      with_tables(element_slots, [&](auto... tables) {
        update_ahead<C>(
            rule, [&](Strict<C>(&gradients)[N]) { get_scaled(source, scaling, k, at, gradients); },
            loaded_at<N>(table.row(row) + at), loaded_at<N>(tables.row(row) + at)...);
      });
    }
  }
}

// Threads that measure a row together: as many as partial sums. And the bytes of shared memory given to a block by every device
// without a question.
inline constexpr unsigned measuring_lanes = 8;  // as many as partial sums
inline constexpr std::size_t block_memory = std::size_t{48} << 10;

// Returns the rule's measured sums over a row, cut by the rule of measured_block: lane k of eight has those of elements k, k +
// 8, …; then pairs, pairs of pairs, all. The few blocks of a row are one group. The slots may move, the parameters do not.
// `gradients[at]` is an element's.
template <class C, class Rule, class Gradients, class T, class... S>
__device__ auto measure_row(Rule const& rule, RowsView<T> table, std::int64_t row, Gradients const& gradients, unsigned lane,
                            unsigned lanes_mask, RowsView<S>... slot) {
  static_assert(block_memory / sizeof(C) <= sum_group * measured_block);
  auto const measure = [&](Loaded<T, 1> parameter, Strict<C> gradient, Loaded<S, 1>... held) {
    auto const measured = rule.measure(parameter.values[0], gradient, held.values[0]...);
    (held.put(), ...);
    return measured;
  };
  using Sums = decltype(measure(Loaded<T, 1>{table.data}, gradients[0], Loaded<S, 1>{slot.data}...));
  Sums total{};
  for (std::int64_t block = 0; block < table.width; block += measured_block) {
    std::int64_t const end = table.width - block < measured_block ? table.width : block + measured_block;
    Sums part{};
    for (std::int64_t at = block + lane; at < end; at += measuring_lanes) {
      Sums const measured = measure(Loaded<T, 1>{table.row(row) + at}, gradients[at], Loaded<S, 1>{slot.row(row) + at}...);
      for (std::size_t k = 0; k < Sums::count; ++k) part[k] = add(part[k], measured[k]);
    }
    for (int with = 1; with < static_cast<int>(measuring_lanes); with *= 2)
      for (std::size_t k = 0; k < Sums::count; ++k) part[k] = add(part[k], __shfl_xor_sync(lanes_mask, part[k], with));
    for (std::size_t k = 0; k < Sums::count; ++k) total[k] = add(total[k], part[k]);
  }
  return total;
}

// Returns the rule of the row's elements. All lanes read the row's state, and one writes it when all have.
template <class Rule, class Sums, class... R>
__device__ auto finish_row(Rule const& rule, Sums const& sums, std::int64_t width, unsigned lane, unsigned lanes_mask,
                           Loaded<R, 1>... states) {
  auto const finished = rule.finish(sums, width, states.values[0]...);
  __syncwarp(lanes_mask);
  if (lane == 0) (states.put(), ...);
  return finished;
}

// Grid: eight threads a row, all teams stride over the rows. Memory: as of update_rows_kernel, but slots moved by measuring are
// read and written twice; a row's summed gradient lies in shared memory in between.
template <int N, class Source, class C, class T, class Index, class Rule, class ElementSlots, class RowSlots>
__global__ void __launch_bounds__(block_threads, resident_blocks<C>(N))
    update_measured_rows_kernel(Source source, Index const* indices, Directory<Index> directory, Count count,
                                Scaling<C> scaling, RowsView<T> table, Rule given, ElementSlots element_slots,
                                RowSlots row_slots) {
  Team const team{measuring_lanes};
  unsigned const lanes_mask = 0xffu << (threadIdx.x % warp_lanes / measuring_lanes * measuring_lanes);
  std::uint64_t const n = count();
  auto* const gradients = shared_memory<Strict<C>>() + threadIdx.x / measuring_lanes * static_cast<std::uint64_t>(table.width);
  for (std::uint64_t k = team.number; k < n; k += team.count) {
    if (left_alone(source, k)) continue;
    std::int64_t const row = updated_row(indices, k, directory);
    // A lane's first elements are on their way while gradients are added.
    std::int64_t const own = std::int64_t{team.lane} * N;
    std::conditional_t<adds<Source>, Loaded<T, N>, Later> const first{table.row(row) + (own < table.width ? own : 0)};
    // Written out further, doubles would spill on sm_100.
    PARALLAX_DETAIL_AS_WRITTEN
    for (std::int64_t at = own; at < table.width; at += std::int64_t{measuring_lanes} * N) {
      Strict<C> pack[N];
      get_scaled(source, scaling, k, at, pack);
      for (int j = 0; j < N; ++j) gradients[at + j] = pack[j];
    }
    __syncwarp(lanes_mask);
    with_tables(element_slots, [&](auto... tables) {
      auto const sums = measure_row<C>(settled(given), table, row, gradients, team.lane, lanes_mask, tables...);
      with_tables(row_slots, [&](auto... states) {
        auto const finished =
            finish_row(settled(given), sums, table.width, team.lane, lanes_mask, loaded_at<1>(states.row(row))...);
        PARALLAX_DETAIL_AS_WRITTEN
        for (std::int64_t at = own; at < table.width; at += std::int64_t{measuring_lanes} * N) {
          Strict<C> gradient[N];
          for (int j = 0; j < N; ++j) gradient[j] = gradients[at + j];
          if constexpr (adds<Source>)
            update_pack(finished, gradient, at == own ? first : loaded_at<N>(table.row(row) + at),
                        loaded_at<N>(tables.row(row) + at)...);
          else update_pack(finished, gradient, loaded_at<N>(table.row(row) + at), loaded_at<N>(tables.row(row) + at)...);
        }
      });
    });
    __syncwarp(lanes_mask);
  }
}

// True for a rule that measures rows before it moves them, by its slots as it sees them.
template <class Rule, class T, class... S>
concept Measures = requires(Rule const& rule, Strict<Computed<T>>& number, typename loaded_as<S>::type&... slot) {
  rule.measure(number, number, slot...);
};

// Launches the right kernel for the rule, for all rows of a source. Without indices gradient k is for table row k. Throws Error
// (device), and invalid_argument if a measured row exceeds a block's memory.
template <int N, class Source, class C, class T, class Index, class Rule, class... S, class... R>
void update_rows(cudaStream_t stream, Source const& source, Index const* indices, Directory<Index> directory, Count count,
                 Scaling<C> const& scaling, RowsView<T> table, Rule const& rule, Slots<S...> const& element_slots,
                 Slots<R...> const& row_slots) {
  if constexpr (Measures<BareRule<Rule>, T, S...>) {
    std::size_t const row_bytes = static_cast<std::size_t>(table.width) * sizeof(C);
    if (row_bytes > block_memory)
      throw Error{Errc::invalid_argument, -1, "update_rows", "",
                  "rows of " + std::to_string(table.width) + " elements are measured; at most " +
                      std::to_string(block_memory / sizeof(C)) + " fit a block's memory"};
    auto const teams = static_cast<unsigned>(std::min<std::size_t>(block_threads / measuring_lanes, block_memory / row_bytes));
    launch(stream, grid_for(ceil_div(count.most, teams)), teams * measuring_lanes, teams * row_bytes,
           update_measured_rows_kernel<N, Source, C, T, Index, Rule, Slots<S...>, Slots<R...>>, source, indices, directory,
           count, scaling, table, rule, element_slots, row_slots);
  } else {
    launch_teams(stream, count.most, table.width / N, update_rows_kernel<N, Source, C, T, Index, Rule, Slots<S...>>, source,
                 indices, directory, count, scaling, table, rule, element_slots);
  }
}

// Grid: threads stride over packs of N elements; the last n % N elements are taken one by one. Memory: everything once.
template <int N, class C, class V, class T, class Rule, class ElementSlots>
__global__ void __launch_bounds__(block_threads, resident_blocks<C>(N))
    update_elements_kernel(std::uint64_t n, V const* gradients, Scaling<C> scaling, T* parameters, Rule given,
                           ElementSlots element_slots) {
  PackedRows<V> const source{gradients, 0};
  auto const& rule = settled(given);
  with_tables(element_slots, [&](auto... tables) {
    for_each_pack<N>(n, [&]<int M>(std::uint64_t first) {
      Strict<C> pack[M];
      get_scaled(source, scaling, 0, static_cast<std::int64_t>(first), pack);
      update_pack(rule, pack, loaded_at<M>(parameters + first), loaded_at<M>(tables.data + first)...);
    });
  });
}

// Grid: blocks stride over the measured blocks of n elements. Memory: everything is read once, slots are written.
// Four blocks a multiprocessor are asked for, else ptxas keeps to 48 registers on some architectures, and spills.
template <class V, class C, class T, class Rule, class ElementSlots>
__global__ void __launch_bounds__(block_threads, 4)
    measure_elements_kernel(std::uint64_t n, V const* gradients, Scaling<C> scaling, T* parameters, Rule given,
                            ElementSlots element_slots, double* out) {
  PackedRows<V> const source{gradients, 0};
  auto const& rule = settled(given);
  for (std::uint64_t block = blockIdx.x; block * measured_block < n; block += gridDim.x) {
    std::uint64_t const first = block * measured_block;
    auto const size = static_cast<unsigned>(n - first < measured_block ? n - first : measured_block);
    with_tables(element_slots, [&](auto... tables) {
      auto const measure = [&](Loaded<T, 1> parameter, Strict<C> gradient, auto... states) {
        auto const measured = rule.measure(parameter.values[0], gradient, states.values[0]...);
        (states.put(), ...);
        return measured;
      };
      using Sums = decltype(measure(loaded_at<1>(parameters), Strict<C>{}, loaded_at<1>(tables.data)...));
      __shared__ double held[Sums::count][block_threads];
      double part = 0;
      for (unsigned at = 0; at < size; at += block_threads) {
        Sums measured{};
        if (at + threadIdx.x < size) {
          std::uint64_t const i = first + at + threadIdx.x;
          Strict<C> gradient[1];
          get_scaled(source, scaling, 0, static_cast<std::int64_t>(i), gradient);
          measured = measure(loaded_at<1>(parameters + i), gradient[0], loaded_at<1>(tables.data + i)...);
        }
        for (std::size_t k = 0; k < Sums::count; ++k) held[k][threadIdx.x] = measured[k];
        add_eighths(held, size - at < block_threads ? size - at : block_threads, part);
      }
      put_sums_of_eighths<Sums::count>(part, out + block * Sums::count);
    });
  }
}

}  // namespace detail

// Updates table row directory(keys[k]), and its slots, by the rule and the sum of the rows of `values` at the positions of
// distinct key k, scaled, for all u distinct keys: the bits of coalesce, scaling and RowOps<HostSpace>::apply_rows, but the
// sums are never stored. `rule`: an optimizer's `at(step)`. Slots lie like the table; `row_slots` are of rules that measure
// rows. Throws Error (invalid_argument) for a rule that measures, and rows above 48 KiB of the type of arithmetic; Error
// (device). `scratch` as for coalesce.
template <class V, class Index, class T, class Rule, class... S, class... R>
void update_runs(cudaStream_t stream, RowsView<V const> values, GroupingView<Index> const& groups, Directory<Index> directory,
                 Scaling<Computed<T>> const& scaling, RowsView<T> table, Rule const& rule, Slots<S...> const& element_slots,
                 Slots<R...> const& row_slots, void* scratch) {
  static_assert(std::is_same_v<Computed<T>, Computed<V>>,
                "parallax: gradients are of the table's type, or both of 16 bits or float");
  if (groups.count == 0 || table.width == 0) return;
  detail::with_packs(
      [&]<int N>() {
        detail::update_rows<N>(stream, detail::sum_later_chunks<N>(stream, values, groups, scratch), groups.keys, directory,
                               {groups.count, groups.distinct}, scaling, table, rule, element_slots, row_slots);
      },
      element_slots, values, table);
}

// Updates table rows as update_runs does, by gradients already summed, packed: row k is for table row directory(indices[k]);
// the indices differ. With `count`, in device memory, only the first *count of them. Throws as update_runs does.
template <class V, class Index, class T, class Rule, class... S, class... R>
void apply_rows(cudaStream_t stream, std::span<Index const> indices, Directory<Index> directory, RowsView<T> table,
                V const* gradients, Scaling<Computed<T>> const& scaling, Rule const& rule, Slots<S...> const& element_slots,
                Slots<R...> const& row_slots, std::uint32_t const* count = nullptr) {
  static_assert(std::is_same_v<Computed<T>, Computed<V>>,
                "parallax: gradients are of the table's type, or both of 16 bits or float");
  if (indices.empty() || table.width == 0) return;
  detail::with_packs(
      [&]<int N>() {
        detail::update_rows<N>(stream, detail::PackedRows<V>{gradients, table.width}, indices.data(), directory,
                               {indices.size(), count}, scaling, table, rule, element_slots, row_slots);
      },
      element_slots, table, RowsView<V const>{gradients, static_cast<std::int64_t>(indices.size()), table.width});
}

// Measures n elements by the rule, by blocks: out[b * count + k] is sum k, of `count` in all, over block b of
// measured_blocks(n). Slots may move, parameters do not. add_blocks then adds up the blocks' sums. Throws Error (device).
template <class V, class T, class Rule, class... S>
void measure_elements(cudaStream_t stream, std::uint64_t n, T* parameters, V const* gradients,
                      Scaling<Computed<T>> const& scaling, Rule const& rule, double* out, S*... slot) {
  if (n == 0) return;
  launch(stream, detail::grid_for(measured_blocks(static_cast<std::int64_t>(n))), block_threads, 0,
         detail::measure_elements_kernel<V, Computed<T>, T, Rule, Slots<S...>>, n, gradients, scaling, parameters, rule,
         Slots<S...>{RowsView<S>{slot, 1, 0}...}, out);
}

// Calls rule(parameter, gradient, slots…) for each of n elements, the gradient scaled first (`scaling.counts` is null). For
// rules that measure nothing. Throws Error (device).
template <class V, class T, class Rule, class... S>
void apply_elements(cudaStream_t stream, std::uint64_t n, T* parameters, V const* gradients,
                    Scaling<Computed<T>> const& scaling, Rule const& rule, S*... slot) {
  static_assert(std::is_same_v<Computed<T>, Computed<V>>,
                "parallax: gradients are of the parameters' type, or both of 16 bits or float");
  if (n == 0) return;
  detail::with_packs(
      [&]<int N>() {
        detail::launch_over(stream, n, block_threads * N,
                            detail::update_elements_kernel<N, Computed<T>, V, T, Rule, Slots<S...>>, n, gradients, scaling,
                            parameters, rule, Slots<S...>{RowsView<S>{slot, 1, 0}...});
      },
      RowsView<T>{parameters, 1, 0}, RowsView<V const>{gradients, 1, 0}, RowsView<S>{slot, 1, 0}...);
}

}  // namespace parallax::device

PARALLAX_STRICT_ARITHMETIC_END
