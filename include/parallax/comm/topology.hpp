// How ranks reach the owners of data: the world, and the hops of an exchange from a rank to an owner.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/core/algorithm.hpp"

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

// World + hops. Flat: one hop, every rank owns. Two levels: ranks of a host hand what slot j owns to their rank j, equal slots
// of all hosts exchange; owner = slot · hosts + host. Hosts may be unequal: the smallest one's rank count is the number of
// slots, further ranks own nothing. Refers to the communicator, which must outlive it; declared alike on all ranks (checked
// with the first agreement of a session). Making a topology is local.
template <Communicator C>
class Topology {
 public:
  explicit Topology(C& world) : world_{&world}, hosts_(static_cast<std::size_t>(world.size()), 0) {
    for (int rank = 0; rank < world.size(); ++rank) {
      owner_ranks_.push_back(rank);
      hosts_[static_cast<std::size_t>(rank)] = rank;  // nothing declared: every byte counts as crossing
    }
    finish({flat_hop()});
  }

  // Only servers own; one hop. They have no data of their own: they go along by `Session::join` from the first step. Throws Error
  // (invalid_argument) unless there are from 1 to `size` of them.
  Topology(C& world, Servers servers) : Topology{world} {
    if (servers.count < 1 || servers.count > world.size())
      throw Error{Errc::invalid_argument, world.rank(), "Topology", "",
                  std::to_string(servers.count) + " servers given for " + std::to_string(world.size()) + " ranks"};
    owner_ranks_.resize(static_cast<std::size_t>(servers.count));
    finish({flat_hop()});
  }

  // `hosts[r]` is the host of rank r: any numbers; hosts are ordered by their first rank.
  Topology(C& world, std::vector<int> hosts) : world_{&world}, hosts_{std::move(hosts)} {
    if (hosts_.size() != static_cast<std::size_t>(world.size()))
      throw Error{Errc::invalid_argument, world.rank(), "Topology", "",
                  std::to_string(hosts_.size()) + " hosts given for " + std::to_string(world.size()) + " ranks"};
    two_levels();
  }

  // The same ranks, hosts and hops by another communicator of those ranks. Local.
  template <Communicator Other>
  Topology(C& world, Topology<Other> const& like)
      : world_{&world},
        hosts_{like.hosts_},
        owner_ranks_{like.owner_ranks_},
        hops_{like.hops_},
        direct_{like.direct_},
        owner_{like.owner_} {}

  C& world() const { return *world_; }
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
  bool same_host(int rank) const {
    return hosts_[static_cast<std::size_t>(rank)] == hosts_[static_cast<std::size_t>(world_->rank())];
  }

 private:
  template <Communicator>
  friend class Topology;

  // Tells a hop how each of its groups meets.
  void describe(Hop& hop, std::vector<std::vector<int>> const& groups) const {
    auto const everywhere = [&](auto&& holds) {
      return std::all_of(groups.begin(), groups.end(), [&](std::vector<int> const& ranks) {
        return std::all_of(ranks.begin(), ranks.end(), [&](int rank) { return holds(ranks.front(), rank); });
      });
    };
    if constexpr (KnowsSharedMemory<C>)
      hop.in_memory = everywhere([&](int one, int other) { return world_->shares_memory(one, other); });
    if constexpr (LendsMemory<C>)
      hop.lends = everywhere([&](int one, int other) { return world_->lends(one, other); });
  }

  Hop flat_hop() const {
    Hop hop;
    hop.targets = owner_ranks_;
    std::vector<int> everyone;
    for (int rank = 0; rank < world_->size(); ++rank) everyone.push_back(rank);
    hop.group = owners();
    describe(hop, {everyone});
    auto const mine = std::find(owner_ranks_.begin(), owner_ranks_.end(), world_->rank());
    if (mine == owner_ranks_.end()) return hop;
    hop.self = static_cast<int>(mine - owner_ranks_.begin());
    hop.sources = std::move(everyone);
    return hop;
  }

  void finish(std::vector<Hop> hops) {
    direct_ = {flat_hop()};
    owner_ = direct_.front().self;
    hops_ = std::move(hops);
  }

  void two_levels() {
    std::vector<int> names;                // hosts in order of their first rank
    std::vector<std::vector<int>> ranks;   // of each host
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
    describe(within, ranks);
    std::vector<std::vector<int>> equals(slots);  // the ranks of each slot
    for (std::size_t slot = 0; slot < slots; ++slot)
      for (auto const& of_host : ranks) {
        equals[slot].push_back(of_host[slot]);
        owner_ranks_.push_back(of_host[slot]);
      }
    describe(between, equals);
    for (int host = 0; host < host_count; ++host) {
      auto const& of_host = ranks[static_cast<std::size_t>(host)];
      auto const mine = std::find(of_host.begin(), of_host.end(), rank());
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
    finish({within, between});
  }

  C* world_;
  int rank_ = world_->rank(), size_ = world_->size();
  std::vector<int> hosts_, owner_ranks_;
  std::vector<Hop> hops_;
  std::vector<Hop> direct_;
  int owner_ = -1;
};

}  // namespace parallax
