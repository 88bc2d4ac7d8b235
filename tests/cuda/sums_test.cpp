#include "../kernel/naive.hpp"
#include "cases.hpp"
#include "grouped.hpp"
#include "parallax/detail/kernel/cuda/bags.cuh"
#include "parallax/detail/kernel/cuda/copies.cuh"
#include "parallax/detail/kernel/cuda/elements.cuh"
#include "parallax/detail/kernel/cuda/sums.cuh"
#include "parallax/detail/kernel/cuda/updates.cuh"
#include "parallax/detail/kernel/host.hpp"

namespace {

using Host = parallax::RowOps<parallax::HostSpace>;
namespace device = parallax::device;

template <class V, class T, class Index>
void coalesces(cases::Draw& draw, std::uint32_t n, std::int64_t width) {
  using C = device::Computed<V>;
  draw.next();
  cases::Table<V> const values{draw, n, width};
  std::int64_t const bound = 1 + draw.below(draw.one_in(2) ? 10 : 300);
  auto const keys = draw.drawn_keys<Index>(n, bound);
  INFO("width " << width << ", stride " << values.stride << ", shift " << values.shift << ", " << n << " keys below " << bound);

  parallax::Grouping<Index> groups;
  parallax::SortScratch<Index> sort_scratch;
  Host::unique_with_inverse(keys, bound, groups, sort_scratch);
  auto const wide = cases::widened(values, draw);
  std::vector<C> expected(groups.size() * static_cast<std::size_t>(width));
  Host::coalesce<C>(wide.view(), groups, 0, groups.size(), expected.data());

  cases::Grouped<Index> grouped{keys, bound};
  std::size_t const guard = 3;
  std::vector<T> out(expected.size() + guard, device::detail::narrowed<T>(42));
  cases::Scratch const scratch{device::sums_scratch_bytes<V>(n, width)};
  device::coalesce(nullptr, values.view(), grouped.view(), out.data(), scratch.memory);
  expected.resize(out.size(), C{42});
  REQUIRE(cases::same_bits(out, cases::narrowed<T>(expected)));
}

}  // namespace

TEST_CASE("rows are summed in the host's order, to the last bit", "[cuda][coalesce]") {
  cases::Draw draw{"coalesce", 25};
  auto const any = [&](auto&& test) {
    std::int64_t const width = draw.width();
    test(draw.keys(width), width);
  };
  for (std::size_t i = 0; i < draw.count(); ++i) {
    any([&](auto n, auto width) { coalesces<float, float, std::int32_t>(draw, n, width); });
    any([&](auto n, auto width) { coalesces<double, double, std::int64_t>(draw, n, width); });
    any([&](auto n, auto width) { coalesces<__nv_bfloat16, float, std::int32_t>(draw, n, width); });
    any([&](auto n, auto width) { coalesces<__half, __half, std::int32_t>(draw, n, width); });
  }
}

TEST_CASE("a run as long as chunks, and one longer or shorter, is summed in their order", "[cuda][coalesce]") {
  cases::Draw draw{"coalesce, one run"};
  for (std::uint32_t const n : {63u, 64u, 65u, 127u, 128u, 129u, 191u, 192u, 256u, 320u, 321u, 1000u})
    for (std::int64_t const width : {1, 4, 5}) {
      draw.next();
      std::vector<std::int32_t> keys(n + 70, 1);
      for (std::size_t k = n; k < keys.size(); ++k) keys[k] = draw.one_in(2) ? 0 : 2;  // so that the run begins anywhere
      cases::Table<float> const values{draw, static_cast<std::int64_t>(keys.size()), width};
      parallax::Grouping<std::int32_t> groups;
      parallax::SortScratch<std::int32_t> sort_scratch;
      Host::unique_with_inverse(keys, 3, groups, sort_scratch);
      std::vector<float> expected(3 * static_cast<std::size_t>(width)), out(expected.size());
      Host::coalesce<float>(values.view(), groups, 0, 3, expected.data());
      cases::Grouped<std::int32_t> grouped{keys, 3};
      cases::Scratch const scratch{device::sums_scratch_bytes<float>(keys.size(), width)};
      device::coalesce(nullptr, values.view(), grouped.view(), out.data(), scratch.memory);
      REQUIRE(cases::same_bits(out, expected));
    }
}

