// The kernels of a table's update, instantiated for one optimizer.
#include "step.hpp"

#include "parallax/detail/optimizer/adagrad.hpp"
#include "parallax/kernel/cuda.cuh"

std::string no_device() {
  int count = 0;
  cudaError_t const status = cudaGetDeviceCount(&count);
  if (status != cudaSuccess) return std::string{cudaGetErrorName(status)} + ": " + cudaGetErrorString(status);
  return count > 0 ? "" : "there are none";
}

void adagrad_on_device(std::vector<std::int32_t> const& keys, std::vector<float> const& gradients, std::int64_t width,
                       std::vector<float>& table, std::vector<float>& sums) {
  namespace device = parallax::device;
  using parallax::DeviceBuffer;
  using parallax::RowsView;
  cudaStream_t stream = nullptr;
  device::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  {
    parallax::CudaPool pool;
    auto const n = static_cast<std::uint32_t>(keys.size());
    std::int64_t const rows = static_cast<std::int64_t>(table.size()) / width;
    auto const copied = [&]<class T>(std::vector<T> const& host) {
      DeviceBuffer<T> buffer{pool, stream, host.size()};
      buffer.copy_from(host.data(), host.size());
      return buffer;
    };
    auto const given = copied(keys);
    auto const values = copied(gradients);
    auto parameters = copied(table), state = copied(sums);
    DeviceBuffer<std::int32_t> distinct_keys{pool, stream, n};
    DeviceBuffer<std::uint32_t> numbers{pool, stream, 3 * std::size_t{n} + 2};
    device::GroupingView<std::int32_t> const groups{distinct_keys.data(), numbers.data(),         numbers.data() + n + 1,
                                              numbers.data() + 2 * n + 1, numbers.data() + 3 * n + 1, n};
    DeviceBuffer<std::byte> sort_scratch{pool, stream, device::group_keys_scratch_bytes(n, rows)};
    DeviceBuffer<std::byte> sums_scratch{pool, stream, device::sums_scratch_bytes<float>(n, width)};
    device::group_keys(stream, given.data(), rows, groups, sort_scratch.data());
    device::update_runs(stream, RowsView<float const>{values.data(), n, width}, groups, {}, {},
                        RowsView<float>{parameters.data(), rows, width}, parallax::Adagrad{}.at(1),
                        device::Slots{RowsView<float>{state.data(), rows, width}}, device::Slots<>{}, sums_scratch.data());
    parameters.copy_to(table.data(), table.size());
    state.copy_to(sums.data(), sums.size());
    device::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  }
  device::check(cudaStreamDestroy(stream), "cudaStreamDestroy");
}
