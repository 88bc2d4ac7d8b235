// Once sizes have settled, pulls and steps call neither operator new nor malloc, whatever the policy.
#include <array>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "../catch.hpp"
#include "../support/allocation_counter.hpp"
#include "model.hpp"
#include "parallax/comm/any.hpp"
#include "../../benchmarks/baseline/naive_ps.hpp"

namespace parallax_test::allocation {
namespace {

using px::grad;

constexpr int warm_up = 10, steady = 50;
constexpr std::size_t n = 100;  // indices of a batch, drawn from few rows: the number of distinct ones varies little

struct Count {
  std::int64_t news = 0, mallocs = 0;
  friend bool operator==(Count const&, Count const&) = default;
};
std::ostream& operator<<(std::ostream& out, Count const& count) {
  return out << count.news << " calls of operator new, " << count.mallocs << " of malloc";
}

// Runs a step function warm_up + steady times and counts what this thread allocates in the steady ones.
template <class Step>
Count allocations_of(Step&& step) {
  Count before;
  for (int i = 0; i < warm_up + steady; ++i) {
    if (i == warm_up) before = {news, mallocs};
    step(i);
  }
  return {news - before.news, mallocs - before.mallocs};
}

// The model of all policies and of long names, with memory of its own for ids and gradients.
struct Trainer {
  static constexpr std::int64_t rows = 40;

  explicit Trainer(px::Topology<px::AnyCommunicator> topology) : session{std::move(topology)} {
    for (std::size_t i = 0; i < layer_memory.size(); ++i)
      layers.emplace_back(session, "a layer with a name of more than fifteen letters, number " + std::to_string(i),
                          px::bind(layer_memory[i]));
    updates.reserve(layers.size());
  }

