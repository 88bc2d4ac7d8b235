// With backup workers the first pushes of a clock make its update: the same ones at every owner, and with the bits of a Session of
// those workers alone.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../catch.hpp"
#include "../support/size.hpp"
#include "parallax/comm/thread.hpp"
#include "training.hpp"

using namespace async_test;

namespace {

using TheModel = Model<float, px::Adam, px::Adagrad, px::Cyclic>;

// What a worker trained with in the clocks that it has pushed.
using Batches = std::map<std::int64_t, Batch>;

struct Trained {
  std::vector<px::MemoryArchive> states;
  std::vector<px::RunLog> logs;
  std::vector<px::ServiceCounts> counts;
  std::vector<Batches> batches;  // by worker
};

// Trains until `clocks` updates are made. Workers sleep at random, the last one more often.
// True if each pull was of the worker's clock.
template <class Worker, class M>
bool train_worker(Worker& worker, M& model, std::int64_t clocks, std::uint64_t seed, Batches& batches) {
  bool right = true;
  std::mt19937_64 random{seed * 31 + static_cast<std::uint64_t>(worker.rank())};
  for (int tried = 0;; ++tried) {
    Batch const batch = batch_of(seed, worker.rank(), tried, M::rows);
    auto const pulled = worker.pull(model.table.at(batch.ids), model.layer);
    if (worker.clock() >= clocks) return right;
    right = right && pulled.version() == worker.clock();
    model.differentiate(pulled, batch);
    batches[worker.clock()] = batch;
    bool const slow = worker.rank() + 1 == worker.size() ? random() % 2 == 0 : random() % 8 == 0;
    if (slow) std::this_thread::sleep_for(std::chrono::microseconds{random() % 600});
    if (random() % 3 == 0) worker.poll();
    worker.push(px::grad(model.layer, model.layer_gradient), px::grad(pulled, model.row_gradients));
  }
}

template <class Rule>
Trained train(Rule const& rule, int workers, int servers, std::int64_t clocks, std::uint64_t seed, int window) {
  int const ranks = workers + servers;
  auto const n = static_cast<std::size_t>(ranks);
  std::atomic<bool> one_clock{true};  // each pull was of the worker's clock at all owners
  Trained all{std::vector<px::MemoryArchive>(n), std::vector<px::RunLog>(n), std::vector<px::ServiceCounts>(n),
              std::vector<Batches>(static_cast<std::size_t>(workers))};
  px::ThreadOptions options;
  options.mailbox.window = window;
  px::run_threads(
      ranks,
      [&](px::ThreadCommunicator& world) {
        auto const rank = static_cast<std::size_t>(world.rank());
        std::optional<px::AsyncSession<px::ThreadCommunicator>> session;
        px::AsyncOptions const record{.record = &all.logs[rank]};
        if (servers) session.emplace(world, rule, px::Servers{servers}, record);
        else session.emplace(world, rule, record);
        TheModel model{*session};
        session->train([&](auto& worker) {
          if (!train_worker(worker, model, clocks, seed, all.batches[static_cast<std::size_t>(worker.rank())]))
            one_clock = false;
        });
        session->together([&](auto&) {
          all.states[rank] = model.state();
          all.counts[rank] = session->counts();
        });
        session->finish();
      },
      options);
  CHECK(one_clock);
  return all;
}

// By clock, the first `quorum` workers whose pushes of it the log has, in the order of ranks; `late`: by worker, pushes of no use.
std::vector<std::vector<int>> members_by(px::RunLog const& log, std::size_t quorum, std::vector<std::uint64_t>& late) {
  std::vector<std::vector<int>> members;
  for (std::size_t i = 0; i < log.size(); ++i) {
    auto const entry = log[i];
    if (entry.kind != px::RunLog::Kind::push) continue;
    auto const clock = static_cast<std::size_t>(entry.clock);
    if (members.size() <= clock) members.resize(clock + 1);
    if (members[clock].size() < quorum) members[clock].push_back(entry.worker);
    else ++late[static_cast<std::size_t>(entry.worker)];
  }
  for (auto& some : members) std::sort(some.begin(), some.end());
  return members;
}

void check(int workers, int servers, std::int64_t spares, int window, std::uint64_t seed) {
  std::int64_t const clocks = 30;
  auto const quorum = static_cast<std::size_t>(workers - spares);
  CAPTURE(workers, servers, spares, window, seed);
  Trained const apart = train(px::Backup{spares}, workers, servers, clocks, seed, window);
  std::size_t const owners = static_cast<std::size_t>(servers ? servers : workers);
  std::vector<std::uint64_t> late(static_cast<std::size_t>(workers)), taken = late;
  auto const members = members_by(apart.logs[0], quorum, late);
  REQUIRE(members.size() == static_cast<std::size_t>(clocks));
  for (auto const& some : members) {
    REQUIRE(some.size() == quorum);
    for (int const worker : some) ++taken[static_cast<std::size_t>(worker)];
  }
  for (std::size_t owner = 0; owner < owners; ++owner) {
    CHECK(apart.logs[owner].numbers() == apart.logs[0].numbers());
    CHECK(apart.counts[owner].taken == taken);
    CHECK(apart.counts[owner].dropped == late);
  }
  if (servers == 0) return;
  // The oracle: of each clock, a Session of as many ranks as make an update, in which each has the batch of one of them.
  std::vector<px::MemoryArchive> together(static_cast<std::size_t>(servers) + quorum);
  px::run_threads(servers + static_cast<int>(quorum), [&](px::ThreadCommunicator& world) {
    px::Topology<px::ThreadCommunicator> const topology{world, px::Servers{servers}};
    px::Session<px::ThreadCommunicator> session{topology, {.join_divisor = px::JoinDivisor::active}};
    TheModel model{session};
    auto const iterate = [&](Batch const& batch) {
      auto const pulled = session.pull(model.table, batch.ids);
      model.differentiate(pulled, batch);
      session.step(px::grad(model.layer, model.layer_gradient), px::grad(pulled, model.row_gradients));
    };
    if (world.rank() >= servers)
      for (std::int64_t clock = 0; clock < clocks; ++clock) {
        int const worker = members[static_cast<std::size_t>(clock)][static_cast<std::size_t>(world.rank() - servers)];
        iterate(apart.batches[static_cast<std::size_t>(worker)].at(clock));
      }
    session.join([&] { iterate({{}, std::vector<double>(64)}); });
    together[static_cast<std::size_t>(world.rank())] = model.state();
    session.finish();
  });
  for (std::size_t owner = 0; owner < owners; ++owner)
    for (std::size_t i = 0; i < together[owner].records().size(); ++i) {
      auto const &one = together[owner].records()[i], &other = apart.states[owner].records()[i];
      CAPTURE(owner, one.variable, one.name);
      CHECK((one.name == "seen" || one == other));
    }
}

}  // namespace

