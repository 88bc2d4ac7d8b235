// expect: parallax: an AsyncSession has no join
#include <vector>

#include <parallax/async/async_session.hpp>
#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::AsyncSession session{world, px::Asp{}};
std::vector<float> memory(4);

void train() {
  session.join([] {});
}
