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

namespace detail {

PARALLAX_INLINE void check_name(std::string_view name, int rank) {
  std::string shown;
  bool printable = !name.empty();
  for (char const letter : name) {
    auto const c = static_cast<unsigned char>(letter);
    bool const control = c < 0x20 || c == 0x7f;
    printable = printable && !control;
    constexpr std::string_view digits = "0123456789abcdef";
    if (control) append(shown, {"\\x", digits[c / 16u], digits[c % 16u]});
    else shown += letter;
  }
  if (!printable)
    throw Error{Errc::invalid_argument, rank, "Variable", shown, "a variable's name is not empty and has no control bytes"};
}
PARALLAX_INLINE void check_shape(std::string_view name, std::int64_t rows, std::int64_t width, int rank, std::int64_t most_rows,
                                 std::string_view index_type) {
  auto const refuse = [&](std::string_view why) { throw Error{Errc::invalid_argument, rank, "Variable", name, why}; };
  if (rows < 0 || width < 0) refuse(joined({"a table of ", rows, " x ", width}));
  if (rows > most_rows) refuse(joined({rows, " x ", width, " rows do not fit the index type ", index_type}));
}
PARALLAX_INLINE std::string dense_signature(SignatureWords const& words, std::size_t size, std::int64_t row) {
  std::string_view const in = words.space.empty() ? "" : " in ";
  std::string text = joined({"Dense ", words.scalar, " of ", size, in, words.space, " by ", words.policy, ", ", words.optimizer,
                             ", ", to_string(words.reduce)});
  if (row >= 0) append(text, {" in rows of ", row});
  return text;
}
PARALLAX_INLINE std::string table_signature(SignatureWords const& words, std::int64_t rows, std::int64_t width,
                                            std::string_view initial) {
  std::string_view const in = words.space.empty() ? "" : " in ";
  std::string text = joined({"Sparse ", words.scalar, " of ", rows, " x ", width, in, words.space, " by ", words.index});
  append(text, {", ", words.policy, ", ", words.partitioner, words.partitioner_fields, ", ", words.optimizer, ", "});
  append(text, {to_string(words.reduce), ", bad ids ", to_string(words.bad_ids), initial});
  return text;
}

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

}  // namespace detail
}  // namespace parallax
