// Letters of the suite of mailboxes: their content and number, and the patience of a rank for one. Included by mailbox.hpp for
// its checks. Models are as in communicator.hpp.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "parallax/conformance/communicator.hpp"

namespace parallax_conformance::inline v0_2 {

// A letter: the load of a mailbox.
using parallax::Letter;
// The lane of a letter: requests or answers.
using parallax::LetterLane;

// Returns the content of letter number `number` from one rank to another on a lane: a function of all of these, of `bytes`
// bytes. Its first bytes are its number, if it has as many.
inline std::vector<std::byte> words_of(std::uint64_t seed, LetterLane lane, int from, int to, std::uint64_t number,
                                       std::size_t bytes) {
  std::vector<std::byte> text(bytes);
  fill(text.data(), bytes, mix(seed, static_cast<std::uint64_t>(lane), from, to, number));
  if (bytes > 0) std::memcpy(text.data(), &number, std::min(sizeof number, bytes));
  return text;
}

// The reference: of one rank, the numbers of letters posted to and taken from each, and their content. All posts and takes of a
// check go through it. Refers to the communicator, which must outlive it.
template <class C>
class Correspondence {
 public:
  // Begins for the rank of this communicator, without letters posted yet. All ranks give the same seed.
  Correspondence(C& comm, std::uint64_t seed) : comm_{&comm}, seed_{seed} {
    for (auto* counts : {&posted_, &taken_})
      for (auto& lane : *counts) lane.resize(static_cast<std::size_t>(comm.size()));
  }

  // Returns the number of letters posted by this rank to rank `to`, refused ones left out: the number of the next.
  std::uint64_t posted(LetterLane lane, int to) const { return posted_[lane_index(lane)][static_cast<std::size_t>(to)]; }
  // Returns the number of letters taken by this rank from rank `from`.
  std::uint64_t taken(LetterLane lane, int from) const { return taken_[lane_index(lane)][static_cast<std::size_t>(from)]; }

  // Returns the number of a letter's bytes, a function of its number as well.
  std::size_t size_of(LetterLane lane, int from, int to, std::uint64_t number) const {
    return ragged(mix(seed_, number, static_cast<std::uint64_t>(lane)), from, to);
  }
  // Posts the next letter, in several parts, some empty, overwritten then: letters are copied. Returns false if refused.
  bool post(LetterLane lane, int to) {
    std::uint64_t const number = posted(lane, to);
    auto text = words_of(seed_, lane, comm_->rank(), to, number, size_of(lane, comm_->rank(), to, number));
    Dice dice{mix(seed_, number, to)};
    // Runs of random lengths, and sometimes an empty one.
    std::vector<std::span<std::byte const>> parts;
    for (std::size_t begin = 0; begin < text.size();) {
      std::size_t const run = dice.below(4) == 0 ? 0 : std::min(text.size() - begin, 1 + dice.below(text.size()));
      parts.push_back({text.data() + begin, run});
      begin += run;
    }
    bool const gone = comm_->post(lane, to, parts);
    std::fill(text.begin(), text.end(), std::byte{0xEE});
    if (gone) ++posted_[lane_index(lane)][static_cast<std::size_t>(to)];
    else require(lane == LetterLane::requests, "an answer was refused");
    return gone;
  }
  // Takes a letter of rank `from`, or of any for -1, without a wait. Returns its writer, or nothing if none was there. Throws a
  // Failure unless it is the next one of its writer, and whole.
  std::optional<int> take(LetterLane lane, int from) {
    // A writer unlike any rank: it stays if no letter is taken.
    letter_.from = -2;
    if (!comm_->take(lane, from, letter_)) {
      require(letter_.from == -2, "where no letter was taken, the letter has changed");
      return std::nullopt;
    }
    int const writer = letter_.from;
    require(writer >= 0 && writer < comm_->size(), "a letter of rank " + std::to_string(writer) + " was taken");
    require(from < 0 || writer == from, "a letter of rank " + std::to_string(from) + " was asked for, one of rank " +
                                            std::to_string(writer) + " was taken");
    std::uint64_t const number = taken_[lane_index(lane)][static_cast<std::size_t>(writer)]++;
    std::size_t const size = size_of(lane, writer, comm_->rank(), number);
    if (letter_.bytes != words_of(seed_, lane, writer, comm_->rank(), number, size)) {
      std::uint64_t other = 0;
      if (!letter_.bytes.empty()) std::memcpy(&other, letter_.bytes.data(), std::min(sizeof other, letter_.bytes.size()));
      require(false, name(lane) + " " + std::to_string(number) + " from rank " + std::to_string(writer) + " to " +
                         std::to_string(comm_->rank()) + ", of " + std::to_string(size) + " bytes, is one of " +
                         std::to_string(letter_.bytes.size()) + " that begins with number " + std::to_string(other));
    }
    return writer;
  }

  // Returns the name of a letter of the lane, for messages.
  static std::string name(LetterLane lane) { return lane == LetterLane::requests ? "request" : "answer"; }

 private:
  static std::size_t lane_index(LetterLane lane) { return static_cast<std::size_t>(lane); }

  C* comm_;
  std::uint64_t seed_;
  std::array<std::vector<std::uint64_t>, 2> posted_, taken_;  // by lane and rank
  Letter letter_;
};

// Waits: calls `done` until it is true. Throws a Failure about `what` once `limit` has passed.
template <class Done>
void until(std::string const& what, Done const& done, std::chrono::nanoseconds limit = std::chrono::seconds{30}) {
  auto const begin = std::chrono::steady_clock::now();
  while (!done()) {
    require(std::chrono::steady_clock::now() - begin < limit, "in vain, a rank waited for " + what);
    std::this_thread::yield();
  }
}
// Collective. Waits for all ranks: one exchange of a byte from each rank to each.
template <class C>
void meet(C& comm, std::uint64_t seed) {
  exchange(comm, 0, CheckedTransfer{comm, seed, even(1)});
}
// Collective, and waits, at the end of a check. Throws a Failure unless the mailbox is empty once all ranks are here.
template <class C>
void require_empty(C& comm, std::uint64_t seed) {
  meet(comm, mix(seed, 1u));
  Letter letter;
  for (int k = 0; k < 20; ++k)
    for (LetterLane const lane : {LetterLane::requests, LetterLane::answers})
      require(!comm.take(lane, -1, letter), "a letter was there that nobody had posted");
  meet(comm, mix(seed, 2u));
}

// Both lanes, to go through.
inline constexpr std::array letter_lanes{LetterLane::requests, LetterLane::answers};

}  // namespace parallax_conformance
