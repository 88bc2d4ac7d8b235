// The trainings of the host's equality suite with variables on a device, on the emulator: the same bits, whatever order streams
// take.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "../equivalence/equality.hpp"
#include "../support/size.hpp"
#include "communicators.hpp"
#include "deferred.hpp"

#include "parallax/kernel/cuda.cuh"
#include "../../benchmarks/baseline/naive_ps.hpp"

using namespace parallax_test;

namespace {

template <class DensePolicy, class RowPolicy, class O, class P = px::Cyclic, class T = float, class Index = std::int64_t>
using OnDevice = Model<DensePolicy, RowPolicy, O, P, T, Index, px::CudaSpace>;

// Policies, rules with and without slots, both scalars and indices: over every communicator.
using Models = std::tuple<OnDevice<px::AllReduce, px::PsShard, px::Adagrad, px::Hash>,
                          OnDevice<px::PsShard, px::AllGather, px::LazyAdam, px::Cyclic, double, std::int32_t>,
                          OnDevice<px::PsShard, baseline::NaivePs, px::Sgd, px::Block>>;
// Rules that move untouched rows, and densified tables: over threads.
using MoreModels = std::tuple<OnDevice<px::PsShard, px::PsShard, px::Adam, px::Cyclic, double>,
                              OnDevice<px::PsShard, px::AllReduce, px::LazyAdam>,
                              OnDevice<px::PsShard, px::AllReduce, px::Adam, px::Cyclic, double, std::int32_t>>;

template <class M>
using Diaries = std::vector<Diary<typename M::T>>;

// Trains over one of the communicators that carry device memory.
template <class M, class Communicators>
Diaries<M> train_over(Communicators const& communicators, Case const& c) {
  Diaries<M> diaries(static_cast<std::size_t>(c.ranks));
  communicators.run(std::chrono::minutes{1}, [&]<class C>(C& world) {
    diaries[static_cast<std::size_t>(world.rank())] = Trainer<M, C>{world, c}.train();
  });
  return diaries;
}
template <class M>
void check_on_device(Case const& c, std::size_t which) {
  if (which == 0) check_equality<M>(c, train_over<M>(communicators::CudaThreads{c.ranks}, c));
  if (which == 1) check_equality<M>(c, train_over<M>(communicators::StagedThreads{c.ranks}, c));
  // NCCL sums dense gradients under AllReduce in an order of its own.
  if (which == 2 && M::Layer::State::sharded) check_equality<M>(c, train_over<M>(communicators::NcclThreads{c.ranks}, c));
}
template <class M>
void check_cases(std::vector<std::size_t> const& over) {
  for (Case training : cases()) {
    if (training.ranks != 1 && training.ranks != 2 && training.ranks != 4) continue;
    training.steps = sized(4, 8, 50);
    for (std::size_t const which : over)
      if (sized(false, true, true) || which == training.seed % over.size()) check_on_device<M>(training, which);
  }
}
template <class M>
void check_orders(std::uint64_t seeds, std::size_t communicators) {
  std::uint64_t const first = emulated::first_seed("orders of streams");
  for (std::uint64_t seed = first; seed < first + seeds; ++seed) {
    Case const training{.ranks = seed % 2 ? 2 : 4,
                        .hosts = seed % 4 ? std::vector<int>{} : std::vector<int>{0, 0, 1, 1},
                        .reduce = seed % 3 ? px::Reduce::mean : px::Reduce::mean_by_count,
                        .clips = true,
                        .seed = 200 + seed,
                        .steps = sized(4, 8, 50)};
    CAPTURE(seed);
    emulated::Deferred const deferred{seed};
    check_on_device<M>(training, seed % communicators);
  }
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("variables on a device end up with the oracle's bits", "[cuda][equivalence]", Models) {
  check_cases<TestType>({0, 1, 2});
}
TEMPLATE_LIST_TEST_CASE("whatever order streams take, the bits are the same", "[cuda][equivalence]", Models) {
  check_orders<TestType>(6, 3);
}
TEMPLATE_LIST_TEST_CASE("rows that move untouched, and densified tables, have the oracle's bits in any order of streams",
                        "[cuda][equivalence]", MoreModels) {
  check_cases<TestType>({0});
  check_orders<TestType>(2, 1);
}
