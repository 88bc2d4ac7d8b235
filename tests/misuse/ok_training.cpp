// What the programs beside this one get wrong, done right.
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

struct Own {
  using axis = px::optimizer_axis;
  using element_slots = px::slots<px::scalar>;
  double learning_rate = 0.1;
  auto at(std::int64_t) const {
    return [](auto& p, auto g, auto& sum) noexcept { p -= sum += g; };
  }
};

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(8), table(8);
px::Variable<px::Dense, Own> weights{session, "weights", px::bind(memory), Own{.learning_rate = 0.2}};
px::Variable<px::Sparse, px::Hash, px::Adam, px::Index<int>> words{session, "words", {4, 2}, px::Hash{}, px::Reduce::sum};
px::Variable<px::Sparse, px::AllGather> copy{session, "copy", px::bind_rows(table, 2)};

void train(std::vector<int> const& ids, std::vector<float> const& rows, std::vector<float> const& gradient) {
  session.broadcast(weights, copy);
  auto const handle = session.pull(words, ids);
  session.step(px::grad(weights, gradient), px::grad(handle, rows), px::grad(copy, ids, rows));
}
