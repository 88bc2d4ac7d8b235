// expect: parallax: an AsyncSession has no pull
#include <vector>

#include <parallax/async/async_session.hpp>
#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::AsyncSession session{world, px::Asp{}};
std::vector<float> memory(4);
px::Variable<px::Sparse> words{session, "words", {.rows = 9, .width = 2}};

void train() { session.pull(words, std::vector{1}); }
