// What kernels touch of their arrays: the sectors of 32 bytes that docs/cuda.md counts, each row once, and rows of float in loads and
// stores of 16 bytes.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "cases.hpp"
#include "grouped.hpp"
#include "parallax/detail/optimizer/adagrad.hpp"
#include "parallax/detail/optimizer/adam.hpp"
#include "parallax/detail/optimizer/rowwise_adagrad.hpp"
#include "parallax/detail/partition/cyclic.hpp"
#include "parallax/kernel/cuda.cuh"
#include "parallax/optimizer/sgd.hpp"
#include "touched.hpp"

namespace {

namespace device = parallax::device;
using parallax::RowsView;

constexpr std::int64_t rows = 4000, width = 64;
constexpr std::uint32_t n = 1500;

// An array that begins a sector, and is watched for a call.
template <class T>
class Array {
 public:
  explicit Array(std::size_t size, T value = {}) : memory_(size + touched::sector / sizeof(T) + 1, value), size_{size} {}
  explicit Array(std::vector<T> const& values) : Array{values.size()} { std::copy(values.begin(), values.end(), data()); }
  T* data() {
    auto const at = reinterpret_cast<std::uintptr_t>(memory_.data());
    return memory_.data() + (touched::sector - at % touched::sector) % touched::sector / sizeof(T);
  }
  std::size_t bytes() const { return size_ * sizeof(T); }
  std::span<T const> span() { return {data(), size_}; }
  RowsView<T> view(std::int64_t of_width = width) { return {data(), static_cast<std::int64_t>(size_) / of_width, of_width}; }
  RowsView<T const> read(std::int64_t of_width = width) { return view(of_width); }

 private:
  std::vector<T> memory_;
  std::size_t size_;
};

// An array of a call, what the call has to move of it, in bytes read and written, and whether that is by rows.
struct Part {
  char const* name;
  void const* first;
  std::size_t bytes;
  double read, written;
  bool by_rows = true;
  bool in_turn = false;  // written by one launch and read by another: sectors of both count
};
template <class T>
Part part(char const* name, Array<T>& array, double read, double written, bool by_rows = true) {
  return {name, array.data(), array.bytes(), read, written, by_rows};
}
// Numbers, of which the lanes of a team read the same.
template <class T>
Part numbers(char const* name, Array<T>& array, double read, double written = 0) {
  return part(name, array, read, written, false);
}

// Runs a call and holds what it has touched against what it has to.
template <class Call>
void check(std::string const& what, std::vector<Part> const& parts, Call const& call) {
  std::vector<std::unique_ptr<touched::Watch>> watches;
  for (Part const& part : parts)
    watches.push_back(std::make_unique<touched::Watch>(part.first, part.bytes, emulator::launches));
  call();
  for (std::size_t i = 0; i < parts.size(); ++i) {
    Part const& part = parts[i];
    touched::Count const& count = watches[i]->count();
    double const least = (part.in_turn ? part.read + part.written : std::max(part.read, part.written)) / touched::sector;
    std::printf("%-34s %-10s %8llu sectors of %8.0f, %9llu bytes read of %8.0f, %9llu written of %8.0f, by %2lld\n",
                what.c_str(), part.name, static_cast<unsigned long long>(count.sectors), least,
                static_cast<unsigned long long>(count.bytes_read), part.read,
                static_cast<unsigned long long>(count.bytes_written), part.written, static_cast<long long>(count.least));
    CAPTURE(what, part.name);
    CHECK(static_cast<double>(count.sectors) <= 1.05 * least + 2);
    CHECK(static_cast<double>(count.sectors) >= 0.95 * least - 2);
    CHECK(static_cast<double>(count.bytes_written) <= 1.05 * part.written);
    if (!part.by_rows) continue;
    CHECK(static_cast<double>(count.bytes_read) <= 1.05 * part.read);
    CHECK(count.least == 16);
  }
}

std::vector<std::int64_t> drawn(std::int64_t below) {
  std::vector<std::int64_t> ids(n);
  std::uint64_t state = 7;
  for (auto& id : ids)
    id = static_cast<std::int64_t>((state = state * 6364136223846793005u + 1442695040888963407u) >> 33) % below;
  return ids;
}

// Groups of a batch, with each array where it can be watched.
struct Groups {
  Array<std::int64_t> keys{n};
  Array<std::uint32_t> offsets{n + 1}, order{n}, inverse{n};
  Array<std::uint32_t> distinct{1};
  explicit Groups(std::vector<std::int64_t> const& ids) {
    cases::Scratch const scratch{device::group_keys_scratch_bytes(n, rows)};
    device::group_keys(nullptr, ids.data(), rows, view(), scratch.memory);
  }
  device::GroupingView<std::int64_t> view() {
    return {keys.data(), offsets.data(), order.data(), inverse.data(), distinct.data(), n};
  }
  double u() { return *distinct.data(); }
};

constexpr double row_bytes = width * 4;

}  // namespace

