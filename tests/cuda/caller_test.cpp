// Trainers that work in a stream of their own, beside that of the library: on the emulator, in drawn orders of streams.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <thread>
#include <vector>

#include "../catch.hpp"
#include "communicators.hpp"
#include "deferred.hpp"

#include "parallax/kernel/cuda.cuh"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

constexpr std::size_t elements = 300, width = 3, table_rows = 40;

// Memory that a trainer takes for its gradients and parameters.
template <class Space>
using Numbers = px::Buffer<float, Space>;

template <class Space, class Ops>
std::vector<float> on_host(Ops const& ops, float const* values, std::size_t n) {
  if constexpr (std::same_as<Space, px::HostSpace>) return {values, values + n};
  else {
    std::vector<float> copy(n);
    ops.to_host(copy.data(), values, n);
    return copy;
  }
}

// A training whose gradients are made of what the calls before have brought: parameters, and rows. `mine`: the operations of the
// trainer, in its own stream. Every start is followed by other work on the gradient's memory. Returns all that it has seen.
template <class Space, class C, class Ops>
std::vector<float> train(C& world, Ops const& mine) {
  auto const rank = static_cast<float>(world.rank() + 1);
  px::Session session{world, {.non_finite = px::NonFinite::propagate}};
  Numbers<Space> a{elements}, b{elements}, of_a{elements}, of_b{elements}, one{elements}, of_rows{8 * width};
  mine.fill(a.data(), elements, 1.0f);
  mine.fill(b.data(), elements, 2.0f);
  mine.fill(one.data(), elements, rank);
  px::Variable<px::Dense, px::AllReduce, px::Sgd, Space> all_reduced{session, "a", px::bind(std::span{a.data(), elements}),
                                                                     px::Sgd{.learning_rate = 0.25}};
  px::Variable<px::Dense, px::PsShard, px::Adagrad, Space> sharded{session, "b", px::bind(std::span{b.data(), elements}),
                                                                   px::Adagrad{.learning_rate = 0.25}};
  px::Variable<px::Sparse, px::Adam, Space> words{
      session, "words", {.rows = table_rows, .width = width, .initial = px::uniform(-1, 1)}};
  std::vector<float> seen;
  for (int step = 0; step < 6; ++step) {
    std::vector<int> const ids{step, world.rank(), step + 7, 3, step, 9 + world.rank(), 30, 31};
    auto const pulled = session.pull(words, ids);
    // d(a) = a + rank, d(b) = a + b: what the step before has written.
    mine.copy_from(of_a.data(), a.data(), elements);
    mine.add_to(of_a.data(), one.data(), elements);
    session.start(px::grad(all_reduced, std::span<float const>{of_a.data(), elements}));
    mine.copy_from(of_a.data(), b.data(), elements);  // it is free again
    mine.copy_from(of_b.data(), a.data(), elements);
    session.poll();
    mine.add_to(of_b.data(), b.data(), elements);
    session.start(px::grad(sharded, std::span<float const>{of_b.data(), elements}));
    mine.fill(of_b.data(), elements, -7.0f);
    // The gradient of a row is the row.
    mine.copy_from(of_rows.data(), pulled.values().data,
                   static_cast<std::int64_t>(pulled.values().rows * pulled.values().width));
    session.poll();
    session.step(px::grad(
        pulled, px::distinct(px::RowsView<float const>{of_rows.data(), static_cast<std::int64_t>(pulled.size()), width})));
    mine.copy_from(of_a.data(), a.data(), elements);
    mine.add_to(of_a.data(), b.data(), elements);
    auto const now = on_host<Space>(mine, of_a.data(), elements);
    seen.insert(seen.end(), now.begin(), now.end());
    auto const brought = on_host<Space>(mine, of_rows.data(), pulled.size() * width);
    seen.insert(seen.end(), brought.begin(), brought.end());
  }
  session.finish();
  return seen;
}

using Seen = std::vector<std::vector<float>>;

Seen expected() {
  Seen all(2);
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    all[static_cast<std::size_t>(world.rank())] = train<px::HostSpace>(world, px::RowOps<px::HostSpace>{});
  });
  return all;
}

