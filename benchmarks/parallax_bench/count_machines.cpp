// parallax-bench count: the bytes of a step on machines that are not there, counted over the ids of all their ranks, by scheme;
// and the time that they make in closed form.
#include <functional>
#include <string>
#include <vector>

#include "closed_form.hpp"
#include "commands.hpp"
#include "crossing.hpp"
#include "fastest.hpp"
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
  MachineCount(Options options, bool prints, Report& report, Progress& progress, Ids const* recorded)
      : options_{std::move(options)}, prints_{prints}, report_{report}, progress_{progress}, recorded_{recorded} {}

  // The model, or, where rows are given, one table; then, where shares are given, each table by the share of its rows that a
  // rank touches.
  void run() {
    if (options_.smoke && options_.scale == 1 && options_.rows == 0) options_.scale = 1000;
    Model model = model_named(options_.model, options_.width);
    if (options_.rows > 0) {
      std::int64_t const width = options_.width ? options_.width : 128;
      double const alpha = options_.alpha > 0 ? options_.alpha : 0.01;
      std::string const name = std::to_string(options_.rows) + " x " + std::to_string(width);
      model = {"table of " + name, "", 0, 0, {}, {{name, options_.rows, width, alpha}}};
    }
    model = at_payload(model, options_.payload);
    by_layout(model);
    if (options_.alpha_sweep_given && !options_.alpha_sweep.empty())
      for (TableShape const& shape : model.sparse)
        for (Machines const& layout : options_.machines) sweep(shape, layout);
  }

 private:
  static constexpr double same = 0.01;  // times in closed form tie that are no further apart

  static std::string on(Machines const& layout) {
    return std::to_string(layout.machines) + (layout.machines == 1 ? " machine of " : " machines of ") +
           std::to_string(layout.ranks) + (layout.ranks == 1 ? " rank" : " ranks");
  }

  void by_layout(Model const& model) {
    Network const& network = options_.network;
    Table table{model.name + (options_.scale > 1 ? " at 1/" + std::to_string(options_.scale) : "") +
                    (recorded_ ? ", recorded ids" : "") +
                    ": bytes of a machine in a step, counted, and milliseconds in closed form: " + shown(options_.rounds) +
                    " rounds of " + shown(network.latency * 1e6) + " us, " + shown(network.bandwidth / 1e9) +
                    " GB/s between machines, " + shown(network.local_bandwidth / 1e9) + " GB/s within one",
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
    report_.found(found_);
    report_.section({line_chart("A step by the number of ranks, in closed form", "ranks", "ms", 2, true, lines)}, table);
  }

  // A rank names each of its rows once; of recorded ids it takes so many as name that share of the rows.
  void sweep(TableShape const& shape, Machines const& layout) {
    std::string const where = shape.name + " on " + on(layout);
    auto const of = [](double value, double whole) { return whole > 0 ? fixed(value / whole, 3) : std::string{"-"}; };
    auto const all = schemes();
    Table table{where + ", by the share of its rows that a rank touches" + (recorded_ ? ", recorded ids" : "") +
                    ": MB of the busiest machine, counted, and ms in closed form",
                {{"alpha", 8}, {"scheme", 22, true}, {"MB", 12}, {"of all_reduce", 8}, {"ms", 10}, {"of all_reduce", 8}},
                prints_,
                progress_};
    std::vector<Line> bytes(all.size()), times(all.size());
    std::vector<double> alphas;
    std::vector<std::vector<double>> of_bytes(all.size()), of_times(all.size());
    for (double const alpha : options_.alpha_sweep) {
      alphas.push_back(alpha);
      auto const counts = counted({}, {shape}, layout, alpha, true);
      for (std::size_t s = 0; s < all.size(); ++s) {
        double const busiest = counts[s].parts.all.link_busiest, seconds = counts[s].seconds;
        of_bytes[s].push_back(busiest), of_times[s].push_back(seconds);
        bytes[s].name = times[s].name = all[s].name;
        bytes[s].points.emplace_back(alpha, busiest / 1e6), times[s].points.emplace_back(alpha, seconds * 1e3);
        table.row({shown(alpha), all[s].name, fixed(busiest / 1e6, 4), of(busiest, counts[0].parts.all.link_busiest),
                   fixed(seconds * 1e3, 3), of(seconds, counts[0].seconds)});
        report_.add({{"command", "alpha_sweep"},
                     {"table", shape.name},
                     {"machines", std::int64_t{layout.machines}},
                     {"ranks_of_each", std::int64_t{layout.ranks}},
                     {"alpha", alpha},
                     {"scheme", all[s].name},
                     {"all_MB_mean", counts[s].parts.all.sent_mean / 1e6},
                     {"all_MB_busiest", busiest / 1e6},
                     {"closed_form_ms", seconds * 1e3}});
      }
    }
    report_.section({line_chart(where + ": bytes", alpha_label, "MB of the busiest machine", 10, true, bytes),
                     line_chart(where + ": time, in closed form", alpha_label, "ms", 10, true, times)},
                    table);
    Table met{where + ": alpha from which the all-reduce is the cheaper one",
              {{"scheme", 22, true}, {"by bytes", 12}, {"by time", 12}},
              prints_,
              progress_};
    for (std::size_t s = 1; s < all.size(); ++s) {
      std::string const by_bytes = crossing(alphas, of_bytes[s], of_bytes[0]);
      std::string const by_time = crossing(alphas, of_times[s], of_times[0]);
      met.row({all[s].name, by_bytes, by_time});
      report_.add({{"command", "alpha_crossing"},
                   {"table", shape.name},
                   {"machines", std::int64_t{layout.machines}},
                   {"ranks_of_each", std::int64_t{layout.ranks}},
                   {"scheme", all[s].name},
                   {"alpha_by_bytes", by_bytes},
                   {"alpha_by_time", by_time}});
    }
    report_.section({}, met);
    report_.found(
        meeting(all.back().name, all[0].name, "time in closed form for " + where, alphas, of_times.back(), of_times[0]));
  }

  struct Counted {
    Load tables;
    Parts parts;
    double seconds = 0;
  };

  // A step by every scheme.
  std::vector<Counted> counted(std::vector<Tensor> const& dense_tensors, std::vector<TableShape> const& shapes,
                               Machines const& layout, double alpha, bool once) {
    int const ranks = layout.machines * layout.ranks;
    Workload const work = make_workload(options_, dense_tensors, shapes, ranks, 1, alpha, once, recorded_);
    Asked const asked = asked_of(work, 0);
    auto const machines = machine_of_ranks(layout);
    auto const all = schemes();
    progress_.begin(std::to_string(ranks) + " ranks", static_cast<std::int64_t>(all.size()));
    std::vector<Counted> result;
    for (Scheme const& scheme : all) {
      ByteCount dense{ranks, machines}, tables{ranks, scheme.two_levels ? machines : std::vector<int>{}, machines};
      count_dense(dense, work, sizeof(float));
      scheme.tables(tables, work, asked);
      ByteCount sum = dense;
      sum.add(tables);
      ByteCount pull{ranks, machines}, push = pull;
      if (scheme.two_levels) count_parts(pull, push, work, scheme.way, asked, sizeof(float));
      Parts const parts{load_of(dense.flows, machines), load_of(pull.flows, machines), load_of(push.flows, machines),
                        load_of(sum.flows, machines)};
      result.push_back(
          {load_of(tables.flows, machines), parts, closed_form(options_.network, parts, scheme.way, true, options_.rounds)});
      progress_.advance();
    }
    return result;
  }

  void count(Model const& model, Machines const& layout, Table& table, std::vector<Line>& lines) {
    auto const all = schemes();
    auto const counts = counted(model.dense, model.sparse, layout, options_.alpha, false);
    lines.resize(all.size());
    std::vector<Contender> contenders;
    for (std::size_t s = 0; s < all.size(); ++s) {
      contenders.push_back({all[s].name, within(same, counts[s].seconds)});
      add(model, layout, all[s], counts[s].tables, counts[s].parts.all, counts[s].seconds, table);
      lines[s].name = all[s].name;
      lines[s].points.emplace_back(layout.machines * layout.ranks, counts[s].seconds * 1e3);
    }
    Quantity time;
    time.noun = "time in closed form", time.rule = within_rule(same);
    found_ = Fastest{contenders}.sentence("of a step of " + model.name + " on " + on(layout), time);
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

  static constexpr char const* alpha_label = "alpha: share of its rows that a rank touches";

  Options options_;
  bool prints_;
  Report& report_;
  Progress& progress_;
  Ids const* recorded_;
  std::string found_;  // of the last layout
};

namespace {

[[maybe_unused]] bool const here = bring("count", [](Run const& run) {
  MachineCount{run.options, run.prints, run.report, run.progress, run.recorded}.run();
});

}  // namespace

}  // namespace bench
