// Gradients named for a step: `grad` ties a variable, or the handle of a pull, to the gradient computed by the user. A trainer
// calls it in the arguments of `step` and `start`. Everything here is local; a gradient is referred to and not copied, and a
// mistaken type is told by an assertion.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "parallax/detail/pull/handle.hpp"

namespace parallax::inline v0_2 {

// The priority of started updates: during the exchange of updates with a higher one, others wait. Without one it is 0.
// Parameters needed first by the next forward pass should have the highest (Peng et al., SOSP 2019).
struct Priority {
  // The higher, the earlier; alike on all ranks, which is checked.
  int value = 0;
};

// Updates whose gradients, all together, are scaled down to `max_norm` if their Euclidean norm exceeds it. Does not own.
template <class... Updates>
struct ClipGroup {
  // The limit of the Euclidean norm over all ranks; alike on all of them, which is checked.
  double max_norm;
  // The members: updates, and references to named ranges of updates, which must outlive it.
  std::tuple<Updates...> updates;
};

// The type of a range's updates.
template <class R>
using update_of = std::remove_cvref_t<decltype(*std::begin(std::declval<R const&>()))>;
// A range of updates of one type, known at run time (the layers of a network): an argument of `step`, `start` and
// `clip_by_global_norm`.
template <class R>
concept UpdateRange = requires(R const& updates) {
  typename update_of<R>::State;
  std::end(updates);
};

namespace detail {

// The type of the updates in an argument: its own, or the range's.
template <class Argument>
struct UpdateIn {
  using type = Argument;
};
template <UpdateRange Range>
struct UpdateIn<Range> {
  using type = update_of<Range>;
};
template <class Argument>
using update_in = typename UpdateIn<Argument>::type;

// The form of a member in a clip group: a named range by reference, all else by value.
template <class Update>
using Member = std::conditional_t<std::is_lvalue_reference_v<Update> && UpdateRange<std::remove_cvref_t<Update>>,
                                  std::remove_cvref_t<Update> const&, std::remove_cvref_t<Update>>;

// A type with the members of a variable: its kind, and the state to which updates refer.
template <class V>
concept AnyVariable = requires(V const& v) {
  typename V::kind;
  v.state();
};
// Variables in a row, such as the layers of a net in a std::vector.
template <class R>
concept VariableRange = requires(R& range) {
  requires AnyVariable<std::remove_cvref_t<decltype(*range.begin())>>;
  range.end();
};
// An argument of an operation on several variables: one of them, or a range.
template <class T>
concept VariableOrRange = AnyVariable<T> || VariableRange<T>;
// Calls `show` with each variable of `thing`, a range, or with `thing` itself.
template <class Thing, class Show>
void each_of(Thing& thing, Show&& show) {
  if constexpr (VariableRange<Thing>)
    for (auto& variable : thing) show(variable);
  else show(thing);
}
// A variable updated as a whole by every step.
template <class V>
concept DenseVariable = AnyVariable<V> && std::same_as<typename V::kind, Dense>;
// A type that names rows of a table: `table.at(ids)` and `table.bags(ids, offsets)` return such a thing.
template <class Named>
concept NamesRows = requires {
  typename Named::state_type;
};
// A table, updated by rows.
template <class V>
concept SparseVariable = AnyVariable<V> && std::same_as<typename V::kind, Sparse>;

// True for the types taken by `step`: an update, a range of updates, or a clip group of these.
template <class U>
inline constexpr bool is_update = UpdateRange<U>;
template <class S, class F>
inline constexpr bool is_update<DenseUpdate<S, F>> = true;
template <class S, class Id, class F>
inline constexpr bool is_update<RowUpdate<S, Id, F>> = true;
template <class... Updates>
inline constexpr bool is_update<ClipGroup<Updates...>> = (true && ... && is_update<std::remove_cvref_t<Updates>>);

// True for such a type, or for the stand-in of a mistake already told to the user.
template <class U>
inline constexpr bool is_update_or_mistaken = is_update<U> || std::same_as<U, Mistaken>;
template <class... Updates>
inline constexpr bool is_update_or_mistaken<ClipGroup<Updates...>> =
    (true && ... && is_update_or_mistaken<std::remove_cvref_t<Updates>>);

// Returns, for `step` and `start`, true for updates; false after an assertion, here or earlier, has told the user.
template <class... Updates>
consteval bool check_updates() {
  static_assert((true && ... && is_update_or_mistaken<Updates>),
                "parallax: an update is grad(...), clip_by_global_norm(max, grad(...)...) or a range of grad(...)");
  return (true && ... && is_update<Updates>);
}

// Returns `rows`, for a variable over T, as a view of them in rows of `width`; after an assertion a Mistaken.
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

// Refuses `grad` of rows by pointer and count, by an assertion that names the right call.
template <class Pointer>
Mistaken counted_rows() {
  static_assert(never<Pointer>, "parallax: rows by pointer are a table: px::RowsView{pointer, rows, width}");
  return {};
}

// Returns the update for `grad` of a handle: a row for each `per`. Refers to its plan and `rows`; the step checks their number.
template <class Handle, class Rows>
auto grad_of_pull(Handle const& handle, Rows const& rows, RowsPer per) {
  using State = typename Handle::state_type;
  using Update = RowUpdate<State, typename State::index_type>;
  using View = decltype(checked_rows<typename State::scalar_type>(rows, std::int64_t{}));
  if constexpr (std::same_as<View, Mistaken>) return Mistaken{};
  else if (!handle.plan()) return Update{};  // refused by `step`, on all ranks
  else return Update{&handle.state(), handle.plan(), {}, checked_rows<typename State::scalar_type>(rows, handle.width()), per};
}

}  // namespace detail

// Returns the update of a dense variable by its gradient: any tensor with contiguous elements of the variable's scalar, as many
// as the variable has, in the variable's memory space. Refers to the gradient until `step` returns; `start` copies it. Another
// number of elements is refused by the step, on all ranks (Errc::invalid_argument).
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

// Names the gradient of a dense variable as grad(variable, tensor) does: the `count` elements at `gradient`, referred to until
// `step` returns.
template <detail::DenseVariable V, detail::ElementPointer Pointer, std::integral Count>
auto grad(V const& variable, Pointer const& gradient, Count const& count) {
  return grad(variable, std::span{gradient, static_cast<std::size_t>(count)});
}

// A gradient in memory that the step may overwrite: `in_place` makes it, `grad` takes it.
template <class T>
struct InPlace {
  // The gradient's elements, owned by the caller.
  std::span<T> values;
};

// Lends the step a gradient's memory, in grad(variable, in_place(gradient)): the sum over ranks may be formed there, and its
// contents are unspecified once `step` has returned or thrown; no other dense update of the step may name the same memory
// (Error invalid_argument). Does not own. No bit of a result differs. Large gradients then need no memory for their sums, and
// small ones are not packed if they lie in a row, as views of one buffer do, in the order of the updates. Of use to replicated
// variables (AllReduce), if ranks of a host reach the memory: threads always, processes if it is a SharedBuffer, or on a
// device; in a `step`, for a `start` copies its gradients.
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
// Names the gradient of a dense variable as grad(variable, tensor) does, in memory that the step may overwrite: see `in_place`.
template <detail::DenseVariable V, class T>
auto grad(V const& variable, InPlace<T> const& gradient) {
  auto update = grad(variable, gradient.values);
  if constexpr (!std::same_as<decltype(update), detail::Mistaken>) update.in_place = gradient.values.data();
  return update;
}
// Passes a mistake on, after an assertion about the gradient.
template <detail::DenseVariable V>
detail::Mistaken grad(V const&, detail::Mistaken mistaken) {
  return mistaken;
}
// Passes a mistake on, after an assertion about the variable or handle.
template <class Gradient>
detail::Mistaken grad(detail::Mistaken mistaken, Gradient const&) {
  return mistaken;
}

// Returns the update by the gradient of the batch of a pull: one row per index, [indices() x width], in the order of the
// indices (duplicates are summed here). If the pull has told owners the ids, only rows travel. Refers to the handle's plan and
// to `rows` until `step` returns. A handle serves any number of updates of one step, all of them applied; a later step refuses
// it (Errc::misuse), as its rows have changed since. A handle escapes the refusal if its table's rows had moved (Auto) before
// its first step. Another number or width of rows, and an empty handle, are refused by the step.
template <class State, class Rows>
auto grad(PulledRows<State> const& handle, Rows const& rows) {
  return detail::grad_of_pull(handle, rows, RowsPer::index);
}
// Names, as grad(handle, rows), a gradient of a row per distinct index, [size() x width], in the order of `handle.values()`.
template <class State, class Rows>
auto grad(PulledRows<State> const& handle, Distinct<Rows> const& rows) {
  return detail::grad_of_pull(handle, rows.rows, RowsPer::distinct);
}
// Names the gradient of a pull's bags as grad(handle, rows): one row per bag, [bags x width], from which each index takes its
// share, the row times its weight, or divided by the bag's size for a mean.
template <class State, class Rows>
auto grad(PulledBags<State> const& handle, Rows const& rows) {
  return detail::grad_of_pull(handle, rows, RowsPer::bag);
}

// Names the trainer's changes of editable rows, pulled - changed, for a table whose optimizer subtracts (px::Subtract, or one
// of yours). The step adds to each row the changes of all ranks, as the variable's Reduce says: `sum` all of them; `mean`, the
// default, their sum over the number of ranks, ranks without changes included, so that the table is the mean of the ranks'
// tables; `mean_by_count` their sum over the number of indices that named the row. Changes of a row by other steps since the
// pull stay. Arithmetic rounds: a row changed by one rank alone from p to c becomes p - (p - c). Local: the changes are those
// made until this call, whose update is valid until the next one for the same rows; always those since the pull, so two steps
// by the rows of one pull add them twice.
template <class State>
auto grad(EditableRows<State> const& rows, Difference) {
  constexpr bool subtracted = subtracts<typename State::optimizer_type>;
  static_assert(subtracted,
                "parallax: a difference is taken by a table whose optimizer is p -= g: px::Subtract, or one that says "
                "`static constexpr bool subtracts = true`");
  if constexpr (!subtracted) return detail::Mistaken{};
  else return detail::grad_of_pull(rows, rows.difference(), RowsPer::distinct);
}
// Refuses rows that cannot be changed, by an assertion that tells how to get editable ones.
template <class State>
detail::Mistaken grad(PulledRows<State> const&, Difference) {
  static_assert(detail::never<State>,
                "parallax: a difference is of rows that the trainer may change: session.pull(table, ids).editable()");
  return {};
}

// Returns the update by the gradient of rows that were not pulled: one row per index, [ids x width], in the order of `ids`.
// Duplicates are summed, and the ids travel along with the rows. Refers to `ids` and `rows` until `step` returns. The step
// throws Error: bad_id as a pull does, and invalid_argument if the rows do not fit the ids.
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

// Refuses, by an assertion, rows by a pointer and a count: the count's unit would be open.
template <class Handle, detail::ElementPointer Pointer, std::integral Count>
  requires requires { typename Handle::Plan; }
detail::Mistaken grad(Handle const&, Pointer const&, Count const&) {
  return detail::counted_rows<Pointer>();
}
// Refuses, by an assertion, ids with rows by a pointer and a count.
template <detail::SparseVariable V, class Ids, detail::ElementPointer Pointer, std::integral Count>
detail::Mistaken grad(V const&, Ids const&, Pointer const&, Count const&) {
  return detail::counted_rows<Pointer>();
}

// Refuses rows of a dense variable, by an assertion that names the right call.
template <detail::DenseVariable V, class Ids, class Rows>
  requires(!(detail::ElementPointer<Ids> && std::integral<Rows>))
detail::Mistaken grad(V const&, Ids const&, Rows const&) {
  static_assert(detail::never<V>,
                "parallax: a Dense variable takes a gradient for every element, not rows by index; a function of the reduced "
                "gradient is given by grad(variable, gradient).transform(f)");
  return {};
}
// Refuses a table without ids, by an assertion that names the right call.
template <detail::SparseVariable V, class Tensor>
detail::Mistaken grad(V const&, Tensor const&) {
  static_assert(detail::never<V>,
                "parallax: a Sparse variable takes rows by index: grad(handle of a pull, rows) or grad(variable, ids, rows)");
  return {};
}

namespace detail {
// The type of update of a variable type, for the list `Updates`; of anything else an assertion says so.
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

// A list of updates of variables of one type, their number known at run time: one argument of `step`, `start` and
// clip_by_global_norm. Refers to the gradients, as each update does. Of a table it takes updates made by grad(rows of a pull,
// …), and by grad(table, ids, rows) if the ids are of the table's index type.
//   px::Updates<Layer> updates;
//   for (std::size_t i = 0; i < layers.size(); ++i) updates.push_back(px::grad(layers[i], gradients[i]));
//   session.step(updates);
template <class V>
using Updates = std::vector<typename detail::UpdateBy<V>::type>;

// Returns one argument of a step, which scales the reduced gradients of these updates together by max_norm / norm if their
// Euclidean norm, dense and sparse alike, exceeds max_norm (Pascanu, Mikolov and Bengio, ICML 2013). Costs no message.
// `updates`: grad(…), or a range of them, which is referred to if it has a name, and must outlive the clip group. The step
// refuses a max_norm below 0 or not finite (Errc::invalid_argument).
template <class... Updates>
auto clip_by_global_norm(double max_norm, Updates&&... updates) {
  return ClipGroup<detail::Member<Updates>...>{max_norm, {std::forward<Updates>(updates)...}};
}

}  // namespace parallax
