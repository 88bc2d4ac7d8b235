// Trains a linear model by TopK, a policy of this example's own, beside AllReduce: what each has sent and learnt.
//
//   custom_policy                  4 ranks, threads of this process
//   mpiexec -n 2 custom_policy     MPI ranks, where the example was built with MPI
#include <cstdio>
#include <random>
#include <vector>

#include "../ranks.hpp"
#include "top_k.hpp"

namespace px = parallax;

namespace {

constexpr std::size_t inputs = 1'000;
constexpr int batch = 16;

// Learns y = x[3] - 2 x[7] from random x: mean squared error of the last step, of rank 0's batch.
template <class Policy>
void train(px::AnyCommunicator& world) {
  px::Session session{world};
  std::vector<float> weights(inputs), gradient(inputs), x(inputs);
  px::Variable<px::Dense, Policy> layer{session, "layer", px::bind(weights), px::Sgd{.learning_rate = 0.02}};
  std::mt19937 random{static_cast<unsigned>(world.rank())};
  std::normal_distribution<float> normal;
  float error = 0;
  for (int step = 0; step < 200; ++step) {
    std::ranges::fill(gradient, 0.0f);
    error = 0;
    for (int i = 0; i < batch; ++i) {
      for (std::size_t j = 0; j < 10; ++j) x[j] = normal(random);  // of the inputs only ten are ever there
      float missed = 2 * x[7] - x[3];
      for (std::size_t j = 0; j < inputs; ++j) missed += weights[j] * x[j];
      for (std::size_t j = 0; j < inputs; ++j) gradient[j] += missed * x[j] / batch;
      error += missed * missed / batch;
    }
    session.step(px::grad(layer, gradient));
  }
  if (world.rank() == 0) {
    std::printf("%s: error %.2g, %llu B sent by rank 0\n", Policy::name.data(), static_cast<double>(error),
                static_cast<unsigned long long>(session.traffic().payload_sent()));
    std::fputs(session.describe().c_str(), stdout);
  }
  session.finish();
}

}  // namespace

int main(int argc, char** argv) {
  auto const both = [](px::AnyCommunicator& world) {
    train<TopK<4>>(world);
    train<px::AllReduce>(world);
  };
  return px::run(argc, argv, both, {.threads = 4});
}
