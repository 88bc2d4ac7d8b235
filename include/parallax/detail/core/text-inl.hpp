// Bodies of parallax/detail/core/text.hpp.
#pragma once

#include "parallax/detail/core/text.hpp"

namespace parallax::inline v0_2 {

PARALLAX_INLINE void TextFragment::append_to(std::string& text) const {
  char digits[32];
  char* end = digits;
  auto const write = [&](auto number) { end = std::to_chars(digits, digits + sizeof digits, number).ptr; };
  switch (kind_) {
    case Kind::words: text += words_; return;
    case Kind::character: text += static_cast<char>(number_); return;
    case Kind::signed_number: write(static_cast<std::int64_t>(number_)); break;
    case Kind::number: write(number_); break;
    case Kind::single: write(static_cast<float>(value_)); break;
    case Kind::real: write(value_); break;
  }
  text.append(digits, static_cast<std::size_t>(end - digits));
}
PARALLAX_INLINE void append(std::string& text, std::initializer_list<TextFragment> fragments) {
  for (TextFragment const& fragment : fragments) fragment.append_to(text);
}
PARALLAX_INLINE std::string joined(std::initializer_list<TextFragment> fragments) {
  std::string text;
  append(text, fragments);
  return text;
}

}  // namespace parallax
