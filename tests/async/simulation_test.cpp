// Random schedules of few ranks, in which letters are late and requests refused: nobody waits for ever, and every read is as fresh as
// its consistency promises. A schedule that fails is run again by its seed.
#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <optional>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "../support/size.hpp"
#include "simulated.hpp"
#include "witness.hpp"

using namespace async_test;

namespace {

// Schedule `seed` of a consistency; the first thing that is wrong with it.
template <class Rule>
std::string wrong_with(Rule const& rule, std::int64_t most, std::uint64_t seed) {
  std::mt19937_64 random{seed};
  Shape shape{1 + static_cast<int>(random() % 3), static_cast<int>(random() % 3), 3 + static_cast<std::int64_t>(random() % 6)};
  shape.window = 1 + static_cast<int>(random() % 3);
  auto const run = [&](int ranks, auto const& body) { run_simulated(ranks, seed, shape.window, body); };
  try {
    for (Seen const& seen : witness<Simulated>(run, rule, most, shape, seed)) {
      if (!seen.wrong.empty()) return seen.wrong;
      if (auto const told = told_by(seen.log, shape.workers); !told.wrong.empty()) return told.wrong;
    }
  } catch (px::Error const& error) {
    return error.what();
  }
  return "";
}

// The same with spare workers: a pull is of one clock at all owners, and each update is made of as many pushes as it must be.
std::string wrong_with_backup(std::uint64_t seed) {
  std::mt19937_64 random{seed};
  int const workers = 2 + static_cast<int>(random() % 3), servers = static_cast<int>(random() % 4);
  auto const spares = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(workers));
  int const window = 1 + static_cast<int>(random() % 3), owners = servers ? servers : workers;
  std::int64_t const clocks = 3 + static_cast<std::int64_t>(random() % 6);
  bool const leaves_early = random() % 3 == 0;
  std::uint64_t const looks = random() % 2 ? 0 : 1 + random() % 4;  // 0: before each push; else now and then
  std::vector<std::string> wrong(static_cast<std::size_t>(workers + servers));
  std::vector<px::RunLog> logs(wrong.size());
  try {
    run_simulated(workers + servers, seed, window, [&](Simulated& world) {
      auto const rank = static_cast<std::size_t>(world.rank());
      std::optional<px::AsyncSession<Simulated>> session;
      px::AsyncOptions const record{.record = &logs[rank]};
      if (servers) session.emplace(world, px::Backup{spares}, px::Servers{servers}, record);
      else session.emplace(world, px::Backup{spares}, record);
      px::Variable<px::Sparse, px::PsShard, px::Sgd, px::Block, double> table{
          *session, "updates", {.rows = owners, .width = 1}, px::Sgd{.learning_rate = -1}, px::Reduce::sum};
      std::vector<int> every;
      for (int owner = 0; owner < owners; ++owner) every.push_back(owner);
      std::vector<double> const gradient(every.size(), 1.0);
      auto const check = [&](auto const& rows, std::int64_t clock, std::int64_t least) {
        for (auto const owner : every) {
          double const pushes = rows[static_cast<std::size_t>(owner)][0];
          bool const right = pushes == rows[0][0] && pushes >= static_cast<double>(least * clock) &&
                             pushes <= static_cast<double>((workers - spares) * clock);
          if (!right && wrong[rank].empty())
            wrong[rank] =
                px::joined({"at clock ", clock, " owner ", owner, " has ", pushes, " pushes, and the first ", rows[0][0]});
        }
      };
      session->train([&](auto& worker) {
        for (int tried = 0;; ++tried) {
          if (looks == 0 || random() % looks == 0) {  // `random` is the baton holder's
            auto const rows = worker.pull(table.at(every));
            check(rows, worker.clock(), leaves_early ? 1 : workers - spares);
          }
          if (worker.clock() >= clocks || (leaves_early && worker.rank() == 0 && tried == 2)) return;
          if (random() % 4 == 0) worker.poll();
          worker.push(px::grad(table, every, gradient));
        }
      });
      session->together([&](auto& all) { check(all.pull(table, every), clocks, leaves_early ? 1 : workers - spares); });
      session->finish();
    });
  } catch (px::Error const& error) {
    return error.what();
  }
  for (std::size_t owner = 1; owner < static_cast<std::size_t>(owners); ++owner)
    if (logs[owner].numbers() != logs[0].numbers()) return px::joined({"owner ", owner, " has served in another order"});
  for (auto const& what : wrong)
    if (!what.empty()) return what;
  return "";
}

}  // namespace

TEST_CASE("random schedules end, and every read is as fresh as promised", "[async][simulation]") {
  char const* const given = std::getenv("PARALLAX_SEED");
  std::uint64_t const first = given ? std::strtoull(given, nullptr, 10) : 1;
  std::uint64_t const schedules = given ? 1 : parallax_test::sized<std::uint64_t>(60, 400, 40'000);
  std::uint64_t failed = 0;
  for (std::uint64_t seed = first; seed < first + schedules; ++seed) {
    auto const hold = [&](char const* rule, std::string const& wrong) {
      if (wrong.empty()) return;
      ++failed;
      UNSCOPED_INFO(rule << ": " << wrong << "; PARALLAX_SEED=" << seed << " runs this schedule alone");
    };
    hold("Ssp{0}", wrong_with(px::Ssp{0}, 0, seed));
    hold("Ssp{1}", wrong_with(px::Ssp{1}, 1, seed));
    hold("Ssp{3}", wrong_with(px::Ssp{3}, 3, seed));
    hold("Asp", wrong_with(px::Asp{}, -1, seed));
    hold("Backup", wrong_with_backup(seed));
  }
  WARN(5 * schedules << " schedules");
  CHECK(failed == 0);
}
