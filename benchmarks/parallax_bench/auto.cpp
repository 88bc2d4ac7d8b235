// parallax-bench auto: what `Auto` chooses beside every fixed policy, and its search for pieces, on the clock of a simulated
// network, and by the clock on the wall.
#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "commands.hpp"
#include "measured.hpp"
#include "report.hpp"
#include "simulated.hpp"

namespace bench {

// A training of every rank on the simulated network.
struct Trained {
  std::vector<double> steps;  // seconds of each step, on the slowest rank's clock
  std::string chosen;         // of each table, by its first letters
  std::int64_t wrong = 0;
  double total() const {
    double sum = 0;
    for (double const step : steps) sum += step;
    return sum;
  }
};

inline char const* short_name(std::size_t choice) {
  constexpr char const* names[] = {"PS", "AG", "AR"};
  return names[choice];
}

// `simulated`: on a network's clock, in which local work takes no time; else on the wall's, among threads.
inline Trained run_training(Workload const& work, std::string const& policy, int steps, px::SessionOptions const& options,
                            bool simulated) {
  Trained result;
  std::vector<std::vector<double>> clocks(at(work.ranks));
  std::vector<Checked> checked(at(work.ranks));
  SimulatedNetwork network{{}, work.ranks};
  std::vector<int> const hosts;
  px::run_threads(work.ranks, [&](px::ThreadCommunicator& own) {
    SimulatedCommunicator wired{own, network};
    px::AnyCommunicator comm = simulated ? px::AnyCommunicator{std::ref(wired)} : px::AnyCommunicator{std::ref(own)};
    World const world{comm, nullptr, hosts, options};
    auto const rank = at(comm.rank());
    auto const training = method_of<float>(policy).make(world, work);
    auto const seconds = [&] { return std::chrono::duration<double>{comm.now()}.count(); };
    for (int step = 0; step < steps; ++step) {
      if (!simulated) px::barrier(comm);
      clocks[rank].push_back(seconds());
      training->step();
    }
    clocks[rank].push_back(seconds());
    if (rank == 0)
      for (std::size_t const choice : training->chosen())
        result.chosen += (result.chosen.empty() ? "" : "+") + std::string{short_name(choice)};
    checked[rank] = training->check();
    training->finish();
  });
  for (std::size_t step = 0; step < at(steps); ++step) {
    double begin = clocks[0][step], end = clocks[0][step + 1];
    for (auto const& clock : clocks) begin = std::min(begin, clock[step]), end = std::max(end, clock[step + 1]);
    result.steps.push_back(end - begin);
  }
  std::vector<std::int64_t> times(at(work.batches));
  for (int step = 0; step < steps; ++step) ++times[at(step) % times.size()];
  double found = 0;
  for (Checked const& of_rank : checked) result.wrong += of_rank.wrong, found += of_rank.checksum;
  result.wrong += found != expected_checksum(work, steps, times);
  return result;
}

// The last steps of a training, when nothing is being tried any more: the mean on the simulated clock, which does not err, the
// least on the wall's.
inline double steady(Trained const& trained, std::size_t settled, bool simulated) {
  double sum = 0, least = trained.steps.back();
  for (std::size_t step = settled; step < trained.steps.size(); ++step)
    sum += trained.steps[step], least = std::min(least, trained.steps[step]);
  return simulated ? sum / real(trained.steps.size() - settled) : least;
}

class AutoCommand {
 public:
  AutoCommand(Options const& options, bool prints, Report& report, Progress& progress)
      : options_{options}, prints_{prints}, report_{report}, progress_{progress} {
    options_.skew = 0, options_.scale = 1, options_.smoke = false;
    smoke_ = options.smoke;
    width_ = options.width ? options.width : 4;
  }

  void run() {
    grid();
    mixed();
    search(false);
    search(true);
    report_.found(sentence_of(duels_, "Auto", "the best fixed policy", "cases on the simulated clock", within_rule(same)));
  }

