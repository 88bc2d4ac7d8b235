// What `run_nccl` sets up and tears down, on a stand-in for NCCL: over threads and over sockets, and where it does not come to be.
#include <atomic>
#include <chrono>
#include <mutex>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../catch.hpp"
#include "../comm/sockets.hpp"
#include "parallax/comm/any.hpp"
#include "parallax/comm/nccl/run.hpp"

namespace px = parallax;

namespace {

// The sum of 1, 2, … over all ranks, formed on the devices.
template <class World>
float sum_of_numbers(World& world) {
  px::CudaQueue const queue = world.queue();
  px::DeviceBuffer<float> data{queue.memory, queue.stream, 1};
  float number = static_cast<float>(world.rank() + 1);
  data.copy_from(&number, 1);
  auto request = world.iallreduce_device(0, static_cast<float const*>(data.data()), data.data(), 1);
  while (!request.test()) std::this_thread::yield();
  data.copy_to(&number, 1);
  world.synchronize();
  return number;
}

int current_device() {
  int device = -1;
  cudaGetDevice(&device);
  return device;
}

// What the ranks were told, each by its own Error.
class Told {
 public:
  template <class Body>
  void by(int rank, Body&& body) {
    try {
      body();
    } catch (px::Error const& error) {
      std::lock_guard const lock{mutex_};
      words_[static_cast<std::size_t>(rank)] = error.what();
      throw;
    }
  }
  std::string const& operator[](std::size_t rank) const { return words_[rank]; }

 private:
  std::mutex mutex_;
  std::vector<std::string> words_ = std::vector<std::string>(3);
};

struct Unchanged {
  int misuses = emulator::nccl.misuses, aborts = emulator::nccl.aborts;
  ~Unchanged() {
    CHECK(emulator::nccl.misuses == misuses);
    CHECK(emulator::nccl.aborts == aborts + allowed);
  }
  int allowed = 0;
};

}  // namespace

TEST_CASE("two ranks of one process on one device are refused where kernels are loaded as they are launched", "[cuda][nccl]") {
  ::unsetenv("CUDA_MODULE_LOADING");
  CHECK_THROWS_WITH(
      px::run_nccl({1, 0, 1}, [](auto&) {}),
      "parallax: misuse in run_nccl: device 1 is named for two ranks, which needs CUDA_MODULE_LOADING=EAGER in the "
      "environment");
  ::setenv("CUDA_MODULE_LOADING", "EAGER", 1);
  int ranks = 0;
  px::run_nccl({1, 1}, [&](auto& world) {
    if (world.rank() == 0) ranks = world.size();
  });
  CHECK(ranks == 2);
}

TEST_CASE("run_nccl gives each thread a device of its own", "[cuda][nccl]") {
  Unchanged const unchanged;
  std::vector<float> sums(2);
  std::vector<int> devices(2);
  px::run_nccl({1, 0}, [&](px::NcclCommunicator<px::ThreadCommunicator>& world) {
    auto const rank = static_cast<std::size_t>(world.rank());
    sums[rank] = sum_of_numbers(world);
    devices[rank] = current_device();
  });
  CHECK(sums == std::vector<float>{3, 3});
  CHECK(devices == std::vector<int>{1, 0});
}

TEST_CASE("run_nccl gets NCCL's id over sockets, and over what the front door gives", "[cuda][nccl]") {
  Unchanged const unchanged;
  std::vector<float> sums(3), by_any(3);
  run_sockets(3, [&](px::SocketCommunicator& host) {
    auto const rank = static_cast<std::size_t>(host.rank());
    px::run_nccl(host, host.rank() % 2, [&](auto& world) { sums[rank] = sum_of_numbers(world); });
    px::AnyCommunicator any{std::ref(host)};
    px::run_nccl(any, host.rank() % 2,
                 [&](px::NcclCommunicator<px::AnyCommunicator>& world) { by_any[rank] = sum_of_numbers(world); });
  });
  CHECK(sums == std::vector<float>{6, 6, 6});
  CHECK(by_any == sums);
}

