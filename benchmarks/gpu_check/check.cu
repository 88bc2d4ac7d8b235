// check SECTION [--tiny]: the device's part of gpu_check. Sections: bits, copy, kernels. Prints one JSON object a line.
// Compiled by nvcc, or by g++ with the emulator of tests/cuda, whose times mean nothing.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <random>
#include <string_view>
#include <vector>

#include "parallax/kernel/cuda.cuh"
#if defined(__CUDACC__)
#include <thrust/execution_policy.h>

#include "parallax/detail/kernel/cuda/portable.cuh"
#endif
#include "parallax/detail/kernel/host.hpp"
#include "parallax/detail/optimizer/adagrad.hpp"
#include "parallax/detail/optimizer/adam.hpp"
#include "parallax/optimizer/sgd.hpp"
#include "shared.hpp"

namespace {

namespace device = parallax::device;
using Host = parallax::RowOps<parallax::HostSpace>;
using parallax::RowsView;
using Id = std::int32_t;
using Bytes = parallax::DeviceBuffer<std::byte>;

bool tiny = false;
cudaStream_t stream = nullptr;

template <class T>
using Array = parallax::DeviceBuffer<T>;

template <class T>
Array<T> copied(parallax::CudaPool& pool, std::vector<T> const& host) {
  Array<T> there{pool, stream, host.size()};
  there.copy_from(host.data(), host.size());
  device::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return there;
}
template <class T>
std::vector<T> back(Array<T> const& there) {
  std::vector<T> host(there.size());
  there.copy_to(host.data(), host.size());
  device::check(cudaStreamSynchronize(stream), "cudaStreamSynchronize");
  return host;
}

// The memory of a grouping of n keys below `bound`.
struct Grouped {
  Array<Id> keys;
  Array<std::uint32_t> numbers;
  Bytes scratch;
  std::uint32_t n;
  std::int64_t bound;

  Grouped(parallax::CudaPool& pool, std::uint32_t count, std::int64_t keys_below)
      : keys{pool, stream, count},
        numbers{pool, stream, 3 * std::size_t{count} + 2},
        scratch{pool, stream, device::group_keys_scratch_bytes(count, keys_below)},
        n{count},
        bound{keys_below} {}
  device::GroupingView<Id> view() {
    std::uint32_t* const at = numbers.data();
    return {keys.data(), at, at + n + 1, at + 2 * std::size_t{n} + 1, at + 3 * std::size_t{n} + 1, n};
  }
  void group(Id const* ids) { device::group_keys(stream, ids, bound, view(), scratch.data()); }
  std::uint32_t distinct() { return back(numbers)[3 * std::size_t{n} + 1]; }
};

// ---- the same by Thrust ----

#if !defined(__CUDACC__)
constexpr bool has_thrust = false;
#else
constexpr bool has_thrust = true;

// What Thrust's sorts and scans need for themselves.
struct FromPool {
  using value_type = char;
  parallax::CudaPool* pool;

  char* allocate(std::ptrdiff_t bytes) {
    return static_cast<char*>(pool->allocate(static_cast<std::size_t>(bytes), device::device_alignment, stream));
  }
  void deallocate(char* memory, std::size_t bytes) noexcept {
    pool->deallocate(memory, bytes, device::device_alignment, stream);
  }
};

// The portable operations on keys and rows in device memory.
struct ByThrust {
  FromPool memory;
  Array<Id> sorted;
  Array<std::uint32_t> numbers;

  ByThrust(parallax::CudaPool& pool, std::uint32_t n) : memory{&pool}, sorted{pool, stream, n}, numbers{pool, stream, n} {}
  auto policy() { return thrust::cuda::par_nosync(memory).on(stream); }

