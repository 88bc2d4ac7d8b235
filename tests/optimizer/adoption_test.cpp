// Values from outside, and settings that change: the slots of FTRL and of dual averaging follow them. Held against both
// formulas in double, of which each begins anew wherever a value enters.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"
#include "parallax/variable/memory_archive.hpp"

namespace px = parallax;

namespace {

constexpr std::int64_t rows = 7, width = 3;
constexpr std::size_t elements = static_cast<std::size_t>(rows * width);

// FTRL-proximal by its paper, in double, whose sum is made of p where a value has entered or a setting has changed.
struct FtrlByHand {
  px::Ftrl settings;
  double p = 0, z = 0, n = settings.initial_accumulator;
  double drawn() const { return (settings.beta + std::sqrt(n)) / settings.learning_rate + settings.l2; }
  void enter(double value) {
    p = value;
    if (p != 0) z = -p * drawn() - (p < 0 ? -settings.l1 : settings.l1);
    else z = std::clamp(z, -settings.l1, settings.l1);
  }
  void set(px::Ftrl const& other) {
    settings = other;
    enter(p);
  }
  void step(double g) {
    if (g == 0) return;
    double const more = n + g * g;
    z += g - (std::sqrt(more) - std::sqrt(n)) / settings.learning_rate * p;
    n = more;
    p = std::abs(z) <= settings.l1 ? 0 : ((z < 0 ? -settings.l1 : settings.l1) - z) / drawn();
  }
};
// Adagrad by dual averaging, likewise: every step counts.
struct DaByHand {
  px::AdagradDa settings;
  double p = 0, sum = 0, squares = settings.initial_accumulator;
  int t = 0;
  void enter(double value) {
    double const edge = settings.l1 * (t + 1);
    p = value;
    if (p != 0)
      sum = -p * (settings.learning_rate * settings.l2 * (t + 1) + std::sqrt(squares)) / settings.learning_rate -
            (p < 0 ? -edge : edge);
    else sum = std::clamp(sum, -edge, edge);
  }
  void step(double g) {
    sum += g, squares += g * g, ++t;
    double const edge = settings.l1 * t, left = std::max(std::abs(sum) - edge, 0.0);
    p = settings.learning_rate * (sum < 0 ? left : -left) / (settings.learning_rate * settings.l2 * t + std::sqrt(squares));
  }
};
FtrlByHand by_hand(px::Ftrl const& settings) { return {settings}; }
DaByHand by_hand(px::AdagradDa const& settings) { return {settings}; }

double value_of(std::size_t i) { return (static_cast<double>(i % 5) - 2) / 4; }  // -1/2 to 1/2, and 0
double gradient_of(int step, std::size_t i) {
  int const k = (step * 5 + static_cast<int>(i) * 7) % 9;
  return k == 0 ? 0 : (k - 4) / 64.0;  // small beside the values
}
std::vector<float> gradients_of(int step) {
  std::vector<float> g(elements);
  for (std::size_t i = 0; i < elements; ++i) g[i] = static_cast<float>(gradient_of(step, i));
  return g;
}

// The greatest distance of what a variable has from what was worked out by hand, and that of the latter from 0.
struct Distance {
  double worst = 0, size = 0;
  template <class Hand, class T>
  void look(std::vector<Hand> const& hand, T const* values) {
    for (std::size_t i = 0; i < elements; ++i) {
      worst = std::max(worst, std::abs(hand[i].p - static_cast<double>(values[i])));
      size = std::max(size, std::abs(hand[i].p));
    }
  }
};

// Trains a table and a layer of one optimizer, and computes both by hand; values enter them by every way that there is.
template <class O, class Policy, class T>
Distance train(px::ThreadCommunicator& world, O const& settings) {
  px::Session session{world};
  std::vector<float> weights(elements);
  px::Variable<px::Sparse, Policy, O, T> table{
      session, "table", {.rows = rows, .width = width, .initial = px::constant(0.5)}, settings};
  px::Variable<px::Dense, std::conditional_t<std::same_as<Policy, px::AllReduce>, px::AllReduce, px::PsShard>, O> layer{
      session, "layer", px::bind(weights), settings};
  for (std::size_t i = 0; i < elements; ++i) weights[i] = static_cast<float>(value_of(i));  // before the first step
  std::vector<decltype(by_hand(settings))> of_table(elements, by_hand(settings)), of_layer = of_table;
  std::vector<int> all(static_cast<std::size_t>(rows));
  std::iota(all.begin(), all.end(), 0);
  Distance distance;
  auto const compare = [&] {
    auto const pulled = session.pull(table, all);
    std::vector<float> flat;
    for (std::size_t i = 0; i < all.size(); ++i) flat.insert(flat.end(), pulled[i].begin(), pulled[i].end());
    distance.look(of_table, flat.data());
    distance.look(of_layer, weights.data());
  };
  int number = 0;
  auto const steps = [&](int count) {
    for (; count-- > 0; ++number) {
      std::vector<float> const g = gradients_of(number);
      session.step(px::grad(table, all, g), px::grad(layer, g));
      for (std::size_t i = 0; i < elements; ++i) of_table[i].step(g[i]), of_layer[i].step(g[i]);
      compare();
    }
  };
  for (auto& hand : of_table) hand.enter(0.5);
  for (std::size_t i = 0; i < elements; ++i) of_layer[i].enter(value_of(i));
  steps(3);

  std::vector<float> ones(2 * width, 1.0f);
  session.assign(table, std::vector{1, 4}, ones);
  for (std::size_t i = 0; i < elements; ++i)
    if (i / width == 1 || i / width == 4) of_table[i].enter(1);
  steps(2);
  session.scale(table, std::vector{2, 4}, 0.5);
  for (std::size_t i = 0; i < elements; ++i)
    if (i / width == 2 || i / width == 4) of_table[i].enter(of_table[i].p * 0.5);
  steps(2);
  auto const give = [](std::span<std::int64_t const> numbers, auto given) {
    for (std::int64_t i = 0; i < given.rows; ++i)
      for (std::int64_t c = 0; c < given.width; ++c)
        given.row(i)[c] = static_cast<std::remove_cvref_t<decltype(given.row(i)[c])>>(
            static_cast<float>(value_of(static_cast<std::size_t>(numbers[static_cast<std::size_t>(i)] * given.width + c))));
  };
  session.scatter(table, {}, give);
  session.scatter(layer, {}, give);
  for (std::size_t i = 0; i < elements; ++i) of_table[i].enter(value_of(i)), of_layer[i].enter(value_of(i));
  steps(2);
  for (float& w : weights) w = world.rank() == 0 ? -0.75f : 9.0f;
  session.broadcast(layer);
  for (auto& hand : of_layer) hand.enter(-0.75);
  steps(2);
  for (float& w : weights) w = 0.625f;
  layer.adopt();
  for (auto& hand : of_layer) hand.enter(0.625);
  steps(2);
  session.finish();
  return distance;
}

template <class O, class Policy, class T>
void check(O const& settings, double tolerance) {
  INFO(px::optimizer_name<O>() << " by " << Policy::name);
  for (int const ranks : {1, 3}) {
    std::vector<Distance> distances(static_cast<std::size_t>(ranks));
    px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
      distances[static_cast<std::size_t>(world.rank())] = train<O, Policy, T>(world, settings);
    });
    for (Distance const& distance : distances) {
      CHECK(distance.size > 0.5);
      CHECK(distance.worst < tolerance);
    }
  }
}

}  // namespace

