// What operations on a CUDA device are given beside rows: groupings of keys, copies, optimizers' state. For every compiler.
#pragma once

#include <cstdint>

#include "parallax/core/view.hpp"

namespace parallax::cuda {

// Does not own. `Grouping` (kernel/row_ops.hpp) in device memory: n keys grouped by value, u distinct ones. u is known on the
// device alone, until somebody copies it; all arrays have room for u = n.
template <class Index>
struct Groups {
  Index* keys = nullptr;              // u of n: the distinct keys, ascending
  std::uint32_t* offsets = nullptr;   // u + 1 of n + 1: where each key's run begins in `order`
  std::uint32_t* order = nullptr;     // n: positions of the keys, run after run, ascending within a run
  std::uint32_t* inverse = nullptr;   // n: position -> number of its distinct key
  std::uint32_t* distinct = nullptr;  // 1: u
  std::uint32_t count = 0;            // n
};

// One copy of many. Ranges written overlap nothing.
struct Copy {
  void const* from;
  void* to;
  std::uint64_t bytes;
};

// Does not own. State of an optimizer beside the rows of a table: Slots{RowsView{m, rows, width}, RowsView{v, rows, width}}; of
// one number a row: the width is 1.
template <class... S>
struct Slots;

template <>
struct Slots<> {
  template <class F>
  decltype(auto) with_on_host(F const& f) const {
    return f();
  }
};

template <class S, class... Rest>
struct Slots<S, Rest...> {
  RowsView<S> first;
  Slots<Rest...> rest;

  explicit Slots(RowsView<S> table, RowsView<Rest>... tables) : first{table}, rest{tables...} {}

  // f(table…), on the host.
  template <class F>
  decltype(auto) with_on_host(F const& f) const {
    return rest.with_on_host([&](auto... tables) -> decltype(auto) { return f(first, tables...); });
  }
};

template <class... S>
Slots(RowsView<S>...) -> Slots<S...>;

}  // namespace parallax::cuda
