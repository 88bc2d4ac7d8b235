// Report of a session on its variables: policy, owners, and the bytes and time that a step of each is expected to take.
// `Session::describe` calls it with its registry and the known costs.
#pragma once

#include <cstdio>
#include <string>
#include <string_view>

#include "parallax/comm/topology.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/policy/prediction.hpp"
#include "parallax/detail/variable/registration.hpp"

namespace parallax::inline v0_2::detail {

// Local. Returns one line per variable that still lives, columns aligned, under a line of headings. Below them, the reasons of
// unknown figures. `of_host`, `of_device`: the costs by which a variable's policy predicts, chosen by the place of its memory.
template <Communicator C>
std::string described(Topology<C> const& topology, List<RegistrationPtr> const& registry, Costs const& of_host,
                      Costs const& of_device) {
  RankShape const shape{topology};
  auto const number = [](char const* format, double value) {
    char text[48];
    std::snprintf(text, sizeof text, format, value);
    return std::string{text};
  };
  static constexpr std::string_view headings[] = {"variable", "kind",   "policy",  "method",  "elements",
                                                  "owners",   "pieces", "touched", "MB/step", "ms/step"};
  static constexpr std::size_t columns = std::size(headings);
  List<std::string> cells;  // line after line
  for (std::string_view const heading : headings) cells.push_back(std::string{heading});
  bool unused = false, unmeasured = false;
  for (auto const& known : registry) {
    if (!known->state) continue;
    Description const about = known->describe(known->state);
    Costs const& costs = about.on_device ? of_device : of_host;
    bool const predictable = !about.sparse || about.use.pushed > 0 || about.use.pulled > 0;
    unused = unused || !predictable;
    unmeasured = unmeasured || !costs.measured();
    Prediction const step = predictable ? about.predict(about.facts, about.use, shape, costs) : Prediction{};
    std::string const elements = number("%.0f", about.facts.rows);
    std::string const line[columns] = {
        known->name,
        about.sparse ? "Sparse" : "Dense",
        std::string{about.policy},
        std::string{about.in_force},
        about.sparse ? joined({elements, " x ", about.width}) : elements,
        joined({about.replicated ? topology.size() : topology.owners()}),
        about.sparse ? joined({about.pieces}) : "-",
        about.sparse && predictable ? number("%.4g", about.use.by_host / std::max(about.facts.rows, 1.0)) : "-",
        predictable ? number("%.4g", step.bytes / 1e6) : "-",
        predictable && costs.measured() ? number("%.4g", step.seconds * 1e3) : "-"};
    for (std::string const& cell : line) cells.push_back(cell);
  }
  std::size_t widths[columns] = {};
  for (std::size_t i = 0; i < cells.size(); ++i) widths[i % columns] = std::max(widths[i % columns], cells[i].size());
  std::string text;
  for (std::size_t i = 0; i < cells.size(); ++i) {
    std::size_t const column = i % columns, gap = widths[column] - cells[i].size();
    if (column >= 4) text.append(gap, ' ');
    text += cells[i];
    text.append(column < 4 ? gap + 2 : 2, ' ');
    if (column + 1 < columns) continue;
    text.resize(text.find_last_not_of(' ') + 1);
    text += '\n';
  }
  if (unused) text += "touched, MB/step and ms/step of a table: known once it was used\n";
  if (unmeasured)
    text += "ms/step: known once the machine was measured, as by session.options().choice.costs = px::calibrate(world)\n";
  return text;
}

}  // namespace parallax::detail
