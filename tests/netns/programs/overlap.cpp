// How much of an exchange hides behind the backward pass: a dense model trained with and without start and poll.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

#include <parallax/comm/mpi.hpp>
#include <parallax/parallax.hpp>

namespace {

namespace px = parallax;

constexpr std::size_t layers = 12, layer_size = 350'000;  // 16.8 MB in all: between 2 hosts 134 ms at 1 Gbit/s
constexpr int repetitions = 25;
constexpr double bar = 0.4;  // of the unoverlapped time

double now() {
  return std::chrono::duration<double>{std::chrono::steady_clock::now().time_since_epoch()}.count();
}

// The value below which a fifth of them lies: what else the machine does only adds time.
double lowest_fifth(std::vector<double> values) {
  auto const at = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 5);
  std::ranges::nth_element(values, at);
  return *at;
}

// Stands in for the backward pass of a layer: keeps the processor busy for so many seconds, in slices of some 0.3 ms
// with `between` after each, which does not count. Returns the time of the slices.
template <class Between>
double backward(double seconds, Between const& between) {
  double spent = 0;
  while (spent < seconds) {
    double const begin = now();
    float volatile value = 1.0f;
    float x = value;
    for (int i = 0; i < 60'000; ++i) x = x * 0.999f + 0.5f;  // each needs the one before
    value = x;
    spent += now() - begin;
    between();
  }
  return spent;
}

// All functions are collective. They return the exposed seconds of a step, in which the slowest rank does not compute.
class Trainer {
 public:
  explicit Trainer(px::MpiCommunicator& world) : world_{world}, session_{world} {
    for (auto& values : parameters_)
      variables_.emplace_back(session_, "layer " + std::to_string(variables_.size()), px::bind(values));
    for (std::size_t i = 0; i < layers; ++i) updates_.push_back(px::grad(variables_[i], gradients_[i]));
  }

  double in_sequence(double pass) {
    return exposed([&] {
      double const computed = backward(pass, [] {});
      session_.step(updates_);
      return computed;
    });
  }
  double overlapped(double pass) {
    return exposed([&] {
      double computed = 0;
      for (std::size_t i = layers; i-- > 0;) {
        computed += backward(pass / layers, [&] { session_.poll(); });
        session_.start(updates_[i]);
      }
      session_.step();
      return computed;
    });
  }
  void finish() { session_.finish(); }

 private:
  template <class Step>
  double exposed(Step const& step) {
    px::barrier(world_);
    double const begin = now(), computed = step();
    return std::ranges::max(px::allgather(world_, now() - begin - computed));
  }

  px::MpiCommunicator& world_;
  px::Session<px::MpiCommunicator> session_;
  std::vector<std::vector<float>> parameters_{layers, std::vector<float>(layer_size)};
  std::vector<std::vector<float>> gradients_{layers, std::vector<float>(layer_size, 0.5f)};
  std::vector<px::Variable<px::Dense>> variables_;
  std::vector<decltype(px::grad(variables_[0], gradients_[0]))> updates_;
};

// Whether little enough of the exchange is exposed. The two ways take turns, so that what else the machine does meets
// both.
bool measure(px::MpiCommunicator& world) {
  Trainer trainer{world};
  for (int i = 0; i < 2; ++i) trainer.in_sequence(0), trainer.overlapped(0);  // connections and memory
  std::vector<double> exchange, in_sequence, overlapped;
  for (int i = 0; i < repetitions; ++i) exchange.push_back(trainer.in_sequence(0));
  double const pass = lowest_fifth(exchange);  // alike on all ranks
  for (int i = 0; i < repetitions; ++i) {
    in_sequence.push_back(trainer.in_sequence(pass));
    overlapped.push_back(trainer.overlapped(pass));
  }
  trainer.finish();
  double const all = lowest_fifth(in_sequence), rest = lowest_fifth(overlapped);
  if (world.rank() == 0)
    std::printf("exchange and backward pass %.1f ms each; exposed: in sequence %.1f ms, overlapped %.1f ms, "
                "ratio %.3f\n",
                1e3 * pass, 1e3 * all, 1e3 * rest, rest / all);
  return rest <= bar * all;
}

}  // namespace

int main(int argc, char** argv) {
  px::MpiEnvironment const mpi{argc, argv};
  px::MpiCommunicator world;
  if (measure(world)) return 0;
  if (world.rank() == 0) std::printf("FAILED: more than %.1f of the exchange was exposed\n", bar);
  return 1;
}
