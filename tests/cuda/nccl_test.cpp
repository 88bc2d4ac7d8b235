// What NcclCommunicator makes of NCCL, on a stand-in: sums, errors, deadlines, aborts.
#include <atomic>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "communicators.hpp"
#include "deferred.hpp"
#include "parallax/comm/self.hpp"

using namespace communicators;
using emulated::Deferred;
using emulated::first_seed;

namespace {

using Nccl = px::NcclCommunicator<px::ThreadCommunicator>;
constexpr std::chrono::seconds ample{60};
constexpr std::chrono::milliseconds brief{300};

// What each rank's error says, or nothing.
class Heard {
 public:
  explicit Heard(int ranks) : errors_(static_cast<std::size_t>(ranks)) {}

  template <class Body>
  void by(int rank, Body const& body) {
    try {
      body();
    } catch (px::Error const& error) {
      std::lock_guard const lock{mutex_};
      errors_[static_cast<std::size_t>(rank)].emplace(error);
    }
  }
  px::Errc code(int rank) const {
    auto const& error = errors_[static_cast<std::size_t>(rank)];
    return error ? error->code() : px::Errc{};
  }
  std::string what(int rank) const {
    auto const& error = errors_[static_cast<std::size_t>(rank)];
    return error ? error->what() : "no error";
  }

 private:
  std::mutex mutex_;
  std::vector<std::optional<px::Error>> errors_;
};

// Blocks of `bytes` from everybody to everybody.
struct Even {
  Even(Nccl& comm, std::size_t bytes)
      : blocks(static_cast<std::size_t>(comm.size())),
        send{comm.queue().memory, comm.queue().stream, blocks.size() * bytes},
        receive{comm.queue().memory, comm.queue().stream, blocks.size() * bytes} {
    for (std::size_t r = 0; r < blocks.size(); ++r) blocks[r] = {r * bytes, bytes};
  }
  px::Transfer transfer() { return {send.data(), blocks, receive.data(), blocks}; }

  std::vector<px::ByteRange> blocks;
  px::DeviceBuffer<std::byte> send, receive;
};

template <class T>
void sums(Nccl& comm, std::uint64_t seed, std::size_t count) {
  auto const n = static_cast<std::size_t>(comm.size()), self = static_cast<std::size_t>(comm.rank());
  auto const value = [&](std::size_t rank, std::size_t i) {
    return static_cast<T>(parallax_conformance::mix(seed, rank, i) % 1000);
  };
  std::vector<T> mine(n * count), reduced(n * count), part(count), all(n * count);
  for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = value(self, i);
  auto const stream = comm.queue().stream;
  px::DeviceBuffer<T> in{comm.queue().memory, stream, n * count}, sum{comm.queue().memory, stream, n * count},
      scattered{comm.queue().memory, stream, count}, gathered{comm.queue().memory, stream, n * count};
  in.copy_from(mine.data(), mine.size());
  auto first = comm.iallreduce_device(1, static_cast<T const*>(in.data()), sum.data(), n * count);
  auto second = comm.ireduce_scatter_device(2, static_cast<T const*>(in.data()), scattered.data(), count);
  parallax_conformance::complete(comm, second);
  auto third = comm.iallgather_device(2, static_cast<T const*>(scattered.data()), gathered.data(), count);
  parallax_conformance::complete(comm, third);
  parallax_conformance::complete(comm, first);
  auto fourth = comm.iallreduce_device(1, static_cast<T const*>(in.data()), in.data(), n * count);  // in place
  parallax_conformance::complete(comm, fourth);
  sum.copy_to(reduced.data(), reduced.size());
  scattered.copy_to(part.data(), part.size());
  gathered.copy_to(all.data(), all.size());
  in.copy_to(mine.data(), mine.size());
  comm.synchronize();
  for (std::size_t i = 0; i < n * count; ++i) {
    T expected{0};
    for (std::size_t rank = 0; rank < n; ++rank) expected += value(rank, i);
    parallax_conformance::require(reduced[i] == expected && all[i] == expected && mine[i] == expected, "a sum is wrong");
    if (i / count == self) parallax_conformance::require(part[i % count] == expected, "a part of a sum is wrong");
  }
}

}  // namespace

