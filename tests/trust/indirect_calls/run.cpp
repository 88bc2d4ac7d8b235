// Takes steps and pulls of many sizes on one rank, for callgrind to count the calls that each executes: count.sh says what must
// hold. Each is taken some times before, so that nothing is planned or allocated any more; then its name is printed.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#ifdef PARALLAX_HAS_MPI
#include "parallax/comm/mpi.hpp"
#endif
#include "parallax/parallax.hpp"

namespace px = parallax;

// Callgrind counts from the one to the other, by name.
extern "C" {
[[gnu::noinline]] void case_begins() { asm volatile("" ::: "memory"); }
[[gnu::noinline]] void case_ends() { asm volatile("" ::: "memory"); }
}

namespace {

// `before` is done before each step, and not counted.
template <class Before, class Step>
void count(std::string const& name, Before const& before, Step const& step) {
  for (int i = 0; i < 3; ++i) {
    before();
    step();
  }
  before();
  std::printf("%s\n", name.c_str());
  std::fflush(stdout);
  case_begins();
  step();
  case_ends();
}
template <class Step>
void count(std::string const& name, Step const& step) {
  count(name, [] {}, step);
}

// Calls use(0, 1, …, n - 1), of numbers that are constants.
template <std::size_t n, class Use>
void with_numbers(Use const& use) {
  [&]<std::size_t... I>(std::index_sequence<I...>) { use(std::integral_constant<std::size_t, I>{}...); }
  (std::make_index_sequence<n>{});
}

using Session = px::Session<px::SelfCommunicator>;

// Dense variables, and their updates.
template <class... Axes>
struct Layers {
  using Variable = px::Variable<px::Dense, Axes...>;

  Layers(Session& session, std::size_t count, std::size_t size)
      : values(count, std::vector<float>(size, 1.0f)), gradients(count, std::vector<float>(size, 0.5f)) {
    for (std::size_t i = 0; i < count; ++i) variables.emplace_back(session, "layer " + std::to_string(i), px::bind(values[i]));
    for (std::size_t i = 0; i < count; ++i) updates.push_back(px::grad(variables[i], gradients[i]));
  }

  std::vector<std::vector<float>> values, gradients;
  std::vector<Variable> variables;
  std::vector<decltype(px::grad(std::declval<Variable const&>(), std::declval<std::vector<float> const&>()))> updates;
};

// Tables, and a batch of ids, of which every third is the same.
template <class... Axes>
struct Tables {
  using Variable = px::Variable<px::Sparse, Axes...>;

