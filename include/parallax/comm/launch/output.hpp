// What ranks that are processes write, on its way to who started them: pipes, and lines with the rank before each. Only the launcher
// includes it (comm/launch/launcher.hpp).
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "parallax/core/error.hpp"

namespace parallax::detail {

// One end of a pipe, or another file. Owns its number, which no program that is started inherits.
class LaunchPipe {
 public:
  LaunchPipe() = default;
  explicit LaunchPipe(int number) : number_{number} {}
  LaunchPipe(LaunchPipe&& other) noexcept : number_{std::exchange(other.number_, -1)} {}
  LaunchPipe& operator=(LaunchPipe&& other) noexcept {
    if (this != &other) close(), number_ = std::exchange(other.number_, -1);
    return *this;
  }
  ~LaunchPipe() { close(); }

  // Makes a pipe: `from` reads what is written into `to`. Throws Error (transport).
  static void join(LaunchPipe& from, LaunchPipe& to) {
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0)
      throw Error{Errc::transport, -1, "launch", "", joined({"no pipe can be made (errno ", errno, ")"})};
    from = LaunchPipe{ends[0]}, to = LaunchPipe{ends[1]};
  }

  bool is_open() const { return number_ >= 0; }
  int number() const { return number_; }
  void close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }
  void do_not_wait() const {
    if (number_ >= 0) ::fcntl(number_, F_SETFL, O_NONBLOCK);
  }
  // Writes all, waiting; of who does not read any more nothing is said.
  void write(std::string_view bytes) const {
    while (!bytes.empty() && number_ >= 0) {
      ::ssize_t const count = ::write(number_, bytes.data(), bytes.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) return;
      bytes.remove_prefix(static_cast<std::size_t>(count));
    }
  }

 private:
  int number_ = -1;
};

// What a rank writes into one file, line by line. Of a line that was begun anew by a carriage return, as bars of progress do, the last
// state is shown. A line of more than 64 KiB is parted.
class PrefixedLines {
 public:
  // `to`: the file that lines go to.
  explicit PrefixedLines(int to) : to_{to} {}

  // Before anything is added. `heard`: whether lines are shown at all.
  void begin(std::string prefix, bool heard) { prefix_ = std::move(prefix), heard_ = heard; }
  void add(std::string_view bytes) {
    if (!heard_) return;
    while (!bytes.empty()) {
      std::size_t const stop = bytes.find_first_of("\r\n");
      std::string_view const part = bytes.substr(0, stop);
      if (!part.empty() && std::exchange(anew_, false)) line_.clear();
      line_ += part;
      bytes.remove_prefix(part.size());
      if (line_.size() > most) show();
      if (bytes.empty()) return;
      if (bytes[0] == '\n') show();
      else anew_ = true;
      bytes.remove_prefix(1);
    }
  }
  // Shows a line that has no end yet.
  void end() {
    if (!line_.empty()) show();
  }

 private:
  static constexpr std::size_t most = std::size_t{1} << 16;

  // In one call, so that lines of several ranks do not mix.
  void show() {
    line_.insert(0, prefix_), line_ += '\n';
    std::string_view rest = line_;
    while (!rest.empty()) {
      ::ssize_t const count = ::write(to_, rest.data(), rest.size());
      if (count < 0 && errno == EINTR) continue;
      if (count < 0) break;
      rest.remove_prefix(static_cast<std::size_t>(count));
    }
    line_.clear(), anew_ = false;
  }

  int to_;
  bool heard_ = true, anew_ = false;
  std::string prefix_, line_;
};

}  // namespace parallax::detail