TEST_CASE("rows are moved once, and by nothing more", "[sectors]") {
  std::vector<std::int64_t> ids(n);
  for (std::size_t i = 0; i < n; ++i) ids[i] = static_cast<std::int64_t>(i * 7 % rows);
  Array<std::int64_t> indices{ids};
  Array<float> table{rows * width, 1}, packed{n * width};
  parallax::Directory<std::int64_t> const all;
  check("gather_rows",
        {numbers("indices", indices, n * 8), part("table", table, n * row_bytes, 0), part("out", packed, 0, n * row_bytes)},
        [&] { device::gather_rows(nullptr, table.read(), indices.span(), all, packed.data()); });
  check("scatter_rows",
        {numbers("indices", indices, n * 8), part("table", table, 0, n * row_bytes), part("rows", packed, n * row_bytes, 0)},
        [&] { device::scatter_rows(nullptr, table.view(), indices.span(), all, packed.data()); });
  Array<float> slots{rows * width, 1};
  check("apply_rows, Adagrad",
        {numbers("indices", indices, n * 8), part("gradients", packed, n * row_bytes, 0),
         part("table", table, n * row_bytes, n * row_bytes), part("slots", slots, n * row_bytes, n * row_bytes)},
        [&] {
          device::apply_rows(nullptr, indices.span(), all, table.view(), packed.data(), device::Scaling<float>{},
                             parallax::Adagrad{}.at(1), device::Slots{slots.view()}, device::Slots<>{});
        });
}

TEST_CASE("rows that steps have passed by are moved once, however many they are", "[sectors]") {
  std::vector<std::int64_t> ids(n);
  for (std::size_t i = 0; i < n; ++i) ids[i] = static_cast<std::int64_t>(i * 7 % rows);
  using Rule = parallax::Adam::Rule;
  Array<std::int64_t> indices{ids}, settled{rows, 100};
  Array<float> table{rows * width, 1}, first{rows * width, 1}, second{rows * width, 1};
  std::vector<parallax::NumberedRule<Rule>> of_steps;
  for (std::int64_t step = 101; step <= 109; ++step) of_steps.push_back({step, parallax::Adam{}.at(step)});
  Array<parallax::NumberedRule<Rule>> rules{of_steps};
  double const half = n / 2.0;
  for (std::size_t i = 0; i < n; i += 2) settled.data()[ids[i]] = 109;  // nothing is to be done for these
  check("settle_rows, Adam, 9 steps",
        {numbers("indices", indices, n * 8), numbers("settled", settled, rows * 8, n * 8),
         numbers("rules", rules, 9 * sizeof(parallax::NumberedRule<Rule>)),
         part("table", table, half * row_bytes, half * row_bytes), part("slots", first, half * row_bytes, half * row_bytes),
         part("slots", second, half * row_bytes, half * row_bytes)},
        [&] {
          device::settle_rows(nullptr, indices.data(), {n}, {}, device::RowAges<Rule>{settled.data(), {rules.data(), 9}, 109},
                              table.view(), device::Slots{first.view(), second.view()}, device::Slots<>{});
        });
}

