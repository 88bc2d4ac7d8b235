// Training without rounds beside rounds: steps per second by consistency, by who serves and by who is late, beside the best that
// the consistency allows; and what a pull takes. Workers compute by sleeping, so that few cores do for many of them.
#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "parallax/async/async_session.hpp"
#include "parallax/session/progress_thread.hpp"

#include "commands.hpp"

namespace bench {

namespace {

using Clock = std::chrono::steady_clock;
constexpr std::int64_t without_bound = std::numeric_limits<std::int64_t>::max();

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Who is late: nobody; every eighth step one worker, another one each time; the same one each time; or the last one in all steps.
enum class Late : unsigned char { nobody, in_turn, same, always };
constexpr std::string_view late_names[] = {"nobody", "one in turn", "the same one", "one always"};
// Who answers at a rank: servers alone; a thread beside each worker; each worker between pieces of its work; or when it waits.
enum class Served : unsigned char { servers, thread, polls, waits };

// What is compared: a Session, or an AsyncSession by one of the consistencies.
struct Contender {
  std::string name;
  std::int64_t staleness;  // by which the best possible time is reckoned
  std::int64_t spares = -1;
  bool rounds = false;
  Served served = Served::servers;
  int servers = 0;
  double of_bound = 0, of_rounds = 0;  // goals: at most this multiple of the bound's time, at least this share of rounds' speed
};
std::string how(Contender const& contender) {
  if (contender.rounds) return "rounds";
  if (contender.servers) return std::to_string(contender.servers) + (contender.servers > 1 ? " servers" : " server");
  return contender.served == Served::thread ? "a thread" : contender.served == Served::polls ? "polls" : "while it waits";
}

struct Plan {
  int workers;
  std::int64_t steps;
  double compute;  // seconds of a step
  Late late;

  double work(int worker, std::int64_t step) const {
    bool const turn = step % 8 == 7;
    switch (late) {
      case Late::nobody: return compute;
      case Late::in_turn: return turn && step / 8 % workers == worker ? 5 * compute : compute;
      case Late::same: return turn && worker == 0 ? 5 * compute : compute;
      case Late::always: return worker + 1 == workers ? 10 * compute : compute;
    }
    return compute;
  }
};

// What one worker has measured. `end`: when it read the last clock, since all began.
struct Course {
  double end = 0, value = 0;
  std::vector<double> work, pulls;
};

constexpr std::int64_t rows = 1000, width = 16;
constexpr std::size_t elements = 1000, ids_of_a_step = 32;

// The same variables in both kinds of session: everything counts pushes, so that what is trained can be checked.
struct Model {
  template <class Session>
  explicit Model(Session& session)
      : layer{session, "layer", px::bind(values), px::Sgd{.learning_rate = -1}, px::Reduce::sum},
        table{session, "table", {.rows = rows, .width = width}, px::Sgd{.learning_rate = -1}, px::Reduce::sum} {}

  // Ids of a step, the same for all workers, none of them twice.
  std::vector<std::int64_t> const& ids(std::int64_t step) {
    for (std::size_t i = 0; i < ids_of_a_step; ++i) named[i] = (step * 7 + static_cast<std::int64_t>(i) * 31) % rows;
    return named;
  }

  std::vector<double> values = std::vector<double>(elements), gradient = std::vector<double>(elements, 1.0),
                      row_gradients = std::vector<double>(ids_of_a_step * width, 1.0);
  std::vector<std::int64_t> named = std::vector<std::int64_t>(ids_of_a_step);
  px::Variable<px::Dense, px::PsShard, px::Sgd, double> layer;
  px::Variable<px::Sparse, px::Sgd, double> table;
};

// Sleeps so long, in ten pieces, and calls `between` after each.
template <class F>
void work(double seconds, F&& between) {
  auto const begin = Clock::now();
  for (int piece = 1; piece <= 10; ++piece) {
    std::this_thread::sleep_until(
        begin + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds * piece / 10)));
    between();
  }
}

Course by_rounds(px::AnyCommunicator& comm, Plan const& plan) {
  Course course;
  px::Session session{comm};
  Model model{session};
  px::barrier(comm);
  auto const begin = Clock::now();
  for (std::int64_t step = 0; step < plan.steps; ++step) {
    auto const asked = Clock::now();
    auto const pulled = session.pull(model.table, model.ids(step));
    course.pulls.push_back(seconds_since(asked));
    auto const read = Clock::now();
    work(plan.work(comm.rank(), step), [] {});
    course.work.push_back(seconds_since(read));
    session.step(px::grad(model.layer, model.gradient), px::grad(pulled, model.row_gradients));
  }
  course.end = seconds_since(begin);
  course.value = model.values[0];
  session.finish();
  return course;
}

