// What a trainer with one table on a device compiles, whose steps may be captured.
#include "parallax/comm/cuda_thread.hpp"
#include "parallax/kernel/cuda.cuh"
#include "parallax/parallax.hpp"
#include "parallax/session/capture.hpp"

namespace px = parallax;

void train(px::CudaThreadCommunicator& world, std::span<std::int32_t const> ids, std::span<float const> gradient) {
  px::Session session{world};
  px::Variable<px::Sparse, px::CudaSpace, px::Adagrad> words{session, "words", px::Table{.rows = 1'000'000, .width = 128}};
  auto const rows = session.pull(words, ids);
  session.step(px::grad(rows, gradient));
  px::capture(session, [&] { session.step(px::grad(words, ids, gradient)); }).replay();
  session.finish();
}
