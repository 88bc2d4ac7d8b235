// Looking into an optimizer or another small aggregate: its fields as text and as a hash, by which ranks compare them, and as
// words, which archives keep. Included for comparisons of settings (variables, partitioners, the session) and by
// core/archive.hpp.
#pragma once

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/text.hpp"

namespace parallax::inline v0_2 {

// An order-dependent 64-bit hash of words and texts: FNV-1a's structure over 64-bit words, closed by MurmurHash3's finaliser.
// It compares ranks of one run and is not meant to resist an adversary.
class Fingerprint {
 public:
  // Adds a word, spread over all bits of the value.
  PARALLAX_HOST_DEVICE constexpr void add(std::uint64_t word) { state_ = mix((state_ ^ word) * 0x100000001b3ull); }
  // Adds a word at a third of the work, for words in great number: the last few are not spread over all bits of the value.
  constexpr void fold(std::uint64_t word) { state_ = half_mix(state_ ^ word); }
  // Adds a text: its length and then its bytes, with different values for "ab", "c" and "a", "bc".
  constexpr void add(std::string_view text) {
    add(std::uint64_t{text.size()});
    for (char const c : text) add(static_cast<std::uint64_t>(static_cast<unsigned char>(c)));
  }
  // Returns the hash of the additions so far; of nothing, a constant. More may be added afterwards.
  PARALLAX_HOST_DEVICE constexpr std::uint64_t value() const { return state_; }

