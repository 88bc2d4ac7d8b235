// The words that an engine's journal is kept in: what was called, and how far it is. Operations name themselves by them as they
// begin; reports and traces show them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>

#include "parallax/detail/comm/journal.hpp"

namespace parallax {

// The operations of a session. The number of one is part of what ranks compare before it.
enum class Operation : std::uint8_t {
  pull = 1,
  start,
  step,
  broadcast,
  bind_step,
  search_pieces,
  assign,
  scale,
  finish,
  save,
  restore,
  gather,
  scatter,
  save_async,
  push,
  train,
  together,
  replay
};
// How far an operation has come between its call and its return: waits for all ranks to agree; exchanges; waits for the commit;
// gathers and applies.
enum class Phase : std::uint8_t { agreeing = 1, exchanging, committing, applying };

namespace detail {
// As the journal keeps them.
// By the enumerators' numbers.
inline constexpr JournalWord operation_words[] = {
    "nothing", "pull",    "start",  "step",    "broadcast",  "bind_step", "search_pieces", "assign",   "scale", "finish",
    "save",    "restore", "gather", "scatter", "save_async", "push",      "train",         "together", "replay"};
inline constexpr JournalWord phase_words[] = {"", "agreeing", "exchanging", "committing", "applying"};
// What an enumerator is called in the journal.
inline JournalWord const& word(Operation operation) { return operation_words[static_cast<std::size_t>(operation)]; }
inline JournalWord const& word(Phase phase) { return phase_words[static_cast<std::size_t>(phase)]; }
}  // namespace detail

// The operation's word, as errors name it; ends with a zero byte.
constexpr std::string_view to_string(Operation operation) {
  return detail::operation_words[static_cast<std::size_t>(operation)].text();
}
// The phase's word, as reports and traces name it.
constexpr std::string_view to_string(Phase phase) { return detail::phase_words[static_cast<std::size_t>(phase)].text(); }

}  // namespace parallax