TEST_CASE("values that enter a variable of Ftrl or AdagradDa are trained on from, by every way in", "[optimizer][adopt]") {
  px::Ftrl const ftrl{.learning_rate = 0.5, .beta = 0.5, .l1 = 0.01, .l2 = 0.02};
  px::AdagradDa const averaging{.learning_rate = 0.25, .l1 = 1e-3, .l2 = 1e-3};
  check<px::Ftrl, px::PsShard, float>(ftrl, 2e-6);
  check<px::Ftrl, px::AllReduce, float>(ftrl, 2e-6);
  check<px::Ftrl, px::PsShard, px::BFloat16>(ftrl, 4e-2);
  check<px::AdagradDa, px::PsShard, float>(averaging, 2e-6);
  check<px::AdagradDa, px::AllGather, float>(averaging, 2e-6);
}

namespace {

// Returns what rows and slots of a table are after every step, by number of the row. Rows move under Auto, from shards to all
// ranks and back; values are written in place between steps, also before the first one, and right before and after a move.
template <class Policy, class O>
std::vector<float> written_and_moved(px::ThreadCommunicator& world, O const& settings, int& moves) {
  px::Session session{world, {.choice = {.first_step = 1, .interval = 1, .horizon = 1e30}}};
  px::Variable<px::Sparse, Policy, O> table{session, "table", {.rows = rows, .width = width}, settings};
  std::vector<float> seen;
  std::vector<int> all(static_cast<std::size_t>(rows));
  std::iota(all.begin(), all.end(), 0);
  auto const write = [&](int step) {
    auto const local = table.local();
    for (std::int64_t row = 0; row < local.rows; ++row)
      for (std::int64_t c = 0; c < width; ++c)
        local[row][c] = static_cast<float>(value_of(static_cast<std::size_t>(table.global_row(row) + c + step)));
  };
  write(0);
  for (int step = 0; step < 40; ++step) {
    auto& costs = session.options().choice.costs = {};
    if (step / 5 % 4 == 1) costs.round = 1;                                    // AllGather
    else if (step / 5 % 4 == 2) costs.per_row = 1, costs.per_stream_byte = 1;  // PsShard
    else costs.per_key = 1;                                                    // AllReduce
    if (step % 5 == 4 || step % 10 == 6) write(step), table.adopt();
    std::vector<int> const ids{step % 7, (step * 3 + world.rank()) % 7};
    std::vector<float> gradient(2 * width);
    for (std::size_t i = 0; i < gradient.size(); ++i)
      gradient[i] = static_cast<float>((step + static_cast<int>(i)) % 5 - 2) / 8;
    session.step(px::grad(table, ids, gradient));
    for (auto const slot : O::slot_names) {
      auto const local = table.slot(slot);
      std::vector<float> by_row(elements);
      for (std::int64_t row = 0; row < local.rows; ++row)
        std::copy_n(local.row(row), width, by_row.begin() + table.global_row(row) * width);
      px::allreduce(world, std::span{by_row});  // of parts, or of equal ones
      for (float const value : by_row)
        seen.push_back(table.state().shards() ? value : value / static_cast<float>(world.size()));
    }
    auto const pulled = session.pull(table, all);
    for (std::size_t i = 0; i < all.size(); ++i) seen.insert(seen.end(), pulled[i].begin(), pulled[i].end());
  }
  moves = static_cast<int>(table.state().moves());
  session.finish();
  return seen;
}

template <class O>
void check_moved(O const& settings) {
  std::vector<float> still[2], moved[2];
  int moves[2] = {}, none[2] = {};
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    still[world.rank()] = written_and_moved<px::PsShard>(world, settings, none[world.rank()]);
    moved[world.rank()] = written_and_moved<px::Auto>(world, settings, moves[world.rank()]);
  });
  for (int const rank : {0, 1}) {
    CHECK(moved[rank] == still[rank]);
    CHECK(moves[rank] >= 6);
    CHECK(none[rank] == 0);
  }
}

}  // namespace

