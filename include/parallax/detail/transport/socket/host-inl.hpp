// Bodies of parallax/detail/transport/socket/host.hpp.
#pragma once

#include "parallax/detail/transport/socket/host.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE std::unique_ptr<HostMemory> SocketHostMeeting::meet(SocketPeers& peers, int rank, std::vector<int> const& hosts,
                                                                    Await await) {
  rank_ = rank;
  hosts_ = &hosts;
  peers_ = &peers;
  await_ = &await;
  for (std::size_t other = 0; other < hosts.size(); ++other)
    if (hosts[other] == hosts[static_cast<std::size_t>(rank)]) here_.push_back(static_cast<int>(other));
  if (here_.size() == 1) return hear_answers(), nullptr;
  auto memory = std::make_unique<HostMemory>(*this, self(), SocketHost::memory_bytes(here_.size()));
  if (!memory->data()) memory.reset();
  return memory;
}

PARALLAX_INLINE List<Place> SocketHostMeeting::gather(Place const& mine) {
  at(rank_).place = mine;
  at(rank_).shows = true;
  auto const* const bytes = reinterpret_cast<std::byte const*>(&mine);
  for (int const rank : here_) peers_->tell(rank, FrameKind::place, 0, {bytes, bytes + sizeof mine});
  (*await_)([&] {
    auto const missing = std::find_if(here_.begin(), here_.end(), [&](int rank) { return !at(rank).shows; });
    return missing == here_.end() ? -1 : *missing;
  });
  List<Place> places;
  for (int const rank : here_) places.push_back(at(rank).place);
  return places;
}

PARALLAX_INLINE bool SocketHostMeeting::all(bool mine) {
  answer(rank_, mine);
  for (int rank = 0; rank < static_cast<int>(ranks_.size()); ++rank) peers_->tell(rank, FrameKind::found, mine ? 1 : 0, {});
  hear_answers();
  return groups_[static_cast<std::size_t>(rank_)] >= 0;
}

PARALLAX_INLINE void SocketHostMeeting::hear_answers() {
  std::vector<int> ranks(ranks_.size());  // by host
  for (int const host : *hosts_) ++ranks[static_cast<std::size_t>(host)];
  auto const alone = [&](std::size_t rank) { return ranks[static_cast<std::size_t>((*hosts_)[rank])] == 1; };
  (*await_)([&] {
    for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
      if (!alone(rank) && ranks_[rank].answer == Answer::none) return static_cast<int>(rank);
    return -1;
  });
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank)
    ranks[static_cast<std::size_t>((*hosts_)[rank])] -= ranks_[rank].answer == Answer::found;
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    int const host = (*hosts_)[rank];
    if (ranks[static_cast<std::size_t>(host)] == 0) groups_[rank] = host;
  }
}

PARALLAX_INLINE void SocketHost::move_on(SocketPeers& peers) {
  neighbours_.progress([](Error const& error) { throw error; });
  ring(peers);
  if (auto const stray = neighbours_.passed_over(); stray.rank >= 0)
    throw Error{
        Errc::mismatch, stray.rank, "ialltoallv", "",
        joined({"rank ", stray.rank, " has sent a block on channel ", stray.channel, " that rank ", rank_, " did not expect"})};
}

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