TEST_CASE("NCCL's sums of device memory are right in every order of streams", "[cuda][nccl]") {
  std::uint64_t const first = first_seed("sums");
  for (std::uint64_t seed = first; seed < first + 30; ++seed) {
    Deferred const deferred{seed};
    for (int const ranks : {1, 2, 3})
      NcclThreads{ranks, seed % 2 == 0, seed % 3 != 0}.run(ample, [&](Nccl& comm) {
        for (std::size_t const count : {std::size_t{1}, std::size_t{17}, std::size_t{0}}) {
          sums<float>(comm, seed, count);
          sums<double>(comm, seed, count);
        }
      });
  }
  CHECK(emulator::nccl.misuses == 0);
  CHECK(emulator::nccl.report == "");
}

TEST_CASE("a communicator of NCCL's that does not block is polled, and passes the same suite", "[cuda][nccl]") {
  std::uint64_t const first = first_seed("non-blocking");
  for (std::uint64_t seed = first; seed < first + 20; ++seed) {
    Deferred const deferred{seed};
    parallax_conformance::check_device_exchanges(NcclThreads{3, true, false}, seed);
  }
  CHECK(emulator::nccl.misuses == 0);
}

TEST_CASE("a communicator of NCCL's with another rank or size than the host's is a mismatch", "[cuda][nccl]") {
  ncclUniqueId id;
  ncclGetUniqueId(&id);
  ncclComm_t nccl = nullptr;
  ncclCommInitRank(&nccl, 3, id, 1);
  px::SelfCommunicator host;
  px::CudaPool pool;
  CHECK_THROWS_WITH((px::NcclCommunicator<px::SelfCommunicator>{nccl, host, {nullptr, pool}}),
                    "parallax: mismatch between ranks (rank 0) in NcclCommunicator: NCCL says rank 1 of 3, the host "
                    "communicator rank 0 of 1");
  CHECK_THROWS_AS((px::NcclCommunicator<px::SelfCommunicator>{nullptr, host, {nullptr, pool}}), px::Error);
  ncclCommDestroy(nccl);
}

TEST_CASE("an error that NCCL finds later is a transport error with the call and the rank, after one abort", "[cuda][nccl]") {
  for (bool const compared : {true, false}) {
    Deferred const deferred{1};
    Heard heard{2};
    auto const aborts = emulator::nccl.aborts;
    auto const misuses = emulator::nccl.misuses;
    ncclUniqueId id;
    ncclGetUniqueId(&id);
    px::run_threads(2, [&](px::ThreadCommunicator& host) {
      px::CudaPool pool;
      px::CudaStream const stream;
      ncclComm_t nccl = nullptr;
      ncclCommInitRank(&nccl, 2, id, host.rank());
      Nccl comm{nccl, host, {stream.get(), pool}, {compared}};
      Even part{comm, 8};
      heard.by(host.rank(), [&] {
        auto request = comm.ialltoallv_device(0, part.transfer());
        parallax_conformance::complete(comm, request);
        comm.synchronize();
        if (host.rank() == 1) emulator::break_nccl(nccl, ncclRemoteError);
        for (int i = 0; i < 3; ++i) {
          auto again = comm.ialltoallv_device(0, part.transfer());
          parallax_conformance::complete(comm, again);
          comm.synchronize();
        }
      });
      heard.by(host.rank(), [&] { comm.ialltoallv_device(1, part.transfer()); });
      heard.by(host.rank(), [&] { comm.synchronize(); });
      if (!comm.aborted()) comm.abort({px::Errc::aborted, 0, "", "", "not reached"});
    });
    for (int const rank : {0, 1}) {
      CHECK(heard.code(rank) == px::Errc::transport);
      CHECK_THAT(heard.what(rank), parallax_test::contains("(rank 1) in ncclCommGetAsyncError: rank 1: remote process exited"));
    }
    CHECK(emulator::nccl.aborts == aborts + 2);
    CHECK(emulator::nccl.misuses == misuses);
  }
}

