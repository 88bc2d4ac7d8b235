// A table under Auto beside one that stays where it is, in memory of any space: trainings in which rows move all the time.
#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "../equivalence/memory.hpp"

namespace parallax_test::adaptive {

using px::grad;

inline constexpr std::int64_t rows = 41, width = 3;

// Costs under which the model prefers one method, whatever a step touches.
// The policies that Auto chooses from, by their numbers.
constexpr std::size_t ps_shard = 0, all_gather = 1, all_reduce = 2;

inline px::Costs favouring(std::size_t method) {
  px::Costs costs;
  if (method == all_gather) costs.round = 1;    // fewest rounds between hosts
  if (method == all_reduce) costs.per_key = 1;  // no ids to sort but its own
  if (method == ps_shard) costs.per_row = 1, costs.per_stream_byte = 1;
  return costs;
}

// A table under Auto and its twin under PsShard, which get the same gradients; sums of them are exact, in any order.
template <class O, class T, class P, px::Communicator C, px::MemorySpace Space = px::HostSpace>
struct Twins {
  Twins(px::Topology<C> const& topology, px::AutoOptions const& choice, px::BadIds bad = px::BadIds::error,
        px::Reduce reduce = px::Reduce::mean)
      : session{topology, {.choice = choice}},
        moving{session, "moving", {rows, width, px::uniform(-1, 1, 3)}, bad, reduce},
        still{session, "still", {rows, width, px::uniform(-1, 1, 3)}, bad, reduce} {
    // Initial values depend on the name: both begin with others.
    std::vector<T> values;
    for (std::int64_t row = 0; row < still.local_rows(); ++row)
      for (std::int64_t c = 0; c < width; ++c) values.push_back(static_cast<T>(still.global_row(row) * width + c) / 64);
    for (T* const table : {still.local().data, moving.local().data}) ops().from_host(table, values.data(), values.size());
  }

  px::Session<C> session;
  px::Variable<px::Sparse, px::Auto, O, T, P, Space> moving;
  px::Variable<px::Sparse, px::PsShard, O, T, P, Space> still;

  px::RowOps<Space> const& ops() const { return still.state().ops(); }

