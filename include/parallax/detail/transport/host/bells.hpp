// Bells: news of changed shared memory for sleeping ranks of a host. Endpoints whose ranks sleep in the system own one, and
// ring by a message.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace parallax::inline v0_2::detail {

// The memory has a word for each rank: asleep or not, and the number of announcements to it. A rank looks, moves on what there
// is, and then lies down: if something was announced since its look, it may not sleep. So no news is lost between the last look
// and the sleep. All functions are local, wait for nobody and throw nothing. Refers to the memory, which outlives it.
class Bells {
 public:
  // `memory`: common to the ranks of the host, zeros at first, of `memory_bytes` or more. `self`: this rank's index among them.
  Bells(std::byte* memory, std::size_t self) : words_{reinterpret_cast<Word*>(memory)}, self_{self} {}
  // Returns the bytes of memory needed for so many ranks of a host.
  static constexpr std::size_t memory_bytes(std::size_t ranks) { return ranks * sizeof(Word); }

  // Announces a change to the rank with index `place`. Returns true if that rank sleeps, and the caller has to wake it.
  bool announce(std::size_t place) {
    std::atomic<std::uint64_t>& word = words_[place].value;
    return (word.fetch_add(once) & asleep) != 0 && (word.fetch_and(~asleep) & asleep) != 0;
  }
  // Notes the announcements to this rank so far. The caller then moves on all changes up to here, and lies down.
  void look() { seen_ = words_[self_].value.load() & ~asleep; }
  // Lies down: `announce` now finds this rank asleep. Returns true if it may sleep: nothing was announced since `look`.
  bool lie_down() { return (words_[self_].value.fetch_or(asleep) & ~asleep) == seen_; }
  // Ends the sleep: nobody needs to wake this rank any more.
  void get_up() { words_[self_].value.fetch_and(~asleep); }

 private:
  static constexpr std::uint64_t asleep = 1, once = 2;
  struct alignas(64) Word {
    std::atomic<std::uint64_t> value;
  };

  Word* words_;
  std::size_t self_;
  std::uint64_t seen_ = 0;
};

}  // namespace parallax::detail
