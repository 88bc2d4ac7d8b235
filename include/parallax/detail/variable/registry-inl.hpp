// Bodies of parallax/detail/variable/registry.hpp.
#pragma once

#include "parallax/detail/variable/registry.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE void Registry::enter(RegistrationPtr given, int rank) {
  detail::drop_if(known_, [](RegistrationPtr const& known) { return known.owners() == 1; });
  for (auto const& known : known_)
    if (known->name == given->name)
      throw Error{Errc::invalid_argument, rank, "Variable", given->name, "the session has a variable of this name already"};
  add(given->hash);
  known_.push_back(given);
  given->number = entered_++;
  given->session = session_;
  given->long_work = long_work_;
}

PARALLAX_INLINE void Registry::add(std::uint64_t value) {
  Fingerprint hash;
  hash.add(hash_);
  hash.add(value);
  hash_ = hash.value();
}

}  // namespace parallax::detail
