// What a step has to know of numbers in device memory: tensors that an optimizer measures, norms, whether all is finite.
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "../catch.hpp"
#include "../equivalence/memory.hpp"
#include "../support/size.hpp"
#include "deferred.hpp"
#include "two_ranks.hpp"

namespace {

namespace px = parallax;
using emulated::on_two_ranks, emulated::same_bits, parallax_test::Memory, parallax_test::values_of;
using Ops = px::RowOps<px::CudaSpace>;

// Rules that measure rows or whole tensors, on layers and tables of every policy: the parameters at the end.
template <class O, class DensePolicy, class RowPolicy, class Space, class C>
std::vector<float> train_measured(C& world, px::RowOps<Space> const& ops) {
  px::Session session{world};
  std::mt19937_64 random{3 + static_cast<std::uint64_t>(world.rank())};
  auto const draw = [&](std::size_t count) {
    std::vector<float> values(count);
    for (float& value : values) value = static_cast<float>(random() % 1000) / 100 - 5;
    return values;
  };
  Memory<float, Space> large{ops, std::vector<float>(9000, 0.5f)}, small{ops, std::vector<float>(30, -1)};
  px::Variable<px::Dense, DensePolicy, O, Space> layer{session, "layer", px::bind(large.span())};
  px::Variable<px::Dense, DensePolicy, O, Space> other{session, "other", px::bind(small.span())};
  px::Table const table{.rows = 20, .width = 7, .initial = px::uniform(-1, 1)};
  px::Variable<px::Sparse, RowPolicy, O, Space> words{session, "words", table};
  std::vector<float> seen;
  for (int step = 0; step < 3; ++step) {
    std::vector<int> const ids{1, 4, 1, 19, world.rank()};
    auto const rows = session.pull(words, ids);
    Memory<float, Space> const of_layer{ops, draw(9000)}, of_other{ops, draw(30)}, of_rows{ops, draw(ids.size() * 7)};
    double const limit = step == 1 ? 10 : 1e9;
    session.step(px::clip_by_global_norm(limit, px::grad(layer, of_layer.span()), px::grad(rows, of_rows.span())),
                 px::grad(other, of_other.span()));
  }
  for (auto const& values : {large.read(), small.read(), values_of(ops, words.local())})
    seen.insert(seen.end(), values.begin(), values.end());
  session.finish();
  return seen;
}
template <class O, class DensePolicy, class RowPolicy>
void check_measured() {
  std::vector<std::vector<float>> expected(2);
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    expected[static_cast<std::size_t>(world.rank())] =
        train_measured<O, DensePolicy, RowPolicy, px::HostSpace>(world, px::RowOps<px::HostSpace>{});
  });
  auto const found = on_two_ranks<std::vector<float>>([&](px::CudaThreadCommunicator& world, Ops const& ops) {
    return train_measured<O, DensePolicy, RowPolicy, px::CudaSpace>(world, ops);
  });
  for (std::size_t rank = 0; rank < 2; ++rank) CHECK(same_bits(found[rank], expected[rank]));
}

// What hosts have asked of the device: copies of its numbers, and waits for all that streams hold.
struct Asked {
  std::int64_t copies, waits;
  bool operator==(Asked const&) const = default;
};
Asked asked() {
  emulator::Locked const locked{emulator::mutex};
  return {emulator::copies_to_host, emulator::synchronizations};
}

