// The DLRM of dlrm.cuh on the devices of this host. The class Distributed below is what makes it so: the layers' gradients are
// summed over all ranks, and the 26 tables are a stack that is dealt to them. Each rank has a device of its own, and NCCL joins them, where
// PARALLAX_HAS_NCCL is defined and there are devices enough; else ranks share one. Arguments: ranks (as many as devices), steps
// (500), samples of a rank's batch (64).
#include "dlrm.cuh"

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <string>
#include <vector>

#include "parallax/comm/cuda_thread.hpp"
#include "parallax/parallax.hpp"
#include "parallax/variable/stack.hpp"
#if defined(PARALLAX_HAS_NCCL)
#include "parallax/comm/nccl/run.hpp"
#endif

namespace px = parallax;

namespace {

using dlrm::Clicks, dlrm::Network;

// All that a trainer says to parallax: what is trained, which rows a batch needs, and what the gradients are.
template <px::Communicator C>
class Distributed {
  using Weights = px::Variable<px::Dense, px::CudaSpace, px::Adagrad>;
  using Tables = px::Variable<px::Sparse, px::CudaSpace, px::RowwiseAdagrad>;

 public:
  Distributed(C& world, Network& network)
      : session_{world}, tables_{session_, "tables", px::Stack{shapes()}, px::RowwiseAdagrad{.learning_rate = 0.02}} {
    for (std::size_t l = 0; l < dlrm::layers.size(); ++l)
      weights_.emplace_back(session_, "layer " + std::to_string(l), px::bind(network.weights(l)),
                            px::Adagrad{.learning_rate = 0.05});
  }

  // The bags of all tables. Ids and offsets stay in the device's memory.
  auto pull(Clicks const& batch) {
    return session_.pull(tables_.bags(px::on_device(batch.ids()), px::on_device(batch.offsets())));
  }

  // One update of all layers and of the rows that were pulled.
  template <class Bags>
  void step(Bags const& bags, Network const& network) {
    px::Updates<Weights> of_layers;
    for (std::size_t l = 0; l < weights_.size(); ++l) of_layers.push_back(px::grad(weights_[l], network.weight_gradient(l)));
    session_.step(of_layers, px::grad(bags, network.bag_gradients()));
  }

  void finish() { session_.finish(); }

 private:
  static std::vector<px::Table> shapes() {
    std::vector<px::Table> shapes;
    for (int t = 0; t < dlrm::tables; ++t) shapes.push_back({dlrm::rows_of(t), dlrm::width, px::uniform(-0.05, 0.05)});
    return shapes;
  }

  px::Session<C> session_;
  std::vector<Weights> weights_;
  Tables tables_;
};

// What was learnt: the mean logistic loss, and that of always guessing how many are clicked.
struct Losses {
  double of_network, of_rate;
};

void clear(px::DeviceBuffer<float>& buffer) {
  px::device::check(cudaMemsetAsync(buffer.data(), 0, buffer.size() * sizeof(float), buffer.stream()), "cudaMemsetAsync");
}

// Collective. Reads the totals, [2 x samples], of the last so many steps on all ranks, and clears them. Waits for the device.
template <px::Communicator C>
Losses report(C& world, int steps, px::DeviceBuffer<float>& totals) {
  px::CudaQueue const queue = world.queue();
  std::vector<float> here(totals.size());
  totals.copy_to(here.data(), here.size());
  queue.wait();
  clear(totals);
  auto const middle = here.begin() + static_cast<std::ptrdiff_t>(here.size() / 2);
  std::array sums{std::accumulate(here.begin(), middle, 0.0), std::accumulate(middle, here.end(), 0.0)};
  px::allreduce(world, std::span{sums});
  double const samples = static_cast<double>(here.size() / 2) * world.size() * steps, rate = sums[1] / samples;
  return {sums[0] / samples, -rate * std::log(rate) - (1 - rate) * std::log(1 - rate)};
}

// Over any communicator that carries device memory. Collective. Returns the losses of the last steps.
template <px::Communicator C>
Losses train(C& world, int steps, int samples) {
  Network network{world.queue(), samples};
  Clicks batch{world.queue(), samples};
  auto totals = dlrm::buffer<float>(world.queue(), 2 * samples);
  Distributed<C> distributed{world, network};
  clear(totals);
  Losses losses{};
  for (int step = 0; step < steps; ++step) {
    batch.next(static_cast<std::uint64_t>((step * world.size() + world.rank()) * samples));
    auto const bags = distributed.pull(batch);
    network.learn(batch, bags.values().data, totals.data());
    distributed.step(bags, network);
    if ((step + 1) % 50 && step + 1 < steps) continue;
    losses = report(world, step % 50 + 1, totals);
    if (world.rank() == 0) std::printf("step %d: loss %.4f, of guessing %.4f\n", step + 1, losses.of_network, losses.of_rate);
  }
  distributed.finish();
  return losses;
}

int run(int argc, char** argv) {
  int devices = 0;
  cudaError_t const status = cudaGetDeviceCount(&devices);
  if (status != cudaSuccess || devices == 0) {
    std::printf("SKIPPED: no device answers: %s\n", cudaGetErrorString(status));
    return 77;
  }
  int const ranks = argc > 1 ? std::atoi(argv[1]) : devices, steps = argc > 2 ? std::atoi(argv[2]) : 500,
            samples = argc > 3 ? std::atoi(argv[3]) : 64;
  Losses last{};
  char const* where = "on one device";
  auto const body = [&](auto& world) {
    Losses const losses = train(world, steps, samples);
    if (world.rank() == 0) last = losses;
  };
#if defined(PARALLAX_HAS_NCCL)
  if (ranks <= devices) {
    std::vector<int> of_ranks = px::all_devices();
    of_ranks.resize(static_cast<std::size_t>(ranks));
    where = "on devices of their own";
    px::run_nccl(of_ranks, body);
  } else
#endif
    px::run_cuda_threads(ranks, body);
  bool const enough = steps >= 80, learnt = last.of_network < 0.9 * last.of_rate;
  std::printf("%d ranks %s, %d steps: loss %.4f, of guessing %.4f: %s\n", ranks, where, steps, last.of_network, last.of_rate,
              learnt   ? "learnt"
              : enough ? "NOT LEARNT"
                       : "too few steps");
  return learnt || !enough ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(argc, argv);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "dlrm: %s\n", error.what());
    return 1;
  }
}
