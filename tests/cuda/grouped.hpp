// A grouping in memory of exactly the size that it may need.
#pragma once

#include <cstdint>
#include <vector>

#include "cases.hpp"
#include "parallax/detail/kernel/cuda/sort.cuh"

namespace cases {

// A grouping whose arrays are as long as they must be and no longer.
template <class Index>
struct Grouped {
  std::vector<Index> keys;
  std::vector<std::uint32_t> offsets, order, inverse;
  std::uint32_t distinct = 0xCDCDCDCD;

  explicit Grouped(std::vector<Index> const& all, std::int64_t bound)
      : keys(all.size()), offsets(all.size() + 1), order(all.size()), inverse(all.size()) {
    Scratch const scratch{parallax::device::group_keys_scratch_bytes(all.size(), bound)};
    parallax::device::group_keys(nullptr, all.data(), bound, view(), scratch.memory);
  }
  parallax::device::GroupingView<Index> view() {
    return {keys.data(), offsets.data(), order.data(), inverse.data(), &distinct, static_cast<std::uint32_t>(inverse.size())};
  }
};

}  // namespace cases