// Of two ranks together, in four steps after the first two, which make what later ones use again.
Asked asked_in_steps(px::NonFinite non_finite, bool clips) {
  auto const n = parallax_test::sized<std::size_t>(600, 5000, 5000);
  Asked before{}, after{};
  std::barrier together{2};
  px::run_cuda_threads(2, [&](px::CudaThreadCommunicator& world) {
    Ops const ops{world.queue()};
    px::Session session{world, {.non_finite = non_finite}};
    Memory<float, px::CudaSpace> first{ops, std::vector<float>(n, 0.5f)}, second{ops, std::vector<float>(30, -1)};
    px::Variable<px::Dense, px::Lamb, px::CudaSpace> layer{session, "layer", px::bind(first.span())};
    px::Variable<px::Dense, px::PsShard, px::Lamb, px::CudaSpace> other{session, "other", px::bind(second.span())};
    px::Variable<px::Sparse, px::Adagrad, px::CudaSpace> words{session, "words", {.rows = 40, .width = 3}};
    px::Variable<px::Sparse, px::AllReduce, px::Sgd, px::CudaSpace> few{session, "few", {.rows = 5, .width = 2}};
    std::vector<int> const ids{4, 0, 4, world.rank()};
    Memory<float, px::CudaSpace> const of_layer{ops, std::vector<float>(n, 1)}, of_other{ops, std::vector<float>(30, 1)},
        of_words{ops, std::vector<float>(ids.size() * 3, 1)}, of_few{ops, std::vector<float>(ids.size() * 2, 1)};
    for (int step = 0; step < 6; ++step) {
      together.arrive_and_wait();
      if (step == 2 && world.rank() == 0) before = asked();
      together.arrive_and_wait();
      auto const rows = session.pull(words, ids);
      auto const dense = px::grad(layer, of_layer.span());
      if (clips)
        session.step(px::clip_by_global_norm(1, dense, px::grad(rows, of_words.span())), px::grad(other, of_other.span()),
                     px::clip_by_global_norm(2, px::grad(few, ids, of_few.span())));
      else session.step(dense, px::grad(rows, of_words.span()), px::grad(other, of_other.span()),
                        px::grad(few, ids, of_few.span()));
    }
    together.arrive_and_wait();
    if (world.rank() == 0) after = asked();
    together.arrive_and_wait();
    session.finish();
  });
  return {after.copies - before.copies, after.waits - before.waits};
}

// Kernels that two ranks have launched for a step of a matrix of n elements, whose optimizer measures its rows.
std::uint64_t launches_of_step(std::size_t n) {
  std::uint64_t launches = 0;
  std::barrier together{2};
  px::run_cuda_threads(2, [&](px::CudaThreadCommunicator& world) {
    Ops const ops{world.queue()};
    px::Session session{world};
    Memory<float, px::CudaSpace> parameters{ops, std::vector<float>(n, 0.5f)};
    px::Variable<px::Dense, px::AllReduce, px::RowwiseAdagrad, px::CudaSpace> layer{session, "matrix",
                                                                                    px::bind(parameters.span(), 32)};
    Memory<float, px::CudaSpace> const gradient{ops, std::vector<float>(n, 1)};
    std::uint64_t before = 0;
    for (int step = 0; step < 2; ++step) {
      ops.wait();
      together.arrive_and_wait();
      if (world.rank() == 0) before = emulator::launches;
      together.arrive_and_wait();
      session.step(px::grad(layer, gradient.span()));
    }
    ops.wait();
    together.arrive_and_wait();
    if (world.rank() == 0) launches = emulator::launches - before;
    together.arrive_and_wait();
    session.finish();
  });
  return launches;
}

}  // namespace

TEST_CASE("optimizers that measure rows or tensors on a device have the host's bits", "[cuda][session][optimizers]") {
  check_measured<px::Lamb, px::AllReduce, px::PsShard>();
  check_measured<px::Lamb, px::PsShard, px::AllReduce>();
  check_measured<px::LazyLamb, px::PsShard, px::AllGather>();
  check_measured<px::RowwiseAdagrad, px::AllReduce, px::AllReduce>();
  check_measured<px::RowwiseAdagrad, px::PsShard, px::PsShard>();
}

TEST_CASE("what is measured on a device is awaited, in whatever order streams run", "[cuda][session][optimizers]") {
  std::uint64_t const first = emulated::first_seed("orders of streams");
  for (std::uint64_t seed = first; seed < first + parallax_test::sized(1u, 3u, 3u); ++seed) {
    INFO("PARALLAX_SEED=" << seed);
    emulated::Deferred const deferred{seed};
    check_measured<px::Lamb, px::AllReduce, px::PsShard>();
    check_measured<px::Lamb, px::PsShard, px::AllReduce>();
  }
}

TEST_CASE("a step brings all that it has to know from the device in one copy, and waits for no stream", "[cuda][session]") {
  constexpr std::int64_t steps = 2 * 4;
  CHECK(asked_in_steps(px::NonFinite::propagate, false) == Asked{0, 0});
  CHECK(asked_in_steps(px::NonFinite::propagate, true) == Asked{steps, 0});
  CHECK(asked_in_steps(px::NonFinite::skip_step, true) == Asked{steps, 0});
  CHECK(asked_in_steps(px::NonFinite::error, true) == Asked{2 * steps, 0});  // one of them before anything is sent
}

TEST_CASE("a matrix on a device is averaged and updated as a whole, however large it is", "[cuda][session][optimizers]") {
  CHECK(launches_of_step(8 * 2048) == launches_of_step(2048));
}
