// Numbers as text: bytes, counts and times as people read them, and lists cut at commas.
#pragma once

#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace bench {

template <class N>
constexpr double real(N number) {
  return static_cast<double>(number);
}
template <class N>
constexpr std::size_t at(N index) {
  return static_cast<std::size_t>(index);
}

inline std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

// Four significant digits; whole numbers whole.
inline std::string shown(double value) {
  if (!std::isfinite(value)) return "-";
  char text[64];
  bool const whole = value == std::floor(value) && std::abs(value) < 1e7;
  std::snprintf(text, sizeof text, whole ? "%.0f" : "%.4g", value);
  return text;
}

inline std::vector<std::string> split(std::string_view text, char separator = ',') {
  std::vector<std::string> parts;
  while (true) {
    auto const end = text.find(separator);
    parts.emplace_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// A name in a sentence: between quotes where it has a comma.
inline std::string called(std::string const& name) { return name.find(',') == name.npos ? name : '"' + name + '"'; }

// a, b and c
inline std::string listed(std::vector<std::string> const& names) {
  std::string list;
  for (std::size_t i = 0; i < names.size(); ++i) list += (i == 0 ? "" : i + 1 < names.size() ? ", " : " and ") + names[i];
  return list;
}

}  // namespace bench
