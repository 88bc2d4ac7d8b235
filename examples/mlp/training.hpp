// Trains a dense network under a policy: every layer's gradient starts to travel while the next is computed.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <functional>
#include <numeric>
#include <random>
#include <string>
#include <vector>

#include <parallax/comm/any.hpp>
#include <parallax/parallax.hpp>

#include "digits.hpp"
#include "network.hpp"

namespace mlp {

namespace px = parallax;

// What an epoch showed, and the training so far; on all ranks alike but for the loss and the time.
struct Epoch {
  int number = 0;
  double seconds = 0;         // of training, without what looking takes
  double megabytes_sent = 0;  // by this rank
  double loss = 0;            // mean over this rank's share of the images
  double accuracy = 0;        // on the test images
};

// One rank's replica of the network. `Policy` says how gradients travel. All functions are collective.
template <class Policy>
class Trainer {
  using Layer = px::Variable<px::Dense, Policy, px::Adam>;
  using Share = px::Shard<std::vector<std::size_t>>;  // numbers of the images that are one rank's in an epoch

 public:
  explicit Trainer(px::AnyCommunicator& world) : session_{world}, network_{{pixels, 64, 32, classes}} {
    for (auto const& parameters : network_.parameters())
      layers_.emplace_back(session_, "tensor " + std::to_string(layers_.size()), px::bind(parameters),
                           px::Adam{.learning_rate = 0.003});
  }

  // Trains on this rank's share of the images; its mean loss.
  double train(Images<float> const& images, Share const& share) {
    auto const gradients = network_.gradients();
    double loss = 0;
    std::size_t const steps = share.size() / batch_size;
    for (std::size_t step = 0; step < steps; ++step) {
      batch_.read(images, share, step * batch_size);
      network_.forward(batch_.pixels);
      loss += network_.backward(batch_.labels, [&](std::size_t k) {
        session_.start(px::grad(layers_[2 * k], gradients[2 * k]), px::grad(layers_[2 * k + 1], gradients[2 * k + 1]));
      });
      session_.step();
    }
    return loss / static_cast<double>(steps);
  }

  double accuracy(Images<float> const& images) { return network_.accuracy(images); }
  px::Session<px::AnyCommunicator>& session() { return session_; }

 private:
  static constexpr std::size_t batch_size = 16;  // images of one rank and step

  struct Batch {
    Matrix<float> pixels{batch_size, mlp::pixels};
    std::vector<int> labels = std::vector<int>(batch_size);

    void read(Images<float> const& images, Share const& share, std::size_t first) {
      for (std::size_t i = 0; i < batch_size; ++i) {
        std::size_t const image = share[first + i];
        pixels.row(static_cast<Index>(i)) = images.pixels.row(static_cast<Index>(image));
        labels[i] = images.labels[image];
      }
    }
  };

  px::Session<px::AnyCommunicator> session_;
  Mlp<float> network_;
  std::vector<Layer> layers_;
  Batch batch_;
};

// Trains a new network; every rank calls `at_epoch` after each epoch. Collective; the last epoch.
template <class Policy>
Epoch train(px::AnyCommunicator& world, Digits<float> const& digits, int epochs,
            std::function<void(Epoch const&)> const& at_epoch) {
  using Clock = std::chrono::steady_clock;
  Trainer<Policy> trainer{world};
  std::vector<std::size_t> order(digits.train.labels.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random{7};  // the same order on every rank, which then takes its share
  Epoch epoch;
  while (epoch.number < epochs) {
    std::ranges::shuffle(order, random);
    auto const start = Clock::now();
    epoch.loss = trainer.train(digits.train, px::shard(order, world));
    epoch.seconds += std::chrono::duration<double>(Clock::now() - start).count();
    epoch.megabytes_sent = static_cast<double>(trainer.session().traffic().payload_sent()) / 1e6;
    epoch.accuracy = trainer.accuracy(digits.test);
    ++epoch.number;
    at_epoch(epoch);
  }
  trainer.session().finish();
  return epoch;
}

}  // namespace mlp
