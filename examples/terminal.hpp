// The width of a terminal, and text that fits into it.
#pragma once

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>

namespace example {

// Returns whether a line can be drawn over another one there.
inline bool is_terminal(int descriptor) {
  char const* const kind = std::getenv("TERM");
  return isatty(descriptor) == 1 && kind != nullptr && std::string_view{kind} != "dumb";
}

// Returns the columns of the terminal behind a descriptor; where it does not tell, what COLUMNS says, or 80.
inline std::size_t columns_of(int descriptor) {
  winsize size{};
  if (ioctl(descriptor, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  char const* const told = std::getenv("COLUMNS");
  int const columns = told ? std::atoi(told) : 0;
  return columns > 0 ? static_cast<std::size_t>(columns) : 80;
}

// Returns how many columns a text of UTF-8 takes, if each of its characters takes one.
inline std::size_t columns_for(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

// Returns as much of a text as so many columns hold.
inline std::string fitted(std::string_view text, std::size_t columns) {
  std::size_t end = 0, taken = 0;
  for (; end < text.size(); ++end)
    if ((text[end] & 0xc0) != 0x80 && taken++ == columns) break;
  return std::string{text.substr(0, end)};
}

// Returns a bar of which a share is filled.
inline std::string bar_of(std::size_t columns, double share) {
  std::string bar;
  for (std::size_t k = 0; k < columns; ++k) bar += static_cast<double>(k) < share * static_cast<double>(columns) ? "█" : "░";
  return bar;
}

// Returns words in lines of at most so many columns, all but the first one behind as many blanks as `indent`. A word that is longer
// has a line of its own. The first line begins at column `at`.
inline std::string wrapped(std::string_view text, std::size_t columns, std::size_t indent, std::size_t at) {
  std::string lines;
  bool first = true;
  while (!text.empty()) {
    std::size_t const length = std::min(text.find(' '), text.size());
    std::string_view const word = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    if (!first && at + 1 + columns_for(word) > columns) lines += '\n', lines.append(indent, ' '), at = indent;
    else if (!first) lines += ' ', ++at;
    lines += word, at += columns_for(word), first = false;
  }
  return lines;
}

}  // namespace example
