#include <parallax/comm/thread.hpp>
#include <parallax/parallax.hpp>
#include <cstdio>
#include <vector>
namespace px = parallax;

int main() {
  px::run_threads(4, [](auto& world) {  // or px::SelfCommunicator, px::MpiCommunicator
    px::Session session{world};
    std::vector<float> weights(8, 1.0f);  // your memory
    px::Variable<px::Dense, px::Sgd> layer{session, "layer", px::bind(weights), px::Sgd{.learning_rate = 0.1}};
    px::Variable<px::Sparse, px::Adagrad> words{session, "words", {.rows = 1'000, .width = 8, .initial = px::uniform(-1, 1)}};

    for (int step = 0; step < 100; ++step) {
      std::vector<int> const tokens{step % 7, world.rank(), step % 7};  // this rank's batch
      auto const rows = session.pull(words, tokens);                    // each distinct row once, from its owner
      std::vector<float> layer_gradient(8), row_gradients;
      for (std::size_t i = 0; i < tokens.size(); ++i)
        for (std::size_t k = 0; k < 8; ++k) {  // pulls every product weights[k] · row[k] towards 1
          float const error = weights[k] * rows[i][k] - 1;
          layer_gradient[k] += error * rows[i][k];
          row_gradients.push_back(error * weights[k]);
        }
      session.step(px::grad(layer, layer_gradient),   // dense: all-reduce
                   px::grad(rows, row_gradients));    // sparse: pushed to the owners, duplicates summed
    }
    if (world.rank() == 0) std::printf("weights[0] = %.4f on every rank\n", weights[0]);
    session.finish();
  });
}
