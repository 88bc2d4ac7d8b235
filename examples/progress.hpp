// A progress bar for programs that take a while: drawn on a terminal, in a line of it, a plain line now and then elsewhere.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <utility>

#include "terminal.hpp"

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

  // Takes the bar away before something else is written; the next update draws it again.
  void clear() {
    if (drawn_) std::fputs("\r\033[K", stderr);
    drawn_ = false;
    part_ = -1;
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
      draw(static_cast<double>(part) / static_cast<double>(parts), percent, said);
    } else {
      std::fprintf(stderr, "%s %3d %%  %s\n", title_.c_str(), percent, said.c_str());
    }
  }

 private:
  using Clock = std::chrono::steady_clock;

  // The time that is left, if all parts take as long as those that are done.
  std::string left(std::int64_t done) const {
    if (done <= 0 || done >= total_) return {};
    std::chrono::duration<double> const passed = Clock::now() - began_;
    auto const seconds = static_cast<long>(passed.count() * static_cast<double>(total_ - done) / static_cast<double>(done));
    char text[32];
    std::snprintf(text, sizeof text, ", ETA %ld:%02ld", seconds / 60, seconds % 60);
    return text;
  }

  // Draws a line that leaves the terminal's last column free, so that no terminal goes on to the next line. In a narrow one the
  // bar becomes shorter, then goes, and then the remark is cut, and the title.
  void draw(double share, int percent, std::string const& remark) {
    std::size_t const room = columns_of(STDERR_FILENO) - 1, least = 5, most = 30;
    char number[16];
    std::snprintf(number, sizeof number, " %3d %%", percent);
    std::size_t const around = columns_for(title_) + columns_for(number) + 2 + columns_for(remark) + 1;
    std::size_t const width = around + least > room ? 0 : std::min(most, room - around);
    std::string const title = fitted(title_, room - std::min(room, columns_for(number)));
    std::string const tail = fitted(number + ("  " + remark), room - columns_for(title) - (width > 0 ? width + 1 : 0));
    std::string const bar =
        width > 0 ? " " + (color_ ? "\033[36m" + bar_of(width, share) + "\033[0m" : bar_of(width, share)) : "";
    std::fprintf(stderr, "\r%s%s%s\033[K", title.c_str(), bar.c_str(), tail.c_str());
    drawn_ = true;
  }

  static bool has_color() {
    char const* const forbidden = std::getenv("NO_COLOR");
    return forbidden == nullptr || *forbidden == '\0';
  }

  std::string title_;
  std::int64_t total_;
  std::int64_t part_ = -1;
  Clock::time_point began_ = Clock::now();
  bool shown_;
  bool terminal_ = is_terminal(STDERR_FILENO);
  bool color_ = has_color();
  bool drawn_ = false;
};

}  // namespace example
