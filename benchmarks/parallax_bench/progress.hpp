// A progress bar on a terminal; nothing elsewhere.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>

namespace bench {

class Progress {
 public:
  explicit Progress(bool shown) : shown_{shown && is_terminal()} {}
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
    std::string bar;
    for (std::int64_t k = 0; k < width; ++k) bar += k < part ? "█" : "░";
    std::fprintf(stderr, "\r%s %s\033[K", bar.c_str(), title_.c_str());
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

  static bool is_terminal() {
    char const* const kind = std::getenv("TERM");
    return isatty(STDERR_FILENO) == 1 && kind != nullptr && std::string_view{kind} != "dumb";
  }

  bool shown_, drawn_ = false;
  std::string title_;
  std::int64_t total_ = 1, done_ = 0, part_ = -1;
};

}  // namespace bench
