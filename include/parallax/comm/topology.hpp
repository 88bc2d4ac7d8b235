// How ranks reach the owners of data: the world, and the hops of an exchange from a rank to an owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/core/algorithm.hpp"
#include "parallax/core/function_ref.hpp"

namespace parallax {

// One hop of an exchange, seen from one rank. The rank hands what belongs to owners [base + t·stride, base + (t+1)·stride) to
// rank targets[t], and, if it is a target itself, receives its share from every rank of `sources`, in the order of sums.
struct Hop {
  std::vector<int> targets;  // world ranks, by digit of the owner; empty on a rank that takes no part in this hop
  std::vector<int> sources;  // world ranks that send here, ascending; empty on a rank that is no target
  int base = 0, stride = 1;
  int self = -1;  // this rank's digit, its position in `targets`; -1 when it is none
  // Of all groups of ranks that meet in it, and so alike on every rank of the world, also on those that take no part:
  int group = 1;           // targets in each
  bool in_memory = false;  // they share memory
  bool lends = false;      // they lend each other their memory
};

// Dedicated servers: the first `count` ranks of a world own everything, and no other rank owns anything.
struct Servers {
  int count = 1;
};

// Which ranks own, and by which hops the others reach them.
class RankLayout {
 public:
  int rank() const { return rank_; }
  int size() const { return size_; }
  int owners() const { return static_cast<int>(owner_ranks_.size()); }
  int owner() const { return owner_; }  // this rank's owner number, -1 if it owns nothing
  int owner_rank(int owner) const { return owner_ranks_[static_cast<std::size_t>(owner)]; }
  std::vector<Hop> const& hops() const { return hops_; }
  std::vector<Hop> const& direct() const { return direct_; }  // one hop from every rank to every owner, past all hosts
  std::vector<int> const& hosts() const { return hosts_; }
  // Whether ranks of one hop own nothing, as where servers are dedicated.
  bool serves() const { return hops_.size() == 1 && owners() < size(); }
  // Whether all ranks lend each other their memory, so that owners may write sums to where they are needed.
  bool spreads() const { return size() > 1 && hops_.size() == 1 && owners() == size() && hops_[0].lends; }
  bool same_host(int rank) const { return hosts_[static_cast<std::size_t>(rank)] == hosts_[static_cast<std::size_t>(rank_)]; }

 protected:
  // Of two ranks, whether they share memory, and whether they lend it.
  struct Meets {
    FunctionRef<bool(int, int)> in_memory, lends;
  };

  RankLayout(int rank, int size) : rank_{rank}, size_{size} {}
  RankLayout(RankLayout const&);
  RankLayout(RankLayout&&) noexcept;
  RankLayout& operator=(RankLayout const&);
  RankLayout& operator=(RankLayout&&) noexcept;
  ~RankLayout();
  void lay_out_flat(Meets const& meets);
  void lay_out(Servers servers, Meets const& meets);
  void lay_out(std::vector<int> hosts, Meets const& meets);

 private:
  // Tells a hop how each of its groups meets.
  static void describe(Hop& hop, std::vector<std::vector<int>> const& groups, Meets const& meets);
  Hop flat_hop(Meets const& meets) const;
  void finish(std::vector<Hop> hops, Meets const& meets);
  void two_levels(Meets const& meets);

  int rank_, size_;
  std::vector<int> hosts_, owner_ranks_;
  std::vector<Hop> hops_;
  std::vector<Hop> direct_;
  int owner_ = -1;
};

// World + hops. Flat: one hop, every rank owns. Two levels: ranks of a host hand what slot j owns to their rank j, equal slots
// of all hosts exchange; owner = slot · hosts + host. Hosts may be unequal: the smallest one's rank count is the number of
// slots, further ranks own nothing. Refers to the communicator, which must outlive it; declared alike on all ranks (checked
// with the first agreement of a session). Making a topology is local.
template <Communicator C>
class Topology : public RankLayout {
 public:
  explicit Topology(C& world) : RankLayout{world.rank(), world.size()}, world_{&world} {
    meeting([&](Meets const& meets) { lay_out_flat(meets); });
  }

  // Only servers own; one hop. They have no data of their own: they go along by `Session::join` from the first step. Throws Error
  // (invalid_argument) unless there are from 1 to `size` of them.
  Topology(C& world, Servers servers) : RankLayout{world.rank(), world.size()}, world_{&world} {
    meeting([&](Meets const& meets) { lay_out(servers, meets); });
  }

  // `hosts[r]` is the host of rank r: any numbers; hosts are ordered by their first rank.
  Topology(C& world, std::vector<int> hosts) : RankLayout{world.rank(), world.size()}, world_{&world} {
    meeting([&](Meets const& meets) { lay_out(std::move(hosts), meets); });
  }

  // The same ranks, hosts and hops by another communicator of those ranks. Local.
  template <Communicator Other>
  Topology(C& world, Topology<Other> const& like) : RankLayout{like}, world_{&world} {}

