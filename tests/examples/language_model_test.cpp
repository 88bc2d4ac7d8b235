// The whole model: gradients by every parameter, and ranks that together do what one rank does.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "../catch.hpp"
#include "finite_difference.hpp"
#include "language_model_in_double.hpp"

namespace {

lm::ModelShape small_shape() {
  lm::ModelShape shape;
  shape.vocabulary = 11;
  shape.embedding = 3;
  shape.cell = 4;
  shape.projection = 2;
  shape.samples = 5;
  return shape;
}

// Both tables in plain memory, and the gradients by them as whole tables.
struct Tables {
  explicit Tables(lm::ModelShape const& s) : shape{s} {
    lm::Random random{8};
    words.resize(static_cast<std::size_t>(s.vocabulary * s.embedding));
    softmax.resize(static_cast<std::size_t>(s.vocabulary * s.softmax_width()));
    lm::fill_uniform(std::span{words}, 0.8, random);
    lm::fill_uniform(std::span{softmax}, 0.8, random);
  }

  static std::vector<double> summed(std::span<lm::Id const> ids, std::span<double const> rows, lm::Index width,
                                    lm::Id count) {
    std::vector<double> table(static_cast<std::size_t>(count * width));
    for (std::size_t k = 0; k < rows.size(); ++k) {
      auto const row = static_cast<std::size_t>(ids[k / static_cast<std::size_t>(width)] * width);
      table[row + k % static_cast<std::size_t>(width)] += rows[k];
    }
    return table;
  }

  lm::ModelShape shape;
  std::vector<double> words;    // [V x E]
  std::vector<double> softmax;  // [V x (P + 1)]
};

struct Step {
  double loss;
  std::vector<double> kernel;  // gradients
  std::vector<double> words;
  std::vector<double> softmax;
};

// Of a whole table, an id is its row.
std::vector<std::uint32_t> rows_of(std::span<lm::Id const> ids) { return {ids.begin(), ids.end()}; }

double forward(lm::LanguageModel<double>& model, Tables const& tables, lm::Batch const& batch,
               std::span<lm::Id const> softmax_ids) {
  return model.forward(batch, tables.words, rows_of(batch.inputs), tables.softmax, rows_of(softmax_ids));
}

Step run_step(lm::LanguageModel<double>& model, Tables const& tables, lm::Batch const& batch, std::uint64_t seed) {
  auto const& shape = tables.shape;
  auto const ids = model.softmax_ids(batch, seed);
  double const loss = forward(model, tables, batch, ids);
  auto const words = Tables::summed(batch.inputs, model.backward(), shape.embedding, shape.vocabulary);
  auto const softmax = Tables::summed(ids, model.softmax_gradient(), shape.softmax_width(), shape.vocabulary);
  auto const kernel = model.lstm().gradients().kernel;
  return {loss, {kernel.begin(), kernel.end()}, words, softmax};
}

std::vector<lm::Token> some_tokens() {
  std::vector<lm::Token> tokens;
  lm::Random random{10};
  for (int k = 0; k < 90; ++k) tokens.push_back(static_cast<lm::Token>(random() % 11 * (random() % 2)));
  return tokens;
}

}  // namespace

TEST_CASE(
    "the gradients of the language model are those of finite differences, in a batch with duplicates whose state was "
    "carried",
    "[examples][language_model]") {
  auto const tokens = some_tokens();
  Tables tables{small_shape()};
  lm::Streams streams{tokens, 3};
  lm::Batch first, batch;
  streams.next(4, first);
  streams.next(4, batch);
  lm::LanguageModel<double> model{tables.shape, 6};
  run_step(model, tables, first, 20);
  auto const after_first = model;
  Step const step = run_step(model, tables, batch, 21);
  auto const gradients = model.lstm().gradients();
  std::vector<double> const projection(gradients.projection.begin(), gradients.projection.end());
  std::vector<double> const bias(gradients.bias.begin(), gradients.bias.end());

  auto probe = std::make_unique<lm::LanguageModel<double>>(after_first);
  auto const ids = probe->softmax_ids(batch, 21);
  std::vector<lm::Id> const softmax_ids(ids.begin(), ids.end());
  auto const p = probe->lstm().parameters();
  auto const start = probe->state();
  auto const loss = [&] {
    probe->set_state(start);
    return forward(*probe, tables, batch, softmax_ids);
  };
  CHECK(loss() == step.loss);
  CHECK(gradient_error(p.kernel, step.kernel, loss) < 1e-6);
  CHECK(gradient_error(p.bias, bias, loss) < 1e-6);
  CHECK(gradient_error(p.projection, projection, loss) < 1e-6);
  CHECK(gradient_error(tables.words, step.words, loss) < 1e-6);
  CHECK(gradient_error(tables.softmax, step.softmax, loss) < 1e-6);
}

