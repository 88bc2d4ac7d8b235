// expect: parallax: the coefficients of this Eigen expression have gaps between them: copy it, as by eval()
#include <vector>

#include <parallax/interop/eigen.hpp>
#include <parallax/parallax.hpp>

namespace px = parallax;

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(6);
px::Variable<px::Dense> weights{session, "weights", px::bind(memory)};

void train(Eigen::Matrix<float, 4, 3> const& gradient) { session.step(px::grad(weights, gradient.topRows<2>())); }
