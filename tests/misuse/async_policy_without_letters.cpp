// expect: parallax: an AsyncSession takes variables whose policy has letters<Kind>
#include <vector>

#include <parallax/async/async_session.hpp>
#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::AsyncSession session{world, px::Asp{}};
std::vector<float> memory(4);
px::Variable<px::Dense> weights{session, "weights", px::bind(memory)};
