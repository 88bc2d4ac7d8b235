// Bells: news of changed shared memory for sleeping ranks of a host. Endpoints whose ranks sleep in the system own one, and
// ring by a message.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

namespace parallax::inline v0_2::detail {

// The memory has a word for each rank: asleep or not, and the number of announcements to it. A rank looks, moves on what there
// is, and then lies down: if something was announced since its look, it may not sleep. So no news is lost between the last look
// and the sleep.
class Bells {
 public:
  // Local. `memory`: the same on all ranks of the host, zeros at first, of `memory_bytes` or more. `self`: this rank's place.
  Bells(std::byte* memory, std::size_t self) : words_{reinterpret_cast<Word*>(memory)}, self_{self} {}
  // Returns the bytes for so many ranks.
  static constexpr std::size_t memory_bytes(std::size_t ranks) { return ranks * sizeof(Word); }

  // Announces a change to the rank at that place. Returns true if it sleeps and is this rank's to wake.
  bool announce(std::size_t place) {
    std::atomic<std::uint64_t>& word = words_[place].value;
    return (word.fetch_add(once) & asleep) != 0 && (word.fetch_and(~asleep) & asleep) != 0;
  }
  // Begins a turn: the rank then moves on all changes up to here.
  void look() { seen_ = words_[self_].value.load() & ~asleep; }
  // Ends a turn: from here on an announcement rings. Returns false if something was announced since `look`.
  bool lie_down() { return (words_[self_].value.fetch_or(asleep) & ~asleep) == seen_; }
  // Ends the sleep: nobody needs to ring any more.
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
