// A rule without settings, for gradients that are finished steps.
#pragma once

#include "parallax/optimizer/optimizer.hpp"

namespace parallax {

PARALLAX_STRICT_ARITHMETIC_BEGIN

// p -= g: of use where the trainer works out by itself how far a parameter moves, or moves its copy of it (px::difference).
struct Subtract {
  using axis = optimizer_axis;
  using element_slots = slots<>;
  static constexpr std::string_view name = "Subtract";
  static constexpr bool subtracts = true;

  struct Rule {
    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g) const noexcept {
      PARALLAX_NO_CONTRACT
      p -= g;
    }
  };
  Rule at(std::int64_t /*step*/) const { return {}; }
};

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
