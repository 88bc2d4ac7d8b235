// The output of ranks as processes, on its way to their launcher: pipes, and lines with the rank before each. Only launchers
// include it (detail/launch/launcher.hpp, detail/launch/mpiexec.hpp).
#pragma once

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>

#include "parallax/core/error.hpp"
#include "parallax/detail/comm/owned_descriptor.hpp"
#include "parallax/detail/core/system.hpp"

namespace parallax::inline v0_2::detail {

// Makes a pipe from `to` to `from`. No started program inherits an end. Throws Error (transport).
void join_pipe(OwnedDescriptor& from, OwnedDescriptor& to);

// Writes all, waiting. Says nothing of a missing reader.
inline void write_all(int to, std::string_view bytes) { static_cast<void>(write_all(to, bytes.data(), bytes.size())); }

// Makes a descriptor another name of an open file.
void redirect(int descriptor, OwnedDescriptor const& to);

// A rank's output into one file, line by line. Of a line begun anew by a carriage return, like a bar of progress, the last
// state is shown. A line of more than 64 KiB is parted.
class PrefixedLines {
 public:
  // `to`: the file for the lines.
  explicit PrefixedLines(int to) : to_{to} {}

  // Sets the prefix, before anything is added. Without `heard` no line is shown.
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
  // Shows an unfinished line.
  void end() {
    if (!line_.empty()) show();
  }

 private:
  static constexpr std::size_t most = std::size_t{1} << 16;

  // Writes in one call, so lines of several ranks do not mix.
  void show() {
    line_.insert(0, prefix_), line_ += '\n';
    write_all(to_, line_);
    line_.clear(), anew_ = false;
  }

  int to_;
  bool heard_ = true, anew_ = false;
  std::string prefix_, line_;
};

// Sends the output and errors of this process from now on through another process. It puts `prefix` before each line, or drops
// the line unless `heard`. Being nobody's child, it is found by no wait, and lasts as long as anybody can write to its input.
// Throws Error (transport) if no process can be made.
void pass_on_lines(std::string const& prefix, bool heard);

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/launch/output-inl.hpp"
#endif
