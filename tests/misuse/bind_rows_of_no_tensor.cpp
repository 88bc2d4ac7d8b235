// expect: parallax: bind_rows takes a contiguous range, or a type whose px::tensor_traits has flat
#include <parallax/parallax.hpp>

namespace px = parallax;

struct Tensor {
  float values[8];
} tensor;

px::SelfCommunicator world;
px::Session session{world};
px::Variable<px::Sparse, px::AllGather> words{session, "words", px::bind_rows(tensor, 2)};
