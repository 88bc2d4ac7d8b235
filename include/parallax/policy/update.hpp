// One update of one variable, as `grad` makes it and a policy's way takes it: the gradient, and what it becomes on this rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "parallax/core/kind.hpp"
#include "parallax/core/view.hpp"
#include "parallax/policy/policy.hpp"

namespace parallax {

// Does not own. The reduced gradient of the part of a dense variable that this rank owns: elements [first, first + size).
template <class T>
struct DenseGradient {
  std::size_t first = 0;
  std::span<T> values;
};

// Does not own. The reduced gradient of rows that this rank owns: ids[i] is the global row of values row i, ascending by
// owner order, each once.
template <class Index, class T>
struct RowsGradient {
  std::span<Index const> ids;
  RowsView<T> values;
};

// Does not own. What a rank ends with: distinct keys ascending, a row for each, in memory of the variable's space, and how many
// indices named it (null unless counted).
template <class Index, class T>
struct ReducedRows {
  std::span<Index const> keys;
  T* rows = nullptr;
  std::uint32_t const* counts = nullptr;
};

// What a row of a gradient belongs to: an index of the batch, a distinct index of it, or a bag of indices.
enum class RowsPer : unsigned char { index, distinct, bag };

// This rank's gradient rows on their way. Of bags, the gradient of index i is its factor · the row of its bag (both the plan's).
template <class T>
struct OwnRows {
  RowsView<T const> values;
  RowsPer per = RowsPer::index;

  bool distinct() const { return per == RowsPer::distinct; }
};

// For how many things a gradient of a batch may have rows.
struct BatchSize {
  std::size_t indices, distinct, bags;

  std::int64_t rows(RowsPer per) const {
    return static_cast<std::int64_t>(per == RowsPer::distinct ? distinct : per == RowsPer::bag ? bags : indices);
  }
  // Whether `given` has a row for each. Rows without a width cannot be counted, and none stand for all.
  template <class T>
  bool fits(RowsView<T const>& given, RowsPer per, std::int64_t width) const {
    if (width == 0 && given.rows == 0) given.rows = rows(per);
    return given.rows == rows(per) && given.width == width;
  }
  // What is wrong with rows that do not fit; -1 of them do not divide.
  std::string misfit(std::int64_t given, std::int64_t given_width, RowsPer per, std::int64_t width) const;
};

#if PARALLAX_BODIES
PARALLAX_INLINE std::string BatchSize::misfit(std::int64_t given, std::int64_t given_width, RowsPer per,
                                              std::int64_t width) const {
  auto const count = [](std::int64_t n) { return n < 0 ? std::string{"?"} : joined({n}); };
  std::string text = joined({"gradient rows of ", count(given), " x ", given_width, " for ", count(rows(per)), " x ", width});
  if (per == RowsPer::distinct) return text + " by px::distinct, one for each distinct index";
  bool const by_distinct = per == RowsPer::index && given == rows(RowsPer::distinct) && given_width == width;
  return text + " pulled or named" + (by_distinct ? ": px::distinct(rows) gives one for each distinct index" : "");
}
#endif

struct NoTransform {};

namespace detail {

// What stands for an update that an assertion has told the user about, so that the compiler says it once.
struct Mistaken {
  template <class F>
  Mistaken transform(F const&) const;
  float* operator[](std::size_t) const;
  std::span<float> values() const;
};

template <class G, class Gradient, class Make>
auto transformed(Make&& make) {
  static_assert(std::is_invocable_v<G&, Gradient>,
                "parallax: a transform is called with the reduced gradient: DenseGradient<T> or RowsGradient<Index, T>");
  if constexpr (std::is_invocable_v<G&, Gradient>) return make();
  else return Mistaken{};
}

}  // namespace detail

// Does not own. An update of a dense variable: `gradient` has the variable's size, `in_place` is null or its memory, which the
// step may overwrite.
template <class S, class F = NoTransform>
struct DenseUpdate {
  using State = S;
  using T = typename State::scalar_type;
  State* state;
  std::span<T const> gradient;
  T* in_place = nullptr;
  [[no_unique_address]] F function = {};

  // f(DenseGradient<T>) may change the reduced gradient of the part that this rank owns, after sum and mean. If it
  // throws, no rank updates anything.
  template <class G>
  auto transform(G f) const {
    auto const with = [&] { return DenseUpdate<State, G>{state, gradient, in_place, std::move(f)}; };
    return detail::transformed<G, DenseGradient<T>>(with);
  }
};

// Does not own. An update of a sparse variable: rows by the plan of a pull, or by indices (`plan` null).
template <class S, class Id, class F = NoTransform>
struct RowUpdate {
  using State = S;
  using T = typename State::scalar_type;
  State* state;
  typename State::Plan* plan;
  std::span<Id const> ids;
  RowsView<T const> rows;
  RowsPer per = RowsPer::index;
  [[no_unique_address]] F function = {};

  // f(RowsGradient<Index, T>) may change the reduced rows that this rank owns, after sum and mean.
  template <class G>
  auto transform(G f) const {
    return detail::transformed<G, RowsGradient<typename State::index_type, T>>(
        [&] { return RowUpdate<State, Id, G>{state, plan, ids, rows, per, std::move(f)}; });
  }
};

}  // namespace parallax
