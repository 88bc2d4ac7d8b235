// Kernels on arrays that no machine holds, 10^9 rows of 128 numbers: offsets that need more than 32 bits. The system gives such
// an array a page where one is touched; of launches over packed rows the first block, the last and two others are run.
#include <sys/mman.h>

#include <cstdint>
#include <cstring>
#include <numeric>
#include <span>
#include <vector>

#include "cases.hpp"
#include "grouped.hpp"
#include "parallax/detail/kernel/cuda/rows.cuh"
#include "parallax/detail/kernel/cuda/sums.cuh"
#include "parallax/detail/kernel/cuda/updates.cuh"
#include "parallax/detail/optimizer/adagrad.hpp"
#include "parallax/detail/optimizer/rowwise_adagrad.hpp"
#include "parallax/optimizer/sgd.hpp"

namespace {

namespace device = parallax::device;
using parallax::RowsView;

constexpr std::int64_t all_rows = 1'000'000'000;

// Rows at both ends; and those that an offset of 31 or 32 bits takes for row 1, be it one in bytes, elements or packs.
std::vector<std::int64_t> const some_rows = [] {
  std::vector<std::int64_t> rows{0, 1, 500'000'003, all_rows - 2, all_rows - 1};
  for (int bits = 22; bits <= 27; ++bits) rows.push_back((std::int64_t{1} << bits) + 1);
  return rows;
}();

// An array of zeros.
template <class T>
class Sparse {
 public:
  explicit Sparse(std::int64_t elements)
      : bytes_{static_cast<std::size_t>(elements) * sizeof(T)},
        memory_{::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0)} {
    if (there()) ::madvise(memory_, bytes_, MADV_NOHUGEPAGE);
  }
  Sparse(Sparse const&) = delete;
  ~Sparse() {
    if (there()) ::munmap(memory_, bytes_);
  }
  bool there() const { return memory_ != MAP_FAILED; }
  T* data() const { return static_cast<T*>(memory_); }

 private:
  std::size_t bytes_;
  void* memory_;
};

float value(std::int64_t row, std::int64_t column) { return static_cast<float>((row % 1009 * 31 + column) % 1013 + 1) / 64; }

// `some_rows` of a table of all rows, and the same rows one behind the other: with these, kernels are right (rows_test.cpp).
struct Twice {
  std::int64_t width;
  Sparse<float> all;
  std::vector<float> few;

  explicit Twice(std::int64_t row_width) : width{row_width}, all{all_rows * row_width} {
    if (!all.there()) return;
    for (std::int64_t const row : some_rows)
      for (std::int64_t column = 0; column < width; ++column) {
        few.push_back(value(row, column));
        all.data()[row * width + column] = few.back();
      }
  }
  RowsView<float> large() const { return {all.data(), all_rows, width}; }
  RowsView<float> small() { return {few.data(), static_cast<std::int64_t>(some_rows.size()), width}; }
  bool same() const {
    for (std::size_t k = 0; k < some_rows.size(); ++k)
      if (std::memcmp(all.data() + some_rows[k] * width, few.data() + k * static_cast<std::size_t>(width),
                      static_cast<std::size_t>(width) * sizeof(float)) != 0)
        return false;
    return true;
  }
};
std::vector<std::int64_t> first_rows() {
  std::vector<std::int64_t> rows(some_rows.size());
  std::iota(rows.begin(), rows.end(), std::int64_t{0});
  return rows;
}
std::vector<float> numbers(std::size_t n) {
  std::vector<float> all(n);
  for (std::size_t i = 0; i < n; ++i) all[i] = value(static_cast<std::int64_t>(i), 7);
  return all;
}

// While it lives, launches have as many blocks as there is work for, and four of them are run.
struct FourBlocks {
  int const before = emulator::multiprocessors;
  FourBlocks() { emulator::multiprocessors = 1 << 23, emulator::most_blocks = 4; }
  FourBlocks(FourBlocks const&) = delete;
  ~FourBlocks() { emulator::multiprocessors = before, emulator::most_blocks = ~std::uint64_t{0}; }
};

}  // namespace

#define PARALLAX_SKIP_UNLESS(mapped) \
  if (!(mapped)) PARALLAX_SKIP("the system maps no array of half a terabyte, of which pages are touched here and there")

TEST_CASE("rows of a table of 10^9 rows are gathered, scattered and added where they lie", "[cuda][sized]") {
  for (std::int64_t const width : {128, 127}) {
    Twice table{width};
    PARALLAX_SKIP_UNLESS(table.all.there());
    INFO("width " << width);
    std::vector<float> out(table.few.size());
    std::vector<std::uint32_t> const short_rows(some_rows.begin(), some_rows.end());
    device::gather_rows<float, std::int64_t>(nullptr, table.large(), some_rows, {}, out.data());
    CHECK(out == table.few);
    std::fill(out.begin(), out.end(), 0.0f);
    device::gather_rows<float, std::uint32_t>(nullptr, table.large(), short_rows, {}, out.data());
    CHECK(out == table.few);

    std::vector<float> const more = numbers(table.few.size());
    device::scatter_add_rows<float, std::int64_t>(nullptr, table.large(), some_rows, {}, more.data());
    device::scatter_add_rows<float, std::int64_t>(nullptr, table.small(), first_rows(), {}, more.data());
    CHECK(table.same());
    device::scatter_rows<float, std::int64_t>(nullptr, table.large(), some_rows, {}, more.data());
    table.few = more;
    CHECK(table.same());
  }
}

