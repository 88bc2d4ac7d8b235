// How ranks that do not agree find out why: asked by a session after a round that was not unanimous.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>
#include "parallax/core/algorithm.hpp"

#include "parallax/comm/lane.hpp"
#include "parallax/core/function_ref.hpp"

namespace parallax {

// What every rank knows about itself when ranks do not agree: its operation and how many it has begun, and its own error or
// a description of what it was about to do, one line per item: "<variable>\t<text>". A section ends with `section_end`, so
// that a line that one rank lacks is compared with none of the next section.
struct Testimony {
  static constexpr char section_end = '\f';

  std::string operation;
  std::uint64_t operations = 0;
  Error const* error = nullptr;
  std::string description;

  std::string encode() const;
};

// What all ranks conclude. Ranks out of step have begun different numbers of operations: what one has started will never
// meet its counterpart, so that the session cannot go on.
struct Verdict {
  Error error;
  bool in_step;
  bool same_operation;
};

// Pure. What ranks conclude from the encoded testimonies of all, by rank: the error is that of the lowest rank which refuses, else
// the first line in which descriptions differ. `own`: the testimony of one of them.
Verdict verdict_on(std::vector<std::string_view> const& testimonies, Testimony const& own);

// Collective, after a round that was not unanimous: ranks exchange their testimonies and arrive at the same error. `await` waits
// for the lane.
template <Communicator C>
Verdict explain_difference(Lane<C>& lane, Testimony const& own, FunctionRef<void()> await) {
  auto const ranks = static_cast<std::size_t>(lane.topology().size());
  auto const self = static_cast<std::size_t>(lane.topology().rank());
  std::string const text = own.encode();
  std::uint64_t const size = text.size();
  std::vector<std::uint64_t> sizes(ranks, sizeof size);
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
  std::vector<std::uint64_t> told(to_all(sizeof size) / sizeof size);
  lane.post(&size, told.data());
  await();
  sizes = told;
  sizes[self] = size;
  std::string all(to_all(size), '\0');
  lane.post(text.data(), all.data());
  await();
  std::vector<std::string_view> testimonies;
  std::string_view rest = all;
  for (std::size_t rank = 0; rank < ranks; rest.remove_prefix(sizes[rank++]))
    testimonies.push_back(rank == self ? std::string_view{text} : rest.substr(0, sizes[rank]));
  return verdict_on(testimonies, own);
}

#if PARALLAX_BODIES
PARALLAX_INLINE std::string Testimony::encode() const {
  std::string text = joined({operation, "\n", operations, "\n"});
  if (!error) return joined({text, "D", description});
  append(text, {"E", static_cast<int>(error->code()), "\n", error->rank(), "\n", error->operation(), "\n", error->variable(),
                "\n", error->detail()});
  return text;
}

namespace detail {

inline std::vector<std::string_view> split(std::string_view text, char separator, std::size_t at_most = SIZE_MAX) {
  std::vector<std::string_view> parts;
  while (true) {
    std::size_t const end = parts.size() + 1 < at_most ? text.find(separator) : std::string_view::npos;
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

// The first of these lines, by rank, on which they differ; blamed is the lowest rank that is not with the majority.
// `operations`: what each rank calls, in case that differs.
inline std::optional<Error> first_difference(std::vector<std::vector<std::string_view>> const& lines,
                                             std::vector<std::string_view> const& operations) {
  std::size_t const ranks = lines.size();
  std::size_t longest = 0;
  for (auto const& own : lines) longest = std::max(longest, own.size());
  for (std::size_t i = 0; i < longest; ++i) {
    auto const line_of = [&](std::size_t rank) { return i < lines[rank].size() ? lines[rank][i] : std::string_view{}; };
    auto const votes_for = [&](std::string_view line) {
      std::size_t votes = 0;
      for (std::size_t rank = 0; rank < ranks; ++rank) votes += line_of(rank) == line;
      return votes;
    };
    std::string_view majority = line_of(0);
    std::size_t votes = votes_for(majority);
    if (votes == ranks) continue;
    for (std::size_t rank = 1; rank < ranks; ++rank)
      if (std::size_t const own = votes_for(line_of(rank)); own > votes) majority = line_of(rank), votes = own;
    std::size_t culprit = 0, witness = 0;
    while (line_of(culprit) == majority) ++culprit;
    while (line_of(witness) != majority) ++witness;
    auto const quote = [](std::string_view given) {
      std::string line{given};
      std::replace(line.begin(), line.end(), '\t', ' ');
      line.erase(0, line.find_first_not_of(' '));
      return line.empty() ? std::string{"nothing"} : joined({"«", line, "»"});
    };
    auto const variable_of = [](std::string_view line) { return line.substr(0, line.find('\t')); };
    std::string_view const own = variable_of(line_of(culprit));
    std::string said = joined({"rank ", culprit, " has ", quote(line_of(culprit)), ", rank ", witness});
    if (votes > 1) append(said, {" and ", votes - 1, " more have "});
    else said += " has ";
    return Error{Errc::mismatch, static_cast<int>(culprit), operations[witness], own.empty() ? variable_of(majority) : own,
                 said + quote(majority)};
  }
  return std::nullopt;
}

inline Error first_error(std::vector<std::string_view> const& bodies, std::vector<std::string_view> const& operations) {
  for (std::string_view const body : bodies) {
    if (body.empty() || body[0] != 'E') continue;
    auto const fields = split(body.substr(1), '\n', 5);
    auto const number = [&](std::size_t i) { return std::stoi(std::string{fields[i]}); };
    return Error{static_cast<Errc>(number(0)), number(1), fields[2], fields[3], fields[4]};
  }
  std::vector<std::vector<std::string_view>> sections;
  std::size_t most = 0;
  for (std::string_view const body : bodies) {
    sections.push_back(split(body.substr(1), Testimony::section_end));
    most = std::max(most, sections.back().size());
  }
  for (std::size_t section = 0; section < most; ++section) {
    std::vector<std::vector<std::string_view>> lines;
    for (auto const& own : sections) lines.push_back(split(section < own.size() ? own[section] : std::string_view{}, '\n'));
    if (auto error = first_difference(lines, operations)) return *error;
  }
  return {Errc::mismatch, -1, operations[0], "", "the ranks disagree in what no description shows"};
}

}  // namespace detail

PARALLAX_INLINE Verdict verdict_on(std::vector<std::string_view> const& testimonies, Testimony const& own) {
  std::vector<std::string_view> operations, bodies;
  bool in_step = true, same_operation = true;
  for (std::string_view const text : testimonies) {
    auto const parts = detail::split(text, '\n', 3);
    operations.push_back(parts[0]);
    in_step = in_step && parts[1] == std::to_string(own.operations);
    same_operation = same_operation && parts[0] == own.operation;
    bodies.push_back(parts[2]);
  }
  return {detail::first_error(bodies, operations), in_step, same_operation};
}
#endif

}  // namespace parallax
