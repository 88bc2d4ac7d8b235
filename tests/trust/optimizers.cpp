// Every optimizer under every policy: exact ones to the bits of the dense run, lazy ones to their rule on the rows that a step
// touched, dense variables alike under both dense policies and any number of hosts.
#include <cstring>
#include <map>
#include <tuple>
#include <vector>

#include "../catch.hpp"
#include "../variable/exactness.hpp"
#include "../../benchmarks/baseline/naive_ps.hpp"

namespace px = parallax;
namespace exactness = parallax_test::exactness;

namespace {

template <class O>
void check_exact(O const& optimizer) {
  INFO(px::optimizer_name<O>());
  for (int const ranks : {1, 2, 3})
    for (bool const changing : {false, true}) {
      CAPTURE(ranks, changing);
      CHECK(exactness::differences<O, float, px::PsShard>(ranks, 30, changing, optimizer) == 0);
      CHECK(exactness::differences<O, double, px::AllReduce>(ranks, 30, changing, optimizer) == 0);
      CHECK(exactness::differences<O, float, px::AllGather>(ranks, 30, changing, optimizer) == 0);
      CHECK(exactness::differences<O, float, baseline::NaivePs>(ranks, 30, changing, optimizer) == 0);
    }
}

// The rows that steps touched, moved by the optimizer's own rule and nothing else.
template <class O, class Policy>
int lazy_differences(int ranks, int steps, O const& given) {
  using namespace exactness;
  std::vector<float> expected(rows * width, 1.0f);
  px::OptimizerState<float, O> state{{}, given, rows, width};
  for (int step = 0; step < steps; ++step) {
    std::map<std::int64_t, std::vector<float>> sums;
    for (int rank = 0; rank < ranks; ++rank) {
      Batch<float> const batch{step, rank};
      for (std::size_t i = 0; i < batch.ids.size(); ++i) {
        auto& sum = sums.try_emplace(batch.ids[i], std::vector<float>(width)).first->second;
        for (std::size_t c = 0; c < width; ++c) sum[c] += batch.gradient[i * width + c];
      }
    }
    O optimizer = given;
    rate_of(optimizer) = rate_at(step, true);
    if constexpr (px::adopts<O, float>)  // slots follow first values, by the rule of the first step
      if (step == 0) state.adopt(expected.data(), expected.size(), 0, optimizer.at(1));
    for (auto const& [id, sum] : sums)
      state.apply(expected.data() + id * width, sum.data(), width, static_cast<std::size_t>(id * width), 1.0f,
                  optimizer.at(step + 1));
  }
  std::vector<int> wrong(static_cast<std::size_t>(ranks));
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    px::Session session{world};
    px::Variable<px::Sparse, O, Policy> table{session, "table", {rows, width, px::constant(1)}, given, px::Reduce::sum};
    for (int step = 0; step < steps; ++step) {
      Batch<float> const batch{step, world.rank()};
      rate_of(table.optimizer()) = rate_at(step, true);
      session.step(px::grad(table, batch.ids, batch.gradient));
    }
    auto const local = table.local();
    for (std::int64_t row = 0; row < local.rows; ++row)
      wrong[static_cast<std::size_t>(world.rank())] +=
          std::memcmp(local.row(row), expected.data() + table.global_row(row) * width, sizeof(float) * width) != 0;
    session.finish();
  });
  int sum = 0;
  for (int const each : wrong) sum += each;
  return sum;
}

template <class O>
void check_lazy(O const& optimizer) {
  INFO(px::optimizer_name<O>());
  for (int const ranks : {1, 2, 3}) {
    CHECK(lazy_differences<O, px::PsShard>(ranks, 30, optimizer) == 0);
    CHECK(lazy_differences<O, px::AllReduce>(ranks, 30, optimizer) == 0);
  }
}

