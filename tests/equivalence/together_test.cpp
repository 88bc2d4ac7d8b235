// Variables of every kind, policy, scalar and optimizer in one session, as a user writes it: each moves as it would alone.
#include <tuple>

#include "equality.hpp"

using namespace parallax_test;

namespace {

constexpr int steps = 25;

// The gradients of one variable, which every step updates once.
template <class T>
struct Alone : Workload<T> {
  Way way = Way::ids;
  Script script(int) const {
    Script script;
    if (this->shape.layers.empty()) script.batches = {way};
    else script.layers = {0};
    return script;
  }
  Gradients<T> gradients(int step, int rank) const {
    Random random{this->seed, static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(rank)};
    if (this->shape.layers.empty()) return {{}, {this->batch(random, way)}};
    return {{this->values(random, this->shape.layers[0])}, {}};
  }
};

template <class T>
Alone<T> layer_of(std::size_t size, std::uint64_t seed) {
  return {{{{size}, 0, 0}, seed}, Way::ids};
}
template <class T>
Alone<T> table_of(std::int64_t rows, std::int64_t width, std::uint64_t seed, Way way) {
  return {{{{}, rows, width}, seed}, way};
}

// A variable with what it is given and what a rank sees of it.
template <class V>
struct Kept {
  using T = typename V::scalar_type;

  V variable;
  Alone<T> alone;
  std::vector<T>* memory;  // of a dense variable
  Diary<T>* diary;
  Gradients<T> gradients = {};
  std::vector<T> distinct_rows = {};

  void next(int step, int rank) { gradients = alone.gradients(step, rank); }
  std::vector<T> const& gradient() const { return gradients.layers[0]; }
  std::vector<std::int64_t> const& ids() const { return gradients.batches[0].ids; }
  std::vector<T> const& rows() const { return gradients.batches[0].rows; }

  template <class Handle>
  void pulled(int step, Handle const& handle) {
    Seen<T> seen{Seen<T>::What::pulled, step, 0, ids(), {}};
    for (std::size_t i = 0; i < handle.indices(); ++i) seen.values.insert(seen.values.end(), handle[i].begin(), handle[i].end());
    diary->push_back(std::move(seen));
  }
  // The rows of a batch of distinct ones in the order of the handle.
  template <class Handle>
  std::vector<T> const& rows_for(Handle const& handle) {
    auto const ascending = ascending_distinct(ids());
    distinct_rows.clear();
    for (std::size_t j = 0; j < handle.size(); ++j) {
      auto const at = std::ranges::lower_bound(ascending, handle.id(j)) - ascending.begin();
      distinct_rows.insert(distinct_rows.end(), rows().begin() + at * alone.shape.width, rows().begin() + (at + 1) * alone.shape.width);
    }
    return distinct_rows;
  }
  void look(int step) {
    if constexpr (std::is_same_v<typename V::kind, px::Dense>) {
      diary->push_back({Seen<T>::What::layer, step, 0, {}, *memory});
    } else {
      Seen<T> seen{Seen<T>::What::held, step, 0, {}, {}};
      auto const mine = variable.local();
      for (std::int64_t row = 0; row < mine.rows; ++row) {
        seen.ids.push_back(variable.global_row(row));
        seen.values.insert(seen.values.end(), mine[row].begin(), mine[row].end());
      }
      diary->push_back(std::move(seen));
    }
  }
};

template <class T>
using Diaries = std::vector<Diary<T>>;

template <class V, class Session>
Kept<V> keep_layer(Session& session, std::string name, Alone<typename V::scalar_type> alone, px::Reduce reduce,
                   std::vector<typename V::scalar_type>& memory, Diaries<typename V::scalar_type>& diaries) {
  memory = alone.first_values(0, alone.shape.layers[0]);
  return {V{session, std::move(name), px::bind(memory), reduce}, alone, &memory, &diaries[static_cast<std::size_t>(session.rank())]};
}
template <class V, class Session>
Kept<V> keep_table(Session& session, std::string name, Alone<typename V::scalar_type> alone, px::Reduce reduce,
                   Diaries<typename V::scalar_type>& diaries) {
  auto const [layers, rows, width] = alone.shape;
  V variable{session, std::move(name), px::Table{rows, width}, reduce};
  auto const first = alone.first_values(0, static_cast<std::size_t>(rows * width));
  auto const mine = variable.local();
  for (std::int64_t row = 0; row < mine.rows; ++row) std::copy_n(first.data() + variable.global_row(row) * width, width, mine.row(row));
  return {std::move(variable), alone, nullptr, &diaries[static_cast<std::size_t>(session.rank())]};
}

template <class O, class T>
void check_alone(char const* name, Alone<T> const& alone, Diaries<T> const& diaries, oracle::Average average,
                 oracle::Rows rows = oracle::Rows::by_hops, std::vector<int> const& hosts = {}) {
  INFO(name << ", seed " << alone.seed);
  oracle::Settings const settings{static_cast<int>(diaries.size()), hosts, formula_of(O{}), average, rows};
  CHECK(deviation(diaries, oracle::train(alone, settings, steps), alone.shape).first == "");
}

}  // namespace

