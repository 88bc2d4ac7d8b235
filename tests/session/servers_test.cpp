// Dedicated servers: the first ranks keep all shards and have no data; workers train as if they were alone with their shards.
#include <cstdint>
#include <string>
#include <vector>

#include "../../benchmarks/baseline/naive_ps.hpp"
#include "../catch.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

constexpr std::int64_t rows = 23, width = 3;
constexpr int steps = 6;

struct Batch {
  std::vector<int> ids;
  std::vector<float> rows, dense;
};
// Small integers, so that sums are exact, whoever forms them.
Batch batch_of(int worker, int step) {
  Batch batch;
  for (int i = 0; i < 5; ++i) batch.ids.push_back((7 * worker + 3 * step + 2 * i * i) % static_cast<int>(rows));
  for (int i = 0; i < 5 * static_cast<int>(width); ++i) batch.rows.push_back(static_cast<float>((worker + step * i) % 5 - 2));
  for (int i = 0; i < 11; ++i) batch.dense.push_back(static_cast<float>((worker * i + step) % 7 - 3));
  return batch;
}

template <class DensePolicy, class RowPolicy, class C>
struct Training {
  explicit Training(px::Topology<C> topology)
      : session{std::move(topology), {.join_divisor = px::JoinDivisor::active}},
        layer{session, "layer", px::bind(weights)},
        table{session, "table", {.rows = rows, .width = width, .initial = px::uniform(-1, 1)}} {}

  void iterate(Batch const& batch) {
    auto const pulled = session.pull(table, batch.ids);
    for (std::size_t i = 0; i < batch.ids.size(); ++i) read += pulled[i][0];
    session.step(px::grad(layer, batch.dense), px::grad(pulled, batch.rows));
  }

  std::vector<float> weights = std::vector<float>(11, 1.0f);
  double read = 0;
  px::Session<C> session;
  px::Variable<px::Dense, DensePolicy, px::Momentum> layer;
  px::Variable<px::Sparse, RowPolicy, px::Adagrad> table;
};

// By worker: parameters, what it read, and the whole table.
using Results = std::vector<std::vector<double>>;

template <class DensePolicy, class RowPolicy>
Results train(int servers, int workers) {
  Results results(static_cast<std::size_t>(workers));
  std::vector<std::int64_t> kept(static_cast<std::size_t>(servers + workers));
  px::run_threads(servers + workers, [&](px::ThreadCommunicator& world) {
    using T = Training<DensePolicy, RowPolicy, px::ThreadCommunicator>;
    T training{servers ? px::Topology{world, px::Servers{servers}} : px::Topology{world}};
    auto& session = training.session;
    session.broadcast(training.layer);
    kept[static_cast<std::size_t>(world.rank())] = training.table.local_rows();
    int const worker = world.rank() - servers;
    if (worker >= 0)
      for (int step = 0; step < steps; ++step) training.iterate(batch_of(worker, step));
    session.join([&] { training.iterate({}); });
    std::vector<int> all;
    for (int row = 0; row < rows; ++row) all.push_back(row);
    auto const table = session.pull(training.table, all);
    if (worker >= 0) {
      auto& own = results[static_cast<std::size_t>(worker)];
      own.assign(training.weights.begin(), training.weights.end());
      own.push_back(training.read);
      for (std::size_t i = 0; i < all.size(); ++i) own.insert(own.end(), table[i].begin(), table[i].end());
    }
    session.finish();
  });
  if (servers && px::Variable<px::Sparse, RowPolicy>::State::sharded)
    for (std::size_t rank = 0; rank < kept.size(); ++rank) CHECK((kept[rank] > 0) == (rank < static_cast<std::size_t>(servers)));
  return results;
}

template <class D, class R>
struct Pair {
  using Dense = D;
  using Rows = R;
};

}  // namespace

TEMPLATE_TEST_CASE("servers own everything, and workers learn what they learn without them", "[session][servers]",
                   (Pair<px::PsShard, px::PsShard>), (Pair<px::AllReduce, px::Auto>), (Pair<px::PsShard, baseline::NaivePs>),
                   (Pair<px::AllReduce, px::AllReduce>)) {
  using D = typename TestType::Dense;
  using R = typename TestType::Rows;
  for (int const workers : {1, 2, 3}) {
    Results const alone = train<D, R>(0, workers);
    for (int const servers : {1, 2}) {
      INFO(servers << " servers, " << workers << " workers");
      CHECK(train<D, R>(servers, workers) == alone);
    }
  }
}

TEST_CASE("what servers cannot do is refused on all ranks", "[session][servers]") {
  px::SelfCommunicator alone;
  for (int const count : {0, 2}) CHECK_THROWS_AS((px::Topology{alone, px::Servers{count}}), px::Error);
  std::vector<std::string> said(3);
  std::vector<int> refused(3);
  px::run_threads(3, [&](px::ThreadCommunicator& world) {
    auto& own = said[static_cast<std::size_t>(world.rank())];
    for (int const count : {0, 4}) try {
        px::Topology{world, px::Servers{count}};
      } catch (px::Error const&) {
        ++refused[static_cast<std::size_t>(world.rank())];
      }
    px::Session session{px::Topology{world, px::Servers{1}}};
    px::Variable<px::Sparse, px::AllGather> table{session, "table", {.rows = 4, .width = 1}};
    try {
      session.step(px::grad(table, std::vector{1}, std::vector{1.0f}));
    } catch (px::Error const& error) {
      own = error.what();
    }
    session.finish();
  });
  CHECK(refused == std::vector{2, 2, 2});
  for (auto const& text : said)
    CHECK(text == "parallax: misuse (rank 0) in step of 'table': AllGather gathers at every rank, and in this topology only "
                  "servers own rows");
}
