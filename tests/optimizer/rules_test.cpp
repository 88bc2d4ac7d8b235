// Each rule against its formula from the paper, in float and double, and the optimizer concept with an optimizer of one's own.
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "../catch.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

// Every operation is rounded to T and none is contracted: what a rule must compute, bit for bit.
template <class T>
struct Rounded {
  volatile T value;
  Rounded(T x) : value{x} {}
  Rounded(Rounded const& other) : value{other.get()} {}
  Rounded& operator=(Rounded const& other) {
    value = other.get();
    return *this;
  }
  T get() const { return value; }
  friend Rounded operator+(Rounded const& a, Rounded const& b) { return static_cast<T>(a.get() + b.get()); }
  friend Rounded operator-(Rounded const& a, Rounded const& b) { return static_cast<T>(a.get() - b.get()); }
  friend Rounded operator*(Rounded const& a, Rounded const& b) { return static_cast<T>(a.get() * b.get()); }
  friend Rounded operator/(Rounded const& a, Rounded const& b) { return static_cast<T>(a.get() / b.get()); }
};

template <class T>
std::vector<T> gradients(std::uint64_t seed) {
  std::mt19937_64 random{seed};
  std::vector<T> result(200);
  for (T& g : result) g = random() % 5 == 0 ? T{0} : static_cast<T>(static_cast<double>(random() % 4001) / 1000 - 2);
  return result;
}

// Ten lines: momentum with a count of the updates of every element.
struct CountedMomentum {
  using axis = px::optimizer_axis;
  using element_slots = px::slot_types<px::scalar, std::int32_t>;
  double learning_rate = 0.1, momentum = 0.5;
  auto initial() const { return std::tuple{0.0, -100}; }
  auto at(std::int64_t step) const {
    return [rate = learning_rate / static_cast<double>(step), m = momentum](auto& p, auto g, auto& v,
                                                                            std::int32_t& count) noexcept {
      using T = decltype(g);
      v = static_cast<T>(m) * v + g;
      p -= static_cast<T>(rate) * v;
      ++count;
    };
  }
};
// A rule over doubles only.
struct DoublesOnly {
  using axis = px::optimizer_axis;
  using element_slots = px::slot_types<>;
  auto at(std::int64_t) const {
    return [](double& p, double g) noexcept { p -= g; };
  }
};

}  // namespace

TEMPLATE_TEST_CASE("SGD is p - rate g", "[optimizer]", float, double) {
  using T = TestType;
  px::Sgd const sgd{.learning_rate = 0.3};
  T p{1};
  Rounded<T> expected{1};
  for (T const g : gradients<T>(1)) {
    sgd.at(1)(p, g);
    expected = expected - Rounded<T>{static_cast<T>(0.3)} * g;
    REQUIRE(p == expected.get());
  }
}

TEMPLATE_TEST_CASE("Subtract is p - g, and only who says so subtracts", "[optimizer]", float, double) {
  using T = TestType;
  T p{1};
  Rounded<T> expected{1};
  for (T const g : gradients<T>(1)) {
    px::Subtract{}.at(1)(p, g);
    expected = expected - g;
    REQUIRE(p == expected.get());
  }
  STATIC_REQUIRE(px::subtracts<px::Subtract>);
  STATIC_REQUIRE_FALSE(px::subtracts<px::Sgd>);
  STATIC_REQUIRE_FALSE(px::subtracts<px::WeightDecay<px::Subtract>>);
}

TEMPLATE_TEST_CASE("Adagrad divides by the root of the sum of squares", "[optimizer]", float, double) {
  using T = TestType;
  px::Adagrad const adagrad{.learning_rate = 0.3, .initial_accumulator = 0.1, .epsilon = 1e-6};
  CHECK(std::get<0>(adagrad.initial()) == 0.1);
  T p{1}, sum = static_cast<T>(0.1);
  Rounded<T> expected{1}, squares{static_cast<T>(0.1)};
  for (T const g : gradients<T>(2)) {
    adagrad.at(1)(p, g, sum);
    squares = squares + Rounded<T>{g} * g;
    expected = expected - Rounded<T>{static_cast<T>(0.3)} * g / (Rounded<T>{std::sqrt(squares.get())} + static_cast<T>(1e-6));
    REQUIRE(sum == squares.get());
    REQUIRE(p == expected.get());
  }
}

