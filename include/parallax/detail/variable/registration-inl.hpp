// Bodies of parallax/detail/variable/registration.hpp.
#pragma once

#include "parallax/detail/variable/registration.hpp"

namespace parallax::inline v0_2 {

PARALLAX_COLD PARALLAX_INLINE void Registration::refuse(int rank, char const* operation, char const* why) const {
  throw Error{Errc::misuse, rank, operation, name, why};
}

PARALLAX_INLINE Registration::Registration(std::string its_name, std::string its_signature)
    : name{std::move(its_name)}, signature{std::move(its_signature)} {
  Fingerprint h;
  h.add(std::string_view{name});
  h.add(std::string_view{signature});
  hash = h.value();
}

PARALLAX_INLINE void Registration::add_replica(Fingerprint& into) const {
  if (std::uint64_t sum; replica(state, sum, true)) into.fold(sum);
}

PARALLAX_INLINE std::string Registration::update_lines(std::string const& more) const {
  std::string lines = joined({name, "\t", signature, ", ", update_text(state), more, '\n'});
  std::int64_t const steps = updates(state);
  std::uint64_t sum = 0;
  if (!compares_after(steps) || !replica(state, sum, true)) return lines;
  append(lines, {name, steps == 0 ? "\tfirst values" : "\tvalues and slots", " of checksum ", number_text(sum)});
  if (steps == 0) lines += "; Session::broadcast makes them those of rank 0";
  return lines + '\n';
}

PARALLAX_INLINE void detail::Registry::enter(RegistrationPtr given, int rank) {
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

PARALLAX_INLINE void detail::Registry::add(std::uint64_t value) {
  Fingerprint hash;
  hash.add(hash_);
  hash.add(value);
  hash_ = hash.value();
}

}  // namespace parallax
