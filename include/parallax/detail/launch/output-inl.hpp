// Bodies of parallax/detail/launch/output.hpp.
#pragma once

#include "parallax/detail/launch/output.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE void join_pipe(OwnedDescriptor& from, OwnedDescriptor& to) {
  int ends[2];
  if (::pipe2(ends, O_CLOEXEC) != 0)
    throw Error{Errc::transport, -1, "launch", "", joined({"no pipe can be made (errno ", errno, ")"})};
  from = OwnedDescriptor{ends[0]}, to = OwnedDescriptor{ends[1]};
}

PARALLAX_INLINE void redirect(int descriptor, OwnedDescriptor const& to) {
  static_cast<void>(uninterrupted([&] { return ::dup2(to.get(), descriptor); }));
}

PARALLAX_INLINE void pass_on_lines(std::string const& prefix, bool heard) {
  std::array<OwnedDescriptor, 2> from, to;
  for (std::size_t i = 0; i < 2; ++i) join_pipe(from[i], to[i]);
  ::pid_t const child = ::fork();
  if (child < 0) throw Error{Errc::transport, -1, "launch", "", joined({"no process can be made (errno ", errno, ")"})};
  if (child > 0) {
    for (std::size_t i = 0; i < 2; ++i) redirect(static_cast<int>(i) + 1, to[i]);
    static_cast<void>(uninterrupted([&] { return ::waitpid(child, nullptr, 0); }));
    return;
  }
  if (::fork() != 0) ::_exit(0);
  ::setpgid(0, 0);  // ending the rank by its group lets its last words pass
  for (int const number : {SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) ::signal(number, SIG_IGN);
  std::array<PrefixedLines, 2> lines{PrefixedLines{STDOUT_FILENO}, PrefixedLines{STDERR_FILENO}};
  std::array<::pollfd, 2> polled{};
  for (std::size_t i = 0; i < 2; ++i) to[i].close(), lines[i].begin(prefix, heard), polled[i] = {from[i].get(), POLLIN, 0};
  char bytes[16384];
  for (int open = 2; open > 0;) {
    if (uninterrupted([&] { return ::poll(polled.data(), polled.size(), -1); }) < 0) break;
    for (std::size_t i = 0; i < 2; ++i) {
      if (polled[i].fd < 0 || polled[i].revents == 0) continue;
      auto const count = uninterrupted([&] { return ::read(polled[i].fd, bytes, sizeof(bytes)); });
      if (count > 0) lines[i].add({bytes, static_cast<std::size_t>(count)});
      if (count <= 0) lines[i].end(), polled[i].fd = -1, --open;
    }
  }
  ::_exit(0);
}

}  // namespace parallax::detail
