// One update of one variable: `grad` makes it, and the step hands it to a way of the variable's policy. Also the gradient's
// result on this rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "parallax/detail/core/view.hpp"
#include "parallax/detail/kernel/groups.hpp"
#include "parallax/policy/policy.hpp"

namespace parallax::inline v0_2 {

// Does not own. The reduced gradient of this rank's own part of a dense variable: elements [first, first + size). The user's
// transform is called with it, and may change it; it is valid during the call.
template <class T>
struct DenseGradient {
  // The number of the part's first element in the variable. 0 if ranks sum the whole alike.
  std::size_t first = 0;
  // The part, in memory of the variable's space; empty on a rank without one.
  std::span<T> values;
};

// Does not own. The reduced gradient of this rank's own rows: ids[i] is the global row of values row i, ascending by owner
// order, each once. The user's transform is called with it, and may change the values; it is valid during the call.
template <class Index, class T>
struct RowsGradient {
  // The rows' numbers in the table, in the host's memory, one for each row of `values`.
  std::span<Index const> ids;
  // [ids x width], in memory of the variable's space; `stride` elements from row to row.
  RowsView<T> values;
};

// Does not own. A rank's result: distinct keys ascending, a row for each, and the number of indices that named it (null unless
// counted), all in memory of the variable's space.
template <class Index, class T, MemorySpace Space = HostSpace>
struct ReducedRows {
  // Of groups, or in the host's memory a span. Empty of a densified gradient: its `rows` are the owned part of the table.
  typename Groups<Index, Space>::Keys keys;
  // [keys x width], row-major and packed; null on a device as long as the sums are put off.
  T* rows = nullptr;
  // The number of indices of each key, over all ranks; null unless counted.
  std::uint32_t const* counts = nullptr;
};

// The unit of a gradient's row: an index of the batch, a distinct index of it, or a bag of indices.
enum class RowsPer : unsigned char { index, distinct, bag };

// Does not own. This rank's gradient rows on their way. Of bags, the gradient of index i is its factor · the row of its bag
// (both the plan's).
template <class T>
struct OwnRows {
  // The user's rows, or the way's copy of them.
  RowsView<T const> values;
  // The unit of each row.
  RowsPer per = RowsPer::index;

  // Returns true if rows are summed by index already, in the order of the plan's keys.
  bool distinct() const { return per == RowsPer::distinct; }
};

// The numbers of rows that a gradient of a batch may have. Ways check given rows by them.
struct BatchSize {
  // Indices of the batch, with repetitions.
  std::size_t indices,
      // Distinct indices among them.
      distinct,
      // Bags of indices; 0 without any.
      bags;

  // Returns the number of rows of a gradient with one for each index, distinct index or bag.
  std::int64_t rows(RowsPer per) const {
    return static_cast<std::int64_t>(per == RowsPer::distinct ? distinct : per == RowsPer::bag ? bags : indices);
  }
  // Returns true if `given` has `rows(per)` rows of `width` elements. Rows without a width cannot be counted, and none stand
  // for all: `given` then gets its number of rows here.
  template <class T>
  bool fits(RowsView<T const>& given, RowsPer per, std::int64_t width) const {
    if (width == 0 && given.rows == 0) given.rows = rows(per);
    return given.rows == rows(per) && given.width == width;
  }
  // Returns the fault of `given` rows of `given_width` elements, as a sentence of an Error's detail. `given` -1: elements that
  // do not divide into rows.
  std::string misfit(std::int64_t given, std::int64_t given_width, RowsPer per, std::int64_t width) const;
};

// Stands for the function of an update without one from the user.
struct NoTransform {};

namespace detail {

// Stand-in for an update after an assertion has told the user of it, so that the compiler says it once.
struct Mistaken {
  template <class F>
  Mistaken transform(F const&) const;
  float* operator[](std::size_t) const;
  std::span<float> values() const;
};

// Returns the result of `make()`, or, with an assertion, a Mistaken if G cannot be called with the gradient. Both kinds of
// update call it for the user's transform.
template <class G, class Gradient, class Make>
auto transformed(Make&& make) {
  static_assert(std::is_invocable_v<G&, Gradient>,
                "parallax: a transform is called with the reduced gradient: DenseGradient<T> or RowsGradient<Index, T>");
  if constexpr (std::is_invocable_v<G&, Gradient>) return make();
  else return Mistaken{};
}

}  // namespace detail

// Does not own. An update of a dense variable: `gradient` has the variable's size, `in_place` is null or its memory, for the
// step to overwrite. `grad` makes it, and a step or start takes it; the gradient must stay until the call has returned.
template <class S, class F = NoTransform>
struct DenseUpdate {
  // The rank's state of the variable.
  using State = S;
  // The variable's scalar type.
  using T = typename State::scalar_type;
  // The variable's state, owned by the variable.
  State* state;
  // All elements, in memory of the variable's space.
  std::span<T const> gradient;
  // Null, or the first element of `gradient`, for sums to be formed there.
  T* in_place = nullptr;
  // The user's transform.
  [[no_unique_address]] F function = {};

  // Returns an update with this function instead of its own: f(DenseGradient<T>) may change the reduced gradient of this rank's
  // part, after sum and mean. If it throws, no rank updates anything.
  template <class G>
  auto transform(G f) const {
    auto const with = [&] { return DenseUpdate<State, G>{state, gradient, in_place, std::move(f)}; };
    return detail::transformed<G, DenseGradient<T>>(with);
  }
};

// Does not own. An update of a sparse variable: rows by the plan of a pull, or by indices (`plan` null). `grad` makes it, and a
// step or start takes it; its referents must stay until the call has returned.
template <class S, class Id, class F = NoTransform>
struct RowUpdate {
  // The rank's state of the table.
  using State = S;
  // The table's scalar type.
  using T = typename State::scalar_type;
  // The table's state, owned by the variable. Null in an empty handle: the step refuses it.
  State* state;
  // The plan of a pull, owned by the table and held by the pull's handle; or null.
  typename State::Plan* plan;
  // Without a plan: the batch's indices, one for each row of the gradient.
  std::span<Id const> ids;
  // The gradient, [batch x width] by `per`, in memory of the table's space.
  RowsView<T const> rows;
  // Always `index` without a plan.
  RowsPer per = RowsPer::index;
  // The user's transform.
  [[no_unique_address]] F function = {};

  // Returns an update with this function instead of its own: f(RowsGradient<Index, T>) may change the reduced rows of this
  // rank, after sum and mean. If it throws, no rank updates anything.
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
