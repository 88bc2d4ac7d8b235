// expect: parallax: an update is grad(...), clip_by_global_norm(max, grad(...)...) or a range of grad(...)
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};

void train(std::vector<float> const& gradient) { session.step(px::clip_by_global_norm(1.0, gradient)); }
