// Bodies of parallax/detail/transport/socket/lending.hpp.
#pragma once

#include "parallax/detail/transport/socket/lending.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE void SocketLending::reclaim(int channel, SocketPeers& peers) noexcept {
  if (!loans_ || birth_.in_child()) return;
  loans_->close(channel);
  for (std::size_t holder = 0; holder < here_->size(); ++holder) {
    auto const began = std::chrono::steady_clock::now();
    while (held(channel, holder, peers)) {
      rest();
      if (std::chrono::steady_clock::now() - began < patience) continue;
      try {
        peers.move_on();  // notices the end of its process
      } catch (...) {}    // no memory: the next time, perhaps
      cut_off_[holder] = held(channel, holder, peers) && renew(channel);
    }
  }
}

}  // namespace parallax::detail
