// Plain UTF-8 text as a sequence of tokens: words, numbers, punctuation and ends of paragraphs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

namespace lm {

using Token = std::int32_t;  // how a text is stored: the number of a word
using Id = std::int64_t;     // how a batch names the rows of a table

inline constexpr Token end_of_paragraph = 0;
inline constexpr Token unknown_word = 1;

// A text as numbers: words[tokens[k]] is its k-th token. Words are numbered by first occurrence, after <eos> and <unk>.
struct Text {
  std::vector<std::string> words{"<eos>", "<unk>"};
  std::vector<Token> tokens;
};

namespace detail {

enum class Glyph { letter, digit, apostrophe, alone, space, line_end };

struct Character {
  Glyph glyph;
  std::size_t bytes;
};

constexpr Glyph classify(std::uint32_t code) {
  auto const within = [code](std::uint32_t first, std::uint32_t last) { return first <= code && code <= last; };
  if (within('a', 'z') || within('A', 'Z')) return Glyph::letter;
  if (within('0', '9')) return Glyph::digit;
  if (code == '\n') return Glyph::line_end;
  if (code == '\'' || code == 0x2019) return Glyph::apostrophe;
  if (code <= ' ' || within(0x7F, 0xA0) || within(0x2000, 0x200F) || within(0x2028, 0x202F) || code == 0xFEFF) {
    return Glyph::space;
  }
  if (code < 0x80 || within(0xA1, 0xA9) || within(0xAB, 0xB4) || within(0xB6, 0xB9) || within(0xBB, 0xBF)) {
    return Glyph::alone;
  }
  bool const symbol = code == 0xD7 || code == 0xF7 || within(0x2010, 0x2BFF);
  bool const ideograph = within(0x2E80, 0xA4CF) || within(0xF900, 0xFAFF) || within(0xFF01, 0xFF0F) || code >= 0x1F000;
  return symbol || ideograph ? Glyph::alone : Glyph::letter;
}

// The character that begins at text[at]; a byte that is no UTF-8 counts as a space.
inline Character character_at(std::string_view text, std::size_t at) {
  auto const byte = [&](std::size_t k) { return static_cast<std::uint32_t>(static_cast<unsigned char>(text[at + k])); };
  std::uint32_t const lead = byte(0);
  if (lead < 0x80) return {classify(lead), 1};
  std::size_t const bytes = lead >= 0xF0 ? 4 : lead >= 0xE0 ? 3 : 2;
  if (lead < 0xC2 || lead > 0xF4 || at + bytes > text.size()) return {Glyph::space, 1};
  std::uint32_t code = lead & (0x7Fu >> bytes);
  for (std::size_t k = 1; k < bytes; ++k) {
    if ((byte(k) & 0xC0u) != 0x80u) return {Glyph::space, 1};
    code = (code << 6) | (byte(k) & 0x3Fu);
  }
  return {classify(code), bytes};
}

}  // namespace detail

// Turns texts, appended one after the other, into one `Text`.
//
// A word is a run of letters with apostrophes inside; ASCII letters become lower case, letters beyond ASCII stay as
// they are. A number is a run of digits. Every other visible character is a token of its own, and so is an ideograph. A
// blank line, and the end of what was appended, ends a paragraph: one <eos>.
class Tokenizer {
 public:
  void append(std::string_view text) {
    using detail::Glyph;
    bool blank = false;  // nothing but spaces since the last line end
    for (std::size_t at = 0; at < text.size();) {
      auto const [glyph, bytes] = detail::character_at(text, at);
      if (glyph == Glyph::line_end && std::exchange(blank, true)) end_paragraph();
      if (glyph != Glyph::line_end && glyph != Glyph::space) blank = false;
      if (glyph == Glyph::letter || glyph == Glyph::digit) {
        at = append_run(text, at, glyph);
      } else {
        if (glyph == Glyph::alone) add(text.substr(at, bytes));
        if (glyph == Glyph::apostrophe) add("'");
        at += bytes;
      }
    }
    end_paragraph();
  }

  // The text so far; the tokenizer is empty afterwards.
  Text take() {
    numbers_.clear();
    return std::exchange(text_, Text{});
  }

 private:
  // Adds the longest word (or number) that begins at `at`, and returns where it ends.
  std::size_t append_run(std::string_view text, std::size_t at, detail::Glyph kind) {
    using detail::Glyph;
    auto const glyph_at = [&](std::size_t k) {
      return k < text.size() ? detail::character_at(text, k) : detail::Character{Glyph::space, 0};
    };
    word_.clear();
    for (;;) {
      auto const [glyph, bytes] = glyph_at(at);
      if (glyph == kind) {
        for (char const c : text.substr(at, bytes))
          word_ += 'A' <= c && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
      } else if (kind == Glyph::letter && glyph == Glyph::apostrophe && glyph_at(at + bytes).glyph == Glyph::letter) {
        word_ += '\'';
      } else {
        break;
      }
      at += bytes;
    }
    add(word_);
    return at;
  }

  void add(std::string_view word) {
    auto const [entry, is_new] = numbers_.try_emplace(std::string{word}, static_cast<Token>(text_.words.size()));
    if (is_new) text_.words.emplace_back(word);
    text_.tokens.push_back(entry->second);
  }

  void end_paragraph() {
    if (!text_.tokens.empty() && text_.tokens.back() != end_of_paragraph) text_.tokens.push_back(end_of_paragraph);
  }

  Text text_;
  std::unordered_map<std::string, Token> numbers_;
  std::string word_;
};

// The text of all files, in order. Throws std::runtime_error naming the file that cannot be read or the lack of words.
inline Text read_files(std::vector<std::string> const& paths) {
  Tokenizer tokenizer;
  for (std::string const& path : paths) {
    std::ifstream file{path, std::ios::binary};
    std::string const content{std::istreambuf_iterator<char>{file}, {}};
    if (!file) throw std::runtime_error{"cannot read the text file '" + path + "'"};
    tokenizer.append(content);
  }
  Text text = tokenizer.take();
  if (text.tokens.empty()) throw std::runtime_error{"the text files contain no words"};
  return text;
}

}  // namespace lm
