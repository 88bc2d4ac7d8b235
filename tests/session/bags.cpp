// Bags: rows pooled on the worker, and their gradients on the way back, beside the same done index by index.
#include <cmath>
#include <random>
#include <vector>

#include "../catch.hpp"
#include "model.hpp"
#include "../../benchmarks/baseline/naive_ps.hpp"

namespace parallax_test::bags {
namespace {

using px::grad;

constexpr std::int64_t rows = 19, width = 5;

// Indices in bags, some empty, one that is longer than a chunk of a sum.
struct Bags {
  Bags(std::uint64_t seed, int rank) {
    std::mt19937_64 random{seed * 31 + static_cast<std::uint64_t>(rank)};
    std::size_t const count = random() % 6;
    for (std::size_t bag = 0; bag < count; ++bag) {
      std::size_t const size = bag == 1 ? 150 : random() % 5;
      for (std::size_t i = 0; i < size; ++i) ids.push_back(static_cast<std::int64_t>(random() % rows));
      offsets.push_back(static_cast<std::int32_t>(ids.size()));
    }
    for (std::size_t i = 0; i < ids.size(); ++i) weights.push_back(static_cast<float>(random() % 9) / 4 - 1);
    for (std::size_t i = 0; i < count * width; ++i) gradient.push_back(static_cast<float>(random() % 17) - 8);
  }
  std::vector<std::int64_t> ids;
  std::vector<std::int32_t> offsets{0};
  std::vector<float> weights, gradient;

