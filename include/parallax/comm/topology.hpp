// The ranks' ways to the owners of data: the world, and the hops of an exchange from a rank to an owner. A trainer makes a
// Topology for its session; lanes, mails and ways ask the topology.
#pragma once

#include <cstddef>
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/function_ref.hpp"
#include "parallax/detail/core/list.hpp"

namespace parallax::inline v0_2 {

// One hop of an exchange, seen from one rank. The rank hands the data of owners [base + t·stride, base + (t+1)·stride) to rank
// targets[t], and, if it is a target itself, receives its share from every rank of `sources`, in the order of sums.
struct Hop {
  List<int> targets;  // world ranks, by digit of the owner; empty on a rank without a part in this hop
  List<int> sources;  // world ranks sending here, ascending; empty on all ranks but targets
  // The first owner served by this hop.
  int base = 0, stride = 1;  // owners served by one target
  int self = -1;             // this rank's digit, its position in `targets`; -1 when it is none
  // Of all groups of ranks in this hop, and so alike on every rank of the world, also on ranks without a part in it:
  int fan_out = 1;         // targets in each
  bool in_memory = false;  // they share memory
  bool lends = false;      // they lend each other their memory
};

// Dedicated servers: the first `count` ranks of a world own everything, and no other rank owns anything.
struct Servers {
  // From 1 to the number of ranks.
  int count = 1;
};

// The owners among the ranks, and the hops by which all ranks reach them.
class RankLayout {
 public:
  // Returns this rank's number in the world, from 0.
  int rank() const { return rank_; }
  // Returns the number of ranks of the world, servers too.
  int size() const { return size_; }
  // Returns the number of owners, the same on every rank: at least 1, at most the number of ranks.
  int owners() const { return static_cast<int>(owner_ranks_.size()); }
  int owner() const { return owner_; }  // this rank's owner number, -1 if it owns nothing
  // Returns the world rank of owner number `owner`, from 0 to owners() - 1.
  int owner_rank(int owner) const { return owner_ranks_[static_cast<std::size_t>(owner)]; }
  // Returns the hops from a rank to every owner: one, or one within a host and then one between hosts. Data coming back takes
  // them in the opposite order. Valid as long as the topology lives and does not move.
  Slice<Hop const> hops() const { return two_levels_ ? Slice<Hop const>{hops_, 2} : direct(); }
  Slice<Hop const> direct() const { return {&direct_, 1}; }  // one hop from every rank to every owner, past all hosts
  // Returns by rank the number of its host, any number. Unless declared, every rank is a host of its own.
  std::vector<int> const& hosts() const { return hosts_; }
  // Returns true if there is one hop and some ranks own nothing, as with dedicated servers.
  bool serves() const { return !two_levels_ && owners() < size(); }
  // Returns true if all ranks lend each other their memory: owners may then write sums to their final places.
  bool spreads() const { return size() > 1 && !two_levels_ && owners() == size() && direct_.lends; }
  // Returns true if rank `rank` and this one are of one declared host: bytes between them do not count as crossing.
  bool same_host(int rank) const { return hosts_[static_cast<std::size_t>(rank)] == hosts_[static_cast<std::size_t>(rank_)]; }

 protected:
  // The questions that a topology asks its communicator about two ranks.
  struct Meets {
    // True if they share memory. Asked only while the layout is made.
    FunctionRef<bool(int, int)> in_memory, lends;  // true if they lend their memory to each other
  };