TEST_CASE("the first pushes of a clock make its update, the same ones at every owner", "[async][backup]") {
  std::uint64_t seed = 5;
  for (int round = 0; round < parallax_test::sized(1, 3, 40); ++round)
    for (int const window : {8, 1}) {
      check(5, 1, 1, window, ++seed);
      check(5, 3, 2, window, ++seed);
      check(4, 2, 0, window, ++seed);
      check(3, 2, 2, window, ++seed);
      check(5, 0, 1, window, ++seed);
      check(3, 0, 1, window, ++seed);
    }
}

TEST_CASE("who leaves early, or pushes without a look at the rows, holds nobody up under Backup", "[async][backup]") {
  for (int const servers : {0, 2}) {
    std::atomic<int> wrong{0};
    auto const expect = [&](bool right) { wrong += !right; };
    px::run_threads(4 + servers, [&](px::ThreadCommunicator& world) {
      std::optional<px::AsyncSession<px::ThreadCommunicator>> session;
      if (servers) session.emplace(world, px::Backup{1}, px::Servers{servers});
      else session.emplace(world, px::Backup{1});
      std::vector<double> count(3);
      px::Variable<px::Dense, px::PsShard, double> updates{*session, "updates", px::bind(count), px::Sgd{.learning_rate = -1}};
      for (int turn = 1; turn <= 2; ++turn) {
        session->train([&](auto& worker) {
          if (worker.rank() == 0) return;
          for (int step = 0; step < 10; ++step) {
            if (worker.rank() != 1) worker.pull(updates);
            worker.push(px::grad(updates, std::vector<double>(3, 1.0)));
          }
        });
        session->together([&](auto&) {
          expect(count[0] == count[2]);
          if (session->topology().owner() < 0) return;
          auto const& counts = session->counts();
          std::uint64_t pushes = 0;
          for (std::size_t worker = 0; worker < counts.taken.size(); ++worker)
            pushes += counts.taken[worker] + counts.dropped[worker];
          expect(pushes == static_cast<std::uint64_t>(30 * turn));
          expect(count[0] >= 10 * turn);
        });
      }
      session->finish();
    });
    CHECK(wrong == 0);
  }
}

namespace {

// A quorum of a user's own: more than half.
struct Majority {
  static constexpr std::string_view name = "Majority";
  bool by_clock() const { return true; }
  bool may_read(std::int64_t clock, px::Clocks const& clocks) const { return clocks.committed >= clock; }
  std::int64_t quorum(std::int64_t workers) const { return workers / 2 + 1; }
};

template <class Rule>
std::string refused(Rule const& rule, px::AsyncOptions const& options = {}) {
  std::string what;
  px::run_threads(3, [&](px::ThreadCommunicator& world) {
    try {
      px::AsyncSession session{world, rule, options};
    } catch (px::Error const& error) {
      if (world.rank() == 0) what = error.what();
    }
  });
  return what;
}

}  // namespace

TEST_CASE("a user's own quorum is followed", "[async][backup]") {
  Trained const apart = train(Majority{}, 5, 2, 30, 99, 8);
  std::vector<std::uint64_t> late(5);
  auto const members = members_by(apart.logs[0], 3, late);
  REQUIRE(members.size() == 30);
  for (auto const& some : members) CHECK(some.size() == 3);
  CHECK(apart.logs[0].numbers() == apart.logs[1].numbers());
  CHECK(apart.counts[1].dropped == late);
}

TEST_CASE("numbers of spare workers that make no sense are refused", "[async][backup]") {
  CHECK(refused(px::Backup{0}) == "");
  CHECK(refused(px::Backup{2}) == "");
  CHECK(refused(px::Backup{-1}) == "parallax: invalid argument in AsyncSession: -1 spare workers are less than none");
  CHECK(refused(px::Backup{3}) ==
        "parallax: invalid argument (rank 0) in AsyncSession: Backup{3} makes an update of the pushes of 0 of 3 workers");
  CHECK(refused(px::Backup{1}, {.scale = px::PushScale::by_staleness}) ==
        "parallax: invalid argument (rank 0) in AsyncSession: by_staleness divides pushes that are updates of their own: under "
        "Backup{1} those of a clock are one");
}
