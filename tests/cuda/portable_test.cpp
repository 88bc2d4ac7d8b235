// The portable operations on the CPU, by Thrust's sequential system, beside the host's.
#include <thrust/device_vector.h>
#include <thrust/execution_policy.h>

#include <cstring>
#include <random>
#include <vector>

#include "../catch.hpp"
#include "parallax/detail/kernel/cuda/portable.cuh"
#include "parallax/detail/kernel/host.hpp"
#include "parallax/detail/optimizer/adagrad.hpp"
#include "parallax/detail/variable/binding.hpp"
#include "parallax/interop/thrust.hpp"
#include "parallax/optimizer/sgd.hpp"

namespace {

using Host = parallax::RowOps<parallax::HostSpace>;
namespace portable = parallax::device::portable;
using Index = std::int32_t;
using parallax::RowsView;

template <class T>
bool same(T const* a, T const* b, std::size_t n) {
  return n == 0 || std::memcmp(a, b, n * sizeof(T)) == 0;
}

// n keys below `rows`, half of them one, and what portable operations make of rows of `width` elements.
void agrees(std::uint32_t n, std::int64_t rows, std::int64_t width, unsigned seed) {
  INFO(n << " keys below " << rows << ", width " << width << ", seed " << seed);
  std::mt19937 random{seed};
  std::uniform_real_distribution<float> uniform{-1, 1};
  std::vector<Index> keys(n);
  for (Index& key : keys) key = static_cast<Index>(random() % 2 ? 0 : random() % static_cast<std::uint64_t>(rows));
  auto const drawn = [&](std::int64_t elements) {
    std::vector<float> all(static_cast<std::size_t>(elements));
    for (float& value : all) value = uniform(random);
    return all;
  };
  auto const gradients = drawn(n * width);
  RowsView<float const> const values{gradients.data(), n, width};
  parallax::Grouping<Index> expected;
  parallax::SortScratch<Index> scratch;
  Host::unique_with_inverse(keys, rows, expected, scratch);
  std::size_t const u = expected.size(), elements = u * static_cast<std::size_t>(width);

  std::vector<Index> found_keys(n), sorted(n);
  std::vector<std::uint32_t> offsets(n + 1), order(n), inverse(n), numbers(n);
  std::uint32_t distinct = 99;
  parallax::device::GroupingView<Index> const groups{found_keys.data(), offsets.data(), order.data(),
                                                     inverse.data(),    &distinct,      n};
  portable::group_keys(thrust::device, keys.data(), groups, sorted.data(), numbers.data());
  REQUIRE(distinct == u);
  REQUIRE(same(found_keys.data(), expected.keys.data(), u));
  REQUIRE(same(offsets.data(), expected.offsets.data(), u + 1));
  REQUIRE(same(order.data(), expected.order.data(), n));
  REQUIRE(same(inverse.data(), expected.inverse.data(), n));

  std::vector<Index> const bases{0, static_cast<Index>(rows / 2), static_cast<Index>(rows)};
  std::vector<std::uint32_t> begins(3);
  std::vector<std::size_t> host_begins(3);
  Host::bucket(std::span<Index const>{expected.keys.data(), u}, std::span{bases}, host_begins);
  portable::bucket(thrust::device, found_keys.data(), distinct, bases.data(), 3, begins.data());
  REQUIRE(std::equal(begins.begin(), begins.end(), host_begins.begin()));

  std::vector<float> sums(elements), host_sums(elements);
  Host::coalesce<float>(values, expected, 0, u, host_sums.data());
  portable::coalesce(thrust::device, values, groups, sums.data());
  REQUIRE(same(sums.data(), host_sums.data(), elements));

  auto table = drawn(rows * width), state = table;
  for (float& value : state) value = value < 0 ? -value : value;
  auto host_table = table, host_state = state;
  std::span<Index const> const rows_of{expected.keys.data(), u};
  Host::apply_rows(rows_of, {}, RowsView<float>{host_table.data(), rows, width}, host_sums.data(), 1.0f,
                   parallax::Adagrad{}.at(1), RowsView<float>{host_state.data(), rows, width});
  Host::apply_rows(rows_of, {}, RowsView<float>{host_table.data(), rows, width}, host_sums.data(), 1.0f, parallax::Sgd{}.at(1));
  RowsView<float> const view{table.data(), rows, width};
  portable::update_runs(thrust::device, values, groups, {}, view, parallax::Adagrad{}.at(1), state.data());
  portable::update_runs(thrust::device, values, groups, {}, view, parallax::Sgd{}.at(1), state.data());
  REQUIRE(same(table.data(), host_table.data(), table.size()));
  REQUIRE(same(state.data(), host_state.data(), state.size()));

  std::vector<float> gathered(elements), host_gathered(elements);
  Host::gather_rows<float>(RowsView<float const>{view}, rows_of, {}, host_gathered.data());
  portable::gather_rows(thrust::device, RowsView<float const>{view}, found_keys.data(), u, {}, gathered.data());
  REQUIRE(same(gathered.data(), host_gathered.data(), elements));
}

}  // namespace

TEST_CASE("operations made of Thrust's algorithms have the host's bits", "[cuda][portable]") {
  unsigned seed = 0;
  for (std::uint32_t const n : {0u, 1u, 2u, 64u, 65u, 130u, 700u, 5000u})
    for (std::int64_t const width : {1, 3, 32}) agrees(n, 1 + n / 2, width, ++seed);
}

TEST_CASE("a vector of Thrust's in device memory is a tensor, and its elements are indices", "[cuda][thrust]") {
  thrust::device_vector<float> vector(6, 1.5f);
  thrust::device_vector<std::int64_t> const ids(3, 7);
  static_assert(parallax::FlatTensor<thrust::device_vector<float>> && parallax::FlatTensor<thrust::device_vector<float> const>);
  auto const binding = parallax::bind(vector);
  CHECK(binding.values.data() == thrust::raw_pointer_cast(vector.data()));
  CHECK(binding.values.size() == 6);
  static_assert(std::is_same_v<decltype(binding.values), std::span<float>>);
  auto const rows = parallax::rows_view(static_cast<thrust::device_vector<float> const&>(vector), 2);
  CHECK(rows.rows == 3);
  CHECK(rows.data == binding.values.data());
  auto const indices = parallax::on_device(ids);
  CHECK(indices.size() == 3);
  CHECK(static_cast<void const*>(indices.data()) == thrust::raw_pointer_cast(ids.data()));
}
