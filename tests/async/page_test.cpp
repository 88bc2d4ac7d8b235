// The sentences of docs/asynchrony.md. A comment above each case has the sentences that it holds; the end of this file lists
// the tests of the others.
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "../catch.hpp"
#include "../interop/scratch.hpp"
#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/comm/thread.hpp"
#include "told.hpp"
#include "training.hpp"

using namespace async_test;
using parallax_test::Scratch;
using World = px::ThreadCommunicator;

namespace {

// A number that counts the pushes of ones: rate -1, summed or averaged as the session does.
struct Counter {
  template <class Session>
  explicit Counter(Session& session) : layer{session, "layer", px::bind(held), px::Sgd{.learning_rate = -1}} {}
  template <class Worker>
  void push(Worker& worker) {
    worker.push(px::grad(layer, std::vector<double>(held.size(), 1.0)));
  }

  std::vector<double> held = std::vector<double>(7);
  px::Variable<px::Dense, px::PsShard, double> layer;
};

// The first thing that is wrong on a rank; empty where nothing is.
class Wrong {
 public:
  void unless(bool right, std::string const& what) {
    if (!right && text_.empty()) text_ = what;
  }
  std::string const& text() const { return text_; }

 private:
  std::string text_;
};

// Returns by rank what is wrong, or the error.
std::vector<std::string> wrongs(int ranks, std::function<void(World&, Wrong&)> const& body) {
  std::vector<std::string> all(static_cast<std::size_t>(ranks));
  try {
    px::run_threads(ranks, [&](World& world) {
      Wrong wrong;
      body(world, wrong);
      all[static_cast<std::size_t>(world.rank())] = wrong.text();
    });
  } catch (std::exception const& error) {
    all[0] += error.what();
  }
  return all;
}
std::vector<std::string> none(int ranks) { return std::vector<std::string>(static_cast<std::size_t>(ranks)); }

}  // namespace

// «Communicators, topologies, … are those of a Session.» «makes, with those of all workers at its clock, one update: the bits
// of a `Session`»: of a flat one, whoever owns. «of letters within a host, too»: bytes within a declared host do not cross.
TEST_CASE("an AsyncSession takes any topology, and its bits are those of a flat session", "[async][page]") {
  using TheModel = Model<float, px::Adam, px::Adagrad, px::Cyclic>;
  std::vector<std::vector<int>> const shapes{{0, 0, 1, 1}, {0, 1, 0, 1}, {3, 3, 3, 1}, {0, 1, 1, 0, 0}, {5, 5}};
  for (auto const& hosts : shapes) {
    auto const ranks = static_cast<int>(hosts.size());
    CAPTURE(hosts);
    std::vector<std::vector<float>> together(hosts.size()), apart = together, again = together;
    auto const whole = [](auto& session, TheModel& model) {
      std::vector<float> all = model.weights;
      session.gather(model.table, {.at = px::WholeAt::every_rank},
                     [&](auto, auto const& rows) { all.insert(all.end(), rows.data, rows.data + rows.rows * rows.width); });
      return all;
    };
    auto const what = wrongs(ranks, [&](World& world, Wrong& wrong) {
      auto const rank = static_cast<std::size_t>(world.rank());
      {
        px::Session session{world};
        TheModel model{session};
        for (int step = 0; step < 20; ++step) {
          Batch const batch = batch_of(8, world.rank(), step, TheModel::rows);
          auto const pulled = session.pull(model.table, batch.ids);
          model.differentiate(pulled, batch);
          session.step(px::grad(model.layer, model.layer_gradient), px::grad(pulled, model.row_gradients));
        }
        session.broadcast(model.layer);  // of a layer under PsShard the parts are with their owners
        together[rank] = whole(session, model);
        session.finish();
      }
      px::Topology const topology{world, hosts};
      px::AsyncSession session{topology, px::Ssp{0}};
      TheModel model{session};
      auto const train = [&](int from, int to) {
        session.train([&](auto& worker) {
          wrong.unless(worker.rank() == world.rank() && worker.size() == ranks, "ranks are counted otherwise");
          for (int step = from; step < to; ++step) {
            Batch const batch = batch_of(8, worker.rank(), step, TheModel::rows);
            auto const pulled = worker.pull(model.table.at(batch.ids), model.layer);
            model.differentiate(pulled, batch);
            worker.push(px::grad(model.layer, model.layer_gradient), px::grad(pulled, model.row_gradients));
          }
        });
      };
      train(0, 12);
      session.together([](auto&) {});
      train(12, 20);
      session.together([&](auto& all) {
        apart[rank] = whole(all, model);
        std::uint64_t crossing = 0, every = 0;
        every += session.traffic().sent_of(px::Payload::ids).all;  // which letters alone have
        crossing += session.traffic().sent_of(px::Payload::ids).between_hosts;
        bool const alone = std::count(hosts.begin(), hosts.end(), hosts[rank]) == 1;
        bool const one = std::all_of(hosts.begin(), hosts.end(), [&](int host) { return host == hosts[0]; });
        wrong.unless(one                          ? crossing == 0 && every > 0
                     : alone                      ? crossing == every
                     : topology.owners() == ranks ? crossing > 0 && crossing < every
                                                  : crossing <= every,
                     px::joined({crossing, " bytes of ", every, " cross"}));
      });
      session.finish();
    });
    CHECK(what == none(ranks));
    bool const same = apart == together;
    CHECK(same);
  }
}