TEST_CASE("variables of every kind move in one step as each would alone", "[equivalence][together]") {
  auto const hosts = GENERATE(std::vector<int>{}, std::vector<int>{0, 0, 1, 1}, std::vector<int>{0, 1, 1, 0, 0});
  int const ranks = hosts.empty() ? 3 : static_cast<int>(hosts.size());
  INFO(ranks << " ranks" << (hosts.empty() ? "" : " on two hosts"));

  auto const plain = layer_of<float>(37, 401);
  auto const sharded = layer_of<double>(11, 402);
  auto const words = table_of<float>(50, 4, 403, Way::handle);
  auto const tags = table_of<double>(23, 1, 404, Way::distinct);
  auto const small = table_of<float>(9, 5, 405, Way::ids);
  auto const naive = table_of<float>(71, 2, 406, Way::handle);
  auto const count = static_cast<std::size_t>(ranks);
  Diaries<float> of_plain(count), of_words(count), of_small(count), of_naive(count);
  Diaries<double> of_sharded(count), of_tags(count);

  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    using enum px::Reduce;
    std::vector<float> plain_memory;
    std::vector<double> sharded_memory;
    px::Session session{hosts.empty() ? px::Topology{world} : px::Topology{world, hosts}};
    auto a = keep_layer<px::Variable<px::Dense>>(session, "plain", plain, mean, plain_memory, of_plain);
    auto b = keep_layer<px::Variable<px::Dense, px::PsShard, px::Adam, double>>(session, "sharded", sharded, sum, sharded_memory, of_sharded);
    auto c = keep_table<px::Variable<px::Sparse, px::Adagrad>>(session, "words", words, mean, of_words);
    auto d = keep_table<px::Variable<px::Sparse, px::AllGather, px::LazyAdam, double, px::Index<std::int32_t>>>(session, "tags", tags, sum, of_tags);
    auto e = keep_table<px::Variable<px::Sparse, px::AllReduce, px::Adam>>(session, "small", small, mean_by_count, of_small);
    auto f = keep_table<px::Variable<px::Sparse, px::NaivePs, Tempered, px::Hash>>(session, "naive", naive, mean_by_count, of_naive);
    for (int step = 0; step < steps; ++step) {
      std::apply([&](auto&... kept) { (kept.next(step, world.rank()), ...); }, std::tie(a, b, c, d, e, f));
      std::vector<std::uint32_t> const small_ids(e.ids().begin(), e.ids().end());
      session.start(px::grad(b.variable, b.gradient()), px::grad(e.variable, small_ids, e.rows()));
      session.poll();
      auto const [of_c, of_d, of_f] = session.pull(c.variable.at(c.ids()), d.variable.at(d.ids()), f.variable.at(f.ids()));
      c.pulled(step, of_c);
      d.pulled(step, of_d);
      f.pulled(step, of_f);
      session.step(px::grad(a.variable, a.gradient()), px::grad(of_c, c.rows()), px::grad(of_d, px::distinct(d.rows_for(of_d))),
                   px::grad(of_f, f.rows()));
      std::apply([&](auto&... kept) { (kept.look(step + 1), ...); }, std::tie(a, b, c, d, e, f));
    }
    session.finish();
  });

  using oracle::Average, oracle::Rows;
  check_alone<px::Sgd>("plain", plain, of_plain, Average::mean, Rows::by_hops, hosts);
  check_alone<px::Adam>("sharded", sharded, of_sharded, Average::sum, Rows::by_hops, hosts);
  check_alone<px::Adagrad>("words", words, of_words, Average::mean, Rows::by_hops, hosts);
  check_alone<px::LazyAdam>("tags", tags, of_tags, Average::sum, Rows::by_hops, hosts);
  check_alone<px::Adam>("small", small, of_small, Average::by_count, Rows::densified, hosts);
  check_alone<Tempered>("naive", naive, of_naive, Average::by_count, Rows::occurrences, hosts);
}