template <class Communicators>
void check(Communicators const& communicators, Seen const& expected) {
  Seen found(2);
  communicators.run(std::chrono::minutes{1}, [&]<class C>(C& world) {
    px::CudaStream const own;
    world.queue().caller->follow(own.get());
    px::CudaQueue mine = world.queue();
    mine.stream = own.get(), mine.caller = nullptr;
    found[static_cast<std::size_t>(world.rank())] = train<px::CudaSpace>(world, px::RowOps<px::CudaSpace>{mine});
  });
  for (std::size_t rank = 0; rank < 2; ++rank) {
    REQUIRE(found[rank].size() == expected[rank].size());
    CHECK(std::memcmp(found[rank].data(), expected[rank].data(), found[rank].size() * sizeof(float)) == 0);
  }
}

}  // namespace

TEST_CASE("a trainer in a stream of its own gets the host's bits, whatever order streams take", "[cuda][caller]") {
  auto const first = emulated::first_seed("caller");
  Seen const by_host = expected();
  for (std::uint64_t seed = first; seed < first + 6; ++seed) {
    CAPTURE(seed);
    emulated::Deferred const deferred{seed};
    check(communicators::StagedThreads{2}, by_host);
    check(communicators::CudaThreads{2}, by_host);
    check(communicators::NcclThreads{2}, by_host);
  }
}

namespace {

// Work that a stream comes to and is not done with as long as the gate is shut.
class Gate {
 public:
  explicit Gate(cudaStream_t stream) {
    emulator::put(emulator::of(stream), {{}, nullptr, 0, [this] { return open_.load(); }});
  }
  void open() { open_ = true; }

 private:
  std::atomic<bool> open_{false};
};

}  // namespace

TEST_CASE("what a start sends travels while the trainer's stream is busy, and the trainer's work waits for none of it",
          "[cuda][caller]") {
  emulated::Deferred const deferred{emulated::first_seed("caller beside")};
  std::vector<float> sums(2), gradients(2);
  communicators::NcclThreads{2}.run(std::chrono::minutes{1}, [&]<class C>(C& world) {
    auto const rank = static_cast<std::size_t>(world.rank());
    px::CudaStream const own;
    px::CudaQueue const queue = world.queue();
    queue.caller->follow(own.get());
    px::CudaQueue of_trainer = queue;
    of_trainer.stream = own.get(), of_trainer.caller = nullptr;
    px::RowOps<px::CudaSpace> const mine{of_trainer};
    px::Session session{world, {.non_finite = px::NonFinite::propagate}};
    px::Buffer<float, px::CudaSpace> parameters{elements}, gradient{elements}, later{elements};
    mine.fill(parameters.data(), elements, 0.0f);
    mine.fill(gradient.data(), elements, static_cast<float>(rank + 1));
    px::Variable<px::Dense, px::AllReduce, px::Sgd, px::CudaSpace> variable{
        session, "v", px::bind(std::span{parameters.data(), elements}), px::Sgd{.learning_rate = 1}};
    session.step();  // nothing, so that all has been set up

    px::barrier(world);
    auto const posted = [] {
      emulator::Locked const locked{emulator::mutex};
      return emulator::nccl.enqueued;
    };
    auto const before = posted();
    px::barrier(world);

    // The library's stream stands still: the trainer's goes on, and has the gradient's memory again.
    Gate in_queue{queue.stream};
    session.start(px::grad(variable, std::span<float const>{gradient.data(), elements}));
    mine.fill(gradient.data(), elements, 100.0f);
    session.poll();
    gradients[rank] = on_host<px::CudaSpace>(mine, gradient.data(), 1)[0];
    in_queue.open();

    // The trainer's stream stands still: what was started arrives.
    Gate in_own{own.get()};
    mine.fill(later.data(), elements, 5.0f);
    while (posted() < before + 2) {
      session.poll();
      std::this_thread::yield();
    }
    px::device::check(cudaStreamSynchronize(queue.stream), "cudaStreamSynchronize");
    in_own.open();
    session.step();
    sums[rank] = on_host<px::CudaSpace>(mine, parameters.data(), 1)[0];
    session.finish();
  });
  for (std::size_t const rank : {0u, 1u}) {
    CHECK(gradients[rank] == 100);
    CHECK(sums[rank] == -1.5f);
  }
}