  std::size_t size() const { return offsets.size() - 1; }
  std::size_t length(std::size_t bag) const { return static_cast<std::size_t>(offsets[bag + 1] - offsets[bag]); }
};

enum class How { sum, mean, weighted };

// What the bags of a batch are pooled to, in double. Table values are small multiples of 1/8, sums of them exact.
std::vector<double> pooled(Bags const& batch, How how, std::vector<double> const& table) {
  std::vector<double> result(batch.size() * width);
  for (std::size_t bag = 0; bag < batch.size(); ++bag)
    for (std::size_t c = 0; c < width; ++c) {
      double& out = result[bag * width + c];
      for (auto i = static_cast<std::size_t>(batch.offsets[bag]); i < static_cast<std::size_t>(batch.offsets[bag + 1]); ++i)
        out += table[static_cast<std::size_t>(batch.ids[i]) * width + c] *
               (how == How::weighted ? double{batch.weights[i]} : 1.0);
      if (how == How::mean && batch.length(bag) > 0) out /= static_cast<double>(batch.length(bag));
    }
  return result;
}

// The gradient of every index, which the library never holds.
std::vector<float> per_index(Bags const& batch, How how) {
  std::vector<float> result;
  for (std::size_t bag = 0; bag < batch.size(); ++bag)
    for (auto i = static_cast<std::size_t>(batch.offsets[bag]); i < static_cast<std::size_t>(batch.offsets[bag + 1]); ++i)
      for (std::size_t c = 0; c < width; ++c) {
        float const factor = how == How::sum        ? 1.0f
                             : how == How::weighted ? batch.weights[i]
                                                    : 1.0f / static_cast<float>(batch.length(bag));
        result.push_back(factor * batch.gradient[bag * width + c]);
      }
  return result;
}

template <class Policy>
void check_bags(int ranks, How how, bool started) {
  auto const results = on_ranks(ranks, [&](px::ThreadCommunicator& world) {
    px::Session session{world};
    px::Sgd const rate{.learning_rate = 0.125};
    px::Variable<px::Sparse, Policy> bagged{session, "bagged", {rows, width, px::constant(0.5)}, rate};
    px::Variable<px::Sparse, Policy> plain{session, "plain", {rows, width, px::constant(0.5)}, rate};
    std::vector<std::int64_t> all(rows);
    for (std::size_t i = 0; i < rows; ++i) all[i] = static_cast<std::int64_t>(i);
    int wrong = 0;
    for (std::uint64_t seed = 0; seed < 5; ++seed) {
      Bags const batch{seed, world.rank()};
      std::vector<double> table;
      {
        auto const before = session.pull(plain, all);
        for (std::size_t i = 0; i < rows; ++i) table.insert(table.end(), before[i].begin(), before[i].end());
      }
      auto const pull = [&](auto const& bags, auto const& indices) { return session.pull(bags, indices); };
      auto [bags, indices] = how == How::weighted
                                 ? pull(bagged.bags(batch.ids, batch.offsets, batch.weights), plain.at(batch.ids))
                                 : pull(bagged.bags(batch.ids, batch.offsets,
                                                    how == How::mean ? px::Pool::mean : px::Pool::sum),
                                        plain.at(batch.ids));
      auto const expected = pooled(batch, how, table);
      wrong += bags.size() != batch.size();
      for (std::size_t bag = 0; bag < bags.size(); ++bag)
        for (std::size_t c = 0; c < width; ++c)
          wrong += std::abs(static_cast<double>(bags[bag][c]) - expected[bag * width + c]) >
                   1e-5 * (1 + std::abs(expected[bag * width + c]));
      if (started) {
        session.start(grad(bags, batch.gradient));
        session.step(grad(indices, per_index(batch, how)));
      } else {
        session.step(grad(bags, batch.gradient), grad(indices, per_index(batch, how)));
      }
      auto const one = bagged.local(), other = plain.local();
      for (std::int64_t row = 0; row < one.rows; ++row)
        for (std::size_t c = 0; c < width; ++c) wrong += one[row][c] != other[row][c];  // to the bit
    }
    session.finish();
    return wrong;
  });
  for (int const wrong : results) CHECK(wrong == 0);
}

}  // namespace

TEST_CASE("a step on bags is the step on their indices, to the bit, and pooled rows are their sums", "[session][bags]") {
  auto const how = GENERATE(How::sum, How::mean, How::weighted);
  int const ranks = GENERATE(1, 3);
  bool const started = GENERATE(false, true);
  CAPTURE(how, ranks, started);
  check_bags<px::PsShard>(ranks, how, started);
  check_bags<baseline::NaivePs>(ranks, how, started);
  check_bags<px::AllReduce>(ranks, how, started);
}

TEST_CASE("bags that do not fit their indices are refused", "[session][bags]") {
  px::SelfCommunicator world;
  px::Session session{world};
  px::Variable<px::Sparse> table{session, "table", {4, 2}};
  std::vector<int> const ids{0, 1, 2};
  std::vector<float> const weights{1, 2};
  auto const detail_of = [&](std::vector<int> const& offsets) {
    return answer_of([&] { auto const bags = session.pull(table.bags(ids, offsets)); }).detail;
  };
  CHECK(detail_of({}).find("begin with 0 and end with the number of indices, 3") != std::string::npos);
  CHECK(detail_of({1, 3}).find("begin with 0") != std::string::npos);
  CHECK(detail_of({0, 2}).find("end with the number of indices, 3") != std::string::npos);
  CHECK(detail_of({0, 3, 2, 3}).find("descend from 3 to 2 at bag 1") != std::string::npos);
  // An offset beyond the indices is not followed.
  CHECK(detail_of({0, 1'000'000, 3}).find("descend from 1000000 to 3 at bag 1") != std::string::npos);
  auto const answer = answer_of([&] { auto const bags = session.pull(table.bags(ids, std::vector<int>{0, 3}, weights)); });
  CHECK(answer.detail.find("2 weights for 3 indices") != std::string::npos);
  auto const bags = session.pull(table.bags(ids, std::vector<int>{0, 3}));
  auto const too_many = answer_of([&] { session.step(grad(bags, std::vector<float>(4))); });
  CHECK(too_many.detail.find("2 x 2 for 1 x 2") != std::string::npos);
}

}  // namespace parallax_test::bags
