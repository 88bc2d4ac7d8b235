// parallax-bench compare: a whole model under every policy, and the share of touched rows at which two of them meet.
#pragma once

#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <vector>

#include "crossing.hpp"
#include "measured.hpp"
#include "report.hpp"

namespace bench {

// About how many bytes of memory all ranks together need for these methods at once.
inline double memory_needed(Workload const& work, std::vector<Method> const& methods, std::size_t scalar_bytes) {
  double elements = 0;
  for (auto const& method : methods) {
    elements += 3.5 * real(work.dense_elements());
    for (std::size_t t = 0; t < work.tables.size(); ++t) {
      double const table = real(work.tables[t].rows) * real(work.tables[t].width);
      bool const sharded = method.way == Way::parameter_server || method.way == Way::naive;
      elements += table * (sharded ? 1.0 / work.ranks : method.way == Way::densified ? 3.5 : 1.0);
      elements += 6 * real(work.streams[t].largest()) * real(work.tables[t].width);
    }
  }
  return elements * real(scalar_bytes) * work.ranks;
}

// What may be taken of this machine's memory: four fifths of what is free now.
inline double memory_available() {
  std::ifstream file{"/proc/meminfo"};
  std::string name, unit;
  for (double kilobytes = 0; file >> name >> kilobytes && std::getline(file, unit);)
    if (name == "MemAvailable:") return 0.8 * 1024 * kilobytes;
  return 0.5 * real(sysconf(_SC_PHYS_PAGES)) * real(sysconf(_SC_PAGESIZE));
}

// The model that was asked for, and in `options` by how much its tables are divided.
inline Model asked_model(Options& options) {
  Model model = at_payload(model_named(options.model, options.width), options.payload);
  if (options.smoke && options.scale == 1) options.scale = 1000;
  if (options.smoke)
    for (auto& tensor : model.dense) tensor.elements = std::min<std::int64_t>(tensor.elements, 500);
  return model;
}
template <class T>
std::vector<Method> asked_methods(Options const& options) {
  std::vector<Method> methods;
  for (auto const policy : policy_names)
    if (options.policies.empty() ||
        std::find(options.policies.begin(), options.policies.end(), policy) != options.policies.end())
      methods.push_back(method_of<T>(policy));
  return methods;
}
inline void refuse_too_large(Model const& model, Workload const& work, std::vector<Method> const& methods, double memory,
                             std::size_t scalar_bytes) {
  for (auto const& method : methods)
    if (double const needed = memory_needed(work, {method}, scalar_bytes); needed > memory)
      throw Refusal{model.name + " under " + method.name + " needs about " + fixed(needed / 1e9, 1) + " GB for " +
                    std::to_string(work.ranks) + " ranks and there are " + fixed(memory / 1e9, 1) +
                    " GB: give a larger --scale, or --policy without it"};
}

template <class T>
class Comparison {
 public:
  Comparison(Options options, Ranks& ranks, Report& report, Progress& progress, Ids const* recorded)
      : options_{std::move(options)}, ranks_{ranks}, report_{report}, progress_{progress}, recorded_{recorded} {}

  void run() {
    report_.wrong(wrong_totals());
    Model const model = asked_model(options_);
    steps_ = options_.iterations ? options_.iterations : options_.smoke ? 2 : 10;
    int const batches = std::min(steps_, 4);
    Workload const work =
        make_workload(options_, model.dense, model.sparse, ranks_.size(), batches, options_.alpha, false, recorded_);
    // The least of what the processes find, so that all decide alike.
    memory_ = ranks_.least(memory_available());
    wire_ = calibrate(ranks_, options_.smoke);
    policies(model, work);
    if (!options_.alpha_sweep.empty() && !model.sparse.empty()) sweep(model);
  }

