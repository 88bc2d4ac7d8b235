// A rule without settings, for gradients that are finished steps. Included by parallax.hpp; a variable calls it once for every
// element of an update.
#pragma once

#include "parallax/optimizer/optimizer.hpp"

namespace parallax::inline v0_2 {

PARALLAX_STRICT_ARITHMETIC_BEGIN

// p -= g: of use if the trainer works out by itself how far a parameter moves, or moves its copy of it (px::difference). It
// keeps nothing, and rows untouched by a step rest.
struct Subtract {
  // Axis of the option.
  using axis = optimizer_axis;
  // Nothing is kept.
  using element_slots = slot_types<>;
  // Name of the type, in messages and archives.
  static constexpr std::string_view name = "Subtract";
  // Its gradient may be a difference made by a trainer.
  static constexpr bool subtracts = true;

  // Rule of one step for an element.
  struct Rule {
    // Takes g from p.
    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g) const noexcept {
      PARALLAX_NO_CONTRACT
      p -= g;
    }
  };
  // Returns one and the same rule in every step.
  Rule at(std::int64_t /*step*/) const { return {}; }
};

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
