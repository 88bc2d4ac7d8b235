#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <vector>

#include "../catch.hpp"
#include "naive.hpp"
#include "parallax/detail/kernel/host.hpp"

namespace {

using Host = parallax::RowOps<parallax::HostSpace>;

// Rows of a table whose stride exceeds its width, with recognisable elements between the rows.
template <class T>
struct Table {
  std::int64_t rows, width, stride = width + 3;
  std::vector<T> elements = std::vector<T>(static_cast<std::size_t>(rows * stride), T{-77});

  parallax::RowsView<T> view() { return {elements.data(), rows, width, stride}; }
  T& at(std::int64_t row, std::int64_t column) { return elements[static_cast<std::size_t>(row * stride + column)]; }

  static Table random(std::int64_t rows, std::int64_t width, std::mt19937_64& random) {
    Table table{rows, width};
    auto const values = naive::random_values<T>(static_cast<std::size_t>(rows * width), random);
    for (std::int64_t i = 0; i < rows * width; ++i)
      table.at(i / width, i % width) = values[static_cast<std::size_t>(i)];
    return table;
  }
};

template <class Index>
parallax::Grouping<Index> grouped(std::vector<Index> const& keys, std::int64_t bound) {
  parallax::Grouping<Index> groups;
  parallax::SortScratch<Index> scratch;
  Host::unique_with_inverse(keys, bound, groups, scratch);
  return groups;
}

template <class T>
std::vector<T> coalesced(std::vector<int> const& keys, std::vector<T> const& rows, std::int64_t width) {
  auto const groups = grouped<std::int32_t>(keys, 1000);
  std::vector<T> sums(groups.size() * static_cast<std::size_t>(width));
  Host::coalesce(parallax::RowsView<T const>{rows.data(), static_cast<std::int64_t>(keys.size()), width}, groups, 0,
                 groups.size(), sums.data());
  return sums;
}

template <class T, class Index>
void coalesces_in_the_documented_order(std::int64_t width, std::mt19937_64& random) {
  constexpr std::size_t guard = 5;
  auto const keys = naive::skewed_keys<Index>(2000, 300, random);  // the hottest about 250 times
  auto values = Table<T>::random(2000, width, random);
  auto const groups = grouped(keys, 300);
  std::size_t const first = groups.size() / 5, last = groups.size();
  std::size_t const size = (last - first) * static_cast<std::size_t>(width);

  std::vector<T> expected;
  std::size_t longest = 0;
  for (std::size_t k = first; k < last; ++k) {
    auto const run = groups.order.span().subspan(groups.offsets[k], groups.offsets[k + 1] - groups.offsets[k]);
    longest = std::max(longest, run.size());
    for (std::int64_t column = 0; column < width; ++column) {
      std::vector<T> addends;
      for (std::uint32_t const position : run) addends.push_back(values.at(position, column));
      expected.push_back(naive::chunked_sum(addends));
    }
  }
  REQUIRE(longest > 3 * 64);

  expected.resize(size + guard, T{42});
  std::vector<T> found(size + guard, T{42});
  Host::coalesce(values.view(), groups, first, last, found.data());
  CHECK(naive::same_bits(found, expected));
}

}  // namespace

TEST_CASE("a duplicated index is summed once", "[kernel][coalesce]") {
  CHECK(coalesced<float>({7, 3, 7}, {1, 2, 10, 20, 4, 8}, 2) == std::vector<float>{10, 20, 5, 10});
}

TEMPLATE_TEST_CASE("the rows of a run are summed in chunks of 64, to the last bit", "[kernel][coalesce]", float,
                   double) {
  auto const width = GENERATE(0, 1, 3, 8, 31, 128, 256, 259, 600);
  auto const seed = 11u + static_cast<unsigned>(width);
  INFO("width " << width << ", seed " << seed);
  std::mt19937_64 random{seed};
  coalesces_in_the_documented_order<TestType, std::int32_t>(width, random);
  coalesces_in_the_documented_order<TestType, std::int64_t>(width, random);
}