TEST_CASE("an update by runs reads each gradient once, and each row and slot once", "[sectors]") {
  Groups groups{drawn(rows / 4)};
  double const u = groups.u();
  Array<float> gradients{n * width, 1}, table{rows * width, 1}, first{rows * width, 1}, second{rows * width, 1}, out{n * width};
  std::vector<float> scratch(device::sums_scratch_bytes<float>(n, width) / 4 + 64);
  double const chunks =
      std::floor(n / 64.0) * touched::sector;  // places where a later chunk may begin, in a launch of their own
  auto const runs_read = [&] {
    return std::vector{numbers("offsets", groups.offsets, (u + 1) * 4 + chunks), numbers("order", groups.order, n * 4 + chunks),
                       numbers("inverse", groups.inverse, chunks), part("gradients", gradients, n * row_bytes, 0)};
  };
  auto const updated = [&](std::size_t slots) {
    auto parts = runs_read();
    parts.push_back(numbers("keys", groups.keys, u * 8));
    parts.push_back(part("table", table, u * row_bytes, u * row_bytes));
    for (auto* slot : {&first, &second})
      if (slots-- > 0) parts.push_back(part("slots", *slot, u * row_bytes, u * row_bytes));
      else break;
    return parts;
  };
  auto const update = [&](auto const& rule, auto const& slots, auto const& row_slots) {
    device::update_runs(nullptr, gradients.read(), groups.view(), {}, device::Scaling<float>{}, table.view(), rule, slots,
                        row_slots, scratch.data());
  };
  check("update_runs, Sgd", updated(0), [&] { update(parallax::Sgd{}.at(1), device::Slots<>{}, device::Slots<>{}); });
  check("update_runs, Adagrad", updated(1),
        [&] { update(parallax::Adagrad{}.at(1), device::Slots{first.view()}, device::Slots<>{}); });
  check("update_runs, LazyAdam", updated(2), [&] {
    update(parallax::LazyAdam{}.at(1), device::Slots{first.view(), second.view()}, device::Slots<>{});
  });
  auto parts = runs_read();
  parts.push_back(part("out", out, 0, u * row_bytes));
  check("coalesce", parts, [&] { device::coalesce(nullptr, gradients.read(), groups.view(), out.data(), scratch.data()); });
}

TEST_CASE("frequent keys cost a row more for 64 of their gradients", "[sectors]") {
  Groups groups{drawn(5)};
  double const u = groups.u();
  double later = 0;
  for (int key = 0; key < static_cast<int>(u); ++key)
    later += (groups.offsets.data()[key + 1] - groups.offsets.data()[key] - 1) / 64;
  Array<float> gradients{n * width, 1}, table{rows * width, 1}, slots{rows * width, 1},
      scratch{device::sums_scratch_bytes<float>(n, width) / 4};
  Part sums = part("later sums", scratch, later * row_bytes, later * row_bytes);
  sums.in_turn = true;
  check("update_runs, Adagrad, 5 keys",
        {part("gradients", gradients, n * row_bytes, 0), part("table", table, u * row_bytes, u * row_bytes),
         part("slots", slots, u * row_bytes, u * row_bytes), sums},
        [&] {
          device::update_runs(nullptr, gradients.read(), groups.view(), {}, device::Scaling<float>{}, table.view(),
                              parallax::Adagrad{}.at(1), device::Slots{slots.view()}, device::Slots<>{}, scratch.data());
        });
  Array<float> of_rows{rows, 1};
  check("update_runs, RowwiseAdagrad",
        {part("gradients", gradients, n * row_bytes, 0), part("table", table, u * row_bytes, u * row_bytes),
         numbers("slots", of_rows, u * 4, u * 4), sums},
        [&] {
          device::update_runs(nullptr, gradients.read(), groups.view(), {}, device::Scaling<float>{}, table.view(),
                              parallax::RowwiseAdagrad{}.at(1), device::Slots<>{}, device::Slots{of_rows.view(1)},
                              scratch.data());
        });
}

