// Keys grouped by value, wherever that was done, and where the host and the operations of a space find the groups. Plans hold
// them for each level, and ways for what they merge.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "parallax/detail/kernel/host.hpp"

namespace parallax::inline v0_2 {

// Owns. The groups of the keys of a batch, of what has arrived, or of what is merged. They are made where the keys are, and the
// other side has a copy once it asks for one. Specialised here for the host, where both sides are one, and for a device in
// detail/kernel/cuda/groups.hpp. Whoever uses groups in a space of any kind knows of them:
//   group_here(ops, keys, bound, scratch)      of keys in [0, bound) that lie in the host's memory
//   group(ops, keys, count, bound, scratch)    of keys that lie in memory of the space
//   size() · count()                           distinct keys · keys; a device may have to be waited for
//   most()                                     no less than size(), and never waited for
//   here() · keys_here()                       the Grouping, or its keys alone, in the host's memory
//   there(ops) · keys_there(ops)               what operations in the space take for a Grouping, and the keys' address
//   named()                                    a reference to the distinct keys, of type Keys: ReducedRows has one
//   drop_last()                                the last of the keys, grouped here, is none
template <class Index, MemorySpace Space>
class Groups;

// In the host's memory: a Grouping.
template <class Index>
class Groups<Index, HostSpace> : public Grouping<Index> {
 public:
  // What refers to the keys, as long as they stay.
  using Keys = std::span<Index const>;

  // Local. Groups keys; what was grouped before is forgotten, and the memory stays.
  void group_here(RowOps<HostSpace> const&, std::span<Index const> given, std::int64_t bound, SortScratch<Index>& scratch) {
    RowOps<HostSpace>::unique_with_inverse(given, bound, *this, scratch);
  }
  // The same.
  void group(RowOps<HostSpace> const& ops, Index const* first, std::size_t n, std::int64_t bound, SortScratch<Index>& scratch) {
    group_here(ops, {first, n}, bound, scratch);
  }
  // The same of keys that are runs in ascending order, of which run r begins at position begins[r] and the last ends at the end.
  void group_runs(RowOps<HostSpace> const&, Index const* first, std::span<std::size_t const> begins, std::int64_t bound,
                  SortScratch<Index>& scratch) {
    RowOps<HostSpace>::unique_with_inverse({first, begins.back()}, bound, *this, scratch, begins);
  }
  // The last key stands for indices that take no part: it is none of the distinct ones, and its run stays in `order`.
  void drop_last() { this->keys.resize(this->keys.size() - 1); }

  // The number of distinct keys.
  std::size_t most() const { return this->size(); }
  // Itself.
  Grouping<Index> const& here() const { return *this; }
  // Itself.
  Grouping<Index> const& there(RowOps<HostSpace> const&) const { return *this; }
  // The distinct keys, ascending.
  Keys keys_here() const { return this->keys.span(); }
  // The first of them.
  Index const* keys_there(RowOps<HostSpace> const&) const { return this->keys.data(); }
  // The distinct keys, ascending.
  Keys named() const { return keys_here(); }
};

// At most so many keys are referred to, in the host's memory all of them; nothing is waited for.
template <class Keys>
std::size_t most_of(Keys const& keys) {
  if constexpr (requires { keys.most(); }) return keys.most();
  else return keys.size();
}
// The keys that are referred to, in the host's memory. From a device they are brought at the first call.
template <class Keys>
auto keys_here(Keys const& keys) {
  if constexpr (requires { keys.here(); }) return keys.here();
  else return keys;
}

// The same in memory of the space.
template <class Ops, class Keys>
auto keys_there([[maybe_unused]] Ops const& ops, Keys const& keys) {
  if constexpr (requires { keys.there(ops); }) return keys.there(ops);
  else return keys;
}

}  // namespace parallax
