// Trains a dense network on handwritten digits: every layer's gradient starts to travel while the next is computed.
#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <numeric>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include <parallax/parallax.hpp>

#include "../ranks.hpp"
#include "digits.hpp"
#include "network.hpp"

namespace {

namespace px = parallax;
using Layer = px::Variable<px::Dense, px::Adam>;
using Session = px::Session<px::AnyCommunicator>;
using Share = px::Shard<std::vector<std::size_t>>;  // numbers of the images that are one rank's in an epoch

constexpr std::size_t batch_size = 16;  // images of one rank and step

struct Batch {
  mlp::Matrix<float> pixels{batch_size, mlp::pixels};
  std::vector<int> labels = std::vector<int>(batch_size);

  void read(mlp::Images<float> const& images, Share const& share, std::size_t first) {
    for (std::size_t i = 0; i < batch_size; ++i) {
      std::size_t const image = share[first + i];
      pixels.row(static_cast<mlp::Index>(i)) = images.pixels.row(static_cast<mlp::Index>(image));
      labels[i] = images.labels[image];
    }
  }
};

std::vector<Layer> make_layers(Session& session, mlp::Mlp<float>& network) {
  std::vector<Layer> layers;
  for (auto const& parameters : network.parameters())
    layers.emplace_back(session, "tensor " + std::to_string(layers.size()), px::bind(parameters),
                        px::Adam{.learning_rate = 0.003});
  return layers;
}

// Collective; the mean loss over this rank's share of the images.
double train_epoch(Session& session, mlp::Mlp<float>& network, std::vector<Layer>& layers,
                   mlp::Images<float> const& images, Share const& share) {
  Batch batch;
  auto const gradients = network.gradients();
  double loss = 0;
  std::size_t const steps = share.size() / batch_size;
  for (std::size_t step = 0; step < steps; ++step) {
    batch.read(images, share, step * batch_size);
    network.forward(batch.pixels);
    loss += network.backward(batch.labels, [&](std::size_t k) {
      session.start(px::grad(layers[2 * k], gradients[2 * k]), px::grad(layers[2 * k + 1], gradients[2 * k + 1]));
    });
    session.step();
  }
  return loss / static_cast<double>(steps);
}

// Collective; the accuracy on the test images.
double train(px::AnyCommunicator& world, mlp::Digits<float> const& digits, int epochs) {
  Session session{world};
  mlp::Mlp<float> network{{mlp::pixels, 64, 32, mlp::classes}};
  std::vector<Layer> layers = make_layers(session, network);
  std::vector<std::size_t> order(digits.train.labels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random{7};  // the same order on every rank, which then takes its share
  for (int epoch = 1; epoch <= epochs; ++epoch) {
    std::ranges::shuffle(order, random);
    double const loss = train_epoch(session, network, layers, digits.train, px::shard(order, world));
    if (world.rank() == 0 && epoch % 5 == 0)
      std::printf("epoch %2d: loss %.4f, accuracy %.3f\n", epoch, loss, network.accuracy(digits.test));
  }
  session.finish();
  return network.accuracy(digits.test);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    int const epochs = argc > 1 && std::string_view{argv[1]} == "--smoke" ? 10 : 30;
    auto const digits = mlp::read_digits<float>();
    return example::run_ranks(argc, argv, 4, [&](px::AnyCommunicator& world) {
      return train(world, digits, epochs) > 0.9 ? 0 : 1;
    });
  } catch (std::exception const& error) {
    std::fprintf(stderr, "mlp: %s\n", error.what());
    return 1;
  }
}
