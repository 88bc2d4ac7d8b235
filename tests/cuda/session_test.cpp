// What a session says of variables on a device, beside training them: what is not finite, indices outside the table, sizes.
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "../catch.hpp"
#include "../equivalence/memory.hpp"
#include "parallax/comm/cuda_thread.hpp"
#include "parallax/comm/staged.hpp"
#include "parallax/kernel/cuda.cuh"
#include "parallax/session/progress_thread.hpp"
#include "two_ranks.hpp"
#include "../../benchmarks/baseline/naive_ps.hpp"

namespace {

namespace px = parallax;
using emulated::on_two_ranks, emulated::same_bits, parallax_test::Memory, parallax_test::values_of;
using Ops = px::RowOps<px::CudaSpace>;
using Words = px::Variable<px::Sparse, px::CudaSpace, px::Sgd>;
using Layer = px::Variable<px::Dense, px::CudaSpace, px::Sgd>;

constexpr float not_a_number = std::numeric_limits<float>::quiet_NaN(), infinity = std::numeric_limits<float>::infinity();

template <class Body>
std::string error_of(Body const& body) {
  try {
    body();
  } catch (px::Error const& error) {
    return error.what();
  }
  return "no error";
}

// Pulls bags and steps on their gradients three times: the pooled rows and the rows held at the end, as bits to compare.
template <class Policy, class Space, class C>
std::vector<float> train_on_bags(C& world, px::RowOps<Space> const& ops, bool mean, bool weighted) {
  px::Session session{world};
  px::Variable<px::Sparse, Policy, Space, px::Adagrad> words{
      session, "words", px::Table{.rows = 40, .width = 3, .initial = px::uniform(-1, 1)}, px::BadIds::drop_and_count};
  std::mt19937_64 random{7 + static_cast<std::uint64_t>(world.rank())};
  std::vector<float> seen;
  for (int step = 0; step < 3; ++step) {
    std::vector<std::int64_t> ids, offsets{0};
    for (std::size_t const size : {5u, 0u, 200u, 1u, 9u}) {  // one longer than a chunk of a sum, one that is empty
      for (std::size_t i = 0; i < size; ++i) ids.push_back(static_cast<std::int64_t>(random() % 42));  // two are outside
      offsets.push_back(static_cast<std::int64_t>(ids.size()));
    }
    std::vector<float> weights, gradient;
    for (std::size_t i = 0; i < ids.size(); ++i) weights.push_back(static_cast<float>(random() % 1000) / 500 - 1);
    for (int i = 0; i < 5 * 3; ++i) gradient.push_back(static_cast<float>(random() % 1000) / 100 - 5);
    auto const pool = mean ? px::Pool::mean : px::Pool::sum;
    auto bags = [&] {
      if (!weighted) return session.pull(words.bags(ids, offsets, pool));
      if constexpr (!Space::host_readable)
        if (step > 0) return session.pull(words.bags(ids, offsets, px::on_device(Memory<float, Space>{ops, weights}.span())));
      return session.pull(words.bags(ids, offsets, weights));
    }();
    auto const pooled = values_of(ops, bags.values());
    seen.insert(seen.end(), pooled.begin(), pooled.end());
    Memory<float, Space> const there{ops, gradient};
    session.step(px::grad(bags, there.span()));
  }
  auto const rows = values_of(ops, words.local());
  seen.insert(seen.end(), rows.begin(), rows.end());
  session.finish();
  return seen;
}
template <class Policy>
void check_bags_on_device(bool mean, bool weighted) {
  std::vector<std::vector<float>> expected(2);
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    expected[static_cast<std::size_t>(world.rank())] =
        train_on_bags<Policy, px::HostSpace>(world, px::RowOps<px::HostSpace>{}, mean, weighted);
  });
  auto const found = on_two_ranks<std::vector<float>>([&](px::CudaThreadCommunicator& world, Ops const& ops) {
    return train_on_bags<Policy, px::CudaSpace>(world, ops, mean, weighted);
  });
  for (std::size_t rank = 0; rank < 2; ++rank) CHECK(same_bits(found[rank], expected[rank]));
}

}  // namespace

TEST_CASE("bags on a device are pooled, and step, with the host's bits", "[cuda][session][bags]") {
  bool const weighted = GENERATE(false, true), mean = GENERATE(false, true);
  if (weighted && mean) return;
  CAPTURE(mean, weighted);
  check_bags_on_device<px::PsShard>(mean, weighted);
  check_bags_on_device<baseline::NaivePs>(mean, weighted);
  check_bags_on_device<px::AllGather>(mean, weighted);
  check_bags_on_device<px::AllReduce>(mean, weighted);
}

