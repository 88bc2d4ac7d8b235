// Variables under Auto: rows that move between steps keep every bit, all ranks choose alike, and say why.
#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "model.hpp"

namespace parallax_test::adaptive {
namespace {

using px::grad;

constexpr std::int64_t rows = 41, width = 3;

// Costs under which the model prefers one method, whatever a step touches.
px::Costs favouring(px::Method method) {
  px::Costs costs;
  if (method == px::Method::all_gather) costs.round = 1;    // fewest rounds between hosts
  if (method == px::Method::all_reduce) costs.per_key = 1;  // no ids to sort but its own
  if (method == px::Method::ps_shard) costs.per_row = 1, costs.per_stream_byte = 1;
  return costs;
}

// A table under Auto and its twin under PsShard, which get the same gradients; sums of them are exact, in any order.
template <class O, class T, class P>
struct Twins {
  template <px::Communicator C>
  explicit Twins(px::Topology<C> const& topology, px::AutoOptions const& choice, px::BadIds bad = px::BadIds::error)
      : session{topology, {.choice = choice}},
        moving{session, "moving", {rows, width, px::uniform(-1, 1, 3)}, bad},
        still{session, "still", {rows, width, px::uniform(-1, 1, 3)}, bad} {
    // Initial values depend on the name: both begin with others.
    for (std::int64_t row = 0; row < still.local_rows(); ++row)
      for (std::int64_t c = 0; c < width; ++c) {
        T const value = static_cast<T>(still.global_row(row) * width + c) / 64;
        still.local()[row][static_cast<std::size_t>(c)] = value;
        moving.local()[row][static_cast<std::size_t>(c)] = value;
      }
  }

  px::Session<px::ThreadCommunicator> session;
  px::Variable<px::Sparse, px::Auto, O, T, P> moving;
  px::Variable<px::Sparse, px::PsShard, O, T, P> still;

