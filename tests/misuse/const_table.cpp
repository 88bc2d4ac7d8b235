// expect: parallax: a variable is updated in place: bind memory that is not const
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> const memory(8);
px::Variable<px::Sparse, px::AllGather> words{session, "words", px::bind_rows(memory, 2)};
