// The trainer of embedding_bag.cuh on one device: ranks are threads that share it. Arguments: ranks (2), steps (60).
#include "embedding_bag.cuh"

#include <cstdlib>

#include "parallax/comm/cuda_thread.hpp"

int main(int argc, char** argv) {
  int devices = 0;
  if (!embedding_bag::device_answers(devices)) return 77;
  int const ranks = argc > 1 ? std::atoi(argv[1]) : 2, steps = argc > 2 ? std::atoi(argv[2]) : 60;
  double loss = 0;
  parallax::run_cuda_threads(ranks, [&](parallax::CudaThreadCommunicator& world) {
    double const found = embedding_bag::train(world, steps);
    if (world.rank() == 0) loss = found;
  });
  return embedding_bag::learnt(loss, steps) ? 0 : 1;
}