  std::vector<int> batch(std::uint64_t seed) const {
    std::mt19937_64 random{seed * 977 + static_cast<std::uint64_t>(session.rank())};
    std::vector<int> ids(random() % 5 == 0 ? 0 : random() % 40);
    for (int& id : ids) id = static_cast<int>(random() % rows);
    return ids;
  }
  std::vector<T> gradient(std::uint64_t seed, std::size_t count) const {
    std::mt19937_64 random{seed * 1013 + static_cast<std::uint64_t>(session.rank())};
    std::vector<T> values(count * width);
    for (T& value : values) value = static_cast<T>(static_cast<int>(random() % 17) - 8) / 8;
    return values;
  }
  // How many values of two pulls of the same indices differ.
  template <class A, class B>
  static int different(A const& a, B const& b) {
    int wrong = a.size() != b.size();
    for (std::size_t i = 0; i < a.indices() && wrong == 0; ++i)
      for (std::size_t c = 0; c < width; ++c) wrong += !(a[i][c] == b[i][c]);
    return wrong;
  }
  int different_rows() {
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

px::Topology<px::ThreadCommunicator> topology_of(px::ThreadCommunicator& world, bool hosts) {
  if (!hosts) return px::Topology{world};
  std::vector<int> of_rank;
  for (int rank = 0; rank < world.size(); ++rank) of_rank.push_back(rank % 2);
  return {world, of_rank};
}

// Trains under costs that change the favourite every few steps; every kind of update, and pulls in between.
template <class O, class T, class P>
Told wander(px::ThreadCommunicator& world, bool hosts) {
  Twins<O, T, P> twins{topology_of(world, hosts), {.first_step = 1, .interval = 1, .horizon = 1e30}};
  Told told;
  px::Method const tour[] = {px::Method::all_gather, px::Method::ps_shard,   px::Method::all_reduce,
                             px::Method::all_gather, px::Method::all_reduce, px::Method::ps_shard};
  for (std::uint64_t step = 0; step < 30; ++step) {
    twins.session.options().choice.costs = favouring(tour[step / 4 % 6]);
    auto const ids = twins.batch(step);
    auto const pull = [&] { return twins.session.pull(twins.moving.at(ids), twins.still.at(ids)); };
    auto const gradient = twins.gradient(step, ids.size());
    if (step % 3 == 0) {
      twins.session.step(grad(twins.moving, ids, gradient), grad(twins.still, ids, gradient));
    } else if (step % 3 == 1) {
      auto const [a, b] = pull();
      told.wrong += twins.different(a, b);
      twins.session.step(px::clip_by_global_norm(1e9, grad(a, gradient)), px::clip_by_global_norm(1e9, grad(b, gradient)));
    } else {
      auto const [a, b] = pull();
      twins.session.start(grad(a, gradient), grad(b, gradient));
      twins.session.step(grad(twins.moving, ids, gradient), grad(twins.still, ids, gradient));
    }
    told.methods.emplace_back(px::to_string(twins.moving.state().method()));
    told.wrong += step % 4 == 3 ? twins.different_rows() : 0;
  }
  told.wrong += twins.different_rows();
  for (auto const& decision : twins.session.decisions()) told.reasons.push_back(decision.text);
  twins.session.finish();
  return told;
}

TEMPLATE_TEST_CASE("rows that move from method to method keep every bit, and the optimizer's state", "[session][auto]",
                   (std::tuple<px::Adagrad, float, px::Cyclic>), (std::tuple<px::Adam, double, px::Hash>),
                   (std::tuple<px::RowwiseAdagrad, float, px::Block>)) {
  using O = std::tuple_element_t<0, TestType>;
  using T = std::tuple_element_t<1, TestType>;
  using P = std::tuple_element_t<2, TestType>;
  for (int const ranks : {1, 2, 3, 5})
    for (bool const hosts : {false, true}) {
      if (hosts && ranks < 3) continue;
      auto const told = on_ranks(ranks, [&](px::ThreadCommunicator& world) { return wander<O, T, P>(world, hosts); });
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
template <class O, class T, class P>
Told search(px::ThreadCommunicator& world, bool hosts) {
  Twins<O, T, P> twins{topology_of(world, hosts), {.first_step = 1'000'000}, px::BadIds::drop_and_count};
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
        return values;
      };
      auto const to_a = of(a), to_b = of(b);
      twins.session.step(grad(a, px::distinct(to_a)), grad(b, px::distinct(to_b)));
    } else {
      auto const gradient = twins.gradient(step, earlier.size());  // that of a dropped index is ignored
      twins.session.step(grad(a, gradient), grad(b, gradient));
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

TEST_CASE("a search deals the rows anew between steps, and handles of earlier pulls stay good", "[session][auto]") {
  for (int const ranks : {1, 2, 3, 5})
    for (bool const hosts : {false, true}) {
      if (hosts && ranks < 3) continue;
      INFO(ranks << " ranks" << (hosts ? " on two hosts" : ""));
      auto const told = on_ranks(ranks, [&](px::ThreadCommunicator& world) {
        return std::vector{search<px::Adagrad, float, px::Block>(world, hosts),
                           search<px::Adam, double, px::Hash>(world, hosts)};
      });
      for (auto const& mine : told)
        for (std::size_t i = 0; i < mine.size(); ++i) {
          CHECK(mine[i].wrong == 0);
          CHECK(mine[i] == told[0][i]);
          CHECK(mine[i].reasons.size() >= 3);
          CHECK(mine[i].methods[1] != mine[i].methods[0]);
        }
    }
}

TEST_CASE("a table that is too large for every rank stays sharded", "[session][auto]") {
  for (double const room : {100.0, 1e9}) {
    auto const methods = on_ranks(2, [&](px::ThreadCommunicator& world) {
      Twins<px::Sgd, float, px::Cyclic> twins{
          px::Topology{world},
          {.first_step = 1, .interval = 1, .replica_bytes = room, .costs = favouring(px::Method::all_gather)}};
      std::vector<int> const ids{1, 2, 3};
      auto const pulled = twins.session.pull(twins.moving, ids);
      twins.session.step(grad(pulled, twins.gradient(1, ids.size())));
      auto const method = twins.moving.state().method();
      twins.session.finish();
      return method;
    });
    CHECK(methods[0] == (room < 1000 ? px::Method::ps_shard : px::Method::all_gather));
    CHECK(methods[1] == methods[0]);
  }
}

TEST_CASE("ranks that use a table unevenly choose by what all of them do", "[session][auto]") {
  // With n rows a rank, 4 ranks: PsShard takes 3 rounds of 100 and 24 n bytes, AllGather one round and 60 n bytes.
  for (int const busy : {10, 40}) {
    auto const methods = on_ranks(4, [&](px::ThreadCommunicator& world) {
      px::AutoOptions choice{.first_step = 1, .interval = 1, .horizon = 1e9};
      choice.costs.round = 100, choice.costs.per_byte = 1;
      Twins<px::Sgd, float, px::Cyclic> twins{px::Topology{world}, choice};
      std::vector<int> ids(world.rank() == 3 ? static_cast<std::size_t>(busy) : 0);
      for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>(i);
      auto const pulled = twins.session.pull(twins.moving, ids);
      twins.session.step(grad(pulled, twins.gradient(1, ids.size())));
      auto const method = twins.moving.state().method();
      twins.session.finish();
      return method;
    });
    for (auto const method : methods) CHECK(method == (busy == 10 ? px::Method::all_gather : px::Method::ps_shard));
  }
}

TEST_CASE("ranks whose costs differ are told so", "[session][auto]") {
  auto const answers = on_ranks(3, [](px::ThreadCommunicator& world) {
    Twins<px::Sgd, float, px::Cyclic> twins{px::Topology{world}, {}};
    if (world.rank() == 1) twins.session.options().choice.costs.round = 2;
    auto const answer = answer_of([&] { auto const rows_of_none = twins.session.pull(twins.moving, std::vector<int>{}); });
    if (world.rank() == 1) twins.session.options().choice.costs.round = 0;
    twins.session.finish();
    return answer;
  });
  for (Answer const& answer : answers) {
    CHECK(answer.code == px::Errc::mismatch);
    CHECK(answer.rank == 1);
    CHECK(answer == answers[0]);
  }
}

TEST_CASE("a session describes its variables, and what it expects of them", "[session][auto]") {
  auto const texts = on_ranks(2, [](px::ThreadCommunicator& world) {
    px::Session session{world, {.choice = {.costs = {.round = 1e-3, .per_byte = 1e-6}}}};
    std::vector<float> memory(500);
    px::Variable<px::Dense, px::Adam> layer{session, "layer", px::bind(memory)};
    px::Variable<px::Sparse, px::Auto> table{session, "table", {1000, 4}};
    px::Variable<px::Sparse> plain{session, "plain", {1000, 4}, px::Cyclic{.pieces = 6}};
    { px::Variable<px::Sparse> passing{session, "passing", {10, 1}}; }
    std::vector<int> const ids{1, 2, 3, 4, 5};
    session.step(grad(table, ids, std::vector<float>(20, 1.0f)), grad(plain, ids, std::vector<float>(20, 1.0f)));
    auto const text = session.describe();
    session.finish();
    return text;
  });
  CHECK(texts[0] == texts[1]);
  CHECK(texts[0].find("passing") == std::string::npos);
  // Dense: 2 (N - 1) / N · 2,000 bytes, 2 rounds. Sparse: half of 5 · (16 + 8) bytes, 1 round.
  INFO(texts[0]);
  CHECK(texts[0].find("layer     Dense   AllReduce  AllReduce       500       2       -        -    0.002        4\n") !=
        std::string::npos);
  CHECK(texts[0].find("table     Sparse  Auto       PsShard    1000 x 4       2       2    0.005    6e-05     1.06\n") !=
        std::string::npos);
  CHECK(texts[0].find("plain     Sparse  PsShard    PsShard    1000 x 4       2       6    0.005    6e-05     1.06\n") !=
        std::string::npos);
}

}  // namespace
}  // namespace parallax_test::adaptive
