// Results of a pull: the handles by which a trainer reads rows, and by which `grad` names the batch again. Trainers keep one
// from the pull to the step of a batch.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/variable/variable.hpp"

namespace parallax::inline v0_2 {

// Declared here, for `PulledRows::editable`.
template <class State>
class EditableRows;

// A pull's result: the distinct rows of a batch and the map from its indices to them. Move-only; holds a plan of the variable's
// pool. `grad` of the handle reuses the plan, and sends no ids to owners that have them from the pull. The rows are as of the
// pull. Everything is local. Holds the variable's state, and so may outlive the variable. An empty handle, made without
// arguments or left by a move, is only assigned to, destroyed, or given to `grad`; its step refuses it.
template <class State>
class PulledRows {
 public:
  // State of the variable pulled from.
  using state_type = State;
  // Scalar of the table's elements.
  using T = typename State::scalar_type;
  // Integer of the table's row numbers.
  using IndexType = typename State::index_type;
  // A variable's notes of a batch: distinct keys, their grouping and their route.
  using Plan = typename State::Plan;
  // True if the host reads the memory of the rows, and single rows can be shown.
  static constexpr bool on_host = State::space::host_readable;

  PulledRows() = default;
  // Takes hold of the state, and of a plan of its pool. By the fetch of a pull.
  PulledRows(State& state, Plan& plan) : state_{&state}, plan_{&plan} { ++plan.users; }
  // Takes over the rows in their place; `other` is empty.
  PulledRows(PulledRows&& other) noexcept : state_{std::move(other.state_)}, plan_{std::exchange(other.plan_, nullptr)} {}
  // Takes the plan of `other`, which is empty, and gives back its own.
  PulledRows& operator=(PulledRows&& other) noexcept {
    PulledRows taken{std::move(other)};
    std::swap(state_, taken.state_);
    std::swap(plan_, taken.plan_);
    return *this;
  }
  // Gives the plan back. The pool may use it again once nobody holds it.
  ~PulledRows() {
    if (plan_) --plan_->users;
  }

  // Returns the number of indices of the batch, duplicates included.
  std::size_t indices() const { return plan_->indices(); }
  // Returns the number of distinct rows named by the batch; of a padded table, see px::Padded, the number of places for them.
  std::size_t size() const { return plan_->size(); }
  // Returns the number of indices outside the table that take no part: BadIds::drop_and_count.
  std::size_t dropped() const { return plan_->dropped; }
  // Returns the elements of a row.
  std::int64_t width() const { return state_->width(); }

  // Returns the distinct rows, [size() x width()], in the variable's memory space. On a device, for work put into the session's
  // queue from now on. Valid until the handle is destroyed.
  RowsView<T const> values() const {
    return {reinterpret_cast<T const*>(plan_->values.data()), static_cast<std::int64_t>(size()), width()};
  }
  // Returns indices() entries, valid as `values`: the number of the i-th index's row there. A dropped index outside the
  // table has size(): a row of zeros lies behind the others.
  std::span<std::uint32_t const> inverse() const { return state_->ops().inverse(plan_->groups.there(state_->ops())); }
  // Returns the row of the i-th index, i below indices(); valid as `values`.
  std::span<T const> operator[](std::size_t i) const requires on_host { return values()[inverse()[i]]; }
  // Returns the row of an id, as of an index of the pull; empty if the pull did not ask for it or dropped it. O(log size()), or
  // O(size()) for a handle that is older than the last move of the table's rows (Auto). Neither allocates.
  std::span<T const> find(std::int64_t id) const requires on_host {
    std::size_t const j = number_of(id);
    return j < size() ? values()[static_cast<std::int64_t>(j)] : std::span<T const>{};
  }
  // Returns the table's number of the j-th distinct row, j below size(). Distinct rows are in the order of their keys: owner
  // after owner. Of indices in a device's memory the first call brings the keys to the host, and waits for them under the
  // communicator's deadline; not while a ProgressThread lives. -1 for a place of a padded table without a row.
  std::int64_t id(std::size_t j) const {
    if (plan_->retired) return plan_->retired_rows[j];
    auto const key = plan_->groups.keys_here()[j];
    return plan_->padded && key >= state_->rows() ? -1 : state_->placement().row(key);
  }