 private:
  // Returns x after an xor-shift and a multiplication by an odd number: half a round of the finaliser, and invertible.
  PARALLAX_HOST_DEVICE static constexpr std::uint64_t half_mix(std::uint64_t x) {
    return (x ^ (x >> 33)) * 0xff51afd7ed558ccdull;
  }
  // Returns x after the whole finaliser: two rounds and an xor-shift.
  PARALLAX_HOST_DEVICE static constexpr std::uint64_t mix(std::uint64_t x) {
    x = half_mix(x);
    x = (x ^ (x >> 33)) * 0xc4ceb9fe1a85ec53ull;
    return x ^ (x >> 33);
  }
  std::uint64_t state_ = 0xcbf29ce484222325ull;
};

namespace detail {

// Stands for a value of any type while the compiler tries the number of an aggregate's fields. Never called.
struct AnyField {
  template <class T>
  constexpr operator T() const noexcept;
};

// Returns true if T can be made from as many values in braces as there are indices.
template <class T, std::size_t... Nth>
constexpr bool takes_fields(std::index_sequence<Nth...>) {
  return requires { T{(static_cast<void>(Nth), AnyField{})...}; };
}
// Returns the number of an aggregate's fields: the greatest number of values, up to N, that can make one.
template <class T, std::size_t N = 8>
constexpr std::size_t field_count() {
  if constexpr (takes_fields<T>(std::make_index_sequence<N>{})) return N;
  else if constexpr (N > 0) return field_count<T, N - 1>();
  else return 0;
}

}  // namespace detail

// Calls f with every field of an aggregate of at most eight fields, in order of declaration.
template <class T, class F>
  requires std::is_aggregate_v<std::remove_cvref_t<T>>
constexpr void for_each_field(T&& object, F&& f) {
  constexpr std::size_t count = detail::field_count<std::remove_cvref_t<T>>();
  auto const each = [&](auto&... fields) { (f(fields), ...); };
  if constexpr (count == 1) {
    auto& [a] = object;
    each(a);
  } else if constexpr (count == 2) {
    auto& [a, b] = object;
    each(a, b);
  } else if constexpr (count == 3) {
    auto& [a, b, c] = object;
    each(a, b, c);
  } else if constexpr (count == 4) {
    auto& [a, b, c, d] = object;
    each(a, b, c, d);
  } else if constexpr (count == 5) {
    auto& [a, b, c, d, e] = object;
    each(a, b, c, d, e);
  } else if constexpr (count == 6) {
    auto& [a, b, c, d, e, g] = object;
    each(a, b, c, d, e, g);
  } else if constexpr (count == 7) {
    auto& [a, b, c, d, e, g, h] = object;
    each(a, b, c, d, e, g, h);
  } else if constexpr (count == 8) {
    auto& [a, b, c, d, e, g, h, i] = object;
    each(a, b, c, d, e, g, h, i);
  }
}

// Calls `visit` with every number in an object, in order of declaration, and with those of aggregates in it; enumerations as
// std::int64_t. A type other than an aggregate offers `void fields(auto&& visitor) const`, or is compared by its type alone.
template <class T, class F>
void visit_fields(T const& object, F&& visit) {
  auto const each = [&](auto const& field) {
    using Field = std::remove_cvref_t<decltype(field)>;
    if constexpr (std::is_arithmetic_v<Field>) visit(field);
    else if constexpr (std::is_enum_v<Field>) visit(static_cast<std::int64_t>(field));
    else visit_fields(field, visit);
  };
  if constexpr (requires { object.fields(each); }) object.fields(each);
  else if constexpr (std::is_aggregate_v<T>) for_each_field(object, each);
}

// Adds an object's fields to a hash by `Fingerprint::fold`; floating numbers by their bits as double. States of variables add
// their optimizer so before every update.
template <class T>
void fold_fields(T const& object, Fingerprint& hash) {
  visit_fields(object, [&]<class Field>(Field field) {
    if constexpr (std::is_floating_point_v<Field>) hash.fold(std::bit_cast<std::uint64_t>(static_cast<double>(field)));
    else hash.fold(static_cast<std::uint64_t>(field));
  });
}
// Returns the hash of an object's fields alone: equal for equal settings of one type.
template <class T>
std::uint64_t fields_hash(T const& object) {
  Fingerprint hash;
  fold_fields(object, hash);
  return hash.value();
}

// Calls f with every number in an object as a word of 64 bits, which f may set: a field then has the word's value, bit for bit.
// Floating numbers travel as double. A class other than an aggregate is its bytes, pointers are left as they are.
template <class T, class F>
void visit_words(T& object, F&& f) {
  if constexpr (std::is_floating_point_v<T>) {
    static_assert(sizeof(T) <= sizeof(double));
    auto word = std::bit_cast<std::uint64_t>(static_cast<double>(object));
    f(word);
    object = static_cast<T>(std::bit_cast<double>(word));
  } else if constexpr (std::is_arithmetic_v<T> || std::is_enum_v<T>) {
    auto word = static_cast<std::uint64_t>(object);
    f(word);
    object = static_cast<T>(word);
  } else if constexpr (std::is_aggregate_v<T>) {
    for_each_field(object, [&](auto& field) { visit_words(field, f); });
  } else if constexpr (std::is_class_v<T> && std::is_trivially_copyable_v<T>) {
    auto* const bytes = reinterpret_cast<unsigned char*>(&object);
    for (std::size_t at = 0; at < sizeof(T); at += sizeof(std::uint64_t)) {
      std::size_t const count = sizeof(T) - at < sizeof(std::uint64_t) ? sizeof(T) - at : sizeof(std::uint64_t);
      std::uint64_t word = 0;
      std::memcpy(&word, bytes + at, count);
      f(word);
      std::memcpy(bytes + at, &word, count);
    }
  }
}
// Returns the number of an object's words in `visit_words`: the width of its row in an archive.
template <class T>
std::size_t word_count(T const& object) {
  T copy = object;
  std::size_t count = 0;
  visit_words(copy, [&](std::uint64_t&) { ++count; });
  return count;
}

// Returns the shortest text from which the same number is read again, with different texts for different numbers.
template <class Number>
std::string number_text(Number number) {
  return joined({+number});
}

// Returns all fields as messages show them, without their names: `{0.01, 0.9}`.
template <class T>
std::string fields_text(T const& object) {
  std::string text = "{";
  visit_fields(object, [&](auto field) { append(text, {text.size() > 1 ? ", " : "", +field}); });
  return text += '}';
}

// Returns the text with the names of the fields, as a user writes them (`{.learning_rate = 0.01}`), if the class has
// `field_names`, one for each field.
template <class T>
std::string settings_text(T const& object) {
  if constexpr (std::is_arithmetic_v<T>) {
    return number_text(object);
  } else if constexpr (std::is_enum_v<T>) {
    return number_text(static_cast<std::int64_t>(object));
  } else if constexpr (requires { T::field_names; }) {
    static_assert(std::size(T::field_names) == detail::field_count<T>(), "parallax: field_names has one entry for each field");
    std::string text = "{";
    std::size_t i = 0;
    for_each_field(object, [&](auto const& field) {
      append(text, {i > 0 ? ", ." : ".", T::field_names[i], " = ", settings_text(field)});
      ++i;
    });
    return text += '}';
  } else {
    return fields_text(object);
  }
}

}  // namespace parallax
