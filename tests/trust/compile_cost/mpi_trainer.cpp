// A trainer over MPI, one table and one layer.
#include <parallax/comm/mpi.hpp>
#include <parallax/parallax.hpp>
#include <vector>
namespace px = parallax;

int main(int argc, char** argv) {
  px::MpiEnvironment environment{argc, argv};
  px::MpiCommunicator world;
  px::Session session{world};
  std::vector<float> weights(64), gradient(64, 1.0f), rows_gradient(2 * 16, 1.0f);
  px::Variable<px::Dense, px::Adam> layer{session, "layer", px::bind(weights)};
  px::Variable<px::Sparse, px::Adagrad> words{session, "words", {.rows = 1'000, .width = 16}};
  auto const rows = session.pull(words, std::vector<long>{1, 2});
  session.step(px::grad(layer, gradient), px::grad(rows, rows_gradient));
  session.finish();
}
