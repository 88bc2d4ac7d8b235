// The variables that a session knows: entered by their constructors, compared by the ranks at every agreement.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallax/core/error.hpp"
#include "parallax/core/fields.hpp"
#include "parallax/variable/registration.hpp"

namespace parallax::detail {

class Registry {
 public:
  // `session`: what tells its variables from those of others.
  explicit Registry(void const* session) : session_{session} {}

  // Local. Throws Error (invalid_argument) for a name that a living variable has.
  void enter(RegistrationPtr given, int rank);
  // Local. Throws Error (misuse) for a variable of another session.
  void check_owned(Registration const& variable, int rank, char const* operation) const {
    if (variable.session != session_) throw variable.stranger(rank, operation);
  }

  // What ranks compare: of all variables that were ever entered, and whatever else was added.
  void add(std::uint64_t value);
  std::uint64_t hash() const { return hash_; }
  std::vector<RegistrationPtr> const& variables() const { return known_; }

 private:
  void const* session_;
  std::vector<RegistrationPtr> known_;
  std::uint64_t hash_ = 0;
};

#if PARALLAX_BODIES
PARALLAX_INLINE void Registry::enter(RegistrationPtr given, int rank) {
  detail::drop_if(known_, [](RegistrationPtr const& known) { return known.owners() == 1; });
  for (auto const& known : known_)
    if (known->name == given->name)
      throw Error{Errc::invalid_argument, rank, "Variable", given->name, "the session has a variable of this name already"};
  add(given->hash);
  known_.push_back(given);
  given->session = session_;
}

PARALLAX_INLINE void Registry::add(std::uint64_t value) {
  Fingerprint hash;
  hash.add(hash_);
  hash.add(value);
  hash_ = hash.value();
}
#endif

}  // namespace parallax::detail
