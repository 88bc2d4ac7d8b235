// What a pull returns: the handles by which a trainer reads rows, and by which `grad` names the batch again.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include "parallax/variable/variable.hpp"

namespace parallax {

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
  PulledRows(PulledRows&& other) noexcept
      : state_{std::move(other.state_)}, plan_{std::exchange(other.plan_, nullptr)} {}
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
  std::span<std::uint32_t const> inverse() const {
    return state_->ops().inverse(plan_->shown(0, state_->ops()));
  }
  // The row of the i-th index.
  std::span<T const> operator[](std::size_t i) const
    requires on_host
  {
    return values()[inverse()[i]];
  }
  // The global row that the j-th distinct row is.
  std::int64_t id(std::size_t j) const {
    return plan_->retired ? plan_->retired_rows[j] : state_->placement().row(plan_->groups.keys[j]);
  }

  State& state() const { return *state_; }
  Plan* plan() const { return plan_; }

 private:
  void release() noexcept {
    if (plan_) --plan_->users;
    plan_ = nullptr;
  }

  Shared<State> state_;  // outlives the variable if it must
  Plan* plan_ = nullptr;
};

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
