// Ranks that run out of data before others: they go along and contribute nothing, in every order of finishing.
#include <cmath>
#include <vector>

#include "../catch.hpp"
#include "model.hpp"
#include "../../benchmarks/baseline/naive_ps.hpp"

namespace parallax_test::join {
namespace {

using px::grad;

// The batch of one rank in one step: a dense gradient and a few rows. Empty: after its last batch.
struct Rows {
  std::vector<float> dense;
  std::vector<int> ids;
  std::vector<float> rows;
};
Rows batch_of(int rank, int step) {
  Rows batch;
  for (int i = 0; i < 6; ++i) batch.dense.push_back(static_cast<float>((rank + 2 * step + i) % 7 - 3));
  for (int i = 0; i < 3; ++i) batch.ids.push_back((rank * 3 + step + 2 * i) % 5);
  for (int i = 0; i < 6; ++i) batch.rows.push_back(static_cast<float>((rank + step * i) % 5 - 2));
  return batch;
}

struct Parameters {
  std::vector<float> dense, table;
};

// All ranks' training in one process; ranks[r] = how many batches rank r has. Values are small integers over the divisor: 1, 2
// and 4 divide them exactly, and division by 3 rounds here as it does there.
Parameters expected(std::vector<int> const& batches, px::JoinDivisor divisor) {
  Parameters now{std::vector<float>(6, 1.0f), std::vector<float>(10, 1.0f)};
  int const last = *std::max_element(batches.begin(), batches.end());
  for (int step = 0; step < last; ++step) {
    std::vector<float> dense(6), table(10);
    std::vector<bool> touched(5);
    int active = 0;
    for (int rank = 0; rank < static_cast<int>(batches.size()); ++rank) {
      if (step >= batches[static_cast<std::size_t>(rank)]) continue;
      ++active;
      Rows const batch = batch_of(rank, step);
      for (std::size_t i = 0; i < 6; ++i) dense[i] += batch.dense[i];
      for (std::size_t i = 0; i < 6; ++i) table[static_cast<std::size_t>(batch.ids[i / 2]) * 2 + i % 2] += batch.rows[i];
      for (int const id : batch.ids) touched[static_cast<std::size_t>(id)] = true;
    }
    float const by = static_cast<float>(divisor == px::JoinDivisor::active ? active : static_cast<int>(batches.size()));
    for (std::size_t i = 0; i < 6; ++i) now.dense[i] -= 0.5f * (dense[i] / by);
    for (std::size_t i = 0; i < 10; ++i)
      if (touched[i / 2]) now.table[i] -= 0.5f * (table[i] / by);
  }
  return now;
}

template <class Policy>
void check_pattern(std::vector<int> const& batches, px::JoinDivisor divisor, bool started) {
  Parameters const right = expected(batches, divisor);
  auto const wrong = on_ranks(static_cast<int>(batches.size()), [&](px::ThreadCommunicator& world) {
    px::Session session{world, {.join_divisor = divisor}};
    std::vector<float> memory(6, 1.0f);
    px::Sgd const rate{.learning_rate = 0.5};
    px::Variable<px::Dense> dense{session, "dense", px::bind(memory), rate};
    px::Variable<px::Sparse, Policy> table{session, "table", {5, 2, px::constant(1)}, rate};
    auto const iteration = [&](Rows const& batch) {
      auto const rows = session.pull(table, batch.ids);
      if (started) session.start(grad(dense, batch.dense));
      return started ? session.step(grad(rows, batch.rows)) : session.step(grad(rows, batch.rows), grad(dense, batch.dense));
    };
    for (int step = 0; step < batches[static_cast<std::size_t>(world.rank())]; ++step) iteration(batch_of(world.rank(), step));
    session.join([&] { iteration({}); });
    int errors = session.steps() != *std::max_element(batches.begin(), batches.end());
    for (std::size_t i = 0; i < 6; ++i) errors += memory[i] != right.dense[i];
    auto const local = table.local();
    for (std::int64_t row = 0; row < local.rows; ++row)
      for (std::size_t c = 0; c < 2; ++c)
        errors += local[row][c] != right.table[static_cast<std::size_t>(table.global_row(row)) * 2 + c];
    iteration(batch_of(world.rank(), 9));  // the session goes on with all ranks
    session.finish();
    return errors;
  });
  for (int const errors : wrong) CHECK(errors == 0);
}

}  // namespace

TEST_CASE("every pattern of finishing among four ranks, dense, sparse and pulled", "[session][join]") {
  auto const divisor = GENERATE(px::JoinDivisor::world, px::JoinDivisor::active);
  for (int pattern = 1; pattern < 16; ++pattern) {
    std::vector<int> batches;
    for (int rank = 0; rank < 4; ++rank) batches.push_back(pattern >> rank & 1 ? 3 : 1 + rank % 2);
    CAPTURE(pattern, divisor);
    check_pattern<px::PsShard>(batches, divisor, pattern % 2);
  }
  check_pattern<px::AllReduce>({0, 2, 1}, divisor, false);
  check_pattern<baseline::NaivePs>({3, 0}, divisor, true);
}

TEST_CASE("a rank that has joined and still names indices is refused everywhere", "[session][join]") {
  auto const results = on_ranks(2, [](px::ThreadCommunicator& world) {
    px::Session session{world};
    px::Variable<px::Sparse> table{session, "table", {5, 1}};
    std::vector<int> const ids{1, 2};
    auto const iteration = [&] { session.step(grad(table, ids, std::vector<float>{1, 1})); };
    if (world.rank() == 0) return answer_of(iteration);
    return answer_of([&] { session.join(iteration); });
  });
  CHECK(results[0] == results[1]);
  CHECK(results[0].code == px::Errc::misuse);
  CHECK(results[0].rank == 1);
  CHECK(results[0].detail.find("joined has no data, but names 2 indices") != std::string::npos);
}

TEST_CASE("joining with an iteration that does nothing is refused where it would wait for ever", "[session][join]") {
  px::SelfCommunicator world;
  px::Session session{world};
  CHECK(answer_of([&] { session.join([] {}); }).code == px::Errc::misuse);
  std::vector<float> memory{1};
  px::Variable<px::Dense> dense{session, "dense", px::bind(memory)};
  session.join([&] { CHECK_FALSE(session.step(grad(dense, memory))); });
  CHECK(memory[0] == 1);
  CHECK(session.steps() == 0);
}

}  // namespace parallax_test::join