TEST_CASE("a call that NCCL refuses is an error of its kind that names the call", "[cuda][nccl]") {
  struct Case {
    ncclResult_t result;
    char const* last;
    px::Errc code;
    char const* says;
  };
  for (Case const& c : {Case{ncclInvalidUsage, "", px::Errc::misuse, "misuse (rank 0) in ncclAllReduce: rank 0: invalid usage"},
                        Case{ncclInvalidArgument, "", px::Errc::misuse, "in ncclAllReduce: rank 0: invalid argument"},
                        Case{ncclUnhandledCudaError, "Cuda failure 2 'out of memory'", px::Errc::out_of_memory,
                             "unhandled cuda error: Cuda failure 2 'out of memory'"},
                        Case{ncclUnhandledCudaError, "", px::Errc::transport, "in ncclAllReduce: rank 0: unhandled cuda error"},
                        Case{ncclSystemError, "", px::Errc::transport, "transport failure (rank 0) in ncclAllReduce"}}) {
    Heard heard{1};
    auto const aborts = emulator::nccl.aborts;
    NcclThreads{1}.run(ample, [&](Nccl& comm) {
      px::DeviceBuffer<float> data{comm.queue().memory, comm.queue().stream, 4};
      heard.by(0, [&] {
        nccl_last_error() = c.last;
        emulator::next_nccl_result = c.result;
        auto request = comm.iallreduce_device(0, static_cast<float const*>(data.data()), data.data(), 4);
        parallax_conformance::complete(comm, request);
      });
      nccl_last_error() = "";
    });
    CHECK(heard.code(0) == c.code);
    CHECK_THAT(heard.what(0), parallax_test::contains(c.says));
    CHECK(emulator::nccl.aborts == aborts + 1);
  }
}

TEST_CASE("an operation to which a peer does not come ends by the deadline, also while the stream is waited for",
          "[cuda][nccl]") {
  for (bool const waits : {true, false}) {
    Deferred const deferred{2};
    Heard heard{2};
    NcclThreads{2, false}.run(brief, [&](Nccl& comm) {
      Even part{comm, 8};
      heard.by(comm.rank(), [&] {
        if (comm.rank() == 1) {
          std::this_thread::sleep_for(4 * brief);
          comm.ialltoallv_device(1, part.transfer());
          return;
        }
        auto request = comm.ialltoallv_device(0, part.transfer());
        while (!request.test()) {}
        if (waits) comm.synchronize();
        for (;;) {
          auto next = comm.ialltoallv_device(1, part.transfer());
          while (!next.test()) {}
          std::this_thread::sleep_for(brief / 10);
        }
      });
    });
    CHECK(heard.code(0) == px::Errc::timeout);
    CHECK_THAT(heard.what(0), parallax_test::contains("in ialltoallv_device: rank 0 waited longer"));
    CHECK_THAT(heard.what(0), parallax_test::contains("the device has not done what was posted on channel 0"));
    CHECK(heard.code(1) == px::Errc::timeout);
  }
  CHECK(emulator::nccl.misuses == 0);
}

