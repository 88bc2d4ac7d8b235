// The variables of a session: entered by their constructors, compared by the ranks at every agreement. The session's core owns
// it.
#pragma once

#include <cstdint>
#include <string>

#include "parallax/core/error.hpp"
#include "parallax/core/fields.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/variable/registration.hpp"
#include "parallax/version.hpp"

namespace parallax::inline v0_2::detail {

// Registrations of a session's variables, and the hash by which ranks compare them.
class Registry {
 public:
  // Begins empty. `session`: tells its variables from the variables of others.
  explicit Registry(void const* session) : session_{session} {}
  Registry(Registry&&) = delete;
  ~Registry() {
    for (auto const& known : known_) known->long_work = nullptr;
  }
  // Local. Sets the listener to long work, for states of variables that are entered from now on. It lives until the registry
  // goes.
  void tells(LongWork& long_work) { long_work_ = &long_work; }

  // Local. Enters a variable, called by its constructor: it belongs to the session from here on. Forgets variables that nobody
  // else holds. Throws Error (invalid_argument) if a living variable has this name; then only this forgetting has happened.
  void enter(RegistrationPtr given, int rank);
  // Local. Throws Error (misuse) for a variable of another session. Called by an operation before it touches a variable.
  void check_owned(Registration const& variable, int rank, char const* operation) const {
    if (variable.session != session_) variable.refuse_stranger(rank, operation);
  }

  // Adds a number to the ranks' comparison.
  void add(std::uint64_t value);
  // Returns the hash for the ranks' comparison: of all variables ever entered, in their order, and of whatever else was added.
  std::uint64_t hash() const { return hash_; }
  // Returns the variables entered and not forgotten, variables that are gone among them.
  List<RegistrationPtr> const& variables() const { return known_; }

 private:
  // Only compared, never read.
  void const* session_;
  LongWork* long_work_ = nullptr;
  List<RegistrationPtr> known_;
  int entered_ = 0;  // ever
  // Begins with the library's version, for the first agreement.
  std::uint64_t hash_ = (PARALLAX_VERSION_MAJOR * 1000 + PARALLAX_VERSION_MINOR) * 1000 + PARALLAX_VERSION_PATCH;
};

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/variable/registry-inl.hpp"
#endif