// «`train` and `together` may take turns as often as one likes». «Its `clock()` is the number of its pushes.» «`steps()` of
// `together` are the clocks of the worker that has come furthest», on every rank, servers too.
TEST_CASE("steps of together are the clocks of the furthest worker, on servers too", "[async][page]") {
  for (int const servers : {0, 1, 2}) {
    CAPTURE(servers);
    CHECK(wrongs(4, [&](World& world, Wrong& wrong) {
            px::AsyncSession session{servers ? px::Topology{world, px::Servers{servers}} : px::Topology{world}, px::Asp{}};
            Counter counter{session};
            std::int64_t most = 0;
            for (int turn = 0; turn < 4; ++turn) {
              session.train([&](auto& worker) {
                wrong.unless(worker.clock() == most, "the clock does not go on where the furthest has ended");
                for (int push = 0; push < turn * (1 + worker.rank()); ++push) {
                  counter.push(worker);
                  wrong.unless(worker.clock() == most + push + 1, "a push does not count as one");
                }
              });
              int const workers = 4 - servers;
              most += turn * workers;
              session.together([&](auto& all) {
                wrong.unless(all.steps() == most, px::joined({"steps() ", all.steps(), " and not ", most}));
              });
              session.together([&](auto& all) { wrong.unless(all.steps() == most, "a meeting counts"); });
            }
            auto const completion = session.finish();
            for (auto const& record : completion.records)
              wrong.unless(record.steps == most, "the record's steps are no clocks");
          }) == none(4));
  }
}

// «together has a Session for what all ranks do at once», checkpoints among it: a resumed training counts on, saves when it is
// due, and has the rates of its schedule.
TEST_CASE("a training that is resumed counts on, saves when it is due, and keeps to its schedule", "[async][page]") {
  for (int const servers : {0, 1}) {
    CAPTURE(servers);
    Scratch const scratch;
    // Trains `rounds` of ten clocks; the steps at which it has saved, and what the layer holds then.
    struct Run {
      std::vector<std::int64_t> saved;
      double end = 0;
    };
    auto const run = [&](std::string const& folder, int rounds, bool back, bool background) {
      Run made;
      CHECK(wrongs(3, [&](World& world, Wrong& wrong) {
              px::AsyncSession session{servers ? px::Topology{world, px::Servers{servers}} : px::Topology{world}, px::Ssp{0}};
              Counter counter{session};
              session.schedule(counter.layer, [](px::Sgd& rule, std::int64_t update) {
                rule.learning_rate = -1.0 / static_cast<double>(1 + update);
              });
              using Every = px::Checkpoints<px::Session<World>, decltype(counter.layer)&>;
              std::unique_ptr<Every> every;
              std::int64_t at = 0;
              session.together([&](auto& all) {
                every = std::make_unique<Every>(all, scratch.path(folder), px::Every{.steps = 20, .background = background},
                                                counter.layer);
                if (auto const was = every->resume()) at = was->step;
              });
              session.together([&](auto& all) { wrong.unless(all.steps() == at, "steps() is not what was restored"); });
              for (int round = 0; round < rounds; ++round) {
                session.train([&](auto& worker) {
                  for (int i = 0; i < 10; ++i) worker.pull(counter.layer), counter.push(worker);
                });
                session.together([&](auto& all) {
                  at += 10;
                  wrong.unless(all.steps() == at, px::joined({"steps() ", all.steps(), " and not ", at}));
                  if (auto const now = every->step(); now && world.rank() == 0) made.saved.push_back(now->step);
                  if (!back || round != rounds / 2) return;
                  at = all.restore(scratch.path(folder), {.generation = 1}, counter.layer).step;  // the session goes back
                  wrong.unless(all.steps() == at, "steps() of a session that went back");
                });
              }
              session.together([&](auto&) {
                if (world.rank() == 0) made.end = counter.held[0];
                every.reset();
              });
              session.finish();
            }) == none(3));
      return made;
    };
    using Steps = std::vector<std::int64_t>;
    double expected = 0;
    for (int update = 0; update < 100; ++update) expected += 1.0 / (1 + update);
    Run const straight = run("straight", 10, false, false);
    CHECK(straight.saved == Steps{20, 40, 60, 80, 100});
    CHECK(straight.end == expected);
    CHECK(run("parts", 5, false, false).saved == Steps{20, 40});
    Run const resumed = run("parts", 6, false, false);  // from 40 on
    CHECK(resumed.saved == Steps{60, 80, 100});
    CHECK(resumed.end == expected);
    // In the sixth round, at 60, it goes back to 20: the next ones are due at 40 and 60.
    CHECK(run("back", 9, true, false).saved == Steps{20, 40, 40, 60});
    auto const behind = run("behind", 7, false, true).saved;  // each is told by the next, where it was there by then
    CHECK(behind.front() == 20);
    CHECK(behind.size() >= 2);
  }
}

