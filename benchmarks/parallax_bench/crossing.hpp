// Where two curves over the share of touched rows meet.
#pragma once

#include <cmath>
#include <cstddef>
#include <string>
#include <vector>

#include "text.hpp"

namespace bench {

// Where `a` rises above `b`, both given at ascending alphas; straight lines between them on two logarithmic axes.
inline std::string crossing(std::vector<double> const& alphas, std::vector<double> const& a, std::vector<double> const& b) {
  if (alphas.empty()) return "-";
  if (a[0] >= b[0]) return "below " + shown(alphas[0]);
  for (std::size_t i = 1; i < alphas.size(); ++i) {
    if (a[i] < b[i]) continue;
    double const before = std::log(b[i - 1] / a[i - 1]), after = std::log(a[i] / b[i]);
    double const share = before / (before + after);
    return shown(std::exp(std::log(alphas[i - 1]) + share * std::log(alphas[i] / alphas[i - 1])));
  }
  return "above " + shown(alphas.back());
}

}  // namespace bench
