// What the host waits for in a step of variables on a device: counted on the emulator.
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "communicators.hpp"
#include "deferred.hpp"

#include "parallax/kernel/cuda.cuh"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

// Waits of the host for what is in a stream, asked for by any thread so far.
std::int64_t waits() {
  emulator::Locked const locked{emulator::mutex};
  return emulator::event_waits + emulator::synchronizations;
}

// Tensors that go by two parcels, of at most 4 MiB each; returns the waits of three steps after the first, and checks the
// parameters.
template <class Policy, class C>
std::int64_t waits_of_steps(C& world) {
  constexpr std::size_t tensors = 220, elements = 5'000;
  px::Session<C> session{world, {.non_finite = px::NonFinite::propagate}};
  px::RowOps<px::CudaSpace> const ops{world.queue()};
  px::Buffer<float, px::CudaSpace> parameters{tensors * elements}, gradients{tensors * elements};
  ops.fill(parameters.data(), parameters.size(), 1.0f);
  ops.fill(gradients.data(), gradients.size(), static_cast<float>(world.rank() + 1));
  std::deque<px::Variable<px::Dense, Policy, px::Sgd, px::CudaSpace>> variables;
  for (std::size_t k = 0; k < tensors; ++k)
    variables.emplace_back(session, "tensor " + std::to_string(k),
                           px::bind(std::span{parameters.data() + k * elements, elements}), px::Sgd{.learning_rate = 0.5});
  std::vector<decltype(px::grad(variables[0], std::span<float const>{}))> updates;
  for (std::size_t k = 0; k < tensors; ++k)
    updates.push_back(px::grad(variables[k], std::span<float const>{gradients.data() + k * elements, elements}));
  session.step(updates);
  px::barrier(world);
  std::int64_t const before = waits();
  px::barrier(world);
  for (int step = 0; step < 3; ++step) session.step(updates);
  px::barrier(world);
  std::int64_t const after = waits();
  px::barrier(world);
  std::vector<float> found(parameters.size());
  ops.to_host(found.data(), parameters.data(), found.size());
  float const expected = 1 - 4 * 0.5f * (static_cast<float>(world.size()) + 1) / 2;
  for (float const value : found)
    if (value != expected) return -1;
  session.finish();
  return after - before;
}

template <class Communicators>
void check(Communicators const& communicators) {
  std::vector<std::int64_t> all_reduced(2, -1), sharded(2, -1);
  communicators.run(std::chrono::minutes{1}, [&]<class C>(C& world) {
    auto const rank = static_cast<std::size_t>(world.rank());
    all_reduced[rank] = waits_of_steps<px::AllReduce>(world);
    sharded[rank] = waits_of_steps<px::PsShard>(world);
  });
  for (std::size_t const rank : {0u, 1u}) {
    CHECK(all_reduced[rank] == 0);
    CHECK(sharded[rank] == 0);
  }
}

}  // namespace

TEST_CASE("a step of dense variables puts its work in the stream and waits for none of it, however many parcels there are",
          "[cuda][waits]") {
  emulated::Deferred const deferred{emulated::first_seed("host waits")};
  check(communicators::CudaThreads{2});
  check(communicators::NcclThreads{2});
}
