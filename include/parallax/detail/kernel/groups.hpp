// Keys grouped by value, on either side, and the groups' places for the host and for the operations of a space. Plans hold them
// for each level, and ways for merged keys.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "parallax/detail/kernel/host.hpp"

namespace parallax::inline v0_2 {

// The groups of the keys of a batch, of arrivals, or of merged keys; owns them. They are made in the keys' memory, and the
// other side has a copy once it asks for one. Specialised here for the host, with both sides in one, and for a device in
// detail/kernel/cuda/groups.hpp. Users of groups in a space of any kind know of them:
//   group_here(ops, keys, bound, scratch)      of keys in [0, bound) in the host's memory
//   group(ops, keys, count, bound, scratch)    of keys in memory of the space
//   size() · count()                           number of distinct keys, perhaps after a wait for a device · of all keys
//   most()                                     no less than size(), and never waited for
//   here() · keys_here()                       the Grouping, or its keys alone, in the host's memory
//   there(ops) · keys_there(ops)               the Grouping for operations in the space, and the keys' address
//   named()                                    a reference to the distinct keys, of type Keys: ReducedRows has one
//   drop_last()                                the last of the keys, grouped here, is none
template <class Index, MemorySpace Space>
class Groups;

// In the host's memory: a Grouping.
template <class Index>
class Groups<Index, HostSpace> : public Grouping<Index> {
 public:
  // A view of the distinct keys, valid until other keys are grouped.
  using Keys = std::span<Index const>;

  // Local. Groups keys in [0, bound) and forgets earlier groups; the memory stays. Throws as unique_with_inverse does.
  void group_here(RowOps<HostSpace> const&, std::span<Index const> given, std::int64_t bound, SortScratch<Index>& scratch) {
    RowOps<HostSpace>::unique_with_inverse(given, bound, *this, scratch);
  }
  // Groups the n keys from `first` on, as group_here does.
  void group(RowOps<HostSpace> const& ops, Index const* first, std::size_t n, std::int64_t bound, SortScratch<Index>& scratch) {
    group_here(ops, {first, n}, bound, scratch);
  }
  // Groups keys in ascending runs as group_here does: run r is [begins[r], begins[r + 1]), and begins.back() is their number.
  void group_runs(RowOps<HostSpace> const&, Index const* first, std::span<std::size_t const> begins, std::int64_t bound,
                  SortScratch<Index>& scratch) {
    RowOps<HostSpace>::unique_with_inverse({first, begins.back()}, bound, *this, scratch, begins);
  }
  // Drops the greatest distinct key, of which there is one, for indices that take no part: its run stays in `order`.
  void drop_last() { this->keys.resize(this->keys.size() - 1); }

  // Returns the number of distinct keys.
  std::size_t most() const { return this->size(); }
  // Returns itself.
  Grouping<Index> const& here() const { return *this; }
  // Returns itself.
  Grouping<Index> const& there(RowOps<HostSpace> const&) const { return *this; }
  // Returns the distinct keys, ascending, valid until other keys are grouped.
  Keys keys_here() const { return this->keys.span(); }
  // Returns the address of the distinct keys, ascending.
  Index const* keys_there(RowOps<HostSpace> const&) const { return this->keys.data(); }
  // Returns the distinct keys, ascending, valid until other keys are grouped.
  Keys named() const { return keys_here(); }
};

// Returns the number of distinct keys, or, unknown on a device, one not below it; nothing is waited for. `keys`: from `named`.
template <class Keys>
std::size_t most_of(Keys const& keys) {
  if constexpr (requires { keys.most(); }) return keys.most();
  else return keys.size();
}
// Returns a view of the keys in the host's memory, owned by their groups. A device's are brought, and waited for, once.
template <class Keys>
auto keys_here(Keys const& keys) {
  if constexpr (requires { keys.here(); }) return keys.here();
  else return keys;
}

// Returns a view of the keys in memory of the space, owned by their groups: of a device's, most_of(keys) places, keys first.
template <class Ops, class Keys>
auto keys_there([[maybe_unused]] Ops const& ops, Keys const& keys) {
  if constexpr (requires { keys.there(ops); }) return keys.there(ops);
  else return keys;
}

}  // namespace parallax