TEMPLATE_TEST_CASE("Adam follows Kingma and Ba's algorithm 1 to rounding", "[optimizer]", float, double) {
  using T = TestType;
  px::Adam const adam{.learning_rate = 0.01, .beta1 = 0.8, .beta2 = 0.99, .epsilon = 1e-8};
  T p{1}, m{0}, v{0};
  long double theta = 1, first = 0, second = 0;
  std::int64_t t = 0;
  for (T const g : gradients<T>(3)) {
    adam.at(++t)(p, g, m, v);
    first = 0.8L * first + 0.2L * static_cast<long double>(g);
    second = 0.99L * second + 0.01L * static_cast<long double>(g) * static_cast<long double>(g);
    long double const corrected = first / (1 - std::pow(0.8L, static_cast<long double>(t)));
    long double const root = std::sqrt(second / (1 - std::pow(0.99L, static_cast<long double>(t))));
    theta -= 0.01L * corrected / (root + 1e-8L);
    REQUIRE(static_cast<double>(p) ==
            Approx(static_cast<double>(theta)).epsilon(200 * static_cast<double>(std::numeric_limits<T>::epsilon())));
  }
}

TEMPLATE_TEST_CASE("the first step of Adam moves by the learning rate, whatever the gradient's scale", "[optimizer]", float,
                   double) {
  using T = TestType;
  for (double const scale : {1e-3, 1.0, 1e3}) {
    T p{0}, m{0}, v{0};
    px::Adam{.learning_rate = 0.5}.at(1)(p, static_cast<T>(scale), m, v);
    CHECK(static_cast<double>(p) == Approx(-0.5).epsilon(1e-4));
  }
}

// One element through 200 steps of a rule, beside the same formula in long double. The slots begin as the optimizer says, what
// the formula keeps as `a` and `b`.
template <class T, class O, class Formula>
void compare_with(O const& optimizer, std::uint64_t seed, Formula formula, long double a = 0, long double b = 0) {
  using L = long double;
  T p{1}, one{0}, two{0};
  if constexpr (requires { optimizer.initial(); }) {
    one = static_cast<T>(std::get<0>(optimizer.initial()));
    if constexpr (O::element_slots::count == 2) two = static_cast<T>(std::get<1>(optimizer.initial()));
  }
  L exact = 1;
  std::int64_t t = 0;
  for (T const g : gradients<T>(seed)) {
    if constexpr (O::element_slots::count == 0) optimizer.at(++t)(p, g);
    else if constexpr (O::element_slots::count == 1) optimizer.at(++t)(p, g, one);
    else optimizer.at(++t)(p, g, one, two);
    formula(exact, static_cast<L>(g), a, b, static_cast<L>(t));
    REQUIRE(static_cast<double>(p) == Approx(static_cast<double>(exact))
                                          .epsilon(400 * static_cast<double>(std::numeric_limits<T>::epsilon()))
                                          .margin(200 * static_cast<double>(std::numeric_limits<T>::epsilon())));
  }
}

