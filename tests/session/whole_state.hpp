// Trainings of a mixed model that are cut in two, beside whole ones: an archive carries the state of the session over the cut.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "../../benchmarks/baseline/naive_ps.hpp"
#include "../../examples/custom_policy/top_k.hpp"
#include "../equivalence/memory.hpp"
#include "../variable/state.hpp"
#include "parallax/comm/any.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/variable/memory_archive.hpp"

namespace parallax_test::whole_state {

namespace px = parallax;
using state::All, state::Optimizers, state::rate_of;

inline constexpr std::int64_t rows = 29, width = 3;
inline constexpr std::size_t elements = 30;
inline constexpr int steps = 40, cut = 20, search_from = 12;

// Model number m: the variable under policy p has optimizer (m + 7 p) mod 24. All 24 models have every pair.
template <std::size_t m, std::size_t p, class List = All>
struct optimizer_of;
template <std::size_t m, std::size_t p, class... O>
struct optimizer_of<m, p, Optimizers<O...>> {
  static constexpr std::size_t count = sizeof...(O);
  using type = std::tuple_element_t<(m + 7 * p) % count, std::tuple<O...>>;
};
template <std::size_t m, std::size_t p>
using OptimizerOf = typename optimizer_of<m, p>::type;
inline constexpr std::size_t models = optimizer_of<0, 0>::count;

// Under these the table moves in steps 5, 15, 25, …: to AllGather, back to PsShard, …
inline px::AutoOptions choice_of(int step, bool searches) {
  px::Costs costs;
  if (searches || step / 10 % 2 == 1) costs.per_row = 1, costs.per_stream_byte = 1;  // PsShard's are fewest
  else costs.round = 1;                                                               // AllGather's are
  return {.first_step = 5, .interval = 10, .costs = costs, .device_costs = costs};
}

// `Space`: where the variables lie whose policies know it.
template <std::size_t m, class C, class Space = px::HostSpace>
struct Model {
  template <class Policy, std::size_t p, class S = Space>
  using Layer = px::Variable<px::Dense, Policy, OptimizerOf<m, p>, S>;
  template <class Policy, std::size_t p, class S = Space>
  using Table = px::Variable<px::Sparse, Policy, OptimizerOf<m, p>, S>;

  Model(C& world, px::RowOps<Space> const& its_ops, bool its_search, float initial)
      : ops{its_ops}, searches{its_search}, first{initial}, session{world, {.choice = choice_of(0, its_search)}} {}

  void step(int number) {
    if (searches && number == search_from) session.search_pieces(moving, {.probes = 4, .steps = 3, .settling = 1});
    session.options().choice = choice_of(number, searches);
    each([&](auto& variable) {
      if (number == 4 || number == 13 || number == 27 || number == 34) rate_of(variable.optimizer()) /= 1.5;
    });
    std::mt19937_64 random{static_cast<std::uint64_t>(100 * number + session.rank())};
    auto const values = [&](std::size_t count) {
      std::vector<float> drawn(count);
      for (float& value : drawn) value = static_cast<float>(random() % 33) / 8 - 2;
      return drawn;
    };
    auto const in_space = [&](std::size_t count) { return Memory<float, Space>{ops, values(count)}; };
    std::vector<std::vector<std::int64_t>> ids(5);
    for (auto& of_table : ids) {
      of_table.resize(random() % 4);
      for (auto& id : of_table) id = static_cast<std::int64_t>(random() % rows);
    }
    auto const replicated_gradient = in_space(elements), owned_gradient = in_space(elements);
    auto const some_gradient = values(elements), naive_rows = values(ids[4].size() * width);
    auto const sharded_rows = in_space(ids[0].size() * width), gathered_rows = in_space(ids[1].size() * width),
               densified_rows = in_space(ids[2].size() * width), moving_rows = in_space(ids[3].size() * width);
    session.start(px::grad(owned, owned_gradient.span()));
    auto const pulled = session.pull(moving, ids[3]);
    session.step(px::grad(replicated, replicated_gradient.span()), px::grad(some, some_gradient),
                 px::grad(sharded, ids[0], sharded_rows.span()), px::grad(gathered, ids[1], gathered_rows.span()),
                 px::grad(densified, ids[2], densified_rows.span()), px::grad(pulled, moving_rows.span()),
                 px::grad(naive, ids[4], naive_rows));
  }
  template <class Archive>
  void visit(Archive&& archive) {
    session.visit(archive, replicated, owned, some, sharded, gathered, densified, moving, naive);
  }
  template <class F>
  void each(F&& f) {
    f(replicated), f(owned), f(some), f(sharded), f(gathered), f(densified), f(moving), f(naive);
  }
  // The rows of the table under Auto, wherever they are.
  std::vector<float> moving_values() {
    std::vector<std::int64_t> all(rows);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
    auto const pulled = session.pull(moving, all);
    auto const values = values_of(ops, pulled.values());
    std::vector<std::uint32_t> at(all.size());
    ops.to_host(at.data(), pulled.inverse().data(), at.size());
    std::vector<float> in_order;
    for (std::uint32_t const row : at)
      for (std::size_t c = 0; c < width; ++c) in_order.push_back(values[row * width + c]);
    return in_order;
  }

