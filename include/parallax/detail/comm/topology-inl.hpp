// Bodies of parallax/comm/topology.hpp.
#pragma once

#include "parallax/comm/topology.hpp"

namespace parallax::inline v0_2 {

PARALLAX_INLINE RankLayout::RankLayout(RankLayout const&) = default;
PARALLAX_INLINE RankLayout::RankLayout(RankLayout&&) noexcept = default;
PARALLAX_INLINE RankLayout& RankLayout::operator=(RankLayout const&) = default;
PARALLAX_INLINE RankLayout& RankLayout::operator=(RankLayout&&) noexcept = default;
PARALLAX_INLINE RankLayout::~RankLayout() = default;

PARALLAX_INLINE void RankLayout::lay_out_flat(Meets const& meets) {
  for (int rank = 0; rank < size_; ++rank) {
    owner_ranks_.push_back(rank);
    hosts_.push_back(rank);  // nothing declared: every byte counts as crossing
  }
  lay_out_direct(meets);
}

PARALLAX_INLINE void RankLayout::lay_out(Servers servers, Meets const& meets) {
  if (servers.count < 1 || servers.count > size_)
    throw Error{Errc::invalid_argument, rank_, "Topology", "", joined({servers.count, " servers given for ", size_, " ranks"})};
  for (int rank = 0; rank < size_; ++rank) {
    if (rank < servers.count) owner_ranks_.push_back(rank);
    hosts_.push_back(rank);
  }
  lay_out_direct(meets);
}

PARALLAX_INLINE void RankLayout::lay_out(std::vector<int> hosts, Meets const& meets) {
  if (hosts.size() != static_cast<std::size_t>(size_))
    throw Error{Errc::invalid_argument, rank_, "Topology", "", joined({hosts.size(), " hosts given for ", size_, " ranks"})};
  hosts_ = std::move(hosts);
  lay_out_levels(meets);
}

PARALLAX_INLINE void RankLayout::describe(Hop& hop, List<int> const& group_of, Meets const& meets) {
  List<int> first(group_of.size(), -1);  // rank of each group
  hop.in_memory = hop.lends = true;
  for (int rank = 0; rank < size_; ++rank) {
    int const group = group_of[static_cast<std::size_t>(rank)];
    if (group < 0) continue;
    int& one = first[static_cast<std::size_t>(group)];
    if (one < 0) one = rank;
    hop.in_memory = hop.in_memory && meets.in_memory(one, rank);
    hop.lends = hop.lends && meets.lends(one, rank);
  }
}

PARALLAX_INLINE void RankLayout::lay_out_direct(Meets const& meets) {
  auto const ranks = static_cast<std::size_t>(size_);
  direct_.targets = owner_ranks_;
  direct_.fan_out = owners();
  describe(direct_, List<int>(ranks, 0), meets);
  for (int owner = 0; owner < owners(); ++owner)
    if (owner_rank(owner) == rank_) direct_.self = owner;
  owner_ = direct_.self;
  if (owner_ < 0) return;
  for (int rank = 0; rank < size_; ++rank) direct_.sources.push_back(rank);
}

PARALLAX_INLINE void RankLayout::lay_out_levels(Meets const& meets) {
  auto const ranks = static_cast<std::size_t>(size_);
  List<int> sizes;                           // of hosts, in order of their first rank
  List<int> host_of(ranks), slot_of(ranks);  // by rank
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    std::size_t same = 0;
    while (hosts_[same] != hosts_[rank]) ++same;
    if (same == rank) sizes.push_back(0);
    host_of[rank] = same == rank ? static_cast<int>(sizes.size()) - 1 : host_of[same];
    slot_of[rank] = sizes[static_cast<std::size_t>(host_of[rank])]++;
  }
  auto const hosts = static_cast<int>(sizes.size());
  int slot_count = size_;
  for (int const size : sizes) slot_count = std::min(slot_count, size);

  owner_ranks_.assign(static_cast<std::size_t>(slot_count * hosts), -1);
  for (std::size_t rank = 0; rank < ranks; ++rank)
    if (slot_of[rank] < slot_count)
      owner_ranks_[static_cast<std::size_t>(slot_of[rank] * hosts + host_of[rank])] = static_cast<int>(rank);
    else slot_of[rank] = -1;
  Hop &within = hops_[0], &between = hops_[1];
  two_levels_ = true;
  within.stride = between.fan_out = hosts;
  within.fan_out = slot_count;
  describe(within, host_of, meets);
  describe(between, slot_of, meets);

  auto const self = static_cast<std::size_t>(rank_);
  int const host = host_of[self], slot = slot_of[self];
  for (int other = 0; other < slot_count; ++other) within.targets.push_back(owner_rank(other * hosts + host));
  if (slot >= 0) {
    within.self = slot;
    for (std::size_t rank = 0; rank < ranks; ++rank)
      if (host_of[rank] == host) within.sources.push_back(static_cast<int>(rank));
    between.self = host;
    between.base = slot * hosts;
    for (int other = 0; other < hosts; ++other) between.targets.push_back(owner_rank(between.base + other));
    between.sources = between.targets;
  }
  lay_out_direct(meets);
}

}  // namespace parallax
