// What a pull returns: the handles by which a trainer reads rows, and by which `grad` names the batch again. Trainers keep one
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

// A pull's result: the distinct rows of a batch and the map from its indices to them. Move-only token on a plan that the
// variable pools; a push of the same batch reuses the plan, and sends no ids to owners that have them from the pull. The rows
// are those of the time of the pull. Local, all of it. Holds the variable's state, and so may outlive the variable. An empty
// handle, as it is made without arguments or left by a move, is only assigned to, destroyed, or given to `grad`, whose step
// refuses it.
template <class State>
class PulledRows {
 public:
  // The state of the variable that was pulled from.
  using state_type = State;
  // The scalar of the table's elements.
  using T = typename State::scalar_type;
  // The integer by which the table counts its rows.
  using IndexType = typename State::index_type;
  // What the variable keeps of a batch: distinct keys, their grouping and their route.
  using Plan = typename State::Plan;
  // Whether the rows are in memory that the host reads, so that single rows can be shown.
  static constexpr bool on_host = State::space::host_readable;

  PulledRows() = default;
  // By the fetch of a pull: takes hold of a plan of this state's pool.
  PulledRows(State& state, Plan& plan) : state_{&state}, plan_{&plan} { ++plan.users; }
  // The rows stay where they are; `other` is empty.
  PulledRows(PulledRows&& other) noexcept : state_{std::move(other.state_)}, plan_{std::exchange(other.plan_, nullptr)} {}
  // Gives back the plan that it has held, then takes that of `other`, which is empty.
  PulledRows& operator=(PulledRows&& other) noexcept {
    if (this == &other) return *this;
    release();
    state_ = std::move(other.state_);
    plan_ = std::exchange(other.plan_, nullptr);
    return *this;
  }
  ~PulledRows() { release(); }

  // How many indices the batch has, duplicates included.
  std::size_t indices() const { return plan_->indices(); }
  // How many distinct rows the batch names; of a padded table, see px::Padded, how many places it has for them.
  std::size_t size() const { return plan_->size(); }
  // How many indices lie outside the table and take no part: BadIds::drop_and_count.
  std::size_t dropped() const { return plan_->dropped; }
  // Elements of a row.
  std::int64_t width() const { return state_->width(); }

  // [size() x width()]: the distinct rows, in the variable's memory space: on a device, for work that is put in the session's
  // queue from now on. Valid until the handle is destroyed.
  RowsView<T const> values() const {
    return {reinterpret_cast<T const*>(plan_->values.data()), static_cast<std::int64_t>(size()), width()};
  }
  // indices() entries, where the rows are: which of `values` belongs to the i-th index; size(), behind which a row of zeros
  // lies, for an index outside the table that was dropped.
  std::span<std::uint32_t const> inverse() const { return state_->ops().inverse(plan_->groups.there(state_->ops())); }
  // The row of the i-th index.
  std::span<T const> operator[](std::size_t i) const requires on_host { return values()[inverse()[i]]; }
  // The row of an id, as of an index of the pull; empty where the pull did not ask for it or dropped it. O(log size()), or
  // O(size()) for a handle that is older than the last move of the table's rows (Auto). Neither allocates.
  std::span<T const> find(std::int64_t id) const requires on_host {
    std::size_t const j = number_of(id);
    return j < size() ? values()[static_cast<std::int64_t>(j)] : std::span<T const>{};
  }
  // The row of the table that the j-th distinct row is, j below size(). Distinct rows are in the order of their keys: owner
  // after owner. Of indices in a device's memory the first call brings the keys to the host, and waits for them under the
  // communicator's deadline; not while a ProgressThread lives. -1 for a place of a padded table that no row has.
  std::int64_t id(std::size_t j) const {
    if (plan_->retired) return plan_->retired_rows[j];
    auto const key = plan_->groups.keys_here()[j];
    return plan_->padded && key >= state_->rows() ? -1 : state_->placement().row(key);
  }

  // Local. Makes the handle one of rows that the trainer may change: session.pull(words, ids).editable().
  auto editable() && {
    static_assert(on_host, "parallax: rows are edited in the host's memory, and these are a device's");
    if constexpr (on_host) return EditableRows<State>{std::move(*this)};
    else return detail::Mistaken{};
  }
  // Of a handle that is kept: an assertion says how to give it up.
  detail::Mistaken editable() const& {
    static_assert(detail::never<State>,
                  "parallax: a handle becomes one of editable rows: session.pull(table, ids).editable(), or "
                  "std::move(rows).editable() of one that is not const");
    return {};
  }

  // For the library: the variable's state.
  State& state() const { return *state_; }
  // For the library: the plan that `grad` names the batch by; null of an empty handle.
  Plan* plan() const { return plan_; }

