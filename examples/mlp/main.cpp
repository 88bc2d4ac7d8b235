// Trains a dense network on handwritten digits, data-parallel: every layer's gradient starts while the next is computed.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <random>
#include <string_view>
#include <vector>

#include <parallax/comm/thread.hpp>
#include <parallax/interop/eigen.hpp>
#include <parallax/parallax.hpp>
#ifdef PARALLAX_HAS_MPI
#include <parallax/comm/mpi.hpp>
#endif

#include "digits.hpp"
#include "network.hpp"

namespace {

namespace px = parallax;
using Layer = px::Variable<px::Dense, px::Adam>;

// Collective; the accuracy on the test images.
template <px::Communicator World>
double train(World& world, mlp::Digits<float> const& digits, int epochs) {
  constexpr std::size_t batch = 16;  // images of one rank and step
  px::Session session{world};
  mlp::Mlp<float> network{{mlp::pixels, 64, 32, mlp::classes}};
  std::vector<Layer> layers;
  for (auto const& parameters : network.parameters())
    layers.emplace_back(session, "tensor " + std::to_string(layers.size()), px::bind(parameters), px::Adam{.learning_rate = 0.003});

  std::vector<std::size_t> order(digits.train.labels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random{7};  // the same order on every rank, which then takes its share
  mlp::Matrix<float> images(batch, mlp::pixels);
  std::vector<int> labels(batch);
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    std::ranges::shuffle(order, random);
    auto const mine = px::shard(order, world);
    double loss = 0;
    std::size_t steps = 0;
    for (std::size_t at = 0; at + batch <= mine.size(); at += batch, ++steps) {
      for (std::size_t i = 0; i < batch; ++i) {
        images.row(static_cast<Eigen::Index>(i)) = digits.train.pixels.row(static_cast<Eigen::Index>(mine[at + i]));
        labels[i] = digits.train.labels[mine[at + i]];
      }
      network.forward(images);
      auto const gradients = network.gradients();
      loss += network.backward(labels, [&](std::size_t k) {
        session.start(px::grad(layers[2 * k], gradients[2 * k]), px::grad(layers[2 * k + 1], gradients[2 * k + 1]));
      });
      session.step();
    }
    if (world.rank() == 0 && epoch % 5 == 0)
      std::printf("epoch %2d: loss %.4f, accuracy %.3f\n", epoch, loss / static_cast<double>(steps), network.accuracy(digits.test));
  }
  session.finish();
  return network.accuracy(digits.test);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    bool const smoke = argc > 1 && std::string_view{argv[1]} == "--smoke";
    auto const digits = mlp::read_digits<float>(mlp::default_digits());
    double accuracy = 0;
    int const epochs = smoke ? 10 : 30;
#ifdef PARALLAX_HAS_MPI
    if (std::getenv("PMI_RANK") || std::getenv("PMIX_RANK") || std::getenv("OMPI_COMM_WORLD_RANK")) {
      px::MpiEnvironment mpi{argc, argv};
      px::MpiCommunicator world;
      accuracy = train(world, digits, epochs);
      return accuracy > 0.9 ? 0 : 1;
    }
#endif
    px::run_threads(4, [&](px::ThreadCommunicator& world) {
      double const own = train(world, digits, epochs);
      if (world.rank() == 0) accuracy = own;
    });
    return accuracy > 0.9 ? 0 : 1;
  } catch (std::exception const& error) {
    std::fprintf(stderr, "mlp: %s\n", error.what());
    return 1;
  }
}
