// A page that is hard to show: samples FILE. Many lines, long names, quotes, a wide table, and a tie.
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "fastest.hpp"
#include "html.hpp"
#include "progress.hpp"
#include "table.hpp"

namespace {

bench::Line line_of(std::string name, int number) {
  bench::Line line{std::move(name), {}};
  for (int size = 1; size <= 1 << 20; size *= 32) line.points.emplace_back(size, (number + 1.0) * size);
  return line;
}

}  // namespace

int main(int, char** argv) {
  std::vector<bench::Line> many, longest, none{{"no point", {}}, line_of("points", 1)};
  for (int i = 0; i < 40; ++i) many.push_back(line_of("policy_" + std::to_string(i), i));
  for (int i = 0; i < 3; ++i) longest.push_back(line_of(std::to_string(i) + std::string(90, 'W'), i));
  std::string const title =
      "bytes: \"all-reduce\" is the cheaper one's <from> alpha 0.000123 & " + std::string(60, 'x') + " on";

  std::vector<bench::Contender> const contenders{{"naive_parameter_server", {3e-3, 2.5e-3, 12345.678e-3}},
                                                 {"slower", {9e-3, 3.1e-3, 9.5e-3}},
                                                 {"slow", {30e-3, 20e3, 40e-3}}};
  bench::Fastest const winners{contenders};
  bench::Progress progress{false};
  bench::Table table{title + "; 4 ranks",
                     {{"policy", 9, true}, {"ms/step", 9}, {"p10", 9}, {"p90", 9}, {"fastest", 7, true}},
                     false,
                     progress};
  bench::Table wide{"wide's: a table", std::vector<bench::Table::Column>(40, {"some column", 9}), false, progress};
  std::vector<bench::Bar> bars;
  for (auto const& [name, seconds] : contenders) {
    auto const ms = [](double s) { return bench::fixed(s * 1e3, 3); };
    table.row({name, ms(seconds.median), ms(seconds.low), ms(seconds.high), winners.cell(name)});
    bars.push_back({name, seconds.median * 1e3, seconds.low * 1e3, seconds.high * 1e3, winners.has(name)});
  }
  bars.push_back({std::string(100, 'M'), 1e-7});
  wide.row(std::vector<std::string>(40, "123456.789"));
  std::vector<std::string> const sections{table.title(), wide.title()};
  std::string const page =
      bench::page_section({bench::bar_chart(title, "ms", bars), bench::line_chart(title, "size", "us", 2, true, many),
                           bench::line_chart(title, "size", "us", 10, true, longest)},
                          table, 1) +
      bench::page_section({bench::line_chart("one", "size", "us", 0, false, none)}, wide, 2);
  std::ofstream{argv[1]} << bench::page_of("samples", {winners.sentence("of a step"), "Beside it 2 things were found."},
                                           "samples " + std::string(200, 'a') + " --flag 'quoted'",
                                           "date: 2026-01-02 · cpu: some CPU · parallax: 1.2.3, commit 0123456", sections,
                                           page);
}
