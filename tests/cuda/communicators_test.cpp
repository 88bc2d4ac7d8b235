// All communicators that carry device memory pass the same suite, in every order that streams may run in.
#include <atomic>
#include <concepts>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../catch.hpp"
#include "../comm/hostile.hpp"
#include "../support/size.hpp"
#include "communicators.hpp"
#include "deferred.hpp"
#include "parallax/comm/collectives.hpp"
#include "parallax/comm/self.hpp"
#include "parallax/comm/topology.hpp"

using namespace communicators;
using emulated::Deferred;
using emulated::first_seed;

namespace {

// In 300 orders, fewer under sanitizers, seeds that say themselves where they failed.
template <class Model>
void passes_in_every_order(Model const& model, char const* what) {
  std::uint64_t const first = first_seed(what);
  for (std::uint64_t seed = first; seed < first + parallax_test::sized(60u, 300u, 300u); ++seed) {
    Deferred const deferred{seed};
    parallax_conformance::check_device_exchanges(model, seed);
  }
}

// Ranks whose host communicator is late, reports operations in another order than they ended in, and sends them in pieces.
template <template <class> class Carrier>
struct OverHostile {
  int ranks;
  std::uint64_t seed;

  template <class Body>
  void run(std::chrono::nanoseconds deadline, Body const& body) const {
    using Hostile = parallax_test::HostileCommunicator<px::ThreadCommunicator>;
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    px::run_threads(
        ranks,
        [&](px::ThreadCommunicator& inside) {
          Hostile host{inside, {.seed = seed, .latest = 9, .reversed = true, .naps = 20, .largest = 700}};
          px::CudaPool pool;
          px::CudaStream const stream;
          if constexpr (std::same_as<Carrier<Hostile>, px::Staged<Hostile>>) {
            px::Staged<Hostile> comm{host, {stream.get(), pool}};
            body(comm);
          } else {
            ncclComm_t nccl = nullptr;
            ncclCommInitRank(&nccl, ranks, id, host.rank());
            px::NcclCommunicator<Hostile> comm{nccl, host, {stream.get(), pool}};
            body(comm);
            ncclCommDestroy(nccl);
          }
        },
        {deadline});
  }
};

using StagedSelf = px::Staged<px::SelfCommunicator>;
using StagedThread = px::Staged<px::ThreadCommunicator>;
using NcclThread = px::NcclCommunicator<px::ThreadCommunicator>;

}  // namespace

static_assert(px::CarriesDevice<StagedThread> && px::CarriesDevice<NcclThread> && px::CarriesDevice<StagedSelf>);
static_assert(!px::CarriesDevice<px::ThreadCommunicator>);
static_assert(px::DeviceAllreduce<NcclThread> && !px::DeviceAllreduce<StagedThread>);
static_assert(px::KeepsJournals<StagedThread> && px::LendsMemory<StagedThread> && px::KnowsSharedMemory<StagedThread> &&
              px::KnowsOversubscription<StagedThread> && px::TellsOfAborts<StagedThread>);
static_assert(px::KeepsJournals<NcclThread> && px::LendsMemory<NcclThread>);
static_assert(!px::KeepsJournals<StagedSelf> && !px::LendsMemory<StagedSelf> && !px::VendorAllreduce<StagedSelf> &&
              !px::OwnClock<StagedSelf> && !px::KnowsThreads<StagedSelf>);

TEST_CASE("device memory staged through the host arrives in every order of streams", "[cuda][comm]") {
  int const ranks = GENERATE(1, 2, 4);
  CAPTURE(ranks);
  passes_in_every_order(StagedThreads{ranks}, "staged");
}

TEST_CASE("device memory of threads arrives in every order of streams", "[cuda][comm]") {
  int const ranks = GENERATE(1, 2, 4);
  CAPTURE(ranks);
  passes_in_every_order(CudaThreads{ranks}, "threads");
}

TEST_CASE("device memory sent by NCCL arrives in every order of streams", "[cuda][comm]") {
  int const ranks = GENERATE(1, 2, 4);
  CAPTURE(ranks);
  passes_in_every_order(NcclThreads{ranks}, "NCCL");
  CHECK(emulator::nccl.misuses == 0);
  CHECK(emulator::nccl.report == "");
}

