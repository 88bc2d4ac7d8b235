// A driver of three tables under three policies, with seven lists of updates.
#include <parallax/comm/thread.hpp>
#include <parallax/parallax.hpp>
#include <vector>
namespace px = parallax;

int main() {
  px::run_threads(2, [](auto& world) {
    px::Session session{world};
    std::vector<float> weights(64), gradient(64, 1.0f), rows(2 * 16, 1.0f);
    px::Variable<px::Dense, px::Momentum> layer{session, "layer", px::bind(weights)};
    px::Variable<px::Sparse, px::PsShard, px::Adagrad> a{session, "a", {.rows = 1'000, .width = 16}};
    px::Variable<px::Sparse, px::AllGather, px::Sgd> b{session, "b", {.rows = 1'000, .width = 16}};
    px::Variable<px::Sparse, px::AllReduce, px::Sgd> c{session, "c", {.rows = 1'000, .width = 16}};
    std::vector<long> const ids{1, 2};
    auto const of_a = session.pull(a, ids);
    auto const of_b = session.pull(b, ids);
    auto const of_c = session.pull(c, ids);
    session.step(px::grad(layer, gradient));
    session.step(px::grad(of_a, rows));
    session.step(px::grad(of_b, rows));
    session.step(px::grad(of_c, rows));
    session.step(px::grad(layer, gradient), px::grad(a, ids, rows));
    session.step(px::grad(layer, gradient), px::grad(b, ids, rows), px::grad(c, ids, rows));
    session.step(px::clip_by_global_norm(1.0, px::grad(layer, gradient), px::grad(a, ids, rows)));
    session.finish();
  });
}
