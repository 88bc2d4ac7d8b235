// The trainings of the host's equality suite with variables on a device, on the emulator: the same bits, whatever order streams
// take.
#include <optional>
#include <tuple>

#include "../equivalence/equality.hpp"
#include "deferred.hpp"

#include "parallax/comm/cuda_thread.hpp"
#include "parallax/comm/staged.hpp"
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

// Ranks that copy on the device, and ranks whose blocks go by the host's memory.
template <class M>
Diaries<M> train_on_device(Case const& c, bool staged) {
  Diaries<M> diaries(static_cast<std::size_t>(c.ranks));
  if (!staged) {
    px::run_cuda_threads(c.ranks, [&](px::CudaThreadCommunicator& world) {
      diaries[static_cast<std::size_t>(world.rank())] = Trainer<M, px::CudaThreadCommunicator>{world, c}.train();
    });
    return diaries;
  }
  px::run_threads(c.ranks, [&](px::ThreadCommunicator& host) {
    px::CudaPool pool;
    px::CudaStream const stream;
    px::Staged<px::ThreadCommunicator> world{host, {stream.get(), &pool}};
    diaries[static_cast<std::size_t>(world.rank())] = Trainer<M, px::Staged<px::ThreadCommunicator>>{world, c}.train();
  });
  return diaries;
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("variables on a device end up with the oracle's bits", "[cuda][equivalence]", Models) {
  for (Case const& training : cases())
    if (training.ranks == 1 || training.ranks == 2 || training.ranks == 4)
      for (bool const staged : {false, true}) check_equality<TestType>(training, train_on_device<TestType>(training, staged));
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
    INFO("order of streams " << seed);
    emulated::Deferred const deferred{seed};
    check_equality<TestType>(training, train_on_device<TestType>(training, seed % 5 == 0));
  }
}
