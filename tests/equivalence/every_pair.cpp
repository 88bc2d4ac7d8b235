#include "every_pair.hpp"

#include <algorithm>
#include <tuple>
#include <type_traits>
#include <utility>

#include "../../benchmarks/baseline/tf1_ps.hpp"
#include "equality.hpp"

namespace parallax_test {
namespace {

// As many as are odd and no multiple of 3: scalars, indices and partitioners take turns by number, so each optimizer meets all.
using Optimizers = std::tuple<px::Sgd, px::Momentum, px::Adagrad, px::CenteredRmsProp, px::Adam, px::LazyAdam, px::Adadelta,
                              px::ProximalSgd, px::ProximalAdagrad, px::AdagradDa, Tempered>;
using DensePolicies = std::tuple<px::AllReduce, px::PsShard, baseline::WholeOnServer>;
using RowPolicies = std::tuple<px::PsShard, px::AllGather, px::AllReduce, baseline::NaivePs>;
using Partitioners = std::tuple<px::Cyclic, px::Block, px::Hash>;
constexpr std::size_t optimizers = std::tuple_size_v<Optimizers>;
constexpr std::size_t layers = optimizers * std::tuple_size_v<DensePolicies>,
                      tables = optimizers * std::tuple_size_v<RowPolicies>;

using Numbers = std::make_index_sequence<layers + tables>;

// The gradients of one variable, which every step updates once.
template <class T>
struct Alone : Workload<T> {
  Way way = Way::handle;
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

template <class Policy>
constexpr oracle::Rows rows_of() {
  using Exchange = typename Policy::template exchange<px::Sparse>;
  return px::is_direct<Exchange>  ? oracle::Rows::occurrences
         : px::is_densified<Exchange> ? oracle::Rows::densified
                               : oracle::Rows::by_hops;
}

// A pair by its number, which decides on all else: layers come first; scalars, indices and partitioners take turns.
template <std::size_t number>
struct Pair {
  static constexpr bool dense = number < layers;
  using T = std::conditional_t<number % 2 == 0, float, double>;
  using Index = std::conditional_t<number % 4 < 2, std::int64_t, std::int32_t>;
  using Optimizer = std::tuple_element_t<number % optimizers, Optimizers>;
  using Partitioner = std::tuple_element_t<number % 3, Partitioners>;
  using Policy = typename decltype([] {
    if constexpr (dense) return std::type_identity<std::tuple_element_t<number / optimizers, DensePolicies>>{};
    else return std::type_identity<std::tuple_element_t<number / optimizers - std::tuple_size_v<DensePolicies>, RowPolicies>>{};
  }())::type;
  using Variable = typename decltype([] {
    if constexpr (dense) return std::type_identity<px::Variable<px::Dense, Policy, Optimizer, T>>{};
    else return std::type_identity<px::Variable<px::Sparse, Policy, Optimizer, Partitioner, T, px::Index<Index>>>{};
  }())::type;

  static Alone<T> alone(bool integers) {
    std::uint64_t const seed = 500 + number;
    if (dense) return {{{{20 + 7 * number}, 0, 0}, seed, integers}};
    Way const ways[] = {Way::handle, Way::ids, std::is_same_v<Policy, baseline::NaivePs> ? Way::handle : Way::distinct};
    return {{{{}, 30 + 3 * static_cast<std::int64_t>(number), 1 + static_cast<std::int64_t>(number % 4)}, seed, integers},
            ways[number / 2 % 3]};
  }
  // With penalties where it has some: they move rows that nobody touched.
  static Optimizer optimizer() {
    Optimizer made;
    if constexpr (requires { made.l1; }) made.l1 = 0.01, made.l2 = 0.1;
    return made;
  }
  static px::Reduce reduce(bool integers) {
    px::Reduce const all[] = {px::Reduce::mean, px::Reduce::sum, px::Reduce::mean_by_count};
    return integers ? px::Reduce::sum : all[number % 3];
  }
  static oracle::Settings settings(PairsCase const& c) {
    oracle::Average const averages[] = {oracle::Average::mean, oracle::Average::sum, oracle::Average::by_count};
    oracle::Rows rows = oracle::Rows::by_hops;
    if constexpr (!dense) rows = rows_of<Policy>();
    bool const past_hosts = std::is_same_v<Policy, baseline::WholeOnServer>;  // its server sums in the order of ranks
    return {c.ranks, past_hosts ? std::vector<int>{} : c.hosts, formula_of(optimizer()), averages[static_cast<std::size_t>(reduce(c.integers))], rows};
  }
  static std::string name() {
    return std::string{dense ? "Dense " : "Sparse "} + std::string{Policy::name} + ", " + px::optimizer_name<Optimizer>();
  }
};

// The variable of a pair in a session, its gradients of the step at hand, and what this rank saw of it.
template <std::size_t number>
class Kept {
  using P = Pair<number>;
  using T = typename P::T;

 public:
  template <class Session>
  Kept(Session& session, bool integers)
      : alone_{P::alone(integers)},
        memory_{first_values()},
        rank_{session.rank()},
        variable_{make(session, P::reduce(integers))} {
    if constexpr (!P::dense) {
      auto const mine = variable_.local();
      for (std::int64_t row = 0; row < mine.rows; ++row)
        std::copy_n(memory_.data() + variable_.global_row(row) * width(), width(), mine.row(row));
      variable_.adopt();
    }
  }

  void next(int step) {
    gradients_ = alone_.gradients(step, rank_);
    if constexpr (!P::dense) ids_.assign(gradients_.batches[0].ids.begin(), gradients_.batches[0].ids.end());
  }
  auto batch() const { return variable_.at(ids_); }

