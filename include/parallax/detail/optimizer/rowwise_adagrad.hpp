// Row-wise Adagrad: one accumulator for a row, as for embedding tables of many rows (Naumov et al., arXiv 1906.00091; FBGEMM's
// EXACT_ROWWISE_ADAGRAD). Included by parallax.hpp; a variable calls the rule for each row, to measure and then to move it.
#pragma once

#include <tuple>

#include "parallax/detail/core/math.hpp"
#include "parallax/optimizer/optimizer.hpp"

namespace parallax::inline v0_2 {

PARALLAX_STRICT_ARITHMETIC_BEGIN

// Row-wise Adagrad: sum += mean of g² over the row, p -= learning_rate / (sqrt(sum) + epsilon) · g. The state is one number a
// row. Rows that a step does not touch rest.
struct RowwiseAdagrad {
  // Axis of the option.
  using axis = optimizer_axis;
  // Nothing for an element.
  using element_slots = slot_types<>;
  // One number a row.
  using row_slots = slot_types<scalar>;
  // sum, of the means of the squares of the row's gradients so far.
  static constexpr std::string_view row_slot_names[] = {"sum"};
  // Name of the type, in messages and archives.
  static constexpr std::string_view name = "RowwiseAdagrad";
  // A row is measured before it moves; a dense variable bound without rows is one row.
  static constexpr Unit unit = Unit::row;
  // Names of the settings in messages.
  static constexpr std::string_view field_names[] = {"learning_rate", "initial_accumulator", "epsilon"};

  // Rate of the first steps: 0.01 to 0.1.
  double learning_rate = 0.01;
  // First value of every row's sum: 0 to 0.1.
  double initial_accumulator = 0.0;
  // Keeps the root from vanishing: 1e-10 to 1e-7.
  double epsilon = 1e-10;

  // Returns the first value of sum. The variable asks for it as it is made.
  auto row_initial() const { return std::tuple{initial_accumulator}; }

  // Rule of the elements of one row in one step: the result of `Rule::finish`.
  template <class T>
  struct RowRule {
    // learning_rate / (sqrt(sum) + epsilon), one number for the whole row.
    T factor;

    // Moves p by the row's factor.
    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g) const noexcept {
      PARALLAX_NO_CONTRACT
      p -= factor * g;
    }
  };
  // Measures of one step for a row, and the rule made of them.
  struct Rule {
    double rate,  // learning_rate
        epsilon;  // as the setting

    // Returns the square of g, as double; leaves p alone.
    template <class T>
    PARALLAX_HOST_DEVICE Measures<1> measure(T& /*p*/, T g) const noexcept {
      PARALLAX_NO_CONTRACT
      return {static_cast<double>(g) * static_cast<double>(g)};
    }
    // Adds the mean of `count` squares to the row's sum, and returns the rule of its elements. A row of no elements adds
    // nothing.
    template <class T>
    PARALLAX_HOST_DEVICE RowRule<T> finish(Measures<1> const& squares, std::int64_t count, T& sum) const noexcept {
      PARALLAX_NO_CONTRACT
      if (count > 0) sum += static_cast<T>(squares[0] / static_cast<double>(count));
      return {static_cast<T>(rate) / (parallax::sqrt(sum) + static_cast<T>(epsilon))};
    }
  };
  // Returns the rule of a step. It depends on the settings alone.
  Rule at(std::int64_t /*step*/) const { return {learning_rate, epsilon}; }
};

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