  // Local. Returns a handle of rows that the trainer may change, which takes this one: session.pull(words, ids).editable().
  auto editable() && {
    static_assert(on_host, "parallax: rows are edited in the host's memory, and these are a device's");
    if constexpr (on_host) return EditableRows<State>{std::move(*this)};
    else return detail::Mistaken{};
  }
  // Refuses a handle that is kept, by an assertion with the way to give it up.
  detail::Mistaken editable() const& {
    static_assert(detail::never<State>,
                  "parallax: a handle becomes one of editable rows: session.pull(table, ids).editable(), or "
                  "std::move(rows).editable() of one that is not const");
    return {};
  }

  // Returns, for the library, the variable's state.
  State& state() const { return *state_; }
  // Returns, for the library, the plan by which `grad` names the batch, owned by the state; null of an empty handle.
  Plan* plan() const { return plan_; }

 protected:
  // Returns the number of an id's distinct row, or size() for none. A bad id is looked up as the pull has treated it.
  std::size_t number_of(std::int64_t id) const {
    auto const rows = state_->rows();
    bool const inside = static_cast<std::uint64_t>(id) < static_cast<std::uint64_t>(rows);
    if (!inside && (state_->bad_ids() != BadIds::hash || rows == 0)) return size();
    std::int64_t const row = inside ? id : detail::hashed_row(static_cast<std::uint64_t>(id), rows);
    if (plan_->retired) {
      std::span const known{plan_->retired_rows.data(), size()};
      return static_cast<std::size_t>(std::find(known.begin(), known.end(), static_cast<IndexType>(row)) - known.begin());
    }
    std::span const keys = plan_->groups.keys_here();
    IndexType const key = state_->placement().key(row);
    auto const at = std::lower_bound(keys.begin(), keys.end(), key);
    return at != keys.end() && *at == key ? static_cast<std::size_t>(at - keys.begin()) : size();
  }

 private:
  Shared<State> state_;  // outlives the variable if it must
  Plan* plan_ = nullptr;
};

// Rows of a pull that the trainer changes itself, as word2vec and fastText do. Has a copy beside the pulled rows; grad(rows,
// difference) sends the change to a step. Move-only. The copy's memory, twice as much as the rows', is kept by the variable for
// later pulls: steady use allocates nothing.
//   auto rows = session.pull(words, ids).editable();
//   for (std::size_t i = 0; i < ids.size(); ++i) rows[i][0] += 0.5f;
//   session.step(px::grad(rows, px::difference));
template <class State>
class EditableRows : public PulledRows<State> {
  using Base = PulledRows<State>;

 public:
  // Scalar of the table's elements.
  using typename Base::T;

  EditableRows() = default;
  // Local; by `PulledRows::editable`. Copies the rows. May throw std::bad_alloc.
  explicit EditableRows(Base&& rows) : Base{std::move(rows)} {
    if (!this->plan()) return;
    std::size_t const bytes = (this->size() + (this->dropped() > 0)) * static_cast<std::size_t>(this->width()) * sizeof(T);
    this->plan()->edited.resize_with_slack(bytes);
    this->plan()->differences.resize_with_slack(bytes);
    this->state().ops().copy_bytes(this->plan()->edited.data(), Base::values().data, bytes);
  }