TEST_CASE("a sum over chunks is not the sum from first to last", "[kernel][coalesce]") {
  std::mt19937_64 random{5};
  auto const rows = naive::random_values<float>(200, random);
  float in_sequence = rows[0];
  for (std::size_t i = 1; i < rows.size(); ++i) in_sequence += rows[i];
  auto const sum = coalesced<float>(std::vector<int>(200, 9), rows, 1);
  CHECK(sum == std::vector<float>{naive::chunked_sum(rows)});
  CHECK(sum[0] != in_sequence);
  CHECK(sum[0] == Approx(in_sequence).margin(1e-4));
}

TEST_CASE("a sum of negative zeros is negative zero", "[kernel][coalesce]") {
  auto const count = GENERATE(1u, 2u, 64u, 65u, 200u);
  auto const sum = coalesced<double>(std::vector<int>(count, 4), std::vector<double>(count, -0.0), 1);
  CHECK(sum == std::vector<double>{0});
  CHECK(std::signbit(sum[0]));
}

TEMPLATE_TEST_CASE("rows that ranks lend have the bits of sums that each made before", "[kernel][coalesce]", float, double) {
  using T = TestType;
  auto const seed = std::random_device{}();
  INFO("seed " << seed);
  std::mt19937_64 random{seed};
  for (std::int64_t const width : {0, 1, 5, 64, 300})
    for (std::size_t const ranks : {std::size_t{1}, std::size_t{2}, std::size_t{5}}) {
      std::vector<Table<T>> tables;
      std::vector<parallax::Grouping<std::int32_t>> groups;
      std::vector<parallax::LentRows<T>> lent;
      std::vector<std::size_t> begins{0};
      std::vector<std::int32_t> keys;
      std::vector<T> sums;  // of each rank, rank after rank
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        auto const of_rank = naive::skewed_keys<std::int32_t>(700, 60, random);
        tables.push_back(Table<T>::random(700, width, random));
        groups.push_back(grouped(of_rank, 60));
        keys.insert(keys.end(), groups[rank].keys.data(), groups[rank].keys.data() + groups[rank].size());
        begins.push_back(keys.size());
        sums.resize(keys.size() * static_cast<std::size_t>(width));
        Host::coalesce(parallax::RowsView<T const>{tables[rank].view()}, groups[rank], 0, groups[rank].size(),
                       sums.data() + begins[rank] * static_cast<std::size_t>(width));
      }
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        T const* const summed = sums.data() + begins[rank] * static_cast<std::size_t>(width);
        if (rank == 1) lent.push_back({{summed, 700, width}, nullptr, nullptr});
        else lent.push_back({tables[rank].view(), groups[rank].order.data(), groups[rank].offsets.data()});
      }
      auto const together = grouped(keys, 60);
      std::vector<T> expected(together.size() * static_cast<std::size_t>(width) + 1, T{3}), found = expected;
      Host::coalesce(parallax::RowsView<T const>{sums.data(), static_cast<std::int64_t>(keys.size()), width}, together, 0,
                     together.size(), expected.data());
      Host::coalesce_lent(std::span<parallax::LentRows<T> const>{lent}, std::span<std::size_t const>{begins}, together, width,
                          found.data());
      CHECK(std::memcmp(expected.data(), found.data(), expected.size() * sizeof(T)) == 0);
    }
}

TEST_CASE("coalescing nothing writes nothing", "[kernel][coalesce]") {
  CHECK(coalesced<float>({}, {}, 4).empty());
  auto const groups = grouped<std::int32_t>({1, 2, 3}, 10);
  float untouched = 42, row = 1;
  Host::coalesce(parallax::RowsView<float const>{&row, 3, 1, 0}, groups, 2, 2, &untouched);
  CHECK(untouched == 42);
}