  void group(Id const* ids, device::GroupingView<Id> const& groups) {
    device::portable::group_keys(policy(), ids, groups, sorted.data(), numbers.data());
  }
  void gather(RowsView<float const> table, Id const* ids, std::uint32_t n, float* out) {
    device::portable::gather_rows(policy(), table, ids, n, {}, out);
  }
  template <class Rule>
  void update(RowsView<float const> values, device::GroupingView<Id> const& groups, RowsView<float> table, Rule const& rule,
              float* slot) {
    device::portable::update_runs(policy(), values, groups, {}, table, rule, slot);
  }
};
#endif

// ---- bits ----

template <class O>
bool same_bits(parallax::CudaPool& pool, O const& optimizer, std::uint32_t n, std::int64_t width,
               std::string_view distribution) {
  std::int64_t const rows = tiny ? 50 : 20'000;
  std::mt19937_64 random{n};
  std::uniform_real_distribution<float> uniform{-1, 1};
  auto const drawn = [&](std::int64_t count) {
    std::vector<float> all(static_cast<std::size_t>(count));
    for (float& x : all) x = uniform(random);
    return all;
  };
  auto const ids = gpu_check::drawn_ids<Id>(n, rows, distribution, n);
  auto const gradients = drawn(n * width);
  auto table = drawn(rows * width);
  std::vector<float> const first(table.size(), 0.5f);
  auto slots = std::vector<std::vector<float>>(O::element_slots::count, first);
  auto const rule = optimizer.at(3);

  auto const on_device = [&]([[maybe_unused]] bool by_thrust) {
    auto const there_ids = copied(pool, ids);
    auto const there_gradients = copied(pool, gradients);
    auto there = copied(pool, table);
    std::vector<Array<float>> state;
    for (auto const& slot : slots) state.push_back(copied(pool, slot));
    Grouped groups{pool, n, rows};
    Bytes scratch{pool, stream, device::sums_scratch_bytes<float>(n, width)};
    groups.group(there_ids.data());
    RowsView<float const> const values{there_gradients.data(), n, width};
    RowsView<float> const view{there.data(), rows, width};
    auto const slot = [&](std::size_t k) { return RowsView<float>{state[k].data(), rows, width}; };
    auto const update = [&](auto const& given) {
      device::update_runs(stream, values, groups.view(), {}, {}, view, rule, given, device::Slots<>{}, scratch.data());
    };
#if defined(__CUDACC__)
    if constexpr (O::element_slots::count < 2)
      if (by_thrust) {
        ByThrust portable{pool, n};
        portable.group(there_ids.data(), groups.view());
        portable.update(values, groups.view(), view, rule, state.empty() ? nullptr : state[0].data());
        std::vector<std::vector<float>> result{back(there)};
        for (auto const& each : state) result.push_back(back(each));
        return result;
      }
#endif
    if constexpr (O::element_slots::count == 0) update(device::Slots<>{});
    else if constexpr (O::element_slots::count == 1) update(device::Slots{slot(0)});
    else update(device::Slots{slot(0), slot(1)});
    std::vector<std::vector<float>> result{back(there)};
    for (auto const& each : state) result.push_back(back(each));
    return result;
  };
  auto const once = on_device(false), again = on_device(false);
  bool const same_by_thrust = !has_thrust || on_device(true) == once;

  parallax::Grouping<Id> groups;
  parallax::SortScratch<Id> scratch;
  Host::unique_with_inverse(ids, rows, groups, scratch);
  std::vector<float> sums(groups.size() * static_cast<std::size_t>(width));
  Host::coalesce<float>({gradients.data(), n, width}, groups, 0, groups.size(), sums.data());
  std::span<Id const> const keys{groups.keys.data(), groups.size()};
  RowsView<float> const view{table.data(), rows, width};
  auto const slot = [&](std::size_t k) { return RowsView<float>{slots[k].data(), rows, width}; };
  if constexpr (O::element_slots::count == 0) Host::apply_rows(keys, {}, view, sums.data(), 1.0f, rule);
  else if constexpr (O::element_slots::count == 1) Host::apply_rows(keys, {}, view, sums.data(), 1.0f, rule, slot(0));
  else Host::apply_rows(keys, {}, view, sums.data(), 1.0f, rule, slot(0), slot(1));
  bool same = std::memcmp(once[0].data(), table.data(), table.size() * sizeof(float)) == 0;
  for (std::size_t k = 0; k < slots.size(); ++k)
    same = same && std::memcmp(once[k + 1].data(), slots[k].data(), table.size() * sizeof(float)) == 0;
  std::printf(
      "{\"optimizer\": \"%s\", \"ids\": %u, \"width\": %d, \"distribution\": \"%.*s\", \"host_bits\": %s, \"same_again\": "
      "%s%s}\n",
      parallax::optimizer_name<O>().c_str(), n, static_cast<int>(width), static_cast<int>(distribution.size()),
      distribution.data(), same ? "true" : "false", once == again ? "true" : "false",
      !has_thrust || O::element_slots::count > 1 ? "" : same_by_thrust ? ", \"thrust_bits\": true" : ", \"thrust_bits\": false");
  return same && once == again && same_by_thrust;
}

bool bits(parallax::CudaPool& pool) {
  bool all = true;
  std::vector<std::uint32_t> const counts =
      tiny ? std::vector<std::uint32_t>{1, 300} : std::vector<std::uint32_t>{1, 2500, 8193, 200'000};
  for (std::uint32_t const n : counts)
    for (std::int64_t const width : tiny ? std::vector<std::int64_t>{3, 32} : std::vector<std::int64_t>{1, 3, 32, 128, 1025})
      for (std::string_view const distribution : {"uniform", "zipf", "hot"}) {
        if (n * width > 100'000'000) continue;
        all = same_bits(pool, parallax::Sgd{}, n, width, distribution) && all;
        all = same_bits(pool, parallax::Adagrad{}, n, width, distribution) && all;
        all = same_bits(pool, parallax::LazyAdam{}, n, width, distribution) && all;
      }
  return all;
}

// ---- times ----

// What `run` puts in the stream, captured once, for a host that would take longer to launch it than the device to do it.
class Graph {
 public:
  template <class F>
  explicit Graph(F const& run) {
    cudaGraph_t graph = nullptr;
    device::check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
    run();
    device::check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
    device::check(cudaGraphInstantiateWithFlags(&captured_, graph, 0), "cudaGraphInstantiateWithFlags");
    static_cast<void>(cudaGraphDestroy(graph));
  }
  Graph(Graph const&) = delete;
  Graph& operator=(Graph const&) = delete;
  ~Graph() { static_cast<void>(cudaGraphExecDestroy(captured_)); }
  void replay() const { device::check(cudaGraphLaunch(captured_, stream), "cudaGraphLaunch"); }

 private:
  cudaGraphExec_t captured_ = nullptr;
};

// Microseconds of `run`, each time apart, after two that do not count.
template <class F>
std::vector<double> times(int samples, F const& run) {
  cudaEvent_t begin = nullptr, end = nullptr;
  device::check(cudaEventCreateWithFlags(&begin, cudaEventDefault), "cudaEventCreateWithFlags");
  device::check(cudaEventCreateWithFlags(&end, cudaEventDefault), "cudaEventCreateWithFlags");
  std::vector<double> all;
  for (int i = -2; i < samples; ++i) {
    device::check(cudaEventRecord(begin, stream), "cudaEventRecord");
    run(i & 1);
    device::check(cudaEventRecord(end, stream), "cudaEventRecord");
    device::check(cudaEventSynchronize(end), "cudaEventSynchronize");
    float milliseconds = 0;
    device::check(cudaEventElapsedTime(&milliseconds, begin, end), "cudaEventElapsedTime");
    if (i >= 0) all.push_back(1000 * static_cast<double>(milliseconds));
  }
  static_cast<void>(cudaEventDestroy(begin));
  static_cast<void>(cudaEventDestroy(end));
  return all;
}
// The same of the device alone: by replaying graphs of both forms of `run`.
template <class F>
std::vector<double> times_of_graph(int samples, F const& run) {
  Graph const of[2] = {Graph{[&] { run(0); }}, Graph{[&] { run(1); }}};
  return times(samples, [&](int k) { of[k].replay(); });
}

void print_times(char const* kernel, std::size_t ids, std::int64_t width, std::string_view distribution, double bytes,
                 std::vector<double> const& us) {
  gpu_check::print_object("\"kernel\": " + gpu_check::json_string(kernel) + ", \"ids\": " + std::to_string(ids) +
                          ", \"width\": " + std::to_string(width) +
                          ", \"distribution\": " + gpu_check::json_string(distribution) +
                          ", \"bytes\": " + std::to_string(std::llround(bytes)) + ", " + gpu_check::times_text(us));
}

void copy(parallax::CudaPool& pool) {
  std::size_t const bytes = tiny ? 1 << 16 : std::size_t{2} << 30;
  Bytes from{pool, stream, bytes}, to{pool, stream, bytes};
  device::check(cudaMemsetAsync(from.data(), 1, bytes, stream), "cudaMemsetAsync");
  auto const us = times(tiny ? 3 : 20, [&](int) {
    device::check(cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, stream), "cudaMemcpyAsync");
  });
  print_times("copy", bytes, 1, "", 2.0 * static_cast<double>(bytes), us);
}

// Of few ids by graphs, which the host launches in no time.
void kernels_of(parallax::CudaPool& pool, std::uint32_t n, std::int64_t width, std::string_view distribution) {
  bool const by_graph = n <= 40'000;
  int const samples = tiny ? 3 : 21;
  double const row = static_cast<double>(width) * sizeof(float);
  std::int64_t const rows = tiny ? 1000 : std::min<std::int64_t>((std::int64_t{4} << 30) / (width * 4), std::int64_t{1} << 25);
  auto const elements = static_cast<std::size_t>(rows * width);
  Array<float> table{pool, stream, elements}, state{pool, stream, elements};
  Array<float> gradients{pool, stream, n * static_cast<std::size_t>(width)},
      out{pool, stream, n * static_cast<std::size_t>(width)};
  for (auto* const array : {&table, &state, &gradients})
    device::check(cudaMemsetAsync(array->data(), 0x3d, array->size() * sizeof(float), stream), "cudaMemsetAsync");
  Array<Id> const ids[2] = {copied(pool, gpu_check::drawn_ids<Id>(n, rows, distribution, 1)),
                            copied(pool, gpu_check::drawn_ids<Id>(n, rows, distribution, 2))};
  Grouped grouped[2] = {{pool, n, rows}, {pool, n, rows}};
  Bytes scratch{pool, stream, device::sums_scratch_bytes<float>(n, width)};
  for (int k : {0, 1}) grouped[k].group(ids[k].data());
  double const u = grouped[0].distinct();
  RowsView<float const> const values{gradients.data(), n, width};
  RowsView<float> const view{table.data(), rows, width}, sums{state.data(), rows, width};
  auto const report = [&](char const* kernel, double bytes, auto const& run) {
    print_times(kernel, n, width, distribution, bytes, by_graph ? times_of_graph(samples, run) : times(samples, run));
  };
  auto const adagrad = [&](int k) {
    device::update_runs(stream, values, grouped[k].view(), {}, {}, view, parallax::Adagrad{}.at(1), device::Slots{sums},
                        device::Slots<>{}, scratch.data());
  };
  report("gather", n * (2 * row + sizeof(Id)), [&](int k) {
    device::gather_rows<float, Id>(stream, view, {ids[k].data(), n}, {}, out.data());
  });
  report("group", 0, [&](int k) { grouped[k].group(ids[k].data()); });
  report("scatter", u * (2 * row + sizeof(Id)), [&](int k) {
    device::scatter_rows<float, Id>(stream, view, {grouped[k].keys.data(), n}, {}, out.data(), grouped[k].view().distinct);
  });
  report("update_sgd", n * (row + 4) + u * (2 * row + 12), [&](int k) {
    device::update_runs(stream, values, grouped[k].view(), {}, {}, view, parallax::Sgd{}.at(1), device::Slots<>{},
                        device::Slots<>{}, scratch.data());
  });
  report("update_adagrad", n * (row + 4) + u * (4 * row + 12), adagrad);
#if defined(__CUDACC__)
  if ((n == 250'000 || n == 1'000'000) && (width == 32 || width == 128 || width == 1024)) {
    ByThrust portable{pool, n};
    report("thrust_gather", n * (2 * row + sizeof(Id)), [&](int k) { portable.gather(view, ids[k].data(), n, out.data()); });
    report("thrust_group", 0, [&](int k) { portable.group(ids[k].data(), grouped[k].view()); });
    report("thrust_update_adagrad", n * (row + 4) + u * (4 * row + 12), [&](int k) {
      portable.update(values, grouped[k].view(), view, parallax::Adagrad{}.at(1), state.data());
    });
  }
#endif
  report("group_and_adagrad", n * (row + 4) + u * (4 * row + 12), [&](int k) {
    grouped[k].group(ids[k].data());
    adagrad(k);
  });
}

void kernels(parallax::CudaPool& pool) {
  std::vector<std::uint32_t> const counts =
      tiny ? std::vector<std::uint32_t>{100} : std::vector<std::uint32_t>{2500, 40'000, 250'000, 1'000'000};
  for (std::int64_t const width : tiny ? std::vector<std::int64_t>{32} : std::vector<std::int64_t>{32, 64, 128, 512, 1024})
    for (std::uint32_t const n : counts)
      for (std::string_view const distribution : {"uniform", "zipf", "hot"}) kernels_of(pool, n, width, distribution);
}

}  // namespace

int main(int argc, char** argv) {
  std::string_view const section = argc > 1 ? argv[1] : "";
  tiny = argc > 2 && std::string_view{argv[2]} == "--tiny";
  if (!gpu_check::device_answers()) return 77;
  device::check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  int result = 2;
  {
    parallax::CudaPool pool;  // for all cases: what it has mapped once it keeps
    if (section == "bits") result = bits(pool) ? 0 : 1;
    else if (section == "copy") result = 0, copy(pool);
    else if (section == "kernels") result = 0, kernels(pool);
  }
  static_cast<void>(cudaStreamDestroy(stream));
  return result;
}
