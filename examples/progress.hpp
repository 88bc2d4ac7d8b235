// A progress bar for programs that take a while: drawn on a terminal, a plain line now and then elsewhere.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

namespace example {

// Reports to standard error. Only rank 0 makes one that is `shown`; the others' do nothing.
class Progress {
 public:
  Progress(std::string title, std::int64_t total, bool shown = true)
      : title_{std::move(title)}, total_{std::max<std::int64_t>(total, 1)}, shown_{shown} {}

  Progress(Progress const&) = delete;
  Progress& operator=(Progress const&) = delete;
  ~Progress() {
    if (drawn_) std::fputc('\n', stderr);
  }

  // `done` of `total`, with a remark such as "31,000 words/s" and the time that is left. Cheap enough for every step: draws only
  // what looks different.
  void update(std::int64_t done, std::string const& remark = {}) {
    std::int64_t const parts = terminal_ ? 200 : 10;
    std::int64_t const part = std::min(done, total_) * parts / total_;
    if (!shown_ || part == part_) return;
    part_ = part;
    int const percent = static_cast<int>(part * 100 / parts);
    std::string const said = remark + left(done);
    if (terminal_) {
      draw(part * width / parts, percent, said);
    } else {
      std::fprintf(stderr, "%s %3d %%  %s\n", title_.c_str(), percent, said.c_str());
    }
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::int64_t width = 30;

  // The time that is left, if all parts take as long as those that are done.
  std::string left(std::int64_t done) const {
    if (done <= 0 || done >= total_) return {};
    std::chrono::duration<double> const passed = Clock::now() - began_;
    auto const seconds = static_cast<long>(passed.count() * static_cast<double>(total_ - done) / static_cast<double>(done));
    char text[32];
    std::snprintf(text, sizeof text, ", ETA %ld:%02ld", seconds / 60, seconds % 60);
    return text;
  }

  void draw(std::int64_t filled, int percent, std::string const& remark) {
    std::string bar;
    for (std::int64_t k = 0; k < width; ++k) bar += k < filled ? "█" : "░";
    char const* const on = color_ ? "\033[36m" : "";
    char const* const off = color_ ? "\033[0m" : "";
    std::fprintf(stderr, "\r%s %s%s%s %3d %%  %s\033[K", title_.c_str(), on, bar.c_str(), off, percent, remark.c_str());
    drawn_ = true;
  }

  static bool has_color() {
    char const* const forbidden = std::getenv("NO_COLOR");
    return forbidden == nullptr || *forbidden == '\0';
  }

  static bool is_terminal() {
    char const* const kind = std::getenv("TERM");
    return isatty(STDERR_FILENO) == 1 && kind != nullptr && std::string{kind} != "dumb";
  }

  std::string title_;
  std::int64_t total_;
  std::int64_t part_ = -1;
  Clock::time_point began_ = Clock::now();
  bool shown_;
  bool terminal_ = is_terminal();
  bool color_ = has_color();
  bool drawn_ = false;
};

}  // namespace example
