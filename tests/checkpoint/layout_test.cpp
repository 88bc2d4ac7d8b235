// Restores into layouts that the restore itself changes: tables that have moved between owners and replicas since they were
// saved.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <map>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "../catch.hpp"
#include "../interop/scratch.hpp"
#include "../support/size.hpp"
#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"
#include "parallax/partition/greedy.hpp"

namespace px = parallax;
using parallax_test::Scratch;

namespace {

using World = px::ThreadCommunicator;

struct FirstReplicas : px::Choose<px::AllReduce, px::PsShard> {
  static constexpr std::string_view name = "FirstReplicas";
};
struct FirstShards : px::Choose<px::PsShard, px::AllReduce> {
  static constexpr std::string_view name = "FirstShards";
};

// Returns costs by which every table is to be in shards, or on all ranks, after the next step.
px::AutoOptions towards(bool shards) {
  px::Costs costs;
  if (shards) costs.per_row = 1, costs.per_stream_byte = 1;
  else costs.round = 1;  // to pull from shards takes one more
  return {.first_step = 1, .interval = 1, .costs = costs, .device_costs = costs};
}

// The number of times that each row was named: the values of a table whose rate is -1 and whose gradients are ones, which are
// summed.
using Counts = std::vector<std::int64_t>;

// A training whose tables move when they are told to. The counts are the same on all ranks, for all know what each one names.
struct Trainer {
  static constexpr std::int64_t rows = 23, many = 4'100;  // of `large`: more bytes than are read at once

  explicit Trainer(World& world) : session{world, {.choice = towards(true)}} {}

  std::vector<int> ids(int rank, int draw, std::int64_t of) const {
    std::mt19937_64 random{static_cast<std::uint64_t>(1000 * draw + rank)};
    std::vector<int> named(1 + random() % 4);
    for (int& id : named) id = static_cast<int>(random() % static_cast<std::uint64_t>(of));
    return named;
  }
  // Takes a step. `draw`: the named rows, and the size of the gradients of `exact`.
  void step(int draw, bool shards) {
    session.options().choice = towards(shards);
    std::vector<int> const few = ids(session.rank(), draw, rows), far = ids(session.rank(), draw, many);
    std::vector<float> const ones(4 * few.size(), 1.0f), wide(64 * far.size(), 1.0f);
    std::vector<float> moved(3 * few.size());
    for (std::size_t i = 0; i < moved.size(); ++i)
      moved[i] = 0.25f * static_cast<float>(draw % 7 + session.rank()) - static_cast<float>(i % 3);
    auto const [n, s, l, e] = session.pull(narrow.at(few), small.at(few), large.at(far), exact.at(few));
    session.step(px::grad(n, std::span{ones}.first(2 * few.size())), px::grad(s, ones), px::grad(l, wide), px::grad(e, moved),
                 px::grad(twin, few, moved));
    for (int rank = 0; rank < session.size(); ++rank) {
      for (int const id : ids(rank, draw, rows)) ++counts[static_cast<std::size_t>(id)];
      for (int const id : ids(rank, draw, many)) ++far_counts[static_cast<std::size_t>(id)];
    }
  }
  template <class F>
  auto with_all(F&& f) {
    return f(narrow, small, large, exact, twin);
  }
  template <class V>
  auto all_of(V& table, px::WholeOptions const& options = {.at = px::WholeAt::every_rank}) {
    std::vector<float> all;
    session.gather(table, options, [&](std::span<std::int64_t const>, auto const& view) {
      for (std::int64_t i = 0; i < view.rows * view.width; ++i) all.push_back(static_cast<float>(view.data[i]));
    });
    return all;
  }
  // Returns the differences from the counts, and from the table that never moves; "" where there are none.
  std::string wrong() {
    std::string text;
    auto const held_to = [&](auto& table, Counts const& expected) {
      auto const all = all_of(table);
      auto const width = static_cast<std::size_t>(table.width());
      if (all.size() != expected.size() * width) text += " size of " + std::string{table.name()};
      for (std::size_t i = 0; i < all.size() && text.empty(); i += width == 64 ? 61 : 1)
        if (all[i] != static_cast<float>(expected[i / width]))
          text += " " + std::string{table.name()} + ", row " + std::to_string(i / width) + ": " + std::to_string(all[i]) +
                  " and not " + std::to_string(expected[i / width]);
    };
    held_to(narrow, counts), held_to(small, counts), held_to(large, far_counts);
    for (char const* const slot : {"", "m", "v"}) {
      px::WholeOptions const options{.slot = slot, .at = px::WholeAt::every_rank};
      if (all_of(exact, options) != all_of(twin, options)) text += " exact is not its twin: '" + std::string{slot} + "'";
    }
    return text;
  }

