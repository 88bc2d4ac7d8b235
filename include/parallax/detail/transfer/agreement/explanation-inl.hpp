// Bodies of parallax/detail/transfer/agreement/explanation.hpp.
#pragma once

#include "parallax/detail/transfer/agreement/explanation.hpp"

namespace parallax::inline v0_2 {

PARALLAX_INLINE std::string Testimony::encode() const {
  std::string text = joined({operation, "\n", operations, "\n"});
  if (!error) return joined({text, "D", description});
  append(text, {"E", static_cast<int>(error->code()), "\n", error->rank(), "\n", error->operation(), "\n", error->variable(),
                "\n", error->detail()});
  return text;
}

}  // namespace parallax

namespace parallax::inline v0_2::detail {

// Takes the text before the next separator, and the separator, off the front of `rest`, or all of it. Returns the text.
inline std::string_view next_part(std::string_view& rest, char separator) {
  std::size_t const end = std::min(rest.find(separator), rest.size());
  std::string_view const part = rest.substr(0, end);
  rest.remove_prefix(std::min(end + 1, rest.size()));
  return part;
}
// Takes the next part off each of `rests` into `parts`, as `next_part`; returns false if all were used up.
inline bool next_parts(List<std::string_view>& rests, List<std::string_view>& parts, char separator) {
  bool any = false;
  for (std::size_t i = 0; i < rests.size(); ++i) {
    any = any || !rests[i].empty();
    parts[i] = next_part(rests[i], separator);
  }
  return any;
}

// Returns a line in the quotes of a message: without its tab, in angle quotes; of no text, the word nothing.
inline std::string quoted(std::string_view given) {
  std::string line{given};
  std::replace(line.begin(), line.end(), '\t', ' ');
  line.erase(0, line.find_first_not_of(' '));
  return line.empty() ? std::string{"nothing"} : joined({"«", line, "»"});
}

// Returns the error of the ranks that differ in these lines, by rank: blamed is the lowest rank outside the majority.
// `operations`: each rank's call, in case they differ.
PARALLAX_COLD inline Error difference_of(List<std::string_view> const& lines, List<std::string_view> const& operations) {
  auto const votes_for = [&](std::string_view given) {
    std::size_t votes = 0;
    for (std::string_view const line : lines) votes += line == given;
    return votes;
  };
  std::string_view majority;
  std::size_t votes = 0, culprit = 0, witness = 0;
  for (std::string_view const line : lines)
    if (std::size_t const own = votes_for(line); own > votes) majority = line, votes = own;
  while (lines[culprit] == majority) ++culprit;
  while (lines[witness] != majority) ++witness;
  std::string said = joined({"rank ", culprit, " has ", quoted(lines[culprit]), ", rank ", witness});
  if (votes > 1) append(said, {" and ", votes - 1, " more have "});
  else said += " has ";
  auto const variable_of = [](std::string_view line) { return line.substr(0, line.find('\t')); };
  std::string_view const own = variable_of(lines[culprit]);
  return Error{Errc::mismatch, static_cast<int>(culprit), operations[witness], own.empty() ? variable_of(majority) : own,
               said + quoted(majority)};
}

// Returns the error for all ranks to throw. `bodies`: the rest of each testimony behind the number of operations. Changes
// `bodies`.
PARALLAX_COLD inline Error first_error(List<std::string_view>& bodies, List<std::string_view> const& operations) {
  for (std::string_view body : bodies) {
    if (body.empty() || body[0] != 'E') continue;
    body.remove_prefix(1);
    auto const number = [&] { return std::atoi(std::string{next_part(body, '\n')}.c_str()); };
    auto const code = static_cast<Errc>(number());
    int const rank = number();
    std::string_view const operation = next_part(body, '\n'), variable = next_part(body, '\n');
    return Error{code, rank, operation, variable, body};
  }
  for (std::string_view& body : bodies) body.remove_prefix(!body.empty());  // 'D'
  List<std::string_view> sections(bodies.size()), lines(bodies.size());
  while (next_parts(bodies, sections, Testimony::section_end))
    while (next_parts(sections, lines, '\n'))
      for (std::string_view const line : lines)
        if (line != lines[0]) return difference_of(lines, operations);
  return {Errc::mismatch, -1, operations[0], "", "the ranks disagree in what no description shows"};
}

}  // namespace parallax::detail

namespace parallax::inline v0_2 {

PARALLAX_INLINE Verdict verdict_on(List<std::string_view> const& testimonies, Testimony const& own) {
  List<std::string_view> operations(testimonies.size()), bodies(testimonies.size());
  std::string const begun = joined({own.operations});
  bool in_step = true, same_operation = true;
  for (std::size_t rank = 0; rank < testimonies.size(); ++rank) {
    bodies[rank] = testimonies[rank];
    operations[rank] = detail::next_part(bodies[rank], '\n');
    in_step = detail::next_part(bodies[rank], '\n') == begun && in_step;
    same_operation = same_operation && operations[rank] == own.operation;
  }
  return {detail::first_error(bodies, operations), in_step, same_operation};
}

}  // namespace parallax
