// Bodies of parallax/detail/launch/entrances.hpp.
#pragma once

#include "parallax/detail/launch/entrances.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE Entrance const* entrance_by_name(std::string_view name) {
  Entrance const* entrance = last_entrance;
  while (entrance && entrance->name != name) entrance = entrance->next;
  return entrance;
}

PARALLAX_INLINE Entrance const* entrance_of(Environment variable) {
  Entrance const* first = nullptr;
  for (Entrance const* entrance = last_entrance; entrance; entrance = entrance->next)
    if (entrance->claims(variable) && (!first || entrance->precedence < first->precedence)) first = entrance;
  return first;
}

}  // namespace parallax::detail

namespace parallax::inline v0_2 {

PARALLAX_INLINE bool add_entrance(Entrance& entrance) {
  entrance.next = std::exchange(detail::last_entrance, &entrance);
  return true;
}

}  // namespace parallax