TEST_CASE("rows of a table of 10^9 rows, and their slots, are updated where they lie", "[cuda][sized]") {
  for (std::int64_t const width : {128, 127}) {
    Twice table{width}, slots{width}, row_slots{1};
    PARALLAX_SKIP_UNLESS(table.all.there() && slots.all.there() && row_slots.all.there());
    INFO("width " << width);
    std::vector<float> const gradients = numbers(2 * table.few.size());
    RowsView<float const> const values{gradients.data(), 2 * static_cast<std::int64_t>(some_rows.size()), width};
    auto const update = [&](RowsView<float> of_table, RowsView<float> of_slots, RowsView<float> of_rows,
                            std::vector<std::int64_t> rows) {
      std::span<std::int64_t const> const distinct{rows};
      device::apply_rows(nullptr, distinct, {}, of_table, gradients.data(), {}, parallax::Sgd{0.1}.at(1), device::Slots<>{},
                         device::Slots<>{});
      device::apply_rows(nullptr, distinct, {}, of_table, gradients.data(), {}, parallax::Adagrad{}.at(1),
                         device::Slots{of_slots}, device::Slots<>{});
      device::apply_rows(nullptr, distinct, {}, of_table, gradients.data(), {}, parallax::RowwiseAdagrad{}.at(1),
                         device::Slots<>{}, device::Slots{of_rows});
      rows.insert(rows.end(), rows.begin(), rows.end());
      cases::Grouped<std::int64_t> grouped{rows, of_table.rows};
      device::update_runs(nullptr, values, grouped.view(), {}, {}, of_table, parallax::Adagrad{}.at(2), device::Slots{of_slots},
                          device::Slots<>{}, nullptr);
      device::update_runs(nullptr, values, grouped.view(), {}, {}, of_table, parallax::RowwiseAdagrad{}.at(2),
                          device::Slots<>{}, device::Slots{of_rows}, nullptr);
    };
    update(table.large(), slots.large(), row_slots.large(), some_rows);
    update(table.small(), slots.small(), row_slots.small(), first_rows());
    CHECK(table.same());
    CHECK(slots.same());
    CHECK(row_slots.same());
  }
}

TEST_CASE("sums find their addends among 10^9 rows", "[cuda][sized]") {
  Twice addends{128};
  PARALLAX_SKIP_UNLESS(addends.all.there());
  auto const sums_of = [&](RowsView<float const> values, std::vector<std::int64_t> const& rows) {
    std::vector<std::int64_t> keys{3, 5, 8};
    std::vector<std::uint32_t> offsets{0, 2, 5, static_cast<std::uint32_t>(rows.size())}, order(rows.begin(), rows.end());
    std::uint32_t distinct = 3;
    device::GroupingView<std::int64_t> const groups{keys.data(), offsets.data(), order.data(),
                                                    nullptr,     &distinct,      static_cast<std::uint32_t>(rows.size())};
    std::vector<float> out(rows.size() * 128);
    device::coalesce(nullptr, values, groups, out.data(), nullptr);
    return out;
  };
  CHECK(sums_of(addends.large(), some_rows) == sums_of(addends.small(), first_rows()));
}

TEST_CASE("packed rows are found beyond 2^32 of them and their elements", "[cuda][sized]") {
  for (std::int64_t const width : {128, 127}) {
    Sparse<float> packed{all_rows * width};
    Sparse<std::int64_t> indices{all_rows};  // mostly of row 0
    PARALLAX_SKIP_UNLESS(packed.there() && indices.there());
    INFO("width " << width);
    FourBlocks const four;
    std::span<std::int64_t const> const all{indices.data(), static_cast<std::size_t>(all_rows)};
    float* const last = packed.data() + (all_rows - 1) * width;
    auto const n = static_cast<std::size_t>(width);
    std::vector<float> table = numbers(3 * n);
    indices.data()[all_rows - 1] = 2;
    device::gather_rows<float, std::int64_t>(nullptr, {table.data(), 3, width}, all, {}, packed.data());
    CHECK(std::memcmp(last, table.data() + 2 * n, n * sizeof(float)) == 0);
    CHECK(std::memcmp(packed.data(), table.data(), n * sizeof(float)) == 0);

    indices.data()[all_rows - 1] = 1;
    device::scatter_rows<float, std::int64_t>(nullptr, {table.data(), 3, width}, all, {}, packed.data());
    CHECK(std::memcmp(last, table.data() + n, n * sizeof(float)) == 0);
    device::scatter_add_rows<float, std::int64_t>(nullptr, {table.data(), 3, width}, all, {}, packed.data());
    for (std::size_t i = 0; i < n; ++i) REQUIRE(table[n + i] == 2 * last[i]);

    device::apply_rows(nullptr, all, {}, RowsView<float>{table.data(), 3, width}, packed.data(), {}, parallax::Sgd{1}.at(1),
                       device::Slots<>{}, device::Slots<>{});
    for (std::size_t i = 0; i < n; ++i) REQUIRE(table[n + i] == last[i]);
  }
}

TEST_CASE("elements of dense tensors are found beyond 2^32 of them", "[cuda][sized]") {
  std::int64_t const n = 10 * all_rows + 5;  // the last block has the last pack, and the first one the element behind it
  Sparse<float> parameters{n}, gradients{n};
  PARALLAX_SKIP_UNLESS(parameters.there() && gradients.there());
  FourBlocks const four;
  for (std::int64_t const i : {n - 1, n - 2}) {
    gradients.data()[i] = 3;
    auto const count = static_cast<std::uint64_t>(n);
    device::add_to(nullptr, parameters.data(), gradients.data(), count);
    CHECK(parameters.data()[i] == 3);
    device::scale_down(nullptr, parameters.data(), count, 2.0f);
    CHECK(parameters.data()[i] == 1.5f);
    device::apply_elements(nullptr, count, parameters.data(), gradients.data(), {}, parallax::Sgd{0.5}.at(1));
    CHECK(parameters.data()[i] == 0);
    gradients.data()[i] = 0;
  }
}
