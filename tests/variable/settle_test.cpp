// Exact sparse optimizers: rows that steps passed by are brought up to date when they are read, to the bits of the dense one.
#include <vector>

#include "../catch.hpp"
#include "exactness.hpp"
#include "../../benchmarks/baseline/naive_ps.hpp"

namespace px = parallax;
using parallax_test::exactness::differences;

TEST_CASE("exact sparse Adam equals dense Adam bit for bit", "[variable][settle]") {
  int const ranks = GENERATE(1, 2, 3);
  bool const changing = GENERATE(false, true);
  CAPTURE(ranks, changing);
  CHECK(differences<px::Adam, float, px::PsShard>(ranks, 40, changing) == 0);
  CHECK(differences<px::Adam, float, baseline::NaivePs>(ranks, 40, changing) == 0);
  CHECK(differences<px::Adam, float, px::AllGather>(ranks, 40, changing) == 0);
  CHECK(differences<px::Adam, float, px::AllReduce>(ranks, 40, changing) == 0);
  CHECK(differences<px::Adam, double, px::PsShard>(ranks, 40, changing) == 0);
}

TEST_CASE("an exact optimizer that measures its rows equals the dense one bit for bit", "[variable][settle]") {
  px::WeightDecay<px::Lamb> const optimizer{.optimizer = {.weight_decay = 0.1}, .rate = 0.01};
  CHECK(differences<px::WeightDecay<px::Lamb>, float, px::PsShard>(2, 40, true, optimizer) == 0);
}

TEST_CASE("a learning rate that changes at every one of 700 steps is remembered in bounded room", "[variable][settle]") {
  CHECK(differences<px::Adam, float, px::PsShard>(2, 700, true) == 0);
}

TEST_CASE("lazy Adam leaves untouched rows alone", "[variable][settle]") {
  px::SelfCommunicator self;
  px::Session session{self};
  px::Variable<px::Sparse, px::LazyAdam> sparse{session, "sparse", {4, 1, px::constant(1)}};
  px::Variable<px::Sparse, px::LazyAdam, px::AllReduce> densified{session, "densified", {4, 1, px::constant(1)}};
  std::vector<int> const first{1, 2}, second{2};
  std::vector<float> const one{1}, two{1, 1};
  session.step(px::grad(sparse, first, two), px::grad(densified, first, two));
  float const after = sparse.local()[1][0];
  for (int i = 0; i < 5; ++i) session.step(px::grad(sparse, second, one), px::grad(densified, second, one));
  CHECK(sparse.local()[0][0] == 1);
  CHECK(sparse.local()[1][0] == after);
  CHECK(sparse.local()[2][0] < after);
  for (std::int64_t row = 0; row < 4; ++row) CHECK(sparse.local()[row][0] == densified.local()[row][0]);
}
