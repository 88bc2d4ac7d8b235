// Records of ranks that find each other's memory by its address, told in an agreement in place of later traffic. Journeys tell
// and read them, if the communicator `ReadsInPlace`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/kernel/row_ops.hpp"
#include "parallax/detail/memory/buffer.hpp"

namespace parallax::inline v0_2 {

// A guard: while it lives, this rank reads the memory of others, told in an agreement, and no abort takes the memory away.
template <class C>
class Reading {
 public:
  // Begins reading. Local. `world` must outlive the guard. Throws the reason of an earlier abort.
  explicit Reading(C& world) : world_{&world} { world.begin_reading(); }
  Reading(Reading const&) = delete;
  ~Reading() { world_->end_reading(); }

 private:
  C* world_;
};

// Does not own. A run of one rank's keys, told to an owner by each rank.
template <class Index>
struct LentKeys {
  // Ascending, as many as `count`.
  Index const* keys = nullptr;
  // Number of keys, and of the rows that go with them.
  std::size_t count = 0;
};
// Does not own. A run of one rank's keys with the rows that it pushes for them, told to an owner.
template <class Index, class T>
struct LentRun : LentKeys<Index> {
  // A row for each key.
  LentRows<T> rows;
  std::uint32_t const* times = nullptr;  // by key, the number of indices that named it; null if rows are not counted
};

// Takes back memory that others have read, before it is written, local: a byte of each line is written at once, and its
// contents are lost. So the lines are this core's at their use; a prefetch for writing leaves lines alone that the core has
// read (measured on a Zen 4). Of more than some pages nothing is gained.
[[gnu::noinline]] inline void take_back(void* memory, std::size_t bytes) {
  constexpr std::size_t line = 64, most = 8192;
  for (std::size_t at = 0; at < std::min(bytes, most); at += line) static_cast<char volatile*>(memory)[at] = 0;
}
// Takes back all elements of a buffer, as the overload above does with bytes.
template <class T>
void take_back(Buffer<T>& memory) {
  take_back(memory.data(), memory.size() * sizeof(T));
}

// Returns the address of a record as a number for another rank, 0 for null. The record must stay until all have read it.
template <class Record>
std::uint64_t address_of(Record const* record) {
  return reinterpret_cast<std::uintptr_t>(record);
}
// Returns the record at an address told by its rank, which owns it; null for 0. Asks for its line: it is read soon.
template <class Record>
Record const* record_at(std::uint64_t address) {
  auto const* const record = reinterpret_cast<Record const*>(static_cast<std::uintptr_t>(address));
  __builtin_prefetch(record);
  return record;
}

}  // namespace parallax