TEST_CASE("elements are touched once", "[sectors]") {
  constexpr std::size_t size = 100'000;
  constexpr double bytes = size * 4.0;
  Array<float> parameters{size, 1}, gradients{size, 1}, slots{size, 1};
  check("apply_elements, Adagrad",
        {part("parameters", parameters, bytes, bytes), part("gradients", gradients, bytes, 0),
         part("slots", slots, bytes, bytes)},
        [&] {
          device::apply_elements(nullptr, size, parameters.data(), gradients.data(), device::Scaling<float>{},
                                 parallax::Adagrad{}.at(1), slots.data());
        });
  check("add_to", {part("out", parameters, bytes, bytes), part("in", gradients, bytes, 0)},
        [&] { device::add_to(nullptr, parameters.data(), gradients.data(), size); });
  check("scale_down", {part("values", parameters, bytes, bytes)},
        [&] { device::scale_down(nullptr, parameters.data(), size, 3.0f); });
}

TEST_CASE("a batch is placed, padded and pooled by what it names", "[sectors]") {
  auto const ids = drawn(rows);
  Array<std::int64_t> indices{ids}, keys{n};
  auto const layout = parallax::Cyclic{}.layout(rows, 4);
  Array<std::int64_t> bases{std::vector<std::int64_t>{0, rows / 4, rows / 2, 3 * rows / 4, rows}};
  check("place_ids", {numbers("ids", indices, n * 8), numbers("keys", keys, 0, n * 8)}, [&] {
    device::place_ids(nullptr, indices.data(), n, layout, bases.data(), device::StackView<std::int64_t>{}, false, keys.data());
  });
  Groups groups{ids};
  double const u = groups.u();
  Array<std::uint32_t> told{7};
  parallax::RowOps<parallax::CudaSpace> const ops{parallax::CudaQueue{}};
  ops.cut_groups(groups.view(), bases.data(), 0, 1, 5, rows, {}, told.data());
  constexpr std::uint32_t capacity = 400, places = 4 * (capacity + 1);
  Array<std::int64_t> padded_keys{places};
  Array<std::uint32_t> padded_offsets{places + 1}, padded_inverse{n}, padded_distinct{1};
  Array<std::uint64_t> tally{5};
  check(
      "pad_groups",
      {numbers("keys", groups.keys, u * 8), numbers("offsets", groups.offsets, (u + 1) * 4), numbers("order", groups.order, 0),
       numbers("inverse", groups.inverse, n * 4), numbers("to keys", padded_keys, 0, places * 8.0),
       numbers("to offsets", padded_offsets, 0, (places + 1) * 4.0), numbers("to inverse", padded_inverse, 0, n * 4)},
      [&] {
        ops.pad_groups<std::int64_t>(
            groups.view(), told.data(), {4, capacity, true}, rows,
            {padded_keys.data(), padded_offsets.data(), groups.order.data(), padded_inverse.data(), padded_distinct.data(), n},
            reinterpret_cast<device::PaddingTally*>(tally.data()));
      });
  constexpr std::uint32_t bags = 300;
  std::vector<std::uint32_t> begins(bags + 1);
  for (std::uint32_t bag = 0; bag <= bags; ++bag) begins[bag] = n * bag / bags;
  Array<std::uint32_t> begin{begins};
  std::vector<std::uint32_t> numbers_of_rows(n);
  std::iota(numbers_of_rows.begin(), numbers_of_rows.end(), 0u);
  Array<std::uint32_t> row_of{numbers_of_rows};
  Array<float> pulled{n * width, 1}, pooled{bags * width};
  check("sum_term_runs",
        {numbers("begins", begin, (bags + 1) * 4), numbers("row_of", row_of, n * 4), part("rows", pulled, n * row_bytes, 0),
         part("out", pooled, 0, bags * row_bytes)},
        [&] {
          device::sum_terms(nullptr, parallax::RowTerms<float>{pulled.read(), row_of.data()}, nullptr, begin.data(), 0, bags,
                            pooled.data());
        });
}
