// How far a gradient is from what finite differences of the loss say.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>

// The largest error over all elements, each relative to its own size or, where that is more, a thousandth of the
// largest. The differences are central, of fourth order. `loss()` is the loss for `parameters` as they are when it is
// called.
template <class Loss>
double gradient_error(std::span<double> parameters, std::span<double const> gradient, Loss&& loss) {
  double largest = 0;
  for (double const g : gradient) largest = std::max(largest, std::abs(g));
  if (parameters.size() != gradient.size() || largest == 0) return INFINITY;
  double const h = 1e-3;
  double error = 0;
  for (std::size_t k = 0; k < parameters.size(); ++k) {
    double const middle = parameters[k];
    auto const difference = [&](double step) {
      parameters[k] = middle + step;
      double const above = loss();
      parameters[k] = middle - step;
      return above - loss();
    };
    double const expected = (8 * difference(h) - difference(2 * h)) / (12 * h);
    parameters[k] = middle;
    double const scale = std::max({std::abs(expected), std::abs(gradient[k]), 1e-3 * largest});
    error = std::max(error, std::abs(gradient[k] - expected) / scale);
  }
  return error;
}