  px::Session<World> session;
  px::Sgd count{.learning_rate = -1};
  px::Table made{.rows = rows, .width = 2};
  px::Variable<px::Sparse, px::BFloat16, px::Auto, px::Sgd, px::Cyclic> narrow{session, "narrow", made, count, px::Reduce::sum};
  px::Variable<px::Sparse, FirstReplicas, px::Sgd, px::Hash> small{
      session, "small", {.rows = rows, .width = 4}, count, px::Reduce::sum};
  px::Variable<px::Sparse, FirstShards, px::Sgd, px::Greedy> large{
      session, "large", {.rows = many, .width = 64}, count, px::Reduce::sum};
  px::Table alike{.rows = rows, .width = 3, .initial = px::constant(0.5)};
  px::Variable<px::Sparse, px::Auto, px::Adam, px::Block> exact{session, "exact", alike};
  px::Variable<px::Sparse, px::PsShard, px::Adam, px::Block> twin{session, "twin", alike};
  Counts counts = Counts(static_cast<std::size_t>(rows)), far_counts = Counts(static_cast<std::size_t>(many));
};

// Returns the first words of any rank that finds something wrong.
template <class Body>
std::string on_ranks(int ranks, Body const& body) {
  std::vector<std::string> told(static_cast<std::size_t>(ranks));
  try {
    px::run_threads(ranks, [&](World& world) { told[static_cast<std::size_t>(world.rank())] = body(world); });
  } catch (std::exception const& error) {
    return error.what();
  }
  for (std::string const& one : told)
    if (!one.empty()) return one;
  return {};
}

}  // namespace

TEST_CASE("a session goes back to its checkpoint, wherever its tables lie by then", "[checkpoint][layout]") {
  for (int const ranks : {1, 2, 3})
    for (bool const saved_in_shards : {true, false}) {
      CAPTURE(ranks, saved_in_shards);
      Scratch const scratch;
      std::string const told = on_ranks(ranks, [&](World& world) {
        Trainer trainer{world};
        for (int i = 0; i < 3; ++i) trainer.step(i, saved_in_shards);
        auto const kept = std::pair{trainer.counts, trainer.far_counts};
        trainer.with_all([&](auto&... tables) { trainer.session.save(scratch.path("run"), {}, tables...); });
        std::size_t const before = trainer.session.decisions().size();
        for (int i = 3; i < 7; ++i) trainer.step(i, !saved_in_shards);
        if (ranks > 1 && trainer.session.decisions().size() < before + 3) return std::string{"nothing has moved"};
        trainer.with_all([&](auto&... tables) { trainer.session.restore(scratch.path("run"), {}, tables...); });
        std::tie(trainer.counts, trainer.far_counts) = kept;
        std::string wrong = trainer.wrong();
        for (int i = 10; i < 15; ++i) trainer.step(i, i % 2 == 0);
        wrong += trainer.wrong();
        trainer.session.finish();
        return wrong;
      });
      CHECK(told == "");
    }
}

TEST_CASE("a fresh session takes up tables that lie elsewhere than where they begin", "[checkpoint][layout]") {
  for (int const then : {1, 2, 3})
    for (int const now : {1, 2, 3})
      for (bool const shards : {true, false}) {
        CAPTURE(then, now, shards);
        Scratch const scratch;
        Counts counts, far_counts;
        std::string const saved = on_ranks(then, [&](World& world) {
          Trainer trainer{world};
          for (int i = 0; i < 3; ++i) trainer.step(i, shards);
          trainer.with_all([&](auto&... tables) { trainer.session.save(scratch.path("run"), {}, tables...); });
          if (world.rank() == 0) counts = trainer.counts, far_counts = trainer.far_counts;
          trainer.session.finish();
          return std::string{};
        });
        CHECK(saved == "");
        std::string const told = on_ranks(now, [&](World& world) {
          Trainer trainer{world};
          trainer.with_all([&](auto&... tables) { trainer.session.restore(scratch.path("run"), {}, tables...); });
          trainer.counts = counts, trainer.far_counts = far_counts;
          std::string wrong = trainer.wrong();
          trainer.step(9, !shards), trainer.step(10, shards);
          wrong += trainer.wrong();
          trainer.session.finish();
          return wrong;
        });
        CHECK(told == "");
      }
}

