// expect: parallax: this communicator carries no memory of the variable's space: take one that does
#include <span>

#include <parallax/kernel/cuda/row_ops.hpp>
#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
px::Variable<px::Dense, px::CudaSpace> layer{session, "layer", px::bind(std::span<float>{})};
