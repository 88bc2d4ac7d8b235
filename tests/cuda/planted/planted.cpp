// Programs that are wrong on purpose, one a name: what finds such mistakes in kernels and streams must find these.
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <vector>

#include "parallax/detail/kernel/cuda/rows.cuh"

namespace {

namespace device = parallax::device;
constexpr unsigned threads = 64;

// Turns 64 numbers around, by way of shared memory.
template <bool waits>
__global__ void turn_around(int const* in, int* out) {
  __shared__ int held[threads];
  held[threadIdx.x] = in[threadIdx.x];
  if (waits) __syncthreads();
  out[threadIdx.x] = held[threads - 1 - threadIdx.x];
}
// Its first half waits for the second one, which does not come.
__global__ void half_waits(int* out) {
  if (threadIdx.x < threads / 2) __syncthreads();
  out[threadIdx.x] = 1;
}
// Lanes hand numbers on by shared memory. A shuffle lets none go on before the others, and puts nothing in order.
template <bool waits>
__global__ void hand_on(int* out) {
  __shared__ int held[threads];
  held[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (waits) __syncwarp();
  int const next = __shfl_sync(0xffffffffu, static_cast<int>(threadIdx.x), static_cast<int>((threadIdx.x + 1) % 32));
  out[threadIdx.x] = held[threadIdx.x / 32 * 32 + static_cast<unsigned>(next)];
}
// Halves of a warp wait in different places.
__global__ void lanes_part(int* out) {
  if (threadIdx.x % 2) out[threadIdx.x] = __shfl_sync(0xffffffffu, 1, 0);
  else out[threadIdx.x] = static_cast<int>(__ballot_sync(0xffffffffu, 1));
}

// Every block adds its number to what the block before it has left behind: a block that comes earlier finds nothing.
__global__ void sum_from_block_to_block(int* sums) {
  sums[blockIdx.x] = static_cast<int>(blockIdx.x) + (blockIdx.x > 0 ? sums[blockIdx.x - 1] : 0);
}
// Moves elements in packs, wherever they begin.
__global__ void copy_in_packs(float const* in, float* out) { device::detail::store<4>(out, device::detail::load<4>(in)); }

template <bool waits>
void turn() {
  std::vector<int> in(threads), out(threads);
  for (unsigned i = 0; i < threads; ++i) in[i] = static_cast<int>(i);
  device::launch(nullptr, 1, threads, 0, turn_around<waits>, in.data(), out.data());
  std::printf("turned around: %d\n", out[0] == static_cast<int>(threads) - 1 && out[threads - 1] == 0);
}

// A table that is a row shorter than it says.
void read_beyond() {
  std::vector<float> table(3 * 4), out(2 * 4);
  std::vector<int> const indices{0, 3};
  device::gather_rows<float, int>(nullptr, parallax::RowsView<float const>{table.data(), 4, 4}, indices, {}, out.data());
}

// How often it is wrong in 100 launches.
void blocks() {
  int wrong = 0;
  for (int i = 0; i < 100; ++i) {
    std::vector<int> sums(8, -1000);
    device::launch(nullptr, 8, 1, 0, sum_from_block_to_block, sums.data());
    wrong += sums[7] != 28;
  }
  std::printf("wrong in %d of 100 launches\n", wrong);
}

// A pack is read and written so many elements behind a multiple of its size.
void packs(std::size_t from, std::size_t to) {
  std::signal(SIGILL, [](int) {
    std::fputs("a pack is read where it is not aligned\n", stderr);
    std::_Exit(70);
  });
  alignas(16) float in[8] = {1, 2, 3, 4, 5, 6, 7, 8}, out[8] = {};
  device::launch(nullptr, 1, 1, 0, copy_in_packs, static_cast<float const*>(in) + from, out + to);
  std::printf("a pack is copied: %d\n", out[to + 3] == in[from + 3]);
}

// Memory that is given back: once, again in the order of a stream, again at once, and without having been taken.
void give_back(std::string_view what) {
  emulator::deferred = true;
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  void* memory = nullptr;
  cudaMallocAsync(&memory, 8, stream);
  if (what != "never_taken") cudaFreeAsync(memory, stream);
  if (what == "freed_twice") cudaFreeAsync(memory, stream);
  if (what == "freed_both_ways") cudaFree(memory);
  if (what == "never_taken") cudaFree(static_cast<char*>(memory) + 4);
  cudaStreamSynchronize(stream);
  if (what == "freed_later") cudaFreeAsync(memory, stream);
  std::printf("given back: %d\n", emulator::blocks_in_use == 0);
}

// A copy in a stream that is destroyed: it is waited for, or it is not, or it is put there afterwards.
void destroy(std::string_view what) {
  emulator::deferred = true;
  int const from = 1;
  int to = 0;
  cudaStream_t stream = nullptr;
  cudaEvent_t copied = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  cudaEventCreateWithFlags(&copied, cudaEventDisableTiming);
  if (what != "destroyed_before") cudaMemcpyAsync(&to, &from, sizeof to, cudaMemcpyDeviceToHost, stream);
  cudaEventRecord(copied, stream);
  cudaStreamDestroy(stream);
  if (what == "destroyed_before") cudaMemcpyAsync(&to, &from, sizeof to, cudaMemcpyDeviceToHost, stream);
  if (what != "destroyed_for_a_wait") cudaEventSynchronize(copied);
  std::printf("copied: %d\n", to);
  cudaEventDestroy(copied);
}

// Rows are gathered on one stream from a table that another stream copies to the device. How often the result is wrong in 100
// orders that streams may run in.
template <bool waits>
void two_streams() {
  std::vector<float> table(8), there(8), out(8);
  std::vector<int> const indices{1, 0};
  for (std::size_t i = 0; i < table.size(); ++i) table[i] = static_cast<float>(i);
  emulator::deferred = true;
  int wrong = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    emulator::stream_seed = seed;
    cudaStream_t copies, kernels;
    cudaEvent_t copied;
    cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&kernels, cudaStreamNonBlocking);
    cudaEventCreateWithFlags(&copied, cudaEventDisableTiming);
    std::memset(there.data(), 0xCD, there.size() * sizeof(float));
    cudaMemcpyAsync(there.data(), table.data(), table.size() * sizeof(float), cudaMemcpyHostToDevice, copies);
    cudaEventRecord(copied, copies);
    if (waits) cudaStreamWaitEvent(kernels, copied);
    device::gather_rows<float, int>(kernels, parallax::RowsView<float const>{there.data(), 2, 4}, indices, {}, out.data());
    cudaStreamSynchronize(kernels);
    wrong += out != std::vector<float>{4, 5, 6, 7, 0, 1, 2, 3};
    cudaStreamDestroy(kernels);
    cudaStreamDestroy(copies);
    cudaEventDestroy(copied);
  }
  std::printf("wrong in %d of 100 schedules\n", wrong);
}

}  // namespace

