// A small training of a layer and a table whose gradients depend on what was pulled, by a Session and by an AsyncSession.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "parallax/async/async_session.hpp"
#include "parallax/parallax.hpp"
#include "parallax/variable/memory_archive.hpp"

namespace async_test {

namespace px = parallax;

// What a worker is given in one step.
struct Batch {
  std::vector<std::int64_t> ids;
  std::vector<double> noise;
};
inline Batch batch_of(std::uint64_t seed, int worker, int step, std::int64_t rows) {
  std::mt19937_64 random{seed * 1'000'003 + static_cast<std::uint64_t>(worker) * 1009 + static_cast<std::uint64_t>(step)};
  Batch batch;
  std::size_t const count = random() % 4 == 0 ? 0 : random() % 12;  // an empty batch now and then
  for (std::size_t i = 0; i < count; ++i)
    batch.ids.push_back(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(random() % 2 ? rows : 3)));
  for (int i = 0; i < 64; ++i) batch.noise.push_back(static_cast<double>(random() % 2001) / 1000 - 1);
  return batch;
}

template <class T, class DenseOptimizer, class RowOptimizer, class Partitioner>
struct Model {
  static constexpr std::int64_t rows = 37, width = 3;

  template <class Session, class... Settings>
  Model(Session& session, Settings const&... reduce)
      : layer{session, "layer", px::bind(weights), reduce...},
        table{session, "table", {.rows = rows, .width = width, .initial = px::uniform(-1, 1)}, reduce...} {}

  // One step's gradients of what `pulled` and the layer have.
  template <class Handle>
  void differentiate(Handle const& pulled, Batch const& batch) {
    row_gradients.assign(batch.ids.size() * static_cast<std::size_t>(width), T{});
    for (std::size_t i = 0; i < batch.ids.size(); ++i)
      for (std::size_t c = 0; c < static_cast<std::size_t>(width); ++c)
        row_gradients[i * static_cast<std::size_t>(width) + c] =
            static_cast<T>(0.1) * pulled[i][c] + static_cast<T>(batch.noise[(i + 5 * c) % 64]);
    for (std::size_t k = 0; k < weights.size(); ++k)
      layer_gradient[k] =
          static_cast<T>(0.2) * weights[k] + static_cast<T>(batch.noise[k]) * (batch.ids.empty() ? T{1} : pulled[0][0]);
  }
  // Everything that outlives a step, as this rank has it.
  px::MemoryArchive state() {
    px::MemoryArchive kept;
    layer.visit(kept.writer());
    table.visit(kept.writer());
    return kept;
  }

  std::vector<T> weights = std::vector<T>(11, T{1}), layer_gradient = std::vector<T>(11), row_gradients;
  px::Variable<px::Dense, px::PsShard, DenseOptimizer, T> layer;
  px::Variable<px::Sparse, px::PsShard, RowOptimizer, Partitioner, T> table;
};

// By rank: the states after so many steps.
using States = std::vector<px::MemoryArchive>;

// The oracle: a Session, in which servers join from the first step.
template <class TheModel, class C, class... Settings>
px::MemoryArchive train_together(C& world, int servers, int steps, std::uint64_t seed, Settings const&... settings) {
  px::Topology<C> const topology = servers ? px::Topology<C>{world, px::Servers{servers}} : px::Topology<C>{world};
  px::Session<C> session{topology, {.join_divisor = px::JoinDivisor::active}};
  TheModel model{session, settings...};
  auto const iterate = [&](Batch const& batch) {
    auto const pulled = session.pull(model.table, batch.ids);
    model.differentiate(pulled, batch);
    session.step(px::grad(model.layer, model.layer_gradient), px::grad(pulled, model.row_gradients));
  };
  if (world.rank() >= servers)
    for (int step = 0; step < steps; ++step) iterate(batch_of(seed, world.rank() - servers, step, TheModel::rows));
  session.join([&] { iterate({{}, std::vector<double>(64)}); });
  auto kept = model.state();
  session.finish();
  return kept;
}

// The same by letters. `pause` is called by each worker between pull and push.
template <class TheModel, class C, class Rule, class Pause, class... Settings>
px::MemoryArchive train_apart(C& world, Rule const& rule, int servers, int steps, std::uint64_t seed, Pause&& pause,
                              px::AsyncOptions const& options, Settings const&... settings) {
  std::optional<px::AsyncSession<C>> room;
  if (servers) room.emplace(world, rule, px::Servers{servers}, options);
  else room.emplace(world, rule, options);
  auto& session = *room;
  TheModel model{session, settings...};
  session.train([&](auto& worker) {
    for (int step = 0; step < steps; ++step) {
      Batch const batch = batch_of(seed, worker.rank(), step, TheModel::rows);
      auto const pulled = worker.pull(model.table.at(batch.ids), model.layer);
      model.differentiate(pulled, batch);
      pause(worker, step);
      worker.push(px::grad(model.layer, model.layer_gradient), px::grad(pulled, model.row_gradients));
    }
  });
  px::MemoryArchive kept;
  session.together([&](auto&) { kept = model.state(); });
  session.finish();
  return kept;
}

}  // namespace async_test
