// expect: parallax: bind takes a tensor, which is a contiguous range or a type of which px::tensor_traits is specialised
#include <parallax/parallax.hpp>

namespace px = parallax;

struct Tensor {
  float values[8];
} tensor;

px::SelfCommunicator world;
px::Session session{world};
px::Variable<px::Dense> weights{session, "weights", px::bind(tensor, 8)};
