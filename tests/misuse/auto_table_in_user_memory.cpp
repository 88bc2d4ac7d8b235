// expect: parallax: under Auto rows move from rank to rank: let the library own the table
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(8);
px::Variable<px::Sparse, px::Auto> words{session, "words", px::bind_rows(memory, 2)};
