// Gradients named for a step: `grad` ties a variable, or the handle of a pull, to the gradient that the user computed.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "parallax/pull/handle.hpp"

namespace parallax {

// Of updates that are started: while those of a higher priority are being exchanged, others wait. Without one it is 0. What the
// next forward pass needs first should have the highest (Peng et al., SOSP 2019).
struct Priority {
  int value = 0;
};

// Does not own. Updates whose gradients, all together, are scaled down to `max_norm` if their Euclidean norm exceeds it.
template <class... Updates>
struct ClipGroup {
  double max_norm;
  std::tuple<Updates...> updates;
};

// A range of updates of one type, known at run time (the layers of a network).
template <class R>
using update_of = std::remove_cvref_t<decltype(*std::begin(std::declval<R const&>()))>;
template <class R>
concept UpdateRange = requires(R const& updates) {
  typename update_of<R>::State;
  std::end(updates);
};

namespace detail {

// How a group holds what it is given: a range that has a name by reference, all else by value.
template <class Update>
using Held = std::conditional_t<std::is_lvalue_reference_v<Update> && UpdateRange<std::remove_cvref_t<Update>>,
                                std::remove_cvref_t<Update> const&, std::remove_cvref_t<Update>>;

template <class V>
concept AnyVariable = requires(V const& v) {
  typename V::kind;
  v.state();
};
template <class V>
concept DenseVariable = AnyVariable<V> && std::same_as<typename V::kind, Dense>;
// What table.at(ids) and table.bags(ids, offsets) return.
template <class I>
concept NamesRows = requires { typename I::state_type; };
template <class V>
concept SparseVariable = AnyVariable<V> && std::same_as<typename V::kind, Sparse>;

template <class U>
inline constexpr bool is_update = UpdateRange<U>;
template <class S, class F>
inline constexpr bool is_update<DenseUpdate<S, F>> = true;
template <class S, class Id, class F>
inline constexpr bool is_update<RowUpdate<S, Id, F>> = true;
template <class... Updates>
inline constexpr bool is_update<ClipGroup<Updates...>> = (true && ... && is_update<std::remove_cvref_t<Updates>>);

template <class U>
inline constexpr bool is_update_or_mistaken = is_update<U> || std::same_as<U, Mistaken>;
template <class... Updates>
inline constexpr bool is_update_or_mistaken<ClipGroup<Updates...>> =
    (true && ... && is_update_or_mistaken<std::remove_cvref_t<Updates>>);

// For `step` and `start`: true for updates, false where an assertion, here or earlier, has told the user.
template <class... Updates>
consteval bool check_updates() {
  static_assert((true && ... && is_update_or_mistaken<Updates>),
                "parallax: an update is grad(...), clip_by_global_norm(max, grad(...)...) or a range of grad(...)");
  return (true && ... && is_update<Updates>);
}

// Rows for a variable over T, as a view or, after an assertion, as a Mistaken.
template <class T, class Rows>
auto checked_rows(Rows const& rows, std::int64_t width) {
  if constexpr (!FlatTensor<Rows const> && !RowTensor<Rows const>) {
    static_assert(never<Rows>,
                  "parallax: the gradient of rows is a row-major table or a contiguous range (see tensor_traits)");
    return Mistaken{};
  } else if constexpr (!std::same_as<typename decltype(rows_view(rows, width))::value_type, T>) {
    static_assert(never<Rows>, "parallax: the gradient's elements are not of the variable's scalar type");
    return Mistaken{};
  } else {
    return rows_view(rows, width);
  }
}

template <class Pointer>
Mistaken counted_rows() {
  static_assert(never<Pointer>, "parallax: rows by pointer are a table: px::RowsView{pointer, rows, width}");
  return {};
}

template <class Handle, class Rows>
auto grad_of_pull(Handle const& handle, Rows const& rows, RowsPer per) {
  using State = typename Handle::state_type;
  using Update = RowUpdate<State, typename State::index_type>;
  using View = decltype(checked_rows<typename State::scalar_type>(rows, std::int64_t{}));
  if constexpr (std::same_as<View, Mistaken>) return Mistaken{};
  else if (!handle.plan()) return Update{};  // which `step` refuses, on all ranks
  else return Update{&handle.state(), handle.plan(), {}, checked_rows<typename State::scalar_type>(rows, handle.width()), per};
}

}  // namespace detail

// The gradient of a dense variable: any tensor with contiguous elements, as many as the variable has.
template <detail::DenseVariable V, class Tensor>
auto grad(V const& variable, Tensor const& gradient) {
  if constexpr (!FlatTensor<Tensor const>) {
    static_assert(detail::never<V>,
                  "parallax: a Dense variable's gradient is a tensor with contiguous elements (see tensor_traits)");
    return detail::Mistaken{};
  } else if constexpr (!std::same_as<typename decltype(flat_view(gradient))::value_type, typename V::scalar_type>) {
    static_assert(detail::never<V>, "parallax: the gradient's elements are not of the variable's scalar type");
    return detail::Mistaken{};
  } else {
    return DenseUpdate<typename V::State>{&variable.state(), flat_view(gradient)};
  }
}

// The same of the `count` elements at `gradient`. A count that is not the variable's is refused by `step`, on all ranks.
template <detail::DenseVariable V, detail::ElementPointer Pointer, std::integral Count>
auto grad(V const& variable, Pointer const& gradient, Count const& count) {
  return grad(variable, std::span{gradient, static_cast<std::size_t>(count)});
}

// A gradient whose memory the step may overwrite.
template <class T>
struct InPlace {
  std::span<T> values;
};

// Does not own. grad(variable, in_place(gradient)): the sum over ranks may be formed in the gradient's memory, whose contents
// are unspecified once `step` has returned or thrown; no other dense update of the step may name that memory (Error
// invalid_argument). No bit of a result differs. Large gradients then need no memory for their sums, and small ones are not
// packed where they lie in a row, as views of one buffer do, in the order of the updates. Of use to replicated variables
// (AllReduce), where ranks of a host reach the memory: threads always, processes if it is a SharedBuffer, or on a device; in a
// `step`, for a `start` copies what it is given.
template <class Tensor>
auto in_place(Tensor&& gradient) {
  if constexpr (!FlatTensor<Tensor>) {
    static_assert(detail::never<Tensor>,
                  "parallax: a Dense variable's gradient is a tensor with contiguous elements (see tensor_traits)");
    return detail::Mistaken{};
  } else if constexpr (std::is_const_v<typename decltype(flat_view(gradient))::element_type>) {
    static_assert(detail::never<Tensor>, "parallax: in_place takes a gradient that may be overwritten, this one is const");
    return detail::Mistaken{};
  } else {
    return InPlace<typename decltype(flat_view(gradient))::element_type>{flat_view(gradient)};
  }
}
template <detail::DenseVariable V, class T>
auto grad(V const& variable, InPlace<T> const& gradient) {
  auto update = grad(variable, gradient.values);
  if constexpr (!std::same_as<decltype(update), detail::Mistaken>) update.in_place = gradient.values.data();
  return update;
}
template <detail::DenseVariable V>
detail::Mistaken grad(V const&, detail::Mistaken mistaken) {
  return mistaken;
}
template <class Gradient>
detail::Mistaken grad(detail::Mistaken mistaken, Gradient const&) {
  return mistaken;
}

// The gradient of the batch of a pull: one row per index, in the order of the indices (duplicates are summed here), or
// distinct(rows): one row per distinct index, in the order of handle.values(). Of bags: one row per bag, from which each index
// takes its share; an index's gradient is never held by itself. A handle serves any number of updates, of one step or of
// several: each is applied.
template <class State, class Rows>
auto grad(PulledRows<State> const& handle, Rows const& rows) {
  return detail::grad_of_pull(handle, rows, RowsPer::index);
}
template <class State, class Rows>
auto grad(PulledRows<State> const& handle, Distinct<Rows> const& rows) {
  return detail::grad_of_pull(handle, rows.rows, RowsPer::distinct);
}
template <class State, class Rows>
auto grad(PulledBags<State> const& handle, Rows const& rows) {
  return detail::grad_of_pull(handle, rows, RowsPer::bag);
}

// What the trainer has changed in editable rows, pulled - changed, for a table whose optimizer subtracts (px::Subtract, or one
// of yours). The step adds to each row the changes of all ranks, as the variable's Reduce says: `sum` all of them; `mean`, the
// default, their sum over the number of ranks, those that changed nothing included, so that the table is the mean of what the
// ranks made of it; `mean_by_count` their sum over the number of indices that named the row. What other steps did to a row
// since the pull stays. Arithmetic rounds: a row that one rank alone changed from p to c becomes p - (p - c). Local: the
// changes are those made until this call, whose update is valid until the next one for the same rows; always those since the
// pull, so that two steps by the rows of one pull add them twice.
template <class State>
auto grad(EditableRows<State> const& rows, Difference) {
  constexpr bool subtracted = subtracts<typename State::optimizer_type>;
  static_assert(subtracted,
                "parallax: a difference is taken by a table whose optimizer is p -= g: px::Subtract, or one that says "
                "`static constexpr bool subtracts = true`");
  if constexpr (!subtracted) return detail::Mistaken{};
  else return detail::grad_of_pull(rows, rows.difference(), RowsPer::distinct);
}
template <class State>
detail::Mistaken grad(PulledRows<State> const&, Difference) {
  static_assert(detail::never<State>,
                "parallax: a difference is of rows that the trainer may change: session.pull(table, ids).editable()");
  return {};
}

// The gradient of rows that were not pulled: one row per index.
template <detail::SparseVariable V, class Ids, class Rows>
auto grad(V const& variable, Ids const& ids, Rows const& rows) {
  auto const view = detail::checked_rows<typename V::scalar_type>(rows, variable.width());
  if constexpr (std::same_as<decltype(view), detail::Mistaken const>) return view;
  else if constexpr (!detail::check_indices<Ids, typename V::State::space>()) return detail::Mistaken{};
  else {
    auto const indices = flat_view(ids);
    return RowUpdate<typename V::State, typename decltype(indices)::value_type>{&variable.state(), nullptr, indices, view};
  }
}

// Of rows a pointer and a count would leave open what is counted.
template <class Handle, detail::ElementPointer Pointer, std::integral Count>
  requires requires { typename Handle::Plan; }
detail::Mistaken grad(Handle const&, Pointer const&, Count const&) {
  return detail::counted_rows<Pointer>();
}
template <detail::SparseVariable V, class Ids, detail::ElementPointer Pointer, std::integral Count>
detail::Mistaken grad(V const&, Ids const&, Pointer const&, Count const&) {
  return detail::counted_rows<Pointer>();
}

template <detail::DenseVariable V, class Ids, class Rows>
  requires(!(detail::ElementPointer<Ids> && std::integral<Rows>))
detail::Mistaken grad(V const&, Ids const&, Rows const&) {
  static_assert(detail::never<V>,
                "parallax: a Dense variable takes a gradient for every element, not rows by index; a function of the reduced "
                "gradient is given by grad(variable, gradient).transform(f)");
  return {};
}
template <detail::SparseVariable V, class Tensor>
detail::Mistaken grad(V const&, Tensor const&) {
  static_assert(detail::never<V>,
                "parallax: a Sparse variable takes rows by index: grad(handle of a pull, rows) or grad(variable, ids, rows)");
  return {};
}

namespace detail {
template <class V>
struct UpdateBy {
  static_assert(never<V>, "parallax: Updates is a list for one type of variable: Updates<Variable<Dense, ...>>");
  using type = Mistaken;
};
template <DenseVariable V>
struct UpdateBy<V> {
  using type = DenseUpdate<typename V::State>;
};
template <SparseVariable V>
struct UpdateBy<V> {
  using type = RowUpdate<typename V::State, typename V::index_type>;
};
}  // namespace detail

// A list of updates of variables of one type, as many as are known at run time: one argument of `step`, `start` and
// clip_by_global_norm. Refers to the gradients, as each update does. Of a table it takes what grad(rows of a pull, …) makes,
// and grad(table, ids, rows) where the ids are of the table's index type.
//   px::Updates<Layer> updates;
//   for (std::size_t i = 0; i < layers.size(); ++i) updates.push_back(px::grad(layers[i], gradients[i]));
//   session.step(updates);
template <class V>
using Updates = std::vector<typename detail::UpdateBy<V>::type>;

// Scales the reduced gradients of these updates together by max_norm / norm where their Euclidean norm, over all ranks and
// dense and sparse alike, exceeds max_norm (Pascanu, Mikolov and Bengio, ICML 2013). Costs no message. A range of updates is
// referred to where it has a name, and must outlive the group.
template <class... Updates>
auto clip_by_global_norm(double max_norm, Updates&&... updates) {
  return ClipGroup<detail::Held<Updates>...>{max_norm, {std::forward<Updates>(updates)...}};
}

}  // namespace parallax
