// Bodies of parallax/partition/greedy.hpp.
#pragma once

#include "parallax/partition/greedy.hpp"

namespace parallax::inline v0_2 {

// Checks the weights and hashes them.
PARALLAX_INLINE Greedy::Greedy(std::vector<double> weights) {
  auto const refuse = [](std::string const& why) { throw Error{Errc::invalid_argument, -1, "Greedy", "", "Greedy: " + why}; };
  Fingerprint hash;
  double total = 0;
  for (std::size_t row = 0; row < weights.size(); ++row) {
    double& weight = weights[row];
    if (!detail::is_not_negative(weight)) refuse(joined({"the weight of row ", row, " is ", number_text(weight)}));
    weight += 0.0;  // -0 counts as 0
    total += weight;
    hash.add(std::bit_cast<std::uint64_t>(weight));
  }
  if (!std::isfinite(total)) refuse("the weights add up to " + number_text(total));
  weights_ = std::make_shared<std::vector<double> const>(std::move(weights));
  fingerprint_ = hash.value();
}

PARALLAX_INLINE Greedy::Layout Greedy::layout(std::int64_t rows, int owners) const {
  std::int64_t const bins = std::min<std::int64_t>(detail::checked_pieces(name, pieces, rows, owners), owners);
  if (!weights_) return {rows, owners, bins};
  if (std::ssize(*weights_) != rows)
    throw Error{Errc::invalid_argument, -1, "layout", "",
                joined({"Greedy has ", weights_->size(), " weights for a table of ", rows, " rows"})};
  return {*weights_, owners, bins};
}

}  // namespace parallax
