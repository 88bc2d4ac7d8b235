// Trains a dense network on handwritten digits, on threads or under mpiexec.
#include <cstdio>
#include <exception>
#include <string_view>

#include "../ranks.hpp"
#include "training.hpp"

namespace px = parallax;

int main(int argc, char** argv) {
  try {
    int const epochs = argc > 1 && std::string_view{argv[1]} == "--smoke" ? 10 : 30;
    auto const digits = mlp::read_digits<float>();
    return example::run_ranks(argc, argv, 4, [&](px::AnyCommunicator& world) {
      auto const last = mlp::train<px::AllReduce>(world, digits, epochs, [&](mlp::Epoch const& epoch) {
        if (world.rank() == 0 && epoch.number % 5 == 0)
          std::printf("epoch %2d: loss %.4f, accuracy %.3f\n", epoch.number, epoch.loss, epoch.accuracy);
      });
      return last.accuracy > 0.9 ? 0 : 1;
    });
  } catch (std::exception const& error) {
    std::fprintf(stderr, "mlp: %s\n", error.what());
    return 1;
  }
}