TEMPLATE_TEST_CASE("rules with state follow their papers to rounding", "[optimizer]", float, double) {
  using T = TestType;
  using L = long double;
  compare_with<T>(px::Momentum{.learning_rate = 0.01, .momentum = 0.8}, 4, [](L& p, L g, L& v, L&, L) {
    v = 0.8L * v + g;
    p -= 0.01L * v;
  });
  compare_with<T>(px::Nesterov{.learning_rate = 0.01, .momentum = 0.8}, 5, [](L& p, L g, L& v, L&, L) {
    L const before = v;  // Sutskever's form for the point that the gradient is taken at: p + momentum · velocity
    v = 0.8L * v + g;
    p -= 0.01L * ((1 + 0.8L) * v - 0.8L * before);
  });
  compare_with<T>(px::RmsProp{.learning_rate = 0.01, .decay = 0.9, .epsilon = 1e-3}, 6, [](L& p, L g, L& v, L&, L) {
    v = 0.9L * v + 0.1L * g * g;
    p -= 0.01L * g / (std::sqrt(v) + 1e-3L);
  });
  compare_with<T>(px::AdamW{.learning_rate = 0.01, .beta1 = 0.8, .beta2 = 0.99, .weight_decay = 0.1}, 7,
                  [](L& p, L g, L& m, L& v, L t) {
                    m = 0.8L * m + 0.2L * g;
                    v = 0.99L * v + 0.01L * g * g;
                    p -= 0.01L * (m / (1 - std::pow(0.8L, t)) / (std::sqrt(v / (1 - std::pow(0.99L, t))) + 1e-8L) + 0.1L * p);
                  });
  compare_with<T>(px::WeightDecay<px::Momentum>{.optimizer = {.learning_rate = 0.01, .momentum = 0.8}, .rate = 0.5}, 8,
                  [](L& p, L g, L& v, L&, L) {
                    v = 0.8L * v + (g + 0.5L * p);
                    p -= 0.01L * v;
                  });
  compare_with<T>(px::Ftrl{.learning_rate = 0.5, .beta = 1, .l1 = 0.4, .l2 = 0.2}, 9, [](L& p, L g, L& z, L& n, L) {
    if (g == 0) return;
    z += g - (std::sqrt(n + g * g) - std::sqrt(n)) / 0.5L * p;
    n += g * g;
    p = std::abs(z) <= 0.4L ? 0 : -(z - (z < 0 ? -0.4L : 0.4L)) / ((1 + std::sqrt(n)) / 0.5L + 0.2L);
  });
}

// The formulas of TensorFlow's raw operations of these names and, where they differ, of PyTorch: its Adadelta is
// ApplyAdadelta, and its centred RMSprop adds epsilon to the root, as RmsProp does, not to what it is the root of.
TEMPLATE_TEST_CASE("Adadelta and centred RMSProp follow TensorFlow and PyTorch to rounding", "[optimizer]", float, double) {
  using T = TestType;
  using L = long double;
  // accum = rho accum + (1 - rho) g², update = sqrt(accum_update + epsilon) / sqrt(accum + epsilon) g,
  // accum_update = rho accum_update + (1 - rho) update², var -= lr update
  compare_with<T>(px::Adadelta{.learning_rate = 0.5, .decay = 0.8, .epsilon = 1e-4}, 11,
                  [](L& p, L g, L& accum, L& updates, L) {
                    accum = 0.8L * accum + 0.2L * g * g;
                    L const update = std::sqrt(updates + 1e-4L) * (1 / std::sqrt(accum + 1e-4L)) * g;
                    updates = 0.8L * updates + 0.2L * update * update;
                    p -= 0.5L * update;
                  });
  // mean_square = decay mean_square + (1 - decay) g², mean_grad = decay mean_grad + (1 - decay) g,
  // var -= lr g / (sqrt(mean_square - mean_grad²) + epsilon)
  compare_with<T>(px::CenteredRmsProp{.learning_rate = 0.01, .decay = 0.9, .epsilon = 0.5}, 12,
                  [](L& p, L g, L& square, L& mean, L) {
                    square = 0.9L * square + 0.1L * g * g;
                    mean = 0.9L * mean + 0.1L * g;
                    p -= 0.01L * g / (std::sqrt(square - mean * mean) + 0.5L);
                  });
}

namespace {

// sign(x) max(|x| - by, 0)
long double soft_threshold(long double x, long double by) { return std::copysign(std::fmax(std::fabs(x) - by, 0.0L), x); }

}  // namespace

