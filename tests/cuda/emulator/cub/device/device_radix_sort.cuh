// Stands in for CUB's radix sort: a stable sort on the host, by the given bits of the keys. Like CUB it takes an error that an
// earlier call of the thread has left behind for one of its own, so that it finds no device; and launches on the current one.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

#include "cuda_runtime.h"

namespace emulator {
// What sorts have put in streams so far that CUB of CCCL 3.0 had done: of more keys than one block takes two memsets, two kernels, and
// a memset and a kernel for every eight bits (InvokeOnesweep in cub/device/dispatch/dispatch_radix_sort.cuh). `launches` has one each.
inline std::int64_t sort_operations = 0;
}  // namespace emulator

namespace cub {

template <class T>
struct DoubleBuffer {
  T* d_buffers[2];
  int selector = 0;

  DoubleBuffer(T* current, T* alternate) : d_buffers{current, alternate} {}
  T* Current() const { return d_buffers[selector]; }
  T* Alternate() const { return d_buffers[selector ^ 1]; }
};

struct DeviceRadixSort {
  template <class Key, class Value>
  static cudaError_t SortPairs(void* scratch, std::size_t& bytes, DoubleBuffer<Key>& keys, DoubleBuffer<Value>& values,
                               std::uint64_t n, int begin_bit, int end_bit, cudaStream_t stream = nullptr) {
    if (cudaGetLastError() != cudaSuccess) return cudaErrorInvalidDevice;
    if (!scratch) {
      bytes = 64;
      return cudaSuccess;
    }
    if (cudaError_t const error = emulator::check_launch(stream)) return error;
    emulator::enqueue(stream, [=, from = keys, with = values] {
      ++emulator::launches;
      emulator::sort_operations += 4 + 2 * ((end_bit - begin_bit + 7) / 8);
      std::vector<std::size_t> order(n);
      std::iota(order.begin(), order.end(), std::size_t{0});
      int const count = end_bit - begin_bit;
      auto const bits = [&](std::size_t i) {
        Key const shifted = from.Current()[i] >> begin_bit;
        return count < static_cast<int>(8 * sizeof(Key)) ? shifted & ((Key{1} << count) - 1) : shifted;
      };
      std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return bits(a) < bits(b); });
      for (std::size_t i = 0; i < n; ++i) {
        from.Alternate()[i] = from.Current()[order[i]];
        with.Alternate()[i] = with.Current()[order[i]];
      }
    });
    keys.selector ^= 1;
    values.selector ^= 1;
    return cudaSuccess;
  }
};

}  // namespace cub
