// Rows that travel as a wire has them: PsShard and AllGather with bf16 on the wire, beside what follows from its definition.
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "../catch.hpp"
#include "../support/bf16_wire.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

// A policy of the library's with another wire.
template <class Policy>
struct Wired {
  using axis = px::policy_axis;
  static constexpr std::string_view name = "Wired";
  template <class Kind>
  struct exchange : Policy::template exchange<Kind> {
    using wire = parallax_test::Bf16Wire;
  };
};

float rounded(float value) {
  std::uint16_t bits;
  parallax_test::Bf16Wire::encode(&value, 1, &bits);
  parallax_test::Bf16Wire::decode(&bits, 1, &value);
  return value;
}

constexpr std::int64_t rows = 40, width = 3;

std::vector<std::int64_t> ids_of(int rank, int step) {
  std::mt19937 random{static_cast<unsigned>(31 * rank + step)};
  std::vector<std::int64_t> ids(12);
  for (auto& id : ids) id = static_cast<std::int64_t>(random() % rows);
  return ids;
}
float gradient_of(int rank, int step, std::size_t i) {
  return static_cast<float>((rank + 1) * static_cast<int>(i % 17) - step) / 7.0f;  // not exact in bf16
}

struct Seen {
  std::vector<float> pulled;
  std::uint64_t rows_sent = 0;
};

template <class Policy>
std::vector<Seen> train(int ranks, int steps) {
  std::vector<Seen> seen(static_cast<std::size_t>(ranks));
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    px::Session session{world};
    px::Variable<px::Sparse, Policy> table{session, "table", {rows, width}, px::Sgd{.learning_rate = 1}, px::Reduce::sum};
    for (int step = 0; step < steps; ++step) {
      auto const ids = ids_of(world.rank(), step);
      std::vector<float> gradient(ids.size() * width);
      for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = gradient_of(world.rank(), step, i);
      session.step(px::grad(table, ids, gradient));
    }
    auto& own = seen[static_cast<std::size_t>(world.rank())];
    own.rows_sent = session.traffic().sent_of(px::Payload::rows).all;
    std::vector<std::int64_t> all(rows);
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>(i);
    auto const pulled = session.pull(table, all);
    for (std::size_t i = 0; i < all.size(); ++i) own.pulled.insert(own.pulled.end(), pulled[i].begin(), pulled[i].end());
    session.finish();
  });
  return seen;
}

// One step by the definition: each rank's sum of a row is encoded, owners sum what is decoded in the order of ranks.
std::vector<float> by_definition(int ranks, int steps, bool pulled_by_wire) {
  std::vector<float> table(rows * width, 0.0f);
  for (int step = 0; step < steps; ++step) {
    std::vector<float> sum(table.size());
    std::vector<bool> touched(rows);
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<float> own(table.size());
      std::vector<bool> named(rows);
      auto const ids = ids_of(rank, step);
      for (std::size_t i = 0; i < ids.size(); ++i)
        for (std::size_t c = 0; c < width; ++c) {
          auto const at = static_cast<std::size_t>(ids[i]) * width + c;
          float const g = gradient_of(rank, step, i * width + c);
          own[at] = named[static_cast<std::size_t>(ids[i])] ? own[at] + g : g;
          if (c + 1 == width) named[static_cast<std::size_t>(ids[i])] = true;
        }
      for (std::size_t row = 0; row < rows; ++row)
        for (std::size_t c = 0; named[row] && c < width; ++c) {
          float const value = rounded(own[row * width + c]);
          sum[row * width + c] = touched[row] ? sum[row * width + c] + value : value;
          if (c + 1 == width) touched[row] = true;
        }
    }
    for (std::size_t i = 0; i < table.size(); ++i)
      if (touched[i / width]) table[i] -= sum[i];
  }
  if (pulled_by_wire)
    for (float& value : table) value = rounded(value);
  return table;
}

}  // namespace

TEMPLATE_TEST_CASE("rows travel as the policy's wire has them, and nothing else is rounded", "[policy][wire]", px::PsShard,
                   px::AllGather) {
  constexpr bool shards = px::Variable<px::Sparse, TestType>::State::sharded;
  for (int const ranks : {1, 2, 3, 4}) {
    auto const seen = train<Wired<TestType>>(ranks, 3), plain = train<TestType>(ranks, 3);
    auto const expected = by_definition(ranks, 3, shards);
    for (std::size_t rank = 0; rank < seen.size(); ++rank) {
      INFO(ranks << " ranks, rank " << rank);
      CHECK(seen[rank].pulled == expected);
      CHECK(2 * seen[rank].rows_sent == plain[rank].rows_sent);
    }
  }
}
