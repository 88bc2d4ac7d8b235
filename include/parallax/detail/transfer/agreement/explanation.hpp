// How ranks that do not agree find out why: asked by a session after a round that was not unanimous.
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

// What every rank knows about itself when ranks do not agree: its operation and how many it has begun, and its own error or
// a description of what it was about to do, one line per item: "<variable>\t<text>". A section ends with `section_end`, so
// that a line that one rank lacks is compared with none of the next section.
struct Testimony {
  // Closes a section of a description.
  static constexpr char section_end = '\f';

  // What the rank calls, as a message names it.
  std::string operation;
  // How many operations its session has begun, this one included.
  std::uint64_t operations = 0;
  // Its own refusal, or null: not owned, and needed until `encode` returns.
  Error const* error = nullptr;
  // What it was about to do; not sent where there is an error.
  std::string description;

  // Pure. The text that travels: operation, number of operations, then the error or the description.
  std::string encode() const;
};

// What all ranks conclude. Ranks out of step have begun different numbers of operations: what one has started will never
// meet its counterpart, so that the session cannot go on.
struct Verdict {
  // What every rank throws.
  Error error;
  // Whether all have begun equally many operations.
  bool in_step;
  // Whether all call the same one.
  bool same_operation;
};

// Pure. What ranks conclude from the encoded testimonies of all, by rank: the error is that of the lowest rank which refuses,
// else the first line in which descriptions differ. `own`: the testimony of one of them.
PARALLAX_COLD Verdict verdict_on(List<std::string_view> const& testimonies, Testimony const& own);

// Collective, after a round that was not unanimous: ranks exchange their testimonies and arrive at the same error. `await`
// waits for the lane. Two exchanges of control bytes on the lane: how long each testimony is, then the testimonies. What
// `await` throws goes on.
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