  std::vector<int> batch(std::uint64_t seed) const {
    std::mt19937_64 random{seed * 977 + static_cast<std::uint64_t>(session.rank())};
    std::vector<int> ids(random() % 5 == 0 ? 0 : random() % 40);
    for (int& id : ids) id = static_cast<int>(random() % rows);
    return ids;
  }
  Memory<T, Space> gradient(std::uint64_t seed, std::size_t count) const {
    std::mt19937_64 random{seed * 1013 + static_cast<std::uint64_t>(session.rank())};
    std::vector<T> values(count * width);
    for (T& value : values) value = static_cast<T>(static_cast<int>(random() % 17) - 8) / 8;
    return {ops(), values};
  }
  // The row of every index of a pull, zeros for one that was dropped.
  template <class Rows>
  std::vector<T> rows_of(Rows const& pulled) const {
    auto const values = values_of(ops(), pulled.values());
    std::vector<std::uint32_t> inverse(pulled.indices());
    ops().to_host(inverse.data(), pulled.inverse().data(), inverse.size());
    std::vector<T> of_indices;
    for (std::uint32_t const at : inverse)
      for (std::size_t c = 0; c < width; ++c) of_indices.push_back(at == pulled.size() ? T{} : values[at * width + c]);
    return of_indices;
  }
  // Whether two pulls of the same indices differ.
  template <class A, class B>
  bool different(A const& a, B const& b) const {
    return a.size() != b.size() || rows_of(a) != rows_of(b);
  }
  bool different_rows() {
    std::vector<int> all(rows);
    for (std::size_t i = 0; i < rows; ++i) all[i] = static_cast<int>(i);
    auto const [a, b] = session.pull(moving.at(all), still.at(all));
    return different(a, b);
  }
};

struct Told {
  int wrong = 0;
  std::vector<std::string> methods, reasons;
  friend bool operator==(Told const&, Told const&) = default;
};

template <px::Communicator C>
px::Topology<C> topology_of(C& world, bool hosts) {
  if (!hosts) return px::Topology{world};
  std::vector<int> of_rank;
  for (int rank = 0; rank < world.size(); ++rank) of_rank.push_back(rank % 2);
  return {world, of_rank};
}

// Trains under costs that change the favourite every few steps; every kind of update, and pulls in between.
template <class O, class T, class P, px::MemorySpace Space = px::HostSpace, px::Communicator C>
Told wander(C& world, bool hosts) {
  Twins<O, T, P, C, Space> twins{topology_of(world, hosts), {.first_step = 1, .interval = 1, .horizon = 1e30}};
  Told told;
  std::size_t const tour[] = {all_gather, ps_shard,   all_reduce,
                             all_gather, all_reduce, ps_shard};
  auto const name = [&](std::uint64_t step) {
    auto const ids = twins.batch(step);
    return twins.session.prefetch(twins.moving.at(ids), twins.still.at(ids));
  };
  auto next = name(0);
  for (std::uint64_t step = 0; step < 30; ++step) {
    auto& choice = twins.session.options().choice;
    (Space::host_readable ? choice.costs : choice.device_costs) = favouring(tour[step / 4 % 6]);
    auto const ids = twins.batch(step);
    auto const pull = [&] {
      if (step % 2 == 1) return twins.session.pull(std::move(next));
      return twins.session.pull(twins.moving.at(ids), twins.still.at(ids));
    };
    auto const gradient = twins.gradient(step, ids.size());
    if (step % 2 == 0) next = name(step + 1);  // some are pulled, others dropped
    if (step % 3 == 0) {
      twins.session.step(grad(twins.moving, ids, gradient.span()), grad(twins.still, ids, gradient.span()));
    } else if (step % 3 == 1) {
      auto const [a, b] = pull();
      told.wrong += twins.different(a, b);
      twins.session.step(px::clip_by_global_norm(1e9, grad(a, gradient.span())),
                         px::clip_by_global_norm(1e9, grad(b, gradient.span())));
    } else {
      auto const [a, b] = pull();
      told.wrong += twins.different(a, b);
      twins.session.start(grad(a, gradient.span()), grad(b, gradient.span()));
      twins.session.step(grad(twins.moving, ids, gradient.span()), grad(twins.still, ids, gradient.span()));
    }
    told.methods.emplace_back(px::Auto::exchange<px::Sparse>::choices[twins.moving.state().choice()].name);
    told.wrong += step % 4 == 3 ? twins.different_rows() : 0;
  }
  told.wrong += twins.different_rows();
  for (auto const& decision : twins.session.decisions()) told.reasons.push_back(decision.text);
  twins.session.finish();
  return told;
}

// What ranks tell of that, on one host and on two: run(ranks, hosts).
template <class Run>
void check_wandering(std::vector<int> const& sizes, Run const& run) {
  for (int const ranks : sizes)
    for (bool const hosts : {false, true}) {
      if (hosts && ranks < 3) continue;
      std::vector<Told> const told = run(ranks, hosts);
      INFO(ranks << " ranks" << (hosts ? " on two hosts" : ""));
      for (Told const& mine : told) {
        CHECK(mine.wrong == 0);
        CHECK(mine == told[0]);
      }
      if (ranks == 1) continue;
      CHECK(told[0].methods[3] == "AllGather");
      CHECK(told[0].methods[7] == "PsShard");
      CHECK(told[0].methods[11] == "AllReduce");
      CHECK(told[0].methods[29] == "PsShard");
      CHECK(told[0].reasons.size() >= 6);
    }
}

// A search with one step a probe: rows are dealt anew after every step, with handles of earlier pulls alive.
template <class O, class T, class P, px::MemorySpace Space = px::HostSpace, px::Communicator C>
Told search(C& world, bool hosts, px::Reduce reduce = px::Reduce::mean) {
  px::AutoOptions const choice{.first_step = 1'000'000};
  Twins<O, T, P, C, Space> twins{topology_of(world, hosts), choice, px::BadIds::drop_and_count, reduce};
  Told told;
  twins.session.search_pieces(twins.moving, {.most = 12, .probes = 5, .steps = 1, .settling = 0});
  auto ids = twins.batch(0);
  auto ahead = twins.session.pull(twins.moving.at(ids), twins.still.at(ids));
  for (std::uint64_t step = 1; step < 12; ++step) {
    auto const [a, b] = std::move(ahead);
    auto const earlier = ids;
    ids = twins.batch(step);
    ids.push_back(-5);  // dropped
    std::vector<std::int64_t> named;
    for (std::size_t j = 0; j < a.size(); ++j) named.push_back(a.id(j));
    ahead = twins.session.pull(twins.moving.at(ids), twins.still.at(ids));  // before the step that uses the last one
    if (step % 2) {
      auto const of = [&](auto const& pulled) {  // the twins number their distinct rows differently
        std::vector<T> values;
        for (std::size_t j = 0; j < pulled.size(); ++j)
          for (std::size_t c = 0; c < width; ++c)
            values.push_back(static_cast<T>((pulled.id(j) * 7 + static_cast<std::int64_t>(step * 5 + c)) % 9 - 4) / 8);
        return Memory<T, Space>{twins.ops(), values};
      };
      auto const to_a = of(a), to_b = of(b);
      twins.session.step(grad(a, px::distinct(to_a.span())), grad(b, px::distinct(to_b.span())));
    } else {
      auto const gradient = twins.gradient(step, earlier.size());  // that of a dropped index is ignored
      twins.session.step(grad(a, gradient.span()), grad(b, gradient.span()));
    }
    for (std::size_t j = 0; j < a.size(); ++j) told.wrong += a.id(j) != named[j];
    told.methods.push_back(std::to_string(twins.moving.state().partitioner().pieces));
  }
  {
    auto const [a, b] = std::move(ahead);
    told.wrong += a.dropped() != b.dropped() || twins.moving.dropped() != twins.still.dropped();
  }
  told.wrong += twins.different_rows();
  for (auto const& decision : twins.session.decisions()) told.reasons.push_back(decision.variable);
  twins.session.finish();
  return told;
}

}  // namespace parallax_test::adaptive