TEST_CASE("values that are written in place are trained on from on whatever rank rows are moved to",
          "[optimizer][adopt][auto]") {
  check_moved(px::Ftrl{.learning_rate = 0.5, .beta = 0.5, .l1 = 0.01, .l2 = 0.02});
  check_moved(px::AdagradDa{.learning_rate = 0.25, .l1 = 1e-3, .l2 = 1e-3});
}

namespace {

// Returns how far parameters are from those worked out by hand that began with values written by `write`.
template <class Write>
double distance_from(Write const& write) {
  px::SelfCommunicator world;
  px::Session session{world};
  px::Ftrl const settings{.learning_rate = 0.5, .beta = 0.5, .l1 = 0.01, .l2 = 0.02};
  px::Variable<px::Sparse, px::Ftrl> table{session, "table", {.rows = rows, .width = width}, settings};
  std::vector<FtrlByHand> hand(elements, by_hand(settings));
  for (std::size_t i = 0; i < elements; ++i) hand[i].enter(value_of(i));
  write(table);
  for (int step = 0; step < 3; ++step) {
    std::vector<float> const g = gradients_of(step);
    std::vector<int> const all{0, 1, 2, 3, 4, 5, 6};
    session.step(px::grad(table, all, g));
    for (std::size_t i = 0; i < elements; ++i) hand[i].step(g[i]);
  }
  Distance distance;
  distance.look(hand, table.local().data);
  CHECK(distance.size > 0.3);
  session.finish();
  return distance.worst;
}

}  // namespace

