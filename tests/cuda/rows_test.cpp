#include <limits>
#include <optional>

#include "cases.hpp"
#include "deferred.hpp"
#include "parallax/detail/kernel/cuda/row_ops.cuh"
#include "parallax/detail/kernel/cuda/rows.cuh"
#include "parallax/detail/kernel/host.hpp"

namespace {

using Host = parallax::RowOps<parallax::HostSpace>;
namespace device = parallax::device;

template <class T, class I>
void moves_rows(cases::Draw& draw) {
  draw.next();
  std::int64_t const width = draw.width(), rows = 1 + draw.below(60);
  cases::Table<T> const table{draw, rows, width};
  I const base = static_cast<I>(draw.one_in(2) ? 0 : draw.below(1000));
  auto indices = draw.drawn_keys<I>(draw.keys(width), rows);
  for (I& index : indices) index = static_cast<I>(index + base);
  INFO("width " << width << ", stride " << table.stride << ", shift " << table.shift << ", " << indices.size() << " of them");

  cases::Table<T> out{draw, static_cast<std::int64_t>(indices.size()), width, true};
  auto expected = out;
  device::gather_rows<T, I>(nullptr, table.view(), indices, {base}, out.data());
  for (std::size_t i = 0; i < indices.size(); ++i)
    std::memcpy(expected.view().row(static_cast<std::int64_t>(i)),
                table.view().row(static_cast<std::int64_t>(indices[i] - base)), static_cast<std::size_t>(width) * sizeof(T));
  REQUIRE(cases::same_bits(out.memory, expected.memory));
}

template <class T, class I>
void scatters_rows(cases::Draw& draw) {
  using C = device::Computed<T>;
  draw.next();
  std::int64_t const width = draw.width(), rows = 1 + draw.below(60);
  cases::Table<T> table{draw, rows, width};
  auto const indices = draw.distinct_keys<I>(static_cast<std::uint32_t>(draw.below(rows + 1)), rows);
  cases::Table<T> packed{draw, static_cast<std::int64_t>(indices.size()), width, true};
  auto const used = static_cast<std::uint32_t>(draw.below(static_cast<std::int64_t>(indices.size()) + 1));
  bool const counted = draw.one_in(2);
  std::span<I const> const first{indices.data(), counted ? used : indices.size()};
  INFO("width " << width << ", stride " << table.stride << ", shift " << table.shift << ", " << first.size() << " indices");

  auto wide_table = cases::widened(table, draw), wide_packed = cases::widened(packed, draw);
  Host::scatter_add_rows<C>(wide_table.view(), first, {}, wide_packed.data());
  auto added = table;
  device::scatter_add_rows<T, I>(nullptr, added.view(), indices, {}, packed.data(), counted ? &used : nullptr);
  REQUIRE(cases::same_bits(added.memory, cases::narrowed<T>(wide_table.memory)));

  auto expected = table;
  for (std::size_t i = 0; i < first.size(); ++i)
    std::memcpy(expected.view().row(static_cast<std::int64_t>(first[i])), packed.view().row(static_cast<std::int64_t>(i)),
                static_cast<std::size_t>(width) * sizeof(T));
  device::scatter_rows<T, I>(nullptr, table.view(), indices, {}, packed.data(), counted ? &used : nullptr);
  REQUIRE(cases::same_bits(table.memory, expected.memory));
}

// Row operations on a stream of their own.
struct OnDevice {
  parallax::CudaPool pool;
  parallax::CudaStream stream;
  parallax::RowOps<parallax::CudaSpace> ops{{stream.get(), pool}};
};

template <class T>
void divides_rows(cases::Draw& draw, OnDevice const& device) {
  draw.next();
  std::int64_t const width = draw.width(), rows = draw.below(60);
  cases::Table<T> packed{draw, rows, width, true}, counted{draw, rows, width + 1, true};
  std::vector<std::uint32_t> counts(static_cast<std::size_t>(rows));
  for (std::int64_t k = 0; k < rows; ++k) {
    counts[static_cast<std::size_t>(k)] = static_cast<std::uint32_t>(1 + draw.below(9));
    counted.view().row(k)[width] = static_cast<T>(draw.below(4));
  }
  INFO("width " << width << ", shift " << packed.shift << ", " << rows << " rows");
  auto expected = packed, expected_counted = counted;
  Host::scale_rows_down(expected.data(), width, std::span<std::uint32_t const>{counts});
  Host::scale_counted_rows_down(expected_counted.data(), rows, width);
  device.ops.scale_rows_down(packed.data(), width, std::span<std::uint32_t const>{counts});
  device.ops.scale_counted_rows_down(counted.data(), rows, width);
  device.ops.wait();
  REQUIRE(cases::same_bits(packed.memory, expected.memory));
  REQUIRE(cases::same_bits(counted.memory, expected_counted.memory));
}

template <class T>
void finds_first(cases::Draw& draw, OnDevice const& device) {
  draw.next();
  std::int64_t const width = draw.width(), rows = 1 + draw.below(60);
  cases::Table<T> table{draw, rows, width};
  if (table.stride > width)  // what lies between rows is not looked at
    for (std::int64_t k = 0; k + 1 < rows; ++k) table.view().row(k)[width] = std::numeric_limits<T>::quiet_NaN();
  for (std::int64_t left = draw.below(4); left > 0; --left)
    table.view().row(draw.below(rows))[draw.below(width)] =
        draw.one_in(2) ? -std::numeric_limits<T>::infinity() : std::numeric_limits<T>::quiet_NaN();
  INFO("width " << width << ", stride " << table.stride << ", shift " << table.shift << ", " << rows << " rows");
  parallax::RowsView<T const> const view = table.view();
  parallax::NonFiniteElement found{};
  device.ops.first_non_finite(view, &found);
  device.ops.wait();
  auto const expected = parallax::first_non_finite(view).value_or(parallax::NonFiniteElement{rows, 0, 0});
  REQUIRE(found.row == expected.row);
  REQUIRE(found.column == expected.column);
  REQUIRE(std::memcmp(&found.value, &expected.value, sizeof found.value) == 0);
}

}  // namespace

