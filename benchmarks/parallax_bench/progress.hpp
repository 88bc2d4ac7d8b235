// A progress bar on a terminal; nothing elsewhere.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <utility>

#include "../../examples/terminal.hpp"

namespace bench {

class Progress {
 public:
  explicit Progress(bool shown) : shown_{shown && example::is_terminal(STDERR_FILENO)} {}
  Progress(Progress const&) = delete;
  Progress& operator=(Progress const&) = delete;
  ~Progress() { clear(); }

  void begin(std::string title, std::int64_t total) {
    title_ = std::move(title), total_ = std::max<std::int64_t>(total, 1), done_ = 0, part_ = -1;
    advance(0);
  }
  // Draws only what looks different.
  void advance(std::int64_t by = 1) {
    done_ += by;
    std::int64_t const part = std::min(done_, total_) * width / total_;
    if (!shown_ || part == part_) return;
    part_ = part;
    std::size_t const room = example::columns_of(STDERR_FILENO) - 1, columns = std::min<std::size_t>(width, room / 3);
    std::string const bar = example::bar_of(columns, static_cast<double>(part) / width);
    std::fprintf(stderr, "\r%s\033[K", example::fitted(bar + " " + title_, room).c_str());
    drawn_ = true;
  }
  // Before something is printed.
  void clear() {
    if (drawn_) std::fputs("\r\033[K", stderr);
    drawn_ = false;
    part_ = -1;
  }

 private:
  static constexpr std::int64_t width = 30;

  bool shown_, drawn_ = false;
  std::string title_;
  std::int64_t total_ = 1, done_ = 0, part_ = -1;
};

}  // namespace bench