 private:
  void policies(Model const& model, Workload const& work) {
    auto methods = asked_methods<T>(options_);
    if (ranks_.has_vendor()) {
      methods.push_back(method_of<T>(raw_method));
    }
    refuse_too_large(model, work, methods, memory_, sizeof(T));

    std::string asked;
    for (std::size_t t = 0; t < work.tables.size() && t < 3; ++t) {
      double touched = 0;
      for (auto const& of_rank : work.streams[t].ids) touched += real(sorted_distinct(of_rank[0]).size()) / work.ranks;
      asked += (t ? ", " : "; rows of a rank: ") + fixed(touched, 0) + " of " + std::to_string(work.tables[t].rows);
    }
    if (work.tables.size() > 3) asked += ", ...";
    std::int64_t sparse = 0;
    for (auto const& table : work.tables) sparse += table.rows * table.width;
    auto const& hosts = ranks_.hosts();
    std::size_t const host_count = ByteCount{ranks_.size(), hosts}.hosts();
    Table table{model.name + " (" + model.source + "): " + std::to_string(work.dense_elements()) + " dense elements in " +
                    std::to_string(work.dense.size()) + " tensors, " + std::to_string(sparse) + " in " +
                    std::to_string(work.tables.size()) + " tables" +
                    (options_.scale > 1 ? " at 1/" + std::to_string(options_.scale) : "") +
                    (options_.payload > 1 ? ", payload 1/" + std::to_string(options_.payload) : "") + "; " +
                    std::to_string(ranks_.size()) + " ranks on " + std::to_string(host_count) + " hosts" + asked +
                    "; a message " + shown(wire_.latency * 1e6) + " us, " +
                    (wire_.per_byte > 0 ? shown(1e-9 / wire_.per_byte) + " GB/s" : "no bytes between ranks"),
                {{"policy", 22, true},
                 {"MB/host", 9},
                 {"by count", 9},
                 {"busiest", 9},
                 {"by count", 9},
                 {"messages", 8},
                 {"rounds", 6},
                 {"ms/step", 9},
                 {"p10", 9},
                 {"p90", 9},
                 {"wire ms", 9},
                 {"#wrong", 6},
                 {"best by", 17, true}},
                ranks_.prints(),
                progress_};

    std::vector<Outcome> outcomes;
    for (auto const& method : methods) {
      progress_.begin(method.name, steps_);
      Schedule const plan{steps_, options_.smoke ? 1 : options_.warmup, 1, options_.check, report_.traced()};
      outcomes.push_back(measure(ranks_, work, {method}, plan, sizeof(T), progress_)[0]);
    }
    double least_bytes = std::numeric_limits<double>::infinity();
    std::vector<Contender> contenders;
    for (std::size_t m = 0; m < methods.size(); ++m) {
      if (!methods[m].counted) continue;
      least_bytes = std::min(least_bytes, outcomes[m].sent_of_host(outcomes[m].counted, hosts).mean);
      contenders.push_back({methods[m].name, outcomes[m].seconds});
    }
    Fastest const winners{contenders};
    std::vector<std::string> frugal;
    std::vector<Bar> bytes, times;
    for (std::size_t m = 0; m < methods.size(); ++m) {
      Outcome const& outcome = outcomes[m];
      bool const counted = methods[m].counted;
      auto const is = outcome.sent_of_host(outcome.counted, hosts);
      auto const should = counted ? outcome.sent_of_host(outcome.expected, hosts) : floor_of(work, host_count);
      bool const most_frugal = counted && is.mean == least_bytes, fastest = counted && winners.has(methods[m].name);
      if (most_frugal) frugal.push_back(methods[m].name);
      double const predicted = outcome.most_messages * wire_.latency + outcome.most_sent(outcome.expected) * wire_.per_byte;
      std::string const time = !fastest ? "" : winners.names.size() > 1 ? "time (tie)" : "time";
      std::string const best = std::string{most_frugal ? "bytes" : ""} + (most_frugal && fastest ? ", " : "") + time;
      auto const mb = [](double b) { return fixed(b / 1e6, 4); };
      auto const ms = [](double s) { return fixed(s * 1e3, 3); };
      table.row({methods[m].name, counted ? mb(is.mean) : "-", mb(should.mean), counted ? mb(is.busiest) : "-",
                 counted ? mb(should.busiest) : "-", counted ? fixed(outcome.messages, 1) : "-",
                 counted ? fixed(outcome.rounds, 1) : "-", ms(outcome.seconds.median), ms(outcome.seconds.low),
                 ms(outcome.seconds.high), counted ? ms(predicted) : "-",
                 options_.check ? std::to_string(outcome.wrong) : "N/A", best});
      report_.wrong(outcome.wrong);
      Record record{{"command", "compare"},
                    {"model", model.name},
                    {"scale", options_.scale},
                    {"payload", options_.payload},
                    {"policy", methods[m].name}};
      if (counted)
        record.insert(record.end(), {{"sent_MB_per_host_step", is.mean / 1e6},
                                     {"sent_MB_busiest_host_step", is.busiest / 1e6},
                                     {"messages_per_step", outcome.messages},
                                     {"rounds_per_step", outcome.rounds},
                                     {"predicted_ms", predicted * 1e3}});
      record.insert(record.end(), {{"expected_MB_per_host_step", should.mean / 1e6},
                                   {"time_ms", outcome.seconds.median * 1e3},
                                   {"time_p10_ms", outcome.seconds.low * 1e3},
                                   {"time_p90_ms", outcome.seconds.high * 1e3},
                                   {"best_by", best},
                                   {"wrong", outcome.wrong}});
      report_.add(std::move(record));
      bytes.push_back({methods[m].name, should.mean / 1e6, 0, 0, most_frugal});
      times.push_back(
          {methods[m].name, outcome.seconds.median * 1e3, outcome.seconds.low * 1e3, outcome.seconds.high * 1e3, fastest});
    }
    report_.found(winners.sentence("of a step of " + model.name + " on " + std::to_string(ranks_.size()) + " ranks"));
    report_.found("The fewest bytes, " + fixed(least_bytes / 1e6, 4) + " MB by a host in a step, are those of " +
                  listed(frugal) + ".");
    report_.section({bar_chart("Sent by a host in a step, mean", "MB (10^6 bytes)", bytes),
                     bar_chart("Time of a step: median, tenth to ninetieth percentile", "ms", times)},
                    table);
  }

