// Bodies of parallax/detail/transport/thread/group.hpp.
#pragma once

#include "parallax/detail/transport/thread/group.hpp"

namespace parallax::inline v0_2 {

PARALLAX_INLINE ThreadGroup::ThreadGroup(int size, ThreadOptions options)
    : size_{size},
      options_{options},
      boxes_(boxes_of(size)),
      loans_(static_cast<std::size_t>(2 * channels * std::max(size, 0))),
      journals_(static_cast<std::size_t>(std::max(size, 0))),
      readers_(static_cast<std::size_t>(std::max(size, 0))),
      letters_{size, options.mailbox},
      gone_(static_cast<std::size_t>(std::max(size, 0))) {
  if (size < 1) throw Error{Errc::invalid_argument, -1, "ThreadGroup", "", "size is " + std::to_string(size)};
  detail::check_bounds(options.mailbox, std::numeric_limits<std::size_t>::max(), "ThreadGroup");
}
PARALLAX_INLINE ThreadGroup::~ThreadGroup() = default;

PARALLAX_INLINE void ThreadGroup::abort(Error const& reason) {
  left_.store(true);
  std::lock_guard const lock{mutex_};
  if (supervised_ && reason.code() == Errc::aborted) {
    if (!held_back_) held_back_ = reason;
    return;
  }
  publish(reason);
}

PARALLAX_INLINE void ThreadGroup::refuse() {
  std::lock_guard const lock{mutex_};
  throw *reason_;
}

PARALLAX_INLINE void ThreadGroup::refuse_soon() {
  auto const until = std::chrono::steady_clock::now() + options_.deadline;
  while (!aborted() && std::chrono::steady_clock::now() < until) detail::rest();
  std::lock_guard const lock{mutex_};
  throw reason_ ? *reason_ : *held_back_;
}

PARALLAX_INLINE void ThreadGroup::publish(Error const& reason) {
  if (!reason_) reason_ = reason, aborted_at_ = std::chrono::steady_clock::now();
  aborted_.store(true, std::memory_order_release);
}
PARALLAX_INLINE void ThreadGroup::publish_held_back() {
  std::lock_guard const lock{mutex_};
  if (held_back_) publish(*held_back_);
}
PARALLAX_INLINE void ThreadGroup::miss(int rank) {
  publish_held_back();
  abort({Errc::transport, rank, "", "", joined({"the body of rank ", rank, " has returned, and the rank is waited for"})});
}

}  // namespace parallax
