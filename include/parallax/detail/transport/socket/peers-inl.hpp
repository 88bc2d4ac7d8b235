// Bodies of parallax/detail/transport/socket/peers.hpp.
#pragma once

#include "parallax/detail/transport/socket/peers.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE void SocketPeers::watch(Peer& peer) {
  short const wants = peer.connection.wants();
  if (wants == peer.watched) return;
  int const how = wants == 0 ? EPOLL_CTL_DEL : peer.watched == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD;
  epoll_event event{};
  event.events = ((wants & POLLIN) != 0 ? EPOLLIN : 0u) | ((wants & POLLOUT) != 0 ? EPOLLOUT : 0u);
  event.data.u32 = static_cast<std::uint32_t>(peer.rank);
  int const result = ::epoll_ctl(ready_.get(), how, peer.connection.socket().get(), &event);
  if (result != 0 && how == EPOLL_CTL_ADD) throw system_error("watch a connection");  // the others need no memory
  peer.watched = wants;
}

PARALLAX_INLINE void SocketPeers::tell(int to, FrameKind kind, std::uint64_t number, std::vector<std::byte> bytes,
                                       bool summed) {
  Peer& its = peer(to);
  if (its.connection.deaf()) return;
  FrameHeader message;
  message.kind = kind;
  message.number = number;
  message.summed = summed ? 1 : 0;
  its.connection.send(message, std::move(bytes));
  write(its);
}

// Reads of all that are ready come before writes: arrivals may make room.
PARALLAX_INLINE void SocketPeers::move_on() {
  std::array<epoll_event, 64> events;
  int const count = ::epoll_wait(ready_.get(), events.data(), static_cast<int>(events.size()), 0);
  Slice<epoll_event const> const ready{events.data(), static_cast<std::size_t>(std::max(count, 0))};
  for (epoll_event const& event : ready) {
    Peer& its = peer(static_cast<int>(event.data.u32));
    if ((event.events & ~static_cast<std::uint32_t>(EPOLLOUT)) == 0) continue;
    if (its.connection.read(told_)) news_ = true;
    watch(its);
  }
  for (epoll_event const& event : ready)
    if ((event.events & EPOLLOUT) != 0 && write(peer(static_cast<int>(event.data.u32)))) news_ = true;
}

// Waits for epoll's descriptor: it is ready when one of its connections is.
PARALLAX_INLINE void SocketPeers::wait(std::chrono::nanoseconds at_most) const {
  auto const seconds = std::chrono::floor<std::chrono::seconds>(at_most);
  timespec const limit{static_cast<std::time_t>(seconds.count()), static_cast<long>((at_most - seconds).count())};
  pollfd ready{ready_.get(), POLLIN, 0};
  ::ppoll(&ready, 1, &limit, nullptr);
}

PARALLAX_INLINE void SocketPeers::sleep(std::chrono::nanoseconds at_most) {
  if (!std::exchange(news_, false)) wait(at_most);
}

PARALLAX_INLINE void SocketPeers::linger(std::chrono::milliseconds at_most, bool (Connection::*done)() const, int but) noexcept
    try {
  auto const until = std::chrono::steady_clock::now() + at_most;
  auto const over = [&](Peer const& peer) { return peer.parted || peer.rank == but || (peer.connection.*done)(); };
  while (!std::all_of(peers_.begin(), peers_.end(), over) && std::chrono::steady_clock::now() < until) {
    wait(std::chrono::milliseconds{1});
    move_on();
  }
} catch (...) {  // no memory: the peers will see the end of the connection
}

PARALLAX_INLINE void SocketPeers::fail(Error const& reason, std::uint64_t given_up) {
  for (Peer& peer : peers_) {
    peer.connection.give_up();
    peer.connection.redirect(nullptr);
    watch(peer);
  }
  try {
    std::vector<std::byte> const text = error_bytes(reason);
    for (Peer& peer : peers_) tell(peer.rank, FrameKind::abort, given_up, text);
  } catch (std::bad_alloc const&) {
    BriefErrorBytes const text{reason};
    FrameHeader message;
    message.kind = FrameKind::abort;
    message.number = given_up;
    message.summed = 1;
    for (Peer& peer : peers_) peer.connection.send_last(message, text.bytes, text.size);
  }
}

PARALLAX_INLINE void tell_refused(OwnedDescriptor socket, Error const& why, FrameSink& told) {
  SocketPeers refused{1, told};
  refused.connect(0, std::move(socket), "");
  refused.fail(why);
  refused.linger(std::chrono::milliseconds{250}, &Connection::delivered);
}

PARALLAX_INLINE void SocketPeers::withdraw(int channel) {
  for (Peer& peer : peers_) {
    peer.connection.withdraw(channel);
    peer.connection.drop_block(channel);
    watch(peer);
  }
}

PARALLAX_INLINE std::uint64_t SocketPeers::written() const {
  std::uint64_t all = 0;
  for (Peer const& peer : peers_) all += peer.connection.written();
  return all;
}

}  // namespace parallax::detail