  C& world() const { return *world_; }

 private:
  template <class F>
  void meeting(F&& f) const {
    auto const in_memory = [&]([[maybe_unused]] int one, [[maybe_unused]] int other) {
      if constexpr (KnowsSharedMemory<C>) return static_cast<bool>(world_->shares_memory(one, other));
      else return false;
    };
    auto const lends = [&]([[maybe_unused]] int one, [[maybe_unused]] int other) {
      if constexpr (LendsMemory<C>) return static_cast<bool>(world_->lends(one, other));
      else return false;
    };
    f(Meets{in_memory, lends});
  }

  C* world_;
};

#if PARALLAX_BODIES
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
  finish({flat_hop(meets)}, meets);
}

PARALLAX_INLINE void RankLayout::lay_out(Servers servers, Meets const& meets) {
  if (servers.count < 1 || servers.count > size_)
    throw Error{Errc::invalid_argument, rank_, "Topology", "", joined({servers.count, " servers given for ", size_, " ranks"})};
  for (int rank = 0; rank < size_; ++rank) {
    if (rank < servers.count) owner_ranks_.push_back(rank);
    hosts_.push_back(rank);
  }
  finish({flat_hop(meets)}, meets);
}

PARALLAX_INLINE void RankLayout::lay_out(std::vector<int> hosts, Meets const& meets) {
  if (hosts.size() != static_cast<std::size_t>(size_))
    throw Error{Errc::invalid_argument, rank_, "Topology", "", joined({hosts.size(), " hosts given for ", size_, " ranks"})};
  hosts_ = std::move(hosts);
  two_levels(meets);
}

PARALLAX_INLINE void RankLayout::describe(Hop& hop, std::vector<std::vector<int>> const& groups, Meets const& meets) {
  auto const everywhere = [&](FunctionRef<bool(int, int)> holds) {
    for (auto const& ranks : groups)
      for (int const rank : ranks)
        if (!holds(ranks.front(), rank)) return false;
    return true;
  };
  hop.in_memory = everywhere(meets.in_memory);
  hop.lends = everywhere(meets.lends);
}

PARALLAX_INLINE Hop RankLayout::flat_hop(Meets const& meets) const {
  Hop hop;
  hop.targets = owner_ranks_;
  std::vector<int> everyone;
  for (int rank = 0; rank < size_; ++rank) everyone.push_back(rank);
  hop.group = owners();
  describe(hop, {everyone}, meets);
  auto const mine = std::find(owner_ranks_.begin(), owner_ranks_.end(), rank_);
  if (mine == owner_ranks_.end()) return hop;
  hop.self = static_cast<int>(mine - owner_ranks_.begin());
  hop.sources = std::move(everyone);
  return hop;
}

PARALLAX_INLINE void RankLayout::finish(std::vector<Hop> hops, Meets const& meets) {
  direct_ = {flat_hop(meets)};
  owner_ = direct_.front().self;
  hops_ = std::move(hops);
}

PARALLAX_INLINE void RankLayout::two_levels(Meets const& meets) {
  std::vector<int> names;               // hosts in order of their first rank
  std::vector<std::vector<int>> ranks;  // of each host
  for (int other = 0; other < size(); ++other) {
    auto const at = std::find(names.begin(), names.end(), hosts_[static_cast<std::size_t>(other)]);
    auto const host = static_cast<std::size_t>(at - names.begin());
    if (at == names.end()) {
      names.push_back(hosts_[static_cast<std::size_t>(other)]);
      ranks.emplace_back();
    }
    ranks[host].push_back(other);
  }
  auto const host_count = static_cast<int>(names.size());
  std::size_t slots = ranks[0].size();
  for (auto const& of_host : ranks) slots = std::min(slots, of_host.size());
  Hop within, between;
  within.stride = between.group = host_count;
  within.group = static_cast<int>(slots);
  describe(within, ranks, meets);
  std::vector<std::vector<int>> equals(slots);  // the ranks of each slot
  for (std::size_t slot = 0; slot < slots; ++slot)
    for (auto const& of_host : ranks) {
      equals[slot].push_back(of_host[slot]);
      owner_ranks_.push_back(of_host[slot]);
    }
  describe(between, equals, meets);
  for (int host = 0; host < host_count; ++host) {
    auto const& of_host = ranks[static_cast<std::size_t>(host)];
    auto const mine = std::find(of_host.begin(), of_host.end(), rank_);
    if (mine == of_host.end()) continue;
    auto const slot = static_cast<std::size_t>(mine - of_host.begin());
    within.targets.assign(of_host.begin(), of_host.begin() + static_cast<std::ptrdiff_t>(slots));
    if (slot >= slots) continue;
    within.self = static_cast<int>(slot);
    within.sources = of_host;
    between.self = host;
    between.base = static_cast<int>(slot) * host_count;
    between.targets = between.sources = equals[slot];
  }
  finish({within, between}, meets);
}
#endif

}  // namespace parallax