  Tables(Session& session, std::size_t count, std::size_t batch, std::int64_t width)
      : gradients(batch * static_cast<std::size_t>(width), 0.5f) {
    for (std::size_t i = 0; i < count; ++i)
      variables.push_back(Variable{session, "table " + std::to_string(i), {.rows = 5'000, .width = width}});
    for (std::size_t i = 0; i < batch; ++i) ids.push_back(static_cast<int>(i % 3 == 0 ? 7 : i * i % 4'999));
  }

  std::vector<Variable> variables;
  std::vector<int> ids;
  std::vector<float> gradients;
};

template <class... Axes>
void layer_of(std::string const& kind, std::size_t size) {
  px::SelfCommunicator world;
  Session session{world};
  Layers<Axes...> const layers{session, 1, size};
  auto const& update = layers.updates[0];
  auto const doubled = update.transform([](auto gradient) {
    for (auto& element : gradient.values) element *= 2;
  });
  auto const of_size = "." + kind + "." + std::to_string(size);
  count("layer" + of_size, [&] { session.step(update); });
  count("transformed" + of_size, [&] { session.step(doubled); });
  session.finish();
}

template <class... Axes>
void rows_of(std::string const& kind, std::size_t batch, std::int64_t width) {
  px::SelfCommunicator world;
  Session session{world};
  Tables<Axes...> const tables{session, 1, batch, width};
  auto const& table = tables.variables[0];
  auto const& ids = tables.ids;
  auto const of_size = "." + kind + "." + std::to_string(batch) + "x" + std::to_string(width);
  count("pull" + of_size, [&] { (void)session.pull(table, ids); });
  auto rows = session.pull(table, ids);
  count("push" + of_size, [&] { rows = session.pull(table, ids); }, [&] { session.step(px::grad(rows, tables.gradients)); });
  rows = session.pull(table, ids);
  auto next = session.prefetch(table, ids);
  count("ahead" + of_size, [&] {
    session.step(px::grad(rows, tables.gradients));
    rows = session.pull(std::move(next));
    next = session.prefetch(table, ids);
  });
  session.finish();
}

// Each variable is an argument.
template <std::size_t n>
void arguments() {
  px::SelfCommunicator world;
  Session session{world}, careful{world, {.non_finite = px::NonFinite::error}};
  Layers<px::Adam> const layers{session, n, 16}, others{careful, n, 16};
  auto const of_n = "." + std::to_string(n);
  with_numbers<n>([&](auto... i) {
    count("layers" + of_n, [&] { session.step(layers.updates[i]...); });
    count("clipped" + of_n, [&] { session.step(px::clip_by_global_norm(1.0, layers.updates[i]...)); });
    count("looked_at" + of_n, [&] { careful.step(others.updates[i]...); });
  });
  session.finish();
  careful.finish();
}
template <std::size_t n>
void tables() {
  px::SelfCommunicator world;
  Session session{world};
  Tables<px::Adagrad> const tables{session, n, 64, 4};
  auto const of_n = "." + std::to_string(n);
  with_numbers<n>([&](auto... i) {
    count("pulled" + of_n, [&] { (void)session.pull(tables.variables[i].at(tables.ids)...); });
    count("pushed" + of_n, [&] { session.step(px::grad(tables.variables[i], tables.ids, tables.gradients)...); });
  });
  session.finish();
}

// All variables are one argument, of the step or of a start before it.
void range_of(std::size_t n) {
  px::SelfCommunicator world;
  Session session{world};
  Layers<px::Adam> const layers{session, n, 16};
  auto const of_n = "." + std::to_string(n);
  count("range" + of_n, [&] { session.step(layers.updates); });
  count("starting" + of_n, [&] { session.step(); }, [&] { session.start(layers.updates); });
  count("started" + of_n, [&] { session.start(layers.updates); }, [&] { session.step(); });
  session.finish();
}

#ifdef PARALLAX_HAS_MPI
void bound(px::MpiCommunicator& world, std::size_t size) {
  px::Session session{world};
  std::vector<float> values(size, 1.0f), more(size, 1.0f), gradient(size, 0.5f);
  px::Variable<px::Dense, px::Sgd> first{session, "first", px::bind(values)};
  px::Variable<px::Dense, px::Adam> second{session, "second", px::bind(more)};
  auto one = session.bind_step(px::grad(first, gradient));
  auto both = session.bind_step(px::grad(first, gradient), px::grad(second, gradient));
  count("bound.1." + std::to_string(size), [&] { one(); });
  count("bound.2." + std::to_string(size), [&] { both(); });
  session.finish();
}
#endif

}  // namespace

int main([[maybe_unused]] int argc, [[maybe_unused]] char** argv) {
  for (std::size_t const size : {16, 65'536}) {
    layer_of<px::Adam>("all_reduce", size);
    layer_of<px::PsShard, px::Lamb>("ps_shard", size);
  }
  for (std::size_t const batch : {64, 1'024})
    for (std::int64_t const width : {4, 64}) {
      rows_of<px::Adagrad>("ps_shard", batch, width);
      rows_of<px::Hash, px::Adam>("settled", batch, width);
      rows_of<px::AllGather, px::RowwiseAdagrad>("all_gather", batch, width);
      rows_of<px::AllReduce, px::Adagrad>("all_reduce", batch, width);
    }
  arguments<10>();
  arguments<20>();
  arguments<40>();
  tables<1>();
  tables<2>();
  tables<4>();
  range_of(10);
  range_of(40);
#ifdef PARALLAX_HAS_MPI
  px::MpiEnvironment const mpi{argc, argv};
  px::MpiCommunicator world{MPI_COMM_WORLD, {.order = px::SumOrder::vendor}};
  bound(world, 16);
  bound(world, 65'536);
#endif
}