  // Of a layer.
  auto grad() const { return px::grad(variable_, gradients_.layers[0]); }
  // Of a table, whose batch has been pulled.
  template <class Handle>
  auto grad(Handle const& handle) {
    auto& rows = gradients_.batches[0].rows;
    if (alone_.way == Way::ids) return px::grad(variable_, ids_, rows);
    if (alone_.way == Way::handle) return px::grad(handle, rows);
    reorder(rows, handle);
    return px::grad(handle, px::distinct(rows));
  }

  template <class Handle>
  void note_pulled(int step, Handle const& handle) {
    Seen<T> seen{Seen<T>::What::pulled, step, 0, gradients_.batches[0].ids, {}};
    for (std::size_t i = 0; i < handle.indices(); ++i)
      seen.values.insert(seen.values.end(), handle[i].begin(), handle[i].end());
    diary_.push_back(std::move(seen));
  }
  void note(int step) {
    if constexpr (P::dense) diary_.push_back({Seen<T>::What::layer, step, 0, {}, memory_});
    else diary_.push_back(held_rows<T>(variable_, step));
  }
  Diary<T> take_diary() { return std::move(diary_); }

 private:
  std::int64_t width() const { return alone_.shape.width; }
  std::vector<T> first_values() const {
    return alone_.first_values(0, P::dense ? alone_.shape.layers[0] : static_cast<std::size_t>(alone_.shape.rows * width()));
  }
  template <class Session>
  typename P::Variable make(Session& session, px::Reduce reduce) {
    std::string const name = std::to_string(number) + ": " + P::name();
    if constexpr (P::dense) return {session, name, px::bind(memory_), P::optimizer(), reduce};
    else return {session, name, px::Table{alone_.shape.rows, width()}, P::optimizer(), reduce};
  }
  // From one row per distinct index ascending to the order of the handle.
  template <class Handle>
  void reorder(std::vector<T>& rows, Handle const& handle) const {
    auto const ascending = ascending_distinct(gradients_.batches[0].ids);
    std::vector<T> in_order;
    for (std::size_t j = 0; j < handle.size(); ++j) {
      auto const at = std::ranges::lower_bound(ascending, handle.id(j)) - ascending.begin();
      in_order.insert(in_order.end(), rows.begin() + at * width(), rows.begin() + (at + 1) * width());
    }
    rows = std::move(in_order);
  }

  Alone<T> alone_;
  std::vector<T> memory_;  // of a layer its parameters, of a table their first values
  int rank_;
  Gradients<T> gradients_;
  std::vector<typename P::Index> ids_;
  typename P::Variable variable_;
  Diary<T> diary_;
};

template <std::size_t number>
void check_pair(PairsCase const& c, std::vector<PairDiaries> const& by_rank) {
  using P = Pair<number>;
  using T = typename P::T;
  auto const alone = P::alone(c.integers);
  INFO(P::name() << ", " << c.text() << ", seed " << alone.seed);
  std::vector<Diary<T>> diaries;
  for (PairDiaries const& of_rank : by_rank) diaries.push_back(std::get<Diary<T>>(of_rank[number]));
  if constexpr (!P::dense)
    if (by_rank.size() == static_cast<std::size_t>(c.ranks))
      CHECK(rows_are_held(diaries, alone.shape, P::Variable::State::sharded));

  oracle::Settings settings = P::settings(c);
  CHECK(deviation(diaries, oracle::train(alone, settings, c.steps), alone.shape).first == "");
  settings.one_after_another = true;
  Deviation const one_process = deviation(diaries, oracle::train(alone, settings, c.steps), alone.shape);
  if (c.integers) CHECK(one_process.first == "");
  else CHECK(one_process.largest <= bound<T>(c.ranks, c.steps));
}

template <std::size_t... Layer, std::size_t... Table>
PairDiaries train(px::AnyCommunicator& world, PairsCase const& c, std::index_sequence<Layer...>,
                  std::index_sequence<Table...>) {
  px::Session session{c.hosts.empty() ? px::Topology{world} : px::Topology{world, c.hosts}};
  std::tuple<Kept<Layer>...> of_layers{Kept<Layer>{session, c.integers}...};
  std::tuple<Kept<layers + Table>...> of_tables{Kept<layers + Table>{session, c.integers}...};
  for (int step = 0; step < c.steps; ++step) {
    (std::get<Layer>(of_layers).next(step), ...);
    (std::get<Table>(of_tables).next(step), ...);
    auto const handles = session.pull(std::get<Table>(of_tables).batch()...);
    (std::get<Table>(of_tables).note_pulled(step, std::get<Table>(handles)), ...);
    session.step(std::get<Layer>(of_layers).grad()..., std::get<Table>(of_tables).grad(std::get<Table>(handles))...);
    (std::get<Layer>(of_layers).note(step + 1), ...);
  }
  (std::get<Table>(of_tables).note(c.steps), ...);
  session.finish();
  return {std::get<Layer>(of_layers).take_diary()..., std::get<Table>(of_tables).take_diary()...};
}

}  // namespace

std::string PairsCase::text() const {
  std::string out = std::to_string(ranks) + " ranks";
  for (std::size_t r = 0; r < hosts.size(); ++r) out += (r ? "," : " on hosts ") + std::to_string(hosts[r]);
  return out + (integers ? ", integers" : "");
}

PairDiaries train_every_pair(px::AnyCommunicator& world, PairsCase const& c) {
  return train(world, c, std::make_index_sequence<layers>{}, std::make_index_sequence<tables>{});
}

void check_every_pair(PairsCase const& c, std::vector<PairDiaries> const& by_rank) {
  [&]<std::size_t... number>(std::index_sequence<number...>) { (check_pair<number>(c, by_rank), ...); }(Numbers{});
}

}  // namespace parallax_test