namespace {

// Stands for a pool of the user's: memory that is not the runtime's. Streams free it when they come to it.
struct Own {
  void* allocate(std::size_t bytes, std::size_t alignment, cudaStream_t) {
    ++blocks, ++allocated;
    return std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  }
  void deallocate(void* memory, std::size_t, std::size_t, cudaStream_t stream) noexcept {
    static_cast<void>(cudaStreamSynchronize(stream));
    std::free(memory);
    --blocks;
  }
  std::atomic<int> blocks = 0, allocated = 0;
};

}  // namespace

TEST_CASE("a training on a device takes all of its memory from the user's resource", "[cuda][session]") {
  Own own;
  px::CudaStream const for_tables;
  px::CudaSpace::draw_from(own, for_tables.get());
  std::vector<std::vector<float>> seen(2), expected(2);
  auto const runtimes = [] {
    emulator::Locked const locked{emulator::mutex};
    return emulator::allocations - emulator::host_allocations;
  };
  auto const before = runtimes();
  px::run_threads(2, [&](px::ThreadCommunicator& host) {
    px::CudaStream const stream;
    px::Staged<px::ThreadCommunicator> world{host, {stream.get(), own}};
    seen[static_cast<std::size_t>(host.rank())] =
        train_on_bags<px::PsShard, px::CudaSpace>(world, Ops{world.queue()}, true, false);
  });
  CHECK(runtimes() == before);
  CHECK(own.allocated > 0);
  CHECK(own.blocks == 0);
  px::CudaSpace::draw_from({});
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    expected[static_cast<std::size_t>(world.rank())] =
        train_on_bags<px::PsShard, px::HostSpace>(world, px::RowOps<px::HostSpace>{}, true, false);
  });
  for (std::size_t rank = 0; rank < 2; ++rank) CHECK(same_bits(seen[rank], expected[rank]));
}