TEST_CASE("terms of a run longer than a chunk are summed side by side, in the host's order", "[cuda][bags]") {
  cases::Draw draw{"sum_terms, by key", 20};
  for (std::size_t i = 0; i < draw.count(); ++i) {
    draw.next();
    std::int64_t const width = draw.width(), bags = 1 + draw.below(20), bound = 1 + draw.below(5);
    std::vector<std::int32_t> const keys = draw.drawn_keys<std::int32_t>(1 + draw.keys(width), bound);
    cases::Table<float> const gradients{draw, bags, width};
    std::vector<std::uint32_t> bag_of(keys.size());
    std::vector<float> factors(keys.size());
    for (std::uint32_t& bag : bag_of) bag = static_cast<std::uint32_t>(draw.below(bags));
    for (float& factor : factors) factor = draw.value<float>();
    parallax::RowTerms<float> const terms{gradients.view(), bag_of.data(), draw.one_in(2) ? factors.data() : nullptr};
    INFO("width " << width << ", stride " << gradients.stride << ", " << keys.size() << " keys below " << bound);

    parallax::Grouping<std::int32_t> groups;
    parallax::SortScratch<std::int32_t> sort_scratch;
    Host::unique_with_inverse(keys, bound, groups, sort_scratch);
    auto const first = static_cast<std::size_t>(draw.below(static_cast<std::int64_t>(groups.size())));
    std::vector<float> expected((groups.size() - first) * static_cast<std::size_t>(width)), out(expected.size(), 42);
    Host::coalesce_terms(terms, groups, first, groups.size(), expected.data());
    cases::Grouped<std::int32_t> grouped{keys, bound};
    cases::Scratch const scratch{device::sums_scratch_bytes<float>(keys.size(), width)};
    std::uint64_t const before = emulator::launches;
    device::sum_terms(nullptr, terms, grouped.order.data(), grouped.offsets.data(), first, groups.size(), out.data(),
                      grouped.inverse.data(), keys.size(), scratch.memory);
    REQUIRE(emulator::launches - before == (keys.size() > parallax::sum_chunk ? 2 : 1));
    REQUIRE(cases::same_bits(out, expected));
  }
}

