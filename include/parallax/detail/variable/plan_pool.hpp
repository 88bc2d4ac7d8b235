// The plans of a table: a pool. The session's pulls and updates take plans from it and give them back.
#pragma once

#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/pointer.hpp"

namespace parallax::inline v0_2 {

// Owns. A plan is taken while `users`, the number of its holders, is above 0, and is free again at 0; the pool keeps it and its
// memory for the next batch. As many plans are made as are ever held at once. All functions are local.
template <class Plan>
class PlanPool {
 public:
  // Returns a plan without holders, from an earlier batch or new; the caller counts itself. It stays in its place.
  Plan& take() {
    for (auto& plan : plans_)
      if (plan->users == 0) return *plan;
    return *plans_.emplace_back(make_owned<Plan>());
  }
  // Prepares for a change of placement: the plans in use name their rows by number from here on, `row_of` a key.
  template <class RowOf>
  void retire(RowOf&& row_of) {
    for (auto& plan : plans_)
      if (plan->users > 0) plan->retire(row_of);
  }

 private:
  List<Owned<Plan>> plans_;
};

}  // namespace parallax
