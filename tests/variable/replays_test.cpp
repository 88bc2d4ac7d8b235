// The cost of exact semantics, counted: the steps that rows take late, in full and at rest. None of the ways in which steps are
// put off changes a bit.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <random>
#include <vector>

#include "../catch.hpp"
#include "../support/size.hpp"
#include "replays.hpp"

namespace px = parallax;
using parallax_test::replays::differences;

PARALLAX_FEW_NOTES(px::Momentum);

namespace {

struct FewNotes {  // Adam, whose notes are few before rows are settled for their sake
  using axis = px::optimizer_axis;
  using element_slots = px::slots<px::scalar, px::scalar>;
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