// Beyond the caches other loads and stores are used, but where rows are no whole words of 16 bytes.
TEST_CASE("rows beyond the caches are moved and added like few", "[kernel][gather]") {
  auto const width = GENERATE(128, 131, 1000, 132);
  unsigned const seed = 21u + static_cast<unsigned>(width);
  INFO("width " << width << ", seed " << seed);
  std::mt19937_64 random{seed};
  std::int64_t const rows = 50;
  std::size_t const size = static_cast<std::size_t>(width);
  auto table = Table<float>::random(rows, width, random);
  std::vector<std::uint32_t> indices(parallax::detail::many_bytes / (size * sizeof(float)) + 1);
  for (auto& index : indices) index = static_cast<std::uint32_t>(1000 + random() % 50);

  std::size_t const guard = 16, shift = width == 132 ? 1 : 0;  // shifted, no row begins at a whole word
  std::vector<float> gathered(indices.size() * size + guard, 42.0f);
  float* const out = gathered.data() + shift;
  Host::gather_rows(table.view(), std::span{indices}, {1000}, out);
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < indices.size(); ++i)
    wrong += std::memcmp(out + i * size, table.view().row(indices[i] - 1000), size * sizeof(float)) != 0;
  CHECK(wrong == 0);
  CHECK(std::all_of(out + indices.size() * size, gathered.data() + gathered.size(), [](float x) { return x == 42; }));

  auto expected = table;
  for (std::size_t i = 0; i < indices.size(); ++i)
    for (std::size_t k = 0; k < size; ++k) {
      float& sum = expected.at(indices[i] - 1000, static_cast<std::int64_t>(k));
      sum = sum + out[i * size + k];
    }
  Host::scatter_add_rows(table.view(), std::span{indices}, {1000}, out);
  CHECK(naive::same_bits(table.elements, expected.elements));
}

TEST_CASE("counts follow the runs", "[kernel][counts]") {
  auto const groups = grouped<std::int64_t>({5, 2, 5, 9, 5, 2}, 10);  // 2: 1 5 · 5: 0 2 4 · 9: 3
  std::vector<std::uint32_t> const counts{1, 10, 100, 1000, 10'000, 100'000};
  std::vector<std::uint32_t> found(3);
  Host::run_lengths(groups, 0, 3, found.data());
  CHECK(found == std::vector<std::uint32_t>{2, 3, 1});
  Host::sum_counts(counts, groups, 0, 3, found.data());
  CHECK(found == std::vector<std::uint32_t>{100'010, 10'101, 1000});
  found = {7, 7, 7};
  Host::run_lengths(groups, 1, 2, found.data());
  Host::sum_counts(counts, groups, 2, 3, found.data() + 1);
  CHECK(found == std::vector<std::uint32_t>{3, 1000, 7});
}

TEMPLATE_TEST_CASE("sorted keys are cut where the boundaries lie", "[kernel][bucket]", std::int32_t, std::int64_t) {
  std::mt19937_64 random{21};
  for (std::size_t const count : {0u, 1u, 10u, 500u})
    for (std::size_t const buckets : {1u, 2u, 8u, 100u}) {
      INFO(count << " keys, " << buckets << " buckets");
      std::vector<TestType> keys(count), bases(buckets + 1);
      for (auto& key : keys) key = static_cast<TestType>(random() % 1000);
      for (auto& base : bases) base = static_cast<TestType>(random() % 1200);  // some equal, some beyond every key
      std::sort(keys.begin(), keys.end());
      std::sort(bases.begin(), bases.end());
      std::vector<std::size_t> begins(buckets + 1, 77);
      Host::bucket(std::span{keys}, bases, begins);
      for (std::size_t k = 0; k < buckets; ++k) {
        auto const below = std::count_if(keys.begin(), keys.end(), [&](TestType key) { return key < bases[k]; });
        REQUIRE(begins[k] == static_cast<std::size_t>(below));
      }
      REQUIRE(begins[buckets] == count);
    }
}

TEMPLATE_TEST_CASE("rows are gathered by index and scattered back", "[kernel][gather][scatter]", std::int32_t,
                   std::int64_t, std::uint32_t) {
  auto const width = GENERATE(0, 1, 3, 8, 17, 128);
  auto const count = GENERATE(0u, 1u, 7u, 8u, 9u, 300u);
  INFO("width " << width << ", " << count << " indices");
  std::mt19937_64 random{31};
  TestType const base = 1000;
  std::int64_t const rows = 400;
  std::vector<TestType> indices(rows);
  for (std::size_t i = 0; i < indices.size(); ++i) indices[i] = static_cast<TestType>(base + static_cast<TestType>(i));
  std::shuffle(indices.begin(), indices.end(), random);
  indices.resize(count);  // distinct
  auto table = Table<float>::random(rows, width, random);
  auto const size = count * static_cast<std::size_t>(width);

  std::vector<float> gathered(size + 4, 42), expected;
  for (TestType const index : indices)
    for (int column = 0; column < width; ++column)
      expected.push_back(table.at(static_cast<std::int64_t>(index) - base, column));
  expected.resize(size + 4, 42);
  Host::gather_rows(table.view(), std::span{indices}, {base}, gathered.data());
  CHECK(naive::same_bits(gathered, expected));

  auto copy = Table<float>{rows, width}, expected_copy = copy, sums = table, expected_sums = table;
  for (std::size_t i = 0; i < count; ++i)
    for (int column = 0; column < width; ++column) {
      auto const row = static_cast<std::int64_t>(indices[i]) - base;
      expected_copy.at(row, column) = table.at(row, column);
      expected_sums.at(row, column) = naive::rounded(table.at(row, column) + table.at(row, column));
    }
  Host::scatter_rows(copy.view(), std::span{indices}, {base}, gathered.data());
  CHECK(naive::same_bits(copy.elements, expected_copy.elements));
  Host::scatter_add_rows(sums.view(), std::span{indices}, {base}, gathered.data());
  CHECK(naive::same_bits(sums.elements, expected_sums.elements));
}

