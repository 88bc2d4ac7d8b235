// Loans between ranks of a host: the open ones and their holders, noted in shared memory. Endpoints of ranks that outlive a
// failure of their communicator own one; if the whole job ends by it, nothing needs to be held.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "parallax/comm/communicator.hpp"

namespace parallax::inline v0_2::detail {

// A holder says so before looking for an open loan, and an owner closes its loan before looking for holders: so one of the two
// sees the other. Holders are told apart, for one may be gone. Local: waits for nobody, throws nothing.
class Loans {
 public:
  // `memory`: the same on all ranks of the host, zeros at first, of `memory_bytes`; outlives this. `self`: this rank's place.
  Loans(std::byte* memory, std::size_t ranks, std::size_t self)
      : open_{reinterpret_cast<Open*>(memory)},
        holds_{reinterpret_cast<std::atomic<std::uint32_t>*>(memory + channels * ranks * sizeof(Open))},
        ranks_{ranks},
        self_{self} {}
  // Returns the bytes of memory needed for so many ranks. A rank's place is its index among the ranks of the host.
  static constexpr std::size_t memory_bytes(std::size_t ranks) {
    return (channels * ranks * (sizeof(Open) + ranks * sizeof(std::uint32_t)) + 63) / 64 * 64;
  }

  // Opens this rank's loan on a channel with none open, and returns its number: from 1, and never the same again.
  std::uint64_t open(int channel) {
    word(channel, self_).store(++made_);
    return made_;
  }
  // Closes this rank's loan on the channel: no peer begins to hold it any more, and `held` tells of those who do.
  void close(int channel) { word(channel, self_).store(0); }
  // Returns true if the rank at place `holder` holds this rank's loan on the channel, open or closed.
  bool held(int channel, std::size_t holder) const { return hold_of(channel, self_, holder).load() != 0; }

  // Holds loan `number` of the rank at place `owner`, if it is still open. Returns true if so: it is held until `release`.
  bool hold(int channel, std::size_t owner, std::uint64_t number) {
    hold_of(channel, owner, self_).store(1);
    if (word(channel, owner).load() == number) return true;
    release(channel, owner);
    return false;
  }
  // Ends a successful `hold`.
  void release(int channel, std::size_t owner) { hold_of(channel, owner, self_).store(0); }

 private:
  // The number of a rank's open loan on a channel, or 0.
  struct alignas(64) Open {
    std::atomic<std::uint64_t> number;
  };
  std::atomic<std::uint64_t>& word(int channel, std::size_t owner) const {
    return open_[static_cast<std::size_t>(channel) * ranks_ + owner].number;
  }
  // Returns the flag of a holder of an owner's loan on a channel.
  std::atomic<std::uint32_t>& hold_of(int channel, std::size_t owner, std::size_t holder) const {
    return holds_[(static_cast<std::size_t>(channel) * ranks_ + owner) * ranks_ + holder];
  }

  Open* open_;
  std::atomic<std::uint32_t>* holds_;
  std::size_t ranks_, self_;
  std::uint64_t made_ = 0;
};

}  // namespace parallax::detail
