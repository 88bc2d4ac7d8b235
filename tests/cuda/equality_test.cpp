// The trainings of the host's equality suite with variables on a device, on the emulator: the same bits, whatever order streams
// take.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "../equivalence/equality.hpp"
#include "communicators.hpp"
#include "deferred.hpp"

#include "parallax/kernel/cuda.cuh"

using namespace parallax_test;

namespace {

template <class DensePolicy, class RowPolicy, class O, class P = px::Cyclic, class T = float, class Index = std::int64_t>
using OnDevice = Model<DensePolicy, RowPolicy, O, P, T, Index, px::CudaSpace>;

// Every policy that a device offers, rules with and without slots, both scalars and indices.
using Models = std::tuple<OnDevice<px::AllReduce, px::PsShard, px::Adagrad, px::Hash>,
                          OnDevice<px::PsShard, px::AllGather, px::LazyAdam, px::Cyclic, double, std::int32_t>,
                          OnDevice<px::PsShard, px::NaivePs, px::Sgd, px::Block>>;

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

}  // namespace

TEMPLATE_LIST_TEST_CASE("variables on a device end up with the oracle's bits", "[cuda][equivalence]", Models) {
  for (Case training : cases()) {
    if (training.ranks != 1 && training.ranks != 2 && training.ranks != 4) continue;
    training.steps = 12;
    for (std::size_t const which : {0, 1, 2}) check_on_device<TestType>(training, which);
  }
}

TEMPLATE_LIST_TEST_CASE("whatever order streams take, the bits are the same", "[cuda][equivalence]", Models) {
  std::uint64_t const first = emulated::first_seed("orders of streams");
  for (std::uint64_t seed = first; seed < first + 12; ++seed) {
    Case const training{.ranks = seed % 2 ? 2 : 4,
                        .hosts = seed % 4 ? std::vector<int>{} : std::vector<int>{0, 0, 1, 1},
                        .reduce = seed % 3 ? px::Reduce::mean : px::Reduce::mean_by_count,
                        .clips = true,
                        .seed = 200 + seed,
                        .steps = 12};
    CAPTURE(seed);
    emulated::Deferred const deferred{seed};
    check_on_device<TestType>(training, seed % 3);
  }
}
