// nccl RANKS [--tiny]: NCCL by that many ranks, threads that share the device, or, where RANKS is `devices`, have one each: a
// sum, an exchange, a training's bits, a captured step, and times of sums and of steps. Prints one JSON object a line. Exit status 3, and an object that says
// why, where NCCL makes no communicator, or there is one device.
#include <nccl.h>

#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <numeric>
#include <optional>
#include <string_view>
#include <vector>

#include "parallax/comm/nccl/run.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/session/capture.hpp"
#include "training.hpp"

namespace {

namespace px = parallax;
using gpu_check::boolean, gpu_check::print_object, gpu_check::json_string;
using Nccl = px::NcclCommunicator<px::ThreadCommunicator>;

std::atomic<int> made{0};  // communicators

void complete(px::DeviceRequest request) {
  while (!request.test()) std::this_thread::yield();
}

// Runs `body(Nccl&)` on every rank, on the device that is named for it.
template <class Body>
void run_nccl(std::vector<int> const& devices, Body const& body) {
  auto const on_rank = [&](Nccl& world) {
    ++made;
    body(world);
  };
  px::run_nccl(devices, on_rank, {std::chrono::seconds{15}});
}

// Collective: whether all ranks say so. Rank 0 prints it.
bool right_everywhere(Nccl& world, char const* what, bool right) {
  bool all = true;
  for (int const each : px::allgather(world, right ? 1 : 0)) all = all && each;
  if (world.rank() == 0)
    print_object("\"check\": " + json_string(what) + ", \"ranks\": " + std::to_string(world.size()) +
                 ", \"right\": " + boolean(all));
  return all;
}

bool sum_is_right(Nccl& world, std::size_t count) {
  px::CudaQueue const queue = world.queue();
  std::vector<float> mine(count), sum(count);
  for (std::size_t i = 0; i < count; ++i) mine[i] = static_cast<float>(i % 1000 + static_cast<std::size_t>(world.rank()));
  px::DeviceBuffer<float> data{queue.memory, queue.stream, count};
  data.copy_from(mine.data(), count);
  complete(world.iallreduce_device(0, static_cast<float const*>(data.data()), data.data(), count));
  data.copy_to(sum.data(), count);
  world.synchronize();
  std::size_t const n = static_cast<std::size_t>(world.size());
  bool right = true;
  for (std::size_t i = 0; i < count; ++i) right = right && sum[i] == static_cast<float>(n * (i % 1000) + n * (n - 1) / 2);
  return right_everywhere(world, "all-reduce", right);
}

// Every rank sends 1000 · (source + 1) + 10 · target bytes that name both.
bool exchange_is_right(Nccl& world) {
  px::CudaQueue const queue = world.queue();
  auto const ranks = static_cast<std::size_t>(world.size()), self = static_cast<std::size_t>(world.rank());
  auto const bytes = [](std::size_t source, std::size_t target) { return 1000 * (source + 1) + 10 * target; };
  auto const name = [](std::size_t source, std::size_t target) { return static_cast<std::byte>(1 + 16 * source + target); };
  std::vector<px::ByteRange> to, from;
  std::vector<std::byte> sent, expected;
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    to.push_back({sent.size(), bytes(self, peer)});
    sent.resize(sent.size() + bytes(self, peer), name(self, peer));
    from.push_back({expected.size(), bytes(peer, self)});
    expected.resize(expected.size() + bytes(peer, self), name(peer, self));
  }
  px::DeviceBuffer<std::byte> out{queue.memory, queue.stream, sent.size()}, in{queue.memory, queue.stream, expected.size()};
  out.copy_from(sent.data(), sent.size());
  complete(world.ialltoallv_device(1, {out.data(), to, in.data(), from}));
  std::vector<std::byte> arrived(expected.size());
  in.copy_to(arrived.data(), arrived.size());
  world.synchronize();
  return right_everywhere(world, "alltoallv", arrived == expected);
}

void print_sum_times(Nccl& world, std::size_t bytes, int samples) {
  px::CudaQueue const queue = world.queue();
  std::size_t const count = bytes / sizeof(float);
  px::DeviceBuffer<float> data{queue.memory, queue.stream, count};
  px::device::check(cudaMemsetAsync(data.data(), 0, bytes, queue.stream), "cudaMemsetAsync");
  std::vector<double> us;
  for (int i = -2; i < samples; ++i) {
    world.synchronize();
    px::barrier(world);
    gpu_check::Clock const clock;
    complete(world.iallreduce_device(0, static_cast<float const*>(data.data()), data.data(), count));
    world.synchronize();
    if (i >= 0) us.push_back(clock.microseconds());
  }
  if (world.rank() == 0)
    print_object("\"operation\": \"all-reduce\", \"ranks\": " + std::to_string(world.size()) +
                 ", \"bytes\": " + std::to_string(bytes) + ", " + gpu_check::times_text(us));
}

// Steps of a padded table and a layer, of other ids each time: taken, or, from the third on, as a graph that is replayed.
class PaddedTraining {
 public:
  PaddedTraining(Nccl& world, gpu_check::Shape const& shape, bool captures)
      : captures_{captures},
        ops_{world.queue()},
        weights_(shape.layer),
        of_layer_(shape.layer),
        of_rows_(shape.ids * static_cast<std::size_t>(shape.width)),
        ids_(shape.ids),
        session_{world, px::SessionOptions{.non_finite = px::NonFinite::propagate}},
        layer_{session_, "layer", px::bind(weights_.span())},
        table_{session_, "table", px::Table{.rows = shape.rows, .width = shape.width, .initial = px::uniform(-1, 1)},
               px::Padded{static_cast<std::uint32_t>(shape.ids)}} {
    ops_.fill(weights_.data(), weights_.size(), 1.0f);
    ops_.fill(of_layer_.data(), of_layer_.size(), 0.5f);
    ops_.fill(of_rows_.data(), of_rows_.size(), 0.25f);
    for (unsigned k = 0; k < 4; ++k)
      batches_.push_back(gpu_check::drawn_ids<std::int64_t>(shape.ids, shape.rows, shape.distribution,
                                                            10 * static_cast<unsigned>(world.rank()) + k));
  }

