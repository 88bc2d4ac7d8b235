// Variables under Auto: rows that move between steps keep every bit, all ranks choose alike, and say why.
#include <cstdint>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "adaptive.hpp"
#include "model.hpp"

namespace parallax_test::adaptive {
namespace {

TEMPLATE_TEST_CASE("rows that move from method to method keep every bit, and the optimizer's state", "[session][auto]",
                   (std::tuple<px::Adagrad, float, px::Cyclic>), (std::tuple<px::Adam, double, px::Hash>),
                   (std::tuple<px::RowwiseAdagrad, float, px::Block>)) {
  using O = std::tuple_element_t<0, TestType>;
  using T = std::tuple_element_t<1, TestType>;
  using P = std::tuple_element_t<2, TestType>;
  check_wandering({1, 2, 3, 5}, [](int ranks, bool hosts) {
    return on_ranks(ranks, [&](px::ThreadCommunicator& world) { return wander<O, T, P>(world, hosts); });
  });
}

TEST_CASE("a search deals the rows anew between steps, and handles of earlier pulls stay good", "[session][auto]") {
  for (int const ranks : {1, 2, 3, 5})
    for (bool const hosts : {false, true}) {
      if (hosts && ranks < 3) continue;
      INFO(ranks << " ranks" << (hosts ? " on two hosts" : ""));
      auto const told = on_ranks(ranks, [&](px::ThreadCommunicator& world) {
        return std::vector{search<px::Adagrad, float, px::Block>(world, hosts),
                           search<px::Adam, double, px::Hash>(world, hosts),
                           search<px::Sgd, float, px::Cyclic>(world, hosts, px::Reduce::mean_by_count)};
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

TEST_CASE("a gradient by distinct rows counts the indices of its pull, whose table is now dense", "[session][auto]") {
  auto const wrong = on_ranks(3, [&](px::ThreadCommunicator& world) {
    Twins<px::Sgd, float, px::Block, px::ThreadCommunicator> twins{
        px::Topology{world},
        {.first_step = 6, .interval = 1, .horizon = 1e30, .costs = favouring(all_reduce)},
        px::BadIds::error,
        px::Reduce::mean_by_count};
    std::vector<int> const ids{7, 1, 7, 7, world.rank(), 1};
    auto const [a, b] = twins.session.pull(twins.moving.at(ids), twins.still.at(ids));
    twins.session.search_pieces(twins.moving, {.most = 12, .probes = 3, .steps = 1, .settling = 0});
    std::vector<float> const gradient(width * a.size(), 4.0f);
    int different = 0;
    for (int step = 0; step < 9; ++step) {
      auto const [now, still] = twins.session.pull(twins.moving.at(ids), twins.still.at(ids));
      if (step < 8) twins.session.step(grad(now, px::distinct(gradient)), grad(still, px::distinct(gradient)));
      else twins.session.step(grad(a, px::distinct(gradient)), grad(b, px::distinct(gradient)));
      different += twins.different_rows();
    }
    different += !a.plan()->retired || twins.moving.state().choice() != all_reduce;
    twins.session.finish();
    return different;
  });
  CHECK(wrong == std::vector<int>(3));
}

TEST_CASE("a table that is too large for every rank stays sharded", "[session][auto]") {
  for (double const room : {100.0, 1e9}) {
    auto const methods = on_ranks(2, [&](px::ThreadCommunicator& world) {
      Twins<px::Sgd, float, px::Cyclic, px::ThreadCommunicator> twins{
          px::Topology{world},
          {.first_step = 1, .interval = 1, .replica_bytes = room, .costs = favouring(all_gather)}};
      std::vector<int> const ids{1, 2, 3};
      auto const pulled = twins.session.pull(twins.moving, ids);
      twins.session.step(grad(pulled, twins.gradient(1, ids.size()).span()));
      auto const method = twins.moving.state().choice();
      twins.session.finish();
      return method;
    });
    CHECK(methods[0] == (room < 1000 ? ps_shard : all_gather));
    CHECK(methods[1] == methods[0]);
  }
}

TEST_CASE("ranks that use a table unevenly choose by what all of them do", "[session][auto]") {
  // With n rows a rank, 4 ranks: PsShard takes 3 rounds of 100 and 24 n bytes, AllGather one round and 60 n bytes.
  for (int const busy : {10, 40}) {
    auto const methods = on_ranks(4, [&](px::ThreadCommunicator& world) {
      px::AutoOptions choice{.first_step = 1, .interval = 1, .horizon = 1e9};
      choice.costs.round = 100, choice.costs.per_byte = 1;
      Twins<px::Sgd, float, px::Cyclic, px::ThreadCommunicator> twins{px::Topology{world}, choice};
      std::vector<int> ids(world.rank() == 3 ? static_cast<std::size_t>(busy) : 0);
      for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<int>(i);
      auto const pulled = twins.session.pull(twins.moving, ids);
      twins.session.step(grad(pulled, twins.gradient(1, ids.size()).span()));
      auto const method = twins.moving.state().choice();
      twins.session.finish();
      return method;
    });
    for (auto const method : methods) CHECK(method == (busy == 10 ? all_gather : ps_shard));
  }
}

TEST_CASE("ranks whose costs differ are told so", "[session][auto]") {
  auto const answers = on_ranks(3, [](px::ThreadCommunicator& world) {
    Twins<px::Sgd, float, px::Cyclic, px::ThreadCommunicator> twins{px::Topology{world}, {}};
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
