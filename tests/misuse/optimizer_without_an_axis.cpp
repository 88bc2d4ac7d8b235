// expect: parallax: an argument of Variable is no option: it looks like an optimizer, and lacks a public `using axis = parallax::optimizer_axis`
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

struct Mine {
  double learning_rate = 0.1;
  auto at(std::int64_t) const {
    return [rate = learning_rate](auto& p, auto g) noexcept { p -= static_cast<decltype(g)>(rate) * g; };
  }
};

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(4);
px::Variable<px::Dense, Mine> weights{session, "weights", px::bind(memory), Mine{.learning_rate = 0.5}, px::Reduce::sum};
px::Variable<px::Sparse, Mine> words{session, "words", {.rows = 4, .width = 2}, Mine{}};

void train(std::vector<int> const& ids, std::vector<float> const& gradient) {
  auto const rows = session.pull(words, ids);
  session.step(px::grad(weights, gradient), px::grad(rows, gradient));
}
