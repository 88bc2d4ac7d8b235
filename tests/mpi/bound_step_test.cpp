// Steps bound once: the bits of the session's own steps in the vendor's order, and what cannot be bound.
#include <mpi.h>

#include <algorithm>
#include <cfenv>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "parallax/comm/mpi.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

// Values whose sums are exact in any order.
template <class T>
std::vector<T> gradient_of(int rank, std::size_t n, int salt) {
  std::vector<T> values(n);
  for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<T>((i * 5 + static_cast<std::size_t>(rank + salt)) % 17) / 16;
  return values;
}

template <class T, class O>
struct Trained {
  std::vector<T> parameters;
  px::Variable<px::Dense, T, O> variable;

  template <class Session>
  Trained(Session& session, std::string name, std::size_t n, O optimizer, px::Reduce reduce = px::Reduce::mean)
      : parameters(n, T{1}), variable{session, std::move(name), px::bind(parameters), optimizer, reduce} {}
};

px::Errc code_of(auto&& call) {
  try {
    call();
  } catch (px::Error const& error) {
    return error.code();
  }
  return px::Errc{};
}

}  // namespace

TEST_CASE("a bound step computes what the session's step does, and alternates with it", "[mpi][bound_step]") {
  px::MpiCommunicator world{MPI_COMM_WORLD, {.order = px::SumOrder::vendor}};
  px::Session session{world};
  px::Adam const adam{.learning_rate = 0.125};
  px::Momentum const momentum{.learning_rate = 0.5};
  Trained<float, px::Adam> a{session, "a", 1001, adam}, a2{session, "a2", 1001, adam};
  Trained<double, px::Momentum> b{session, "b", 33, momentum, px::Reduce::sum},
      b2{session, "b2", 33, momentum, px::Reduce::sum};
  Trained<float, px::Sgd> none{session, "none", 0, {}};
  auto ga = gradient_of<float>(world.rank(), 1001, 0);
  auto gb = gradient_of<double>(world.rank(), 33, 3);
  std::vector<float> const nothing;
  auto step = session.bind_step(px::grad(a.variable, ga), px::grad(b.variable, gb), px::grad(none.variable, nothing));
  for (int i = 0; i < 6; ++i) {
    if (i == 3) std::ranges::copy(gradient_of<float>(world.rank(), 1001, 8), ga.begin());
    a.variable.optimizer().learning_rate = a2.variable.optimizer().learning_rate = 0.125 / (1 + i);
    if (i % 3 == 2) session.step(px::grad(a.variable, ga), px::grad(b.variable, gb));
    else step();
    session.step(px::grad(a2.variable, ga), px::grad(b2.variable, gb));
  }
  auto moved = std::move(step);
  moved();
  session.step(px::grad(a2.variable, ga), px::grad(b2.variable, gb));
  CHECK(std::ranges::equal(a.parameters, a2.parameters));
  CHECK(std::ranges::equal(b.parameters, b2.parameters));
  CHECK(a.parameters[5] != 1.0f);
  CHECK(a.variable.steps() == 7);
  session.finish();
}

TEST_CASE("what cannot be bound is refused on every rank, and the session goes on", "[mpi][bound_step]") {
  px::MpiCommunicator vendor{MPI_COMM_WORLD, {.order = px::SumOrder::vendor}}, fixed;
  px::Session session{vendor}, other{fixed};
  Trained<float, px::Sgd> a{session, "a", 10, {}}, b{session, "b", 10, {}}, c{other, "c", 10, {}};
  std::vector<float> const gradient(10, 1.0f), short_one(9, 1.0f);
  CHECK(code_of([&] { other.bind_step(px::grad(c.variable, gradient)); }) == px::Errc::misuse);
  CHECK(code_of([&] { session.bind_step(px::grad(c.variable, gradient)); }) == px::Errc::misuse);
  bool const last = vendor.rank() + 1 == vendor.size();
  CHECK(code_of([&] { session.bind_step(px::grad(a.variable, last ? short_one : gradient)); }) == px::Errc::invalid_argument);
  if (vendor.size() > 1)
    CHECK(code_of([&] { session.bind_step(px::grad(last ? b.variable : a.variable, gradient)); }) == px::Errc::mismatch);
  if (vendor.size() > 1) {
    std::string words;
    if (last) std::fesetround(FE_DOWNWARD);
    try {
      session.bind_step(px::grad(a.variable, gradient));
    } catch (px::Error const& error) {
      words = error.detail();
    }
    std::fesetround(FE_TONEAREST);
    CHECK(words.find("has «arithmetic rounds down, keeps subnormal numbers") != std::string::npos);
  }
  session.bind_step(px::grad(a.variable, gradient))();
  CHECK(a.parameters[0] == 1.0f - 0.01f);
  session.finish();
  other.finish();
}
