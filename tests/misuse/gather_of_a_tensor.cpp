// expect: parallax: gather and scatter are given a variable, options, and what takes or gives its rows
#include <vector>

#include <parallax/checkpoint/whole.hpp>
#include <parallax/parallax.hpp>

namespace px = parallax;

int main() {
  px::SelfCommunicator world;
  px::Session session{world};
  std::vector<float> memory(8);
  session.gather(memory, {}, [](auto, auto) {});
}
