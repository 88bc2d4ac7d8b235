// What the programs beside this one get wrong, done right.
#include <cstddef>
#include <vector>

#include <parallax/parallax.hpp>

namespace px = parallax;

struct Own {
  using axis = px::optimizer_axis;
  using element_slots = px::slot_types<px::scalar>;
  double learning_rate = 0.1;
  auto at(std::int64_t) const {
    return [](auto& p, auto g, auto& sum) noexcept { p -= sum += g; };
  }
};

struct RowNorm {
  using axis = px::optimizer_axis;
  using element_slots = px::slot_types<>;
  static constexpr px::Unit unit = px::Unit::row;
  struct Rule {
    px::Measures<1> measure(auto& /*p*/, auto g) const noexcept { return {static_cast<double>(g * g)}; }
    auto finish(px::Measures<1> const&, std::int64_t) const noexcept {
      return [](auto& p, auto g) noexcept { p -= g; };
    }
  };
  Rule at(std::int64_t) const { return {}; }
};

struct Heap {
  using axis = px::space_axis;
  static constexpr bool host_readable = true;
  static void* allocate(std::size_t bytes) { return px::HostSpace::allocate(bytes); }
  static void deallocate(void* memory, std::size_t bytes) noexcept { px::HostSpace::deallocate(memory, bytes); }
};
static_assert(px::MemorySpace<Heap> && px::MemorySpace<px::HostSpace>);

px::SelfCommunicator world;
px::Session session{world};
std::vector<float> memory(8), table(8);
px::Variable<px::Dense, Own> weights{session, "weights", px::bind(memory), Own{.learning_rate = 0.2}};
px::Variable<px::Sparse, px::Hash, px::Adam, px::Index<int>> words{session, "words", {4, 2}, px::Hash{}, px::Reduce::sum};
px::Variable<px::Sparse, px::AllGather> copy{session, "copy", px::bind_rows(table, 2)};
px::Variable<px::Sparse, px::WeightDecay<RowNorm>, px::HostSpace> rows_by_norm{session, "by norm", {4, 2}, px::BadIds::hash};
px::Accumulator sums{weights};
px::Accumulator row_sums{words, px::Micro::sum};

void train(std::vector<int> const& ids, std::vector<float> const& rows, std::vector<float> const& gradient) {
  session.broadcast(weights, copy);
  auto const handle = session.pull(words, ids);
  session.step(px::grad(weights, gradient), px::grad(handle, rows), px::grad(copy, ids, rows));
  std::vector<int> const offsets{0, 2};
  std::vector<float> const factors{1, 2};
  auto const [bags, weighted] = session.pull(words.bags(ids, offsets, px::Pool::mean), rows_by_norm.bags(ids, offsets, factors));
  sums.add(gradient);
  row_sums.add(px::grad(bags, rows));
  session.start(px::grad(weights, gradient).transform([](px::DenseGradient<float> part) { part.values[0] = 0; }));
  session.step(px::clip_by_global_norm(1.0, sums.grad(), row_sums.grad()), px::grad(weighted, rows).transform([](auto) {}));
  session.join([&] { session.step(sums.grad()); });
}