TEMPLATE_TEST_CASE("proximal rules follow TensorFlow's operations to rounding", "[optimizer]", float, double) {
  using T = TestType;
  using L = long double;
  // ApplyProximalGradientDescent: prox_v = var - alpha delta, var = sign(prox_v) / (1 + alpha l2) max{|prox_v| - alpha l1, 0}
  compare_with<T>(px::ProximalSgd{.learning_rate = 0.1, .l1 = 0.75, .l2 = 0.5}, 13,
                  [](L& p, L g, L&, L&, L) { p = soft_threshold(p - 0.1L * g, 0.1L * 0.75L) / (1 + 0.1L * 0.5L); });
  // ApplyProximalAdagrad: accum += g², and the same at the rate lr / sqrt(accum)
  compare_with<T>(
      px::ProximalAdagrad{.learning_rate = 0.5, .initial_accumulator = 0.25, .l1 = 0.75, .l2 = 0.5}, 14,
      [](L& p, L g, L& accum, L&, L) {
        accum += g * g;
        L const rate = 0.5L / std::sqrt(accum);
        p = soft_threshold(p - rate * g, rate * 0.75L) / (1 + rate * 0.5L);
      },
      0.25L);
  // ApplyAdagradDA: gradient_accum += g, gradient_squared_accum += g²,
  // var = sign(-gradient_accum) lr max{|gradient_accum| - l1 global_step, 0} /
  //       (l2 global_step lr + sqrt(gradient_squared_accum))
  compare_with<T>(
      px::AdagradDa{.learning_rate = 0.5, .initial_accumulator = 0.25, .l1 = 0.03, .l2 = 0.02}, 15,
      [](L& p, L g, L& sum, L& squares, L t) {
        sum += g;
        squares += g * g;
        p = -0.5L * soft_threshold(sum, 0.03L * t) / (0.02L * t * 0.5L + std::sqrt(squares));
      },
      0, 0.25L);
}

TEST_CASE("a penalty on the absolute value makes parameters exactly zero, and hides no value that is not a number",
          "[optimizer]") {
  double p = 0.01, q = -0.01, sum = 1, mean = 0, squares = 1;
  px::ProximalSgd{.learning_rate = 0.5, .l1 = 0.1}.at(1)(p, 0.0);
  px::ProximalAdagrad{.learning_rate = 0.5, .l1 = 0.1}.at(1)(q, 0.0, sum);
  CHECK(std::tuple{p, q} == std::tuple{0.0, 0.0});
  CHECK_FALSE(std::signbit(q));
  double r = 1;
  px::AdagradDa const averaging{.learning_rate = 0.5, .l1 = 0.25};
  averaging.at(1)(r, 0.5, mean, squares);
  CHECK(r < 0);
  averaging.at(2)(r, 0.0, mean, squares);  // |0.5| is not more than 2 times 0.25
  CHECK(r == 0);
  double const nan = std::numeric_limits<double>::quiet_NaN();
  px::ProximalSgd{.l1 = 0.1}.at(1)(p, nan);
  px::ProximalAdagrad{.l1 = 0.1}.at(1)(q, nan, sum);
  averaging.at(3)(r, nan, mean, squares);
  CHECK((std::isnan(p) && std::isnan(q) && std::isnan(r)));
}

TEMPLATE_TEST_CASE("centred RMSProp takes a variance that rounding makes negative for none", "[optimizer]", float, double) {
  using T = TestType;
  T p{1}, v{0}, m{0};
  bool negative = false;
  for (int step = 1; step <= 300; ++step) {
    px::CenteredRmsProp{.decay = 0.5, .epsilon = 1}.at(step)(p, static_cast<T>(1.7), v, m);
    negative = negative || (Rounded<T>{v} - Rounded<T>{m} * m).get() < T{0};
    REQUIRE(std::isfinite(p));
  }
  CHECK(negative);  // else this says nothing
}