  px::Session<px::AnyCommunicator> session;
  std::array<std::vector<float>, 5> layer_memory = {std::vector<float>(70), std::vector<float>(7), std::vector<float>(3000),
                                                    std::vector<float>(1), std::vector<float>(0)};
  std::vector<double> output_memory = std::vector<double>(501), large_memory = std::vector<double>(200'000);
  std::vector<px::Variable<px::Dense, px::Adagrad>> layers;
  px::Variable<px::Dense, px::PsShard, px::Adam, double> output{session, "the projection of the output",
                                                                px::bind(output_memory)};
  px::Variable<px::Dense, double> large{session, "a tensor that travels on its own", px::bind(large_memory)};
  px::Variable<px::Sparse, px::Adagrad> words{session, "the embedding of the words", {rows, 3}, px::Reduce::mean_by_count};
  px::Variable<px::Sparse, px::Adam, double> exact{session, "a table that moves when untouched", {rows, 2}};
  px::Variable<px::Sparse, px::AllGather, px::LazyAdam, px::Index<std::int32_t>> copy{session, "a replicated table", {rows, 2}};
  px::Variable<px::Sparse, px::AllReduce, px::LazyAdam, double> whole{session, "a densified table", {rows, 4}};
  px::Variable<px::Sparse, baseline::NaivePs> naive{session, "a table of the naive server", {rows, 1}};

  std::mt19937_64 random{static_cast<std::uint64_t>(session.rank())};
  std::vector<std::int64_t> ids = std::vector<std::int64_t>(n), other_ids = ids;
  std::vector<std::int32_t> narrow_ids = std::vector<std::int32_t>(n);
  std::vector<float> gradient = std::vector<float>(3000, 0.5f);
  std::vector<double> large_gradient = std::vector<double>(200'000, 0.25);
  using Update = decltype(grad(std::declval<px::Variable<px::Dense, px::Adagrad>&>(), std::declval<std::span<float const>>()));
  std::vector<Update> updates;

  template <class T>
  std::span<T const> some(std::vector<T> const& values, std::size_t count) const { return std::span{values}.first(count); }

  void draw() {
    for (auto* list : {&ids, &other_ids})
      for (auto& id : *list) id = static_cast<std::int64_t>(random() % rows);
    for (auto& id : narrow_ids) id = static_cast<std::int32_t>(random() % rows);
    updates.clear();
    for (std::size_t i = 0; i < layers.size(); ++i)
      updates.push_back(grad(layers[i], some(gradient, layer_memory[i].size())));
  }

  void train(int step) {
    draw();
    exact.optimizer().learning_rate = 0.001 / (1 + step);
    auto const copied = session.pull(copy, narrow_ids);
    session.start(grad(output, some(large_gradient, 501)), grad(large, large_gradient));
    auto const [w, e] = session.pull(words.at(ids), exact.at(other_ids));
    session.start(grad(w, some(gradient, 3 * n)));
    session.start(grad(copied, some(gradient, 2 * n)));
    session.start(grad(naive, ids, some(gradient, n)));
    session.poll();
    float const half = 0.5f;
    auto next = session.prefetch(words.at(other_ids), copy.at(narrow_ids));
    session.step(px::clip_by_global_norm(1.0, updates, grad(e, some(large_gradient, 2 * n))),
                 grad(copy, narrow_ids, some(gradient, 2 * n)), grad(words, other_ids, some(gradient, 3 * n)),
                 grad(naive, other_ids, some(gradient, n)).transform([&](auto part) {
                   for (std::int64_t i = 0; i < part.values.rows; ++i) part.values.row(i)[0] *= half;
                 }),
                 grad(whole, ids, some(large_gradient, 4 * n)));
    auto const arrived = session.pull(std::move(next));
    static_cast<void>(arrived);
  }
};

}  // namespace

TEST_CASE("the counter sees new and malloc of this thread", "[session][allocation]") {
  Count const before{news, mallocs};
  int* volatile plain = new int{1};
  delete plain;
  void* volatile aligned = px::HostSpace::allocate(100);
  px::HostSpace::deallocate(aligned, 100);
  CHECK(news - before.news == 2);
#if PARALLAX_TEST_OWNS_MALLOC
  std::int64_t const earlier = mallocs;
  void* volatile memory = std::malloc(10);
  std::free(memory);
  CHECK(mallocs - earlier == 1);
#endif
}

TEST_CASE("steady steps allocate nothing on one rank", "[session][allocation]") {
  px::AnyCommunicator world{px::SelfCommunicator{}};
  Trainer trainer{px::Topology{world}};
  CHECK(allocations_of([&](int step) { trainer.train(step); }) == Count{});
}

TEST_CASE("steady steps allocate nothing on four threads", "[session][allocation]") {
  auto const counts = on_ranks(4, [](px::ThreadCommunicator& threads) {
    px::AnyCommunicator world{std::ref(threads)};
    Trainer trainer{px::Topology{world}};
    return allocations_of([&](int step) { trainer.train(step); });
  });
  for (Count const& count : counts) CHECK(count == Count{});
}

TEST_CASE("steady steps allocate nothing on four threads of two hosts", "[session][allocation]") {
  auto const counts = on_ranks(4, [](px::ThreadCommunicator& threads) {
    px::AnyCommunicator world{std::ref(threads)};
    Trainer trainer{px::Topology{world, {0, 0, 1, 1}}};
    return allocations_of([&](int step) { trainer.train(step); });
  });
  for (Count const& count : counts) CHECK(count == Count{});
}

TEST_CASE("steady pulls of many tables with long names allocate nothing", "[session][allocation]") {
  auto const counts = on_ranks(2, [](px::ThreadCommunicator& threads) {
    px::AnyCommunicator world{std::ref(threads)};
    px::Session session{world};
    using Table = px::Variable<px::Sparse>;
    Table a{session, "the first table of a model with many", {9, 2}},
        b{session, "the second table of a model with many", {9, 2}};
    std::vector<int> const ids{1, 8, 8};
    std::vector<float> const rows(6, 1.0f);
    return allocations_of([&](int) {
      auto const [p, q, r, s, t, u, v, w] =
          session.pull(a.at(ids), b.at(ids), a.at(ids), b.at(ids), a.at(ids), b.at(ids), a.at(ids), b.at(ids));
      session.step(grad(a, ids, rows), grad(b, ids, rows), grad(a, ids, rows), grad(b, ids, rows), grad(a, ids, rows),
                   grad(b, ids, rows), grad(a, ids, rows), grad(b, ids, rows));
    });
  });
  for (Count const& count : counts) CHECK(count == Count{});
}

TEST_CASE("steady steps by rows that the trainer changes allocate nothing", "[session][allocation]") {
  auto const counts = on_ranks(2, [](px::ThreadCommunicator& threads) {
    px::AnyCommunicator world{std::ref(threads)};
    px::Session session{world};
    px::Variable<px::Sparse, px::Subtract> words{session, "a table with a name of some length", {9, 2}};
    std::vector<int> const ids{1, 8, 8};
    return allocations_of([&](int) {
      auto rows = session.pull(words, ids).editable();
      rows.find(8)[0] += 1;
      session.step(grad(rows, px::difference));
    });
  });
  for (Count const& count : counts) CHECK(count == Count{});
}

TEST_CASE("steady broadcasts allocate nothing", "[session][allocation]") {
  auto const counts = on_ranks(3, [](px::ThreadCommunicator& threads) {
    px::AnyCommunicator world{std::ref(threads)};
    px::Session session{world};
    std::vector<float> memory(100);
    px::Variable<px::Dense> hidden{session, "a variable with a name of some length", px::bind(memory)};
    return allocations_of([&](int) { session.broadcast(hidden); });
  });
  for (Count const& count : counts) CHECK(count == Count{});
}

}  // namespace parallax_test::allocation
