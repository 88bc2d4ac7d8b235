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

// As a sentence says it: whole numbers whole, others with three significant digits, and a comma between thousands: 1,440, 52.3,
// 0.00101, 6.81e-06.
inline std::string said(double value) {
  if (!std::isfinite(value)) return "-";
  bool const whole = value == std::floor(value) && std::abs(value) < 1e15;
  if (!whole && std::abs(value) < 999.5) {
    char text[64];
    std::snprintf(text, sizeof text, "%.3g", value);
    return text;
  }
  std::string text = fixed(value, 0);
  for (std::size_t at = text.size(), first = value < 0 ? 1 : 0; at > first + 3;) text.insert(at -= 3, ",");
  return text;
}

// Seconds in the unit in which they are read.
inline std::string said_time(double seconds) {
  if (seconds >= 0.9995) return said(seconds) + " s";
  return seconds >= 0.9995e-3 ? said(seconds * 1e3) + " ms" : said(seconds * 1e6) + " µs";
}

// A share of a hundred: 0.1 %.
inline std::string said_share(double share) { return said(100 * share) + " %"; }

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