TEST_CASE("NCCL between devices of a process needs memory that peers may touch: a pool's is, once it says so", "[cuda][comm]") {
  struct Private {  // a resource of the user's, of which no other device knows
    void* allocate(std::size_t bytes, std::size_t, cudaStream_t stream) {
      void* memory = nullptr;
      px::device::check(cudaMallocAsync(&memory, bytes, stream), "cudaMallocAsync");
      return memory;
    }
    void deallocate(void* memory, std::size_t, std::size_t, cudaStream_t stream) noexcept {
      static_cast<void>(cudaFreeAsync(memory, stream));
    }
  };
  auto const error_of = [](auto of_peers) {
    std::string text = "no error";
    try {
      NcclThreads{2}.run(std::chrono::seconds{60}, [&](auto& comm) {
        decltype(of_peers) resource;
        px::DeviceBuffer<float> data{resource, comm.queue().stream, 10};
        auto request = comm.iallreduce_device(0, static_cast<float const*>(data.data()), data.data(), 10);
        parallax_conformance::complete(comm, request);
        comm.synchronize();
      });
    } catch (px::Error const& error) {
      text = error.what();
    }
    return text + ": " + std::exchange(emulator::nccl.report, "");
  };
  CHECK(error_of(px::CudaPool{}) == "no error: ");
  auto const refused = error_of(Private{});
  CHECK_THAT(refused, parallax_test::contains("unhandled cuda error"));
  CHECK_THAT(refused, parallax_test::contains("may not touch memory of rank"));
}

TEST_CASE("device memory arrives where streams run at once, too", "[cuda][comm]") {
  std::uint64_t const seed = first_seed("at once");
  parallax_conformance::check_device_exchanges(StagedThreads{3}, seed);
  parallax_conformance::check_device_exchanges(CudaThreads{3}, seed);
  parallax_conformance::check_device_exchanges(NcclThreads{3}, seed);
}

TEST_CASE("device memory arrives over a host communicator that is late and turns things around", "[cuda][comm]") {
  std::uint64_t const first = first_seed("over a hostile one");
  for (std::uint64_t seed = first; seed < first + parallax_test::sized(20u, 50u, 50u); ++seed) {
    Deferred const deferred{seed};
    parallax_conformance::check_device_exchanges(OverHostile<px::Staged>{3, seed}, seed);
    parallax_conformance::check_device_exchanges(OverHostile<px::NcclCommunicator>{3, seed}, seed);
  }
  CHECK(emulator::nccl.report == "");
}

TEST_CASE("a rank that leaves by an exception while device memory is exchanged takes its peers along", "[cuda][comm]") {
  std::uint64_t const first = first_seed("leaving");
  for (std::uint64_t seed = first; seed < first + parallax_test::sized(20u, 60u, 60u); ++seed) {
    Deferred const deferred{seed};
    auto const body = [&](auto& comm) {
      parallax_conformance::Dice dice{parallax_conformance::mix(seed, static_cast<std::uint64_t>(comm.rank()))};
      for (std::uint64_t i = 0;; ++i) {
        parallax_conformance::DeviceExchange part{comm.queue(), comm.rank(), comm.size()};
        part.prepare(parallax_conformance::mix(seed, i), [](int, int) { return std::size_t{500}; });
        auto request = comm.ialltoallv_device(0, part.transfer());
        for (std::size_t polls = dice.below(20); polls > 0; --polls) request.test();
        if (comm.rank() == 1 && dice.below(3) == 0) throw std::runtime_error{"it leaves"};
        parallax_conformance::complete(comm, request);
        part.finish();
        parallax_conformance::settle(comm);
        part.check();
      }
    };
    CHECK_THROWS_WITH(CudaThreads{3}.run(std::chrono::seconds{60}, body), "it leaves");
    CHECK_THROWS_WITH(StagedThreads{3}.run(std::chrono::seconds{60}, body), "it leaves");
    CHECK_THROWS_WITH(NcclThreads{3}.run(std::chrono::seconds{60}, body), parallax_test::contains("it leaves"));
  }
}

TEST_CASE("ranks that disagree on device memory, abort or stay away are found out and named", "[cuda][comm]") {
  Deferred const deferred{first_seed("failures")};
  parallax_conformance::check_device_failures(StagedThreads{3});
  parallax_conformance::check_device_failures(CudaThreads{3});
  parallax_conformance::check_device_failures(NcclThreads{3});
  CHECK(emulator::nccl.misuses == 0);
}

