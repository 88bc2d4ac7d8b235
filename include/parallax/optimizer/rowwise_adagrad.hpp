// Row-wise Adagrad: one accumulator for a row, as embedding tables of many rows use it (Naumov et al., arXiv 1906.00091;
// FBGEMM's EXACT_ROWWISE_ADAGRAD).
#pragma once

#include <tuple>

#include "parallax/core/math.hpp"
#include "parallax/optimizer/optimizer.hpp"

namespace parallax {

PARALLAX_STRICT_ARITHMETIC_BEGIN

// For each row: sum += mean of g² over the row, p -= learning_rate / (sqrt(sum) + epsilon) · g. The state is one number a row.
struct RowwiseAdagrad {
  using axis = optimizer_axis;
  using element_slots = slots<>;
  using row_slots = slots<scalar>;
  static constexpr std::string_view row_slot_names[] = {"sum"};
  static constexpr std::string_view name = "RowwiseAdagrad";
  static constexpr Unit unit = Unit::row;
  static constexpr std::string_view field_names[] = {"learning_rate", "initial_accumulator", "epsilon"};

  double learning_rate = 0.01;
  double initial_accumulator = 0.0;
  double epsilon = 1e-10;

  auto row_initial() const { return std::tuple{initial_accumulator}; }

  template <class T>
  struct RowRule {
    T factor;

    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g) const noexcept {
      PARALLAX_NO_CONTRACT
      p -= factor * g;
    }
  };
  struct Rule {
    double rate, epsilon;

    template <class T>
    PARALLAX_HOST_DEVICE Measures<1> measure(T& /*p*/, T g) const noexcept {
      PARALLAX_NO_CONTRACT
      return {static_cast<double>(g) * static_cast<double>(g)};
    }
    template <class T>
    PARALLAX_HOST_DEVICE RowRule<T> finish(Measures<1> const& squares, std::int64_t count, T& sum) const noexcept {
      PARALLAX_NO_CONTRACT
      if (count > 0) sum += static_cast<T>(squares[0] / static_cast<double>(count));
      return {static_cast<T>(rate) / (parallax::sqrt(sum) + static_cast<T>(epsilon))};
    }
  };
  Rule at(std::int64_t /*step*/) const { return {learning_rate, epsilon}; }
};

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
