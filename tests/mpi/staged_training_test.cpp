// Variables on a device, over processes of MPI that stage its memory, end with the bits of variables of the host over threads.
#include <cstddef>
#include <cstdint>
#include <tuple>
#include <vector>

#include "../catch.hpp"
#include "../cuda/deferred.hpp"
#include "../equivalence/training.hpp"
#include "../support/size.hpp"
#include "parallax/comm/mpi.hpp"
#include "parallax/comm/staged.hpp"
#include "parallax/kernel/cuda.cuh"

using namespace parallax_test;

namespace {

template <class DensePolicy, class RowPolicy, class O, class P, class T, class Index>
struct Pair {
  template <class Space>
  using In = Model<DensePolicy, RowPolicy, O, P, T, Index, Space>;
};
using Pairs = std::tuple<Pair<px::AllReduce, px::PsShard, px::Adagrad, px::Hash, float, std::int64_t>,
                         Pair<px::PsShard, px::AllGather, px::Adam, px::Cyclic, double, std::int32_t>,
                         Pair<px::PsShard, px::AllReduce, px::LazyAdam, px::Block, float, std::int64_t>>;

}  // namespace

TEMPLATE_LIST_TEST_CASE("training on a device that is staged over MPI gives the bits of the host's", "[cuda][equivalence][mpi]",
                        Pairs) {
  px::MpiCommunicator mpi;
  auto const rank = static_cast<std::size_t>(mpi.rank());
  std::uint64_t const first = emulated::first_seed("trainings staged over MPI");
  for (std::uint64_t seed = first; seed < first + sized(1u, 2u, 4u); ++seed) {
    Case training{.ranks = mpi.size(),
                  .reduce = seed % 2 ? px::Reduce::mean : px::Reduce::mean_by_count,
                  .clips = seed % 2 == 1,
                  .seed = 400 + seed,
                  .steps = sized(8, 50, 50)};
    INFO(training.text());
    using OnHost = typename TestType::template In<px::HostSpace>;
    std::vector<Diary<typename OnHost::T>> expected(static_cast<std::size_t>(training.ranks));
    px::run_threads(training.ranks, [&](px::ThreadCommunicator& world) {
      expected[static_cast<std::size_t>(world.rank())] = Trainer<OnHost, px::ThreadCommunicator>{world, training}.train();
    });
    emulated::Deferred const deferred{seed};
    px::CudaPool pool;
    px::CudaStream const stream;
    px::Staged<px::MpiCommunicator> world{mpi, {stream.get(), pool}};
    using OnDevice = typename TestType::template In<px::CudaSpace>;
    CHECK(same_bits(Trainer<OnDevice, decltype(world)>{world, training}.train(), expected[rank]));
  }
}