 private:
  // Enough to measure, choose and move; the steps after `settled` count.
  static constexpr int tried = 6;
  static constexpr std::size_t settled = 3;
  static constexpr double same = 0.05;  // times on the simulated clock tie that are no further apart
  static constexpr char const* fixed_policies[] = {"parameter_server", "all_gather", "all_reduce"};

  Workload one_table(std::int64_t rows, double alpha, int ranks) const {
    return make_workload(options_, {}, {{"table", rows, width_, alpha}}, ranks, 1, alpha, true, nullptr);
  }
  px::SessionOptions choosing() const {
    px::SessionOptions session;
    session.choice.replica_bytes = 1e12;
    return session;
  }

  void meet(std::string where, double mine, std::string const& policy, double best) {
    duels_.push_back({std::move(where), {"Auto", within(same, mine)}, {policy, within(same, best)}});
  }

  void grid() {
    std::vector<std::int64_t> const rows =
        smoke_ ? std::vector<std::int64_t>{1'000, 20'000} : std::vector<std::int64_t>{1'000, 100'000, 1'000'000};
    auto const& alphas = options_.alpha_sweep;
    Table table{"Auto beside fixed policies: a table of width " + std::to_string(width_) +
                    ", pulled and pushed, every rank a host of a simulated network (" + shown(NetworkModel{}.latency * 1e6) +
                    " us, " + shown(NetworkModel{}.bytes_per_second / 1e9) +
                    " GB/s; local work takes no time), ms of a step; behind it the same among threads of this machine",
                {{"rows", 8},
                 {"alpha", 6},
                 {"hosts", 5},
                 {"PS", 9},
                 {"AG", 9},
                 {"AR", 9},
                 {"Auto", 9},
                 {"is", 2, true},
                 {"best/Auto", 9},
                 {"settling ms", 11},
                 {"wall PS", 9},
                 {"AG", 9},
                 {"AR", 9},
                 {"Auto", 9},
                 {"is", 2, true},
                 {"best/Auto", 9},
                 {"#wrong", 6}},
                prints_,
                progress_};
    double least = 1;
    for (std::int64_t const count : rows)
      for (double const alpha : alphas)
        for (int const hosts : {1, 2, 4, 8}) {
          progress_.begin(std::to_string(count) + " rows, alpha " + shown(alpha) + ", " + std::to_string(hosts) + " hosts", 8);
          Workload const work = one_table(count, alpha, hosts);
          std::vector<std::string> cells{std::to_string(count), shown(alpha), std::to_string(hosts)};
          Record record{
              {"command", "auto"}, {"rows", count}, {"width", width_}, {"alpha", alpha}, {"hosts", std::int64_t{hosts}}};
          std::int64_t wrong = 0;
          for (bool const simulated : {true, false}) {
            std::string const clock = simulated ? "simulated" : "wall";
            double best = 1e300;
            std::string best_policy;
            for (auto const* policy : fixed_policies) {
              auto const trained = run_training(work, policy, simulated ? 3 : tried, {}, simulated);
              double const seconds = steady(trained, 2, simulated);
              if (seconds < best) best = seconds, best_policy = policy;
              wrong += trained.wrong;
              cells.push_back(fixed(seconds * 1e3, 4));
              record.emplace_back(clock + "_" + policy + "_ms", seconds * 1e3);
              progress_.advance();
            }
            auto const trained = run_training(work, "auto", tried, choosing(), simulated);
            double const seconds = steady(trained, settled, simulated), share = seconds > 0 ? best / seconds : 1;
            wrong += trained.wrong;
            if (simulated) least = std::min(least, share);
            if (simulated && hosts > 1)  // one host exchanges nothing and takes no time
              meet(std::to_string(count) + " rows, alpha " + shown(alpha) + ", " + std::to_string(hosts) + " hosts", seconds,
                   best_policy, best);
            cells.insert(cells.end(), {fixed(seconds * 1e3, 4), trained.chosen, fixed(share, 3)});
            record.insert(record.end(), {{clock + "_auto_ms", seconds * 1e3},
                                         {clock + "_auto_is", trained.chosen},
                                         {clock + "_best_over_auto", share}});
            if (simulated) {
              double const settling = trained.total() - seconds * real(trained.steps.size());
              cells.push_back(fixed(std::max(settling, 0.0) * 1e3, 3));
              record.emplace_back("simulated_settling_ms", settling * 1e3);
            }
            progress_.advance();
          }
          if (least < 0.95) ++wrong, least = 1;
          cells.push_back(std::to_string(wrong));
          report_.wrong(wrong);
          record.emplace_back("wrong", wrong);
          report_.add(std::move(record));
          table.row(std::move(cells));
        }
    report_.section({}, table);
  }

