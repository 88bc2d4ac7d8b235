// Lacks of a type as an optimizer for elements of T, in one sentence: included by Variable, which refuses such a type by it.
#pragma once

#include "parallax/optimizer/optimizer.hpp"

namespace parallax::inline v0_2::detail {

// Assertions, one of which fails if O is no optimizer of elements of T.
template <class O, class T>
struct check_optimizer {
  static constexpr OptimizerLack lack = optimizer_lacks<O, T>();
  static_assert(lack != OptimizerLack::copies,
                "parallax: an optimizer is a trivially copyable struct of numbers (see optimizer/optimizer.hpp), and this one "
                "cannot be copied as bytes");
  static_assert(lack != OptimizerLack::element_slots,
                "parallax: the optimizer's rule does not fit: the optimizer lacks element_slots "
                "(see optimizer/optimizer.hpp)");
  static_assert(lack != OptimizerLack::at,
                "parallax: the optimizer's rule does not fit: the optimizer lacks at(step) const "
                "(see optimizer/optimizer.hpp)");
  static_assert(lack != OptimizerLack::rule,
                "parallax: the optimizer's rule does not fit: it cannot be called as rule(auto& p, auto g, auto&... slots) "
                "const with one slot per entry of element_slots (see optimizer/optimizer.hpp)");
  static_assert(lack != OptimizerLack::nothrow_rule,
                "parallax: the optimizer's rule does not fit: rule(auto& p, auto g, auto&... slots) is not noexcept "
                "(see optimizer/optimizer.hpp)");
  static_assert(lack != OptimizerLack::measure,
                "parallax: the optimizer's rule does not fit: the optimizer has a unit, and its rule lacks "
                "measure(auto& p, auto g, auto&... slots) const with one slot per entry of element_slots");
  static_assert(lack != OptimizerLack::nothrow_measure,
                "parallax: the optimizer's rule does not fit: measure(auto& p, auto g, auto&... slots) is not noexcept");
  static_assert(lack != OptimizerLack::finish,
                "parallax: the optimizer's rule does not fit: the optimizer has a unit, and its rule lacks "
                "finish(sums, count, auto&... row_slots) const with one slot per entry of row_slots");
  static_assert(lack != OptimizerLack::nothrow_finish,
                "parallax: the optimizer's rule does not fit: finish(sums, count, auto&... row_slots) is not noexcept");
};

}  // namespace parallax::detail
