// Kernels captured in a graph, and replayed on other contents: what is launched by hand has the same bits.
#include <cuda_runtime.h>

#include <cstdint>
#include <vector>

#include "../catch.hpp"
#include "cases.hpp"
#include "parallax/detail/optimizer/adagrad.hpp"
#include "parallax/kernel/cuda.cuh"
#include "parallax/memory/cuda.hpp"

namespace device = parallax::device;

namespace {

constexpr std::uint32_t count = 300;
constexpr std::int64_t rows = 40, width = 12;

// A table, its slots, and a batch of ids and gradients, in memory of which a graph knows the places.
struct Batch {
  std::vector<int> ids = std::vector<int>(count);
  std::vector<float> gradients = std::vector<float>(count * width), table = std::vector<float>(rows * width, 1),
                     slots = std::vector<float>(rows * width, 0.5f);

  void draw(cases::Draw& draw) {
    for (int& id : ids) id = static_cast<int>(draw.below(rows));
    for (float& gradient : gradients) gradient = static_cast<float>(draw.below(2001)) / 500 - 2;
  }
};

// Groups a batch's ids, sums its gradients and updates the table, with scratch of one block of memory.
class Update {
 public:
  explicit Update(Batch& batch)
      : batch_{batch},
        scratch_{device::group_keys_scratch_bytes(count, rows)},
        sums_(device::sums_scratch_bytes<float>(count, width)) {}
  void put(cudaStream_t stream) {
    device::GroupingView<int> const view{keys_.data(), offsets_.data(), order_.data(), inverse_.data(), &distinct_, count};
    device::group_keys(stream, batch_.ids.data(), rows, view, scratch_.memory);
    device::update_runs(stream, parallax::RowsView<float const>{batch_.gradients.data(), count, width}, view, {}, {},
                        parallax::RowsView<float>{batch_.table.data(), rows, width}, parallax::Adagrad{}.at(1),
                        device::Slots{parallax::RowsView<float>{batch_.slots.data(), rows, width}}, device::Slots<>{},
                        sums_.data());
  }

 private:
  Batch& batch_;
  std::vector<int> keys_ = std::vector<int>(count);
  std::vector<std::uint32_t> offsets_ = std::vector<std::uint32_t>(count + 1), order_ = std::vector<std::uint32_t>(count),
                             inverse_ = std::vector<std::uint32_t>(count);
  std::uint32_t distinct_ = 0;
  cases::Scratch scratch_;
  std::vector<std::byte> sums_;
};

}  // namespace

TEST_CASE("what kernels put in a stream is captured once and replayed on other ids and gradients", "[cuda][graph]") {
  cases::Draw draw{"graph", 5};
  draw.next();
  parallax::CudaStream const stream;
  Batch replayed, launched;
  Update captured{replayed}, by_hand{launched};
  cudaGraph_t graph = nullptr;
  cudaGraphExec_t exec = nullptr;
  auto const allocations = emulator::allocations;
  REQUIRE(cudaStreamBeginCapture(stream.get(), cudaStreamCaptureModeThreadLocal) == cudaSuccess);
  captured.put(stream.get());
  CHECK(cudaStreamSynchronize(stream.get()) == cudaErrorStreamCaptureUnsupported);
  CHECK(cudaGetLastError() == cudaErrorStreamCaptureUnsupported);
  REQUIRE(cudaStreamEndCapture(stream.get(), &graph) == cudaSuccess);
  REQUIRE(cudaGraphInstantiateWithFlags(&exec, graph, 0) == cudaSuccess);
  CHECK(emulator::allocations == allocations);
  CHECK(replayed.table == std::vector<float>(rows * width, 1));  // nothing has run yet
  for (std::size_t step = 0; step < draw.count(); ++step) {
    replayed.draw(draw);
    launched.ids = replayed.ids, launched.gradients = replayed.gradients;
    by_hand.put(stream.get());
    REQUIRE(cudaGraphLaunch(exec, stream.get()) == cudaSuccess);
    REQUIRE(cudaStreamSynchronize(stream.get()) == cudaSuccess);
    CHECK(cases::same_bits(replayed.table, launched.table));
    CHECK(cases::same_bits(replayed.slots, launched.slots));
  }
  CHECK_FALSE(cases::same_bits(replayed.table, std::vector<float>(rows * width, 1)));
  CHECK(cudaGraphExecDestroy(exec) == cudaSuccess);
  CHECK(cudaGraphDestroy(graph) == cudaSuccess);
}
