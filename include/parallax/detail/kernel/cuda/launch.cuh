// The launch of kernels, on a stream and in no other way, and the few constants of the machine for the planning of grids. Every
// launcher of the room goes through it.
#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <type_traits>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/memory/cuda.hpp"

// Mark of a loop already written out as far as it should be: device compilers unroll it no further, at a cost of registers.
#if defined(__CUDACC__)
#define PARALLAX_DETAIL_AS_WRITTEN _Pragma("unroll 1")
#else
#define PARALLAX_DETAIL_AS_WRITTEN
#endif

namespace parallax::inline v0_2::device {

// Threads of a warp, on every CUDA device so far.
inline constexpr unsigned warp_lanes = 32;
inline constexpr unsigned block_threads = 256;  // of most kernels
// Returns the blocks that a multiprocessor has room for, at least, of kernels that sum or update `pack` neighbouring elements a
// thread, in C. They use at most 64 registers, or 80 for doubles, for packs of 16-bit numbers, each of them a float by then,
// for elements `stored` in fewer bytes, and for `large` rules.
template <class C>
constexpr unsigned resident_blocks(int pack, std::size_t stored = sizeof(C), bool large = false) {
  return pack > 4 || sizeof(C) > 4 || stored < sizeof(C) || large ? 3 : 4;
}

// Launches a kernel of `blocks` blocks on a stream, nothing without blocks, and returns at once. Called by the launchers, on
// the host. Throws Error (device) if the launch fails. A kernel's own fault shows later, in a call that waits. Another compiler
// than CUDA's finds a `<cuda_runtime.h>` that runs kernels on the host (tests/cuda/emulator).
template <class... P>
void launch(cudaStream_t stream, unsigned blocks, unsigned threads, std::size_t shared_bytes, void (*kernel)(P...),
            std::type_identity_t<P>... arguments) {
  if (blocks == 0) return;
#if defined(__CUDACC__)
  void* pointers[] = {&arguments...};
  check(cudaLaunchKernel(reinterpret_cast<void const*>(kernel), dim3{blocks}, dim3{threads}, pointers, shared_bytes, stream),
        "cudaLaunchKernel");
#else
  check(parallax_emulator::launch(stream, blocks, threads, shared_bytes, kernel, arguments...), "cudaLaunchKernel");
#endif
}

namespace detail {

// Returns the dynamic shared memory of a block, of the size given at its launch, aligned to 16 bytes.
template <class T>
__device__ inline T* shared_memory() {
#if defined(__CUDACC__)
  extern __shared__ uint4 parallax_shared_memory[];
  return reinterpret_cast<T*>(parallax_shared_memory);
#else
  return static_cast<T*>(parallax_emulator::shared_memory());
#endif
}

// Returns a thread's number in its grid, and the number of the grid's threads: a loop's beginning and stride over elements.
__device__ inline std::uint64_t thread_number() { return std::uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline std::uint64_t thread_count() { return std::uint64_t{gridDim.x} * blockDim.x; }

// Returns a / b, rounded up: the number of blocks, tiles or steps of b for a.
PARALLAX_HOST_DEVICE constexpr std::uint64_t ceil_div(std::uint64_t a, std::uint64_t b) { return (a + b - 1) / b; }

// Returns the current device's multiprocessors; 0 if there is none. Asked of the runtime each time: it answers from memory.
inline unsigned multiprocessors() {
  int count = 0;
  if (cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, current_device()) == cudaSuccess)
    return static_cast<unsigned>(count);
  forget_last_error();  // a handled error is none of the launch behind it
  return 0;
}

// Returns the blocks for `work` blocks' worth of work, of kernels that stride over it: at most as many as fill the device
// `waves` times over at eight blocks a multiprocessor, so a device-side count below `work` leaves few blocks without any.
inline unsigned grid_for(std::uint64_t work, unsigned waves = 4) {
  return static_cast<unsigned>(std::min<std::uint64_t>(work, std::max(1u, multiprocessors() * 8 * waves)));
}

// Launches a kernel that strides over `work`, of which a block takes `each` at a time. Returns and throws as `launch` does.
template <class... P>
void launch_over(cudaStream_t stream, std::uint64_t work, unsigned each, void (*kernel)(P...),
                 std::type_identity_t<P>... arguments) {
  launch(stream, grid_for(ceil_div(work, each)), block_threads, 0, kernel, arguments...);
}

}  // namespace detail
}  // namespace parallax::device
