// Every policy with an optimizer on a device: trainings of two ranks over each of a program's communicators that carry its memory, by
// indices of the host and of the device, beside the same training in memory of the host.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <tuple>
#include <type_traits>
#include <vector>

#include "../../../benchmarks/baseline/naive_ps.hpp"
#include "../../catch.hpp"
#include "../../equivalence/memory.hpp"
#include "../../support/size.hpp"
#include "../deferred.hpp"
#include "parallax/comm/any.hpp"
#include "parallax/kernel/cuda.cuh"
#include "parallax/parallax.hpp"

namespace every_pair {

namespace px = parallax;
using parallax_test::Memory, parallax_test::values_of;

// What a rank has seen: rows that were pulled in each step, and in the end all that it holds. Of two ranks, whose sums have one order.
template <class Space, class O, bool there, class C>
std::vector<float> train(C& world, px::RowOps<Space> const& ops, int steps) {
  constexpr std::int64_t rows = 40, width = 4;
  constexpr std::size_t batch = 9, elements = 30;
  px::Session<C> session{world, {.non_finite = px::NonFinite::error}};
  px::Table const table{rows, width, px::uniform(-1, 1)};
  px::Variable<px::Sparse, Space, px::PsShard, O> sharded{session, "sharded", table};
  px::Variable<px::Sparse, Space, px::AllGather, O> gathered{session, "gathered", table, px::Reduce::mean_by_count};
  px::Variable<px::Sparse, Space, px::AllReduce, O> densified{session, "densified", table, px::Reduce::sum};
  px::Variable<px::Sparse, Space, baseline::NaivePs, O, px::Hash> naive{session, "naive", table};
  Memory<float, Space> of_reduced{ops, std::vector<float>(elements, 1)}, of_split{ops, std::vector<float>(elements, -1)};
  px::Variable<px::Dense, Space, px::AllReduce, O> reduced{session, "reduced", px::bind(of_reduced.span())};
  px::Variable<px::Dense, Space, px::PsShard, O> split{session, "split", px::bind(of_split.span())};
  std::mt19937_64 random{7 + static_cast<std::uint64_t>(world.rank())};
  auto const drawn = [&](std::size_t n) {
    std::vector<float> values(n);
    for (float& value : values) value = static_cast<float>(random() % 1000) / 500 - 1;
    return values;
  };
  std::vector<float> seen;
  auto const see = [&](std::vector<float> const& values) { seen.insert(seen.end(), values.begin(), values.end()); };
  std::vector<std::int64_t> ids(batch);
  Memory<std::int64_t, Space> ids_there{ops, ids};
  Memory<float, Space> of_rows{ops, std::vector<float>(batch * width)}, of_more{ops, of_rows.read()},
      of_layer{ops, std::vector<float>(elements)};
  auto const named = [&] {
    if constexpr (there) return px::on_device(ids_there.span());
    else return std::span<std::int64_t const>{ids};
  };
  for (int step = 0; step < steps; ++step) {
    for (auto& id : ids) id = static_cast<std::int64_t>(random() % (step % 3 == 0 ? 6 : rows));
    ids_there.write(ids);
    of_rows.write(drawn(batch * width)), of_more.write(drawn(batch * width)), of_layer.write(drawn(elements));
    auto const [a, b, c, d] = session.pull(sharded.at(named()), gathered.at(named()), densified.at(named()), naive.at(named()));
    for (auto const& values :
         {values_of(ops, a.values()), values_of(ops, b.values()), values_of(ops, c.values()), values_of(ops, d.values())})
      see(values);
    session.step(px::grad(a, of_rows.span()), px::grad(gathered, named(), of_more.span()), px::grad(c, of_rows.span()),
                 px::grad(d, of_more.span()), px::grad(reduced, of_layer.span()), px::grad(split, of_layer.span()));
  }
  for (auto const& values :
       {values_of(ops, sharded.local()), values_of(ops, gathered.local()), values_of(ops, densified.local()),
        values_of(ops, naive.local()), of_reduced.read(), of_split.read()})
    see(values);
  session.finish();
  return seen;
}

// What carries the device's memory of two ranks. `run` calls a body on each rank that is in this process.
using World = px::AnyDeviceCommunicator<px::CudaSpace, px::CudaQueue>;
struct Carrier {
  std::string name;
  std::function<void(std::function<void(World&)> const&)> run;
};

// Of the program that the pairs are linked to.
std::vector<Carrier> carriers();

template <class O>
void check(std::uint64_t seed) {
  int const steps = parallax_test::sized(8, 16, 50);
  std::vector<std::vector<float>> expected(2);
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    expected[static_cast<std::size_t>(world.rank())] =
        train<px::HostSpace, O, false>(world, px::RowOps<px::HostSpace>{}, steps);
  });
  for (float const value : expected[0]) REQUIRE(value == value);  // for what is no number equals nothing
  emulated::Deferred const deferred{seed};
  for (Carrier const& carrier : carriers()) {
    std::vector<std::vector<float>> by_host = expected, by_device = expected;
    std::atomic<int> ranks = 0;
    carrier.run([&](World& world) {
      auto const rank = static_cast<std::size_t>(world.rank());
      px::RowOps<px::CudaSpace> const ops{world.queue()};
      by_host[rank] = train<px::CudaSpace, O, false>(world, ops, steps);
      by_device[rank] = train<px::CudaSpace, O, true>(world, ops, steps);
      ++ranks;
    });
    INFO(px::optimizer_name<O>() << " over " << carrier.name << ", PARALLAX_SEED=" << seed);
    CHECK(ranks > 0);
    CHECK(by_host == expected);
    CHECK(by_device == expected);
  }
}

template <class... O>
void check_all() {
  std::uint64_t seed = emulated::first_seed("every pair on a device");
  (check<O>(seed++), ...);
}

}  // namespace every_pair
