// The sampled softmax against its formula and finite differences, the full one against a plain sum.
#include <cmath>
#include <cstdint>
#include <span>
#include <vector>

#include "../catch.hpp"
#include "finite_difference.hpp"
#include "language_model_in_double.hpp"

namespace {

constexpr lm::Index width = 4;  // P + 1
constexpr lm::Id vocabulary = 12;

// Six outputs, a table of all words, and a sample; words 0 and 5 are targets twice, some targets are in the sample.
struct Setup {
  lm::Random random{5};
  lm::LogUniformSampler sampler{vocabulary, 4};
  std::vector<double> outputs = uniform_values(6 * (width - 1));
  std::vector<double> table = uniform_values(vocabulary * width);
  std::vector<lm::Id> targets{0, 5, 11, 5, 0, 3};
  lm::SampledSoftmax<double> softmax{width - 1};

  std::vector<double> uniform_values(lm::Index count) {
    std::vector<double> values(static_cast<std::size_t>(count));
    lm::fill_uniform(std::span{values}, 1.0, random);
    return values;
  }

  std::vector<lm::Id> ids() const {
    std::vector<lm::Id> ids = targets;
    ids.insert(ids.end(), sampler.ids().begin(), sampler.ids().end());
    return ids;
  }

  lm::Matrix<double> outputs_matrix() const { return lm::as_matrix<double>(outputs, width - 1); }

  double logit(std::size_t k, lm::Id id) const {
    double const* const row = table.data() + id * width;
    double sum = row[width - 1];
    for (std::size_t j = 0; j + 1 < width; ++j) sum += outputs[k * (width - 1) + j] * row[j];
    return sum;
  }

  double loss(double gradient_scale = 1) {
    auto const used = ids();
    std::vector<std::uint32_t> const rows(used.begin(), used.end());  // of the whole table: an id is its row
    return softmax.loss(outputs_matrix(), table, rows, targets, sampler, gradient_scale);
  }
};

}  // namespace

TEST_CASE("the sampled loss follows its formula, and leaves out samples that are the target", "[examples][softmax]") {
  Setup s;
  s.sampler.draw(9);
  REQUIRE(s.sampler.find(0) >= 0);
  double expected = 0;
  for (std::size_t k = 0; k < s.targets.size(); ++k) {
    auto const corrected = [&](lm::Id id) { return s.logit(k, id) - s.sampler.log_expected_count(id); };
    double total = std::exp(corrected(s.targets[k]));
    for (lm::Id const id : s.sampler.ids()) total += id == s.targets[k] ? 0 : std::exp(corrected(id));
    expected += (std::log(total) - corrected(s.targets[k])) / static_cast<double>(s.targets.size());
  }
  CHECK(s.loss() == Approx(expected).epsilon(1e-12));
}

TEST_CASE("the gradients of the sampled loss are those of finite differences", "[examples][softmax]") {
  Setup s;
  s.sampler.draw(9);
  auto const loss = [&] { return s.loss(); };
  loss();
  lm::Matrix<double> const by_rows = s.softmax.rows_gradient();
  lm::Matrix<double> const by_outputs = s.softmax.outputs_gradient();
  CHECK(gradient_error(s.outputs, lm::as_span(by_outputs), loss) < 1e-6);

  lm::Matrix<double> by_table = lm::Matrix<double>::Zero(vocabulary, width);
  auto const ids = s.ids();
  REQUIRE(by_rows.rows() == static_cast<lm::Index>(ids.size()));
  for (std::size_t k = 0; k < ids.size(); ++k) by_table.row(ids[k]) += by_rows.row(static_cast<lm::Index>(k));
  CHECK(gradient_error(s.table, lm::as_span(by_table), loss) < 1e-6);

  s.loss(2.5);
  CHECK((s.softmax.rows_gradient() - 2.5 * by_rows).norm() < 1e-14);
  CHECK((s.softmax.outputs_gradient() - 2.5 * by_outputs).norm() < 1e-14);
}

TEST_CASE("more outputs than fit in the cache at once change nothing", "[examples][softmax]") {
  Setup s;
  s.sampler.draw(9);
  double const loss = s.loss();
  lm::Matrix<double> const by_rows = s.softmax.rows_gradient();
  lm::Matrix<double> const by_outputs = s.softmax.outputs_gradient();
  std::vector<double> const outputs = s.outputs;
  std::vector<lm::Id> const targets = s.targets;
  for (int copies = 1; copies < 50; ++copies) {
    s.outputs.insert(s.outputs.end(), outputs.begin(), outputs.end());
    s.targets.insert(s.targets.end(), targets.begin(), targets.end());
  }
  CHECK(s.loss() == Approx(loss).epsilon(1e-12));
  CHECK((s.softmax.rows_gradient().bottomRows(4) - by_rows.bottomRows(4)).norm() < 1e-13);
  CHECK((s.softmax.rows_gradient().middleRows(294, 6) * 50 - by_rows.topRows(6)).norm() < 1e-13);
  CHECK((s.softmax.outputs_gradient().bottomRows(6) * 50 - by_outputs).norm() < 1e-13);
}

TEST_CASE("the full loss is the same from blocks in any order, and that of a plain sum", "[examples][softmax]") {
  Setup s;
  for (bool const backward : {false, true}) {
    lm::FullSoftmax<double> full;
    full.add(s.outputs_matrix().topRows(2), std::span<lm::Id const>{s.targets}.first(2));
    full.add(s.outputs_matrix().bottomRows(4), std::span<lm::Id const>{s.targets}.last(4));
    auto const block = [&](lm::Id first, lm::Id count) {
      full.add_block(first, std::span<double const>{s.table}.subspan(static_cast<std::size_t>(first * width),
                                                                     static_cast<std::size_t>(count * width)));
    };
    if (backward) {
      block(7, 5);
      block(0, 7);
    } else {
      block(0, 5);
      block(5, 5);
      block(10, 2);
    }
    double expected = 0;
    for (std::size_t k = 0; k < s.targets.size(); ++k) {
      double total = 0;
      for (lm::Id id = 0; id < vocabulary; ++id) total += std::exp(s.logit(k, id));
      expected += std::log(total) - s.logit(k, s.targets[k]);
    }
    CHECK(full.size() == 6);
    CHECK(full.loss_sum() == Approx(expected).epsilon(1e-12));
  }
}