TEST_CASE("a channel that is not there, and lists of another length, are refused of device memory, too", "[cuda][comm]") {
  std::atomic<int> refused{0}, others{0};
  auto const post = [&](auto& comm, int channel, px::Transfer const& transfer) {
    try {
      auto request = comm.ialltoallv_device(channel, transfer);
      ++others;
    } catch (px::Error const& error) {
      ++(error.code() == px::Errc::invalid_argument ? refused : others);
    }
  };
  auto const body = [&](auto& comm) {
    std::vector<px::ByteRange> const right(2), longer(3);
    post(comm, -1, {nullptr, right, nullptr, right});
    post(comm, px::channels, {nullptr, right, nullptr, right});
    post(comm, 0, {nullptr, right, nullptr, longer});
  };
  StagedThreads{2}.run(std::chrono::seconds{10}, body);
  CudaThreads{2}.run(std::chrono::seconds{10}, body);
  NcclThreads{2}.run(std::chrono::seconds{10}, body);
  CHECK(refused == 18);
  CHECK(others == 0);
}

TEST_CASE("a device that does not come to what is to be sent is waited for until the deadline", "[cuda][comm]") {
  std::atomic<bool> over{false};
  std::atomic<int> timeouts{0};
  StagedThreads{2}.run(std::chrono::milliseconds{300}, [&](auto& comm) {
    parallax_conformance::DeviceExchange part{comm.queue(), comm.rank(), comm.size()};
    if (comm.rank() == 0) emulator::put(emulator::of(comm.queue().stream), {{}, nullptr, 0, [&] { return over.load(); }});
    part.prepare(1, [](int, int) { return std::size_t{8}; });
    try {
      auto request = comm.ialltoallv_device(0, part.transfer());
      parallax_conformance::complete(comm, request);
    } catch (px::Error const& error) {
      timeouts += error.code() == px::Errc::timeout;
    }
    over = true;
  });
  CHECK(timeouts == 2);
}

TEST_CASE("a communicator that carries device memory carries the host's as the one inside does", "[cuda][comm]") {
  parallax_conformance::check_communicator(StagedThreads{3});
  parallax_conformance::check_communicator(CudaThreads{3});
  parallax_conformance::check_communicator(NcclThreads{2});
  parallax_conformance::check_failures(CudaThreads{2});
}

TEST_CASE("a steady exchange of device memory allocates no memory of the device's and none that is pinned", "[cuda][comm]") {
  auto const steady = [](auto const& model) {
    std::atomic<std::int64_t> allocated{-1};
    model.run(std::chrono::seconds{60}, [&](auto& comm) {
      auto const n = static_cast<std::size_t>(comm.size());
      px::DeviceBuffer<std::byte> send{comm.queue().memory, comm.queue().stream, 64 * n};
      px::DeviceBuffer<std::byte> receive{comm.queue().memory, comm.queue().stream, 64 * n};
      std::vector<px::ByteRange> blocks(n);
      auto const exchange = [&](std::size_t bytes) {
        for (std::size_t r = 0; r < n; ++r) blocks[r] = {64 * r, bytes};
        auto request = comm.ialltoallv_device(1, {send.data(), blocks, receive.data(), blocks});
        parallax_conformance::complete(comm, request);
      };
      auto const allocations = [&] {
        parallax_conformance::settle(comm);
        px::barrier(comm);
        emulator::Locked const locked{emulator::mutex};
        return emulator::allocations;
      };
      exchange(64);
      auto const before = allocations();
      px::barrier(comm);
      for (std::size_t bytes : {64, 3, 0, 64, 17}) exchange(bytes);
      auto const after = allocations();
      if (comm.rank() == 0) allocated = after - before;
      px::barrier(comm);
    });
    return allocated.load();
  };
  CHECK(steady(StagedThreads{3}) == 0);
  CHECK(steady(CudaThreads{3}) == 0);
  CHECK(steady(NcclThreads{3}) == 0);
}

TEST_CASE("a topology over device memory is that of the communicator inside", "[cuda][comm]") {
  px::run_cuda_threads(2, [](auto& comm) {
    px::Topology topology{comm};
    if (!topology.hops()[0].lends || !topology.hops()[0].in_memory) throw std::runtime_error{"the topology does not lend"};
  });
}