// A signal, too, is heard by the next meeting, on all ranks.
TEST_CASE("a signal that comes within train saves in the next together", "[async][page]") {
  Scratch const scratch;
  auto* const before = ::signal(SIGTERM, [](int) {});  // instead of Catch's
  CHECK(wrongs(3, [&](World& world, Wrong& wrong) {
          px::AsyncSession session{world, px::Asp{}};
          Counter counter{session};
          std::optional<px::Checkpoints<px::Session<World>, decltype(counter.layer)&>> every;
          session.together([&](auto& all) {
            every.emplace(all, scratch.path("run"), px::Every{.steps = 1000, .on_signals = true}, counter.layer);
          });
          int rounds = 0;
          while (!every->stopping() && rounds < 5) {
            ++rounds;
            session.train([&](auto& worker) {
              counter.push(worker);
              if (rounds == 2 && worker.rank() == 1) ::raise(SIGTERM);
            });
            session.together([&](auto&) {
              auto const saved = every->step();
              wrong.unless(saved.has_value() == (rounds == 2), px::joined({"saved in round ", rounds}));
            });
          }
          wrong.unless(rounds == 2, px::joined({"it was asked to end in round 2, and has ended after ", rounds}));
          session.together([&](auto&) { every.reset(); });
          session.finish();
        }) == none(3));
  ::signal(SIGTERM, before);
}

