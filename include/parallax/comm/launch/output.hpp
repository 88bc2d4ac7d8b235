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

#include "parallax/comm/owned_descriptor.hpp"
#include "parallax/core/error.hpp"

namespace parallax::detail {

// Makes a pipe, of which no program that is started inherits an end: `from` reads what is written into `to`. Throws Error (transport).
inline void join_pipe(OwnedDescriptor& from, OwnedDescriptor& to) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw Error{Errc::transport, -1, "launch", "", joined({"no pipe can be made (errno ", errno, ")"})};
  from = OwnedDescriptor{ends[0]}, to = OwnedDescriptor{ends[1]};
}

// Writes all, waiting. Nothing is said of who does not read any more.
inline void write_all(int to, std::string_view bytes) {
  while (!bytes.empty()) {
    ::ssize_t const count = ::write(to, bytes.data(), bytes.size());
    if (count < 0 && errno == EINTR) continue;
    if (count < 0) return;
    bytes.remove_prefix(static_cast<std::size_t>(count));
  }
}

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
    write_all(to_, line_);
    line_.clear(), anew_ = false;
  }

  int to_;
  bool heard_ = true, anew_ = false;
  std::string prefix_, line_;
};

}  // namespace parallax::detail