template <class Rule>
Course apart(px::AnyCommunicator& comm, Rule const& rule, Contender const& contender, Plan const& plan) {
  Course course;
  using Session = px::AsyncSession<px::AnyCommunicator>;
  std::optional<Session> session;
  if (contender.servers) session.emplace(comm, rule, px::Servers{contender.servers});
  else session.emplace(comm, rule);
  Model model{*session};
  {
    std::optional<px::ProgressThread<Session>> thread;
    if (contender.served == Served::thread) thread.emplace(*session);
    px::barrier(comm);
    auto const begin = Clock::now();
    session->train([&](auto& worker) {
      for (;;) {
        auto const asked = Clock::now();
        auto const pulled = worker.pull(model.table.at(model.ids(worker.clock())), model.layer);
        course.pulls.push_back(seconds_since(asked));
        if (worker.clock() >= plan.steps) return;
        auto const read = Clock::now();
        work(plan.work(worker.rank(), worker.clock()), [&] {
          if (contender.served == Served::polls) worker.poll();
        });
        course.work.push_back(seconds_since(read));
        worker.push(px::grad(model.layer, model.gradient), px::grad(pulled, model.row_gradients));
        course.end = seconds_since(begin);
      }
    });
  }
  session->together([&](auto&) { course.value = model.values[0]; });
  session->finish();
  return course;
}

Course take_course(px::AnyCommunicator& comm, Contender const& contender, Plan const& plan) {
  if (contender.rounds) return by_rounds(comm, plan);
  if (contender.spares >= 0) return apart(comm, px::Backup{contender.spares}, contender, plan);
  if (contender.staleness == without_bound) return apart(comm, px::Asp{}, contender, plan);
  return apart(comm, px::Ssp{contender.staleness}, contender, plan);
}

// The least seconds in which workers with this work are done, where a step begins once its worker's last one and those of all
// others that are further back than the staleness have ended: a recurrence in the max-plus algebra.
double bound(std::vector<Course> const& workers, std::int64_t staleness) {
  std::size_t const steps = workers[0].work.size();
  std::vector<double> end(workers.size()), begun;
  std::vector<double> all_ended;  // by step
  for (std::size_t step = 0; step < steps; ++step) {
    double const others = staleness < static_cast<std::int64_t>(step) ? all_ended[step - 1 - at(staleness)] : 0;
    for (std::size_t worker = 0; worker < workers.size(); ++worker)
      end[worker] = std::max(end[worker], others) + workers[worker].work[step];
    all_ended.push_back(*std::max_element(end.begin(), end.end()));
  }
  return all_ended.back();
}

double quantile(std::vector<double> values, double share) {
  if (values.empty()) return std::numeric_limits<double>::quiet_NaN();
  auto const nth = values.begin() + static_cast<std::ptrdiff_t>(share * real(values.size() - 1));
  std::nth_element(values.begin(), nth, values.end());
  return *nth;
}

// Of one run of a contender.
struct Figures {
  double seconds = 0, of_bound = 0;
};
struct Measured {
  std::vector<Figures> runs;
  std::vector<double> pulls;
  std::int64_t wrong = 0;
};

class Asynchrony {
 public:
  Asynchrony(Options const& options, Ranks& ranks, Report& report, Progress& progress)
      : options_{options}, ranks_{ranks}, report_{report}, progress_{progress} {}

