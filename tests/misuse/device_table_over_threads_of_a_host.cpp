// expect: parallax: this communicator carries no memory of the variable's space: take one that does
#include <parallax/comm/thread.hpp>
#include <parallax/kernel/cuda/row_ops.hpp>
#include <parallax/parallax.hpp>

namespace px = parallax;

void train(px::ThreadCommunicator& world) {
  px::Session session{world};
  px::Variable<px::Sparse, px::CudaSpace> words{session, "words", {.rows = 4, .width = 2}};
}
