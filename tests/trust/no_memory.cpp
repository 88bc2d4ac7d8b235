// A training of which rank 1 has no memory any more, for good: no_memory POINT [options of run]. From the POINT-th allocation
// of the rank's body on, counted from 0, all of its thread fail. Without a point, -1, it says how many there are. no_memory.sh
// says how a job must end.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "../support/allocation_counter.hpp"
#ifdef PARALLAX_HAS_MPI
#include "parallax/comm/mpi.hpp"
#else
#include "parallax/comm/socket.hpp"
#endif
#include "parallax/comm/run.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

void train(px::AnyCommunicator& world) {
  px::Session session{world};
  std::vector<float> weights(1000, 1.0f), gradient(1000);
  px::Variable<px::Dense, px::Adam> layer{session, "layer", px::bind(weights)};
  px::Variable<px::Sparse, px::Adagrad> words{session, "words", {.rows = 500, .width = 8, .initial = px::uniform(-1, 1)}};
  px::Variable<px::Sparse, px::AllGather, px::Sgd> few{session, "few", {.rows = 40, .width = 4}};
  session.broadcast(layer);
  for (int step = 0; step < 6; ++step) {
    std::vector<int> ids;
    for (int i = 0; i < 24; ++i) ids.push_back((31 * step + 7 * i * i + 13 * world.rank()) % 500);
    auto const rows = session.pull(words, ids);
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = 0.01f * static_cast<float>(i % 7);
    auto const next = session.prefetch(words, ids);
    if (step == 3) session.start(px::grad(layer, gradient));
    if (step == 3) session.step(px::grad(rows, std::vector<float>(24 * 8, 0.5f)));
    else
      session.step(px::grad(layer, gradient), px::grad(rows, std::vector<float>(24 * 8, 0.5f)),
                   px::grad(few, std::vector{step, world.rank()}, std::vector<float>(8, 0.5f)));
  }
  session.finish();
}

}  // namespace

int main(int argc, char** argv) {
  long const point = argc > 1 ? std::atol(argv[1]) : -1;
  return px::run(argc, argv, [&](px::AnyCommunicator& world) {
    std::int64_t const before = parallax_test::news;
    if (world.rank() == 1 && point >= 0) parallax_test::failing_lasts = true, parallax_test::failing_new = point;
    train(world);
    if (world.rank() == 1 && point < 0) std::printf("allocations %ld\n", static_cast<long>(parallax_test::news - before));
  });
}
