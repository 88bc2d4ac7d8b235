// One table under the parameter server and under all-reduce, by the share of its rows that a rank touches, and the share at
// which the two cost the same.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>
#include <vector>

#include "crossing.hpp"
#include "measured.hpp"
#include "report.hpp"

namespace bench {

// Returns about how many bytes of memory all ranks together need for these methods at once.
inline double memory_needed(Workload const& work, std::vector<Method> const& methods, std::size_t scalar_bytes) {
  double elements = 0;
  for (auto const& method : methods) {
    elements += 3.5 * real(work.dense_elements());
    for (std::size_t t = 0; t < work.tables.size(); ++t) {
      double const table = real(work.tables[t].rows) * real(work.tables[t].width);
      bool const sharded = method.way == Way::parameter_server || method.way == Way::naive || method.way == Way::tf1;
      elements += table * (sharded ? 1.0 / work.ranks : method.way == Way::densified ? 3.5 : 1.0);
      elements += 6 * real(work.streams[t].largest()) * real(work.tables[t].width);
    }
  }
  return elements * real(scalar_bytes) * work.ranks;
}

// Returns the bytes that may be taken of this machine's memory: four fifths of its free ones.
inline double memory_available() {
  std::ifstream file{"/proc/meminfo"};
  std::string name, unit;
  for (double kilobytes = 0; file >> name >> kilobytes && std::getline(file, unit);)
    if (name == "MemAvailable:") return 0.8 * 1024 * kilobytes;
  return 0.5 * real(sysconf(_SC_PHYS_PAGES)) * real(sysconf(_SC_PAGESIZE));
}

// Returns the tables of a model that behave differently: of one shape the first, and of more than four the largest.
inline std::vector<TableShape> shapes_of(Model const& model) {
  std::vector<TableShape> shapes;
  for (auto const& table : model.sparse) {
    auto const same = [&](TableShape const& other) { return other.rows == table.rows && other.width == table.width; };
    if (std::none_of(shapes.begin(), shapes.end(), same)) shapes.push_back(table);
  }
  if (shapes.size() > 4) {
    std::sort(shapes.begin(), shapes.end(), [](auto const& a, auto const& b) { return a.rows * a.width > b.rows * b.width; });
    shapes.resize(4);
  }
  return shapes;
}

// Collective. Measures each table at each of `options.alpha_sweep`, and reports where the two meet; `name`: of the model in the
// records. Leaves out what takes more than `memory` bytes of all ranks together.
template <class T>
void sweep(Options const& options, std::string const& name, std::vector<TableShape> const& shapes, Ranks& ranks, Report& report,
           Progress& progress, double memory) {
  auto alphas = options.alpha_sweep;
  if (options.smoke && !options.alpha_sweep_given) alphas = {0.1, 1};
  auto const& hosts = ranks.hosts();
  Table table{"one table by alpha, the share of its rows that a rank touches in a step, each once",
              {{"table", 14, true},
               {"rows", 9},
               {"width", 5},
               {"alpha", 8},
               {"PS MB/host", 10},
               {"AR MB/host", 10},
               {"PS ms", 9},
               {"AR ms", 9},
               {"PS/AR bytes", 11},
               {"PS/AR time", 10},
               {"#wrong", 6}},
              ranks.prints(),
              progress};
  std::vector<std::string> charts;
  std::vector<std::vector<std::string>> meetings;
  for (auto const& shape : shapes) {
    std::int64_t const fitting =
        (std::int64_t{128} << 20) / std::max<std::int64_t>(shape.rows * shape.width / options.scale, 1);
    int const steps =
        options.smoke ? 1 : std::clamp(options.iterations ? options.iterations : static_cast<int>(fitting), 5, 20);
    std::vector<Line> bytes{{"parameter server", {}}, {"all-reduce", {}}}, times = bytes;
    std::vector<double> measured, ps_bytes, ar_bytes, ps_time, ar_time;
    for (double const alpha : alphas) {
      Workload const work = make_workload(options, {}, {shape}, ranks.size(), std::min(steps, 2), alpha, true, nullptr);
      std::vector<Method> const methods{method_of<T>("parameter_server"), method_of<T>("all_reduce")};
      if (double const needed = memory_needed(work, methods, sizeof(T)); needed > memory) {
        table.row({shape.name, std::to_string(work.tables[0].rows), std::to_string(shape.width), shown(alpha),
                   "left out: ", fixed(needed / 1e9, 0) + " GB", "-", "-", "-", "-", "-"});
        continue;
      }
      measured.push_back(alpha);
      progress.begin(shape.name + " at alpha " + shown(alpha), 2 * steps);
      auto const outcomes = measure(ranks, work, methods, {steps, 1, 1, options.check}, sizeof(T), progress);
      double const ps = outcomes[0].sent_of_host(outcomes[0].counted, hosts).mean,
                   ar = outcomes[1].sent_of_host(outcomes[1].counted, hosts).mean;
      double const ps_seconds = outcomes[0].seconds.median, ar_seconds = outcomes[1].seconds.median;
      std::int64_t const wrong = outcomes[0].wrong + outcomes[1].wrong;
      ps_bytes.push_back(ps), ar_bytes.push_back(ar), ps_time.push_back(ps_seconds), ar_time.push_back(ar_seconds);
      bytes[0].points.emplace_back(alpha, ps / 1e6), bytes[1].points.emplace_back(alpha, ar / 1e6);
      times[0].points.emplace_back(alpha, ps_seconds * 1e3), times[1].points.emplace_back(alpha, ar_seconds * 1e3);
      table.row({shape.name, std::to_string(work.tables[0].rows), std::to_string(shape.width), shown(alpha), fixed(ps / 1e6, 4),
                 fixed(ar / 1e6, 4), fixed(ps_seconds * 1e3, 3), fixed(ar_seconds * 1e3, 3), ar > 0 ? fixed(ps / ar, 3) : "-",
                 fixed(ps_seconds / ar_seconds, 3), options.check ? std::to_string(wrong) : "N/A"});
      report.wrong(wrong);
      report.add({{"command", "alpha_sweep"},
                  {"model", name},
                  {"scale", options.scale},
                  {"table", shape.name},
                  {"rows", work.tables[0].rows},
                  {"width", shape.width},
                  {"alpha", alpha},
                  {"ps_MB_per_host_step", ps / 1e6},
                  {"ar_MB_per_host_step", ar / 1e6},
                  {"ps_ms", ps_seconds * 1e3},
                  {"ar_ms", ar_seconds * 1e3},
                  {"wrong", wrong}});
    }
    if (measured.empty()) continue;
    std::string const by_bytes = ps_bytes[0] > 0 ? crossing(measured, ps_bytes, ar_bytes) : "-";
    std::string const by_time = crossing(measured, ps_time, ar_time);
    meetings.push_back({shape.name, by_bytes, by_time});
    report.found(meeting("parameter_server", "all_reduce", "bytes of a host for " + shape.name, measured, ps_bytes, ar_bytes));
    report.add({{"command", "alpha_crossing"},
                {"model", name},
                {"table", shape.name},
                {"alpha_by_bytes", by_bytes},
                {"alpha_by_time", by_time}});
    charts.push_back(line_chart(shape.name + ", bytes: all-reduce is the cheaper one from alpha " + by_bytes,
                                "alpha: share of its rows that a rank touches", "MB per host and step", 10, true, bytes));
    charts.push_back(line_chart(shape.name + ", time: all-reduce is the cheaper one from alpha " + by_time,
                                "alpha: share of its rows that a rank touches", "ms per step", 10, true, times));
  }
  report.section(charts, table);
  Table met{"the share of a table's rows (alpha) from which all-reduce costs less than the parameter server, of " +
                std::to_string(ranks.size()) + " ranks",
            {{"table", 14, true}, {"by bytes", 12}, {"by time", 12}},
            ranks.prints(),
            progress};
  for (auto& row : meetings) met.row(std::move(row));
  report.section({}, met);
}

}  // namespace bench
