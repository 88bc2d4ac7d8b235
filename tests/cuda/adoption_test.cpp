// Values from outside, and rates that change, on a device: slots of Ftrl and AdagradDa follow them to the bits of the host's.
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <vector>

#include "../catch.hpp"
#include "../equivalence/memory.hpp"
#include "communicators.hpp"
#include "deferred.hpp"

#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/kernel/cuda.cuh"
#include "parallax/parallax.hpp"
#include "parallax/session/capture.hpp"

namespace px = parallax;

namespace {

using parallax_test::Memory, parallax_test::values_of;
constexpr std::int64_t rows = 19, width = 5;
constexpr std::size_t elements = rows * width;

float number(int step, int rank, std::size_t i) {
  return static_cast<float>((step * 13 + rank * 7 + static_cast<int>(i) * 5) % 29 - 14) / 64;
}

// Returns what a rank sees of a layer and a table: parameters and slots, as they are in the end.
template <class T, class Space, class Policy, class O, class C>
std::vector<float> train(C& world, px::RowOps<Space> const& ops, O const& settings) {
  px::Session session{world};
  std::vector<float> first(elements);
  for (std::size_t i = 0; i < elements; ++i) first[i] = number(3, 0, i);
  Memory<float, Space> weights{ops, first}, gradient{ops, std::vector<float>(elements)},
      of_rows{ops, std::vector<float>(4 * width)};
  using DensePolicy = std::conditional_t<std::same_as<Policy, px::PsShard>, px::PsShard, px::AllReduce>;
  px::Variable<px::Dense, DensePolicy, O, Space> layer{session, "layer", px::bind(weights.span()), settings};
  px::Variable<px::Sparse, Policy, O, T, Space> table{
      session, "table", {.rows = rows, .width = width, .initial = px::uniform(-1, 1)}, settings};
  int step = 0;
  auto const steps = [&](int count) {
    for (; count-- > 0; ++step) {
      std::vector<float> g(elements), of(4 * width);
      for (std::size_t i = 0; i < elements; ++i) g[i] = number(step, world.rank(), i);
      for (std::size_t i = 0; i < of.size(); ++i) of[i] = number(step + 1, world.rank(), i);
      gradient.write(g), of_rows.write(of);
      std::vector<int> const ids{step % 19, (3 * step + world.rank()) % 19, 7, step % 19};
      session.step(px::grad(layer, gradient.span()), px::grad(table, ids, of_rows.span()));
    }
  };
  steps(3);
  auto const give = [](std::span<std::int64_t const> numbers, auto given) {
    for (std::int64_t i = 0; i < given.rows * given.width; ++i)
      given.data[i] =
          static_cast<std::remove_cvref_t<decltype(given.data[i])>>(number(5, 0, static_cast<std::size_t>(numbers[0] + i)));
  };
  session.scatter(table, {}, give);
  session.scatter(layer, {}, give);
  steps(2);
  weights.write(first);
  layer.adopt();
  steps(2);
  if constexpr (std::same_as<Policy, px::AllReduce>) session.broadcast(layer, table);
  layer.optimizer().learning_rate = table.optimizer().learning_rate = 0.05;
  steps(3);
  std::vector<float> seen = weights.read();
  auto const see = [&](auto const& view) {
    for (auto const value : values_of(ops, view)) seen.push_back(static_cast<float>(value));
  };
  see(table.local());
  for (auto const& name : O::slot_names) {
    see(table.template slot<float>(name));
    auto const slot = layer.template slot<float>(name);
    see(px::RowsView<float>{slot.data(), 1, static_cast<std::int64_t>(slot.size())});
  }
  session.finish();
  return seen;
}

template <class T, class Policy, class O>
void check(O const& settings, int ranks = 2) {
  std::vector<std::vector<float>> expected(static_cast<std::size_t>(ranks)), found = expected;
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    expected[static_cast<std::size_t>(world.rank())] =
        train<T, px::HostSpace, Policy, O>(world, px::RowOps<px::HostSpace>{}, settings);
  });
  emulated::Deferred const deferred{emulated::first_seed("adoption")};
  px::run_cuda_threads(ranks, [&](px::CudaThreadCommunicator& world) {
    found[static_cast<std::size_t>(world.rank())] =
        train<T, px::CudaSpace, Policy, O>(world, px::RowOps<px::CudaSpace>{world.queue()}, settings);
  });
  for (std::size_t rank = 0; rank < expected.size(); ++rank) {
    CAPTURE(rank, Policy::name, px::optimizer_name<O>());
    REQUIRE(found[rank].size() == expected[rank].size());
    CHECK(std::memcmp(found[rank].data(), expected[rank].data(), found[rank].size() * sizeof(float)) == 0);
  }
}

}  // namespace

TEST_CASE("slots on a device follow values from outside as the host's do", "[cuda][adopt]") {
  px::Ftrl const ftrl{.l1 = 0.02, .l2 = 0.01, .initial_accumulator = 0.1};
  px::AdagradDa const averaging{.learning_rate = 0.1, .l1 = 0.001, .l2 = 0.01};
  check<float, px::PsShard>(ftrl);
  check<float, px::AllReduce>(ftrl);
  check<px::BFloat16, px::PsShard>(ftrl);
  check<float, px::PsShard>(averaging);
  check<px::Float16, px::AllReduce>(averaging);
}

TEST_CASE("first values are adopted once, ahead of a step that is captured", "[cuda][adopt]") {
  std::vector<std::vector<float>> seen;
  for (bool const captures : {false, true})
    communicators::NcclThreads{1}.run(std::chrono::minutes{1}, [&](auto& world) {
      px::Session session{world, px::SessionOptions{.non_finite = px::NonFinite::propagate}};
      px::RowOps<px::CudaSpace> const ops{world.queue()};
      Memory<float, px::CudaSpace> weights{ops, std::vector<float>(elements, 0.5f)},
          gradient{ops, std::vector<float>(elements, 0.01f)};
      px::Variable<px::Dense, px::CudaSpace, px::Ftrl> layer{session, "layer", px::bind(weights.span())};
      auto const step = [&] { session.step(px::grad(layer, gradient.span())); };
      std::optional<px::CapturedStep> captured;
      for (int number = 0; number < 6; ++number) {
        layer.optimizer().learning_rate = number < 4 ? 0.1 : 0.05;
        if (!captures) step();
        else if (!captured) captured.emplace(px::capture(session, step));
        else captured->replay();
      }
      seen.push_back(weights.read());
      seen.push_back(values_of(ops, px::RowsView<float>{layer.slot<float>("z").data(), 1, elements}));
      session.finish();
    });
  REQUIRE(seen.size() == 4);
  CHECK(seen[0] == seen[2]);
  CHECK(seen[1] == seen[3]);
  CHECK(seen[0][0] > 0.4f);
}
