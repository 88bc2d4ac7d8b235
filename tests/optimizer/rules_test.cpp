// Each rule against its formula from the paper, in float and double, and the optimizer concept with an optimizer of one's own.
#include <cmath>
#include <cstdint>
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
  using element_slots = px::slots<px::scalar, std::int32_t>;
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
  using element_slots = px::slots<>;
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

TEMPLATE_TEST_CASE("Adagrad divides by the root of the sum of squares", "[optimizer]", float, double) {
  using T = TestType;
  px::Adagrad const adagrad{.learning_rate = 0.3, .initial_accumulator = 0.1, .epsilon = 1e-6};
  CHECK(std::get<0>(adagrad.initial()) == 0.1);
  T p{1}, sum = static_cast<T>(0.1);
  Rounded<T> expected{1}, squares{static_cast<T>(0.1)};
  for (T const g : gradients<T>(2)) {
    adagrad.at(1)(p, g, sum);
    squares = squares + Rounded<T>{g} * g;
    expected = expected - Rounded<T>{static_cast<T>(0.3)} * g /
                              (Rounded<T>{std::sqrt(squares.get())} + static_cast<T>(1e-6));
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
  CHECK(dense.state().slots().template span<1>()[2] == -96);
  CHECK(table.state().slots().template span<1>()[2] == -96);
  CHECK(table.state().slots().template span<1>()[0] == -100);
  CHECK(dense.steps() == 4);
}
