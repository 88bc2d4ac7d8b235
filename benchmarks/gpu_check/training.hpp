// A training of a table and a layer, over any communicator that carries device memory: its bits beside those of variables in
// the host's memory, and the time of its steps.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <type_traits>
#include <vector>

#include "parallax/kernel/cuda.cuh"
#include "parallax/parallax.hpp"
#include "parallax/session/progress_thread.hpp"
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
  else px::device::check(cudaStreamSynchronize(world.queue().stream), "cudaStreamSynchronize");
}

// What a training does beside pulling rows and a step of all gradients.
struct Ways {
  bool bags = false;    // rows are pulled in bags of five, of which the mean is taken
  bool clips = false;   // by the norm of all gradients together
  bool starts = false;  // the layer's gradient, before the table's is there
  bool helped = false;  // by a thread that looks after what was started
  px::NonFinite non_finite = px::NonFinite::propagate;
};

// `there`: whether the indices are in the device's memory. `O`: the table's optimizer. `Kept`: as what its rows are kept.
template <class Space, bool there, class O, class C, class Kept = float>
class Training {
 public:
  Training(C& world, Shape const& shape, px::Initializer initial, Ways ways = {})
      : ways_{ways},
        ops_{ops_of(world)},
        layer_values_(shape.layer),
        layer_gradient_(shape.layer),
        row_gradients_(shape.ids * static_cast<std::size_t>(shape.width)),
        session_{world, {.non_finite = ways.non_finite}},
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
    for (std::size_t at = 0; at < shape.ids; at += 5) offsets_.push_back(static_cast<std::int64_t>(at));
    bag_elements_ = offsets_.size() * static_cast<std::size_t>(shape.width);
    offsets_.push_back(static_cast<std::int64_t>(shape.ids));
    if (ways.helped) helper_ = std::make_unique<px::ProgressThread<px::Session<C>>>(session_);
  }

  // On one of the batches; `pulled` is called when the pull has returned.
  template <class F>
  void step(int k, F const& pulled) {
    auto const ids = named(batches_[static_cast<std::size_t>(k) % batches_.size()]);
    if (ways_.bags) {
      auto const rows = session_.pull(table_.bags(ids, offsets_, px::Pool::mean));
      pulled();
      update(rows, row_gradients_.span().first(bag_elements_));
    } else {
      auto const rows = session_.pull(table_, ids);
      pulled();
      update(rows, row_gradients_.span());
    }
  }
  // The next step finds an element that is none in the layer's gradient. Local.
  void spoil(std::size_t element) {
    float const infinite = std::numeric_limits<float>::infinity();
    ops_.from_host(layer_gradient_.data() + element, &infinite, 1);
  }

  // The rows that this rank holds, and the layer.
  std::vector<float> values() {
    auto const rows = table_.local();
    auto const held = static_cast<std::size_t>(rows.rows * rows.width);
    std::vector<float> all(held + layer_values_.size());
    std::vector<Kept> kept(held);
    ops_.to_host(kept.data(), rows.data, held);
    std::transform(kept.begin(), kept.end(), all.begin(), [](Kept value) { return static_cast<float>(value); });
    ops_.to_host(all.data() + held, layer_values_.data(), layer_values_.size());
    return all;
  }
  void finish() {
    helper_.reset();
    session_.finish();
  }

 private:
  template <class Rows>
  void update(Rows const& rows, std::span<float const> gradients) {
    std::span<float const> const of_layer = layer_gradient_.span();
    if (ways_.starts) {
      session_.start(px::grad(layer_, of_layer));
      session_.step(px::grad(rows, gradients));
    } else if (ways_.clips) {
      session_.step(px::clip_by_global_norm(0.5, px::grad(layer_, of_layer), px::grad(rows, gradients)));
    } else {
      session_.step(px::grad(layer_, of_layer), px::grad(rows, gradients));
    }
  }
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

  Ways ways_;
  px::RowOps<Space> ops_;
  px::Buffer<float, Space> layer_values_, layer_gradient_, row_gradients_;
  px::Session<C> session_;
  px::Variable<px::Dense, Space, px::Sgd> layer_;
  px::Variable<px::Sparse, Kept, Space, O> table_;
  std::vector<Batch> batches_;
  std::vector<std::int64_t> offsets_;
  std::size_t bag_elements_ = 0;
  std::unique_ptr<px::ProgressThread<px::Session<C>>> helper_;  // the first to go
};

