#include <cstdint>
#include <random>
#include <span>
#include <type_traits>
#include <vector>

#include "../catch.hpp"
#include "naive.hpp"
#include "operations.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/kernel/host.hpp"

namespace {

using Host = parallax::RowOps<parallax::HostSpace>;
using naive::rounded;

// Rules as users write them, outside every pragma of the library. Their products are inexact: a contraction shows.
template <class T>
auto descend(T rate) {
  return [rate](auto& parameter, auto gradient) noexcept {
    PARALLAX_NO_CONTRACT
    parameter -= rate * gradient;
  };
}

template <class T>
auto adapt(T rate) {
  return [rate](auto& parameter, auto gradient, auto& sum) noexcept {
    PARALLAX_NO_CONTRACT
    sum += gradient * gradient;
    parameter -= rate * gradient / (sum + T(0.001));
  };
}

// One element of `adapt`, every intermediate rounded.
template <class T>
void adapt_one(T rate, T& parameter, T gradient, T& sum) {
  sum = rounded(sum + rounded(gradient * gradient));
  parameter = rounded(parameter - rounded(rounded(rate * gradient) / rounded(sum + T(0.001))));
}

}  // namespace

TEMPLATE_TEST_CASE("a rule is applied to every element without contraction", "[kernel][apply]", float, double) {
  auto const count = GENERATE(0u, 1u, 3u, 8u, 31u, 128u, 1001u);
  auto const scale = GENERATE(TestType{1}, TestType(0.3));
  INFO(count << " elements, scale " << scale << ", seed = elements");
  std::mt19937_64 random{count};
  auto const gradients = naive::random_values<TestType>(count, random);
  auto parameters = naive::random_values<TestType>(count, random), expected = parameters;
  auto const rate = TestType(0.1);

  for (std::size_t i = 0; i < count; ++i)
    expected[i] = rounded(expected[i] - rounded(rate * rounded(gradients[i] * scale)));
  Host::apply_elements(static_cast<std::int64_t>(count), parameters.data(), gradients.data(), scale, descend(rate));
  CHECK(naive::same_bits(parameters, expected));

  std::vector<TestType> sums(count, TestType(0.1)), expected_sums = sums;
  for (std::size_t i = 0; i < count; ++i)
    adapt_one(rate, expected[i], rounded(gradients[i] * scale), expected_sums[i]);
  Host::apply_elements(static_cast<std::int64_t>(count), parameters.data(), gradients.data(), scale, adapt(rate),
                       sums.data());
  CHECK(naive::same_bits(parameters, expected));
  CHECK(naive::same_bits(sums, expected_sums));
}

TEST_CASE("slots may have types of their own", "[kernel][apply]") {
  std::vector<float> parameters{1, 2, 3}, gradients{10, 20, 30};
  std::vector<double> masters{0.5, 1.5, 2.5};
  std::vector<std::int32_t> stamps{0, 7, 9};
  auto const rule = [](float& parameter, float gradient, double& master, std::int32_t& stamp) noexcept {
    master += gradient;
    parameter = static_cast<float>(master);
    ++stamp;
  };
  Host::apply_elements(3, parameters.data(), gradients.data(), 1, rule, masters.data(), stamps.data());
  CHECK(masters == std::vector<double>{10.5, 21.5, 32.5});
  CHECK(parameters == std::vector<float>{10.5f, 21.5f, 32.5f});
  CHECK(stamps == std::vector<std::int32_t>{1, 8, 10});
}

TEMPLATE_TEST_CASE("a rule is applied to the rows that indices name, and to no others", "[kernel][apply]", std::int32_t,
                   std::int64_t, std::uint32_t) {
  auto const width = GENERATE(0, 1, 3, 8, 128);
  auto const scale = GENERATE(1.0f, 0.7f);
  auto const seed = 100u + static_cast<unsigned>(width);
  INFO("width " << width << ", scale " << scale << ", seed " << seed);
  std::mt19937_64 random{seed};
  std::int64_t const rows = 60, stride = width + 2, slot_stride = width + 5;
  TestType const base = 500;
  std::vector<TestType> indices(40);
  for (auto& index : indices) index = static_cast<TestType>(base + static_cast<TestType>(random() % 60));  // repeats
  auto const gradients = naive::random_values<float>(indices.size() * static_cast<std::size_t>(width), random);
  auto table = naive::random_values<float>(static_cast<std::size_t>(rows * stride), random), expected = table;
  std::vector<float> sums(static_cast<std::size_t>(rows * slot_stride), 0.1f), expected_sums = sums;

  std::size_t at = 0;
  for (TestType const index : indices)
    for (int column = 0; column < width; ++column) {
      auto const row = static_cast<std::int64_t>(index) - base;
      adapt_one(0.1f, expected[static_cast<std::size_t>(row * stride + column)], rounded(gradients[at++] * scale),
                expected_sums[static_cast<std::size_t>(row * slot_stride + column)]);
    }
  Host::apply_rows(std::span{indices}, {base}, parallax::RowsView<float>{table.data(), rows, width, stride},
                   gradients.data(), scale, adapt(0.1f),
                   parallax::RowsView<float>{sums.data(), rows, width, slot_stride});
  CHECK(naive::same_bits(table, expected));
  CHECK(naive::same_bits(sums, expected_sums));
}

TEST_CASE("applying a rule cannot throw", "[kernel][apply]") {
  auto const rule = descend(0.1f);
  STATIC_REQUIRE(noexcept(Host::apply_elements(0, static_cast<float*>(nullptr), nullptr, 1, rule)));
  STATIC_REQUIRE(operations::RowOperations<Host>);
}
