// An optimizer from outside, written from README.md and docs/ alone: Lion (Chen et al., NeurIPS 2023), exact on rows without a
// gradient.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <parallax/comm/thread.hpp>
#include <parallax/parallax.hpp>

#include "../catch.hpp"

namespace px = parallax;

namespace {

PARALLAX_STRICT_ARITHMETIC_BEGIN
struct Lion {
  using axis = px::optimizer_axis;
  using element_slots = px::slot_types<px::scalar>;
  static constexpr std::string_view name = "Lion", slot_names[] = {"m"};
  static constexpr px::Untouched untouched = px::Untouched::moves;  // m pushes, and the decay pulls, without a gradient
  double learning_rate = 1e-4, beta1 = 0.9, beta2 = 0.99, decay = 0;

  auto at(std::int64_t /*step*/) const {
    return [rate = learning_rate, first = beta1, second = beta2, lambda = decay](auto& p, auto g, auto& m) noexcept {
      PARALLAX_NO_CONTRACT
      using T = decltype(g);
      T const sum = static_cast<T>(first) * m + static_cast<T>(1 - first) * g;
      p -= static_cast<T>(rate) * (static_cast<T>((sum > 0) - (sum < 0)) + static_cast<T>(lambda) * p);
      m = static_cast<T>(second) * m + static_cast<T>(1 - second) * g;
    };
  }
};

constexpr std::size_t elements = 5, rows = 7, width = 3, named = 3;  // by each rank's batch
constexpr int steps = 20;
constexpr Lion settings{.learning_rate = 0.25, .beta1 = 0.75, .beta2 = 0.96875, .decay = 0.5};

double rate_of(int step) { return step <= steps / 2 ? 0.25 : 0.125; }
float gradient_of(int step, int rank, std::size_t i) {
  return static_cast<float>((step * 5 + rank * 3 + static_cast<int>(i) * 7) % 11 - 5);
}
std::vector<int> batch_of(int step, int rank) { return {(step * 3 + rank) % 5, (step + 5 * rank) % 7, (step * 3 + rank) % 5}; }

struct Model {
  std::vector<float> weights = std::vector<float>(elements, 1.0f), m = std::vector<float>(elements);
  std::vector<float> table = std::vector<float>(rows * width), table_m = table;
};

Model trained(px::ThreadCommunicator& world) {
  px::Session session{world};
  Model model;
  px::Variable<px::Dense, Lion> layer{session, "layer", px::bind(model.weights), settings};
  px::Variable<px::Sparse, Lion> words{session, "words", {.rows = rows, .width = width}, settings};
  for (int step = 1; step <= steps; ++step) {
    layer.optimizer().learning_rate = words.optimizer().learning_rate = rate_of(step);
    std::vector<float> gradient(elements), of_rows(named * width);
    for (std::size_t i = 0; i < elements; ++i) gradient[i] = gradient_of(step, world.rank(), i);
    for (std::size_t i = 0; i < of_rows.size(); ++i) of_rows[i] = gradient_of(step + 1, world.rank(), i);
    session.step(px::grad(layer, gradient), px::grad(words, batch_of(step, world.rank()), of_rows));
  }
  std::vector<int> all;
  while (all.size() < rows) all.push_back(static_cast<int>(all.size()));
  auto const pulled = session.pull(words, all);
  for (std::size_t i = 0; i < rows * width; ++i) model.table[i] = pulled[i / width][i % width];
  for (std::size_t i = 0; i < elements; ++i) model.m[i] = layer.slot<float>("m")[i];
  session.finish();
  return model;
}

// The formula of the paper, in a loop that knows no library. The sums are of small integers, and so exact in any order.
void move(float& p, float g, float& m, float rate) {
  PARALLAX_NO_CONTRACT
  float const sum = 0.75f * m + 0.25f * g;
  p -= rate * ((sum > 0 ? 1.0f : sum < 0 ? -1.0f : 0.0f) + 0.5f * p);
  m = 0.96875f * m + 0.03125f * g;
}
Model by_hand(int ranks) {
  Model model;
  for (int step = 1; step <= steps; ++step) {
    std::vector<float> sum(elements), of_rows(rows * width);
    for (int rank = 0; rank < ranks; ++rank) {
      std::vector<int> const batch = batch_of(step, rank);
      for (std::size_t i = 0; i < elements; ++i) sum[i] += gradient_of(step, rank, i);
      for (std::size_t i = 0; i < named * width; ++i)
        of_rows[static_cast<std::size_t>(batch[i / width]) * width + i % width] += gradient_of(step + 1, rank, i);
    }
    auto const rate = static_cast<float>(rate_of(step)), count = static_cast<float>(ranks);
    for (std::size_t i = 0; i < elements; ++i) move(model.weights[i], sum[i] / count, model.m[i], rate);
    for (std::size_t i = 0; i < rows * width; ++i) move(model.table[i], of_rows[i] / count, model.table_m[i], rate);
  }
  return model;
}
PARALLAX_STRICT_ARITHMETIC_END

}  // namespace

TEST_CASE("an optimizer from outside moves dense and sparse parameters as a plain loop does", "[outside][optimizer]") {
  int const ranks = GENERATE(1, 3);
  CAPTURE(ranks);
  std::vector<Model> models(static_cast<std::size_t>(ranks));
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) { models[static_cast<std::size_t>(world.rank())] = trained(world); });
  Model const expected = by_hand(ranks);
  for (Model const& model : models) {
    CHECK(model.weights == expected.weights);
    CHECK(model.m == expected.m);
    CHECK(model.table == expected.table);
  }
}

TEST_CASE("a setting of an optimizer from outside that differs on one rank is named on all", "[outside][optimizer]") {
  std::vector<std::string> said(2);
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    px::Session session{world};
    std::vector<float> weights(1), gradient(1);
    px::Variable<px::Dense, Lion> layer{session, "layer", px::bind(weights), Lion{.beta2 = world.rank() == 0 ? 0.99 : 0.5}};
    try {
      session.step(px::grad(layer, gradient));
    } catch (px::Error const& error) {
      said[static_cast<std::size_t>(world.rank())] = error.what();
    }
    session.finish();
  });
  CHECK_THAT(said[0], parallax_test::contains("Lion") && parallax_test::contains("0.99") && parallax_test::contains("0.5"));
  CHECK(said[0] == said[1]);
}