  px::Table table() const { return {.rows = rows, .width = width, .initial = px::uniform(first, 1, 3)}; }

  px::RowOps<Space> ops;
  bool searches;
  float first;
  px::Session<C> session;
  Memory<float, Space> of_replicated{ops, std::vector<float>(elements, first)};
  Memory<float, Space> of_owned{ops, std::vector<float>(elements, first)};
  std::vector<float> of_some = std::vector<float>(elements, first);
  Layer<px::AllReduce, 0> replicated{session, "replicated", px::bind(of_replicated.span(), 3)};
  Layer<px::PsShard, 1> owned{session, "owned", px::bind(of_owned.span(), 3)};
  Layer<TopK<3>, 2, px::HostSpace> some{session, "some", px::bind(of_some, 3)};
  Table<px::PsShard, 3> sharded{session, "sharded", table()};
  Table<px::AllGather, 4> gathered{session, "gathered", table()};
  Table<px::AllReduce, 5> densified{session, "densified", table()};
  Table<px::Auto, 6> moving{session, "moving", table()};
  Table<baseline::NaivePs, 7, px::HostSpace> naive{session, "naive", table()};
};

// What a rank ends with: every item of the session, the rows of the table under Auto, and when that was moved.
struct End {
  px::MemoryArchive archive;
  std::vector<float> moving;
  std::vector<px::Decision> decisions;
};
template <class M>
End end_of(M& model) {
  End end;
  model.visit(end.archive.writer());
  end.moving = model.moving_values();
  end.decisions = model.session.decisions();
  model.session.finish();
  return end;
}
inline std::string difference(px::MemoryArchive const& one, px::MemoryArchive const& other, bool searches) {
  auto const a = one.records(), b = other.records();
  auto const depends_on_time = [&](px::MemoryArchive::Record const& record) {  // where rows are, and how long that took
    return searches && (record.variable == "moving" || record.name.starts_with("session.decision"));
  };
  for (std::size_t i = 0, j = 0;; ++i, ++j) {
    while (i < a.size() && depends_on_time(a[i])) ++i;
    while (j < b.size() && depends_on_time(b[j])) ++j;
    if (i >= a.size() && j >= b.size()) return a.size() < 50 ? "few items" : "";
    if (i >= a.size() || j >= b.size()) return "other items";
    if (!(a[i] == b[j])) return "item " + a[i].variable + ", " + a[i].name + " differs";
  }
}

// Collective. Empty, or what was wrong on this rank. `searches`: a search for pieces runs over the cut.
template <class M, class C, class Ops>
std::string complaint(C& world, Ops const& ops, bool searches) {
  auto const train = [](M& model, int from, int to) {
    for (int step = from; step < to; ++step) model.step(step);
  };
  End whole, parts;
  px::MemoryArchive archive, again;
  {
    M model{world, ops, searches, 0};
    train(model, 0, steps);
    whole = end_of(model);
  }
  {
    M model{world, ops, searches, 0};
    train(model, 0, cut);
    model.visit(archive.writer());
    model.session.finish();
  }
  {
    M model{world, ops, searches, 0.5f};  // other first values, and the optimizers' default settings
    model.visit(archive.reader());
    model.visit(again.writer());
    if (auto const found = difference(archive, again, false); !found.empty()) return "read and written again, " + found;
    train(model, cut, steps);
    parts = end_of(model);
  }
  if (auto const found = difference(whole.archive, parts.archive, searches); !found.empty()) return found;
  if (whole.moving.empty() || std::memcmp(whole.moving.data(), parts.moving.data(), 4 * whole.moving.size()) != 0)
    return "the rows under Auto differ";
  if (world.size() == 1) return {};
  for (End const* const end : {&whole, &parts}) {
    int before = 0, after = 0;
    for (px::Decision const& made : end->decisions) ++(made.step <= cut ? before : after);
    if (before == 0 || after == 0) return "there were no decisions before the cut, or none after it";
  }
  return {};
}

// The host's, compiled apart.
template <std::size_t m>
std::string complaint_of(px::AnyCommunicator& world, bool searches) {
  return complaint<Model<m, px::AnyCommunicator>>(world, px::RowOps<px::HostSpace>{}, searches);
}
template <std::size_t m>
std::string complaint_on_threads(int ranks, bool searches = false) {
  std::vector<std::string> said(static_cast<std::size_t>(ranks));
  px::run_threads(ranks, [&](px::ThreadCommunicator& thread) {
    px::AnyCommunicator world{std::ref(thread)};
    said[static_cast<std::size_t>(world.rank())] = complaint_of<m>(world, searches);
  }, {.deadline = std::chrono::seconds{30}});
  for (std::size_t rank = 0; rank < said.size(); ++rank)
    if (!said[rank].empty()) return "model " + std::to_string(m) + ", rank " + std::to_string(rank) + ": " + said[rank] + "; ";
  return {};
}

}  // namespace parallax_test::whole_state