// «`.record = &log` writes it down, …, and `.replay = &log` follows it: the parameters and slots of all ranks are those of the
// first run, to the last bit», however often train and together take turns, and where a session was resumed. «One that does not
// fit what the workers do is an Error of Errc::mismatch, which names the entry.» «eight bytes for a push, an answer or a
// leave».
TEST_CASE("a log of several trainings is followed, and one that goes on is told at the end", "[async][page][replay]") {
  for (int const servers : {0, 2}) {
    CAPTURE(servers);
    int const ranks = 2 + servers;
    Scratch const scratch;
    std::vector<px::RunLog> logs(static_cast<std::size_t>(ranks));
    std::vector<std::vector<std::vector<float>>> seen(2);  // by run and meeting
    auto const train = [&](std::size_t run, int trainings, bool resumes) {
      seen[run].clear();
      return told(ranks, [&](World& world) {
        auto const rank = static_cast<std::size_t>(world.rank());
        px::AsyncOptions options;
        (run == 0 ? (void)(options.record = &logs[rank]) : (void)(options.replay = &logs[rank]));
        px::AsyncSession session{servers ? px::Topology{world, px::Servers{servers}} : px::Topology{world}, px::Asp{}, options};
        std::vector<float> weights(5, 1.0f);
        px::Variable<px::Dense, px::PsShard, px::Adam> layer{session, "layer", px::bind(weights)};
        if (resumes) session.together([&](auto& all) { all.restore(scratch.path("run"), {}, layer); });
        for (int training = 0; training < trainings; ++training) {
          session.train([&](auto& worker) {
            for (int i = 0; i < 6 + worker.rank(); ++i) {
              worker.pull(layer);
              std::vector<float> gradient(5);
              for (std::size_t k = 0; k < 5; ++k) gradient[k] = weights[k] * 0.3f - static_cast<float>(worker.rank());
              worker.push(px::grad(layer, gradient));
            }
          });
          session.together([&](auto& all) {
            if (world.rank() == 0) seen[run].push_back(weights);
            if (run == 0 && !resumes) all.save(scratch.path("run"), {}, layer);
          });
        }
        session.finish();
      });
    };
    auto const quiet = std::vector<std::string>(static_cast<std::size_t>(ranks));
    for (bool const resumes : {false, true}) {
      for (auto& log : logs) log.clear();
      CHECK(train(0, 3, resumes) == quiet);
      CHECK(logs[0].size() == 3 * (2 * (6 + 7) + 2));
      CHECK(logs[0].numbers().size() == logs[0].size());
      if (resumes) {
        CHECK(train(1, 3, true) == quiet);
        bool const same = seen[0] == seen[1];
        CHECK(same);
        continue;
      }
      CHECK(train(1, 3, false) == quiet);
      bool const same = seen[0] == seen[1];
      CHECK(same);
      for (auto const& words : train(1, 2, false))  // one training fewer
        CHECK(words.find(
                  "parallax: mismatch between ranks (rank 0) in train: the log cannot be followed at entry 56: it goes on, "
                  "and all workers have left") == 0);
      for (auto const& words : train(1, 4, false))  // and one more
        CHECK(words.find("the log cannot be followed at entry 84: it ends, and worker") != std::string::npos);
    }
  }
}

// «A session of one rank»: a trainer apart runs alone.
TEST_CASE("an AsyncSession runs alone", "[async][page]") {
  px::SelfCommunicator world;
  px::AsyncSession session{world, px::Ssp{3}};
  px::Variable<px::Sparse> words{session, "words", {.rows = 10, .width = 2}, px::Sgd{.learning_rate = -1}};
  Counter counter{session};
  session.train([&](auto& worker) {
    for (int i = 0; i < 100; ++i) {
      auto const rows = worker.pull(words.at(std::vector{3, i % 3, 3}), counter.layer);
      worker.push(px::grad(rows, std::vector<float>(6, 1.0f)), px::grad(counter.layer, std::vector<double>(7, 1.0)));
    }
  });
  session.together([&](auto& all) { CHECK(all.steps() == 100); });
  CHECK(words.local()[3][0] == 200);
  CHECK(words.local()[1][1] == 33);
  CHECK(counter.held == std::vector<double>(7, 100.0));
  session.finish();
}

// «it then serves others while it waits, and in `worker.poll()`».
TEST_CASE("a worker that polls serves a pull that it does not wait for", "[async][page]") {
  std::atomic<bool> answered{false};
  CHECK(wrongs(2, [&](World& world, Wrong& wrong) {
          px::AsyncSession session{world, px::Asp{}};
          Counter counter{session};
          session.train([&](auto& worker) {
            if (worker.rank() == 1) worker.pull(counter.layer), answered = true;  // of rank 0's part as well
            auto const latest = std::chrono::steady_clock::now() + std::chrono::seconds{20};
            while (worker.rank() == 0 && !answered && std::chrono::steady_clock::now() < latest) worker.poll();
            wrong.unless(answered, "nobody has answered");
          });
          session.finish();
        }) == none(2));
}

namespace {

// A bound of one that says when it has refused a read, and numbers that make no sense.
struct Telling {
  std::int64_t staleness = 1;
  static inline std::atomic<int> refused{0};

  static constexpr std::string_view name = "Telling";
  bool by_clock() const { return false; }
  void check() const {
    if (staleness < 0) throw px::Error{px::Errc::invalid_argument, -1, "AsyncSession", "", "less than none"};
  }
  bool may_read(std::int64_t clock, px::Clocks const& clocks) const {
    bool const may = clocks.least >= clock - staleness;
    refused += !may;
    return may;
  }
};

}  // namespace

