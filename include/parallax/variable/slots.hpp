// The optimizer's state beside the parameters: one array per slot, and the rule applied over all of them.
#pragma once

#include <cstdint>
#include <span>
#include <tuple>
#include <utility>

#include "parallax/kernel/host.hpp"
#include "parallax/memory/buffer.hpp"
#include "parallax/optimizer/optimizer.hpp"

namespace parallax {

template <class T, class Slots, MemorySpace Space = HostSpace>
class SlotArrays;

// Owns. Arrays of `elements` entries, one per element slot of the optimizer, laid out like the parameters they belong to.
template <class T, class... S, MemorySpace Space>
class SlotArrays<T, slots<S...>, Space> {
  using Ops = RowOps<Space>;

 public:
  template <Optimizer O>
  SlotArrays(O const& optimizer, [[maybe_unused]] std::size_t elements)
      : arrays_{Buffer<detail::slot_type<S, T>, Space>{elements}...} {
    fill(optimizer, std::index_sequence_for<S...>{});
  }

  // Elements [first, first + count) of the parameters; `slot_first` is where their slots begin.
  template <class Rule>
  void apply(T* parameters, T const* gradients, std::size_t count, std::size_t slot_first, T scale, Rule const& rule) noexcept {
    std::apply(
        [&](auto&... array) {
          Ops::apply_elements(static_cast<std::int64_t>(count), parameters, gradients, scale, rule,
                              array.data() + slot_first...);
        },
        arrays_);
  }

  // Rows keys[i] - base of the table by the packed rows of `gradients`; slots lie like the table.
  template <class Index, class Rule>
  void apply_rows(std::span<Index const> keys, Index base, RowsView<T> table, T const* gradients, T scale,
                  Rule const& rule) noexcept {
    std::apply(
        [&](auto&... array) {
          Ops::apply_rows(keys, base, table, gradients, scale, rule, RowsView{array.data(), table.rows, table.width}...);
        },
        arrays_);
  }

  // Slot number I, for tests and checkpoints.
  template <std::size_t I>
  auto span() const {
    return std::get<I>(arrays_).span();
  }

 private:
  template <class O, std::size_t... I>
  void fill(O const& optimizer, std::index_sequence<I...>) {
    if constexpr (requires { optimizer.initial(); }) {
      auto const values = optimizer.initial();
      (std::get<I>(arrays_).fill(static_cast<detail::slot_type<S, T>>(std::get<I>(values))), ...);
    } else {
      (std::get<I>(arrays_).fill({}), ...);
    }
  }

  std::tuple<Buffer<detail::slot_type<S, T>, Space>...> arrays_;
};

}  // namespace parallax