int main(int argc, char** argv) {
  std::string_view const what = argc > 1 ? argv[1] : "";
  std::vector<int> out(threads);
  if (what == "barrier") turn<true>();
  else if (what == "no_barrier" || what == "no_barrier_told") turn<false>();
  else if (what == "range") read_beyond();
  else if (what == "wait") two_streams<true>();
  else if (what == "no_wait") two_streams<false>();
  else if (what == "half_waits") device::launch(nullptr, 1, threads, 0, half_waits, out.data());
  else if (what == "blocks" || what == "blocks_told") blocks();
  else if (what == "packs") packs(0, 0);
  else if (what == "odd_load") packs(1, 0);
  else if (what == "odd_store") packs(0, 1);
  else if (what.starts_with("freed") || what == "never_taken") give_back(what);
  else if (what.starts_with("destroyed")) destroy(what);
  else if (what == "missed") static_cast<void>(cudaSetDevice(emulator::devices));
  else if (what == "no_blocks") emulator::run(0, 1, 0, [] {});
  else if (what == "lanes_hand_on") device::launch(nullptr, 1, threads, 0, hand_on<true>, out.data());
  else if (what == "lanes_do_not_wait") device::launch(nullptr, 1, threads, 0, hand_on<false>, out.data());
  else if (what == "lanes_part") device::launch(nullptr, 1, threads, 0, lanes_part, out.data());
  else return 2;
}