TEST_CASE("values that are written to a table of zeros before its first step are trained on from", "[optimizer][adopt]") {
  auto const write = [](auto& table) {
    auto const local = table.local();
    for (std::size_t i = 0; i < elements; ++i) local.data[i] = static_cast<float>(value_of(i));
  };
  CHECK(distance_from(write) < 2e-6);
  CHECK(distance_from([&](auto& table) { write(table), table.adopt(); }) < 2e-6);
}

TEMPLATE_TEST_CASE("a rule that has adopted a parameter returns it where the gradient is 0", "[optimizer][adopt]", float,
                   double) {
  using T = TestType;
  auto const near = [](T a, T b) { return std::abs(a - b) <= 8 * std::numeric_limits<T>::epsilon() * (std::abs(b) + 0.1); };
  for (double const p0 : {1.0, -0.25, 1e-6, -3e5, 0.0})
    for (double const squares : {0.0, 0.1, 7.0}) {
      px::Ftrl ftrl{.learning_rate = 0.05, .l1 = 0.2, .l2 = 0.3, .follow = true};
      T p = static_cast<T>(p0), z = 0, n = static_cast<T>(squares);
      ftrl.at(1).adopt(p, z, n);
      px::LazyFtrl const says{.learning_rate = 0.05, .l1 = 0.2, .l2 = 0.3};  // p is what the slots say
      says.at(1)(p, T{0}, z, n);
      CHECK(near(p, static_cast<T>(p0)));
      ftrl.at(1)(p, T{0}, z, n);
      CHECK(near(p, static_cast<T>(p0)));

      T sum = 0, of = static_cast<T>(squares + 0.1);
      auto const rule = px::AdagradDa{.learning_rate = 0.05, .l1 = 0.01, .l2 = 0.02}.at(9);
      p = static_cast<T>(p0);
      rule.adopt(p, sum, of);
      rule(p, T{0}, sum, of);
      CHECK(near(p, static_cast<T>(p0)));

      px::WeightDecay<px::Ftrl> const decayed{.optimizer = ftrl, .rate = 0.5};
      T by_wrapper = z = 0;
      decayed.at(1).adopt(static_cast<T>(p0), by_wrapper, n);
      ftrl.at(1).adopt(static_cast<T>(p0), z, n);
      CHECK(by_wrapper == z);
    }
  T z = static_cast<T>(0.125), n = 4;  // that of a p of 0 is kept where it may be
  px::Ftrl{.l1 = 0.2}.at(1).adopt(T{0}, z, n);
  CHECK(z == static_cast<T>(0.125));
  px::Ftrl{.l1 = 0.1}.at(1).adopt(T{0}, z, n);
  CHECK(z == static_cast<T>(0.1));
  STATIC_REQUIRE(px::adopts<px::Ftrl, T>);
  STATIC_REQUIRE(px::adopts<px::WeightDecay<px::LazyAdagradDa>, T>);
  STATIC_REQUIRE_FALSE(px::adopts<px::Adam, T>);
  STATIC_REQUIRE_FALSE(px::adopts<px::LazyFtrl, T>);
  STATIC_REQUIRE_FALSE(px::adopts<px::WeightDecay<px::Lamb>, T>);
}

