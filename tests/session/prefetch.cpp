// Batches named ahead: their ids travel with a step, their rows after it, and `pull` finds what a pull would have brought.
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../catch.hpp"
#include "../support/recording_communicator.hpp"
#include "model.hpp"
#include "../../benchmarks/baseline/naive_ps.hpp"

namespace parallax_test::prefetch {
namespace {

using Recording = parallax_test::RecordingCommunicator<px::ThreadCommunicator>;
using Words = px::Variable<px::Sparse, px::Adagrad>;

px::Table table_of(std::int64_t rows, std::int64_t width) { return {rows, width, px::uniform(-1, 1, 3)}; }

// Batch `step` of a rank: some indices, among them doubles.
std::vector<std::int64_t> ids_of(int rank, int step) {
  std::vector<std::int64_t> ids;
  for (int i = 0; i < 6; ++i) ids.push_back((7 * rank + 5 * step + i * i) % 23);
  return ids;
}

template <class Rows>
std::vector<float> copied(Rows const& rows) {
  return {rows.values().data, rows.values().data + rows.values().rows * rows.values().width};
}

// Trains some steps on rows that are pulled, or named ahead and then pulled; what the handles showed.
template <class Policy, px::Communicator C>
std::vector<std::vector<float>> train(px::Topology<C> topology, bool ahead) {
  px::Session session{std::move(topology)};
  px::Variable<px::Sparse, Policy, px::Adam> words{session, "words", table_of(23, 3)};
  px::Variable<px::Sparse, Policy, px::Adagrad> bags{session, "bags", table_of(23, 2)};
  std::vector<int> const offsets{0, 2, 2, 6};
  int const rank = session.rank();
  std::vector<std::vector<float>> seen;
  std::vector<float> const gradient(6 * 3, 0.25f), of_bags(3 * 2, 0.5f);
  auto first = ids_of(rank, 0), second = ids_of(rank, 1);
  auto [rows, pooled] = session.pull(words.at(first), bags.bags(second, offsets, px::Pool::mean));
  for (int step = 1; step < 6; ++step) {
    seen.push_back(copied(rows));
    seen.push_back(copied(pooled));
    first = ids_of(rank, step), second = ids_of(rank, step + 1);
    if (ahead) {
      auto next = session.prefetch(words.at(first), bags.bags(second, offsets, px::Pool::mean));
      first.assign(6, -1), second.assign(6, -1);  // nobody reads them any more
      session.step(px::grad(rows, gradient), px::grad(pooled, of_bags));
      std::tie(rows, pooled) = session.pull(std::move(next));
    } else {
      session.step(px::grad(rows, gradient), px::grad(pooled, of_bags));
      std::tie(rows, pooled) = session.pull(words.at(first), bags.bags(second, offsets, px::Pool::mean));
    }
  }
  session.finish();
  return seen;
}

template <class Policy>
void same_rows_as_a_pull() {
  for (auto const& hosts : std::vector<std::vector<int>>{{0}, {0, 0, 0}, {0, 0, 1, 1}, {0, 1, 1, 1, 2, 2}}) {
    auto const run = [&](bool ahead) {
      return on_ranks(static_cast<int>(hosts.size()),
                      [&](px::ThreadCommunicator& world) { return train<Policy>(px::Topology{world, hosts}, ahead); });
    };
    CHECK(run(true) == run(false));
  }
}

}  // namespace

TEST_CASE("a batch that was named ahead shows the rows that a pull brings", "[session][prefetch]") {
  same_rows_as_a_pull<px::PsShard>();
  same_rows_as_a_pull<px::AllGather>();
  same_rows_as_a_pull<baseline::NaivePs>();
}

TEST_CASE("a step takes the ids of the next batch along: two rounds fewer, the same bytes of ids and rows",
          "[session][prefetch]") {
  struct Count {
    std::uint64_t operations, ids, rows;
  };
  auto const count = [](bool ahead) {
    return on_ranks(3, [&](px::ThreadCommunicator& threads) {
      Recording world{threads};
      px::Session session{world};
      Words words{session, "words", table_of(23, 3)};
      std::vector<float> const gradient(6 * 3, 0.25f);
      auto rows = session.pull(words, ids_of(session.rank(), 0));
      world.clear();
      auto const before = session.traffic();
      for (int step = 1; step < 5; ++step) {
        auto next = ahead ? std::optional{session.prefetch(words, ids_of(session.rank(), step))} : std::nullopt;
        session.step(px::grad(rows, gradient));
        rows = next ? session.pull(std::move(*next)) : session.pull(words, ids_of(session.rank(), step));
      }
      auto const after = session.traffic();
      auto const sent = [&](px::Payload what) {
        return after.sent_of(what).all - before.sent_of(what).all;
      };
      Count const result{world.records().size(), sent(px::Payload::ids), sent(px::Payload::rows)};
      session.finish();
      return result;
    });
  };
  auto const with = count(true), without = count(false);
  for (std::size_t rank = 0; rank < with.size(); ++rank) {
    CHECK(without[rank].operations == 4 * 6);
    CHECK(with[rank].operations == 4 * 4);
    CHECK(with[rank].ids == without[rank].ids);
    CHECK(with[rank].rows == without[rank].rows);
  }
}

TEST_CASE("named ahead and pulled too early or too late, rows are those of the time of the pull", "[session][prefetch]") {
  auto const answers = on_ranks(4, [](px::ThreadCommunicator& world) {
    px::Session session{px::Topology{world, {0, 0, 1, 1}}};
    Words words{session, "words", table_of(23, 3)};
    int const rank = session.rank();
    std::vector<float> const gradient(6 * 3, 0.25f);
    auto const step = [&](int number) { session.step(px::grad(words, ids_of(rank, number), gradient)); };
    bool right = true;
    auto const same = [&](auto&& named, int batch) {
      auto const rows = session.pull(std::move(named));
      auto const again = session.pull(words, ids_of(rank, batch));
      right = right && copied(rows) == copied(again) && rows.indices() == 6;
    };
    same(session.prefetch(words, ids_of(rank, 1)), 1);
    auto first = session.prefetch(words, ids_of(rank, 2)), second = session.prefetch(words, ids_of(rank, 3)),
         third = session.prefetch(words, ids_of(rank, 2));
    step(0);
    same(std::move(second), 3);
    step(1);
    same(std::move(third), 2);
    step(2);
    step(3);
    same(std::move(first), 2);
    auto unused = session.prefetch(words, ids_of(rank, 4));
    step(4);
    session.finish();
    return right;
  });
  for (bool const right : answers) CHECK(right);
}

TEST_CASE("a bad index that was named ahead is told by its pull, and no step fails for it", "[session][prefetch]") {
  auto const answers = on_ranks(3, [](px::ThreadCommunicator& world) {
    px::Session session{world};
    Words words{session, "words", table_of(23, 3)};
    int const rank = session.rank();
    std::vector<float> const gradient(6 * 3, 0.25f);
    auto good = session.prefetch(words, ids_of(rank, 1));
    auto ids = ids_of(rank, 2);
    if (rank == 1) ids[4] = 23;
    auto bad = session.prefetch(words, ids);
    session.step(px::grad(words, ids_of(rank, 0), gradient));
    Answer answer = answer_of([&] { static_cast<void>(session.pull(std::move(bad))); });
    for (int time = 0; time < 2; ++time) {  // nor does the session hold on to what was refused
      Words brief{session, "brief", table_of(23, 3)};
      Answer const refused =
          answer_of([&] { static_cast<void>(session.pull(session.prefetch(brief, std::vector<std::int64_t>{23}))); });
      if (refused.code != px::Errc::bad_id) answer.what = "not refused";
    }
    auto const rows = session.pull(std::move(good));
    auto const again = session.pull(words, ids_of(rank, 1));
    if (copied(rows) != copied(again)) answer.what = "wrong rows";
    session.finish();
    return answer;
  });
  for (Answer const& answer : answers) {
    CHECK(answer.code == px::Errc::bad_id);
    CHECK(answer.rank == 1);
    CHECK(answer.variable == "words");
    CHECK(answer.detail == "index 23 at position 4 is outside [0, 23)");
    CHECK(answer.what.find(answer.detail) != std::string::npos);  // and the rest went well
    CHECK(answer == answers[0]);
  }
}

TEST_CASE("ranks that name different batches ahead find out with the next step", "[session][prefetch]") {
  auto const answers = on_ranks(3, [](px::ThreadCommunicator& world) {
    px::Session session{world};
    Words words{session, "words", table_of(23, 3)}, others{session, "others", table_of(23, 3)};
    int const rank = session.rank();
    std::vector<float> const gradient(6 * 3, 0.25f);
    Answer answer;
    {
      auto const next = session.prefetch(rank == 2 ? others : words, ids_of(rank, 1));
      answer = answer_of([&] { session.step(px::grad(words, ids_of(rank, 0), gradient)); });
    }
    session.step(px::grad(words, ids_of(rank, 0), gradient));  // all have dropped what they had named
    session.finish();
    return answer;
  });
  for (Answer const& answer : answers) {
    CHECK(answer.code == px::Errc::mismatch);
    CHECK(answer.rank == 2);
    CHECK(answer.detail.find("others") != std::string::npos);
    CHECK(answer == answers[0]);
  }
}

TEST_CASE("a batch is pulled once, and by the session that it was named to", "[session][prefetch]") {
  px::SelfCommunicator world;
  px::Session session{world}, other{world};
  Words words{session, "words", table_of(23, 3)};
  auto next = session.prefetch(words, ids_of(0, 1));
  auto taken = std::move(next);
  CHECK(answer_of([&] { static_cast<void>(session.pull(std::move(next))); }).code == px::Errc::misuse);
  CHECK(answer_of([&] { static_cast<void>(other.pull(std::move(taken))); }).code == px::Errc::misuse);
  auto const rows = session.pull(session.prefetch(words, ids_of(0, 1)));
  CHECK(rows.indices() == 6);
  session.finish();
  other.finish();
}

TEST_CASE("a table may be destroyed with a batch of it named ahead, and another take its name", "[session][prefetch]") {
  auto const sizes = on_ranks(2, [](px::ThreadCommunicator& world) {
    px::Session session{world};
    {
      Words words{session, "words", table_of(23, 3)};
      auto const next = session.prefetch(words, ids_of(session.rank(), 1));
      session.step();
    }
    session.step();
    Words words{session, "words", table_of(23, 4)};
    auto const rows = session.pull(words, ids_of(session.rank(), 1));
    session.finish();
    return rows.width();
  });
  CHECK(sizes == std::vector<std::int64_t>{4, 4});
}

TEST_CASE("ranks that have joined name empty batches ahead", "[session][prefetch]") {
  auto const answers = on_ranks(3, [](px::ThreadCommunicator& world) {
    px::Session session{world};
    Words words{session, "words", table_of(23, 3)};
    int const rank = session.rank();
    bool right = true;
    auto const iteration = [&](std::vector<std::int64_t> const& ids) {
      auto next = session.prefetch(words, ids);
      session.step(px::grad(words, ids, std::vector<float>(ids.size() * 3, 0.25f)));
      auto const rows = session.pull(std::move(next));
      auto const again = session.pull(words, ids);
      right = right && copied(rows) == copied(again) && rows.indices() == ids.size();
    };
    for (int step = 0; step < 1 + rank; ++step) iteration(ids_of(rank, step));
    session.join([&] { iteration({}); });
    session.finish();
    return right;
  });
  for (bool const right : answers) CHECK(right);
}

TEST_CASE("rows that Auto moves to other owners are found by what was named ahead", "[session][prefetch]") {
  auto const answers = on_ranks(3, [](px::ThreadCommunicator& world) {
    px::SessionOptions options;
    options.choice.costs.round = 1e-6, options.choice.costs.per_byte = 1e-9;
    px::Session session{world, options};
    px::Variable<px::Sparse, px::Auto, px::Adagrad> words{session, "words", table_of(23, 3)};
    int const rank = session.rank();
    bool right = true;
    session.search_pieces(words);
    for (int step = 0; step < 60; ++step) {
      auto next = session.prefetch(words, ids_of(rank, step + 1));
      session.step(px::grad(words, ids_of(rank, step), std::vector<float>(6 * 3, 0.25f)));
      auto const rows = session.pull(std::move(next));
      auto const again = session.pull(words, ids_of(rank, step + 1));
      right = right && copied(rows) == copied(again);
      for (std::size_t j = 0; j < rows.size(); ++j) right = right && rows.id(j) == again.id(j);
    }
    right = right && !session.decisions().empty();
    session.finish();
    return right;
  });
  for (bool const right : answers) CHECK(right);
}

}  // namespace parallax_test::prefetch
