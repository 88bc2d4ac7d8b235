// What the programs beside this one get wrong with devices, done right.
#include <cstdint>
#include <span>
#include <vector>

#include <parallax/comm/staged.hpp>
#include <parallax/kernel/cuda/row_ops.hpp>
#include <parallax/parallax.hpp>
#include <parallax/session/capture.hpp>
#include "../../benchmarks/baseline/naive_ps.hpp"

namespace px = parallax;

template <class C>
void train(C& world, std::span<float> parameters, std::span<float const> gradient, std::span<float const> rows_gradient) {
  px::Session session{world};
  px::Variable<px::Dense, px::CudaSpace, px::PsShard, px::Adam> layer{session, "layer", px::bind(parameters)};
  px::Variable<px::Sparse, px::CudaSpace> words{session, "words", {.rows = 4, .width = 2}};
  px::Variable<px::Sparse, px::CudaSpace, px::AllReduce, px::Adam> all{session, "all", {.rows = 4, .width = 2}};
  px::Variable<px::Sparse, baseline::NaivePs, px::RowwiseAdagrad, px::CudaSpace> naive{session, "naive", {.rows = 4, .width = 2}};
  std::vector<std::int64_t> const ids{1, 3};
  auto const [rows, more] = session.pull(words.at(ids), all.at(ids));
  session.start(px::grad(layer, gradient));
  session.step(px::grad(rows, rows_gradient), px::grad(more, rows_gradient), px::grad(naive, ids, rows_gradient));
  auto captured = px::capture(session, [&] { session.step(px::grad(layer, gradient)); });
  captured.replay();
  std::vector<float> memory(8);
  px::Variable<px::Dense> on_host{session, "on host", px::bind(memory)};
  px::Accumulator sums{on_host};
  session.finish();
}
template void train(px::Staged<px::SelfCommunicator>&, std::span<float>, std::span<float const>, std::span<float const>);
