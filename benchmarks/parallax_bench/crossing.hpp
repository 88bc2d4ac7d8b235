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
    return said(std::exp(std::log(alphas[i - 1]) + share * std::log(alphas[i] / alphas[i - 1])));
  }
  return "above " + shown(alphas.back());
}

// Of the same two, who are measured in `quantity`: "At alpha 0.001, where a rank touches 0.1 % of a table's rows in a step, a needs
// 0.2 times the bytes that b needs; they meet at alpha 0.3."
inline std::string meeting(std::string const& a_name, std::string const& b_name, std::string const& quantity,
                           std::vector<double> const& alphas, std::vector<double> const& a, std::vector<double> const& b) {
  if (alphas.empty()) return "Nothing was measured.";
  if (!(a[0] > 0 && b[0] > 0)) return called(a_name) + " and " + called(b_name) + " cannot be compared by " + quantity + ".";
  std::string const begin = "At alpha " + said(alphas.front()) + ", where a rank touches " + said_share(alphas.front()) +
                            " of a table's rows in a step, " + called(a_name) + " needs " + said(a[0] / b[0]) + " times the " +
                            quantity + " that " + called(b_name) + " needs";
  if (alphas.size() == 1) return begin + "; no other share was tried.";
  std::string const met = crossing(alphas, a, b);
  if (met.starts_with("above")) return begin + ", and less at every share up to alpha " + said(alphas.back()) + ".";
  if (met.starts_with("below")) return begin + "; no lesser share was tried.";
  return begin + "; they meet at alpha " + met + ".";
}

}  // namespace bench
