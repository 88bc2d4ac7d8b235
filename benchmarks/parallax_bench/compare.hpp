// parallax-bench compare: a whole model under every policy, and the share of touched rows at which two of them meet
// (sweep.hpp).
#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "measured.hpp"
#include "report.hpp"
#include "sweep.hpp"

namespace bench {

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
    if (!options_.alpha_sweep.empty() && !model.sparse.empty())
      sweep<T>(options_, model.name, shapes_of(model), ranks_, report_, progress_, memory_);
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
    std::vector<Bar> bytes, busiest, times;
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
      if (counted) busiest.push_back({methods[m].name, is.busiest / 1e6});
      times.push_back(
          {methods[m].name, outcome.seconds.median * 1e3, outcome.seconds.low * 1e3, outcome.seconds.high * 1e3, fastest});
    }
    report_.found(winners.sentence("of a step of " + model.name + " on " + std::to_string(ranks_.size()) + " ranks"));
    report_.found("The fewest bytes, " + said(least_bytes / 1e6) + " MB by a host in a step on average, are those of " +
                  listed(frugal) + ".");
    if (!busiest.empty()) {
      auto const less = [](Bar const& a, Bar const& b) { return a.value < b.value; };
      auto const [least, most] = std::minmax_element(busiest.begin(), busiest.end(), less);
      report_.found("The busiest host sends " + said(least->value) + " MB in a step under " + least->label + ", and " +
                    said(most->value) + " MB under " + most->label + ".");
      for (Bar& bar : busiest) bar.best = bar.value <= least->value;
    }
    report_.section({bar_chart("Sent by a host in a step, mean", "MB (10^6 bytes)", bytes),
                     bar_chart("Sent by the busiest host in a step", "MB (10^6 bytes)", busiest),
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