TEMPLATE_TEST_CASE("row-wise Adagrad keeps one sum of mean squares for a row", "[optimizer]", float, double) {
  using T = TestType;
  px::SelfCommunicator self;
  px::Session session{self};
  px::RowwiseAdagrad const optimizer{.learning_rate = 0.5, .initial_accumulator = 0.25, .epsilon = 1e-3};
  std::vector<T> memory{1, 2, 3, 4, 5, 6};
  px::Variable<px::Dense, px::RowwiseAdagrad, T> matrix{session, "matrix", px::bind(memory, 3), optimizer};
  px::Variable<px::Sparse, px::RowwiseAdagrad, T> table{session, "table", {3, 3, px::constant(1)}, optimizer};
  session.step(grad(matrix, std::vector<T>{1, 2, 3, 0, 0, 0}), grad(table, std::vector{2}, std::vector<T>{1, 2, 3}));
  double const sum = 0.25 + 14.0 / 3, factor = 0.5 / (std::sqrt(sum) + 1e-3);
  double const near = 8 * static_cast<double>(std::numeric_limits<T>::epsilon());
  auto const sums = matrix.state().optimizer_state().template row_span<0>();
  REQUIRE(sums.size() == 2);
  CHECK(static_cast<double>(sums[0]) == Approx(sum).epsilon(near));
  CHECK(sums[1] == static_cast<T>(0.25));
  for (std::size_t i = 0; i < 3; ++i) {
    double const moved = factor * static_cast<double>(i + 1);
    CHECK(static_cast<double>(memory[i]) == Approx(static_cast<double>(i + 1) - moved).epsilon(near));
    CHECK(static_cast<double>(table.local()[2][i]) == Approx(1 - moved).margin(near));
    CHECK(memory[3 + i] == static_cast<T>(4 + i));
  }
  CHECK(table.state().optimizer_state().template row_span<0>()[2] == sums[0]);
  CHECK_THROWS_AS((px::Variable<px::Dense, px::RowwiseAdagrad, T>{session, "odd", px::bind(memory, 4)}), px::Error);
}

TEMPLATE_TEST_CASE("LAMB scales its step by the ratio of the norms", "[optimizer]", float, double) {
  using T = TestType;
  using L = long double;
  px::SelfCommunicator self;
  px::Session session{self};
  px::Lamb const optimizer{.learning_rate = 0.1, .beta1 = 0.8, .beta2 = 0.99, .epsilon = 1e-4, .weight_decay = 0.1};
  std::vector<T> memory{1, -2, 3, 0.5};
  px::Variable<px::Dense, px::Lamb, T> layer{session, "layer", px::bind(memory), optimizer};
  std::vector<L> p{1, -2, 3, 0.5L}, m(4), v(4), r(4);
  auto const all = gradients<T>(10);
  for (int t = 1; t <= 50; ++t) {
    std::vector<T> const gradient(all.begin() + 4 * (t - 1), all.begin() + 4 * t);
    session.step(grad(layer, gradient));
    L parameters = 0, directions = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      L const g = static_cast<L>(gradient[i]);
      m[i] = 0.8L * m[i] + 0.2L * g;
      v[i] = 0.99L * v[i] + 0.01L * g * g;
      r[i] = m[i] / (1 - std::pow(0.8L, L(t))) / (std::sqrt(v[i] / (1 - std::pow(0.99L, L(t)))) + 1e-4L) + 0.1L * p[i];
      parameters += p[i] * p[i];
      directions += r[i] * r[i];
    }
    L const trust = parameters > 0 && directions > 0 ? std::sqrt(parameters / directions) : 1;
    for (std::size_t i = 0; i < 4; ++i) {
      p[i] -= 0.1L * trust * r[i];
      REQUIRE(static_cast<double>(memory[i]) ==
              Approx(static_cast<double>(p[i])).margin(2000 * static_cast<double>(std::numeric_limits<T>::epsilon())));
    }
  }
}

