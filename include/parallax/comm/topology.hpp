// The ranks' ways to the owners of data: the world, and the hops of an exchange from a rank to an owner. A trainer makes a
// Topology for its session; lanes, mails and ways ask the topology.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/function_ref.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/slice.hpp"

namespace parallax {

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

// The owners among the ranks, and the hops by which the others reach them.
class RankLayout {
 public:
  // This rank's number in the world.
  int rank() const { return rank_; }
  // Ranks of the world, servers too.
  int size() const { return size_; }
  // Number of owners, the same on every rank: at least 1, at most the number of ranks.
  int owners() const { return static_cast<int>(owner_ranks_.size()); }
  int owner() const { return owner_; }  // this rank's owner number, -1 if it owns nothing
  // The world rank of owner number `owner`, from 0 to owners() - 1.
  int owner_rank(int owner) const { return owner_ranks_[static_cast<std::size_t>(owner)]; }
  // The way from a rank to every owner: one hop, or one within a host and then one between hosts. Data coming back takes them
  // in the opposite order. Valid as long as the topology lives and does not move.
  Slice<Hop const> hops() const { return two_levels_ ? Slice<Hop const>{hops_, 2} : direct(); }
  Slice<Hop const> direct() const { return {&direct_, 1}; }  // one hop from every rank to every owner, past all hosts
  // By rank: its host, by any number. Unless declared, every rank is a host of its own.
  std::vector<int> const& hosts() const { return hosts_; }
  // True if ranks of one hop own nothing, as with dedicated servers.
  bool serves() const { return !two_levels_ && owners() < size(); }
  // True if all ranks lend each other their memory: owners may then write sums to their final places.
  bool spreads() const { return size() > 1 && !two_levels_ && owners() == size() && direct_.lends; }
  // True if that rank and this one are of one declared host: bytes between them do not count as crossing.
  bool same_host(int rank) const { return hosts_[static_cast<std::size_t>(rank)] == hosts_[static_cast<std::size_t>(rank_)]; }

 protected:
  // The questions that a topology asks its communicator about two ranks.
  struct Meets {
    // True if they share memory. Asked only while the layout is made.
    FunctionRef<bool(int, int)> in_memory, lends;  // true if they lend it, likewise
  };

  // No owners yet: one of the `lay_out` follows at once.
  RankLayout(int rank, int size) : rank_{rank}, size_{size} {}
  // Copies and moves carry the whole layout. They are written out to be compiled once.
  RankLayout(RankLayout const&);
  // Leaves `other` without owners; it is only to be assigned to or destroyed.
  RankLayout(RankLayout&&) noexcept;
  // Replaces ranks, hosts, owners and hops together.
  RankLayout& operator=(RankLayout const&);
  // As the copy; takes the lists over.
  RankLayout& operator=(RankLayout&&) noexcept;
  ~RankLayout();
  // Local. Every rank owns, and is a host of its own.
  void lay_out_flat(Meets const& meets);
  // Local. Makes the first `count` ranks owners. Error (invalid_argument) unless it is from 1 to `size`.
  void lay_out(Servers servers, Meets const& meets);
  // Local. Two levels over these hosts, one number for each rank (else Error invalid_argument).
  void lay_out(std::vector<int> hosts, Meets const& meets);

 private:
  // Tells a hop how each of its groups meets. `group_of`: by rank, -1 for a rank without a part in it.
  void describe(Hop& hop, List<int> const& group_of, Meets const& meets);
  // The one hop from every rank to every owner: the only one of a flat layout, and `direct` of two levels.
  void lay_out_direct(Meets const& meets);
  // The two hops of `hosts_`, then the direct one. Ranks of a host get slots in ascending order.
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
  // Flat: every rank owns, and exchanges directly with every other.
  explicit Topology(C& world) : RankLayout{world.rank(), world.size()}, world_{&world} {
    meeting([&](Meets const& meets) { lay_out_flat(meets); });
  }

  // Only servers own; one hop. They have no data of their own: they go along by `Session::join` from the first step. Throws
  // Error (invalid_argument) unless there are from 1 to `size` of them.
  Topology(C& world, Servers servers) : RankLayout{world.rank(), world.size()}, world_{&world} {
    meeting([&](Meets const& meets) { lay_out(servers, meets); });
  }

  // `hosts[r]` is the host of rank r: any numbers; hosts are ordered by their first rank.
  // Two levels. Throws Error (invalid_argument) unless there is one number for each rank. All ranks give the same list.
  Topology(C& world, std::vector<int> hosts) : RankLayout{world.rank(), world.size()}, world_{&world} {
    meeting([&](Meets const& meets) { lay_out(std::move(hosts), meets); });
  }

  // Local. Takes the ranks, hosts and hops over to another communicator of these ranks, mostly a session's edge.
  template <Communicator Other>
  Topology(C& world, Topology<Other> const& like) : RankLayout{like}, world_{&world} {}

  // The communicator for all exchanges of this topology.
  C& world() const { return *world_; }
  // True if its ranks read each other's memory by its address, the same on every rank. Not if a device's memory is carried too.
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
#endif

}  // namespace parallax
