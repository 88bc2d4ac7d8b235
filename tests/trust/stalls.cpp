// A rank that stops answering, wherever that is: the others are told in time who, in what and of which variable. And a rank
// that is only slow raises no alarm.
#include <signal.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <functional>
#include <iterator>
#include <new>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../support/lockstep.hpp"
#include "desk.hpp"

namespace parallax_test::trust_stalls {
namespace {

using namespace std::chrono_literals;
using Real = std::chrono::steady_clock;
using Threads = px::ThreadCommunicator;
using Hostile = HostileCommunicator<Threads>;
using Desk = parallax_test::Desk<Hostile>;

// Where the stuck rank stays until all others have been told.
struct Stall {
  explicit Stall(int given) : others{given} {}
  int others;
  std::atomic<int> told{0};
  Real::time_point since{};

  void wait() {
    since = Real::now();
    while (told < others && Real::now() - since < 60s) std::this_thread::sleep_for(200us);
  }
};

// Channels as the session deals them out: its control lane, rows and dense gradients of a step, rows of a pull, then two for
// each update started. A phase is the n-th posting on a channel; channel -1: before the call; -2: in the transform.
struct Phase {
  std::string name;
  std::string operation, variable;  // the error's; the variable is one of those named
  int channel, posting;
  void (*run)(Desk& d, std::function<void()> const& in_transform);
};

void pull(Desk& d, std::function<void()> const&) { auto const rows = d.session.pull(d.words, d.ids); }
void step(Desk& d, std::function<void()> const&) { d.session.step(d.layer_update(), d.other_update(), d.words_update()); }
void start(Desk& d, std::function<void()> const&) {
  d.session.start(d.layer_update(), d.words_update());
  d.session.step(d.other_update());
}
void transform(Desk& d, std::function<void()> const& stall) {
  d.session.step(d.layer_update().transform([&](auto) { stall(); }), d.other_update(), d.words_update());
}
void broadcast(Desk& d, std::function<void()> const&) { d.session.broadcast(d.layer); }
void finish(Desk& d, std::function<void()> const&) { d.session.finish(); }

std::vector<Phase> const phases{
    {"before a pull", "pull", "words", -1, 0, pull},
    {"pull: agreement", "pull", "words", 0, 1, pull},
    {"pull: ids", "pull", "words", 3, 1, pull},
    {"pull: rows", "pull", "words", 3, 2, pull},
    {"before a start", "step", "layer", -1, 0, start},
    {"start: agreement", "step", "layer", 4, 1, start},
    {"start: sparse exchange", "step", "words", 4, 2, start},
    {"start: dense exchange", "step", "layer", 5, 1, start},
    {"before a step", "step", "layer", -1, 0, step},
    {"step: agreement", "step", "layer", 0, 1, step},
    {"step: sparse exchange", "step", "words", 1, 1, step},
    {"step: dense exchange", "step", "layer", 2, 1, step},
    {"step: dense exchange of shards", "step", "other", 2, 2, step},
    {"step: transform", "step", "layer", -2, 0, transform},
    {"step: commit", "step", "layer", 0, 2, step},
    {"step: gathering of gradients", "step", "layer", 2, 3, step},
    {"step: gathering of parameters", "step", "other", 2, 4, step},
    {"broadcast: gathering", "broadcast", "layer", 2, 2, broadcast},
    {"before a broadcast", "broadcast", "layer", -1, 0, broadcast},
    {"before a finish", "finish", "", -1, 0, finish},
};

struct Seen {
  Answer answer, later;
  Real::time_point at{};
  std::chrono::nanoseconds waited{};  // since its call, and since the other rank is stuck
};

// By the steady clock, or in lockstep.
enum class By { clock, lockstep };

std::vector<Seen> stalled(Phase const& phase, int ranks, int stuck, std::chrono::milliseconds deadline, By by = By::lockstep) {
  Stall stall{ranks - 1};
  Lockstep time{ranks, std::chrono::nanoseconds{deadline} / 100};
  Meeting meeting{ranks};
  return on_ranks(ranks,
                  [&](Threads& threads) {
                    int const rank = threads.rank();
                    bool const here = rank == stuck;
                    Hostility hostility;
                    if (by == By::lockstep) hostility.clock = [&time, rank] { return time.look(rank); };
                    auto const get_stuck = [&] {
                      time.begin(rank);
                      stall.wait();
                    };
                    bool armed = false;
                    int postings = 0;
                    hostility.before = [&](int channel) {
                      if (here && armed && channel == phase.channel && ++postings == phase.posting) get_stuck();
                    };
                    Hostile world{threads, hostility};
                    Desk desk{world};
                    Seen seen;
                    meeting.wait();
                    armed = true;
                    if (here && phase.channel == -1) get_stuck();
                    auto const begin = Real::now();
                    seen.answer = answer_of([&] {
                      phase.run(desk, [&] {
                        if (here && phase.channel == -2) get_stuck();
                      });
                    });
                    seen.at = Real::now();
                    if (by == By::lockstep) seen.waited = world.now();
                    if (!here) {
                      time.leave(rank);
                      ++stall.told;
                    }
                    meeting.wait();  // also the stuck rank has said since when
                    if (by == By::clock) seen.waited = seen.at - std::max(begin, stall.since);
                    seen.later = answer_of([&] { desk.session.finish(); });
                    return seen;
                  },
                  {.deadline = deadline});
}

// `late`: what may come on top of the deadline.
std::string complaint_of(Phase const& phase, std::vector<Seen> const& seen, int stuck, std::chrono::milliseconds deadline,
                         std::chrono::nanoseconds late) {
  for (std::size_t rank = 0; rank < seen.size(); ++rank) {
    Answer const& a = seen[rank].answer;
    std::string const said = "rank " + std::to_string(rank) + " of " + std::to_string(seen.size()) + ", stuck " +
                             std::to_string(stuck) + ", " + std::to_string(deadline.count()) + " ms, after " +
                             std::to_string(seen[rank].waited.count() / 1000) + " us: " + a.what;
    if (!a.refused) return "not told, " + said;
    if (a.code != px::Errc::timeout) return "another code, " + said;
    if (a.rank != stuck) return "another rank is named, " + said;
    if (a.operation != phase.operation) return "another operation is named, " + said;
    if (a.variable.find(phase.variable) == std::string::npos) return "the variable is not named, " + said;
    if (seen[rank].later.code != px::Errc::poisoned) return "not poisoned, " + said;
    if (static_cast<int>(rank) != stuck && seen[rank].waited > deadline + late) return "late, " + said;
  }
  return {};
}

bool hung(std::string const& complaint) { return complaint.starts_with("late") || complaint.starts_with("not told"); }

// Counts one stall, in lockstep. On top of the deadline comes the report, which waits for a tenth of it, and some ticks, of a
// hundredth each.
void count(Table& table, Phase const& phase, int ranks, int stuck, std::chrono::milliseconds deadline) {
  auto const late = std::chrono::nanoseconds{deadline} / 4;
  auto const complaint = complaint_of(phase, stalled(phase, ranks, stuck, deadline), stuck, deadline, late);
  table.count(phase.name, complaint, hung(complaint));
}

}  // namespace

TEST_CASE("R3 a rank that stops answering is named in time, with operation and variable", "[trust][stalls]") {
  Table table{"R3 stalls: deadlines of 20 to 500 ms, 2 to 8 ranks, told within 1.25 deadlines"};
  std::chrono::milliseconds const deadlines[] = {20ms, 30ms, 50ms, 20ms, 100ms, 20ms, 40ms, 30ms, 200ms, 20ms, 60ms, 500ms};
  int const all_ranks[] = {2, 3, 4, 2, 3, 4, 2, 3, 8};
  std::uint64_t number = 0;
  for (int round = 0; round < 25; ++round)
    for (Phase const& phase : phases) {
      int const ranks = all_ranks[number % std::size(all_ranks)];
      int const stuck = static_cast<int>(number / 3 % static_cast<std::uint64_t>(ranks));
      count(table, phase, ranks, stuck, deadlines[number % std::size(deadlines)]);
      ++number;
    }
  table.check(500);
}

// Here some ranks wait for one that is itself held up by the stuck one, and know nothing of that.
TEST_CASE("R3 a stuck rank is named by those who wait for others that wait for it", "[trust][stalls]") {
  Table table{"R3 stalls of which ranks hear only through others"};
  Phase const parts{"broadcast: parts", "broadcast", "layer", 2, 1, broadcast};
  for (int i = 0; i < 20; ++i) {
    int const ranks = 3 + i % 2, stuck = 1 + i % (ranks - 1);
    count(table, parts, ranks, stuck, 150ms);
  }
  Phase const chain{"pull: rank 1 owes rows to ranks 0 and 2, and 2 never takes its own",
                    "pull",
                    "words",
                    3,
                    1,
                    [](Desk& d, std::function<void()> const&) {
                      std::vector<int> const ids{d.session.rank() == 1 ? 0 : 1};
                      auto const rows = d.session.pull(d.words, ids);
                    }};
  for (int i = 0; i < 20; ++i) count(table, chain, 3, 2, 150ms);
  table.check(40);
}

// By the clock on the wall, where threads want a core first.
TEST_CASE("R3 a rank that stops answering is named within 250 ms of the deadline", "[trust][stalls]") {
  Table table{"R3 stalls by the steady clock: a deadline of 500 ms, 2 to 4 ranks"};
  std::vector<double> over;
  int number = 0;
  for (Phase const& phase : phases) {
    int const ranks = 2 + number % 3, stuck = number / 3 % ranks;
    ++number;
    auto const seen = stalled(phase, ranks, stuck, 500ms, By::clock);
    auto const complaint = complaint_of(phase, seen, stuck, 500ms, 250ms);
    table.count(phase.name, complaint, hung(complaint));
    for (int rank = 0; rank < ranks; ++rank)
      if (rank != stuck)
        over.push_back(std::chrono::duration<double, std::milli>(seen[static_cast<std::size_t>(rank)].waited - 500ms).count());
  }
  std::ranges::sort(over);
  std::printf("  told after the deadline by ms: median %.1f, most %.1f\n", over[over.size() / 2], over.back());
  table.check(static_cast<int>(phases.size()));
}

namespace {

// Trains `steps` steps in which one rank after another stays away. An alarm, which it does not deserve, ends the training.
// `away(rank, step)` stays away, by the clock of `hostility`.
template <class Away>
void check_no_alarm(Table& table, std::string const& kind, int ranks, int steps, std::chrono::milliseconds deadline,
                    Hostility const& hostility, Away const& away) {
  std::atomic<int> reached{0};
  Meeting meeting{ranks};
  auto const answers = on_ranks(ranks,
                                [&](Threads& threads) {
                                  Hostile world{threads, hostility};
                                  Desk desk{world};
                                  return answer_of([&] {
                                    for (int i = 0; i < steps; ++i) {
                                      meeting.wait();
                                      away(threads.rank(), i);
                                      switch (i % 3) {
                                        case 0: desk.step(); break;
                                        case 1: {
                                          desk.session.start(desk.layer_update());
                                          auto const rows = desk.session.pull(desk.words, desk.ids);
                                          desk.session.step(px::grad(rows, desk.row_gradients));
                                          break;
                                        }
                                        default: desk.session.broadcast(desk.layer);
                                      }
                                      if (threads.rank() == 0) reached = i + 1;
                                    }
                                    desk.session.finish();
                                  });
                                },
                                {.deadline = deadline});
  for (int i = 0; i < reached; ++i) table.count(kind, "");
  if (answers[0].refused) table.count(kind, answers[0].what);
}

}  // namespace

TEST_CASE("R4 a rank that is slow, but within the deadline, raises no alarm", "[trust][slow]") {
  Table table{"R4 steps with a slow rank (wrong: false alarms)"};
  // By a clock of its own, to the nanosecond.
  std::pair<char const*, std::int64_t> const times[] = {{"away for 80 % of the deadline", 800'000'000},
                                                        {"away for 1 ns less than the deadline", 999'999'999}};
  for (auto const& [kind, ns] : times)
    for (int const ranks : {2, 3, 8}) {
      std::atomic<std::int64_t> time{0};
      Hostility hostility;
      hostility.clock = [&] { return std::chrono::nanoseconds{time.load()}; };
      auto const away = [&, absence = ns](int rank, int step) {
        if (rank == step % ranks) time += absence;
      };
      check_no_alarm(table, std::string{kind} + ", " + std::to_string(ranks) + " ranks", ranks, 300, 1000ms, hostility, away);
    }
  // By the clock on the wall: few, and so that what is left is enough on a busy machine.
  auto const sleeper = [](int rank, int step) {
    if (rank == step % 3) std::this_thread::sleep_for(1600ms);
  };
  check_no_alarm(table, "asleep for 80 % of a deadline of 2 s", 3, 6, 2000ms, {}, sleeper);
  table.check(2 * 3 * 300 + 6);
}

TEST_CASE("R4 a rank that comes on within the deadline in every phase of a step raises no alarm", "[trust][slow]") {
  Table table{"R4 steps with two slow phases (wrong: false alarms)"};
  constexpr int steps = 50;
  std::atomic<std::int64_t> time{0};
  std::atomic<int> posted[2] = {100, 100};  // by rank, in this step
  Meeting meeting{2};
  auto const answers = on_ranks(
      2,
      [&](Threads& threads) {
        int const rank = threads.rank();
        Hostility hostility;
        hostility.clock = [&] { return std::chrono::nanoseconds{time.load()}; };
        hostility.before = [&, rank](int) {  // rank 1 is late with the first two of its messages, where rank 0 waits already
          int const number = posted[rank]++;
          if (rank == 0 || number > 1) return;
          for (auto const begin = Real::now(); posted[0] <= number && Real::now() - begin < 10s;) std::this_thread::yield();
          std::this_thread::sleep_for(1ms);
          time += 400'000'000;
          std::this_thread::sleep_for(1ms);  // so that rank 0 sees the time before the message
        };
        Hostile world{threads, hostility};
        Desk desk{world};
        return answer_of([&] {
          for (int i = 0; i < steps; ++i) {
            meeting.wait();
            posted[rank] = 0;
            meeting.wait();
            desk.session.step(desk.words_update());
          }
          posted[rank] = 2;
          desk.session.finish();
        });
      },
      {.deadline = 600ms});
  for (int i = 0; i < steps; ++i)
    table.count("400 ms late with the agreement and again with the rows, under a deadline of 600 ms",
                answers[0].refused ? answers[0].what : "");
  table.check(steps);
}

TEST_CASE("R4 a process that is stopped and continued within the deadline raises no alarm", "[trust][slow]") {
  // The clock goes on by 480 ms in each stop and stands otherwise, so that a busy machine cannot add to it.
  struct Shared {
    std::atomic<std::int64_t> stops{0}, steps{0};
    std::atomic<bool> over{false};
  };
  constexpr int stops = 40;
  std::string const kind = "SIGSTOP, 480 ms, SIGCONT under a deadline of 600 ms";
  Table table{"R4 stops of the whole process (wrong: false alarms)"};
  void* const memory = mmap(nullptr, sizeof(Shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  REQUIRE(memory != MAP_FAILED);
  Shared& shared = *new (memory) Shared;
  pid_t const own = getpid();
  pid_t const child = fork();
  if (child == 0) {
    std::string const stat = "/proc/" + std::to_string(own) + "/stat";
    auto const stopped = [&] {
      std::ifstream file{stat};
      std::string text{std::istreambuf_iterator<char>{file}, {}};
      auto const name_ends = text.rfind(')');
      return name_ends != std::string::npos && text.compare(name_ends, 3, ") T") == 0;
    };
    std::mt19937 random{7};
    for (int i = 0; i < stops && !shared.over; ++i) {
      // So far apart that no wait has two of them: whoever waited at the last one has been through a step since.
      for (auto const begin = shared.steps.load(); shared.steps < begin + 2 && !shared.over;) usleep(100);
      usleep(static_cast<useconds_t>(random() % 3'000));
      kill(own, SIGSTOP);
      while (!stopped()) usleep(100);
      ++shared.stops;
      kill(own, SIGCONT);
    }
    _exit(0);
  }
  REQUIRE(child > 0);
  std::atomic<int> survived{0};  // stops after which a step was trained
  Hostility hostility;
  hostility.clock = [&] { return shared.stops.load() * 480ms; };
  auto const answers = on_ranks(3,
                                [&](Threads& threads) {
                                  Hostile world{threads, hostility};
                                  Desk desk{world};
                                  return answer_of([&] {
                                    bool more = true, ended = false;
                                    while (more) {
                                      std::int64_t const heard = shared.stops;
                                      if (threads.rank() == 0) ended = heard == stops;
                                      desk.step();
                                      if (threads.rank() == 0) survived = static_cast<int>(heard), ++shared.steps;
                                      std::vector<float> on(24, ended ? 0.0f : 1.0f);  // what rank 0 says is the end
                                      desk.layer_memory = on;
                                      desk.session.broadcast(desk.layer);
                                      more = desk.layer_memory[0] == 1.0f;
                                    }
                                    desk.session.finish();
                                  });
                                },
                                {.deadline = 600ms});
  shared.over = true;
  waitpid(child, nullptr, 0);
  std::printf("  %ld steps were trained meanwhile\n", static_cast<long>(shared.steps));
  munmap(memory, sizeof(Shared));
  for (int i = 0; i < survived; ++i) table.count(kind, "");
  if (answers[0].refused) table.count(kind, answers[0].what);
  table.check(stops);
}

}  // namespace parallax_test::trust_stalls