TEST_CASE("waiting for a stream that does not end ends by the deadline", "[cuda][nccl]") {
  Heard heard{1};
  auto const aborts = emulator::nccl.aborts;
  NcclThreads{1}.run(brief, [&](Nccl& comm) {
    std::atomic<bool> over{false};
    emulator::put(emulator::of(comm.queue().stream), {{}, nullptr, 0, [&] { return over.load(); }});
    heard.by(0, [&] { comm.synchronize(); });
    over = true;
    cudaStreamSynchronize(comm.queue().stream);
  });
  CHECK(heard.code(0) == px::Errc::timeout);
  CHECK_THAT(heard.what(0), parallax_test::contains("in synchronize: rank 0 waited longer"));
  CHECK(emulator::nccl.aborts == aborts + 1);
}

TEST_CASE("what the user has put in the stream before an operation does not count against its deadline", "[cuda][nccl]") {
  Deferred const deferred{4};
  Heard heard{2};
  std::atomic<bool> computed{false};
  NcclThreads{2, false}.run(brief, [&](Nccl& comm) {
    Even part{comm, 8};
    heard.by(comm.rank(), [&] {
      emulator::put(emulator::of(comm.queue().stream), {{}, nullptr, 0, [&] { return computed.load(); }});
      auto request = comm.ialltoallv_device(0, part.transfer());
      auto const begin = std::chrono::steady_clock::now();
      while (!request.test()) {}
      while (std::chrono::steady_clock::now() - begin < 3 * brief) {  // as a host that is ahead of its device polls
        auto next = comm.ialltoallv_device(1, part.transfer());
        parallax_conformance::complete(comm, next);
        std::this_thread::sleep_for(brief / 10);
      }
      computed = true;
      comm.synchronize();
    });
    computed = true;  // also after an error, so that its streams end
  });
  for (int const rank : {0, 1}) CHECK(heard.what(rank) == "no error");
}

TEST_CASE("ranks that post in different orders keep to rank 0's, and hang until the deadline where nothing is compared",
          "[cuda][nccl]") {
  for (bool const compared : {true, false}) {
    Deferred const deferred{3};
    Heard heard{2};
    emulator::nccl.report.clear();
    NcclThreads{2, compared}.run(compared ? std::chrono::nanoseconds{ample} : brief, [&](Nccl& comm) {
      Even one{comm, 100}, other{comm, 200};
      heard.by(comm.rank(), [&] {
        bool const swapped = comm.rank() == 1;
        auto first = comm.ialltoallv_device(swapped ? 7 : 5, swapped ? other.transfer() : one.transfer());
        auto second = comm.ialltoallv_device(swapped ? 5 : 7, swapped ? one.transfer() : other.transfer());
        parallax_conformance::complete(comm, first);
        parallax_conformance::complete(comm, second);
        comm.synchronize();
      });
    });
    for (int const rank : {0, 1}) CHECK((heard.what(rank) == "no error") == compared);
    if (compared) continue;
    for (int const rank : {0, 1}) CHECK(heard.code(rank) == px::Errc::timeout);
    CHECK_THAT(emulator::nccl.report, parallax_test::contains("bytes where rank"));
  }
  emulator::nccl.report.clear();
}

TEST_CASE("ranks that bring different counts to a sum, or another operation, are a mismatch", "[cuda][nccl]") {
  for (bool const counts : {true, false}) {
    Heard heard{2};
    NcclThreads{2}.run(ample, [&](Nccl& comm) {
      px::DeviceBuffer<float> data{comm.queue().memory, comm.queue().stream, 16};
      heard.by(comm.rank(), [&] {
        std::size_t const count = counts && comm.rank() == 1 ? 5 : 4;
        auto request = counts || comm.rank() == 0
                           ? comm.iallreduce_device(0, static_cast<float const*>(data.data()), data.data() + 8, count)
                           : comm.iallgather_device(0, static_cast<float const*>(data.data()), data.data() + 8, count);
        parallax_conformance::complete(comm, request);
      });
    });
    for (int const rank : {0, 1}) CHECK(heard.code(rank) == px::Errc::mismatch);
    CHECK_THAT(heard.what(0), parallax_test::contains(counts ? "bytes where" : "where this was posted by rank"));
  }
}