TEST_CASE("schedules begin, bend and end where they say", "[optimizer][schedule]") {
  auto const halves = px::step_decay(0.8, 10, 0.5);
  CHECK(halves(9) == 0.8);
  CHECK(halves(10) == 0.4);
  CHECK(halves(35) == Approx(0.1));
  auto const wave = px::cosine(1.0, 100, 0.2);
  CHECK(wave(0) == 1.0);
  CHECK(wave(50) == Approx(0.6));
  CHECK(wave(100) == Approx(0.2));
  CHECK(wave(1000) == Approx(0.2));
  auto const line = px::polynomial(1.0, 100, 2, 0.5);
  CHECK(line(0) == 1.0);
  CHECK(line(50) == Approx(0.625));
  CHECK(line(101) == 0.5);
  auto const root = px::inverse_sqrt(0.5, 100);
  CHECK(root(100) == 0.5);
  CHECK(root(400) == 0.25);
  auto const warm = px::warmup(px::cosine(1.0, 100), 4);
  CHECK(warm(0) == Approx(0.2));
  CHECK(warm(3) == Approx(0.8 * px::cosine(1.0, 100)(3)));
  CHECK(warm(4) == px::cosine(1.0, 100)(4));
  CHECK(px::warmup(0.1, 0)(0) == 0.1);
}

TEST_CASE("lazy and exact Adam are one rule under two names", "[optimizer]") {
  double p = 1, m = 0.1, v = 0.2, q = p, n = m, w = v;
  px::Adam{}.at(7)(p, 0.5, m, v);
  px::LazyAdam{}.at(7)(q, 0.5, n, w);
  CHECK(std::tuple{p, m, v} == std::tuple{q, n, w});
  CHECK(px::Adam::name == "Adam");
  CHECK(px::LazyAdam::name == "LazyAdam");
  STATIC_REQUIRE(px::untouched<px::Adam> == px::Untouched::moves);
  STATIC_REQUIRE(px::untouched<px::LazyAdam> == px::Untouched::lazy);
  STATIC_REQUIRE(px::untouched<px::Adagrad> == px::Untouched::rests);
  STATIC_REQUIRE(px::untouched<px::ProximalSgd> == px::Untouched::moves);
  STATIC_REQUIRE(px::untouched<px::LazyAdagradDa> == px::Untouched::lazy);
  STATIC_REQUIRE(px::untouched<px::WeightDecay<px::Sgd>> == px::Untouched::moves);
  STATIC_REQUIRE(px::untouched<px::WeightDecay<px::LazyAdam>> == px::Untouched::lazy);
  CHECK(px::optimizer_name<px::LazyWeightDecay<px::Sgd>>() == "LazyWeightDecay<Sgd>");
  CHECK(px::fields_text(px::WeightDecay<px::Sgd>{.optimizer = {.learning_rate = 0.5}, .rate = 0.25}) == "{0.5, 0.25}");
}

TEST_CASE("a zero gradient leaves alone what rests, and moves what Adam decays", "[optimizer]") {
  double p = 1, sum = 4;
  px::Sgd{}.at(1)(p, 0.0);
  px::Adagrad{}.at(1)(p, 0.0, sum);
  CHECK(std::tuple{p, sum} == std::tuple{1.0, 4.0});
  double m = 0.5, v = 0.5;
  px::Adam{}.at(3)(p, 0.0, m, v);
  CHECK(p < 1);
  CHECK(m == Approx(0.45));
}

TEST_CASE("the concept tells rules that fit from those that do not", "[optimizer]") {
  STATIC_REQUIRE(px::OptimizerFor<px::Sgd, float>);
  STATIC_REQUIRE(px::OptimizerFor<px::Adagrad, double>);
  STATIC_REQUIRE(px::OptimizerFor<px::Adam, float>);
  STATIC_REQUIRE(px::OptimizerFor<CountedMomentum, float>);
  STATIC_REQUIRE(px::OptimizerFor<DoublesOnly, double>);
  STATIC_REQUIRE_FALSE(px::OptimizerFor<DoublesOnly, float>);
  STATIC_REQUIRE_FALSE(px::Optimizer<px::Cyclic>);
  STATIC_REQUIRE_FALSE(px::Optimizer<int>);
}