  // A table of single numbers that every rank touches wholly, and a wide one of which it touches little.
  void mixed() {
    int const ranks = 8;
    std::int64_t const hot = smoke_ ? 20'000 : 200'000, rare = smoke_ ? 50'000 : 1'000'000;
    Options of_tables = options_;
    Workload work = make_workload(of_tables, {}, {{"hot", hot, 1, 1}}, ranks, 1, 1, true, nullptr);
    Workload const other = make_workload(of_tables, {}, {{"rare", rare, 16, .001}}, ranks, 1, .001, true, nullptr);
    work.tables.push_back(other.tables[0]);
    work.streams.push_back(other.streams[0]);
    work.partitioners.push_back(other.partitioners[0]);
    Table table{"two tables, " + std::to_string(hot) + " x 1 touched wholly and " + std::to_string(rare) +
                    " x 16 of which a rank touches a thousandth, 8 hosts, simulated: ms of a step",
                {{"policy", 18, true}, {"ms", 9}, {"over Auto", 9}, {"#wrong", 6}},
                prints_,
                progress_};
    progress_.begin("a mixed model", 4);
    auto const chosen = run_training(work, "auto", tried, choosing(), true);
    double const mine = steady(chosen, settled, true);
    double best = 1e300;
    std::string best_policy;
    std::int64_t all_wrong = chosen.wrong;
    std::vector<std::vector<std::string>> rows;
    auto const add = [&](std::string const& name, double seconds, std::int64_t wrong) {
      table.row({name, fixed(seconds * 1e3, 4), fixed(seconds / mine, 3), std::to_string(wrong)});
      report_.add({{"command", "auto_mixed"},
                   {"policy", name},
                   {"simulated_ms", seconds * 1e3},
                   {"over_auto", seconds / mine},
                   {"wrong", wrong}});
      progress_.advance();
    };
    for (auto const* policy : fixed_policies) {
      auto const trained = run_training(work, policy, 3, {}, true);
      double const seconds = steady(trained, 2, true);
      if (seconds < best) best = seconds, best_policy = policy;
      all_wrong += trained.wrong;
      add(policy, seconds, trained.wrong);
    }
    if (best < 1.3 * mine) ++all_wrong;
    meet("two tables", mine, best_policy, best);
    add("auto (" + chosen.chosen + ")", mine, all_wrong);
    report_.wrong(all_wrong);
    report_.section({}, table);
  }

