// Stands in for CUDA's <cuda_runtime.h> where kernels are compiled by g++ and run by the emulator: the language of kernels.
#pragma once

#include <algorithm>
#include <bit>
#include <cmath>

#include "cuda_runtime_api.h"
#include "emulator.hpp"

#define __global__
#define __host__
#define __device__
#define __forceinline__ inline
#define __shared__ static
#define __launch_bounds__(...)

#define threadIdx (emulator::Block::instance().running->thread_index)
#define blockIdx (emulator::Block::instance().index)
#define blockDim (emulator::Block::instance().block)
#define gridDim (emulator::Block::instance().grid)

inline void __syncthreads(emulator::Place place = emulator::Place::current()) { emulator::Block::instance().barrier(place); }
inline void __syncwarp(unsigned mask = 0xffffffffu, emulator::Place place = emulator::Place::current()) {
  emulator::Block::instance().exchange(mask, 0, "__syncwarp", place, true);
}

namespace emulator {

template <class T>
std::uint64_t word_of(T value) {
  static_assert(sizeof(T) <= 8);
  std::uint64_t word = 0;
  std::memcpy(&word, &value, sizeof value);
  return word;
}
template <class T>
T value_of(std::uint64_t word) {
  T value;
  std::memcpy(&value, &word, sizeof value);
  return value;
}
inline int lane() { return static_cast<int>(Block::instance().running->thread % 32); }

template <class T>
T shuffled(unsigned mask, T value, int from, char const* kind, Place place) {
  std::uint64_t const* const words = Block::instance().exchange(mask, word_of(value), kind, place);
  if (from < 0 || from > 31 || !(mask >> from & 1)) return value;
  return value_of<T>(words[from]);
}

}  // namespace emulator

template <class T>
T __shfl_sync(unsigned mask, T value, int from, int width = 32, emulator::Place place = emulator::Place::current()) {
  int const lane = emulator::lane();
  return emulator::shuffled(mask, value, lane / width * width + from % width, "__shfl_sync", place);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned by, int width = 32, emulator::Place place = emulator::Place::current()) {
  int const lane = emulator::lane(), from = lane - static_cast<int>(by);
  return emulator::shuffled(mask, value, from < lane / width * width ? lane : from, "__shfl_up_sync", place);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int with, int = 32, emulator::Place place = emulator::Place::current()) {
  return emulator::shuffled(mask, value, emulator::lane() ^ with, "__shfl_xor_sync", place);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, emulator::Place place = emulator::Place::current()) {
  std::uint64_t const* const words = emulator::Block::instance().exchange(mask, predicate != 0, "__ballot_sync", place);
  unsigned ballot = 0;
  for (unsigned k = 0; k < 32; ++k)
    if (mask >> k & 1) ballot |= static_cast<unsigned>(words[k]) << k;
  return ballot;
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value, emulator::Place place = emulator::Place::current()) {
  std::uint64_t const own = emulator::word_of(value);
  std::uint64_t const* const words = emulator::Block::instance().exchange(mask, own, "__match_any_sync", place);
  unsigned same = 0;
  for (unsigned k = 0; k < 32; ++k)
    if ((mask >> k & 1) && words[k] == own) same |= 1u << k;
  return same;
}

inline int __popc(unsigned x) { return std::popcount(x); }
inline int __ffs(int x) { return __builtin_ffs(x); }
template <class T>
T __ldg(T const* at) {
  return *at;
}
template <class T>
void __stwb(T* at, T value, emulator::Place place = emulator::Place::current()) {
  if (reinterpret_cast<std::uintptr_t>(at) % alignof(T) != 0) emulator::fail("a word is stored where it is not aligned", place);
  *at = value;
}
template <class T>
T atomicAdd(T* at, T value) {
  static_assert(std::is_integral_v<T>);
  return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}

// What detail/kernel/cuda/launch.cuh asks of a compiler that is not CUDA's.
namespace parallax_emulator {
template <class... P, class... A>
cudaError_t launch(cudaStream_t stream, dim3 grid, dim3 block, std::size_t shared_bytes, void (*kernel)(P...),
                   A const&... arguments) {
  if (cudaError_t const error = emulator::check_launch(stream)) return error;
  emulator::enqueue(stream, [=] { emulator::run(grid, block, shared_bytes, [&] { kernel(arguments...); }); });
  return cudaSuccess;
}
inline void* shared_memory() { return emulator::Block::instance().shared.data(); }
}  // namespace parallax_emulator