TEMPLATE_TEST_CASE("an optimizer of ten lines trains dense and sparse variables, with slots of its own types", "[optimizer]",
                   float, double) {
  using T = TestType;
  px::SelfCommunicator self;
  px::Session session{self};
  std::vector<T> memory{1, 2, 3};
  px::Variable<px::Dense, CountedMomentum, T> dense{session, "dense", px::bind(memory)};
  px::Variable<px::Sparse, CountedMomentum, T> table{
      session, "table", {4, 1, px::constant(5)}, CountedMomentum{.learning_rate = 1}};
  std::vector<T> const gradient{1, -1, 0};
  std::vector<int> const ids{2, 2};
  std::vector<T> const rows{1, 2};

  T expected = 1, velocity = 0, row = 5, row_velocity = 0;
  for (int step = 1; step <= 4; ++step) {
    session.step(grad(dense, gradient), grad(table, ids, rows));
    velocity = static_cast<T>(0.5) * velocity + 1;
    expected -= static_cast<T>(0.1 / step) * velocity;
    row_velocity = static_cast<T>(0.5) * row_velocity + 3;
    row -= static_cast<T>(1.0 / step) * row_velocity;
  }
  CHECK(memory[0] == Approx(expected));
  CHECK(table.local()[2][0] == Approx(row));
  CHECK(table.local()[1][0] == 5);
  CHECK(dense.state().optimizer_state().template span<1>()[2] == -96);
  CHECK(table.state().optimizer_state().template span<1>()[2] == -96);
  CHECK(table.state().optimizer_state().template span<1>()[0] == -100);
  CHECK(dense.steps() == 4);
}

TEST_CASE("settings by which Ftrl would divide by 0, or reward what it is to hold down, are refused", "[optimizer]") {
  auto const told = [](px::Ftrl const& settings) {
    px::SelfCommunicator world;
    px::Session session{world};
    std::vector<float> values{1, 2}, gradient{1, 1};
    std::vector<int> const ids{0, 1};
    px::Variable<px::Dense, px::Ftrl> layer{session, "layer", px::bind(values), settings};
    px::Variable<px::Sparse, px::Ftrl> table{session, "table", {2, 1}, settings};
    auto const words_of = [](auto&& step) -> std::string {
      try {
        step();
      } catch (px::Error const& error) {
        CHECK(error.code() == px::Errc::invalid_argument);
        return error.detail();
      }
      return "nothing";
    };
    std::string const of_layer = words_of([&] { session.step(px::grad(layer, gradient)); });
    CHECK(words_of([&] { session.step(px::grad(table, ids, gradient)); }) == of_layer);
    CHECK((values == std::vector<float>{1, 2}) == (of_layer != "nothing"));
    session.finish();
    return of_layer;
  };
  double const nan = std::numeric_limits<double>::quiet_NaN();
  CHECK(told({.learning_rate = 0}) == "Ftrl's learning_rate is 0, and has to be more than 0");
  CHECK(told({.learning_rate = -0.5}) == "Ftrl's learning_rate is -0.5, and has to be more than 0");
  CHECK(told({.learning_rate = nan}) == "Ftrl's learning_rate is nan, and has to be more than 0");
  CHECK(told({.l1 = -0.25}) == "Ftrl's l1 is -0.25, and has to be 0 or more");
  CHECK(told({.l2 = -0.25}) == "Ftrl's l2 is -0.25, and has to be 0 or more");
  CHECK(told({.beta = -1}) == "Ftrl's beta is -1, and has to be 0 or more");
  CHECK(told({.learning_rate = 0.1, .l1 = 1, .l2 = 1}) == "nothing");
}

