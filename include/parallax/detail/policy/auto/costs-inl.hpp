// Bodies of parallax/detail/policy/auto/costs.hpp.
#pragma once

#include "parallax/detail/policy/auto/costs.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE bool take_number(std::string_view& text, double& number) {
  std::size_t const length = std::min(text.find_first_not_of("0123456789.e+-"), text.size());
  char digits[32] = {};
  if (length == 0 || length >= sizeof digits || text[0] < '0' || text[0] > '9') return false;
  text.copy(digits, length);
  static ::locale_t const plain = ::newlocale(LC_ALL_MASK, "C", nullptr);
  char* end = nullptr;
  number = ::strtod_l(digits, &end, plain);
  text.remove_prefix(static_cast<std::size_t>(end - digits));
  return true;
}

}  // namespace parallax::detail

namespace parallax::inline v0_2 {

PARALLAX_INLINE Costs costs_from_text(std::string_view text) {
  constexpr std::string_view begin = "parallax costs 1";
  if (!text.starts_with(begin)) return {};
  text.remove_prefix(begin.size());
  detail::CostNumbers numbers;
  for (double& value : numbers) {
    if (!text.starts_with(' ')) return {};
    text.remove_prefix(1);
    if (!detail::take_number(text, value) || value >= 1e9) return {};
  }
  return text == "\n" || text.empty() ? std::bit_cast<Costs>(numbers) : Costs{};
}

}  // namespace parallax