TEST_CASE("a device that is not there, and an id that cannot be had, are told to all ranks", "[cuda][nccl]") {
  Unchanged const unchanged;
  Told told;
  CHECK_THROWS(px::run_threads(3, [&](px::ThreadCommunicator& host) {
    told.by(host.rank(), [&] { px::run_nccl(host, host.rank() == 1 ? 9 : 0, [](auto&) {}); });
  }));
  for (std::size_t rank = 0; rank < 3; ++rank)
    CHECK(told[rank] == "parallax: invalid argument (rank 1) in run_nccl: device 9 is not there: this process has 2");
  Told of_id;
  CHECK_THROWS(px::run_threads(3, [&](px::ThreadCommunicator& host) {
    of_id.by(host.rank(), [&] {
      if (host.rank() == 0) emulator::next_nccl_setup = ncclSystemError;
      px::run_nccl(host, 0, [](auto&) {});
    });
  }));
  for (std::size_t rank = 0; rank < 3; ++rank)
    CHECK_THAT(of_id[rank], parallax_test::contains("transport failure (rank 0) in ncclGetUniqueId: rank 0: "));
}

TEST_CASE("what leaves the body of one rank ends NCCL on all of them", "[cuda][nccl]") {
  Unchanged unchanged;
  unchanged.allowed = 3;
  Told told;
  CHECK_THROWS_WITH(px::run_threads(3,
                                    [&](px::ThreadCommunicator& host) {
                                      told.by(host.rank(), [&] {
                                        px::run_nccl(host, 0, [&](auto& world) {
                                          sum_of_numbers(world);  // all are there
                                          if (world.rank() == 1) throw std::runtime_error{"no batch left"};
                                          for (;;) sum_of_numbers(world);
                                        });
                                      });
                                    }),
                    parallax_test::contains("no batch left"));
  for (std::size_t const rank : {0, 2}) CHECK_THAT(told[rank], parallax_test::contains("no batch left"));
}

TEST_CASE("a rank on each device waits for what its queue was given", "[cuda][nccl]") {
  auto const devices = px::all_devices();
  CHECK(static_cast<int>(devices.size()) == emulator::devices);
  std::vector<int> found(devices.size(), -1), used(devices.size(), -1), ranks;
  px::run_nccl(devices, [&](auto& world) {
    px::CudaQueue const queue = world.queue();
    px::DeviceBuffer<int> number{queue.memory, queue.stream, 1};
    int const rank = world.rank();
    number.copy_from(&rank, 1);
    int& mine = found[static_cast<std::size_t>(rank)];
    number.copy_to(&mine, 1);
    queue.wait();
    used[static_cast<std::size_t>(rank)] = queue.device;
  });
  for (int rank = 0; rank < emulator::devices; ++rank) ranks.push_back(rank);
  CHECK(found == ranks);
  CHECK(used == devices);
  CHECK(devices == ranks);
}

TEST_CASE("a rank that waits for NCCL to begin hears that another one has ended", "[cuda][nccl]") {
  Told told;
  CHECK_THROWS(px::run_threads(2, [&](px::ThreadCommunicator& host) {  // whose deadline is a minute
    told.by(host.rank(), [&] {
      if (host.rank() == 1) emulator::next_nccl_setup = ncclInProgress;  // it stays so
      px::run_nccl(host, 0, [](auto&) { throw std::runtime_error{"no batch left"}; });
    });
  }));
  CHECK_THAT(told[1], parallax_test::contains("no batch left"));
}

TEST_CASE("a rank that does not call NCCL, and an end that does not come, are over by the deadline", "[cuda][nccl]") {
  using namespace std::chrono_literals;
  Told told;
  CHECK_THROWS(px::run_threads(2,
                               [&](px::ThreadCommunicator& host) {
                                 told.by(host.rank(), [&] {
                                   if (host.rank() == 1) emulator::next_nccl_setup = ncclInProgress;  // it stays so
                                   px::run_nccl(host, 0, [](auto&) {});
                                 });
                               },
                               {.deadline = 300ms}));
  CHECK_THAT(told[1], parallax_test::contains("timeout"));
  Unchanged unchanged;
  unchanged.allowed = 1;
  emulator::nccl_never_ends = true;
  px::run_threads(1, [&](px::ThreadCommunicator& alone) { px::run_nccl(alone, 0, [](auto&) {}); }, {.deadline = 200ms});
  emulator::nccl_never_ends = false;
}
