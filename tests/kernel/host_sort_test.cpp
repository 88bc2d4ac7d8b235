#include <algorithm>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <span>
#include <vector>

#include "../catch.hpp"
#include "naive.hpp"
#include "parallax/detail/kernel/host.hpp"

namespace {

using Host = parallax::RowOps<parallax::HostSpace>;

template <class Index>
struct Grouped {
  parallax::Grouping<Index> groups;
  parallax::SortScratch<Index> scratch;

  parallax::Grouping<Index> const& of(std::vector<Index> const& keys, std::int64_t bound) {
    Host::unique_with_inverse(keys, bound, groups, scratch);
    return groups;
  }
};

}  // namespace

TEMPLATE_TEST_CASE("equal keys form one run, in the order of their positions", "[kernel][unique]", std::int32_t, std::int64_t) {
  auto const seed = GENERATE(1u, 2u);
  INFO("seed " << seed);
  std::mt19937_64 random{seed};
  std::vector<std::int64_t> bounds{1, 2, 7, 255, 256, 257, 65'536, 793'470, 33'000'000, (std::int64_t{1} << 31) - 1};
  if constexpr (sizeof(TestType) == 8)
    for (int const bits : {40, 62, 63}) bounds.push_back(std::numeric_limits<std::int64_t>::max() >> (63 - bits));
  Grouped<TestType> grouped;  // one for all sizes, larger and smaller than before
  for (std::size_t const count : {0u, 1u, 2u, 3u, 13u, 17u, 33u, 50u, 64u, 65u, 66u, 255u, 1000u, 4097u, 5u, 70'000u})
    for (std::int64_t const bound : bounds) {
      INFO(count << " keys below " << bound);
      auto const keys = naive::skewed_keys<TestType>(count, bound, random);
      REQUIRE(naive::agrees(grouped.of(keys, bound), keys));
    }
}

TEMPLATE_TEST_CASE("runs in order are grouped like keys in any order", "[kernel][unique]", std::int32_t, std::int64_t) {
  auto const seed = GENERATE(1u, 2u, 3u);
  INFO("seed " << seed);
  std::mt19937_64 random{seed};
  Grouped<TestType> grouped;
  for (std::size_t const runs : {1u, 2u, 3u, 5u, 8u, 9u, 40u})  // more than are merged, too
    for (std::int64_t const bound : {std::int64_t{5}, std::int64_t{1000}, (std::int64_t{1} << 31) - 1}) {
      INFO(runs << " runs below " << bound);
      std::vector<TestType> keys;
      std::vector<std::size_t> begins{0};
      for (std::size_t run = 0; run < runs; ++run) {
        auto drawn = naive::skewed_keys<TestType>(random() % 3 == 0 ? 0 : random() % 300, bound, random);
        std::sort(drawn.begin(), drawn.end());
        keys.insert(keys.end(), drawn.begin(), drawn.end());
        begins.push_back(keys.size());
      }
      Host::unique_with_inverse(keys, bound, grouped.groups, grouped.scratch, begins);
      REQUIRE(naive::agrees(grouped.groups, keys));
    }
}

TEMPLATE_TEST_CASE("no keys make no groups", "[kernel][unique]", std::int32_t, std::int64_t) {
  Grouped<TestType> grouped;
  auto const bound = GENERATE(std::int64_t{0}, std::int64_t{1}, std::int64_t{100});
  auto const& groups = grouped.of({}, bound);
  CHECK(groups.size() == 0);
  CHECK(groups.count() == 0);
  REQUIRE(groups.offsets.size() == 1);
  CHECK(groups.offsets[0] == 0);
}

// Whatever the processor that runs the test is called with: both widths of vectors.
TEST_CASE("few items are placed like sorted ones", "[kernel][unique]") {
  auto const seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937 random{seed};
  using Narrow [[gnu::vector_size(16)]] = std::int32_t;
  using Wide [[gnu::vector_size(32)]] = std::int32_t;
  for (std::size_t n = 0; n <= parallax::detail::few_keys; ++n) {
    INFO(n << " items");
    std::vector<std::int32_t> items(parallax::detail::few_keys);
    for (std::size_t i = 0; i < n; ++i) items[i] = static_cast<std::int32_t>(random() % 40 << 6 | i);
    std::vector<std::uint64_t> sorted(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(n)), narrow(n), wide(n);
    std::sort(sorted.begin(), sorted.end());
    parallax::detail::place_few<Narrow>(items.data(), n, narrow.data());
    parallax::detail::place_few<Wide>(items.data(), n, wide.data());
    REQUIRE(narrow == sorted);
    REQUIRE(wide == sorted);
  }
}

TEST_CASE("keys that agree in most digits are still told apart", "[kernel][unique]") {
  Grouped<std::int64_t> grouped;
  std::int64_t const bound = std::int64_t{1} << 40;
  auto const bit = GENERATE(range(0, 40));
  INFO("bit " << bit);
  std::vector<std::int64_t> keys(1000, bound - 1);
  for (std::size_t i = 0; i < keys.size(); i += 3) keys[i] = (bound - 1) ^ (std::int64_t{1} << bit);
  CHECK(naive::agrees(grouped.of(keys, bound), keys));
}

TEST_CASE("sorted and reversed keys are grouped like any others", "[kernel][unique]") {
  Grouped<std::int32_t> grouped;
  std::vector<std::int32_t> keys(3000);
  std::iota(keys.begin(), keys.end(), 0);
  CHECK(naive::agrees(grouped.of(keys, 3000), keys));
  CHECK(naive::agrees(grouped.of({keys.rbegin(), keys.rend()}, 3000), {keys.rbegin(), keys.rend()}));
}

TEST_CASE("more keys than the caches hold are grouped like few", "[kernel][unique]") {
  unsigned const seed = 9;
  INFO("seed " << seed);
  std::mt19937_64 random{seed};
  std::int64_t const bound = 33'000'000;
  auto const keys = naive::skewed_keys<std::int64_t>(parallax::detail::many_keys + 1000, bound, random);
  std::vector<std::uint64_t> expected(keys.size());  // key and position in a word
  for (std::size_t i = 0; i < keys.size(); ++i) expected[i] = static_cast<std::uint64_t>(keys[i]) << 32 | i;
  std::sort(expected.begin(), expected.end());
  Grouped<std::int64_t> grouped;
  auto const& groups = grouped.of(keys, bound);
  std::size_t i = 0, wrong = 0;
  for (std::size_t k = 0; k < groups.size(); ++k)
    for (; i < groups.offsets[k + 1]; ++i) {
      std::uint32_t const position = groups.order[i];
      wrong += expected[i] != (static_cast<std::uint64_t>(groups.keys[k]) << 32 | position) || groups.inverse[position] != k;
    }
  CHECK(i == keys.size());
  CHECK(wrong == 0);
}

TEST_CASE("grouping no more keys than before allocates nothing", "[kernel][unique]") {
  std::mt19937_64 random{7};
  Grouped<std::int32_t> grouped;
  grouped.of(naive::skewed_keys<std::int32_t>(20'000, 1'000'000, random), 1'000'000);
  auto const addresses = [&] {
    auto& [groups, scratch] = grouped;
    return std::vector<void const*>{groups.keys.data(),     groups.offsets.data(),    groups.order.data(),
                                    groups.inverse.data(),  scratch.packed[0].data(), scratch.packed[1].data(),
                                    scratch.counters.data()};
  };
  auto const before = addresses();
  for (std::size_t const count : {20'000u, 30u, 19'999u, 1000u})
    grouped.of(naive::skewed_keys<std::int32_t>(count, 500'000, random), 1'000'000);
  CHECK(addresses() == before);
}

TEST_CASE("2^32 keys are refused before any is read", "[kernel][unique]") {
  std::int32_t const one = 0;
  parallax::Grouping<std::int32_t> groups;
  parallax::SortScratch<std::int32_t> scratch;
  std::span<std::int32_t const> const too_many{&one, std::size_t{1} << 32};
  CHECK_THROWS_AS(Host::unique_with_inverse(too_many, 10, groups, scratch), parallax::Error);
}

TEST_CASE("keys outside the bound do not reach outside the arrays", "[kernel][unique]") {
  std::mt19937_64 random{3};
  auto const count = GENERATE(10u, 500u, 5000u);
  std::vector<std::int64_t> keys(count);
  for (auto& key : keys) key = static_cast<std::int64_t>(random());
  Grouped<std::int64_t> grouped;
  for (std::int64_t const bound : {std::int64_t{1}, std::int64_t{1000}, std::numeric_limits<std::int64_t>::max()}) {
    auto const& groups = grouped.of(keys, bound);
    std::vector<int> seen(count);
    for (std::uint32_t const position : groups.order.span()) ++seen.at(position);
    CHECK(seen == std::vector<int>(count, 1));
    CHECK(groups.offsets[groups.size()] == count);
  }
}
