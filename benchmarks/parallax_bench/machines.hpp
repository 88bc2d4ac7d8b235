// parallax-bench count: the bytes of a step on machines that are not there, counted over the ids of all their ranks, by scheme;
// and the time that they make in closed form.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "closed_form.hpp"
#include "report.hpp"

namespace bench {

// How tables are exchanged. Dense tensors are summed on two levels under every scheme, so that schemes differ in tables alone.
struct Scheme {
  std::string name;
  Way way;
  bool two_levels;
  std::function<void(ByteCount&, Workload const&, Asked const&)> tables;
};

// f(rows) for each table, machine m owning the m-th of equal contiguous ranges. `owner(machine, row)` names the owner.
template <class Owner, class F>
void for_tables_in_ranges(Workload const& work, Asked const& asked, std::size_t machines, Owner&& owner, F&& f) {
  for (std::size_t t = 0; t < work.tables.size(); ++t) {
    auto const layout = px::Block{}.layout(work.tables[t].rows, static_cast<int>(machines));
    auto const owner_of = [&](std::int64_t row) { return owner(at(layout.locate(row).owner), at(row)); };
    f(ByteCount::Rows<decltype(owner_of)>{at(work.tables[t].width) * sizeof(float), sizeof(std::int64_t), asked.distinct[t],
                                          asked.drawn[t], owner_of});
  }
}

inline std::vector<Scheme> schemes() {
  auto const by_way = [](std::string name, Way way, bool two_levels) {
    return Scheme{std::move(name), way, two_levels, [way](ByteCount& count, Workload const& work, Asked const& asked) {
                    count_tables(count, work, way, asked, sizeof(float));
                  }};
  };
  auto const ring = [](ByteCount& count, Workload const& work, Asked const& asked) {
    for_tables(work, asked, 1, sizeof(float), [&](auto const& rows) { count.gather_by_ring(rows); });
  };
  auto const ranges = [](ByteCount& count, Workload const& work, Asked const& asked) {
    std::size_t const machines = count.hosts(), slots = count.owners() / machines;
    auto const owner = [=](std::size_t machine, std::size_t row) { return row % slots * machines + machine; };
    for_tables_in_ranges(work, asked, machines, owner, [&](auto const& rows) { count.pull_and_push(rows); });
  };
  auto const published = [](ByteCount& count, Workload const& work, Asked const& asked) {
    auto const owner = [](std::size_t machine, std::size_t) { return machine; };
    for_tables_in_ranges(work, asked, count.hosts(), owner, [&](auto const& rows) { count.pull_by_rank_push_by_host(rows); });
  };
  return {by_way("all_reduce", Way::densified, true),
          by_way("all_gather", Way::gathered, false),
          {"all_gather, ring", Way::parameter_server, true, ring},  // in closed form nothing overlaps
          by_way("all_gather, hosts", Way::gathered, true),
          by_way("naive_parameter_server", Way::naive, true),
          {"original, ranges", Way::parameter_server, true, published},
          by_way("hybrid, ranks", Way::parameter_server, false),
          {"hybrid, hosts, ranges", Way::parameter_server, true, ranges},
          by_way("hybrid, hosts", Way::parameter_server, true)};
}

class MachineCount {
 public:
  MachineCount(Options options, bool prints, Report& report, Progress& progress)
      : options_{std::move(options)}, prints_{prints}, report_{report}, progress_{progress} {}

  void run() {
    if (options_.smoke && options_.scale == 1) options_.scale = 1000;
    Model const model = at_payload(model_named(options_.model, options_.width), options_.payload);
    Network const& network = options_.network;
    Table table{model.name + ": bytes of a machine in a step, counted, and milliseconds in closed form: " +
                    shown(options_.rounds) + " rounds of " + shown(network.latency * 1e6) + " us, " +
                    shown(network.bandwidth / 1e9) + " GB/s between machines, " + shown(network.local_bandwidth / 1e9) +
                    " GB/s within one",
                {{"machines", 8},
                 {"ranks", 5},
                 {"scheme", 22, true},
                 {"tables MB", 10},
                 {"busiest", 10},
                 {"to mean", 7},
                 {"all MB", 10},
                 {"busiest", 10},
                 {"local MB", 10},
                 {"ms", 9}},
                prints_,
                progress_};
    std::vector<Line> lines;
    for (Machines const& layout : options_.machines) count(model, layout, table, lines);
    report_.section({line_chart("A step by the number of ranks, in closed form", "ranks", "ms", 2, true, lines)}, table);
  }

 private:
  void count(Model const& model, Machines const& layout, Table& table, std::vector<Line>& lines) {
    int const ranks = layout.machines * layout.ranks;
    Workload const work = make_workload(options_, model.dense, model.sparse, ranks, 1, options_.alpha, false, nullptr);
    Asked const asked = asked_of(work, 0);
    auto const machines = machine_of_ranks(layout);
    auto const all = schemes();
    lines.resize(all.size());
    progress_.begin(std::to_string(ranks) + " ranks", static_cast<std::int64_t>(all.size()));
    for (std::size_t s = 0; s < all.size(); ++s) {
      Scheme const& scheme = all[s];
      ByteCount dense{ranks, machines}, tables{ranks, scheme.two_levels ? machines : std::vector<int>{}, machines};
      count_dense(dense, work, sizeof(float));
      scheme.tables(tables, work, asked);
      ByteCount sum = dense;
      sum.add(tables);
      ByteCount pull{ranks, machines}, push = pull;
      if (scheme.two_levels) count_parts(pull, push, work, scheme.way, asked, sizeof(float));
      Parts const parts{load_of(dense.flows, machines), load_of(pull.flows, machines), load_of(push.flows, machines),
                        load_of(sum.flows, machines)};
      Load const of_tables = load_of(tables.flows, machines);
      double const seconds = closed_form(options_.network, parts, scheme.way, true, options_.rounds);
      add(model, layout, scheme, of_tables, parts.all, seconds, table);
      lines[s].name = scheme.name;
      lines[s].points.emplace_back(ranks, seconds * 1e3);
      progress_.advance();
    }
  }

  void add(Model const& model, Machines const& layout, Scheme const& scheme, Load const& tables, Load const& all,
           double seconds, Table& table) {
    auto const mb = [](double bytes) { return fixed(bytes / 1e6, 4); };
    double const to_mean = tables.sent_mean > 0 ? tables.link_busiest / tables.sent_mean : 1;
    table.row({std::to_string(layout.machines), std::to_string(layout.ranks), scheme.name, mb(tables.sent_mean),
               mb(tables.link_busiest), fixed(to_mean, 3), mb(all.sent_mean), mb(all.link_busiest), mb(all.local_busiest),
               fixed(seconds * 1e3, 3)});
    report_.add({{"command", "count"},
                 {"model", model.name},
                 {"scale", options_.scale},
                 {"machines", std::int64_t{layout.machines}},
                 {"ranks_of_each", std::int64_t{layout.ranks}},
                 {"scheme", scheme.name},
                 {"tables_MB_mean", tables.sent_mean / 1e6},
                 {"tables_MB_busiest", tables.link_busiest / 1e6},
                 {"all_MB_mean", all.sent_mean / 1e6},
                 {"all_MB_busiest", all.link_busiest / 1e6},
                 {"local_MB_busiest", all.local_busiest / 1e6},
                 {"closed_form_ms", seconds * 1e3}});
  }

  Options options_;
  bool prints_;
  Report& report_;
  Progress& progress_;
};

}  // namespace bench
