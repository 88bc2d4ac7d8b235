// expect: parallax: a Sparse variable is given its rows: a Table{rows, width}, or memory of yours by bind_rows or bind_shard
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(8);
px::Variable<px::Sparse, px::AllGather> words{session, "words", px::bind(memory)};