inline std::string shape_text(int ranks, char const* over, Shape const& shape) {
  return "\"over\": " + json_string(over) + ", \"ranks\": " + std::to_string(ranks) +
         ", \"rows\": " + std::to_string(shape.rows) + ", \"ids\": " + std::to_string(shape.ids) +
         ", \"width\": " + std::to_string(shape.width) + ", \"distribution\": " + json_string(shape.distribution);
}

template <class Space, bool there, class O, class Kept, class C>
std::vector<float> values_after(int steps, C& world, Shape const& shape, Ways ways) {
  Training<Space, there, O, C, Kept> training{world, shape, px::uniform(-1, 1), ways};
  for (int k = 0; k < steps; ++k) training.step(k, [] {});
  auto values = training.values();
  training.finish();
  return values;
}

// Collective, of flags of every rank: those that all of them have.
template <class C>
int on_all_ranks(C& world, int flags) {
  for (int const each : px::allgather(world, flags)) flags &= each;
  return flags;
}
inline bool same_bits(std::vector<float> const& a, std::vector<float> const& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

// Whether variables on the device have the host's bits after some steps, once with indices of the host's and twice with the
// device's. Collective; rank 0 prints it.
template <class O = px::Adagrad, class Kept = float, class C>
bool training_has_host_bits(C& world, char const* over, Shape const& shape, Ways ways = {}, char const* what = "plain",
                            int steps = 3) {
  auto const host = values_after<px::HostSpace, false, O, Kept>(steps, world, shape, ways),
             once = values_after<px::CudaSpace, false, O, Kept>(steps, world, shape, ways),
             there = values_after<px::CudaSpace, true, O, Kept>(steps, world, shape, ways),
             again = values_after<px::CudaSpace, true, O, Kept>(steps, world, shape, ways);
  int const right =
      on_all_ranks(world, (same_bits(host, once) && same_bits(host, there) ? 1 : 0) | (same_bits(there, again) ? 2 : 0));
  if (world.rank() == 0)
    print_object("\"training\": " + json_string(px::optimizer_name<O>() + " and Sgd, " + what) + ", " +
                 shape_text(world.size(), over, shape) + ", \"host_bits\": " + boolean(right & 1) +
                 ", \"same_again\": " + boolean(right & 2));
  return right == 3;
}

// The words of the error with which a step refuses an infinite element of rank 0's gradient.
template <class Space, class C>
std::string refusal(C& world, Shape const& shape) {
  Training<Space, false, px::Adagrad, C> training{world, shape, px::uniform(-1, 1), {.non_finite = px::NonFinite::error}};
  training.step(0, [] {});
  if (world.rank() == 0) training.spoil(shape.layer / 2);
  std::string words = "nothing was refused";
  try {
    training.step(1, [] {});
  } catch (px::Error const& error) {
    words = error.what();
  }
  training.finish();
  return words;
}

// What else variables on a device go through, with the host's bits: other rules, bags, clipping, gradients that are started, a
// thread that helps, and an element that is refused in the host's words. Collective; rank 0 prints it.
template <class C>
bool everything_has_host_bits(C& world, char const* over, Shape const& shape) {
  bool right = training_has_host_bits<px::RowwiseAdagrad>(world, over, shape);
  right = training_has_host_bits<px::RowwiseAdagrad>(world, over, shape, {.bags = true}, "bags") && right;
  right = training_has_host_bits<px::LazyAdam>(world, over, shape, {.clips = true}, "clipped") && right;
  right = training_has_host_bits<px::Adam>(world, over, shape, {}, "rows settled") && right;
  right = training_has_host_bits<px::Adagrad, px::BFloat16>(world, over, shape, {}, "rows in 16 bits") && right;
  right = training_has_host_bits(world, over, shape, {.starts = true}, "started") && right;
  right = training_has_host_bits(world, over, shape, {.starts = true, .helped = true}, "started and helped") && right;
  std::string const on_host = refusal<px::HostSpace>(world, shape), on_device = refusal<px::CudaSpace>(world, shape);
  bool const refused = on_all_ranks(world, on_host == on_device && on_host.find("non-finite") != std::string::npos ? 1 : 0);
  if (world.rank() == 0)
    print_object("\"refused_as_on_host\": " + boolean(refused) + ", \"words\": " + json_string(on_device) + ", " +
                 shape_text(world.size(), over, shape));
  return right && refused;
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
  Training<px::CudaSpace, there, px::Adagrad, C> training{world, shape, px::constant(0.5)};
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
    print_object("\"part\": " + json_string(part) + ", " + shape_text(world.size(), over, shape) +
                 ", \"indices\": " + json_string(there ? "device" : "host") + ", " + times_text(times));
  };
  print("pull", pulls), print("step", steps), print("whole", whole);
}

}  // namespace gpu_check
