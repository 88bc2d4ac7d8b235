// The variables that a session knows: entered by their constructors, compared by the ranks at every agreement. The session's
// core owns it.
#pragma once

#include <cstdint>
#include <string>

#include "parallax/core/error.hpp"
#include "parallax/core/fields.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/variable/registration.hpp"
#include "parallax/version.hpp"

namespace parallax::inline v0_2::detail {

// Holds the registrations of a session's variables, and the hash by which ranks compare them.
class Registry {
 public:
  // `session`: what tells its variables from those of others.
  explicit Registry(void const* session) : session_{session} {}
  Registry(Registry&&) = delete;
  ~Registry() {
    for (auto const& known : known_) known->long_work = nullptr;
  }
  // Local. Sets whom the states of variables tell of long work, for variables that are entered from now on. It lives until the
  // registry goes.
  void tells(LongWork& long_work) { long_work_ = &long_work; }

  // Local. By a variable's constructor: the variable belongs to the session from here on. Forgets variables that nobody else
  // holds. Throws Error (invalid_argument) for a name that a living variable has; then nothing has changed but that.
  void enter(RegistrationPtr given, int rank);
  // Local. By an operation, before it touches a variable. Throws Error (misuse) for a variable of another session.
  void check_owned(Registration const& variable, int rank, char const* operation) const {
    if (variable.session != session_) variable.refuse_stranger(rank, operation);
  }

  // Adds a number to what ranks compare.
  void add(std::uint64_t value);
  // What ranks compare: of all variables that were ever entered, in their order, and whatever else was added.
  std::uint64_t hash() const { return hash_; }
  // Those that were entered and not forgotten, variables that are gone among them.
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
