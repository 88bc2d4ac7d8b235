// What a pull returns: the handles by which a trainer reads rows, and by which `grad` names the batch again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "parallax/core/algorithm.hpp"
#include "parallax/variable/variable.hpp"

namespace parallax {

template <class State>
class EditableRows;

// A pull's result: the distinct rows of a batch and the map from its indices to them. Move-only token on a plan that the
// variable pools; a push of the same batch reuses the plan and sends no ids. The rows are those of the time of the pull.
template <class State>
class PulledRows {
 public:
  using state_type = State;
  using T = typename State::scalar_type;
  using IndexType = typename State::index_type;
  using Plan = typename State::Plan;
  static constexpr bool on_host = State::space::host_readable;

  PulledRows() = default;
  PulledRows(State& state, Plan& plan) : state_{&state}, plan_{&plan} { ++plan.users; }
  PulledRows(PulledRows&& other) noexcept : state_{std::move(other.state_)}, plan_{std::exchange(other.plan_, nullptr)} {}
  PulledRows& operator=(PulledRows&& other) noexcept {
    if (this == &other) return *this;
    release();
    state_ = std::move(other.state_);
    plan_ = std::exchange(other.plan_, nullptr);
    return *this;
  }
  ~PulledRows() { release(); }

  std::size_t indices() const { return plan_->indices(); }  // n, duplicates included
  std::size_t size() const { return plan_->size(); }        // u, distinct
  std::size_t dropped() const { return plan_->dropped; }    // indices outside the table that take no part
  std::int64_t width() const { return state_->width(); }

  // [size() x width()]: the distinct rows, in the variable's memory space: on a device, for work that is put in the session's
  // queue from now on. Valid until the handle is destroyed.
  RowsView<T const> values() const {
    return {reinterpret_cast<T const*>(plan_->values.data()), static_cast<std::int64_t>(size()), width()};
  }
  // indices() entries, where the rows are: which of `values` belongs to the i-th index; size(), behind which a row of zeros
  // lies, for an index outside the table that was dropped.
  std::span<std::uint32_t const> inverse() const { return state_->ops().inverse(plan_->shown(0, state_->ops())); }
  // The row of the i-th index.
  std::span<T const> operator[](std::size_t i) const requires on_host { return values()[inverse()[i]]; }
  // The row of an id, as of an index of the pull; empty where the pull did not ask for it or dropped it. O(log size()), or
  // O(size()) for a handle that is older than the last move of the table's rows (Auto). Neither allocates.
  std::span<T const> find(std::int64_t id) const requires on_host {
    std::size_t const j = number_of(id);
    return j < size() ? values()[static_cast<std::int64_t>(j)] : std::span<T const>{};
  }
  // The global row that the j-th distinct row is.
  std::int64_t id(std::size_t j) const {
    return plan_->retired ? plan_->retired_rows[j] : state_->placement().row(plan_->groups.keys[j]);
  }

  // Local. Makes the handle one of rows that the trainer may change: session.pull(words, ids).editable().
  auto editable() && {
    static_assert(on_host, "parallax: rows are edited in the host's memory, and these are a device's");
    if constexpr (on_host) return EditableRows<State>{std::move(*this)};
    else return detail::Mistaken{};
  }
  detail::Mistaken editable() const& {
    static_assert(detail::never<State>,
                  "parallax: a handle becomes one of editable rows: session.pull(table, ids).editable(), or "
                  "std::move(rows).editable() of one that is not const");
    return {};
  }

  State& state() const { return *state_; }
  Plan* plan() const { return plan_; }

 protected:
  // Which of the distinct rows belongs to an id, size() if none does.
  std::size_t number_of(std::int64_t id) const {
    auto const rows = state_->rows();
    bool const inside = static_cast<std::uint64_t>(id) < static_cast<std::uint64_t>(rows);
    if (!inside && (state_->bad_ids() != BadIds::hash || rows == 0)) return size();
    std::int64_t const row = inside ? id : detail::hashed_row(static_cast<std::uint64_t>(id), rows);
    if (plan_->retired) {
      std::span const known{plan_->retired_rows.data(), size()};
      return static_cast<std::size_t>(std::find(known.begin(), known.end(), static_cast<IndexType>(row)) - known.begin());
    }
    std::span const keys{plan_->groups.keys.data(), size()};
    IndexType const key = state_->placement().key(row);
    auto const at = std::lower_bound(keys.begin(), keys.end(), key);
    return at != keys.end() && *at == key ? static_cast<std::size_t>(at - keys.begin()) : size();
  }

 private:
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
  using typename Base::T;

  EditableRows() = default;
  // Local. May throw std::bad_alloc.
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

// Stands for the gradient of editable rows: what was changed in them.
struct Difference {};
inline constexpr Difference difference;

// A pull's result where the indices lie in bags: the pooled rows, and the distinct rows that they were pooled of. Move-only.
template <class State>
class PulledBags {
 public:
  using state_type = State;
  using T = typename State::scalar_type;
  using Plan = typename State::Plan;

  PulledBags() = default;
  PulledBags(State& state, Plan& plan) : rows_{state, plan} {}

  std::size_t size() const { return plan()->bags.count; }  // bags
  std::int64_t width() const { return rows_.width(); }
  // [size() x width()]: each bag's rows as one; zeros for a bag without any. Valid until the handle is destroyed.
  RowsView<T const> values() const {
    return {reinterpret_cast<T const*>(plan()->bags.pooled.data()), static_cast<std::int64_t>(size()), width()};
  }
  std::span<T const> operator[](std::size_t bag) const { return values()[static_cast<std::int64_t>(bag)]; }
  PulledRows<State> const& rows() const { return rows_; }

  State& state() const { return rows_.state(); }
  Plan* plan() const { return rows_.plan(); }

 private:
  PulledRows<State> rows_;
};

// Marks a gradient that has one row per distinct index of a pull (`handle.values()`), not one per index.
template <class Rows>
struct Distinct {
  Rows const& rows;
};
template <class Rows>
Distinct<Rows> distinct(Rows const& rows) {
  return {rows};
}

}  // namespace parallax
