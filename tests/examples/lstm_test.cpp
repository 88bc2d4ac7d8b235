// The LSTM: its values against the formulas, its gradients against finite differences, its state across batches.
#include <algorithm>
#include <cmath>
#include <vector>

#include "../catch.hpp"
#include "finite_difference.hpp"
#include "language_model_in_double.hpp"

namespace {

constexpr lm::Index streams = 3;
constexpr lm::LstmShape shape{4, 5, 2};

lm::Matrix<double> random_matrix(lm::Index rows, lm::Index columns, lm::Random& random) {
  lm::Matrix<double> matrix(rows, columns);
  lm::fill_uniform(std::span{matrix.data(), static_cast<std::size_t>(matrix.size())}, 1.0, random);
  return matrix;
}

lm::LstmState<double> random_state(lm::Random& random) {
  return {random_matrix(streams, shape.cell, random), random_matrix(streams, shape.projection, random)};
}

lm::Lstm<double> random_lstm(lm::Random& random) {
  lm::Lstm<double> lstm{shape};
  lstm.initialize(random);
  lm::fill_uniform(lstm.parameters().bias, 0.5, random);
  return lstm;
}

// The output of one stream after one more input, element by element; `cell` and `output` are its state.
void plain_step(lm::LstmTensors<double> const& w, double const* input, std::vector<double>& cell,
                std::vector<double>& output) {
  auto const E = shape.input, H = shape.cell, P = shape.projection;
  auto const at = [](auto& values, lm::Index k) -> auto& { return values[static_cast<std::size_t>(k)]; };
  std::vector<double> z(static_cast<std::size_t>(4 * H));
  for (lm::Index j = 0; j < 4 * H; ++j) {
    at(z, j) = at(w.bias, j);
    for (lm::Index k = 0; k < E; ++k) at(z, j) += input[k] * at(w.kernel, k * 4 * H + j);
    for (lm::Index k = 0; k < P; ++k) at(z, j) += at(output, k) * at(w.kernel, (E + k) * 4 * H + j);
  }
  auto const logistic = [](double x) { return 1 / (1 + std::exp(-x)); };
  output.assign(output.size(), 0.0);
  for (lm::Index j = 0; j < H; ++j) {
    at(cell, j) = logistic(at(z, 2 * H + j)) * at(cell, j) + logistic(at(z, j)) * std::tanh(at(z, H + j));
    double const gated = logistic(at(z, 3 * H + j)) * std::tanh(at(cell, j));
    for (lm::Index k = 0; k < P; ++k) at(output, k) += gated * at(w.projection, j * P + k);
  }
}

}  // namespace

TEST_CASE("an LSTM computes its formulas, stream by stream and step by step", "[examples][lstm]") {
  lm::Random random{1};
  auto lstm = random_lstm(random);
  auto const inputs = random_matrix(4 * streams, shape.input, random);
  auto const before = random_state(random);
  auto state = before;
  auto const outputs = lstm.forward(inputs, state);
  for (lm::Index b = 0; b < streams; ++b) {
    std::vector<double> cell(before.cell.row(b).begin(), before.cell.row(b).end());
    std::vector<double> output(before.output.row(b).begin(), before.output.row(b).end());
    for (lm::Index t = 0; t < 4; ++t) {
      plain_step(lstm.parameters(), inputs.row(t * streams + b).data(), cell, output);
      for (lm::Index k = 0; k < shape.projection; ++k) {
        CHECK(outputs(t * streams + b, k) == Approx(output[static_cast<std::size_t>(k)]).epsilon(1e-12));
      }
    }
    CHECK(state.cell(b, 0) == Approx(cell[0]).epsilon(1e-12));
    CHECK(state.output(b, 0) == Approx(output[0]).epsilon(1e-12));
  }
}

TEST_CASE("two batches with the state carried give the outputs of one long batch", "[examples][lstm]") {
  lm::Random random{2};
  auto lstm = random_lstm(random);
  lm::Matrix<double> const inputs = random_matrix(7 * streams, shape.input, random);
  auto const before = random_state(random);
  auto state = before;
  lm::Matrix<double> const whole = lstm.forward(inputs, state);
  auto carried = before;
  lm::Matrix<double> const first = inputs.topRows(3 * streams);
  lm::Matrix<double> const rest = inputs.bottomRows(4 * streams);
  lm::Matrix<double> const first_outputs = lstm.forward(first, carried);
  lm::Matrix<double> const rest_outputs = lstm.forward(rest, carried);
  CHECK((first_outputs - whole.topRows(3 * streams)).norm() < 1e-13);
  CHECK((rest_outputs - whole.bottomRows(4 * streams)).norm() < 1e-13);
  CHECK((carried.cell - state.cell).norm() < 1e-13);
}

TEST_CASE("the gradients of an LSTM are those of finite differences, from a state other than zero",
          "[examples][lstm]") {
  lm::Random random{3};
  auto lstm = random_lstm(random);
  auto inputs = random_matrix(5 * streams, shape.input, random);
  auto const before = random_state(random);
  auto const weights = random_matrix(5 * streams, shape.projection, random);
  auto const loss = [&] {
    auto state = before;
    return lstm.forward(inputs, state).cwiseProduct(weights).sum();
  };
  loss();
  int polls = 0;
  lm::Matrix<double> const by_inputs = lstm.backward(weights, [&] { ++polls; });
  CHECK(polls == 5);
  auto const p = lstm.parameters();
  auto const g = lstm.gradients();
  CHECK(gradient_error(p.kernel, g.kernel, loss) < 1e-6);
  CHECK(gradient_error(p.bias, g.bias, loss) < 1e-6);
  CHECK(gradient_error(p.projection, g.projection, loss) < 1e-6);
  std::span const input_values{inputs.data(), static_cast<std::size_t>(inputs.size())};
  CHECK(gradient_error(input_values, lm::as_span(by_inputs), loss) < 1e-6);
}

TEST_CASE("a second backward pass starts from zero and changes nothing", "[examples][lstm]") {
  lm::Random random{4};
  auto lstm = random_lstm(random);
  auto const inputs = random_matrix(2 * streams, shape.input, random);
  auto state = random_state(random);
  lstm.forward(inputs, state);
  auto const weights = random_matrix(2 * streams, shape.projection, random);
  lstm.backward(weights);
  auto const g = lstm.gradients();
  std::vector<double> const once(g.kernel.begin(), g.kernel.end());
  lstm.backward(weights);
  CHECK(std::equal(once.begin(), once.end(), g.kernel.begin()));
}