  void run() {
    if (options_.comm == Comm::self) throw Refusal{"async: a worker alone waits for nobody: --comm is threads or mpi"};
    int const ranks = options_.comm == Comm::mpi ? ranks_.size() : options_.ranks ? options_.ranks : 4;
    if (ranks < 2) throw Refusal{"async: a worker alone waits for nobody: two ranks at least"};
    using enum Served;
    auto const ssp = [](std::int64_t s, Served served, int servers, double of_bound = 0, double of_rounds = 0) {
      return Contender{"Ssp{" + std::to_string(s) + "}", s, -1, false, served, servers, of_bound, of_rounds};
    };
    Contender const rounds{"Session", 0, -1, true};
    Contender const asp{"Asp", without_bound, -1, false, servers, 1};
    for (Late const late : {Late::nobody, Late::in_turn, Late::same}) {
      bool const goals = late == Late::in_turn, fast = late == Late::nobody;
      double const of_rounds = fast ? 0.95 : 0;
      std::vector<Contender> all{rounds,
                                 ssp(0, servers, 1, 0, of_rounds),
                                 ssp(3, servers, 1, goals ? 1.08 : 0, of_rounds),
                                 ssp(3, thread, 0, goals ? 1.08 : 0, of_rounds),
                                 ssp(3, polls, 0, 0, 0),
                                 ssp(8, servers, 1, goals ? 1.12 : 0, of_rounds),
                                 ssp(8, thread, 0, goals ? 1.12 : 0, of_rounds),
                                 asp};
      if (goals) all.insert(all.begin() + 5, ssp(3, waits, 0));
      compare(late, ranks, all);
    }
    auto const backup = [](int servers, Served served) {  // who owns and sleeps is waited for, from piece to piece
      return Contender{"Backup{1}", 0, 1, false, served, servers, served == polls ? 0 : 1.05, 0};
    };
    compare(Late::always, ranks + (options_.comm == Comm::mpi ? 0 : 1),
            {rounds, backup(1, servers), backup(2, servers), backup(0, thread), backup(0, polls)});
    report_.found("Where workers are late in turn, Ssp{3} with a server makes " + said(ahead_) +
                  " times the steps of rounds; where one always is, Backup{1} makes " + said(without_) + " times as many.");
    if (goals_ == 0) return;
    report_.found(missed_.empty() ? "All " + std::to_string(goals_) + " goals are reached."
                                  : std::to_string(missed_.size()) + " of " + std::to_string(goals_) +
                                        " goals are missed: " + listed(missed_));
  }

 private:
  // By rank. Workers as many as the plan has, or under mpiexec the ranks that do not serve.
  std::vector<Course> courses(Contender const& contender, Plan plan) {
    int const ranks = plan.workers + contender.servers;
    std::vector<Course> all;
    if (options_.comm != Comm::mpi) {
      all.resize(at(ranks));
      px::run_threads(ranks, [&](px::ThreadCommunicator& own) {
        px::AnyCommunicator comm{std::ref(own)};
        all[at(own.rank())] = take_course(comm, contender, plan);
      });
    } else {
      auto const numbers = ranks_.run([&](World const& world) {
        Course const course = take_course(world.comm, contender, plan);
        // As many numbers on every rank: a late worker has fewer steps, a server none.
        Ranks::Numbers out{course.end, course.value, real(course.work.size())};
        for (auto const* list : {&course.work, &course.pulls}) {
          out.insert(out.end(), list->begin(), list->begin() + std::min<std::ptrdiff_t>(plan.steps, std::ssize(*list)));
          out.resize(out.size() + at(plan.steps) - std::min(at(plan.steps), list->size()));
        }
        return out;
      });
      for (auto const& one : numbers) {
        auto const count = static_cast<std::ptrdiff_t>(one[2]), steps = static_cast<std::ptrdiff_t>(plan.steps);
        all.push_back({one[0],
                       one[1],
                       {one.begin() + 3, one.begin() + 3 + count},
                       {one.begin() + 3 + steps, one.begin() + 3 + steps + count}});
      }
    }
    all.erase(all.begin(), all.begin() + contender.servers);
    return all;
  }

  // One run. What was trained must be as many pushes as there were.
  void measure(Contender const& contender, Plan const& plan, Measured& into) {
    auto const workers = courses(contender, plan);
    bool const drops = contender.spares >= 0;
    double const taken = real(workers.size()) - (drops ? real(contender.spares) : 0);
    for (Course const& worker : workers) {
      into.wrong += worker.value != taken * real(plan.steps);
      if (plan.late == Late::nobody) into.pulls.insert(into.pulls.end(), worker.pulls.begin(), worker.pulls.end());
    }
    auto const by_end = [](Course const& one, Course const& other) { return one.end < other.end; };
    Figures figures;
    if (drops) {  // commits go on without the late one: the worker in the middle has seen them all
      auto sorted = workers;
      std::sort(sorted.begin(), sorted.end(), by_end);
      figures.seconds = sorted[(sorted.size() - 1) / 2].end;
      figures.of_bound = figures.seconds / undisturbed(plan, contender);
    } else {
      figures.seconds = std::max_element(workers.begin(), workers.end(), by_end)->end;
      figures.of_bound = figures.seconds / bound(workers, contender.staleness);
    }
    into.runs.push_back(figures);
  }
  // The same contender's time where nobody is late, measured beside it.
  double undisturbed(Plan plan, Contender const& contender) {
    plan.late = Late::nobody;
    auto workers = courses(contender, plan);
    std::vector<double> ends;
    for (Course const& worker : workers) ends.push_back(worker.end);
    return quantile(ends, 0.5);
  }