  // Brings the ids of a step to where all steps find theirs, and waits for that.
  void draw(int k) {
    auto const& ids = batches_[static_cast<std::size_t>(k) % batches_.size()];
    ops_.from_host(ids_.data(), ids.data(), ids.size());
  }
  void step() {
    table_.optimizer().learning_rate = 0.01 / static_cast<double>(1 + session_.steps());
    if (captured_) return captured_->replay();
    if (captures_ && session_.steps() == 2) captured_.emplace(px::capture(session_, [&] { take(); }));
    else take();
  }
  std::vector<float> values() {
    auto const rows = table_.local();
    auto const held = static_cast<std::size_t>(rows.rows * rows.width);
    std::vector<float> all(held + weights_.size());
    ops_.to_host(all.data(), rows.data, held);
    ops_.to_host(all.data() + held, weights_.data(), weights_.size());
    return all;
  }
  void finish() {
    captured_.reset();
    session_.finish();
  }

 private:
  void take() {
    auto const rows = session_.pull(table_, px::on_device(ids_.span()));
    session_.step(px::grad(rows, of_rows_.span()), px::grad(layer_, of_layer_.span()));
  }

  bool captures_;
  px::RowOps<px::CudaSpace> ops_;
  px::Buffer<float, px::CudaSpace> weights_, of_layer_, of_rows_;
  px::Buffer<std::int64_t, px::CudaSpace> ids_;
  std::vector<std::vector<std::int64_t>> batches_;
  px::Session<Nccl> session_;
  px::Variable<px::Dense, px::CudaSpace, px::Adam> layer_;
  px::Variable<px::Sparse, px::CudaSpace, px::LazyAdam> table_;
  std::optional<px::CapturedStep> captured_;
};

// Whether replays have the bits of steps, after twelve. Then times of both, in rows of `block` that are waited for once.
bool capture_is_right(Nccl& world, gpu_check::Shape const& shape, int samples, int block) {
  std::vector<float> values[2];
  for (bool const captures : {false, true}) {
    PaddedTraining training{world, shape, captures};
    for (int k = 0; k < 12; ++k) {
      training.draw(k);
      training.step();
    }
    values[captures] = training.values();
    std::vector<double> us;
    for (int i = -2; i < samples; ++i) {
      world.synchronize();
      px::barrier(world);
      gpu_check::Clock const clock;
      for (int k = 0; k < block; ++k) training.step();
      world.synchronize();
      if (i >= 0) us.push_back(clock.microseconds() / block);
    }
    training.finish();
    if (world.rank() == 0)
      print_object("\"operation\": " + json_string(captures ? "replayed step" : "padded step") + ", " +
                   gpu_check::shape_text(world.size(), "NCCL", shape) + ", " + gpu_check::times_text(us));
  }
  return right_everywhere(world, "captured step", gpu_check::same_bits(values[0], values[1]));
}

}  // namespace

int main(int argc, char** argv) {
  bool const of_devices = argc > 1 && std::string_view{argv[1]} == "devices";
  int ranks = argc > 1 && !of_devices ? std::atoi(argv[1]) : 0;
  bool const tiny = argc > 2 && std::string_view{argv[2]} == "--tiny";
  if (ranks < 1 && !of_devices) return 2;
  if (!gpu_check::device_answers()) return 77;
  if (of_devices) static_cast<void>(cudaGetDeviceCount(&ranks));
  if (of_devices && ranks < 2) {
    print_object("\"refused\": \"there is one device\"");
    return 3;
  }
  std::vector<int> devices(static_cast<std::size_t>(ranks));
  if (of_devices) std::iota(devices.begin(), devices.end(), 0);
  char const* const over = of_devices ? "NCCL, a device each" : "NCCL";
  int version = 0;
  ncclGetVersion(&version);
  print_object("\"nccl\": " + std::to_string(version));
  bool all = true;
  try {
    run_nccl(devices, [&](Nccl& world) {
      gpu_check::Shape const shape =
          tiny ? gpu_check::Shape{100, 5, 90, "zipf", 50} : gpu_check::Shape{50'000, 128, 2'560, "zipf"};
      bool const right[] = {sum_is_right(world, tiny ? 100 : 1'000'000), exchange_is_right(world),
                            training_has_host_bits(world, over, shape),
                            capture_is_right(world, shape, tiny ? 3 : 21, tiny ? 2 : 8)};
      if (world.rank() == 0) all = right[0] && right[1] && right[2] && right[3];
      for (std::size_t const bytes : {std::size_t{4} << 10, std::size_t{1} << 20, std::size_t{64} << 20})
        print_sum_times(world, tiny ? bytes >> 10 : bytes, tiny ? 3 : 21);
    });
  } catch (std::exception const& error) {
    if (made < ranks) {
      print_object("\"refused\": " + json_string(error.what()));
      return 3;
    }
    std::fprintf(stderr, "nccl: %s\n", error.what());
    return 1;
  }
  return all ? 0 : 1;
}