  // What allgatherv of pairs and an all-reduce send at best: each pair once to every other host.
  Outcome::Hosts floor_of(Workload const& work, std::size_t hosts) const {
    double pairs = 0;
    for (std::size_t t = 0; t < work.tables.size(); ++t)
      for (auto const& of_rank : work.streams[t].ids)
        for (auto const& batch : of_rank)
          pairs += real(sorted_distinct(batch).size()) * (real(work.tables[t].width) * sizeof(T) + sizeof(std::int64_t)) /
                   work.batches;
    double const share = real(hosts - 1) / real(hosts);
    return {share * (pairs + 2 * real(work.dense_elements()) * sizeof(T)), 0};
  }

  void sweep(Model const& model) {
    std::vector<TableShape> shapes;  // tables of one shape behave alike
    for (auto const& table : model.sparse) {
      auto const same = [&](TableShape const& other) { return other.rows == table.rows && other.width == table.width; };
      if (std::none_of(shapes.begin(), shapes.end(), same)) shapes.push_back(table);
    }
    if (shapes.size() > 4) {  // the largest
      std::sort(shapes.begin(), shapes.end(), [](auto const& a, auto const& b) { return a.rows * a.width > b.rows * b.width; });
      shapes.resize(4);
    }
    auto alphas = options_.alpha_sweep;
    if (options_.smoke && !options_.alpha_sweep_given) alphas = {0.1, 1};
    auto const& hosts = ranks_.hosts();
    Table table{"one table by the share of its rows that a rank touches, each once",
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
                ranks_.prints(),
                progress_};
    std::vector<std::string> charts;
    std::vector<std::vector<std::string>> meetings;
    int const steps = options_.smoke ? 1 : std::clamp(options_.iterations ? options_.iterations : 5, 1, 20);
    for (auto const& shape : shapes) {
      std::vector<Line> bytes{{"parameter server", {}}, {"all-reduce", {}}}, times = bytes;
      std::vector<double> measured, ps_bytes, ar_bytes, ps_time, ar_time;
      for (double const alpha : alphas) {
        Workload const work = make_workload(options_, {}, {shape}, ranks_.size(), std::min(steps, 2), alpha, true, nullptr);
        std::vector<Method> const methods{method_of<T>("parameter_server"), method_of<T>("all_reduce")};
        if (double const needed = memory_needed(work, methods, sizeof(T)); needed > memory_) {
          table.row({shape.name, std::to_string(work.tables[0].rows), std::to_string(shape.width), shown(alpha),
                     "left out: ", fixed(needed / 1e9, 0) + " GB", "-", "-", "-", "-", "-"});
          continue;
        }
        measured.push_back(alpha);
        progress_.begin(shape.name + " at alpha " + shown(alpha), 2 * steps);
        auto const outcomes = measure(ranks_, work, methods, {steps, 1, 1, options_.check}, sizeof(T), progress_);
        double const ps = outcomes[0].sent_of_host(outcomes[0].counted, hosts).mean,
                     ar = outcomes[1].sent_of_host(outcomes[1].counted, hosts).mean;
        double const ps_seconds = outcomes[0].seconds.median, ar_seconds = outcomes[1].seconds.median;
        std::int64_t const wrong = outcomes[0].wrong + outcomes[1].wrong;
        ps_bytes.push_back(ps), ar_bytes.push_back(ar), ps_time.push_back(ps_seconds), ar_time.push_back(ar_seconds);
        bytes[0].points.emplace_back(alpha, ps / 1e6), bytes[1].points.emplace_back(alpha, ar / 1e6);
        times[0].points.emplace_back(alpha, ps_seconds * 1e3), times[1].points.emplace_back(alpha, ar_seconds * 1e3);
        table.row({shape.name, std::to_string(work.tables[0].rows), std::to_string(shape.width), shown(alpha),
                   fixed(ps / 1e6, 4), fixed(ar / 1e6, 4), fixed(ps_seconds * 1e3, 3), fixed(ar_seconds * 1e3, 3),
                   ar > 0 ? fixed(ps / ar, 3) : "-", fixed(ps_seconds / ar_seconds, 3),
                   options_.check ? std::to_string(wrong) : "N/A"});
        report_.wrong(wrong);
        report_.add({{"command", "alpha_sweep"},
                     {"model", model.name},
                     {"scale", options_.scale},
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
      report_.found(
          meeting("parameter_server", "all_reduce", "bytes of a host for " + shape.name, measured, ps_bytes, ar_bytes));
      report_.add({{"command", "alpha_crossing"},
                   {"model", model.name},
                   {"table", shape.name},
                   {"alpha_by_bytes", by_bytes},
                   {"alpha_by_time", by_time}});
      charts.push_back(line_chart(shape.name + ", bytes: all-reduce is the cheaper one from alpha " + by_bytes,
                                  "alpha: share of its rows that a rank touches", "MB per host and step", 10, true, bytes));
      charts.push_back(line_chart(shape.name + ", time: all-reduce is the cheaper one from alpha " + by_time,
                                  "alpha: share of its rows that a rank touches", "ms per step", 10, true, times));
    }
    report_.section(charts, table);
    Table met{"alpha from which the all-reduce is the cheaper one",
              {{"table", 14, true}, {"by bytes", 12}, {"by time", 12}},
              ranks_.prints(),
              progress_};
    for (auto& row : meetings) met.row(std::move(row));
    report_.section({}, met);
  }

  Options options_;
  Ranks& ranks_;
  Report& report_;
  Progress& progress_;
  Ids const* recorded_;
  int steps_ = 0;
  Wire wire_;
  double memory_ = 0;
};

}  // namespace bench
