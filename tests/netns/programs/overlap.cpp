// How much of an exchange hides behind the backward pass: step times with and without start and poll, across two hosts.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>
#include <vector>

#include <parallax/comm/mpi.hpp>
#include <parallax/parallax.hpp>

namespace {

namespace px = parallax;
using Seconds = std::chrono::duration<double>;

constexpr std::size_t layers = 8, layer_size = std::size_t{1} << 19;  // 16 MB in all: some 130 ms at 1 Gbit/s
constexpr int repetitions = 9, attempts = 3;
constexpr double bar = 0.4;

double now() { return Seconds{std::chrono::steady_clock::now().time_since_epoch()}.count(); }

double median(std::vector<double> values) {
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::ranges::nth_element(values, middle);
  return *middle;
}

// Stands in for a backward pass: so much arithmetic for a layer, in slices between which a trainer may poll.
class Backward {
 public:
  // So many slices of about a quarter of a millisecond that a pass takes `seconds`.
  explicit Backward(double seconds) {
    std::vector<double> times;
    for (int i = 0; i < 200; ++i) {
      double const begin = now();
      slice();
      times.push_back(now() - begin);
    }
    slices_ = std::max<std::size_t>(1, static_cast<std::size_t>(seconds / median(times) / layers));
  }

  template <class Between>
  void layer(Between const& between) const {
    for (std::size_t i = 0; i < slices_; ++i) {
      slice();
      between();
    }
  }
  std::size_t slices() const { return slices_; }

 private:
  static void slice() {
    float volatile start = 1.0f;
    float x = start;
    for (int i = 0; i < 60'000; ++i) x = x * 0.999f + 0.5f;  // each needs the one before
    start = x;
  }

  std::size_t slices_ = 1;
};

class Trainer {
 public:
  explicit Trainer(px::MpiCommunicator& world) : world_{world}, session_{world} {
    for (auto& values : parameters_)
      variables_.emplace_back(session_, "layer " + std::to_string(variables_.size()), px::bind(values));
    for (std::size_t i = 0; i < layers; ++i) updates_.push_back(px::grad(variables_[i], gradients_[i]));
    for (int i = 0; i < 2; ++i) session_.step(updates_);
  }

  double exchange() {
    return timed([&] { session_.step(updates_); });
  }
  double compute(Backward const& backward) {
    return timed([&] {
      for (std::size_t i = 0; i < layers; ++i) backward.layer([] {});
    });
  }
  double in_sequence(Backward const& backward) {
    return timed([&] {
      for (std::size_t i = 0; i < layers; ++i) backward.layer([] {});
      session_.step(updates_);
    });
  }
  double overlapped(Backward const& backward) {
    return timed([&] {
      for (std::size_t i = layers; i-- > 0;) {
        backward.layer([&] { session_.poll(); });
        session_.start(updates_[i]);
      }
      session_.step();
    });
  }
  void finish() { session_.finish(); }

 private:
  // Collective. The slowest rank's seconds.
  template <class Step>
  double timed(Step const& step) {
    px::barrier(world_);
    double const begin = now();
    step();
    return std::ranges::max(px::allgather(world_, now() - begin));
  }

  px::MpiCommunicator& world_;
  px::Session<px::MpiCommunicator> session_;
  std::vector<std::vector<float>> parameters_{layers, std::vector<float>(layer_size)};
  std::vector<std::vector<float>> gradients_{layers, std::vector<float>(layer_size, 0.5f)};
  std::vector<px::Variable<px::Dense>> variables_;
  std::vector<decltype(px::grad(variables_[0], gradients_[0]))> updates_;
};

// True if little enough of the exchange is exposed. The ways take turns, so that what else the machine does meets them all.
bool measure(px::MpiCommunicator& world) {
  Trainer trainer{world};
  std::vector<double> exchange, compute, in_sequence, overlapped;
  for (int i = 0; i < repetitions; ++i) exchange.push_back(trainer.exchange());
  Backward const backward{median(px::allgather(world, median(exchange)))};
  for (int i = 0; i < repetitions; ++i) {
    compute.push_back(trainer.compute(backward));
    in_sequence.push_back(trainer.in_sequence(backward));
    overlapped.push_back(trainer.overlapped(backward));
  }
  trainer.finish();
  double const pass = median(compute), exposed = median(overlapped) - pass, unoverlapped = median(in_sequence) - pass;
  if (world.rank() == 0)
    std::printf("exchange %.1f ms, backward pass %.1f ms (%zu slices a layer); exposed: in sequence %.1f ms, overlapped %.1f ms, "
                "ratio %.3f\n", 1e3 * median(exchange), 1e3 * pass, backward.slices(), 1e3 * unoverlapped, 1e3 * exposed,
                exposed / unoverlapped);
  return exposed <= bar * unoverlapped;
}

}  // namespace

int main(int argc, char** argv) {
  px::MpiEnvironment const mpi{argc, argv};
  px::MpiCommunicator world;
  for (int i = 0; i < attempts; ++i)
    if (measure(world)) return 0;
  if (world.rank() == 0) std::printf("FAILED: more than %.1f of the exchange was exposed, %d times\n", bar, attempts);
  return 1;
}
