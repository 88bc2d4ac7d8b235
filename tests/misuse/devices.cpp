// Variables on a CUDA device, and what is of the host alone.
#include <span>
#include <utility>

#include "world.hpp"

#include <parallax/kernel/cuda/row_ops.hpp>

using Layer = px::Variable<px::Dense, px::CudaSpace>;
using Words = px::Variable<px::Sparse, px::CudaSpace>;

#if defined(accumulator_of_a_device_table)
// expect: parallax: an Accumulator sums on the host: give a device's updates to `start`
void train(Words const& words) { px::Accumulator sums{words}; }
#elif defined(accumulator_of_a_device_variable)
// expect: parallax: an Accumulator sums on the host: give a device's updates to `start`
void train(Layer const& layer) { px::Accumulator sums{layer}; }
#elif defined(capture_of_a_host_step)
// expect: parallax: a step is captured of a session on a CUDA device, as over NcclCommunicator
#include <parallax/session/capture.hpp>
auto captured = px::capture(session, [] {});
#elif defined(device_offsets_of_host_indices)
// expect: parallax: offsets of bags lie in device memory only where the indices do: px::on_device of both
void name(Words const& words, std::vector<int> const& ids, std::span<int const> offsets) {
  words.bags(ids, px::on_device(offsets));
}
#elif defined(device_table_over_threads_of_a_host)
// expect: parallax: this communicator carries no memory of the variable's space: take one that does
#include <parallax/comm/thread.hpp>
void train(px::ThreadCommunicator& threads) {
  px::Session of_threads{threads};
  Words words{of_threads, "words", {.rows = 4, .width = 2}};
}
#elif defined(device_variable_over_a_host)
// expect: parallax: this communicator carries no memory of the variable's space: take one that does
Layer layer{session, "layer", px::bind(std::span<float>{})};
#elif defined(editable_rows_on_a_device)
// expect: parallax: rows are edited in the host's memory, and these are a device's
using Edited = px::Variable<px::Sparse, px::CudaSpace, px::Subtract>;
void train(px::PulledRows<Edited::State>& rows) { std::move(rows).editable(); }
#endif