  void compare(Late late, int ranks, std::vector<Contender> const& contenders) {
    bool const smoke = options_.smoke;
    std::int64_t const steps = options_.iterations ? options_.iterations : smoke ? 16 : late == Late::always ? 60 : 200;
    double const compute = smoke ? 2e-4 : 5e-3;
    int const runs = smoke ? 1 : 5;
    std::vector<Measured> measured(contenders.size());
    std::vector<Plan> plans;
    for (auto const& contender : contenders)
      plans.push_back({options_.comm == Comm::mpi ? ranks - contender.servers : ranks, steps, compute, late});
    progress_.begin("late: " + std::string{late_names[at(late)]}, std::int64_t{runs} * std::ssize(contenders));
    for (int run = 0; run < runs; ++run)
      for (std::size_t c = 0; c < contenders.size(); ++c) {
        if (plans[c].workers >= 2) measure(contenders[c], plans[c], measured[c]);
        progress_.advance();
      }
    std::string const who{late_names[at(late)]};
    Table table{"late: " + who + "; " + std::to_string(plans[0].workers) + " workers, " + std::to_string(steps) + " steps of " +
                    shown(compute * 1e3) + " ms" + (late == Late::always ? "; bound: the same where nobody is late" : "") +
                    "; medians of " + std::to_string(runs),
                {{"session", 10, true},
                 {"served by", 14, true},
                 {"steps/s", 8},
                 {"of rounds", 9},
                 {"x bound", 8},
                 {"goal", 10, true},
                 {"pull p50 us", 11},
                 {"p99 us", 8},
                 {"#wrong", 6}},
                ranks_.prints(),
                progress_};
    std::vector<Bar> bars;
    double of_rounds = 0;
    for (std::size_t c = 0; c < contenders.size(); ++c) {
      Contender const& contender = contenders[c];
      Measured const& found = measured[c];
      if (found.runs.empty()) continue;
      std::vector<double> seconds, of_bounds;
      for (Figures const& figures : found.runs) seconds.push_back(figures.seconds), of_bounds.push_back(figures.of_bound);
      double const speed = real(steps) / quantile(seconds, 0.5), of_bound = quantile(of_bounds, 0.5);
      if (contender.rounds) of_rounds = speed;
      double const share = speed / of_rounds;
      if (late == Late::in_turn && contender.staleness == 3 && contender.servers == 1) ahead_ = share;
      if (contender.spares == 1 && contender.servers == 1) without_ = share;
      bool const late_goal = contender.of_bound > 0, fast_goal = contender.of_rounds > 0;
      bool const reached = (!late_goal || of_bound <= contender.of_bound) && (!fast_goal || share >= contender.of_rounds);
      if ((late_goal || fast_goal) && !smoke) {
        ++goals_;
        if (!reached) missed_.push_back(called(contender.name + " by " + how(contender) + ", late: " + who));
      }
      std::string goal = late_goal ? "<= " + shown(contender.of_bound) : fast_goal ? ">= " + shown(contender.of_rounds) : "";
      if (!reached && !smoke) goal += " MISSED";
      auto const micros = [&](double q) { return quantile(found.pulls, q) * 1e6; };
      table.row({contender.name, how(contender), fixed(speed, 1), fixed(share, 3), fixed(of_bound, 3), goal,
                 found.pulls.empty() ? "" : fixed(micros(0.5), 0), found.pulls.empty() ? "" : fixed(micros(0.99), 0),
                 std::to_string(found.wrong)});
      bars.push_back({contender.name + ", " + how(contender), speed, real(steps) / quantile(seconds, 1.0),
                      real(steps) / quantile(seconds, 0.0), false});
      report_.add({{"command", "async"},
                   {"late", who},
                   {"session", contender.name},
                   {"served_by", how(contender)},
                   {"workers", std::int64_t{plans[c].workers}},
                   {"steps", steps},
                   {"steps_per_s", speed},
                   {"of_rounds", share},
                   {"of_bound", of_bound},
                   {"goal", goal},
                   {"pull_p50_us", found.pulls.empty() ? 0.0 : micros(0.5)},
                   {"pull_p99_us", found.pulls.empty() ? 0.0 : micros(0.99)},
                   {"wrong", found.wrong}});
      report_.wrong(found.wrong);
    }
    report_.section({bar_chart("Steps per second, late: " + who + "; median, least and most", "steps/s", bars)}, table);
  }

  Options const& options_;
  Ranks& ranks_;
  Report& report_;
  Progress& progress_;
  double ahead_ = 0, without_ = 0;  // of rounds' speed
  int goals_ = 0;
  std::vector<std::string> missed_;
};

[[maybe_unused]] bool const here = bring("async", [](Run const& run) {
  Asynchrony{run.options, run.ranks, run.report, run.progress}.run();
});

}  // namespace

}  // namespace bench