  // Returns the distinct rows with their changes, [size() x width()]. Valid until the handle is destroyed.
  RowsView<T> values() const {
    return {reinterpret_cast<T*>(this->plan()->edited.data()), static_cast<std::int64_t>(this->size()), this->width()};
  }
  // Returns the row of the i-th index, shared by all indices of an id; valid as `values`. Not sent if the index was dropped.
  std::span<T> operator[](std::size_t i) const { return values()[this->inverse()[i]]; }
  // Returns the row of an id, with its changes; empty if the pull did not ask for it or dropped it.
  std::span<T> find(std::int64_t id) const {
    std::size_t const j = this->number_of(id);
    return j < this->size() ? values()[static_cast<std::int64_t>(j)] : std::span<T>{};
  }
  // Returns the handle of the rows as they were pulled. Belongs to this handle.
  Base const& pulled() const { return *this; }

  // Returns pulled - changed, [size() x width()]; nothing of an empty handle. Valid until the next call or the handle's end.
  RowsView<T const> difference() const {
    if (!this->plan()) return {};
    RowsView<T const> const before = Base::values();
    T const* const after = values().data;
    T* const out = reinterpret_cast<T*>(this->plan()->differences.data());
    for (std::int64_t e = 0; e < before.rows * before.width; ++e) out[e] = before.data[e] - after[e];
    return {out, before.rows, before.width};
  }
};

// Type of `difference`. Stands for the gradient of editable rows: their changes.
struct Difference {};
// Second argument of `grad(rows, px::difference)`.
inline constexpr Difference difference;

// A pull's result for indices in bags: the pooled rows, and the distinct rows of the bags. Move-only; holds plan and state as
// PulledRows, and is empty, too, if made without arguments or left by a move. All functions are local.
template <class State>
class PulledBags {
 public:
  // State of the variable pulled from.
  using state_type = State;
  // Scalar of the table's elements.
  using T = typename State::scalar_type;
  // A variable's notes of the batch, with its bags.
  using Plan = typename State::Plan;

  PulledBags() = default;
  // Takes hold of the state, and of a plan of its pool. By the fetch of a pull, which pools the rows once they are here.
  PulledBags(State& state, Plan& plan) : rows_{state, plan} {}

  // Returns the number of bags of the batch, empty ones included.
  std::size_t size() const { return plan()->bags.count; }
  // Returns the elements of a row, and of a pooled one.
  std::int64_t width() const { return rows_.width(); }
  // Returns each bag's rows as one, [size() x width()], in the variable's memory space; zeros for a bag without any. Valid
  // until the handle is destroyed.
  RowsView<T const> values() const {
    return {reinterpret_cast<T const*>(plan()->bags.pooled.data()), static_cast<std::int64_t>(size()), width()};
  }
  // Returns the pooled rows of table number `table` of a stack, [size() / tables() x width()]; valid as `values()`.
  RowsView<T const> values(std::size_t table) const {
    auto const all = values();
    auto const each = all.rows / static_cast<std::int64_t>(state().tables());
    return {all.data + static_cast<std::int64_t>(table) * each * all.width, each, all.width};
  }
  // Returns the pooled row of a bag, below size(), in the order of the offsets; of use in the host's memory.
  std::span<T const> operator[](std::size_t bag) const { return values()[static_cast<std::int64_t>(bag)]; }
  // Returns the distinct rows from which the bags were pooled. Belongs to this handle.
  PulledRows<State> const& rows() const { return rows_; }

  // Returns, for the library, the variable's state.
  State& state() const { return rows_.state(); }
  // Returns, for the library, the plan of the batch; null of an empty handle.
  Plan* plan() const { return rows_.plan(); }

 private:
  PulledRows<State> rows_;
};

// Does not own. Marks a gradient with one row per distinct index of a pull (`handle.values()`), not one per index. Made by
// `distinct`, taken by `grad`.
template <class Rows>
struct Distinct {
  // Gradient: a row-major table or a contiguous range, [handle.size() x width].
  Rows const& rows;
};
// Marks `rows` for `grad(handle, distinct(rows))`; refers to them.
template <class Rows>
Distinct<Rows> distinct(Rows const& rows) {
  return {rows};
}

}  // namespace parallax
