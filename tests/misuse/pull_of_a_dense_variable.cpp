// expect: parallax: a pull is of a Sparse variable and indices, or of table.at(ids) and table.bags(ids, offsets)
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(4);
px::Variable<px::Dense> weights{session, "weights", px::bind(memory)};

void look_up(std::vector<int> const& ids) { auto const rows = session.pull(weights, ids); }
