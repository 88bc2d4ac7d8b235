// Forked children of a test's ranks, and how they end.
#pragma once

#include <sys/wait.h>
#include <unistd.h>

#include <functional>

#include "parallax/core/error.hpp"

namespace parallax_test {

// Returns what waitpid says of a child that does this, and then exits with 0. A child that hangs is ended by SIGALRM.
inline int status_of(std::function<void()> const& work) {
  pid_t const child = ::fork();
  if (child == 0) {
    ::alarm(20);
    work();
    ::_exit(0);
  }
  int status = -1;
  while (::waitpid(child, &status, 0) < 0) {}
  return status;
}

// Exits with 1 where a call is no misuse that names this rank.
inline void must_be_refused(int rank, std::function<void()> const& call) {
  try {
    call();
  } catch (parallax::Error const& error) {
    if (error.code() == parallax::Errc::misuse && error.rank() == rank) return;
  }
  ::_exit(1);
}

}  // namespace parallax_test