TEST_CASE("many tensors are copied at once, wherever they begin and end", "[cuda][copy]") {
  cases::Draw draw{"copy_all", 40};
  for (std::size_t i = 0; i < draw.count(); ++i) {
    auto const count = static_cast<std::size_t>(draw.below(12));
    draw.next();
    std::vector<std::vector<unsigned char>> from(count), to(count), expected;
    device::CopyList copies;
    for (std::size_t k = 0; k < count; ++k) {
      std::uint64_t const bytes = static_cast<std::uint64_t>(draw.below(draw.one_in(6) ? 100'000 : 200));
      auto const odd = [&] { return draw.one_in(2) ? std::int64_t{0} : draw.below(17); };
      std::int64_t const before = odd(), there = odd();
      from[k].resize(static_cast<std::size_t>(before) + bytes);
      for (auto& byte : from[k]) byte = static_cast<unsigned char>(draw.below(256));
      to[k].resize(static_cast<std::size_t>(there) + bytes + 5, 0xCD);
      expected.push_back(to[k]);
      if (bytes > 0) std::memcpy(expected[k].data() + there, from[k].data() + before, bytes);
      copies.add({from[k].data() + before, to[k].data() + there, bytes});
    }
    device::copy_all(nullptr, copies);
    REQUIRE(to == expected);
  }
}

template <class T>
void check_squares(parallax::RowsView<T const> rows) {
  auto const blocks = static_cast<std::int64_t>(device::measured_blocks(rows.width));
  auto const row_count = static_cast<std::uint64_t>(rows.rows), of_row = static_cast<std::uint64_t>(blocks);
  std::vector<double> sums(device::numbers_to_add(row_count, of_row), -1);
  device::sum_of_squares(nullptr, rows, sums.data());
  for (std::int64_t row = 0; row < rows.rows; ++row)
    for (std::int64_t block = 0; block < blocks; ++block) {
      std::int64_t const first = block * parallax::measured_block;
      REQUIRE(sums[static_cast<std::size_t>(row * blocks + block)] ==
              Host::sum_of_squares(rows.row(row) + first, std::min(rows.width - first, parallax::measured_block)));
    }
  double sum = -1;
  device::add_blocks<1>(nullptr, sums.data(), row_count, of_row, &sum);
  REQUIRE(sum == Host::sum_of_row_squares(rows));
}

// `sums` sums over the blocks of rows: by kernels, in so many launches, and by recursion.
template <unsigned sums>
void adds_blocks(cases::Draw& draw, std::size_t rows, std::size_t of_row, std::uint64_t launches) {
  draw.next();
  INFO(sums << " sums of " << rows << " rows of " << of_row << " blocks");
  std::vector<double> numbers(rows * of_row * sums);
  for (double& number : numbers) number = draw.value<double>();
  std::vector<double> expected, out(sums + 1, 42);
  for (std::size_t k = 0; k < sums; ++k) {
    std::vector<double> of_rows;
    for (std::size_t row = 0; row < rows; ++row) {
      std::vector<double> of_blocks;
      for (std::size_t block = 0; block < of_row; ++block) of_blocks.push_back(numbers[(row * of_row + block) * sums + k]);
      of_rows.push_back(naive::sum_in_groups(of_blocks));
    }
    expected.push_back(naive::sum_in_groups(of_rows) + 0.0);  // of one block -0 there is 0, as of two
  }
  expected.push_back(42);
  numbers.resize(device::numbers_to_add(rows, of_row) * sums, -1);
  numbers.shrink_to_fit();  // so that a place behind the last is seen
  std::uint64_t const before = emulator::launches;
  device::add_blocks<sums>(nullptr, numbers.data(), rows, of_row, out.data());
  REQUIRE(emulator::launches - before == launches);
  REQUIRE(cases::same_bits(out, expected));
}

TEST_CASE("blocks are added in groups of 64, in few launches", "[cuda][elements]") {
  cases::Draw draw{"add_blocks"};
  auto const rows_or_blocks = [&](std::size_t n, std::uint64_t launches) {
    adds_blocks<1>(draw, n, 1, launches);
    adds_blocks<1>(draw, 1, n, launches);
    adds_blocks<3>(draw, 1, n, launches);
  };
  for (std::size_t const n : {0, 1, 2, 63, 64, 65, 127, 128, 129, 4095, 4096}) rows_or_blocks(n, 1);
  constexpr int cube = 64 * 64 * 64;
  for (std::size_t const n : {4097, 8191, 8192, 8193, cube - 1, cube, cube + 1, 300'000})
    if (n < 10'000 || !cases::accesses_are_told) rows_or_blocks(n, 2);
  adds_blocks<2>(draw, 0, 5, 1);
  adds_blocks<2>(draw, 5, 0, 1);
  for (std::size_t const rows : {2, 3, 63, 64, 65, 130})
    for (std::size_t const of_row : {2, 3, 63, 64}) adds_blocks<2>(draw, rows, of_row, 2);
  for (std::size_t const rows : {2, 64, 65})
    for (std::size_t const of_row : {65, 128, 129, 4095, 4096}) adds_blocks<1>(draw, rows, of_row, 3);
  adds_blocks<1>(draw, 3, 4097, 4);
  adds_blocks<4>(draw, 4097, 3, 3);
  for (std::uint64_t const n : {500'000, 1 << 24}) {  // how many launches, for what no emulator should add
    auto left = device::detail::NumbersOfRows::of(n, 1);
    CHECK(!left.last());
    left = left.added();
    CHECK(left.last());
    CHECK(left.count() == (n + 4095) / 4096);
  }
}

TEST_CASE("the squares of hundreds of thousands of rows have the host's sum", "[cuda][elements]") {
  cases::Draw draw{"sum_of_squares of many rows"};
  constexpr std::int64_t rows_of_table = cases::accesses_are_told ? 10'000 : 300'000;
  for (std::int64_t const width : {1, 2, 3}) {
    draw.next();
    cases::Table<float> const table{draw, rows_of_table, width};
    std::vector<double> numbers(device::numbers_to_add(std::uint64_t{rows_of_table}, 1), -1);
    for (std::int64_t row = 0; row < table.rows; ++row)  // the kernel that makes these is checked below
      numbers[static_cast<std::size_t>(row)] = Host::sum_of_squares(table.view().row(row), width);
    double sum = -1;
    device::add_blocks<1>(nullptr, numbers.data(), rows_of_table, 1, &sum);
    REQUIRE(sum == Host::sum_of_row_squares<float>(table.view()));
  }
  draw.next();
  cases::Table<float> const rows{draw, 4097, 3}, wide{draw, 2, 65 * parallax::measured_block + 1};
  check_squares(rows.view());
  check_squares(wide.view());
}

// Two sums, of numbers with signs, and a slot that moves.
struct MeasuringRule {
  template <class T>
  auto measure(T& parameter, auto gradient, auto& slot) const noexcept {
    slot = slot + gradient * gradient;
    return parallax::Measures<2>{{static_cast<double>(gradient), static_cast<double>(parameter * slot)}};
  }
};

TEMPLATE_TEST_CASE("what is measured of a large tensor has the host's sums", "[cuda][elements]", float, double) {
  cases::Draw draw{"measure_elements"};
  for (std::int64_t const n : {std::int64_t{1}, 64 * parallax::measured_block, 64 * parallax::measured_block + 1}) {
    draw.next();
    cases::Table<TestType> parameters{draw, 1, n}, slots{draw, 1, n};
    cases::Table<TestType> const gradients{draw, 1, n};
    auto host_slots = slots;
    std::vector<double> expected(2, -1), out(2, -1);
    Host::measure_elements(n, parameters.data(), gradients.view().data, TestType(0.37), MeasuringRule{}, expected.data(),
                           host_slots.data());
    std::uint64_t const blocks = device::measured_blocks(n);
    std::vector<double> numbers(device::numbers_to_add(1, blocks) * 2, -1);
    device::measure_elements(nullptr, static_cast<std::uint64_t>(n), parameters.data(), gradients.view().data,
                             {TestType{1}, nullptr, TestType(0.37)}, MeasuringRule{}, numbers.data(), slots.data());
    device::add_blocks<2>(nullptr, numbers.data(), 1, blocks, out.data());
    REQUIRE(cases::same_bits(out, expected));
    REQUIRE(cases::same_bits(slots.memory, host_slots.memory));
  }
}

TEMPLATE_TEST_CASE("elements are added, divided and squared as on the host", "[cuda][elements]", float, double) {
  cases::Draw draw{"add_to, scale_down, sum_of_squares", 20};
  for (std::size_t i = 0; i < draw.count(); ++i) {
    draw.next();
    std::int64_t const n = draw.below(draw.one_in(2) ? 20 : 9000);
    cases::Table<TestType> out{draw, 1, n};
    cases::Table<TestType> const in{draw, 1, n};
    auto expected = out;
    INFO(n << " elements");
    Host::add_to(expected.data(), in.view().data, n);
    Host::scale_down(expected.data(), n, TestType{7});
    device::add_to(nullptr, out.data(), in.view().data, static_cast<std::uint64_t>(n));
    device::scale_down(nullptr, out.data(), static_cast<std::uint64_t>(n), TestType{7});
    REQUIRE(cases::same_bits(out.memory, expected.memory));
    check_squares(parallax::RowsView<TestType const>{in.view().data, 1, n});
  }
}

TEMPLATE_TEST_CASE("every row is squared as on the host", "[cuda][elements]", float, double) {
  cases::Draw draw{"sum_of_squares of rows", 21};
  for (std::size_t i = 0; i < draw.count(); ++i) {
    draw.next();
    cases::Table<TestType> const table{draw, draw.below(6), draw.one_in(10) ? 4090 + draw.below(10) : draw.below(40)};
    INFO(table.rows << " rows of " << table.width << ", " << table.stride << " apart");
    check_squares(table.view());
  }
}
