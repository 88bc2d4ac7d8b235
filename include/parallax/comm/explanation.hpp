// How ranks that do not agree find out why: asked by a session after a round that was not unanimous.
#pragma once

#include "parallax/core/algorithm.hpp"
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "parallax/comm/lane.hpp"

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

  std::string encode() const {
    std::string const begun = operation + "\n" + std::to_string(operations) + "\n";
    if (!error) return begun + "D" + description;
    return begun + "E" + std::to_string(static_cast<int>(error->code())) + "\n" + std::to_string(error->rank()) + "\n" +
           error->operation() + "\n" + error->variable() + "\n" + error->detail();
  }
};

// What all ranks conclude. Ranks out of step have begun different numbers of operations: what one has started will never
// meet its counterpart, so that the session cannot go on.
struct Verdict {
  Error error;
  bool in_step;
  bool same_operation;
};

// How ranks that do not agree find out why.
template <Communicator C>
class Explanation {
 public:
  // Collective, after a round that was not unanimous: ranks exchange their testimonies and arrive at the same error. `await`
  // waits for a lane.
  template <class Await>
  static Verdict of(Lane<C>& lane, Testimony const& own, Await&& await) {
    auto const ranks = static_cast<std::size_t>(lane.topology().size());
    auto const self = static_cast<std::size_t>(lane.topology().rank());
    std::string const text = own.encode();
    std::vector<std::uint64_t> sizes(ranks, 0);
    std::uint64_t const size = text.size();
    auto const to_all = [&](std::size_t bytes, auto const& incoming) {
      lane.clear();
      std::size_t offset = 0;
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        if (rank != self) lane.send(static_cast<int>(rank), 0, bytes, Payload::control);
        if (rank != self) lane.expect(static_cast<int>(rank), offset, incoming(rank), Payload::control);
        offset += incoming(rank);
      }
      return offset;
    };
    to_all(sizeof size, [](std::size_t) { return sizeof(std::uint64_t); });
    lane.post(&size, sizes.data());
    await(lane);
    sizes[self] = size;
    std::string all(to_all(text.size(), [&](std::size_t rank) { return static_cast<std::size_t>(sizes[rank]); }), '\0');
    lane.post(text.data(), all.data());
    await(lane);
    std::vector<std::string> operations, testimonies;
    bool in_step = true, same_operation = true;
    std::size_t offset = 0;
    for (std::size_t rank = 0; rank < ranks; offset += sizes[rank++]) {
      auto const parts = split(rank == self ? text : std::string_view{all}.substr(offset, sizes[rank]), '\n', 3);
      operations.push_back(parts[0]);
      in_step = in_step && parts[1] == std::to_string(own.operations);
      same_operation = same_operation && parts[0] == own.operation;
      testimonies.push_back(parts[2]);
    }
    if (auto refusal = first_refusal(testimonies)) return {*refusal, in_step, same_operation};
    return {first_difference(testimonies, operations), in_step, same_operation};
  }

 private:
  static std::vector<std::string> split(std::string_view text, char separator, std::size_t at_most = SIZE_MAX) {
    std::vector<std::string> parts;
    while (true) {
      std::size_t const end = parts.size() + 1 < at_most ? text.find(separator) : std::string_view::npos;
      parts.emplace_back(text.substr(0, end));
      if (end == std::string_view::npos) return parts;
      text.remove_prefix(end + 1);
    }
  }

  // The error of the lowest rank that has one.
  static std::optional<Error> first_refusal(std::vector<std::string> const& testimonies) {
    for (std::string const& text : testimonies) {
      if (text.empty() || text[0] != 'E') continue;
      auto const fields = split(std::string_view{text}.substr(1), '\n', 5);
      return Error{static_cast<Errc>(std::stoi(fields[0])), std::stoi(fields[1]), fields[2], fields[3], fields[4]};
    }
    return std::nullopt;
  }

  static Error first_difference(std::vector<std::string> const& testimonies, std::vector<std::string> const& operations) {
    std::vector<std::vector<std::string>> sections;
    std::size_t most = 0;
    for (std::string const& text : testimonies) {
      sections.push_back(split(std::string_view{text}.substr(1), Testimony::section_end));
      most = std::max(most, sections.back().size());
    }
    for (std::size_t section = 0; section < most; ++section) {
      std::vector<std::vector<std::string>> lines;
      for (auto const& own : sections) lines.push_back(split(section < own.size() ? own[section] : "", '\n'));
      if (auto error = first_difference(lines, operations)) return *error;
    }
    return {Errc::mismatch, -1, operations[0], "", "the ranks disagree in what no description shows"};
  }

  // The first item on which lines differ; blamed is the lowest rank that is not with the majority. `operations`: what each rank
  // calls, in case that differs.
  static std::optional<Error> first_difference(std::vector<std::vector<std::string>> const& lines,
                                               std::vector<std::string> const& operations) {
    std::size_t longest = 0;
    for (auto const& own : lines) longest = std::max(longest, own.size());
    auto const line_of = [&](std::size_t rank, std::size_t i) {
      return i < lines[rank].size() ? lines[rank][i] : std::string{};
    };
    for (std::size_t i = 0; i < longest; ++i) {
      auto const votes_for = [&](std::string const& line) {
        std::size_t votes = 0;
        for (std::size_t rank = 0; rank < lines.size(); ++rank) votes += line_of(rank, i) == line;
        return votes;
      };
      std::string majority = line_of(0, i);
      if (votes_for(majority) == lines.size()) continue;
      for (std::size_t rank = 1; rank < lines.size(); ++rank)
        if (votes_for(line_of(rank, i)) > votes_for(majority)) majority = line_of(rank, i);
      std::size_t culprit = 0, witness = 0;
      while (line_of(culprit, i) == majority) ++culprit;
      while (line_of(witness, i) != majority) ++witness;
      auto const quote = [](std::string line) {
        std::replace(line.begin(), line.end(), '\t', ' ');
        line.erase(0, line.find_first_not_of(' '));
        return line.empty() ? std::string{"nothing"} : "«" + line + "»";
      };
      auto const variable_of = [](std::string const& line) { return line.substr(0, line.find('\t')); };
      std::string const own = variable_of(line_of(culprit, i));
      std::string const variable = own.empty() ? variable_of(majority) : own;
      return Error{Errc::mismatch, static_cast<int>(culprit), operations[witness], variable,
                   "rank " + std::to_string(culprit) + " has " + quote(line_of(culprit, i)) + ", rank " +
                       std::to_string(witness) +
                       (votes_for(majority) > 1 ? " and " + std::to_string(votes_for(majority) - 1) + " more have " : " has ") +
                       quote(majority)};
    }
    return std::nullopt;
  }
};

}  // namespace parallax