// «`session.counts()` has …, and how many pulls had to wait.» «One that leaves is waited for no longer.» «A consistency of
// one's own is a struct with two functions, with a `check()`…». «A worker sees its own pushes».
TEST_CASE("a pull waits for the slowest worker, is counted, and goes on once that one has left", "[async][page]") {
  for (bool const leaves : {false, true}) {
    Telling::refused = 0;
    CHECK(wrongs(3, [&](World& world, Wrong& wrong) {
            px::AsyncSession session{world, Telling{}, px::Servers{1}};
            Counter counter{session};
            session.train([&](auto& worker) {
              if (worker.rank() == 0) {
                for (int push = 0; push < 2; ++push) counter.push(worker);
                worker.pull(counter.layer);  // worker 1 is two behind
                wrong.unless(counter.held[0] >= 2, "a worker does not see its own pushes");
                wrong.unless(Telling::refused > 0, "nobody was waited for");
              } else {
                while (Telling::refused == 0) worker.poll();
                if (!leaves) counter.push(worker);
              }
            });
            if (world.rank() == 0) {
              auto const& counts = session.counts();
              wrong.unless(counts.waits == std::vector<std::uint64_t>{1, 0}, "the waits are counted otherwise");
            }
            session.together([&](auto&) { wrong.unless(counter.held[6] == (leaves ? 2 : 3), "a push is lost"); });
            session.finish();
          }) == none(3));
  }
  auto const words = told(1, [&](World& world) { px::AsyncSession session{world, Telling{-1}}; });
  CHECK(words[0] == "parallax: invalid argument in AsyncSession: less than none");
}

// «If a declaration names no `Reduce`, the pushes of one clock are averaged under `Ssp{0}` …, over the workers whose pushes
// were taken; elsewhere each is applied as it is», and what `mean_by_count` makes of a push that is alone at its clock.
TEST_CASE("pushes of a clock are averaged over those who pushed, rows by their counts, also of one worker", "[async][page]") {
  for (bool const by_clock : {true, false}) {
    CHECK(wrongs(3, [&](World& world, Wrong& wrong) {
            std::optional<px::AsyncSession<World>> session;
            if (by_clock) session.emplace(world, px::Ssp{0}, px::Servers{1});
            else session.emplace(world, px::Asp{}, px::Servers{1});
            px::Sgd const count{.learning_rate = -1};
            std::vector<double> held(2);
            px::Variable<px::Dense, px::PsShard, double> layer{*session, "layer", px::bind(held), count};
            px::Variable<px::Sparse> counted{
                *session, "counted", {.rows = 8, .width = 1}, count, by_clock ? px::Reduce::mean_by_count : px::Reduce::sum};
            session->train([&](auto& worker) {
              std::vector<int> const mine = worker.rank() == 0 ? std::vector{3, 3, 3, 5} : std::vector{3};
              std::vector<float> const rows = worker.rank() == 0 ? std::vector{3.0f, 3.0f, 3.0f, 8.0f} : std::vector{1.0f};
              for (int push = 0; push < (worker.rank() == 0 ? 2 : 1); ++push)  // the second is alone
                worker.push(px::grad(layer, std::vector<double>(2, worker.rank() == 0 ? 4.0 : 1.0)),
                            px::grad(counted, mine, rows));
            });
            session->together([&](auto& all) {
              auto const expect = [&](double is, double should, char const* what) {
                wrong.unless(is == should, px::joined({what, ": ", is, " and not ", should}));
              };
              expect(held[0], by_clock ? 2.5 + 4 : 4 + 4 + 1, "the layer");
              std::vector<int> const some{3, 5};
              auto const rows = all.pull(counted, some);
              expect(static_cast<double>(rows[0][0]), by_clock ? 10.0 / 4 + 3 : 9 + 9 + 1, "row 3");
              expect(static_cast<double>(rows[1][0]), 16, "row 5");
            });
            session->finish();
          }) == none(3));
  }
}

