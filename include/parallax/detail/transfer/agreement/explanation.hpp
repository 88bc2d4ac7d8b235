// The explanation of a difference between ranks: sought by a session after a round that was not unanimous.
#pragma once

#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/function_ref.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/transfer/lane.hpp"

namespace parallax::inline v0_2 {

// A rank's knowledge of itself when ranks do not agree: its operation and the number it has begun, and its own error or a
// description of its next work, one line per item: "<variable>\t<text>". A section ends with `section_end`, so that a line
// missing on one rank is compared with none of the next section.
struct Testimony {
  // Closes a section of a description.
  static constexpr char section_end = '\f';

  // The rank's call, by its name in messages.
  std::string operation;
  // Number of operations begun by its session, this one included.
  std::uint64_t operations = 0;
  // Its own refusal, or null: not owned, and needed until `encode` returns.
  Error const* error = nullptr;
  // Its next work; not sent if there is an error.
  std::string description;

  // Pure. Returns the text that travels: operation, number of operations, then the error or the description.
  std::string encode() const;
};

// Conclusion of all ranks. Ranks out of step have begun different numbers of operations: a started one will never meet its
// counterpart, so that the session cannot go on.
struct Verdict {
  // The error for every rank to throw.
  Error error;
  // True if all have begun equally many operations.
  bool in_step;
  // True if all call the same operation.
  bool same_operation;
};

// Pure. Returns the ranks' conclusion from the encoded testimonies of all, by rank: the error is the refusal of the lowest rank
// that refuses, else the first line in which descriptions differ. `own`: the testimony of one of them.
PARALLAX_COLD Verdict verdict_on(List<std::string_view> const& testimonies, Testimony const& own);

// Collective, after a round that was not unanimous: ranks exchange their testimonies and arrive at the same error, which it
// returns. `await` is called to wait for the lane. Two exchanges of control bytes on the lane: the length of each testimony,
// then the testimonies. Throws the errors of `await` and of the lane.
template <Communicator C>
PARALLAX_COLD Verdict explain_difference(Lane<C>& lane, Testimony const& own, FunctionRef<void()> await) {
  auto const ranks = static_cast<std::size_t>(lane.topology().size());
  auto const self = static_cast<std::size_t>(lane.topology().rank());
  std::string const text = own.encode();
  std::uint64_t const size = text.size();
  List<std::uint64_t> sizes(ranks, sizeof size);
  auto const to_all = [&](std::size_t bytes) {
    lane.clear();
    std::size_t offset = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      if (rank != self) lane.send(static_cast<int>(rank), 0, bytes, Payload::control);
      if (rank != self) lane.expect(static_cast<int>(rank), offset, sizes[rank], Payload::control);
      offset += sizes[rank];
    }
    return offset;
  };
  List<std::uint64_t> told(to_all(sizeof size) / sizeof size);
  lane.post(&size, told.data());
  await();
  sizes = told;
  sizes[self] = size;
  std::string all(to_all(size), '\0');
  lane.post(text.data(), all.data());
  await();
  List<std::string_view> testimonies(ranks);
  std::string_view rest = all;
  for (std::size_t rank = 0; rank < ranks; rest.remove_prefix(sizes[rank++]))
    testimonies[rank] = rank == self ? std::string_view{text} : rest.substr(0, sizes[rank]);
  return verdict_on(testimonies, own);
}

}  // namespace parallax

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transfer/agreement/explanation-inl.hpp"
#endif
