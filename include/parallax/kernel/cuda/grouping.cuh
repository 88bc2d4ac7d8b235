// What a grouping of keys is on a CUDA device.
#pragma once

#include <cstdint>

namespace parallax::cuda {

// Does not own. `Grouping` (kernel/row_ops.hpp) in device memory: n keys grouped by value, u distinct ones. u is known on the
// device alone, until somebody copies it; all arrays have room for u = n.
template <class Index>
struct Groups {
  Index* keys = nullptr;              // u of n: the distinct keys, ascending
  std::uint32_t* offsets = nullptr;   // u + 1 of n + 1: where each key's run begins in `order`
  std::uint32_t* order = nullptr;     // n: positions of the keys, run after run, ascending within a run
  std::uint32_t* inverse = nullptr;   // n: position -> number of its distinct key
  std::uint32_t* distinct = nullptr;  // 1: u
  std::uint32_t count = 0;            // n
};

}  // namespace parallax::cuda
