// Bodies of parallax/detail/policy/update.hpp.
#pragma once

#include "parallax/detail/policy/update.hpp"

namespace parallax::inline v0_2 {

PARALLAX_INLINE std::string BatchSize::misfit(std::int64_t given, std::int64_t given_width, RowsPer per,
                                              std::int64_t width) const {
  auto const count = [](std::int64_t n) { return n < 0 ? std::string{"?"} : joined({n}); };
  std::string text = joined({"gradient rows of ", count(given), " x ", given_width, " for ", count(rows(per)), " x ", width});
  bool const by_distinct = per == RowsPer::index && given == rows(RowsPer::distinct) && given_width == width;
  if (per == RowsPer::distinct) text += " by px::distinct, one for each distinct index";
  else append(text, {" pulled or named", by_distinct ? ": px::distinct(rows) gives one for each distinct index" : ""});
  return text;
}

}  // namespace parallax