TEST_CASE("the mean over ranks of losses and gradients is that of one rank with all their streams",
          "[examples][language_model]") {
  auto const tokens = some_tokens();
  Tables const tables{small_shape()};
  int const ranks = 3;
  lm::LanguageModel<double> whole{tables.shape, 6};
  lm::Streams all{tokens, 6};
  std::vector<lm::LanguageModel<double>> models;
  std::vector<lm::Streams> streams;
  for (int r = 0; r < ranks; ++r) {
    models.emplace_back(tables.shape, 6);
    streams.emplace_back(tokens, 2, r, ranks);
  }
  for (std::uint64_t seed = 1; seed <= 4; ++seed) {
    lm::Batch batch;
    all.next(5, batch);
    Step const expected = run_step(whole, tables, batch, seed);
    Step mean{0, std::vector<double>(expected.kernel.size()), std::vector<double>(expected.words.size()),
              std::vector<double>(expected.softmax.size())};
    auto const add = [](std::vector<double>& sum, std::vector<double> const& part) {
      for (std::size_t k = 0; k < sum.size(); ++k) sum[k] += part[k] / ranks;
    };
    for (std::size_t r = 0; r < models.size(); ++r) {
      streams[r].next(5, batch);
      Step const part = run_step(models[r], tables, batch, seed);
      mean.loss += part.loss / ranks;
      add(mean.kernel, part.kernel);
      add(mean.words, part.words);
      add(mean.softmax, part.softmax);
    }
    auto const distance = [](std::vector<double> const& a, std::vector<double> const& b) {
      double largest = 0;
      for (std::size_t k = 0; k < a.size(); ++k) largest = std::max(largest, std::abs(a[k] - b[k]));
      return largest;
    };
    CHECK(mean.loss == Approx(expected.loss).epsilon(1e-12));
    CHECK(distance(mean.kernel, expected.kernel) < 1e-14);
    CHECK(distance(mean.words, expected.words) < 1e-14);
    CHECK(distance(mean.softmax, expected.softmax) < 1e-14);
  }
}

TEST_CASE("rows may come as those of the distinct ids, with an index for each occurrence",
          "[examples][language_model]") {
  auto const tokens = some_tokens();
  Tables const tables{small_shape()};
  lm::Streams streams{tokens, 2};
  lm::Batch batch;
  streams.next(6, batch);
  lm::LanguageModel<double> model{tables.shape, 6};
  double const expected = run_step(model, tables, batch, 3).loss;

  auto const compact = [](std::span<lm::Id const> ids, std::vector<double> const& table, lm::Index width) {
    std::pair<std::vector<double>, std::vector<std::uint32_t>> result;
    std::vector<lm::Id> distinct(ids.begin(), ids.end());
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    for (lm::Id const id : distinct)
      result.first.insert(result.first.end(), table.data() + id * width, table.data() + (id + 1) * width);
    for (lm::Id const id : ids) {
      result.second.push_back(
          static_cast<std::uint32_t>(std::lower_bound(distinct.begin(), distinct.end(), id) - distinct.begin()));
    }
    return result;
  };
  lm::LanguageModel<double> other{tables.shape, 6};
  auto const ids = other.softmax_ids(batch, 3);
  auto const [words, word_indices] = compact(batch.inputs, tables.words, tables.shape.embedding);
  auto const [softmax, softmax_indices] = compact(ids, tables.softmax, tables.shape.softmax_width());
  REQUIRE(words.size() < tables.words.size());
  CHECK(other.forward(batch, words, word_indices, softmax, softmax_indices) == expected);
}

TEST_CASE("a few steps of descent learn a text that repeats itself", "[examples][language_model]") {
  std::vector<lm::Token> tokens;
  for (int k = 0; k < 400; ++k) tokens.push_back(static_cast<lm::Token>(k * k % 7 + k % 3));
  auto shape = small_shape();
  shape.cell = 12;
  shape.projection = 6;
  Tables tables{shape};
  lm::LanguageModel<double> model{shape, 6};
  lm::Streams streams{tokens, 4};
  lm::Batch batch;
  double first = 0, last = 0;
  auto const descend = [](auto&& values, auto const& gradient) {
    for (std::size_t k = 0; k < gradient.size(); ++k) values[k] -= 0.5 * gradient[k];
  };
  for (int step = 0; step < 600; ++step) {
    streams.next(7, batch);
    Step const s = run_step(model, tables, batch, static_cast<std::uint64_t>(step));
    (step < 20 ? first : last) = s.loss;
    descend(tables.words, s.words);
    descend(tables.softmax, s.softmax);
    descend(model.lstm().parameters().kernel, s.kernel);
    descend(model.lstm().parameters().projection, model.lstm().gradients().projection);
    descend(model.lstm().parameters().bias, model.lstm().gradients().bias);
  }
  CHECK(last < first / 4);
}