namespace {
// Returns what a step of a variable of O says. A step of a table must say the same.
template <class O>
std::string refusal_by(O const& settings) {
  px::SelfCommunicator world;
  px::Session session{world};
  std::vector<float> values{1, 2}, gradient{1, 1};
  std::vector<int> const ids{0, 1};
  px::Variable<px::Dense, O> layer{session, "layer", px::bind(values), settings};
  px::Variable<px::Sparse, O> table{session, "table", {2, 1}, settings};
  auto const words_of = [](auto&& step) -> std::string {
    try {
      step();
    } catch (px::Error const& error) {
      CHECK(error.code() == px::Errc::invalid_argument);
      return error.detail();
    }
    return "nothing";
  };
  std::string const words = words_of([&] { session.step(px::grad(layer, gradient)); });
  CHECK(words_of([&] { session.step(px::grad(table, ids, gradient)); }) == words);
  CHECK((values == std::vector<float>{1, 2}) == (words != "nothing"));
  CHECK((table.steps() == 0) == (words != "nothing"));
  session.finish();
  return words;
}
}  // namespace

TEST_CASE("settings that are infinite or no number are refused, of every optimizer", "[optimizer]") {
  double const nan = std::numeric_limits<double>::quiet_NaN(), infinite = std::numeric_limits<double>::infinity();
  CHECK(refusal_by(px::Adam{.learning_rate = nan}) == "Adam's learning_rate is nan, and has to be a finite number");
  CHECK(refusal_by(px::Adam{.epsilon = -infinite}) == "Adam's epsilon is -inf, and has to be a finite number");
  CHECK(refusal_by(px::Sgd{.learning_rate = infinite}) == "Sgd's learning_rate is inf, and has to be a finite number");
  CHECK(refusal_by(px::Lamb{.beta2 = nan}) == "Lamb's beta2 is nan, and has to be a finite number");
  CHECK(refusal_by(px::Ftrl{.l1 = infinite}) == "Ftrl's l1 is inf, and has to be a finite number");
  CHECK(refusal_by(px::WeightDecay<px::Sgd>{.optimizer = {.learning_rate = nan}, .rate = 0.1}) ==
        "Sgd's learning_rate is nan, and has to be a finite number");
  CHECK(refusal_by(px::WeightDecay<px::Sgd>{.rate = infinite}) ==
        "WeightDecay<Sgd>'s rate is inf, and has to be a finite number");
  CHECK(refusal_by(px::LazyMomentum{.momentum = nan}).ends_with("is nan, and has to be a finite number"));
  CHECK(refusal_by(CountedMomentum{.learning_rate = nan}).ends_with("'s setting 1 is nan, and has to be a finite number"));
  CHECK(refusal_by(px::Adam{.epsilon = std::numeric_limits<double>::denorm_min()}) == "nothing");
}

TEST_CASE("so are bounds of gradients, and negative ones", "[optimizer]") {
  px::SelfCommunicator world;
  px::Session session{world};
  std::vector<float> values{1, 2}, gradient{1, 1};
  px::Variable<px::Dense> layer{session, "layer", px::bind(values)};
  double const infinite = std::numeric_limits<double>::infinity();
  for (double const bound : {std::numeric_limits<double>::quiet_NaN(), infinite, -infinite, -1.0}) {
    std::string words;
    try {
      session.step(px::clip_by_global_norm(bound, px::grad(layer, gradient)));
    } catch (px::Error const& error) {
      CHECK(error.code() == px::Errc::invalid_argument);
      words = error.detail();
    }
    CHECK(words.starts_with("the bound of clip_by_global_norm is "));
    CHECK(words.ends_with(", and has to be a finite number, 0 or more"));
  }
  CHECK(values == std::vector<float>{1, 2});
  session.step(px::clip_by_global_norm(0, px::grad(layer, gradient)));
  CHECK(values == std::vector<float>{1, 2});
  session.finish();
}