TEST_CASE("of equal indices the last row stays when scattered, and all are added in order", "[kernel][scatter]") {
  std::vector<std::int32_t> const indices{1, 0, 1, 1};
  std::vector<float> const rows{1e8f, 5, 1, -1e8f};
  std::vector<float> table(2);
  parallax::RowsView<float> const view{table.data(), 2, 1};
  Host::scatter_rows(view, std::span{indices}, {}, rows.data());
  CHECK(table == std::vector<float>{5, -1e8f});
  table = {0, 0.5f};
  Host::scatter_add_rows(view, std::span{indices}, {}, rows.data());
  CHECK(table == std::vector<float>{5, 0});  // 1e8 swallows the half and the one
}

TEMPLATE_TEST_CASE("elements are copied, added and divided", "[kernel][elements]", float, double) {
  auto const count = GENERATE(0u, 1u, 3u, 8u, 1001u);
  INFO(count << " elements");
  std::mt19937_64 random{count};
  auto const a = naive::random_values<TestType>(count, random), b = naive::random_values<TestType>(count, random);
  auto const n = static_cast<std::int64_t>(count);
  std::vector<TestType> out(count), sums, quotients;
  for (std::size_t i = 0; i < count; ++i) sums.push_back(naive::rounded(a[i] + b[i]));
  for (std::size_t i = 0; i < count; ++i) quotients.push_back(naive::rounded(sums[i] / TestType{3}));

  Host::copy_from(out.data(), a.data(), n);
  CHECK(naive::same_bits(out, a));
  Host::add_to(out.data(), b.data(), n);
  CHECK(naive::same_bits(out, sums));
  Host::scale_down(out.data(), n, 3);
  CHECK(naive::same_bits(out, quotients));
}

// The sum of squares over a row, in its documented order: blocks of 4096, of eight partial sums each, and groups of 64 blocks.
template <class T>
double squares_of(std::span<T const> row) {
  std::vector<double> blocks;
  for (std::size_t block = 0; block < row.size(); block += 4096) {
    std::array<double, 8> part{};
    for (std::size_t i = block; i < std::min(row.size(), block + 4096); ++i) {
      double const square = naive::rounded(static_cast<double>(row[i]) * static_cast<double>(row[i]));
      part[i % 8] = naive::rounded(part[i % 8] + square);
    }
    blocks.push_back(((part[0] + part[1]) + (part[2] + part[3])) + ((part[4] + part[5]) + (part[6] + part[7])));
  }
  return naive::sum_in_groups(blocks);
}

