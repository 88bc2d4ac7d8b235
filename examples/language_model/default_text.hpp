// The text to train on when the user names none: the King James Bible (1611), from Debian's package bible-kjv.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdio>
#include <stdexcept>
#include <string>

#include "text.hpp"

namespace lm {

// What a command writes to its standard output; empty where it cannot be run or fails.
inline std::string output_of(std::string const& command) {
  std::string output;
  std::FILE* const pipe = popen(command.c_str(), "r");
  if (pipe == nullptr) return output;
  std::array<char, 1 << 16> block{};
  while (std::size_t const count = std::fread(block.data(), 1, block.size(), pipe)) output.append(block.data(), count);
  if (pclose(pipe) != 0) output.clear();
  return output;
}

// Verses as `bible -f` prints them, each a line like "Ge1:1 In the beginning ...", as one paragraph each, without the
// label.
inline Text read_verses(std::string const& lines) {
  std::string paragraphs;
  for (std::size_t at = 0; at < lines.size();) {
    std::size_t const end = std::min(lines.find('\n', at), lines.size());
    std::size_t const label_end = std::min(lines.find(' ', at), end);
    paragraphs.append(lines, label_end, end - label_end).append("\n\n");
    at = end + 1;
  }
  Tokenizer tokenizer;
  tokenizer.append(paragraphs);
  return tokenizer.take();
}

// 4.3 MB, 31,102 verses, some 945,000 tokens. Call it before ranks start and before MPI is initialised: it starts a
// process. Throws std::runtime_error with a sentence that tells what to install.
inline Text default_text() {
  std::string const verses = output_of("bible -f -l100000 gen1:1-rev22:21 2>/dev/null </dev/null");
  if (verses.size() < 1'000'000) {
    throw std::runtime_error{
        "no --text was given, and the default text is not installed: `apt-get install bible-kjv`, or name files by "
        "--text"};
  }
  return read_verses(verses);
}

}  // namespace lm
