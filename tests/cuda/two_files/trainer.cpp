// Trainings with variables on a device in a file for an ordinary compiler; kernels.cu has the kernels. Every rank sees, step by
// step, what it sees of variables in the host's memory, bit for bit. PARALLAX_HAS_NCCL: over NCCL as well, with a device for
// each rank; PARALLAX_EMULATED: over its stand-in.
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string>
#include <vector>

#include "../../equivalence/training.hpp"
#include "parallax/comm/cuda_thread.hpp"
#include "parallax/comm/staged.hpp"
#include "parallax/kernel/cuda/row_ops.hpp"
#if defined(PARALLAX_HAS_NCCL)
#include "../communicators.hpp"
#include "../../../benchmarks/baseline/naive_ps.hpp"
#endif

#if defined(PARALLAX_CUDA_INSTANTIATE)
#error "a header for every compiler has included kernels"
#endif

namespace {

using namespace parallax_test;

// Types of variables that kernels.cu instantiates, in the memory of a space.
template <class Space>
using Tables = Model<px::AllReduce, px::PsShard, px::Adagrad, px::Hash, float, std::int64_t, Space>;
template <class Space>
using Everywhere = Model<px::PsShard, px::AllReduce, px::LazyAdam, px::Cyclic, double, std::int32_t, Space>;
template <class Space>
using Plain = Model<px::PsShard, baseline::NaivePs, px::Sgd, px::Block, float, std::int32_t, Space>;

template <class M, class C>
void train_into(std::vector<Diary<typename M::T>>& diaries, C& world, Case const& c) {
  diaries[static_cast<std::size_t>(world.rank())] = Trainer<M, C>{world, c}.train();
}

// Over threads that share the device; and over the others.
template <template <class> class Types, bool others>
int wrong(Case const& c) {
  using OnHost = Types<px::HostSpace>;
  using OnDevice = Types<px::CudaSpace>;
  using Diaries = std::vector<Diary<typename OnHost::T>>;
  auto const ranks = static_cast<std::size_t>(c.ranks);
  Diaries expected(ranks);
  px::run_threads(c.ranks, [&](px::ThreadCommunicator& world) { train_into<OnHost>(expected, world, c); });
  int wrong = 0;
  auto const compare = [&](char const* by, auto const& run) {
    Diaries diaries(ranks);
    try {
      run(diaries);
    } catch (std::exception const& error) {
      std::printf("%s\n", error.what());
    }
    bool same = true;
    for (std::size_t rank = 0; rank < ranks; ++rank)
      same = same && !diaries[rank].empty() && same_bits(diaries[rank], expected[rank]);
    std::printf("%s, %s, %s: %s\n", OnDevice::name().c_str(), c.text().c_str(), by, same ? "the host's bits" : "WRONG");
    wrong += !same;
  };
  compare("threads", [&](Diaries& diaries) {
    px::run_cuda_threads(c.ranks, [&](px::CudaThreadCommunicator& world) { train_into<OnDevice>(diaries, world, c); });
  });
  if constexpr (others) {
    compare("staged", [&](Diaries& diaries) {
      px::run_threads(c.ranks, [&](px::ThreadCommunicator& host) {
        px::CudaPool pool;
        px::CudaStream const stream;
        px::Staged<px::ThreadCommunicator> world{host, {stream.get(), pool}};
        train_into<OnDevice>(diaries, world, c);
      });
    });
#if defined(PARALLAX_HAS_NCCL)
    int devices = 0;
    px::device::check(cudaGetDeviceCount(&devices), "cudaGetDeviceCount");
#if defined(PARALLAX_EMULATED)
    devices = c.ranks;  // the stand-in shares one
#endif
    if (c.ranks <= devices)
      compare("NCCL", [&](Diaries& diaries) {
        communicators::NcclThreads{c.ranks}.run(std::chrono::minutes{1},
                                                [&](auto& world) { train_into<OnDevice>(diaries, world, c); });
      });
#endif
  }
  return wrong;
}

// A table of an optimizer whose state is a number a row, pulled row by row and in bags, and moved to all ranks after a step.
int wrong_rowwise() {
  std::vector<float> on_host, on_device;
  auto const train = []<class Space>(auto& world, Space, std::vector<float>& seen) {
    px::Costs const few_rounds{.round = 1};  // AllGather has fewest
    px::Session session{world,
                        {.non_finite = px::NonFinite::error,
                         .choice = {.first_step = 1, .horizon = 1e30, .costs = few_rounds, .device_costs = few_rounds}}};
    px::Variable<px::Sparse, Space, px::Auto, px::RowwiseAdagrad, px::Index<std::int32_t>> words{
        session, "words", px::Table{.rows = 40, .width = 6, .initial = px::uniform(-1, 1)}, px::Reduce::mean_by_count};
    auto const& ops = words.state().ops();
    std::vector<std::int32_t> const ids{3, 17, 3, 39, world.rank()};
    std::vector<int> const offsets{0, 2, 5};
    for (int step = 0; step < 10; ++step) {
      auto const rows = session.pull(words, ids);
      auto const bags = session.pull(words.bags(ids, offsets, px::Pool::mean));
      std::vector<float> gradient(ids.size() * 6);
      for (std::size_t i = 0; i < gradient.size(); ++i)
        gradient[i] = static_cast<float>(i % 7) * 0.25f - static_cast<float>(step);
      Memory<float, Space> const there{ops, gradient};
      gradient.resize(2 * 6);
      Memory<float, Space> const of_bags{ops, gradient};
      session.step(px::grad(rows, there.span()), px::grad(bags, of_bags.span()));
    }
    auto const last = values_of(ops, session.pull(words, ids).values());
    if (world.rank() == 0 && words.state().choice() == 1) seen = last;  // by AllGather
    session.finish();
  };
  px::run_threads(2, [&](px::ThreadCommunicator& world) { train(world, px::HostSpace{}, on_host); });
  px::run_cuda_threads(2, [&](px::CudaThreadCommunicator& world) { train(world, px::CudaSpace{}, on_device); });
  bool const right = !on_host.empty() && on_host.size() == on_device.size() &&
                     std::memcmp(on_host.data(), on_device.data(), on_host.size() * sizeof(float)) == 0;
  std::printf("RowwiseAdagrad, 2 ranks: %s\n", right ? "the host's bits" : "WRONG");
  return !right;
}

}  // namespace

int main() {
  int devices = 0;
  if (cudaError_t const status = cudaGetDeviceCount(&devices); status != cudaSuccess || devices == 0) {
    std::printf("SKIPPED: no device answers: %s\n", cudaGetErrorString(status));
    return 77;
  }
  int found = wrong_rowwise();
  for (Case const& c : {Case{.ranks = 1, .reduce = px::Reduce::mean_by_count, .clips = true, .seed = 2, .steps = 12},
                        Case{.ranks = 2, .reduce = px::Reduce::mean, .clips = true, .seed = 3, .steps = 12},
                        Case{.ranks = 2, .reduce = px::Reduce::mean_by_count, .seed = 7, .steps = 12, .lent = true}})
    found += wrong<Tables, true>(c) + wrong<Everywhere, false>(c) + wrong<Plain, false>(c);
  return found ? 1 : 0;
}
