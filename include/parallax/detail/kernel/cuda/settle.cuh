// Rows passed by in steps on a CUDA device, brought up to date: each takes all steps since its last move, one after the other,
// without leaving its registers. Tables of optimizers with exact semantics call it, through RowOps<CudaSpace>, before rows are
// read or moved.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "parallax/detail/kernel/cuda/gradients.cuh"
#include "parallax/detail/kernel/cuda/launch.cuh"
#include "parallax/detail/kernel/cuda/operands.hpp"
#include "parallax/detail/kernel/cuda/packs.cuh"
#include "parallax/detail/kernel/cuda/strict.cuh"
#include "parallax/detail/kernel/cuda/updates.cuh"

PARALLAX_STRICT_ARITHMETIC_BEGIN

namespace parallax::inline v0_2::device {
namespace detail {

// Returns the last step for rows to take: `last` of the ages, or, in a captured step, the step before that one.
template <class Rule>
__device__ std::int64_t last_step(RowAges<Rule> const& ages) {
  return ages.next ? ages.next->own.step - 1 : ages.last;
}
// Returns the rules up to the last step.
template <class Rule>
__device__ KeptRules<Rule> rules_of(RowAges<Rule> const& ages) {
  return ages.next ? ages.next->before : ages.kept;
}
// Returns the number in `kept` of a step's rule. No step after the last one has a rule, so most rules are of one step each.
template <class Rule>
__device__ std::int64_t place_of(KeptRules<Rule> const& kept, std::int64_t step) {
  std::int64_t const later = kept.rules[kept.count - 1].step - step;  // at most so many rules behind it
  if (later <= 0) return kept.count - 1;
  std::int64_t least = later < kept.count ? kept.count - 1 - later : 0, most = kept.count - 1;
  if (kept.rules[least + 1].step > step) return least;
  while (most - least > 1) {
    std::int64_t const middle = least + (most - least) / 2;
    (kept.rules[middle].step <= step ? least : most) = middle;
  }
  return least;
}

// The gradient of a row named by no step.
template <class C>
struct NoGradients {
  __device__ Strict<C> operator[](std::int64_t) const { return {C{0}}; }
};

// The number of whole steps before the next look for elements at rest.
inline constexpr std::int64_t between_looks = 8;

// Returns true if all bits of some numbers are 0.
template <class S, int N>
__device__ bool is_blank(Loaded<S, N> const& numbers) {
  using Word = std::conditional_t<sizeof(S) == 8, std::uint64_t, std::uint32_t>;
  Word all = 0;
  for (int j = 0; j < N; ++j) {
    Word bits;
    static_assert(sizeof bits == sizeof numbers.values[j]);
    __builtin_memcpy(&bits, &numbers.values[j], sizeof bits);
    all |= bits;
  }
  return all == 0;
}
// Returns true if N elements rest in the step of a rule.
template <class Rule, class T, class... S, int N>
__device__ bool all_rest(Rule const& rule, Loaded<T, N> const& parameters, Loaded<S, N> const&... held) {
  bool rest = true;
  for (int j = 0; j < N; ++j) rest = rest && rule.rests(parameters.values[j], held.values[j]...);
  return rest;
}
// Takes N numbers of a slot through a step of rest. Returns true if it changes any.
template <class Rule, class S, int N>
__device__ bool fade(Rule const& rule, std::size_t slot, Loaded<S, N>& numbers) {
  bool changes = false;
  for (int j = 0; j < N; ++j) {
    auto const before = numbers.values[j];
    numbers.values[j] = rule.faded(slot, before);
    changes = changes || !(numbers.values[j] == before);
  }
  return changes;
}

// Takes N neighbouring elements through the steps after `settled` up to `last`; once all of them rest, their slots alone.
// Elements stored in fewer bits are rounded after each.
template <int N, class C, class Rule, class T, class... S>
__device__ void settle_pack(KeptRules<Rule> const& kept, std::int64_t settled, std::int64_t last, Loaded<T, N> parameters,
                            Loaded<S, N>... held) {
  constexpr bool may_rest = requires(Rule const& rule) { rule.pace(); };
  if constexpr (may_rest)
    if (settled >= kept.restless && (is_blank(held) && ...)) return;
  bool resting = false, stays = false;  // elements rest; and slots do, too
  std::int64_t look = settled + 1, at = place_of(kept, look);
  // Written out further, doubles would spill on sm_100.
  PARALLAX_DETAIL_AS_WRITTEN
  for (std::int64_t step = look; step <= last; ++at) {
    NumberedRule<Rule> const& numbered = kept.rules[at];
    std::int64_t end = last;
    if (at + 1 < kept.count && kept.rules[at + 1].step <= last) end = kept.rules[at + 1].step - 1;
    if constexpr (may_rest)
      if (resting && numbered.rest != Rest::goes_on) resting = false, look = step;
    PARALLAX_DETAIL_AS_WRITTEN
    for (; step <= end; ++step) {
      if constexpr (may_rest) {
        if (!resting && step >= look && numbered.rest != Rest::never) {
          resting = all_rest(numbered.rule, parameters, held...);
          stays = false, look = step + between_looks;
        }
        if (resting) {
          if (stays) step = end;
          std::size_t slot = 0;
          bool changes = false;
          if (!stays) ((changes = fade(numbered.rule, slot++, held) || changes), ...);
          stays = !changes;
          continue;
        }
      }
      for (int j = 0; j < N; ++j) {
        call_rule(numbered.rule, parameters.values[j], Strict<C>{C{0}}, held.values[j]...);
        if constexpr (sizeof(T) < sizeof(C)) parameters.values[j] = {widened(narrowed<T>(parameters.values[j].value))};
      }
    }
  }
  parameters.put();
  (held.put(), ...);
}

// Notes the step of a row. Called by all lanes of its team, once none of them looks at the earlier note any more.
template <class Rule>
__device__ void note_settled(RowAges<Rule> const& ages, std::int64_t row, std::int64_t settled, std::int64_t last,
                             unsigned lane, unsigned lanes_mask) {
  __syncwarp(lanes_mask);
  if (lane == 0 && settled <= last) ages.settled[row] = last + ages.updates;
}

// Returns the mask of the lanes of the thread's warp that are its team, of `lanes`, a power of two.
__device__ inline unsigned lanes_of_team(unsigned lanes) {
  return all_lanes >> (warp_lanes - lanes) << (threadIdx.x % warp_lanes / lanes * lanes);
}

// Grid: a team of `lanes` threads a row, a power of two, all teams stride over the rows. Memory: rows that are not up to date
// are read and written once, with their slots, for any number of steps. At most 80 registers, or 128 for doubles: in 64 and 80
// the bounds of a step and of its rule are spilled on sm_100.
template <int N, class C, class T, class Index, class Rule, class ElementSlots>
__global__ void __launch_bounds__(block_threads, sizeof(C) > 4 ? 2 : 3)
    settle_rows_kernel(Index const* indices, Directory<Index> directory, Count count, RowAges<Rule> ages, RowsView<T> table,
                       ElementSlots element_slots, unsigned lanes) {
  Team const team{lanes};
  KeptRules<Rule> const kept = rules_of(ages);
  std::int64_t const last = last_step(ages);
  std::uint64_t const n = count();
  for (std::uint64_t k = team.number; k < n; k += team.count) {
    std::int64_t const row = updated_row(indices, k, directory);
    std::int64_t const settled = ages.settled[row];
    for (std::int64_t at = std::int64_t{team.lane} * N; settled < last && at < table.width; at += std::int64_t{lanes} * N)
      with_tables(element_slots, [&](auto... tables) {
        settle_pack<N, C>(kept, settled, last, loaded_at<N>(table.row(row) + at), loaded_at<N>(tables.row(row) + at)...);
      });
    note_settled(ages, row, settled, last, team.lane, lanes_of_team(lanes));
  }
}

// Grid: eight threads a row, all teams stride over the rows. Memory: rows that are not up to date are read and written in each
// of their steps, for a rule measures all of a row before it moves it.
template <class C, class T, class Index, class Rule, class ElementSlots, class RowSlots>
__global__ void __launch_bounds__(block_threads, resident_blocks<C>(1))
    settle_measured_rows_kernel(Index const* indices, Directory<Index> directory, Count count, RowAges<Rule> ages,
                                RowsView<T> table, ElementSlots element_slots, RowSlots row_slots) {
  Team const team{measuring_lanes};
  unsigned const lanes_mask = lanes_of_team(measuring_lanes);
  KeptRules<Rule> const kept = rules_of(ages);
  std::int64_t const last = last_step(ages);
  std::uint64_t const n = count();
  for (std::uint64_t k = team.number; k < n; k += team.count) {
    std::int64_t const row = updated_row(indices, k, directory);
    std::int64_t const settled = ages.settled[row];
    std::int64_t at_rule = settled < last ? place_of(kept, settled + 1) : 0;
    for (std::int64_t step = settled + 1; step <= last; ++step) {
      if (at_rule + 1 < kept.count && kept.rules[at_rule + 1].step <= step) ++at_rule;
      Rule const& rule = kept.rules[at_rule].rule;
      with_tables(element_slots, [&](auto... tables) {
        auto const sums = measure_row<C>(rule, table, row, NoGradients<C>{}, team.lane, lanes_mask, tables...);
        with_tables(row_slots, [&](auto... states) {
          auto const finished = finish_row(rule, sums, table.width, team.lane, lanes_mask, loaded_at<1>(states.row(row))...);
          Strict<C> const none[1] = {{C{0}}};
          PARALLAX_DETAIL_AS_WRITTEN
          for (std::int64_t at = team.lane; at < table.width; at += measuring_lanes)
            update_pack(finished, none, loaded_at<1>(table.row(row) + at), loaded_at<1>(tables.row(row) + at)...);
        });
      });
      __syncwarp(lanes_mask);  // the row's state is read by all lanes of the next step
    }
    note_settled(ages, row, settled, last, team.lane, lanes_mask);
  }
}

}  // namespace detail

// Settles table rows directory(indices[k]), or without indices rows k, for all of `count`, with their slots: takes them to step
// ages.last, and notes it, or with ages.updates the step after it. The indices differ. Slots lie like the table; `row_slots`
// are of rules that measure rows. Throws Error (device).
template <class Index, class T, class Rule, class... S, class... R>
void settle_rows(cudaStream_t stream, Index const* indices, detail::Count count,
                 Directory<std::type_identity_t<Index>> directory, RowAges<Rule> const& ages, RowsView<T> table,
                 Slots<S...> const& element_slots, Slots<R...> const& row_slots) {
  using C = Computed<T>;
  if (count.most == 0 || table.width == 0) return;
  if constexpr (detail::Measures<Rule, T, S...>) {
    detail::launch_over(stream, count.most, detail::teams_for(detail::measuring_lanes),
                        detail::settle_measured_rows_kernel<C, T, Index, Rule, Slots<S...>, Slots<R...>>, indices, directory,
                        count, ages, table, element_slots, row_slots);
  } else {
    detail::with_packs(
        [&]<int N>() {
          unsigned const lanes = std::bit_ceil(detail::lanes_for(table.width / N));
          detail::launch_over(stream, count.most, detail::teams_for(lanes),
                              detail::settle_rows_kernel<N, C, T, Index, Rule, Slots<S...>>, indices, directory, count, ages,
                              table, element_slots, lanes);
        },
        element_slots, table);
  }
}

}  // namespace parallax::device

PARALLAX_STRICT_ARITHMETIC_END