TEST_CASE("the first value on a device that is not finite is found", "[cuda][session]") {
  px::CudaPool pool;
  px::CudaStream const stream;
  Ops const ops{{stream.get(), pool}};
  auto const first = [&]<class T>(std::vector<T> const& values) {
    Memory<T, px::CudaSpace> const there{ops, values};
    auto const n = static_cast<std::int64_t>(values.size());
    px::Findings<px::CudaSpace> findings;
    findings.seek(px::Sought::non_finite, px::RowsView<T const>{there.span().data(), 1, n});
    findings.start(ops);
    ops.wait();
    auto const found = findings.first_non_finite<T>(0);
    return found ? found->column : n;
  };
  CHECK(first(std::vector<float>{}) == 0);
  CHECK(first(std::vector<float>{1, -0.0f, std::numeric_limits<float>::max(), std::numeric_limits<float>::denorm_min()}) == 4);
  std::vector<float> many(100'000, 0.5f);
  many[77'777] = infinity;
  many[99'999] = not_a_number;
  CHECK(first(many) == 77'777);
  many[3] = -infinity;
  CHECK(first(many) == 3);
  std::vector<double> doubles(3, 1e300);
  CHECK(first(doubles) == 3);
  doubles[2] = std::nan("");
  CHECK(first(doubles) == 2);
}

TEST_CASE("a gradient on a device that is not finite is refused with its place, and the session goes on", "[cuda][session]") {
  auto const told = on_two_ranks<std::string>([](px::CudaThreadCommunicator& world, Ops const& ops) {
    px::Session session{world, {.non_finite = px::NonFinite::error}};
    Words words{session, "words", {.rows = 9, .width = 3}};
    Memory<float, px::CudaSpace> parameters{ops, {1, 1, 1, 1}}, gradient{ops, {0, 0, 0, 0}};
    Layer layer{session, "layer", px::bind(parameters.span())};
    std::vector<int> const ids{4, 8};
    std::vector<float> rows(6, 0.5f);
    if (world.rank() == 1) rows[4] = not_a_number;
    Memory<float, px::CudaSpace> const row_gradients{ops, rows};
    std::string text = error_of([&] { session.step(px::grad(words, ids, row_gradients.span())); });
    if (world.rank() == 1) gradient.write({0, 0, infinity, 0});
    text += "; " + error_of([&] { session.step(px::grad(layer, gradient.span())); });
    Memory<float, px::CudaSpace> const right{ops, {4, 4, 4, 4}};
    session.step(px::grad(layer, right.span()));
    if (parameters.read() != std::vector<float>(4, 1 - 4 * static_cast<float>(px::Sgd{}.learning_rate))) text += "; wrong";
    session.finish();
    return text;
  });
  for (auto const& text : told) {
    CAPTURE(text);
    CHECK(text.find("(rank 1) in step of 'words': of the gradient, row 1, column 1 is nan") != std::string::npos);
    CHECK(text.find("(rank 1) in step of 'layer': of the gradient, element 2 is inf") != std::string::npos);
    CHECK(text.find("wrong") == std::string::npos);
  }
}

TEST_CASE("an index outside a table on a device that is dropped brings a row of zeros, and changes nothing", "[cuda][session]") {
  auto const seen = on_two_ranks<std::vector<float>>([](px::CudaThreadCommunicator& world, Ops const& ops) {
    px::Session session{world};
    Words words{session, "words", px::Table{.rows = 5, .width = 2, .initial = px::constant(3)}, px::BadIds::drop_and_count};
    std::vector<int> const ids{4, 99, 4};
    auto const rows = session.pull(words, ids);
    std::vector<std::uint32_t> inverse(3);
    ops.to_host(inverse.data(), rows.inverse().data(), inverse.size());
    auto const pulled = rows.values();
    std::vector<float> found = values_of(ops, px::RowsView<float const>{pulled.data, pulled.rows + 1, pulled.width});
    found.insert(found.end(), inverse.begin(), inverse.end());
    Memory<float, px::CudaSpace> const gradient{ops, {1, 1, 50, 50, 1, 1}};
    session.step(px::grad(rows, gradient.span()));
    auto const again = session.pull(words, std::vector<int>{0, 4});
    auto const later = values_of(ops, again.values());
    found.insert(found.end(), later.begin(), later.end());
    session.finish();
    return found;
  });
  float const moved = 3 - 2 * static_cast<float>(px::Sgd{}.learning_rate);  // the mean of two ranks' sums of two
  for (auto const& found : seen) CHECK(found == std::vector<float>{3, 3, 0, 0, 0, 1, 0, 3, 3, moved, moved});
}

namespace {

// Counts the exchanges of a rank, for whichever thread asks.
struct Counting {
  px::ThreadCommunicator* inner;
  std::atomic<int>* exchanges;

  int rank() const { return inner->rank(); }
  int size() const { return inner->size(); }
  auto deadline() const { return inner->deadline(); }
  void abort(px::Error const& reason) { inner->abort(reason); }
  auto ialltoallv(int channel, px::Transfer const& transfer) {
    ++*exchanges;
    return inner->ialltoallv(channel, transfer);
  }
};

}  // namespace

TEST_CASE("a progress thread works on the device of the session's queue", "[cuda][session]") {
  std::vector<std::string> told(2);
  px::run_threads(2, [&](px::ThreadCommunicator& threads) {
    int const device = 1;  // a new thread has device 0
    px::device::check(cudaSetDevice(device), "cudaSetDevice");
    std::atomic<int> exchanges{0};
    Counting host{&threads, &exchanges};
    px::CudaPool pool;
    px::CudaStream const stream;
    px::Staged<Counting> world{host, {stream.get(), pool}};
    told[static_cast<std::size_t>(threads.rank())] = error_of([&] {
      Ops const ops{world.queue()};
      px::Session session{world};
      Memory<float, px::CudaSpace> parameters{ops, {1, 1, 1, 1}}, gradient{ops, {2, 2, 4, 4}};
      Layer layer{session, "layer", px::bind(parameters.span())};
      {
        px::ProgressThread const thread{session};
        int const before = exchanges;
        session.start(px::grad(layer, gradient.span()));
        auto const patience = std::chrono::steady_clock::now() + std::chrono::seconds{10};
        while (exchanges < before + 2 && std::chrono::steady_clock::now() < patience)  // the agreement, and what is exchanged
          std::this_thread::sleep_for(std::chrono::microseconds{100});
        bool const exchanged = exchanges >= before + 2;
        session.step();
        if (!exchanged) throw px::Error{px::Errc::timeout, threads.rank(), "test", "", "nothing was exchanged"};
      }
      float const rate = static_cast<float>(px::Sgd{}.learning_rate);
      if (parameters.read() != std::vector<float>{1 - 2 * rate, 1 - 2 * rate, 1 - 4 * rate, 1 - 4 * rate})
        throw px::Error{px::Errc::mismatch, threads.rank(), "test", "", "parameters are wrong"};
      session.finish();
    });
    px::device::check(cudaSetDevice(0), "cudaSetDevice");
  });
  for (auto const& text : told) CHECK(text == "no error");
}
