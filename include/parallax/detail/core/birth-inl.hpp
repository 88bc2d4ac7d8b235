// Bodies of parallax/detail/core/birth.hpp.
#pragma once

#include "parallax/detail/core/birth.hpp"

namespace parallax::inline v0_2::detail {

// Processes made by `vfork` or `posix_spawn` are not counted: they only become another program.
PARALLAX_INLINE int watched_forks() {
#if defined(__GLIBC__) || __has_include(<pthread.h>)
  static int const watched = pthread_atfork(nullptr, nullptr, [] { ++forks; });
  static_cast<void>(watched);
#endif
  return forks;
}

PARALLAX_INLINE void Birth::refuse(int rank, std::string_view operation) const {
  throw Error{Errc::misuse, rank, operation, "",
              joined({"this process is a child that rank ", rank,
                      " has forked: it has no part in the training, and what it calls here does nothing"})};
}

}  // namespace parallax::detail
