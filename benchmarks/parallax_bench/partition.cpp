// parallax-bench partition: the busiest owner's load over the mean, for each partitioner and number of owners.
#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <vector>

#include "commands.hpp"
#include "fastest.hpp"
#include "report.hpp"
#include "workload.hpp"

namespace bench {

void run_partition(Options const& options, bool prints, Report& report, Progress& progress, Ids const* recorded) {
  std::int64_t const rows = options.rows ? options.rows : options.smoke ? 2'000 : 793'470;
  double const alpha = options.alpha > 0 ? options.alpha : 0.0087;
  int const ranks = options.ranks ? options.ranks : 8, steps = options.iterations ? options.iterations : options.smoke ? 2 : 4;
  Options plain = options;
  plain.scale = 1, plain.partition = Partition::cyclic, plain.smoke = false;
  Workload const work = make_workload(plain, {}, {{"rows", rows, 1, alpha}}, ranks, 2 * steps, alpha, false, recorded);
  std::vector<std::vector<Ids>> batches(at(steps));  // by step and rank; the later half is the sample of Greedy
  Stream sample;
  sample.ids.resize(at(ranks));
  for (int rank = 0; rank < ranks; ++rank)
    for (int step = 0; step < steps; ++step) {
      batches[at(step)].push_back(sorted_distinct(work.streams[0].ids[at(rank)][at(step)]));
      sample.ids[at(rank)].push_back(work.streams[0].ids[at(rank)][at(steps + step)]);
    }
  px::Greedy const greedy{weights_of(rows, sample)};

  Table table{"busiest / mean owner, rows of " + std::to_string(ranks) + " ranks' batches (" +
                  std::to_string(batches[0][0].size()) + " distinct of " + std::to_string(rows) + " each, " +
                  (recorded ? "recorded" : "Zipf " + shown(options.skew)) + "), mean of " + std::to_string(steps) + " steps",
              {{"owners", 6}, {"block", 8}, {"cyclic", 8}, {"hash", 8}, {"greedy", 8}, {"#wrong", 6}},
              prints,
              progress};
  std::vector<Line> lines{{"block", {}}, {"cyclic", {}}, {"hash", {}}, {"greedy", {}}};
  std::string found;  // of the largest number of owners
  for (int owners = 2; owners <= (options.smoke ? 8 : 128); owners *= 2) {
    progress.begin(std::to_string(owners) + " owners", 4);
    std::vector<std::string> cells{std::to_string(owners)};
    std::int64_t wrong = 0;
    std::vector<Contender> contenders;
    for (auto const kind : {Partition::block, Partition::cyclic, Partition::hash, Partition::greedy}) {
      auto const layout = ChosenPartitioner{0, kind, kind == Partition::greedy ? greedy : px::Greedy{}}.layout(rows, owners);
      std::vector<double> ratios;  // by step
      for (auto const& by_rank : batches) {
        std::vector<std::int64_t> load(at(owners));
        std::int64_t total = 0;
        for (Ids const& ids : by_rank)
          for (std::int64_t const id : ids) ++load[at(layout.locate(id).owner)], ++total;
        ratios.push_back(real(*std::max_element(load.begin(), load.end())) * owners / real(total));
      }
      double const ratio = std::accumulate(ratios.begin(), ratios.end(), 0.0) / steps;
      if (options.check) {
        std::int64_t sum = 0;
        for (int owner = 0; owner < owners; ++owner) sum += layout.local_rows(owner);
        wrong += sum != rows;
        for (std::int64_t const id : batches[0][0]) {
          auto const place = layout.locate(id);
          wrong += layout.global_row(place.owner, place.local) != id;
        }
      }
      auto const number = static_cast<std::size_t>(kind);
      Summary const spread = summary_of(ratios);
      contenders.push_back({std::string{partition_names[number]}, {ratio, spread.low, spread.high}});
      lines[number].points.emplace_back(owners, ratio);
      cells.push_back(fixed(ratio, 3));
      report.add({{"command", "partition"},
                  {"rows", rows},
                  {"skew", options.skew},
                  {"owners", std::int64_t{owners}},
                  {"partition", std::string{partition_names[number]}},
                  {"busiest_over_mean", ratio}});
      progress.advance();
    }
    found = Fastest{contenders}.sentence("of the busiest of " + std::to_string(owners) + " owners",
                                         {"has", "load", " times the mean", "by their spreads over the steps"});
    report.wrong(wrong);
    cells.push_back(options.check ? std::to_string(wrong) : "N/A");
    table.row(std::move(cells));
  }
  report.found(found);
  report.section({line_chart("Load of the busiest owner", "owners", "busiest / mean", 2, true, lines)}, table);
}

namespace {

[[maybe_unused]] bool const here =
    bring("partition", [](Run const& run) { run_partition(run.options, run.prints, run.report, run.progress, run.recorded); });

}  // namespace

}  // namespace bench