  // Zipf ids over blocks: few pieces leave the busiest owner with most of the load. Every number of pieces, and what a search
  // in the running session finds; `wall`: by the clock on the wall.
  void search(bool wall) {
    int const ranks = wall ? 2 : 8;
    std::int64_t const most = smoke_ ? 16 : 64;
    Options skewed = options_;
    skewed.skew = 1, skewed.partition = Partition::block;
    Workload work = make_workload(skewed, {}, {{"table", smoke_ ? 5'000 : 100'000, 16, .02}}, ranks, 1, .02, true, nullptr);
    progress_.begin("pieces", static_cast<int>(most) + 1);
    px::SessionOptions staying;
    staying.choice.first_step = 1'000'000'000;
    std::vector<double> by_pieces;
    std::int64_t wrong = 0;
    for (std::int64_t pieces = 1; pieces <= most; ++pieces) {
      work.partitioners[0].pieces = pieces;
      auto const trained = run_training(work, "auto", wall ? 12 : 3, staying, !wall);
      by_pieces.push_back(wall ? summary_of(trained.steps).median : steady(trained, 2, true));
      wrong += trained.wrong;
      progress_.advance();
    }
    work.partitioners[0].pieces = ranks;
    SimulatedNetwork network{{}, ranks};
    std::vector<int> const hosts;
    std::int64_t found = 0;
    std::vector<std::string> told;
    int steps = 0;
    px::run_threads(ranks, [&](px::ThreadCommunicator& own) {
      SimulatedCommunicator wired{own, network};
      px::AnyCommunicator comm = wall ? px::AnyCommunicator{std::ref(own)} : px::AnyCommunicator{std::ref(wired)};
      SessionTraining<px::Auto, float> training{World{comm, nullptr, hosts, staying}, comm, work};
      training.step();
      training.session().search_pieces(training.table(0), {.most = most});
      int taken = 0;
      for (; training.table(0).state().search && taken < 100; ++taken) training.step();
      if (comm.rank() == 0) {
        found = training.table(0).state().partitioner().pieces;
        steps = taken;
        for (auto const& decision : training.decisions()) told.push_back(decision.text);
      }
      training.finish();
    });
    auto const best = std::min_element(by_pieces.begin(), by_pieces.end());
    double const over = by_pieces[at(found - 1)] / *best;
    if (!wall && (over > 1.03 || steps > 100 || told.size() > 6)) ++wrong;
    Table table{std::string{"pieces of a table of blocks under Zipf ids, "} + std::to_string(ranks) + " ranks, " +
                    (wall ? "threads of this machine" : "simulated") + ": the search took " + std::to_string(steps) +
                    " steps and found " + std::to_string(found) + ", " + fixed(100 * (over - 1), 1) + " % from the best, " +
                    std::to_string(best - by_pieces.begin() + 1),
                {{"pieces", 6}, {"ms of a step", 12}, {"search", 60, true}, {"#wrong", 6}},
                prints_,
                progress_};
    Line line{wall ? "wall" : "simulated", {}};
    for (std::size_t i = 0; i < by_pieces.size(); ++i) line.points.emplace_back(real(i + 1), by_pieces[i] * 1e3);
    for (std::size_t i = 0; i < told.size(); ++i)
      table.row({"", "", told[i], i + 1 == told.size() ? std::to_string(wrong) : ""});
    for (std::size_t pieces = 1; pieces <= by_pieces.size(); pieces *= 2) {
      table.row({std::to_string(pieces), fixed(by_pieces[pieces - 1] * 1e3, 4), "", ""});
      report_.add({{"command", "auto_search"},
                   {"clock", std::string{wall ? "wall" : "simulated"}},
                   {"pieces", static_cast<std::int64_t>(pieces)},
                   {"ms", by_pieces[pieces - 1] * 1e3},
                   {"found", found},
                   {"over_best", over},
                   {"steps", std::int64_t{steps}},
                   {"wrong", wrong}});
    }
    report_.wrong(wrong);
    report_.section({line_chart("Time of a step by pieces", "pieces", "ms", 2, false, {line})}, table);
  }

  Options options_;
  bool prints_;
  Report& report_;
  Progress& progress_;
  bool smoke_ = false;
  std::int64_t width_ = 4;
  std::vector<Duel> duels_;
};

void run_auto(Options const& options, bool prints, Report& report, Progress& progress) {
  AutoCommand{options, prints, report, progress}.run();
}

namespace {

[[maybe_unused]] bool const here =
    bring("auto", [](Run const& run) { run_auto(run.options, run.prints, run.report, run.progress); });

}  // namespace

}  // namespace bench
