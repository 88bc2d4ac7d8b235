// What can be said of an update without its type: all that ranks compare before a step, and that errors tell.
#pragma once

#include <cstdint>
#include <string_view>

#include "parallax/core/fields.hpp"
#include "parallax/policy/exchange.hpp"
#include "parallax/variable/registration.hpp"

namespace parallax::detail {

struct UpdateRecord {
  std::string_view name() const { return registration->name; }
  // `variable`: its registration, or its state.
  template <class Variable>
  void add_to(Fingerprint& hash, Variable const& variable) const {
    variable.add_update(hash);
    hash.fold(static_cast<std::uint32_t>(group) * std::uint64_t{4} + static_cast<std::uint64_t>(rows));
  }

  Registration const* registration;
  int group;  // of those clipped together, -1 for none
  bool transformed;
  NamedRows rows;
};

}  // namespace parallax::detail