  // Begins without owners: a `lay_out` follows at once.
  RankLayout(int rank, int size) : rank_{rank}, size_{size} {}
  // Copies and moves carry the whole layout. They are written out to be compiled once.
  RankLayout(RankLayout const&);
  // Takes the layout over. `other` has no owners then, and is only to be assigned to or destroyed.
  RankLayout(RankLayout&&) noexcept;
  // Replaces ranks, hosts, owners and hops together.
  RankLayout& operator=(RankLayout const&);
  // Replaces ranks, hosts, owners and hops by those of `other`, which is left without.
  RankLayout& operator=(RankLayout&&) noexcept;
  ~RankLayout();
  // Local. Lays out one hop: every rank owns, and is a host of its own.
  void lay_out_flat(Meets const& meets);
  // Local. Makes the first `count` ranks owners. Throws Error (invalid_argument) unless it is from 1 to `size`.
  void lay_out(Servers servers, Meets const& meets);
  // Local. Lays out two levels over these hosts. Throws Error (invalid_argument) unless there is one number for each rank.
  void lay_out(std::vector<int> hosts, Meets const& meets);

 private:
  // Sets `in_memory` and `lends` of a hop, by all of its groups. `group_of`: by rank, -1 for a rank without a part in it.
  void describe(Hop& hop, List<int> const& group_of, Meets const& meets);
  // Lays out the one hop from every rank to every owner: the only one of a flat layout, and `direct` of two levels.
  void lay_out_direct(Meets const& meets);
  // Lays out the two hops of `hosts_`, then the direct one. Ranks of a host get slots in ascending order.
  void lay_out_levels(Meets const& meets);

  // This rank, and the number of ranks.
  int rank_, size_;
  // By rank: its host. By owner: its rank.
  std::vector<int> hosts_;
  List<int> owner_ranks_;
  Hop hops_[2];  // of two levels
  // From every rank to every owner at once.
  Hop direct_;
  bool two_levels_ = false;
  // Of this rank; -1: it owns nothing.
  int owner_ = -1;
};

// World + hops. Flat: one hop, every rank owns. Two levels: ranks of a host hand the data of slot j to their rank j, equal
// slots of all hosts exchange; owner = slot · hosts + host. Hosts may be unequal: the smallest one's rank count is the number
// of slots, further ranks own nothing. Refers to the communicator, which must outlive it; declared alike on all ranks (checked
// with the first agreement of a session). Making a topology is local.
template <Communicator C>
class Topology : public RankLayout {
 public:
  // Local. Makes a flat topology: every rank owns, and exchanges directly with every other.
  explicit Topology(C& world) : RankLayout{world.rank(), world.size()}, world_{&world} {
    meeting([&](Meets const& meets) { lay_out_flat(meets); });
  }

  // Local. Lets servers alone own; one hop. They have no data of their own: they go along by `Session::join` from the first
  // step. Throws Error (invalid_argument) unless there are from 1 to `size` of them.
  Topology(C& world, Servers servers) : RankLayout{world.rank(), world.size()}, world_{&world} {
    meeting([&](Meets const& meets) { lay_out(servers, meets); });
  }

  // Local. Makes two levels. `hosts[r]`: the host of rank r, by any number; hosts are ordered by their first rank. Throws Error
  // (invalid_argument) unless there is one number for each rank. All ranks give the same list.
  Topology(C& world, std::vector<int> hosts) : RankLayout{world.rank(), world.size()}, world_{&world} {
    meeting([&](Meets const& meets) { lay_out(std::move(hosts), meets); });
  }

  // Local. Copies ranks, hosts and hops of `like` for another communicator of the same ranks, mostly a session's edge.
  template <Communicator Other>
  Topology(C& world, Topology<Other> const& like) : RankLayout{like}, world_{&world} {}

  // Returns the communicator for all exchanges of this topology; not owned.
  C& world() const { return *world_; }
  // Returns true if ranks read each other's memory by its address, the same on every rank: not if a device's is carried too.
  bool reads_in_place() const { return reads_in_place_; }

 private:
  // Calls `f` with the communicator's answers on shared and lent memory; by default, no two ranks have any.
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
  bool reads_in_place_ = !CarriesDevice<C> && parallax::reads_in_place(*world_);
};

}  // namespace parallax

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/comm/topology-inl.hpp"
#endif
