// The example's training over NCCL's stand-in, whose ranks are threads: as the one over threads that share a device. Argument:
// ranks.
#include "../../examples/cuda/embedding_bag.cuh"

#include "communicators.hpp"

int main(int, char** argv) {
  int const ranks = std::atoi(argv[1]), steps = 60;
  std::vector<double> by_nccl(static_cast<std::size_t>(ranks)), by_threads = by_nccl;
  auto const train_into = [&](std::vector<double>& losses) {
    return [&](auto& world) { losses[static_cast<std::size_t>(world.rank())] = embedding_bag::train(world, steps); };
  };
  communicators::NcclThreads{ranks, true, false}.run(std::chrono::minutes{1}, train_into(by_nccl));
  communicators::CudaThreads{ranks}.run(std::chrono::minutes{1}, train_into(by_threads));
  bool right = ranks > 2 || by_nccl == by_threads;  // NCCL may sum in another order: of two addends there is but one
  for (double const loss : by_nccl) right = right && loss == by_nccl[0] && embedding_bag::learnt(loss, steps);
  return right ? 0 : 1;
}