namespace {
template <class O>
O with_rate(O settings, double rate) {
  if constexpr (requires { settings.learning_rate; }) settings.learning_rate = rate;
  else settings.optimizer.learning_rate = rate;
  return settings;
}

// Returns parameters after training by rates that change: a layer's, then a table's. At `cut`, all of it is saved and begun
// anew.
template <class O, class T>
std::vector<float> scheduled(O const& settings, int cut) {
  px::SelfCommunicator world;
  px::MemoryArchive kept;
  std::vector<float> weights(elements, 0.5f), result;
  std::vector<int> const some{0, 1, 5};
  for (int begin = 0, end = cut; begin < 12; begin = end, end = 12) {
    px::Session session{world};
    px::Variable<px::Dense, O> layer{session, "layer", px::bind(weights), settings};
    px::Variable<px::Sparse, O, T> table{
        session, "table", {.rows = rows, .width = width, .initial = px::constant(0.5)}, settings};
    if (begin > 0) session.visit(kept.reader(), layer, table);
    for (int step = begin; step < end; ++step) {
      layer.optimizer() = table.optimizer() = with_rate(settings, 0.5 / (1 + step / 3));
      std::vector<float> const g = gradients_of(step);
      session.step(px::grad(layer, g), px::grad(table, some, std::vector<float>(g.begin(), g.begin() + 3 * width)));
    }
    if (end < 12) session.visit(kept.writer(), layer, table);
    result = weights;
    auto const local = table.local();
    for (std::int64_t i = 0; i < rows * width; ++i) result.push_back(static_cast<float>(local.data[i]));
    session.finish();
    std::fill(weights.begin(), weights.end(), -9.0f);
  }
  return result;
}
}  // namespace

TEST_CASE("a rate that changes leaves parameters of Ftrl where they are", "[optimizer][adopt]") {
  px::Ftrl const settings{.learning_rate = 0.5, .beta = 0.5, .l1 = 0.01, .l2 = 0.02};
  std::vector<FtrlByHand> hand(elements, by_hand(settings));
  for (auto& each : hand) each.enter(0.5);
  for (int step = 0; step < 12; ++step)
    for (std::size_t i = 0; i < elements; ++i) {
      hand[i].set(with_rate(settings, 0.5 / (1 + step / 3)));
      hand[i].step(gradient_of(step, i));
    }
  Distance distance;
  distance.look(hand, scheduled<px::Ftrl, float>(settings, 12).data());
  CHECK(distance.size > 0.3);
  CHECK(distance.worst < 2e-6);
}

TEST_CASE("that settings have changed is part of what an archive keeps", "[optimizer][adopt]") {
  px::Ftrl const settings{.beta = 0.5, .l1 = 0.01, .l2 = 0.02};
  for (int const cut : {1, 3, 4, 6, 11}) {
    CHECK(scheduled<px::Ftrl, float>(settings, cut) == scheduled<px::Ftrl, float>(settings, 12));
    CHECK(scheduled<px::Ftrl, px::BFloat16>(settings, cut) == scheduled<px::Ftrl, px::BFloat16>(settings, 12));
    CHECK(scheduled<px::AdagradDa, float>({.l1 = 0.001}, cut) == scheduled<px::AdagradDa, float>({.l1 = 0.001}, 12));
    px::WeightDecay<px::Ftrl> const decayed{.optimizer = settings, .rate = 0.01};
    CHECK(scheduled<px::WeightDecay<px::Ftrl>, float>(decayed, cut) ==
          scheduled<px::WeightDecay<px::Ftrl>, float>(decayed, 12));
  }
}

