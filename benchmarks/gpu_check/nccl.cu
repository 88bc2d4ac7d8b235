// nccl RANKS [--tiny]: NCCL by that many ranks, threads that share the device, or, where RANKS is `devices`, have one each: a
// sum, an exchange, a training's bits, and times of sums. Prints one JSON object a line. Exit status 3, and an object that says
// why, where NCCL makes no communicator, or there is one device.
#include <nccl.h>

#include <atomic>
#include <cstdlib>
#include <numeric>
#include <string_view>
#include <vector>

#include "parallax/comm/nccl/run.hpp"
#include "parallax/comm/thread.hpp"
#include "training.hpp"

namespace {

namespace px = parallax;
using gpu_check::boolean, gpu_check::print_object, gpu_check::quoted;
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
    print_object("\"check\": " + quoted(what) + ", \"ranks\": " + std::to_string(world.size()) +
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
                            training_has_host_bits(world, over, shape)};
      if (world.rank() == 0) all = right[0] && right[1] && right[2];
      for (std::size_t const bytes : {std::size_t{4} << 10, std::size_t{1} << 20, std::size_t{64} << 20})
        print_sum_times(world, tiny ? bytes >> 10 : bytes, tiny ? 3 : 21);
    });
  } catch (std::exception const& error) {
    if (made < ranks) {
      print_object("\"refused\": " + quoted(error.what()));
      return 3;
    }
    std::fprintf(stderr, "nccl: %s\n", error.what());
    return 1;
  }
  return all ? 0 : 1;
}