TEMPLATE_TEST_CASE("the sum of squares has one order on every machine", "[kernel][elements]", float, double) {
  auto const count = GENERATE(range(0u, 34u), 1000u, 4095u, 4096u, 4097u, 10'007u, 64u * 4096, 64u * 4096 + 1, 1'100'007u);
  INFO(count << " elements");
  std::mt19937_64 random{count};
  auto const values = naive::random_values<TestType>(count, random);
  double const expected = squares_of<TestType>(values);
  CHECK(Host::sum_of_squares(values.data(), static_cast<std::int64_t>(count)) == expected);
}

TEMPLATE_TEST_CASE("the squares of rows are added in groups of 64", "[kernel][elements]", float, double) {
  auto const rows = GENERATE(0, 1, 2, 63, 64, 65, 127, 128, 129, 4095, 4096, 4097, 64 * 64 * 64 + 1, 300'000);
  auto const width = GENERATE(0, 1, 2, 3);
  INFO(rows << " rows of " << width);
  std::mt19937_64 random{static_cast<std::uint64_t>(rows)};
  auto table = Table<TestType>::random(rows, width, random);
  std::vector<double> of_rows;
  for (std::int64_t row = 0; row < rows; ++row)
    of_rows.push_back(squares_of<TestType>({table.view().row(row), static_cast<std::size_t>(width)}));
  CHECK(Host::sum_of_row_squares<TestType>(table.view()) == naive::sum_in_groups(of_rows));
}

TEST_CASE("up to 64 rows of up to 64 blocks are added one after another", "[kernel][elements]") {
  auto const [rows, blocks] = GENERATE(std::pair{3u, 64u}, std::pair{64u, 3u});
  std::mt19937_64 random{64};
  auto const table = naive::random_values<float>(std::size_t{rows} * blocks * 4096, random);
  double in_order = 0;
  for (std::size_t row = 0; row < rows; ++row) {
    double of_row = 0;
    for (std::size_t block = 0; block < blocks; ++block)
      of_row = naive::rounded(of_row + Host::sum_of_squares(table.data() + (row * blocks + block) * 4096, 4096));
    in_order = naive::rounded(in_order + of_row);
  }
  CHECK(Host::sum_of_row_squares(parallax::RowsView<float const>{table.data(), rows, blocks * 4096}) == in_order);
}

TEST_CASE("numbers are added in groups, group by group, at every level", "[kernel][elements]") {
  std::mt19937_64 random{65};
  auto const some = naive::random_values<double>(64 * 64 * 64 + 65, random);
  parallax::detail::SumsInGroups<2> sums;
  std::vector<double> numbers, doubles;
  CHECK(sums.total()[0] == 0);
  for (double const number : some) {
    numbers.push_back(number);
    doubles.push_back(2 * number);
    sums.add({number, 2 * number});
    auto const count = numbers.size();
    if (count > 200 && count % 4096 > 2 && count % 4096 < 4094) continue;
    REQUIRE(sums.total()[0] == naive::sum_in_groups(numbers));
    REQUIRE(sums.total()[1] == naive::sum_in_groups(doubles));
  }
}

// What a rule might measure: a sum with both signs, and one of products with a slot that moves.
struct MeasuringRule {
  auto measure(auto& parameter, auto gradient, auto& slot) const noexcept {
    PARALLAX_NO_CONTRACT
    slot += gradient;
    return parallax::Measures<2>{{static_cast<double>(gradient), static_cast<double>(parameter) * static_cast<double>(slot)}};
  }
};

TEMPLATE_TEST_CASE("what is measured is added in the order of squares", "[kernel][elements]", float, double) {
  auto const count = GENERATE(0u, 1u, 4096u, 4097u, 64u * 4096, 64u * 4096 + 1, 1'100'007u);
  INFO(count << " elements");
  std::mt19937_64 random{count};
  auto const parameters = naive::random_values<TestType>(count, random);
  auto const gradients = naive::random_values<TestType>(count, random);
  std::vector<TestType> slots(count);
  std::array<double, 2> found{-1, -1};
  Host::measure_elements(static_cast<std::int64_t>(count), parameters.data(), gradients.data(), TestType{1}, MeasuringRule{},
                         found.data(), slots.data());
  CHECK(naive::same_bits(slots, gradients));
  std::array<std::vector<double>, 2> blocks;
  for (std::size_t block = 0; block < count; block += 4096) {
    std::array<std::array<double, 8>, 2> part{};
    for (std::size_t i = block; i < std::min<std::size_t>(count, block + 4096); ++i) {
      double const product = naive::rounded(static_cast<double>(parameters[i]) * static_cast<double>(gradients[i]));
      part[0][i % 8] = naive::rounded(part[0][i % 8] + static_cast<double>(gradients[i]));
      part[1][i % 8] = naive::rounded(part[1][i % 8] + product);
    }
    for (std::size_t k = 0; k < 2; ++k)
      blocks[k].push_back(((part[k][0] + part[k][1]) + (part[k][2] + part[k][3])) +
                          ((part[k][4] + part[k][5]) + (part[k][6] + part[k][7])));
  }
  for (std::size_t k = 0; k < 2; ++k) CHECK(found[k] == naive::sum_in_groups(blocks[k]));
}