TEST_CASE("rows are gathered, whatever their width and wherever they begin", "[cuda][gather]") {
  cases::Draw draw{"gather_rows", 20};
  for (std::size_t i = 0; i < draw.count(); ++i) {
    moves_rows<float, std::int32_t>(draw);
    moves_rows<float, std::int64_t>(draw);
    moves_rows<double, std::int64_t>(draw);
    moves_rows<__nv_bfloat16, std::uint32_t>(draw);
  }
}

TEST_CASE("distinct rows are scattered and added, and rows between them stay", "[cuda][scatter]") {
  cases::Draw draw{"scatter_rows, scatter_add_rows", 20};
  for (std::size_t i = 0; i < draw.count(); ++i) {
    scatters_rows<float, std::int32_t>(draw);
    scatters_rows<double, std::int64_t>(draw);
    scatters_rows<__nv_bfloat16, std::int32_t>(draw);
    scatters_rows<__half, std::int64_t>(draw);
  }
}

TEST_CASE("a row far beyond 2^31 elements is found", "[cuda][gather]") {
  std::int64_t const row = std::int64_t{1} << 33;
  std::vector<float> memory{1, 2, 3, 4, 5, 6, 7, 8}, out(4);
  parallax::RowsView<float const> const table{memory.data() - 4 * row + 4, row + 1, 4};  // only its last row is there
  std::int64_t const index = row;
  device::gather_rows<float, std::int64_t>(nullptr, table, {&index, 1}, {}, out.data());
  CHECK(out == std::vector<float>{5, 6, 7, 8});
}

TEST_CASE("rows are divided by numbers of their own", "[cuda][divide]") {
  cases::Draw draw{"scale_rows_down", 20};
  OnDevice const device;
  for (std::size_t i = 0; i < draw.count(); ++i) {
    divides_rows<float>(draw, device);
    divides_rows<double>(draw, device);
  }
}

TEST_CASE("the first element that is not finite is found, in the order of rows", "[cuda][finite]") {
  cases::Draw draw{"first_non_finite", 60};
  OnDevice const device;
  for (std::size_t i = 0; i < draw.count(); ++i) {
    finds_first<float>(draw, device);
    finds_first<double>(draw, device);
  }
}

TEST_CASE("rows that lie apart are packed by one operation of the stream", "[cuda][pack]") {
  emulated::Deferred const deferred{1};
  OnDevice const device;
  constexpr std::size_t rows = 1000, width = 5, stride = 7, first = 3, last = 998;
  std::vector<float> memory(rows * stride), packed((last - first) * width), expected;
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<float>(i);
  for (std::size_t k = first; k < last; ++k)
    for (std::size_t c = 0; c < width; ++c) expected.push_back(memory[k * stride + c]);
  device.ops.pack_rows({memory.data(), rows, width, stride}, first, last, packed.data());
  CHECK(emulator::of(device.stream.get()).operations.size() == 1);
  device.ops.wait();
  CHECK(packed == expected);
}
