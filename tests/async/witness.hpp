// Witnesses: rows that carry, for each worker and owner, count, sum and hash of the pushes that are in them, through the real path.
// A read is right only if the three are those of a prefix of that worker's pushes, and the prefix is as long as the consistency
// promises: lost, doubled, swapped and late pushes are all seen, without believing a log.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "parallax/async/async_session.hpp"
#include "parallax/parallax.hpp"

namespace async_test {

namespace px = parallax;

// Of push c of worker w: 34 bits, so that a million of them are summed exactly.
inline double hash_of(int worker, std::int64_t push) {
  px::Fingerprint hash;
  hash.add(static_cast<std::uint64_t>(worker));
  hash.add(static_cast<std::uint64_t>(push));
  return static_cast<double>(hash.value() >> 30);
}

struct Seen {
  std::uint64_t reads = 0;
  std::int64_t furthest = 0;  // the most that a read was behind
  std::string wrong;          // the first violation
  px::RunLog log;             // of an owner
  px::ServiceCounts counts;   // likewise
};

struct Shape {
  int workers, servers;
  std::int64_t pushes;
  int window = 8;
  bool sleeps = false;
};

// What an owner's log says by itself, whoever wrote it: of an answer, how far behind the worker's clock the pushes of each worker were
// that the owner had taken before it. Knows nothing of letters, clocks or rules.
struct Told {
  std::int64_t furthest = 0;
  std::vector<std::vector<std::uint64_t>>
      ages;  // by worker and age: how many pushes had so many others since their worker's last answer
  std::string
      wrong;  // an answer before a push of the same worker; a push out of order; a worker that goes on after it has left
};
inline Told told_by(px::RunLog const& log, int workers) {
  Told told;
  std::vector<std::int64_t> pushed(static_cast<std::size_t>(workers)), answered(pushed.size());
  std::int64_t all = 0;
  told.ages.resize(pushed.size(), std::vector<std::uint64_t>(65));
  std::vector<bool> left(pushed.size());
  for (std::size_t i = 0; i < log.size(); ++i) {
    auto const entry = log[i];
    auto const self = static_cast<std::size_t>(entry.worker);
    if ((left[self] || pushed[self] != entry.clock) && told.wrong.empty())
      told.wrong =
          px::joined({"entry ", i, ": worker ", entry.worker, " at clock ", entry.clock, " after ", pushed[self], " pushes"});
    if (entry.kind == px::RunLog::Kind::answer) answered[self] = all;
    if (entry.kind == px::RunLog::Kind::push) {
      ++told.ages[self][static_cast<std::size_t>(std::min<std::int64_t>(all - answered[self], 64))];
      ++pushed[self], ++all;
    }
    if (entry.kind == px::RunLog::Kind::leave) left[self] = true;
    for (std::size_t other = 0; entry.kind == px::RunLog::Kind::answer && other < pushed.size(); ++other)
      if (!left[other]) told.furthest = std::max(told.furthest, entry.clock - pushed[other]);
  }
  return told;
}

// What every rank has seen. `most`: how far behind a worker's own clock a read may be; -1: any distance. run(ranks, body) calls
// body(communicator) on each rank.
template <class World, class Run, class Rule>
std::vector<Seen> witness(Run&& run, Rule const& rule, std::int64_t most, Shape const& shape, std::uint64_t seed) {
  int const ranks = shape.workers + shape.servers, owners = shape.servers ? shape.servers : shape.workers;
  std::vector<Seen> all(static_cast<std::size_t>(ranks));
  run(ranks, [&](World& world) {
    Seen& seen = all[static_cast<std::size_t>(world.rank())];
    std::optional<px::AsyncSession<World>> room;
    px::AsyncOptions const record{.record = &seen.log};
    if (shape.servers) room.emplace(world, rule, px::Servers{shape.servers}, record);
    else room.emplace(world, rule, record);
    // Row o * workers + w: of worker w at owner o.
    px::Variable<px::Sparse, px::PsShard, px::Sgd, px::Block, double> table{
        *room, "witnesses", {.rows = owners * shape.workers, .width = 3}, px::Sgd{.learning_rate = -1}, px::Reduce::sum};
    std::vector<int> every, mine;
    auto const check = [&](auto const& rows, int self, std::int64_t clock, std::vector<std::vector<double>>& prefix) {
      std::int64_t updates = std::numeric_limits<std::int64_t>::max(), most_behind = 0;
      for (int owner = 0; owner < owners; ++owner) {
        std::int64_t of_owner = 0;
        for (int worker = 0; worker < shape.workers; ++worker) {
          auto const row = rows[static_cast<std::size_t>(owner * shape.workers + worker)];
          auto const n = static_cast<std::int64_t>(row[0]);
          auto& sums = prefix[static_cast<std::size_t>(worker)];
          while (static_cast<std::int64_t>(sums.size()) <= n)
            sums.push_back(sums.back() + hash_of(worker, static_cast<std::int64_t>(sums.size()) - 1));
          bool const whole =
              row[1] == static_cast<double>(n) * static_cast<double>(n + 1) / 2 && row[2] == sums[static_cast<std::size_t>(n)];
          std::int64_t const behind = clock - n;
          bool const near = worker == self ? behind == 0 : most < 0 || behind <= most;
          bool const by_clock = most != 0 || behind == 0;
          ++seen.reads;
          seen.furthest = std::max(seen.furthest, behind);
          most_behind = std::max(most_behind, behind);
          of_owner += n;
          if ((!whole || !near || !by_clock) && seen.wrong.empty())
            seen.wrong = px::joined({"worker ", self, " at clock ", clock, " read ", n, " pushes of worker ", worker,
                                     " at owner ", owner, whole ? "" : ", torn"});
        }
        updates = std::min(updates, of_owner);
      }
      std::int64_t const version = most == 0 ? clock : updates;
      if ((rows.version() != version || rows.staleness() != most_behind) && seen.wrong.empty())
        seen.wrong = px::joined({"worker ", self, " at clock ", clock, " was told of version ", rows.version(),
                                 " and staleness ", rows.staleness(), " of ", version, " and ", most_behind});
    };
    std::vector<std::vector<double>> prefix(static_cast<std::size_t>(shape.workers), std::vector<double>{0.0});
    for (int row = 0; row < owners * shape.workers; ++row) every.push_back(row);
    room->train([&](auto& worker) {
      std::mt19937_64 random{seed * 977 + static_cast<std::uint64_t>(worker.rank())};
      for (int owner = 0; owner < owners; ++owner) mine.push_back(owner * shape.workers + worker.rank());
      for (std::int64_t push = 0; push < shape.pushes; ++push) {
        auto const rows = worker.pull(table.at(every));
        check(rows, worker.rank(), worker.clock(), prefix);
        if (shape.sleeps && random() % 64 == 0) std::this_thread::sleep_for(std::chrono::microseconds{random() % 300});
        if (random() % 4 == 0) worker.poll();
        std::vector<double> gradient;
        for (std::size_t i = 0; i < mine.size(); ++i) {
          gradient.push_back(1);
          gradient.push_back(static_cast<double>(push + 1));
          gradient.push_back(hash_of(worker.rank(), push));
        }
        worker.push(px::grad(table, mine, gradient));
      }
    });
    room->together([&](auto& session) {
      auto const rows = session.pull(table, every);
      for (int worker = 0; worker < shape.workers; ++worker)
        for (int owner = 0; owner < owners; ++owner)
          if (rows[static_cast<std::size_t>(owner * shape.workers + worker)][0] != static_cast<double>(shape.pushes) &&
              seen.wrong.empty())
            seen.wrong = px::joined({"at the end owner ", owner, " has another number of pushes of worker ", worker});
    });
    seen.counts = room->counts();
    room->finish();
  });
  return all;
}

}  // namespace async_test