// «a push is divided by its age, the number of updates at its owner since its worker had read there»: at each owner its own.
TEST_CASE("by_staleness divides a push at each owner by its age there", "[async][page][replay]") {
  using Kind = px::RunLog::Kind;
  std::vector<px::RunLog> scripts(4);
  int const before[] = {0, 3}, pushes = 5;  // of worker 0, before owner 0 and owner 1 answer worker 1
  for (std::size_t owner = 0; owner < 2; ++owner) {
    for (int push = 0; push < pushes; ++push) {
      if (push == before[owner]) scripts[owner].add({1, Kind::answer, 0});
      scripts[owner].add({0, Kind::push, push});
    }
    scripts[owner].add({1, Kind::push, 0});
    scripts[owner].add({0, Kind::leave, pushes}), scripts[owner].add({1, Kind::leave, 1});
  }
  CHECK(wrongs(4, [&](World& world, Wrong& wrong) {
          auto* const script = &scripts[static_cast<std::size_t>(world.rank())];
          px::AsyncSession session{world, px::Asp{}, px::Servers{2},
                                   px::AsyncOptions{.scale = px::PushScale::by_staleness, .replay = script}};
          std::vector<double> held(2);
          px::Variable<px::Dense, px::PsShard, double> layer{session, "layer", px::bind(held), px::Sgd{.learning_rate = -1}};
          session.train([&](auto& worker) {
            if (worker.rank() == 1) worker.pull(layer);
            for (int push = 0; push < (worker.rank() == 0 ? pushes : 1); ++push)
              worker.push(px::grad(layer, std::vector<double>(2, worker.rank() == 0 ? 0.0 : 120.0)));
          });
          session.together([&](auto&) {
            wrong.unless(held == std::vector<double>{120.0 / 5, 120.0 / 2}, px::joined({held[0], ", ", held[1]}));
          });
          if (world.rank() < 2)
            wrong.unless(session.counts().ages[1][world.rank() == 0 ? 5 : 2] == 1, "its age is counted otherwise");
          session.finish();
        }) == none(4));
  auto const words = told(1, [&](World& world) {
    px::AsyncSession session{world, px::Ssp{0}, px::AsyncOptions{.scale = px::PushScale::by_staleness}};
  });
  CHECK(words[0].find("by_staleness divides pushes that are updates of their own: under Ssp") != std::string::npos);
}

// «Under `Backup` the first owner sends each other one 8 bytes for every letter that it takes, many of them in one letter.» A
// letter has 32 bytes, and 16 for each variable in it.
TEST_CASE("under Backup orders have eight bytes for a letter", "[async][page][bytes]") {
  constexpr std::uint64_t steps = 50;
  CHECK(wrongs(4, [&](World& world, Wrong& wrong) {
          px::AsyncSession session{world, px::Backup{1}, px::Servers{2}};
          std::vector<double> held(2);
          px::Variable<px::Dense, px::PsShard, double> layer{session, "layer", px::bind(held)};
          auto const sent = [&](std::uint64_t pushes) {
            px::Traffic const before = session.traffic();
            session.train([&](auto& worker) {
              for (std::uint64_t push = 0; push < pushes; ++push)
                worker.pull(layer), worker.push(px::grad(layer, std::vector<double>(2, 1.0)));
            });
            px::Traffic const& after = session.traffic();
            auto const control = [](px::Traffic const& of) { return of.sent_of(px::Payload::control).all; };
            return std::pair{after.messages - before.messages, control(after) - control(before)};
          };
          auto const none_pushed = sent(0), all = sent(steps);  // both have the agreement, and orders of two leaves
          if (world.rank() == 0) {
            std::uint64_t const answers = 2 * steps, taken = 4 * steps, letters = all.first - none_pushed.first;
            std::uint64_t const control = all.second - none_pushed.second;
            wrong.unless(control == answers * 48 + (letters - answers) * 32 + taken * 8,
                         px::joined({control, " bytes in ", letters, " letters"}));
          }
          session.together([](auto&) {});
          session.finish();
        }) == none(4));
}

// The tests that hold the other sentences:
//   a worker pulls and pushes, owners make updates; bits of a Session          async.equality, async.every_optimizer,
//                                                                              async.sockets
//   a variable is under PsShard; no transform, clipping, start, step, prefetch tests/misuse/async.cpp
//   ranges of updates; each variable once; who meets within train; mistakes are
//   thrown there alone; not finite; what leaves a body; deadlines; mean under Asp;
//   ranks compare variables, settings and consistency                          async.errors, async.faults, async.schedule
//   version() and staleness(); what a pull shows under Asp and Ssp             async.witness, async.simulation
//   Backup: which pushes are taken, clocks of late workers, counts, quorum     async.backup, async.replay
//   rates by the number of updates                                             async.schedule, and above
//   ages of pushes; a log that was changed or cut                              async.replay
//   letters and bytes; the own rank's do not count; window                     async.letters, async.backup (windows of 1)
//   a ProgressThread beside a worker                                           async.progress
//   what is measured                                                           benchmarks/results, parallax-bench async
