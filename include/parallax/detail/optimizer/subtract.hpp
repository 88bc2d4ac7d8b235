// A rule without settings, for gradients that are finished steps. Included by parallax.hpp; a variable calls it once for every
// element of an update.
#pragma once

#include "parallax/optimizer/optimizer.hpp"

namespace parallax::inline v0_2 {

PARALLAX_STRICT_ARITHMETIC_BEGIN

// p -= g: of use where the trainer works out by itself how far a parameter moves, or moves its copy of it (px::difference). It
// keeps nothing, and rows that a step does not touch rest.
struct Subtract {
  // The option's axis.
  using axis = optimizer_axis;
  // Nothing is kept.
  using element_slots = slot_types<>;
  // The type's name, in messages and archives.
  static constexpr std::string_view name = "Subtract";
  // Its gradient may be a difference that a trainer has made.
  static constexpr bool subtracts = true;

  // What one step does to an element.
  struct Rule {
    // Takes g from p.
    PARALLAX_HOST_DEVICE void operator()(auto& p, auto g) const noexcept {
      PARALLAX_NO_CONTRACT
      p -= g;
    }
  };
  // The same rule in every step.
  Rule at(std::int64_t /*step*/) const { return {}; }
};

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
