// expect: parallax: under PsShard a rank holds only its shard
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(8);
px::Variable<px::Sparse> words{session, "words", px::bind_rows(memory, 2)};
