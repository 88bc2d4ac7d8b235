// The dense network: gradients against finite differences, and digits that it learns to read.
#include <algorithm>
#include <random>
#include <span>
#include <vector>

#include "../catch.hpp"
#include "finite_difference.hpp"
#include "mlp/digits.hpp"
#include "mlp/network.hpp"

TEST_CASE("the gradients of a network are those of finite differences", "[examples][mlp]") {
  mlp::Mlp<double> network{{5, 4, 6, 3}, 2};
  mlp::Matrix<double> inputs(7, 5);
  std::mt19937_64 random{3};
  std::generate_n(inputs.data(), inputs.size(), [&] { return static_cast<double>(random() % 1000) / 500 - 1; });
  std::vector<int> const labels{0, 2, 1, 1, 0, 2, 2};
  auto const parameters = network.parameters();
  for (double& bias : parameters[1]) bias = 0.3;
  auto const loss = [&] {
    network.forward(inputs);
    return network.backward(labels);
  };
  std::vector<std::size_t> order;
  network.forward(inputs);
  network.backward(labels, [&](std::size_t layer) { order.push_back(layer); });
  CHECK(order == std::vector<std::size_t>{2, 1, 0});
  std::vector<std::vector<double>> gradients;
  for (auto const g : network.gradients()) gradients.emplace_back(g.begin(), g.end());
  REQUIRE(parameters.size() == 6);
  for (std::size_t k = 0; k < parameters.size(); ++k) CHECK(gradient_error(parameters[k], gradients[k], loss) < 1e-6);
}

TEST_CASE("the digits are all there", "[examples][mlp]") {
  auto const digits = mlp::read_digits<double>();
  CHECK(digits.train.pixels.rows() == 1438);
  CHECK(digits.test.pixels.rows() == 359);
  CHECK(digits.train.labels.size() == 1438);
  CHECK(digits.train.pixels.minCoeff() == 0);
  CHECK(digits.train.pixels.maxCoeff() == 1);
  CHECK(digits.train.labels[1] == 1);
  CHECK(digits.train.pixels(0, 2) == 5.0 / 16);
  for (int digit = 0; digit < 10; ++digit) CHECK(std::ranges::count(digits.test.labels, digit) > 20);
  CHECK_THROWS_WITH(mlp::read_digits<double>("/no/such file"), parallax_test::contains("/no/such file"));
}

TEST_CASE("a network learns to read digits by plain descent", "[examples][mlp]") {
  auto const digits = mlp::read_digits<double>();
  mlp::Mlp<double> network{{mlp::pixels, 32, mlp::classes}};
  double const before = network.accuracy(digits.test);
  std::span const labels{digits.train.labels};
  for (int epoch = 0; epoch < 20; ++epoch) {
    for (mlp::Index at = 0; at + 32 <= digits.train.pixels.rows(); at += 32) {
      network.forward(digits.train.pixels.middleRows(at, 32));
      network.backward(labels.subspan(static_cast<std::size_t>(at), 32));
      auto const parameters = network.parameters();
      auto const gradients = network.gradients();
      for (std::size_t k = 0; k < parameters.size(); ++k) {
        for (std::size_t j = 0; j < parameters[k].size(); ++j) parameters[k][j] -= 0.3 * gradients[k][j];
      }
    }
  }
  CHECK(before < 0.3);
  CHECK(network.accuracy(digits.test) > 0.95);
}
