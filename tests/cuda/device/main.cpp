// Links a step whose kernels nvcc compiled, and where a device answers compares it with the host's, bit for bit.
#include <cstdio>
#include <cstring>
#include <random>

#include "parallax/detail/kernel/host.hpp"
#include "parallax/detail/optimizer/adagrad.hpp"
#include "step.hpp"

int main() {
  if (std::string const why = no_device(); !why.empty()) {
    std::printf("SKIPPED: no device answers: %s\n", why.c_str());
    return 77;
  }
  using Host = parallax::RowOps<parallax::HostSpace>;
  std::mt19937 random{1};
  std::uniform_real_distribution<float> uniform{-1, 1};
  int wrong = 0;
  for (std::int64_t const width : {1, 4, 33, 128})
    for (std::size_t const n : {std::size_t{1}, std::size_t{1000}, std::size_t{50'000}}) {
      std::int64_t const rows = 3000;
      std::vector<std::int32_t> keys(n);
      for (auto& key : keys) key = static_cast<std::int32_t>(random() % 4 == 0 ? 7 : random() % rows);
      std::vector<float> gradients(n * static_cast<std::size_t>(width)), table(static_cast<std::size_t>(rows * width));
      for (float& value : gradients) value = uniform(random);
      for (float& value : table) value = uniform(random);
      auto sums = table;
      for (float& value : sums) value = value < 0 ? -value : value;
      auto expected = table, expected_sums = sums;
      parallax::Grouping<std::int32_t> groups;
      parallax::SortScratch<std::int32_t> scratch;
      Host::unique_with_inverse(keys, rows, groups, scratch);
      std::vector<float> summed(groups.size() * static_cast<std::size_t>(width));
      Host::coalesce<float>({gradients.data(), static_cast<std::int64_t>(n), width}, groups, 0, groups.size(), summed.data());
      Host::apply_rows(std::span<std::int32_t const>{groups.keys.span()}, {},
                       parallax::RowsView<float>{expected.data(), rows, width}, summed.data(), 1.0f, parallax::Adagrad{}.at(1),
                       parallax::RowsView<float>{expected_sums.data(), rows, width});
      adagrad_on_device(keys, gradients, width, table, sums);
      bool const same = std::memcmp(table.data(), expected.data(), table.size() * sizeof(float)) == 0 &&
                        std::memcmp(sums.data(), expected_sums.data(), sums.size() * sizeof(float)) == 0;
      std::printf("%zu keys, width %d: %s\n", n, static_cast<int>(width), same ? "the host's bits" : "WRONG");
      wrong += !same;
    }
  return wrong ? 1 : 0;
}
