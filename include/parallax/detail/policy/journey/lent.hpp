// What ranks that find each other's memory by its address tell each other in an agreement, in place of what would travel after it.
// Journeys tell it and read it, where the communicator `ReadsInPlace`.
#pragma once

#include <cstddef>
#include <cstdint>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/kernel/row_ops.hpp"
#include "parallax/detail/memory/buffer.hpp"

namespace parallax::inline v0_2 {

// While it lives, this rank reads what others have told: no abort takes it away. Throws the reason of an abort before.
template <class C>
class Reading {
 public:
  // `world` must outlive it.
  explicit Reading(C& world) : world_{&world} { world.begin_reading(); }
  Reading(Reading const&) = delete;
  ~Reading() { world_->end_reading(); }

 private:
  C* world_;
};

// Does not own. A run of one rank's keys: what an owner is told by each rank.
template <class Index>
struct LentKeys {
  // Ascending, as many as `count`.
  Index const* keys = nullptr;
  // Of keys, and of the rows that go with them.
  std::size_t count = 0;
};
// The same with the rows that it pushes for them.
template <class Index, class T>
struct LentRun : LentKeys<Index> {
  // A row for each key.
  LentRows<T> rows;
  std::uint32_t const* times = nullptr;  // how many indices named each key; null where rows are not counted
};

// Local. Others have read this memory, and it is going to be written: a byte of each line is written at once, what it holds is lost.
// So the lines are this core's when they are needed; a prefetch for writing leaves those that the core has read alone (measured on
// a Zen 4). Of more than some pages nothing is gained.
[[gnu::noinline]] inline void take_back(void* memory, std::size_t bytes) {
  constexpr std::size_t line = 64, most = 8192;
  for (std::size_t at = 0; at < std::min(bytes, most); at += line) static_cast<char volatile*>(memory)[at] = 0;
}
// The same of all elements of a buffer.
template <class T>
void take_back(Buffer<T>& memory) {
  take_back(memory.data(), memory.size() * sizeof(T));
}

// The number by which one rank tells another where a record lies, which stays until all have read it; 0: there is none.
template <class Record>
std::uint64_t address_of(Record const* record) {
  return reinterpret_cast<std::uintptr_t>(record);
}
// The record that was told, or null. Its line is asked for: it is read soon.
template <class Record>
Record const* record_at(std::uint64_t address) {
  auto const* const record = reinterpret_cast<Record const*>(static_cast<std::uintptr_t>(address));
  __builtin_prefetch(record);
  return record;
}

}  // namespace parallax
