// Trains a dense network on handwritten digits, on threads, or on other ranks that its command line asks for.
#include <cstdio>
#include <exception>

#include "../ranks.hpp"
#include "training.hpp"

namespace px = parallax;

int main(int argc, char** argv) {
  try {
    auto const arguments = px::own_arguments(argc, argv);
    int const epochs = !arguments.empty() && arguments[0] == "--smoke" ? 10 : 30;
    auto const digits = mlp::read_digits<float>();
    auto const body = [&](px::AnyCommunicator& world) {
      auto const last = mlp::train<px::AllReduce>(world, digits, epochs, [&](mlp::Epoch const& epoch) {
        if (world.rank() == 0 && epoch.number % 5 == 0)
          std::printf("epoch %2d: loss %.4f, accuracy %.3f\n", epoch.number, epoch.loss, epoch.accuracy);
      });
      return last.accuracy > 0.9 ? 0 : 1;
    };
    return px::run(argc, argv, body, {.threads = 4});
  } catch (std::exception const& error) {
    std::fprintf(stderr, "mlp: %s\n", error.what());
    return 1;
  }
}
