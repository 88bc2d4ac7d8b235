// What can be said of an update without its type: all that ranks compare before a step, and that errors tell. A seat writes one
// for each update as it prepares it; the flight keeps them, in the order of the arguments.
#pragma once

#include <cstdint>
#include <string_view>

#include "parallax/core/fields.hpp"
#include "parallax/detail/variable/registration.hpp"
#include "parallax/policy/exchange.hpp"

namespace parallax::detail {

// One update. Refers to the registration, which the state that the way holds keeps alive.
struct UpdateRecord {
  std::string_view name() const { return registration->name; }
  // Adds to a hash what ranks must have in common of this update. `variable`: its registration, or its state, which have the
  // same to say; the state, where its type is known, without an indirect call.
  template <class Variable>
  void add_to(Fingerprint& hash, Variable const& variable) const {
    variable.add_update(hash);
    hash.fold(static_cast<std::uint32_t>(clip) * std::uint64_t{4} + static_cast<std::uint64_t>(rows));
  }

  Registration const* registration;
  // The number of the clip group in the flight, -1 for none.
  int clip;
  // Whether the user gave a function of the reduced gradient.
  bool transformed;
  // How the update names its rows.
  NamedRows rows;
};

}  // namespace parallax::detail
