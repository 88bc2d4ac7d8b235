// expect: parallax: rows are assigned and scaled in a Sparse variable in the host's memory
#include <parallax/parallax.hpp>
#include <vector>

namespace px = parallax;

int main() {
  px::SelfCommunicator world;
  px::Session session{world};
  std::vector<float> memory(8);
  px::Variable<px::Dense> layer{session, "layer", px::bind(memory)};
  session.scale(layer, std::vector<int>{3}, 0.5);
}
