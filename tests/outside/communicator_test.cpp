// A communicator from outside, written from README.md and docs/ alone, passes the installed suites and trains as threads do.
#include <chrono>
#include <cstddef>
#include <vector>

#include <parallax/comm/thread.hpp>
#include <parallax/conformance/communicator.hpp>
#include <parallax/parallax.hpp>

#include "../catch.hpp"
#include "queue_communicator.hpp"

namespace px = parallax;

namespace {

constexpr std::size_t elements = 9, width = 3;

struct Model {
  std::vector<float> weights = std::vector<float>(elements, 1.0f), rows;
  bool operator==(Model const&) const = default;
};

template <class C>
Model trained(C& world) {
  px::Session session{world};
  Model model;
  px::Variable<px::Dense, px::Adam> layer{session, "layer", px::bind(model.weights)};
  px::Variable<px::Sparse, px::Adagrad> words{session, "words", {.rows = 20, .width = width, .initial = px::uniform(-1, 1)}};
  for (int step = 0; step < 20; ++step) {
    auto const rows = session.pull(words, std::vector{step % 7, world.rank() + 10, step % 5});
    std::vector<float> gradient(elements), of_rows;
    for (std::size_t i = 0; i < elements; ++i) {
      float const error = model.weights[i] * rows[i / width][i % width] - 0.7f;
      gradient[i] = error * rows[i / width][i % width];
      of_rows.push_back(error * model.weights[i]);
    }
    session.step(px::grad(layer, gradient), px::grad(rows, of_rows));
  }
  auto const last = session.pull(words, std::vector{0, 4, 6, 10, 11, 12, 19});
  for (std::size_t i = 0; i < 7 * width; ++i) model.rows.push_back(last[i / width][i % width]);
  session.finish();
  return model;
}

}  // namespace

TEST_CASE("a communicator from outside passes the communicators' suite", "[outside][communicator]") {
  int const ranks = GENERATE(1, 2, 3);
  CAPTURE(ranks);
  parallax_conformance::check_communicator(outside::QueueRanks{ranks});
}

TEST_CASE("a communicator from outside passes the suite of failures", "[outside][communicator]") {
  parallax_conformance::check_failures(outside::QueueRanks{3});
}

TEST_CASE("training over a communicator from outside has the bits of threads", "[outside][communicator]") {
  std::vector<Model> queues(3), threads(3);
  outside::QueueRanks{3}.run(std::chrono::seconds{60}, [&](outside::QueueCommunicator& world) {
    queues[static_cast<std::size_t>(world.rank())] = trained(world);
  });
  px::run_threads(3, [&](px::ThreadCommunicator& world) { threads[static_cast<std::size_t>(world.rank())] = trained(world); });
  CHECK(queues == threads);
  CHECK(queues[0].weights == queues[2].weights);
  CHECK(queues[0].weights[0] != 1.0f);
}
