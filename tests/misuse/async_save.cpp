// expect: parallax: an AsyncSession saves where all is quiet: together([&](auto& session) { session.save(...); })
#include <vector>

#include <parallax/async/async_session.hpp>
#include <parallax/checkpoint/checkpoint.hpp>
#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::AsyncSession session{world, px::Asp{}};
std::vector<float> memory(4);
px::Variable<px::Dense, px::PsShard> weights{session, "weights", px::bind(memory)};

void save() { session.save("run", {}, weights); }