// A dense variable of 7 rows of 5 under AllReduce and PsShard, fused and not, flat and over two hosts: the same bits.
template <class O>
void check_dense(O const& optimizer) {
  INFO(px::optimizer_name<O>());
  for (int const ranks : {1, 2, 4}) {
    std::vector<std::vector<std::vector<float>>> results;  // by rank: each variable's values
    for (bool const two_hosts : {false, true}) {
      std::vector<std::vector<std::vector<float>>> here(static_cast<std::size_t>(ranks));
      px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
        std::vector<int> hosts(static_cast<std::size_t>(ranks));
        for (std::size_t r = 0; r < hosts.size(); ++r) hosts[r] = static_cast<int>(r) / 2;
        px::Topology topology = two_hosts ? px::Topology{world, hosts} : px::Topology{world};
        px::Session session{topology, {.fusion = {.direct_bytes = 100}}};  // the first is exchanged where it lies
        std::vector<std::vector<float>> values(4, std::vector<float>(35, 0.5f));
        values[2].resize(20), values[3].resize(20);
        px::Variable<px::Dense, O> a{session, "a", px::bind(values[0], 5), optimizer};
        px::Variable<px::Dense, O, px::PsShard> b{session, "b", px::bind(values[1], 5), optimizer};
        px::Variable<px::Dense, O> c{session, "c", px::bind(values[2], 5), optimizer};
        px::Variable<px::Dense, O, px::PsShard> d{session, "d", px::bind(values[3], 5), optimizer};
        for (int step = 0; step < 20; ++step) {
          std::vector<float> g(35);
          for (std::size_t i = 0; i < g.size(); ++i)
            g[i] = static_cast<float>((static_cast<int>(i) * 7 + step * 3 + world.rank() * 5) % 11 - 5) / 8;
          std::span<float const> const all{g}, part = all.first(20);
          if (step % 3 == 0) {
            session.start(px::grad(a, all), px::grad(b, all));
            session.step(px::clip_by_global_norm(1.5, px::grad(c, part)), px::clip_by_global_norm(1.5, px::grad(d, part)));
          } else {
            session.step(px::clip_by_global_norm(2.0, px::grad(a, all)), px::clip_by_global_norm(2.0, px::grad(b, all)),
                         px::grad(c, part), px::grad(d, part));
          }
        }
        session.finish();
        here[static_cast<std::size_t>(world.rank())] = values;
      });
      for (auto& of_rank : here) results.push_back(std::move(of_rank));
    }
    for (auto const& values : results) {
      CHECK(values[0] == values[1]);  // AllReduce and PsShard
      CHECK(values[2] == values[3]);
      CHECK(values[0] == results.front()[0]);  // small multiples of 1/8: no order of sums changes them
    }
  }
}

}  // namespace

TEST_CASE("every exact optimizer on a table equals the dense one bit for bit", "[trust][optimizers]") {
  check_exact(px::Sgd{});
  check_exact(px::Momentum{});
  check_exact(px::Nesterov{});
  check_exact(px::Adagrad{});
  check_exact(px::RowwiseAdagrad{.initial_accumulator = 0.1});
  check_exact(px::RmsProp{});
  check_exact(px::CenteredRmsProp{});
  check_exact(px::Adadelta{});
  check_exact(px::ProximalSgd{.l1 = 0.1, .l2 = 0.1});
  check_exact(px::ProximalAdagrad{.l1 = 0.1, .l2 = 0.1});
  check_exact(px::AdagradDa{.l1 = 0.05, .l2 = 0.1});
  check_exact(px::AdamW{});
  check_exact(px::Ftrl{.l1 = 0.01, .l2 = 0.01});
  check_exact(px::Lamb{});
  check_exact(px::WeightDecay<px::Sgd>{.rate = 0.1});
  check_exact(px::WeightDecay<px::RowwiseAdagrad>{.rate = 0.1});
}

TEST_CASE("every lazy optimizer moves the rows that a step touched by its rule, and no others", "[trust][optimizers]") {
  check_lazy(px::LazyMomentum{});
  check_lazy(px::LazyNesterov{});
  check_lazy(px::LazyRmsProp{});
  check_lazy(px::LazyCenteredRmsProp{});
  check_lazy(px::LazyAdadelta{});
  check_lazy(px::LazyProximalSgd{.l1 = 0.1, .l2 = 0.1});
  check_lazy(px::LazyProximalAdagrad{.l1 = 0.1, .l2 = 0.1});
  check_lazy(px::LazyAdagradDa{.l1 = 0.05, .l2 = 0.1});
  check_lazy(px::LazyAdam{});
  check_lazy(px::LazyAdamW{});
  check_lazy(px::LazyLamb{});
  check_lazy(px::LazyWeightDecay<px::Sgd>{.rate = 0.1});
}

TEST_CASE("every optimizer moves a dense variable alike under both policies, fused or not, on one host or two",
          "[trust][optimizers]") {
  check_dense(px::Momentum{});
  check_dense(px::RowwiseAdagrad{});
  check_dense(px::AdamW{});
  check_dense(px::CenteredRmsProp{});
  check_dense(px::Adadelta{});
  check_dense(px::ProximalSgd{.l1 = 0.1, .l2 = 0.1});
  check_dense(px::ProximalAdagrad{.l1 = 0.1, .l2 = 0.1});
  check_dense(px::AdagradDa{.l1 = 0.05, .l2 = 0.1});
  check_dense(px::Lamb{});
  check_dense(px::WeightDecay<px::Lamb>{.rate = 0.01});
}
