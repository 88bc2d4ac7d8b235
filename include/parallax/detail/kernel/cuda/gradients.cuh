// Sources of gradients for updates on a CUDA device: rows, packed or apart, and sums of rows; and the scaling of gradients
// before a rule sees them. detail/kernel/cuda/updates.cuh gives them to its kernels.
#pragma once

#include <cstdint>

#include "parallax/detail/kernel/cuda/packs.cuh"
#include "parallax/detail/kernel/cuda/strict.cuh"
#include "parallax/detail/kernel/cuda/sums.cuh"

PARALLAX_STRICT_ARITHMETIC_BEGIN

namespace parallax::inline v0_2::device {

// Scaling of a summed gradient before a rule sees it, in this order: it is divided by counts[k], a number for each distinct
// key, or else by `divisor`, and multiplied by `scale`. By 1 nothing is divided or multiplied.
template <class C>
struct Scaling {
  // Divisor of sums without counts.
  C divisor = C{1};
  // Null, or a number for each distinct key, in device memory: its sum's divisor instead.
  std::uint32_t const* counts = nullptr;
  // Factor of the quotient.
  C scale = C{1};

  // Returns the rule's gradient for element sum `sum` of distinct key number k.
  __device__ Strict<C> operator()(C sum, std::uint64_t k) const {
    if (counts) sum = detail::divide(sum, static_cast<C>(counts[k]));
    else if (divisor != C{1}) sum = detail::divide(sum, divisor);
    return {scale != C{1} ? detail::multiply(sum, scale) : sum};
  }
};

namespace detail {

// Gradients of rows already summed, packed; does not own. A source, like RunSums and SpacedRows: `get` gives N columns of
// gradient k, and a source with `skip` says the rows to be left alone.
template <class V>
struct PackedRows {
  using value_type = V;

  V const* rows;
  std::int64_t width;

  template <int N>
  __device__ void get(std::uint64_t k, std::int64_t column, Computed<V> (&gradients)[N]) const {
    Pack<V, N> const pack = load<N>(rows + k * static_cast<std::uint64_t>(width) + column);
    for (int j = 0; j < N; ++j) gradients[j] = widened(pack.at[j]);
  }
};

// Gradients of rows already summed, `stride` apart; does not own. With `skips` the number behind a gradient counts the namings
// of its row: an unnamed row is left alone.
template <class V>
struct SpacedRows {
  using value_type = V;

  V const* rows;
  std::int64_t width, stride;
  bool skips;

  template <int N>
  __device__ void get(std::uint64_t k, std::int64_t column, Computed<V> (&gradients)[N]) const {
    Pack<V, N> const pack = load<N>(rows + k * static_cast<std::uint64_t>(stride) + column);
    for (int j = 0; j < N; ++j) gradients[j] = widened(pack.at[j]);
  }
  __device__ bool skip(std::uint64_t k) const {
    return skips && rows[k * static_cast<std::uint64_t>(stride) + static_cast<std::uint64_t>(width)] == V{0};
  }
};
// True if a source adds up its gradients, with time to ask for other numbers meanwhile.
template <class Source>
inline constexpr bool adds = false;
template <class V, class Index>
inline constexpr bool adds<RunSums<V, Index>> = true;
// In place of numbers read only when needed.
struct Later {
  __device__ explicit Later(void const*) {}
};
template <class Source>
__device__ bool left_alone([[maybe_unused]] Source const& source, [[maybe_unused]] std::uint64_t k) {
  if constexpr (requires { source.skip(k); }) return source.skip(k);
  else return false;
}

// Returns the table row of gradient k; without indices it is k.
template <class Index>
__device__ std::int64_t updated_row(Index const* indices, std::uint64_t k, Directory<Index> directory) {
  return indices ? directory(indices[k]) : static_cast<std::int64_t>(k);
}

// Writes to `gradients` N columns of gradient k, from `column` on, scaled for a rule.
template <int N, class Source, class C>
__device__ void get_scaled(Source const& source, Scaling<C> const& scaling, std::uint64_t k, std::int64_t column,
                           Strict<C> (&gradients)[N]) {
  C sums[N];
  source.get(k, column, sums);
  for (int j = 0; j < N; ++j) gradients[j] = scaling(sums[j], k);
}

}  // namespace detail
}  // namespace parallax::device

PARALLAX_STRICT_ARITHMETIC_END
