// A training of a table and a layer, over any communicator that carries device memory: its bits beside those of variables in
// the host's memory, and the time of its steps.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

#include "parallax/kernel/cuda.cuh"
#include "parallax/parallax.hpp"
#include "shared.hpp"

namespace gpu_check {

namespace px = parallax;

struct Shape {
  std::int64_t rows, width;
  std::size_t ids;  // of a rank's batch
  std::string_view distribution;
  std::size_t layer = 1 << 18;  // elements
};

// Waits for the stream; over NCCL under the deadline.
template <class C>
void wait_for_stream(C& world) {
  if constexpr (requires { world.synchronize(); }) world.synchronize();
  else px::cuda::check(cudaStreamSynchronize(world.queue().stream), "cudaStreamSynchronize");
}

// `there`: whether the indices are in the device's memory.
template <class Space, bool there, class C>
class Training {
 public:
  Training(C& world, Shape const& shape, px::Initializer initial)
      : ops_{ops_of(world)},
        layer_values_(shape.layer),
        layer_gradient_(shape.layer),
        row_gradients_(shape.ids * static_cast<std::size_t>(shape.width)),
        session_{world},
        layer_{session_, "layer", px::bind(filled(layer_values_, 7))},
        table_{session_, "table", px::Table{.rows = shape.rows, .width = shape.width, .initial = initial}} {
    auto const rank = static_cast<unsigned>(world.rank());
    filled(layer_gradient_, 100 + rank);
    filled(row_gradients_, 200 + rank);
    for (unsigned k = 0; k < 4; ++k) {
      auto const ids = drawn_ids<std::int64_t>(shape.ids, shape.rows, shape.distribution, 10 * rank + k);
      batches_.emplace_back(ids.size());
      if constexpr (there) ops_.from_host(batches_.back().data(), ids.data(), ids.size());
      else std::copy(ids.begin(), ids.end(), batches_.back().data());
    }
  }

  // On one of the batches; `pulled` is called when the pull has returned.
  template <class F>
  void step(int k, F const& pulled) {
    auto const rows = session_.pull(table_, named(batches_[static_cast<std::size_t>(k) % batches_.size()]));
    pulled();
    session_.step(px::grad(layer_, layer_gradient_.span()), px::grad(rows, row_gradients_.span()));
  }

  // The rows that this rank holds, and the layer.
  std::vector<float> values() {
    auto const rows = table_.local();
    auto const held = static_cast<std::size_t>(rows.rows * rows.width);
    std::vector<float> all(held + layer_values_.size());
    ops_.to_host(all.data(), rows.data, held);
    ops_.to_host(all.data() + held, layer_values_.data(), layer_values_.size());
    return all;
  }
  void finish() { session_.finish(); }

 private:
  static px::RowOps<Space> ops_of(C& world) {
    if constexpr (std::is_same_v<Space, px::CudaSpace>) return px::RowOps<Space>{world.queue()};
    else return {};
  }
  using Batch = px::Buffer<std::int64_t, std::conditional_t<there, Space, px::HostSpace>>;
  static auto named(Batch const& ids) {
    if constexpr (there) return px::on_device(ids.span());
    else return ids.span();
  }
  std::span<float> filled(px::Buffer<float, Space>& buffer, unsigned seed) {
    std::mt19937 random{seed};
    std::uniform_real_distribution<float> uniform{-1, 1};
    std::vector<float> values(buffer.size());
    for (float& value : values) value = uniform(random);
    ops_.from_host(buffer.data(), values.data(), values.size());
    return buffer.span();
  }

  px::RowOps<Space> ops_;
  px::Buffer<float, Space> layer_values_, layer_gradient_, row_gradients_;
  px::Session<C> session_;
  px::Variable<px::Dense, Space, px::Sgd> layer_;
  px::Variable<px::Sparse, Space, px::Adagrad> table_;
  std::vector<Batch> batches_;
};

inline std::string shape_text(int ranks, char const* over, Shape const& shape) {
  return "\"over\": " + quoted(over) + ", \"ranks\": " + std::to_string(ranks) + ", \"rows\": " + std::to_string(shape.rows) +
         ", \"ids\": " + std::to_string(shape.ids) + ", \"width\": " + std::to_string(shape.width) +
         ", \"distribution\": " + quoted(shape.distribution);
}

template <class Space, bool there = false, class C>
std::vector<float> values_after(int steps, C& world, Shape const& shape) {
  Training<Space, there, C> training{world, shape, px::uniform(-1, 1)};
  for (int k = 0; k < steps; ++k) training.step(k, [] {});
  auto values = training.values();
  training.finish();
  return values;
}

// Whether variables on the device have the host's bits after some steps, once with indices of the host's and twice with the
// device's. Collective; rank 0 prints it.
template <class C>
bool training_has_host_bits(C& world, char const* over, Shape const& shape, int steps = 3) {
  auto const host = values_after<px::HostSpace>(steps, world, shape), once = values_after<px::CudaSpace>(steps, world, shape),
             there = values_after<px::CudaSpace, true>(steps, world, shape),
             again = values_after<px::CudaSpace, true>(steps, world, shape);
  auto const same = [](std::vector<float> const& a, std::vector<float> const& b) {
    return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
  };
  bool host_bits = true, same_again = true;
  for (int const each : px::allgather(world, (same(host, once) && same(host, there) ? 1 : 0) + (same(there, again) ? 2 : 0)))
    host_bits = host_bits && (each & 1), same_again = same_again && (each & 2);
  if (world.rank() == 0)
    print_object("\"training\": \"Adagrad and Sgd\", " + shape_text(world.size(), over, shape) +
                 ", \"host_bits\": " + boolean(host_bits) + ", \"same_again\": " + boolean(same_again));
  return host_bits && same_again;
}

class Clock {
 public:
  double microseconds() const { return std::chrono::duration<double, std::micro>{Now::now() - begin_}.count(); }

 private:
  using Now = std::chrono::steady_clock;
  Now::time_point begin_ = Now::now();
};

// Prints rank 0's times: of `pull` and of `step`, each waited for, and of a whole step in a row of `block` that is waited for
// once. Collective.
template <bool there, class C>
void print_step_times(C& world, char const* over, Shape const& shape, int samples, int block) {
  Training<px::CudaSpace, there, C> training{world, shape, px::constant(0.5)};
  std::vector<double> pulls, steps, whole;
  for (int i = -2; i < samples; ++i) {
    wait_for_stream(world);
    px::barrier(world);
    Clock const clock;
    double pulled = 0;
    training.step(i + 2, [&] {
      wait_for_stream(world);
      pulled = clock.microseconds();
    });
    wait_for_stream(world);
    double const end = clock.microseconds();
    if (i >= 0) pulls.push_back(pulled), steps.push_back(end - pulled);
  }
  for (int i = 0; i < samples; ++i) {
    px::barrier(world);
    Clock const clock;
    for (int k = 0; k < block; ++k) training.step(k, [] {});
    wait_for_stream(world);
    whole.push_back(clock.microseconds() / block);
  }
  training.finish();
  if (world.rank() != 0) return;
  auto const print = [&](char const* part, std::vector<double> const& times) {
    print_object("\"part\": " + quoted(part) + ", " + shape_text(world.size(), over, shape) +
                 ", \"indices\": " + quoted(there ? "device" : "host") + ", " + times_text(times));
  };
  print("pull", pulls), print("step", steps), print("whole", whole);
}

}  // namespace gpu_check
