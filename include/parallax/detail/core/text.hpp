// Texts of errors and reports, put together out of line: a sentence costs its caller a list of fragments and a call. Included
// by every header that throws an Error.
#pragma once

#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <type_traits>

#include "parallax/detail/core/config.hpp"

namespace parallax::inline v0_2 {

// A fragment of a text: words, to which it refers, or one character, or a number by its shortest text that reads back as the
// number: different numbers have different texts.
class TextFragment {
 public:
  // Takes words up to the NUL.
  constexpr TextFragment(char const* words) : words_{words} {}
  // Takes words, which must outlive the fragment.
  constexpr TextFragment(std::string_view words) : words_{words} {}
  // Takes words, which must outlive the fragment.
  TextFragment(std::string const& words) : words_{words} {}
  // Takes an integer, in decimal digits; a char as the character.
  template <class Number>
    requires std::is_integral_v<Number>
  constexpr TextFragment(Number number)
      : number_{static_cast<std::uint64_t>(number)},
        kind_{std::is_same_v<Number, char> ? Kind::character
              : std::is_signed_v<Number>   ? Kind::signed_number
                                           : Kind::number} {}

  // Takes a number, by the shortest text that reads as the same float.
  constexpr TextFragment(float number) : value_{number}, kind_{Kind::single} {}
  // Takes a number, by the shortest text that reads as the same double.
  constexpr TextFragment(double number) : value_{number}, kind_{Kind::real} {}

  // Appends the fragment's text. Called by `joined` and `append`.
  void append_to(std::string& text) const;

 private:
  enum class Kind : unsigned char { words, character, signed_number, number, single, real };

  std::string_view words_;
  std::uint64_t number_ = 0;
  double value_ = 0;
  Kind kind_ = Kind::words;
};

// Returns a new text of the fragments, one after the other.
PARALLAX_COLD std::string joined(std::initializer_list<TextFragment> fragments);
// Appends the fragments to `text`, one after the other.
PARALLAX_COLD void append(std::string& text, std::initializer_list<TextFragment> fragments);

}  // namespace parallax

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/core/text-inl.hpp"
#endif
