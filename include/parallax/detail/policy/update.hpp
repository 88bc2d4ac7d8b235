// One update of one variable: `grad` makes it, and the step hands it to a way of the variable's policy. Also what the gradient
// becomes on this rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "parallax/detail/core/kind.hpp"
#include "parallax/detail/core/view.hpp"
#include "parallax/detail/kernel/groups.hpp"
#include "parallax/policy/policy.hpp"

namespace parallax::inline v0_2 {

// Does not own. The reduced gradient of the part of a dense variable that this rank owns: elements [first, first + size). The
// user's transform is called with it, and may change it; it is valid during the call.
template <class T>
struct DenseGradient {
  // The number of the part's first element in the variable. Where ranks sum the whole alike: 0.
  std::size_t first = 0;
  // The part, in memory of the variable's space; empty on a rank that owns nothing of it.
  std::span<T> values;
};

// Does not own. The reduced gradient of rows that this rank owns: ids[i] is the global row of values row i, ascending by
// owner order, each once. The user's transform is called with it, and may change the values; it is valid during the call.
template <class Index, class T>
struct RowsGradient {
  // The rows' numbers in the table, in the host's memory.
  std::span<Index const> ids;
  // [ids x width], in memory of the variable's space; `stride` elements from row to row.
  RowsView<T> values;
};

// Does not own. What a rank ends with: distinct keys ascending, a row for each, and how many indices named it (null unless
// counted), all in memory of the variable's space.
template <class Index, class T, MemorySpace Space = HostSpace>
struct ReducedRows {
  // Of groups, or in the host's memory a span. Empty of a densified gradient, of which `rows` are the owned part of the table.
  typename Groups<Index, Space>::Keys keys;
  // [keys x width], row-major and packed; null on a device as long as the sums are put off.
  T* rows = nullptr;
  // One for each key, over all ranks.
  std::uint32_t const* counts = nullptr;
};

// What a row of a gradient belongs to: an index of the batch, a distinct index of it, or a bag of indices.
enum class RowsPer : unsigned char { index, distinct, bag };

// This rank's gradient rows on their way. Of bags, the gradient of index i is its factor · the row of its bag (both the
// plan's).
template <class T>
struct OwnRows {
  // The user's rows, or the way's copy of them.
  RowsView<T const> values;
  // What each of them belongs to.
  RowsPer per = RowsPer::index;

  // Whether rows are summed by index already, in the order of the plan's keys.
  bool distinct() const { return per == RowsPer::distinct; }
};

// For how many things a gradient of a batch may have rows. Ways check the rows that they are given by it.
struct BatchSize {
  // Indices of the batch, with repetitions.
  std::size_t indices,
      // Distinct indices among them.
      distinct,
      // Bags of indices; 0 where there are none.
      bags;

  // How many rows a gradient has that is given so.
  std::int64_t rows(RowsPer per) const {
    return static_cast<std::int64_t>(per == RowsPer::distinct ? distinct : per == RowsPer::bag ? bags : indices);
  }
  // Whether `given` has a row for each. Rows without a width cannot be counted, and none stand for all: `given` then gets its
  // number of rows here.
  template <class T>
  bool fits(RowsView<T const>& given, RowsPer per, std::int64_t width) const {
    if (width == 0 && given.rows == 0) given.rows = rows(per);
    return given.rows == rows(per) && given.width == width;
  }
  // What is wrong with rows that do not fit, as a sentence of an Error's detail. `given` -1: elements that do not divide into
  // rows.
  std::string misfit(std::int64_t given, std::int64_t given_width, RowsPer per, std::int64_t width) const;
};

// Stands for the function of an update that the user gave none.
struct NoTransform {};

namespace detail {

// What stands for an update that an assertion has told the user about, so that the compiler says it once.
struct Mistaken {
  template <class F>
  Mistaken transform(F const&) const;
  float* operator[](std::size_t) const;
  std::span<float> values() const;
};

// What `make()` returns, or, with an assertion, a Mistaken where G cannot be called with the gradient. Both kinds of update
// call it as the user gives them a transform.
template <class G, class Gradient, class Make>
auto transformed(Make&& make) {
  static_assert(std::is_invocable_v<G&, Gradient>,
                "parallax: a transform is called with the reduced gradient: DenseGradient<T> or RowsGradient<Index, T>");
  if constexpr (std::is_invocable_v<G&, Gradient>) return make();
  else return Mistaken{};
}

}  // namespace detail

// Does not own. An update of a dense variable: `gradient` has the variable's size, `in_place` is null or its memory, which the
// step may overwrite. `grad` makes it, and a step or start takes it; the gradient must stay until that has returned.
template <class S, class F = NoTransform>
struct DenseUpdate {
  // What the rank keeps of the variable.
  using State = S;
  // The variable's scalar type.
  using T = typename State::scalar_type;
  // The variable's state, which the variable owns.
  State* state;
  // All elements, in memory of the variable's space.
  std::span<T const> gradient;
  // Null, or the first element of `gradient`, where sums may be formed.
  T* in_place = nullptr;
  // The user's transform.
  [[no_unique_address]] F function = {};

  // f(DenseGradient<T>) may change the reduced gradient of the part that this rank owns, after sum and mean. If it
  // throws, no rank updates anything. Returns an update with this function instead of the one that it has.
  template <class G>
  auto transform(G f) const {
    auto const with = [&] { return DenseUpdate<State, G>{state, gradient, in_place, std::move(f)}; };
    return detail::transformed<G, DenseGradient<T>>(with);
  }
};

// Does not own. An update of a sparse variable: rows by the plan of a pull, or by indices (`plan` null). `grad` makes it, and a
// step or start takes it; what it refers to must stay until that has returned.
template <class S, class Id, class F = NoTransform>
struct RowUpdate {
  // What the rank keeps of the table.
  using State = S;
  // The table's scalar type.
  using T = typename State::scalar_type;
  // The table's state, which the variable owns. Null by an empty handle, which the step refuses.
  State* state;
  // The plan that the handle of a pull holds.
  typename State::Plan* plan;
  // Without a plan: the batch's indices, one for each row of the gradient.
  std::span<Id const> ids;
  // The gradient, [batch x width] by `per`, in memory of the table's space.
  RowsView<T const> rows;
  // Always `index` without a plan.
  RowsPer per = RowsPer::index;
  // The user's transform.
  [[no_unique_address]] F function = {};

  // f(RowsGradient<Index, T>) may change the reduced rows that this rank owns, after sum and mean. If it throws, no rank
  // updates anything. Returns an update with this function instead of the one that it has.
  template <class G>
  auto transform(G f) const {
    return detail::transformed<G, RowsGradient<typename State::index_type, T>>(
        [&] { return RowUpdate<State, Id, G>{state, plan, ids, rows, per, std::move(f)}; });
  }
};

}  // namespace parallax

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/policy/update-inl.hpp"
#endif