TEST_CASE("rows that were fetched ahead of a restore are not taken for those behind it", "[checkpoint][layout]") {
  for (int const ranks : {1, 2})
    for (bool const moves : {false, true}) {
      CAPTURE(ranks, moves);
      Scratch const scratch;
      std::string const told = on_ranks(ranks, [&](World& world) {
        Trainer trainer{world};
        auto& session = trainer.session;
        std::vector<int> all(static_cast<std::size_t>(Trainer::rows));
        for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<int>(i);
        trainer.step(0, true), trainer.step(1, true);
        auto const kept = std::pair{trainer.counts, trainer.far_counts};
        trainer.with_all([&](auto&... tables) { session.save(scratch.path("run"), {}, tables...); });
        auto ahead = session.prefetch(trainer.narrow.at(all), trainer.small.at(all));
        trainer.step(2, !moves);  // takes the ids along: the rows that follow are of this step
        trainer.with_all([&](auto&... tables) { session.restore(scratch.path("run"), {}, tables...); });
        std::tie(trainer.counts, trainer.far_counts) = kept;
        trainer.step(3, !moves);  // as many steps, and as many moves, as when they came
        auto const [narrow, small] = session.pull(std::move(ahead));
        for (std::size_t i = 0; i < all.size(); ++i) {
          auto const row = static_cast<std::int64_t>(i);
          auto const count = static_cast<float>(trainer.counts[i]);
          if (narrow[row][0] != count || small[row][0] != count)
            return "row " + std::to_string(i) + " is as of a step that was undone: " + std::to_string(narrow[row][0]) + ", " +
                   std::to_string(small[row][0]) + " and not " + std::to_string(count);
        }
        session.finish();
        return std::string{};
      });
      CHECK(told == "");
    }
}

TEST_CASE("programs that save, move, go back and go on in other worlds keep every row", "[checkpoint][layout]") {
  int const programs = parallax_test::sized(1, 5, 150);
  char const* const given = std::getenv("PARALLAX_SEED");
  std::uint64_t const seed = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  for (int program = 0; program < programs; ++program) {
    CAPTURE(program);
    std::mt19937_64 drawn{seed * 7919 + static_cast<std::uint64_t>(program)};
    Scratch const scratch;
    std::map<std::int64_t, std::pair<Counts, Counts>> kept;  // by generation
    int draw = 0;
    for (int phase = 0; phase < 3; ++phase) {
      int const ranks = 1 + static_cast<int>(drawn() % 4);
      std::uint64_t const events = drawn();
      CAPTURE(phase, ranks);
      int const first = draw;
      draw += 100;
      std::string const told = on_ranks(ranks, [&, first](World& world) {
        Trainer trainer{world};
        std::mt19937_64 random{events};
        int next = first;
        auto const back = [&](std::int64_t number) {
          px::Restored const was = trainer.with_all(
              [&](auto&... tables) { return trainer.session.restore(scratch.path("run"), {.generation = number}, tables...); });
          std::tie(trainer.counts, trainer.far_counts) = kept.at(was.generation);
        };
        if (!kept.empty()) back(0);
        std::string wrong = trainer.wrong();
        bool shards = random() % 2 == 0;
        for (int event = 0; event < 8 && wrong.empty(); ++event) {
          switch (random() % 5) {
            case 0: {
              auto const made =
                  trainer.with_all([&](auto&... tables) { return trainer.session.save(scratch.path("run"), {}, tables...); });
              if (world.rank() == 0) kept[made.generation] = {trainer.counts, trainer.far_counts};
              trainer.session.step();  // no rank looks before that was noted
              break;
            }
            case 1:
              if (!kept.empty()) back(random() % 2 == 0 ? 0 : 1 + static_cast<std::int64_t>(random() % kept.size()));
              break;
            case 2: shards = !shards; [[fallthrough]];
            default: trainer.step(next++, shards);
          }
          wrong = trainer.wrong();
          if (!wrong.empty()) wrong = "event " + std::to_string(event) + ":" + wrong;
        }
        trainer.session.finish();
        return wrong;
      });
      CHECK(told == "");
    }
  }
}