TEST_CASE("rows of an optimizer that moves them are settled by the settings that a change has made", "[optimizer][adopt]") {
  px::WeightDecay<px::Ftrl> const settings{.optimizer = {.beta = 0.5, .l1 = 0.01}, .rate = 0.01};
  px::SelfCommunicator world;
  px::Session session{world};
  std::vector<float> weights(elements, 0.5f);
  px::Variable<px::Dense, px::WeightDecay<px::Ftrl>> layer{session, "layer", px::bind(weights), settings};
  px::Variable<px::Sparse, px::WeightDecay<px::Ftrl>> table{
      session, "table", {.rows = rows, .width = width, .initial = px::constant(0.5)}, settings};
  for (int step = 0; step < 20; ++step) {
    layer.optimizer() = table.optimizer() = with_rate(settings, 0.5 / (1 + step / 3));
    std::vector<float> g = gradients_of(step);
    int const row = step % 3;
    for (std::size_t i = 0; i < elements; ++i) g[i] = static_cast<int>(i / width) == row ? g[i] : 0;
    auto const first = g.begin() + row * width;
    session.step(px::grad(layer, g), px::grad(table, std::vector{row}, std::vector<float>(first, first + width)));
  }
  auto const local = table.local();
  CHECK(std::vector<float>(local.data, local.data + elements) == weights);
  session.finish();
}

TEST_CASE("LazyFtrl is TensorFlow's FtrlOptimizer", "[optimizer][adopt]") {
  px::LazyFtrl const settings{.learning_rate = 0.05, .beta = 0, .l1 = 0.01, .l2 = 2 * 0.02, .initial_accumulator = 0.1};
  std::vector<double> weights(elements), p(elements), z(elements), n(elements, 0.1);
  for (std::size_t i = 0; i < elements; ++i) weights[i] = p[i] = value_of(i);
  px::SelfCommunicator world;
  px::Session session{world};
  px::Variable<px::Dense, px::LazyFtrl, double> layer{session, "layer", px::bind(weights), settings};
  px::Variable<px::Sparse, px::LazyFtrl, double, px::AllReduce> table{
      session, "table", {.rows = rows, .width = width, .initial = px::constant(0.5)}, settings};
  for (int step = 0; step < 50; ++step) {
    std::vector<double> g(elements);
    for (std::size_t i = 0; i < elements; ++i) g[i] = step < 20 && i % 4 == 0 ? 0 : gradient_of(step, i);
    session.step(px::grad(layer, g), px::grad(table, std::vector{2}, std::vector<double>(width)));
    for (std::size_t i = 0; i < elements; ++i) {  // as ApplyFtrl's formula has it, with a power of -1/2
      double const more = n[i] + g[i] * g[i];
      z[i] += g[i] - (std::sqrt(more) - std::sqrt(n[i])) / 0.05 * p[i];
      n[i] = more;
      double const quadratic = std::sqrt(more) / 0.05 + 2 * 0.02;
      p[i] = std::abs(z[i]) > 0.01 ? ((z[i] < 0 ? -0.01 : 0.01) - z[i]) / quadratic : 0;
    }
    for (std::size_t i = 0; i < elements; ++i) REQUIRE(std::abs(weights[i] - p[i]) < 1e-14);
  }
  CHECK(table.local()[2][1] == 0);    // named: what z says, though there was no gradient
  CHECK(table.local()[3][1] == 0.5);  // not named
  session.finish();
}

TEST_CASE("what Ftrl refuses is refused before values enter", "[optimizer][adopt]") {
  px::SelfCommunicator world;
  px::Session session{world};
  px::Variable<px::Sparse, px::Ftrl> table{session, "table", {.rows = rows, .width = width}};
  std::vector<float> const ones(width, 1.0f);
  session.step(px::grad(table, std::vector{3}, ones));
  float const before = table.local()[3][0];
  table.optimizer().learning_rate = -1;
  CHECK_THROWS_AS(session.assign(table, std::vector{3}, ones), px::Error);
  CHECK_THROWS_AS(
      session.scatter(table, {},
                      [](auto, px::RowsView<float> given) { std::fill_n(given.data, given.rows * given.width, 1.0f); }),
      px::Error);
  CHECK_THROWS_AS(table.adopt(), px::Error);
  CHECK(table.local()[3][0] == before);
  table.optimizer().learning_rate = 0.1;
  session.assign(table, std::vector{3}, ones);
  CHECK(table.local()[3][0] == 1);
  session.finish();
}
