// parallax-bench peers: steps of the library over MPI and over sockets beside the same steps by hand on MPI, and on Gloo where it
// is, in time and in bytes on the wire.
#ifdef PARALLAX_HAS_MPI
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "by_gloo.hpp"
#include "by_hand.hpp"
#include "commands.hpp"
#include "compare.hpp"
#include "over_sockets.hpp"

namespace bench {

// What a host may send beside the payload that is counted: headers, and what its ranks agree on.
inline constexpr double wire_share = 1.005, wire_slack = 20'000;

// The payload that this host has sent on a device since it exists: its bytes less one header of 66 bytes (Ethernet 14, IP 20,
// TCP with timestamps 32) for every packet that the kernel counts.
inline double payload_of_wire(std::string const& device) {
  std::ifstream devices{"/proc/net/dev"};
  for (std::string line; std::getline(devices, line);) {
    std::size_t const begin = line.find_first_not_of(' ');
    if (begin == line.npos || line.compare(begin, device.size() + 1, device + ':') != 0) continue;
    std::istringstream columns{line.substr(begin + device.size() + 1)};
    double skipped = 0, bytes = 0, packets = 0;
    for (int received = 0; received < 8; ++received) columns >> skipped;
    columns >> bytes >> packets;
    return bytes - 66 * packets;
  }
  throw Refusal{"--wire: this machine has no " + device};
}

// What else is aimed at: a method takes at most so much of the time of another one.
struct Aim {
  std::string method, beside;
  double most;
};
// One workload: what is trained, by which methods, and how much of the fastest reference's time the first of them may take.
struct Peers {
  std::string name;
  std::vector<Tensor> dense;
  std::int64_t rows, width, touched;  // of a table, or 0: none; `touched`: how many rows a rank names, each once
  std::vector<Method> methods;
  std::size_t first_reference, last_reference;  // of `methods`
  double demand;
  std::vector<Aim> aims = {};
};

// Beside tables AllGather as well, which sends what the references send; between two ranks also Auto, which is to choose the best.
// `device`: by which hosts reach each other.
template <class T>
std::vector<Peers> all_peers(int ranks, [[maybe_unused]] std::string const& device) {
  auto const by_hand = [](std::string name, Sums sums, Rows rows, bool blocking) {
    Way const way = rows == Rows::gathered ? Way::gathered : Way::densified;
    return Method{std::move(name), way, false, [=](World const& world, Workload const& work) -> std::unique_ptr<Training> {
                    return std::make_unique<HandTraining<T>>(world, work, sums, rows, blocking);
                  }};
  };
  auto ours = method_of<T>("hybrid"), vendor = method_of<T>(vendor_method);
  auto ahead = method_of<T>(ahead_method), everywhere = method_of<T>("all_gather"), chosen = method_of<T>("auto");
  everywhere.name = "parallax, AllGather", chosen.name = "parallax, Auto";
  ours.name = "parallax", ahead.name = "parallax, ids ahead", vendor.name = "parallax, vendor's sum";
  Rows const gathered = Rows::gathered;
  auto const sequence = by_hand("MPI_Allreduce each", Sums::in_sequence, gathered, true),
             at_once = by_hand("MPI_Iallreduce at once", Sums::at_once, gathered, false),
             fused = by_hand("MPI_Allreduce, fused", Sums::fused, gathered, true),
             fused_polled = by_hand("MPI_Iallreduce, fused", Sums::fused, gathered, false);
  std::vector<Method> const of_lists{ours, vendor, fused, fused_polled, at_once, sequence};
  std::vector<Method> of_tables{ours, by_hand("MPI_Allgatherv", Sums::fused, gathered, true),
                                by_hand("MPI_Iallgatherv", Sums::fused, gathered, false),
                                by_hand("MPI_Allreduce, dense", Sums::fused, Rows::densified, true)};
  std::vector<Tensor> small;
  for (int i = 0; i < 1000; ++i) small.push_back({std::to_string(i), 1024 / sizeof(T)});
  std::vector<Peers> all;
  auto const of = [&](std::string name, std::vector<Tensor> dense, std::vector<Method> methods, std::size_t first,
                      std::size_t last, double demand) -> Peers& {
    return all.emplace_back(Peers{std::move(name), std::move(dense), 0, 0, 0, std::move(methods), first, last, demand});
  };
  of("w1", {{"values", 25'557'032}}, {ours, vendor, sequence, at_once}, 2, 2, 1.0);
  of("w1t", resnet50().dense, of_lists, 2, 4, 1.0);
  of("inception3", inception3().dense, of_lists, 2, 4, 1.0);
  of("w4", small, of_lists, 5, 5, 0.02);
  auto const table = [](Peers& peers, std::int64_t rows, std::int64_t width, std::int64_t touched) {
    peers.rows = rows, peers.width = width, peers.touched = touched;
  };
  table(of("w2", {}, of_tables, 1, 2, 0.75), 800'000, 128, 2'560);
  all.back().methods.push_back(ahead);
  table(of("w3b", {{"values", 9'410'000}}, of_tables, 1, 2, 0.65), 36'000, 1'024, 23'400);
  for (Peers& peers : all) {
    if (peers.rows == 0) continue;
    peers.methods.push_back(everywhere);
    if (ranks == 2) peers.methods.push_back(chosen);
    peers.aims.push_back({everywhere.name, "MPI_Iallgatherv", 1.1});
  }
  std::string const sockets = "parallax, sockets";
  for (Peers& peers : all) {
    peers.methods.push_back(over_sockets(ours, device));
    if (peers.name == "w1") peers.aims.push_back({sockets, sequence.name, 1.0});
    if (peers.rows > 0) peers.aims.push_back({sockets, ours.name, 1.05});
  }
#ifdef PARALLAX_HAS_GLOO
  auto const on_gloo = [&](std::string name, bool in_one) {
    return Method{std::move(name), Way::gathered, false,
                  [in_one, device](World const& world, Workload const& work) -> std::unique_ptr<Training> {
                    return std::make_unique<GlooTraining<T>>(world, work, in_one, device);
                  }};
  };
  Method const each = on_gloo("Gloo each", false), at_one_go = on_gloo("Gloo, fused", true);
  for (Peers& peers : all) {
    if (peers.rows > 0) continue;
    peers.methods.push_back(each);
    if (peers.dense.size() > 1) peers.methods.push_back(at_one_go);
    if (peers.name == "w1t") peers.aims.push_back({sockets, each.name, 0.5});
    if (peers.name == "w4") peers.aims.push_back({sockets, each.name, 0.01});
  }
#endif
  return all;
}

template <class T>
class PeersRun {
 public:
  PeersRun(Options const& options, Ranks& ranks, Report& report, Progress& progress)
      : options_{options}, ranks_{ranks}, report_{report}, progress_{progress} {}

  void run() {
    if (!options_.wire.empty()) {
      if (!ranks_.hosts().empty()) throw Refusal{"--wire wants every rank on a host of its own, without --hosts"};
      ranks_.run([&](World const&) { return Ranks::Numbers{payload_of_wire(options_.wire)}; });  // there is such a device
    }
    if (ranks_.prints()) {
      std::string version = mpi_version(true);
      for (std::size_t gap; (gap = version.find("  ")) != version.npos;) version.erase(gap, 1);
      std::string line = "# " + version + ", " + std::to_string(ranks_.size()) + " ranks, " +
                         std::to_string(std::thread::hardware_concurrency()) + " cores";
      for (char const* name : {"MPIR_CVAR_CH4_NETMOD", "FI_PROVIDER", "MPIR_CVAR_ALLGATHERV_PIPELINE_MSG_SIZE"})
        if (char const* const value = std::getenv(name)) line += std::string{", "} + name + '=' + value;
      print_line(line);
    }
    for (Peers const& peers : all_peers<T>(ranks_.size(), options_.wire.empty() ? "lo" : options_.wire))
      if (options_.workloads.empty() ||
          std::find(options_.workloads.begin(), options_.workloads.end(), peers.name) != options_.workloads.end())
        measure(peers);
    report_.found(sentence_of(duels_, "parallax", "the fastest reference by hand", "workloads", Quantity{}.rule));
  }

 private:
  bool full_size() const {
    auto const& o = options_;
    return !o.smoke && !o.rows && !o.width && o.scale == 1 && o.payload == 1 && o.alpha == 0;
  }

  Workload workload(Peers const& peers, int batches) const {
    auto dense = peers.dense;
    for (auto& tensor : dense) {
      tensor.elements = std::max<std::int64_t>(tensor.elements / options_.payload, 1);
      if (options_.smoke) tensor.elements = std::min<std::int64_t>(tensor.elements, 500);
    }
    std::vector<TableShape> tables;
    Options unscaled = options_;
    unscaled.scale = 1;
    double alpha = 1;
    if (peers.rows > 0) {
      TableShape table{"table", peers.rows, peers.width, 0};
      if (options_.rows) table.rows = options_.rows;
      if (options_.width) table.width = options_.width;
      table.rows = std::max<std::int64_t>(table.rows / (options_.smoke ? 1000 : options_.scale), 1);
      table.width = std::max<std::int64_t>(table.width / (options_.smoke ? 16 : options_.payload), 1);
      alpha = options_.alpha > 0 ? options_.alpha : std::min(real(peers.touched) / real(table.rows), 0.65);
      tables.push_back(std::move(table));
    }
    return make_workload(unscaled, std::move(dense), std::move(tables), ranks_.size(), batches, alpha, true, nullptr);
  }

  void measure(Peers const& peers) {
    int const steps = options_.iterations ? options_.iterations : options_.smoke ? 2 : 15;
    Schedule const plan{steps, options_.smoke ? 1 : options_.warmup, 1, options_.check};
    int batches = std::min(steps, 5);
    while (steps % batches != 0) --batches;  // each is trained on as often, whichever is named ahead when the counting begins
    Workload const work = workload(peers, batches);
    double const needed = memory_needed(work, peers.methods, sizeof(T)), there = ranks_.least(memory_available());
    if (needed > there)
      throw Refusal{"peers: " + peers.name + " needs about " + fixed(needed / 1e9, 1) + " GB and there are " +
                    fixed(there / 1e9, 1) + " GB: give a larger --scale or --payload"};
    progress_.begin(peers.name, std::int64_t{steps} * static_cast<std::int64_t>(peers.methods.size()));
    auto const results = train_in_turn(work, peers.methods, plan);
    print(peers, work, plan, results, judge(ranks_, work, peers.methods, plan, sizeof(T), results));
  }

  // As `train`, a step of each method in turn, each time beginning with another one; behind what that finds, what the host has
  // sent in all measured steps of each method.
  std::vector<Ranks::Numbers> train_in_turn(Workload const& work, std::vector<Method> const& methods, Schedule const& plan) {
    return ranks_.run([&](World const& world) {
      std::vector<std::unique_ptr<Training>> trainings;
      for (auto const& method : methods) trainings.push_back(method.make(world, work));
      for (std::size_t m = 0; m < methods.size(); ++m)
        for (int step = 0; step < plan.before(methods[m]); ++step) trainings[m]->step();
      std::vector<px::Traffic> before, after;
      for (auto& training : trainings) before.push_back(training->traffic());
      std::vector<std::vector<double>> times(methods.size());
      std::vector<double> wire(methods.size());
      auto const look = [&] {  // while no rank is in a step
        px::barrier(world.comm);
        double const sent = options_.wire.empty() ? 0 : payload_of_wire(options_.wire);
        px::barrier(world.comm);
        return sent;
      };
      for (int step = 0; step < plan.steps; ++step)
        for (std::size_t turn = 0; turn < methods.size(); ++turn) {
          std::size_t const m = (turn + at(step)) % methods.size();
          double const sent = look(), begin = seconds_now(world.comm);
          trainings[m]->step();
          times[m].push_back(seconds_now(world.comm) - begin);
          wire[m] += look() - sent;
          if (world.comm.rank() == 0) progress_.advance();
        }
      for (auto& training : trainings) after.push_back(training->traffic());
      Ranks::Numbers numbers;
      for (std::size_t m = 0; m < methods.size(); ++m) {
        Checked const checked = plan.check ? trainings[m]->check() : Checked{};
        trainings[m]->finish();
        append_facts(numbers, before[m], after[m], checked);
        append_ways(numbers, work, methods[m], *trainings[m]);
        numbers.insert(numbers.end(), times[m].begin(), times[m].end());
      }
      numbers.insert(numbers.end(), wire.begin(), wire.end());
      return numbers;
    });
  }

  void print(Peers const& peers, Workload const& work, Schedule const& plan, std::vector<Ranks::Numbers> const& results,
             std::vector<Outcome> const& outcomes) {
    auto const& methods = peers.methods;
    auto const steps = at(plan.blocks()), facts = facts_of_method + work.tables.size();
    auto const slowest = [&](std::size_t m, std::size_t step) {
      double most = 0;
      for (auto const& of_rank : results) most = std::max(most, of_rank[m * (facts + steps) + facts + step]);
      return most;
    };
    std::size_t reference = peers.first_reference;
    for (std::size_t m = reference; m <= peers.last_reference; ++m)
      if (outcomes[m].seconds.median < outcomes[reference].seconds.median) reference = m;

    std::string title = peers.name + ": " + std::to_string(work.dense_elements()) + " dense elements in " +
                        std::to_string(work.dense.size()) + " tensors";
    if (!work.tables.empty()) {
      Ids all;
      double named = 0;
      for (auto const& of_rank : work.streams[0].ids)
        all.insert(all.end(), of_rank[0].begin(), of_rank[0].end()), named += real(of_rank[0].size()) / work.ranks;
      title += ", a table of " + std::to_string(work.tables[0].rows) + " x " + std::to_string(work.tables[0].width) +
               ", rows of a rank " + fixed(named, 0) + ", of all " + std::to_string(sorted_distinct(std::move(all)).size());
    }
    Table table{title + "; " + std::to_string(plan.steps) + " steps in turn",
                {{"method", 22, true},
                 {"MB/host", 10},
                 {"by count", 10},
                 {"on the wire", 11},
                 {"most/count", 10},
                 {"ms/step", 9},
                 {"p10", 9},
                 {"p90", 9},
                 {"of reference", 12},
                 {"p10", 6},
                 {"p90", 6},
                 {"#wrong", 6}},
                ranks_.prints(),
                progress_};
    bool const wired = !options_.wire.empty();
    std::vector<Bar> bytes, times;
    for (std::size_t m = 0; m < methods.size(); ++m) {
      Outcome const& outcome = outcomes[m];
      bool const counted = methods[m].counted;
      auto const is = outcome.sent_of_host(outcome.counted, ranks_.hosts()),
                 should = outcome.sent_of_host(outcome.expected, ranks_.hosts());
      double sent = 0, most = 0;
      std::int64_t beyond = 0;  // hosts that send what is not counted, or do not send what is
      for (std::size_t rank = 0; rank < results.size(); ++rank) {
        double const of_wire = results[rank][methods.size() * (facts + steps) + m],
                     count = counted ? real(outcome.expected[rank].sent.between_hosts) : should.mean * outcome.steps;
        sent += of_wire / real(results.size()) / outcome.steps;
        most = std::max(most, of_wire / count);
        beyond += wired && counted && (of_wire < count || of_wire > wire_share * count + wire_slack);
      }
      std::int64_t const wrong = outcome.wrong + beyond;
      report_.wrong(wrong);
      std::vector<double> ratios;
      for (std::size_t step = 0; step < steps; ++step) ratios.push_back(slowest(m, step) / slowest(reference, step));
      auto const spread = summary_of(ratios);
      double const ratio = outcome.seconds.median / outcomes[reference].seconds.median;
      auto const mb = [](double b) { return fixed(b / 1e6, 4); };
      auto const ms = [](double s) { return fixed(s * 1e3, 3); };
      table.row({methods[m].name, counted ? mb(is.mean) : "-", mb(should.mean), wired ? mb(sent) : "-",
                 wired ? fixed(most, 5) : "-", ms(outcome.seconds.median), ms(outcome.seconds.low), ms(outcome.seconds.high),
                 fixed(ratio, 4), fixed(spread.low, 3), fixed(spread.high, 3), options_.check ? std::to_string(wrong) : "N/A"});
      Record record{{"command", "peers"},
                    {"workload", peers.name},
                    {"method", methods[m].name},
                    {"steps", std::int64_t{outcome.steps}},
                    {"expected_MB_per_host_step", should.mean / 1e6}};
      if (counted) record.push_back({"sent_MB_per_host_step", is.mean / 1e6});
      if (wired) record.insert(record.end(), {{"wire_MB_per_host_step", sent / 1e6}, {"wire_of_count_most", most}});
      record.insert(record.end(), {{"time_ms", outcome.seconds.median * 1e3},
                                   {"time_p10_ms", outcome.seconds.low * 1e3},
                                   {"time_p90_ms", outcome.seconds.high * 1e3},
                                   {"of_reference", ratio},
                                   {"of_reference_p10", spread.low},
                                   {"of_reference_p90", spread.high},
                                   {"reference", methods[reference].name},
                                   {"wrong", wrong}});
      if (m == 0) record.push_back({"demand", peers.demand});
      report_.add(std::move(record));
      bytes.push_back({methods[m].name, (wired ? sent : should.mean) / 1e6, 0, 0, m == 0});
      times.push_back(
          {methods[m].name, outcome.seconds.median * 1e3, outcome.seconds.low * 1e3, outcome.seconds.high * 1e3, m == 0});
    }
    report_.section({bar_chart("Sent by a host in a step, mean", "MB (10^6 bytes)", bytes),
                     bar_chart("Time of a step: median, tenth to ninetieth percentile", "ms", times)},
                    table);
    duels_.push_back(
        {peers.name, {methods[0].name, outcomes[0].seconds}, {methods[reference].name, outcomes[reference].seconds}});
    if (!ranks_.prints()) return;
    double const ratio = outcomes[0].seconds.median / outcomes[reference].seconds.median;
    std::string line = "# " + peers.name + ": parallax takes " + fixed(ratio, 3) + " of the time of " + methods[reference].name;
    if (full_size())
      line += "; at most " + shown(peers.demand) + " is aimed at: " + (ratio <= peers.demand ? "kept" : "missed");
    print_line(line);
    for (Aim const& aim : peers.aims) {
      auto const seconds = [&](std::string const& name) {
        for (std::size_t m = 0; m < methods.size(); ++m)
          if (methods[m].name == name) return outcomes[m].seconds.median;
        throw Refusal{"no method " + name};
      };
      double const found = seconds(aim.method) / seconds(aim.beside);
      print_line(
          "# " + peers.name + ": " + aim.method + " takes " + fixed(found, 4) + " of the time of " + aim.beside +
          (full_size() ? "; at most " + shown(aim.most) + " is aimed at: " + (found <= aim.most ? "kept" : "missed") : ""));
    }
  }

  Options const& options_;
  Ranks& ranks_;
  Report& report_;
  Progress& progress_;
  std::vector<Duel> duels_;
};

namespace {

[[maybe_unused]] bool const here = bring("peers", [](Run const& run) {
  for_scalar(run.options, [&]<class T>(T) { PeersRun<T>{run.options, run.ranks, run.report, run.progress}.run(); });
});

}  // namespace

}  // namespace bench
#endif