 protected:
  // Which of the distinct rows belongs to an id, size() if none does. A bad id is looked up as the pull has treated it: hashed,
  // or none.
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
  // The pool may use the plan again once nobody holds it.
  void release() noexcept {
    if (plan_) --plan_->users;
    plan_ = nullptr;
  }

  Shared<State> state_;  // outlives the variable if it must
  Plan* plan_ = nullptr;
};

// Rows of a pull that the trainer changes itself, as word2vec and fastText do: beside the rows as they were pulled, a copy of
// them, which grad(rows, difference) sends to a step. Move-only. The copy's memory, twice that of the rows, is the variable's,
// which keeps it for later pulls: steady use allocates nothing.
//   auto rows = session.pull(words, ids).editable();
//   for (std::size_t i = 0; i < ids.size(); ++i) rows[i][0] += 0.5f;
//   session.step(px::grad(rows, px::difference));
template <class State>
class EditableRows : public PulledRows<State> {
  using Base = PulledRows<State>;

 public:
  // The scalar of the table's elements.
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

  // [size() x width()]: the distinct rows, as they are changed. Valid until the handle is destroyed.
  RowsView<T> values() const {
    return {reinterpret_cast<T*>(this->plan()->edited.data()), static_cast<std::int64_t>(this->size()), this->width()};
  }
  // The row of the i-th index, which is that of each index that names the same id. What is written to the one of an index that
  // was dropped is not sent.
  std::span<T> operator[](std::size_t i) const { return values()[this->inverse()[i]]; }
  // The row of an id: see PulledRows.
  std::span<T> find(std::int64_t id) const {
    std::size_t const j = this->number_of(id);
    return j < this->size() ? values()[static_cast<std::int64_t>(j)] : std::span<T>{};
  }
  // The rows as they were pulled.
  Base const& pulled() const { return *this; }

  // pulled - changed, a row for each distinct one. Valid until it is asked for again. Of an empty handle: nothing.
  RowsView<T const> difference() const {
    if (!this->plan()) return {};
    RowsView<T const> const before = Base::values();
    T const* const after = values().data;
    T* const out = reinterpret_cast<T*>(this->plan()->differences.data());
    for (std::int64_t e = 0; e < before.rows * before.width; ++e) out[e] = before.data[e] - after[e];
    return {out, before.rows, before.width};
  }
};

// The type of `difference`. Stands for the gradient of editable rows: what was changed in them.
struct Difference {};
// The second argument of `grad(rows, px::difference)`.
inline constexpr Difference difference;

// A pull's result where the indices lie in bags: the pooled rows, and the distinct rows that they were pooled of. Move-only.
// Empty as PulledRows are, where it was made without arguments or left by a move.
template <class State>
class PulledBags {
 public:
  // The state of the variable that was pulled from.
  using state_type = State;
  // The scalar of the table's elements.
  using T = typename State::scalar_type;
  // What the variable keeps of the batch, with its bags.
  using Plan = typename State::Plan;

  PulledBags() = default;
  // By the fetch of a pull, which pools the rows once they are here.
  PulledBags(State& state, Plan& plan) : rows_{state, plan} {}

  // How many bags the batch has, those without indices included.
  std::size_t size() const { return plan()->bags.count; }
  // Elements of a row, and of a pooled one.
  std::int64_t width() const { return rows_.width(); }
  // [size() x width()]: each bag's rows as one, in the variable's memory space; zeros for a bag without any. Valid until the
  // handle is destroyed.
  RowsView<T const> values() const {
    return {reinterpret_cast<T const*>(plan()->bags.pooled.data()), static_cast<std::int64_t>(size()), width()};
  }
  // [size() / tables() x width()]: the same of one table of a stack.
  RowsView<T const> values(std::size_t table) const {
    auto const all = values();
    auto const each = all.rows / static_cast<std::int64_t>(state().tables());
    return {all.data + static_cast<std::int64_t>(table) * each * all.width, each, all.width};
  }
  // The pooled row of a bag, in the order of the offsets; of use where the memory is the host's.
  std::span<T const> operator[](std::size_t bag) const { return values()[static_cast<std::int64_t>(bag)]; }
  // The distinct rows that the bags were pooled of. Belongs to this handle.
  PulledRows<State> const& rows() const { return rows_; }

  // For the library: the variable's state.
  State& state() const { return rows_.state(); }
  // For the library: the plan of the batch; null of an empty handle.
  Plan* plan() const { return rows_.plan(); }

 private:
  PulledRows<State> rows_;
};

// Does not own. Marks a gradient that has one row per distinct index of a pull (`handle.values()`), not one per index. Made by
// `distinct`, taken by `grad`.
template <class Rows>
struct Distinct {
  // The gradient: a row-major table or a contiguous range, [handle.size() x width].
  Rows const& rows;
};
// Marks `rows` for `grad(handle, distinct(rows))`; refers to them.
template <class Rows>
Distinct<Rows> distinct(Rows const& rows) {
  return {rows};
}

}  // namespace parallax
