// The cost of exact semantics, counted: the steps that rows take late, in full and at rest. None of the ways in which steps are
// put off changes a bit.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "../catch.hpp"
#include "../support/size.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/variable/memory_archive.hpp"
#include "replays.hpp"

namespace px = parallax;
using parallax_test::replays::differences;

PARALLAX_FEW_NOTES(px::Momentum);

namespace {

struct FewNotes {  // Adam, whose notes are few before rows are settled for their sake
  using axis = px::optimizer_axis;
  using element_slots = px::slot_types<px::scalar, px::scalar>;
  static constexpr px::Untouched untouched = px::Untouched::moves;
  double learning_rate = 0.001, beta1 = 0.9, beta2 = 0.999, epsilon = 1e-8;
  px::Adam::Rule at(std::int64_t step) const { return px::Adam{learning_rate, beta1, beta2, epsilon}.at(step); }
};

// Of one step, and of all.
struct Counted {
  std::int64_t most_over = 0, full = 0, all = 0, gaps = 0, longest = 0;
};

// 20,000 rows, of which a step names 100, under a rate that changes in each step, or never. `most_over`: how many more steps a
// step of the training replayed than those that the rows it named had missed.
template <class O>
Counted counted(int steps, bool changing) {
  constexpr std::int64_t rows = 20'000;
  px::SelfCommunicator world;
  px::Session session{world};
  px::Variable<px::Sparse, O> table{session, "table", {.rows = rows, .width = 2}};
  auto const rate = px::warmup(px::cosine(1e-3, 100'000), 1'000);
  std::mt19937_64 random{7};
  std::vector<std::int64_t> last(rows);
  std::vector<float> const g(100 * 2, 0.01f);
  Counted counted;
  for (int step = 0; step < steps; ++step) {
    std::vector<std::int64_t> ids(100);
    for (auto& id : ids) id = static_cast<std::int64_t>(random() % rows);
    if (changing) table.optimizer().learning_rate = rate(session.steps());
    std::int64_t gaps = 0;
    for (std::int64_t const id : ids) {
      auto& settled = last[static_cast<std::size_t>(id)];
      gaps += std::max<std::int64_t>(0, step - settled);
      counted.longest = std::max(counted.longest, step - settled);
      settled = step + 1;
    }
    auto const before = table.state().replays();
    auto const pulled = session.pull(table, ids);
    session.step(px::grad(pulled, g));
    auto const after = table.state().replays();
    std::int64_t const more = after.full - before.full + after.resting - before.resting;
    counted.most_over = std::max(counted.most_over, more - gaps);
    counted.gaps += gaps;
    counted.full += after.full - before.full;
    counted.all += more;
  }
  session.finish();
  return counted;
}

}  // namespace

PARALLAX_FEW_NOTES(FewNotes);

TEST_CASE("rows that are put off, at rest and swept have the bits of rows moved in every step", "[variable][settle]") {
  unsigned const seed = 5;
  CAPTURE(seed);
  px::Replays adam, momentum;
  CHECK(differences(FewNotes{.learning_rate = 0.01}, 1'500, true, seed, &adam) == 0);
  CHECK(differences(px::Momentum{}, 1'500, true, seed, &momentum) == 0);
  for (px::Replays const& replays : {adam, momentum}) {
    CHECK(replays.full > 0);
    CHECK(replays.resting > 1'000);
  }
}

TEST_CASE("rows of 16 bits rest with the bits of rows moved in every step", "[variable][settle]") {
  CHECK(differences<FewNotes, px::BFloat16>({.learning_rate = 0.01}, 800, true, 6) == 0);
}

TEST_CASE("a step takes no more steps of rows than those that it names have missed, and a sweep's bound",
          "[variable][settle]") {
  int const steps = parallax_test::sized(300, 700, 2'000);
  Counted const still = counted<px::Adam>(steps, false), moving = counted<px::Adam>(steps, true);
  CHECK(still.most_over <= 0);
  CHECK(moving.most_over <= 0);  // their notes have room
  CHECK(moving.all <= moving.gaps);
  CHECK(moving.all == still.all);
  Counted const swept = counted<FewNotes>(steps, true);
  CHECK(swept.most_over > 0);
  CHECK(swept.most_over <= 4'096);
  CHECK(swept.all > moving.all);
}

namespace {

// Returns the steps that two rows of width 2 take, one of which was named once: whole, of a gap of 3,000.
template <class O>
px::Replays of_one_gap(O const& optimizer) {
  px::SelfCommunicator world;
  px::Session session{world};
  px::Variable<px::Sparse, O> table{session, "table", {2, 2, px::constant(1)}, optimizer};
  session.step(px::grad(table, std::vector{1}, std::vector<float>{1, -0.5f}));
  for (int step = 0; step < 3'000; ++step) session.step(px::grad(table, std::vector<int>{}, std::vector<float>{}));
  static_cast<void>(table.local());
  auto const replays = table.state().replays();
  static_cast<void>(table.local());
  static_cast<void>(table.slot(px::slot_name<O>(0)));
  CHECK(table.state().replays().full == replays.full);
  CHECK(table.state().replays().resting == replays.resting);
  session.finish();
  return replays;
}
// Returns the number of whole steps by the formula in docs/optimizers.md. p is 0.9 at least.
double whole_steps(double update, double fall) { return std::log(update / (0x1p-27 * 0.9)) / std::log(1 / fall) + 8; }

}  // namespace

TEST_CASE("of a gap as many steps are whole as the formula says, and those of a blank row are none", "[variable][settle]") {
  auto const adam = of_one_gap(px::Adam{}), momentum = of_one_gap(px::Momentum{}), still = of_one_gap(px::RmsProp{}),
             decaying = of_one_gap(px::AdamW{});
  CHECK(adam.full + adam.resting == 3'000);
  CHECK(static_cast<double>(adam.full) <= whole_steps(1e-3, 0.9 / std::sqrt(0.999)));
  CHECK(momentum.full + momentum.resting == 3'000);
  CHECK(static_cast<double>(momentum.full) <= whole_steps(1e-2, 0.9));
  CHECK(still.full == 0);
  CHECK(still.resting == 3'000);
  CHECK(decaying.full == 6'001);
}

namespace {

// Returns the steps that rows of a table take until `look` has read some of them: row r, of 6, was last named in step 10 · r,
// and 100 steps were taken.
template <class Look>
std::int64_t until_read(Look const& look) {
  px::SelfCommunicator world;
  px::Session session{world};
  px::Variable<px::Sparse, px::Adam> table{session, "table", {6, 2, px::constant(1)}};
  for (int step = 0; step < 100; ++step) {
    std::vector<int> const ids(step % 10 == 0 && step < 60 ? 1 : 0, step / 10);
    table.optimizer().learning_rate = 0.001 * (1 + step % 7);
    session.step(px::grad(table, ids, std::vector<float>(2 * ids.size(), 0.5f)));
  }
  auto const before = table.state().replays();
  look(session, table);
  auto const after = table.state().replays();
  session.finish();
  return after.full + after.resting - before.full - before.resting;
}

}  // namespace

TEST_CASE("what shows rows takes the steps that those have missed, once", "[variable][settle]") {
  std::int64_t const of_all = 99 + 89 + 79 + 69 + 59 + 49;
  CHECK(until_read([](auto&, auto& table) { table.local(); }) == of_all);
  CHECK(until_read([](auto&, auto& table) { table.slot("v"); }) == of_all);
  CHECK(until_read([](auto& session, auto& table) {
          static_cast<void>(session.pull(table, std::vector{1, 4, 1}));
          static_cast<void>(session.pull(table, std::vector{4}));
        }) == 89 + 59);
  CHECK(until_read([](auto& session, auto& table) {
          static_cast<void>(session.pull(table, std::vector{2}));
          table.local();
          table.slot("m");
        }) == of_all);
}

namespace {

// Steps that a rank's rows took, beside those that they had missed when something named them or moved them.
struct Moved {
  std::vector<std::int64_t> taken, missed;  // step by step
  int moves = 0;
};

// A table of 60 rows, all of which are named at first, and later few. It goes from shards to every rank and back, by every
// policy, and to other owners.
Moved move_about(px::ThreadCommunicator& world) {
  constexpr std::int64_t rows = 60;
  px::Session session{world, {.choice = {.first_step = 1, .interval = 1, .horizon = 1e30}}};
  px::Variable<px::Sparse, px::Auto, px::Adam> table{session, "table", {rows, 2, px::constant(1)}};
  std::vector<std::int64_t> settled(rows);  // by row: the steps that it has taken here
  Moved moved;
  auto const draw = [](int step, int rank) {
    std::mt19937_64 random{static_cast<std::uint64_t>(step * 10 + rank)};
    std::vector<std::int64_t> ids(step == 0 ? rows : 2);
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = step == 0 ? static_cast<std::int64_t>(i) : static_cast<std::int64_t>(random() % rows);
    return ids;
  };
  for (int step = 0; step < 300; ++step) {
    auto& costs = session.options().choice.costs = {};
    if (step / 30 % 4 == 1) costs.round = 1;            // AllGather
    else if (step / 30 % 4 == 3) costs.per_key = 1;     // AllReduce
    else costs.per_row = 1, costs.per_stream_byte = 1;  // PsShard
    if (step == 250) session.search_pieces(table, {.most = 12, .probes = 3, .steps = 10, .settling = 0});
    table.optimizer().learning_rate = 0.001 * (1 + step % 7);
    std::vector<bool> named(rows, table.state().choice() == 2);  // which sums gradients of all rows
    for (int rank = 0; rank < world.size(); ++rank)
      for (std::int64_t const id : draw(step, rank)) named[static_cast<std::size_t>(id)] = true;
    auto const each_row = [&](auto&& f) {
      for (std::int64_t row = 0; row < table.local_rows(); ++row) f(static_cast<std::size_t>(table.global_row(row)));
    };
    std::int64_t missed = 0;
    each_row([&](std::size_t row) {
      if (named[row]) missed += std::max<std::int64_t>(step - settled[row], 0), settled[row] = step + 1;
    });
    std::int64_t of_all = 0;
    each_row([&](std::size_t row) { of_all += step + 1 - settled[row]; });

    auto const before = table.state().replays();
    bool const shards = table.state().shards();
    std::int64_t const moves = table.state().moves();
    auto const ids = draw(step, world.rank());
    session.step(px::grad(session.pull(table, ids), std::vector<float>(2 * ids.size(), 0.25f)));
    auto const after = table.state().replays();
    if (table.state().moves() != moves && (shards || table.state().shards())) {
      missed += of_all, ++moved.moves;
      each_row([&](std::size_t row) { settled[row] = step + 1; });
    }
    moved.taken.push_back(after.full + after.resting - before.full - before.resting);
    moved.missed.push_back(missed);
  }
  session.finish();
  return moved;
}

}  // namespace

TEST_CASE("rows that move take the steps that they have missed, each once, on whatever rank", "[variable][settle][auto]") {
  std::vector<Moved> moved(3);
  px::run_threads(3, [&](px::ThreadCommunicator& world) { moved[static_cast<std::size_t>(world.rank())] = move_about(world); });
  for (Moved const& of_rank : moved) {
    CHECK(of_rank.taken == of_rank.missed);
    CHECK(of_rank.moves >= 7);
    CHECK(*std::max_element(of_rank.taken.begin(), of_rank.taken.end()) > 100);
  }
}

namespace {

// Returns rows and slots of a table of 6,000 rows, all named at first and few later, under a rate that changes in each step. On
// the way all rows are looked at, and an archive gives earlier ones back.
template <class O>
std::vector<float> looked_at_and_given_back() {
  constexpr std::int64_t rows = 6'000;  // so many that a sweep is always under way
  px::SelfCommunicator world;
  px::Session session{world};
  px::Variable<px::Sparse, O> table{session, "table", {rows, 1, px::constant(1)}};
  std::mt19937_64 random{3};
  px::MemoryArchive kept;
  for (int step = 0; step < 700; ++step) {
    std::vector<std::int64_t> ids(step == 0 ? rows : 3);
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = step == 0 ? static_cast<std::int64_t>(i) : static_cast<std::int64_t>(random() % rows);
    table.optimizer().learning_rate = 1e-3 * (1 + step % 13);
    session.step(px::grad(table, ids, std::vector<float>(ids.size(), 0.25f)));
    if (step == 297 || step == 431) table.local();
    if (step == 350) table.visit(kept.writer());
    if (step == 489) table.visit(kept.reader());
  }
  std::vector<float> all;
  for (auto const& view : {table.local(), table.slot(px::slot_name<O>(0)), table.slot(px::slot_name<O>(1))})
    all.insert(all.end(), view.data, view.data + rows);
  session.finish();
  return all;
}

}  // namespace

TEST_CASE("a sweep over many steps goes on with the rows that are left, whatever else is settled meanwhile",
          "[variable][settle]") {
  CHECK(looked_at_and_given_back<FewNotes>() == looked_at_and_given_back<px::Adam>());
}
