// Every policy with every optimizer on ranks of MPI, all in one step: the bits of the oracle, which are those of threads.
#include <tuple>

#include "../equivalence/alone.hpp"
#include "parallax/comm/mpi.hpp"

using namespace parallax_test;

namespace {

constexpr int steps = 50;

template <class Policy>
constexpr oracle::Rows rows_of() {
  using Exchange = typename Policy::template exchange<px::Sparse>;
  return !Exchange::coalesced ? oracle::Rows::occurrences : Exchange::densified ? oracle::Rows::densified : oracle::Rows::by_hops;
}

// One of the pairs: its number decides on shape, seed and reduction.
template <class Kind, class Policy, class O>
struct Pair {
  using Variable = px::Variable<Kind, Policy, O>;
  static constexpr bool dense = std::is_same_v<Kind, px::Dense>;

  static Alone<float> alone(std::size_t number) {
    if (dense) return alone_layer<float>(20 + 7 * number, 500 + number);
    return alone_table<float>(static_cast<std::int64_t>(30 + 3 * number), static_cast<std::int64_t>(1 + number % 4), 500 + number, Way::handle);
  }
  static px::Reduce reduce(std::size_t number) {
    px::Reduce const all[] = {px::Reduce::mean, px::Reduce::sum, px::Reduce::mean_by_count};
    return all[number % 3];
  }
  static void check(std::size_t number, int ranks, std::vector<int> const& hosts, Diary<float> const& diary) {
    oracle::Average const averages[] = {oracle::Average::mean, oracle::Average::sum, oracle::Average::by_count};
    oracle::Rows rows = oracle::Rows::by_hops;
    if constexpr (!dense) rows = rows_of<Policy>();
    INFO(Kind::name << " " << Policy::name << ", " << px::optimizer_name<O>() << ", " << ranks << " ranks" << (hosts.empty() ? "" : ", two levels"));
    check_alone<float>(alone(number), {ranks, hosts, formula_of(O{}), averages[number % 3], rows}, {diary}, steps);
  }
};

template <class Kind, class Policy>
using WithEvery = std::tuple<Pair<Kind, Policy, px::Sgd>, Pair<Kind, Policy, px::Adagrad>, Pair<Kind, Policy, px::Adam>,
                             Pair<Kind, Policy, px::LazyAdam>, Pair<Kind, Policy, Tempered>>;
template <class... Tuples>
using Joined = decltype(std::tuple_cat(std::declval<Tuples>()...));
using Layers = Joined<WithEvery<px::Dense, px::AllReduce>, WithEvery<px::Dense, px::PsShard>>;
using Tables = Joined<WithEvery<px::Sparse, px::PsShard>, WithEvery<px::Sparse, px::AllGather>,
                      WithEvery<px::Sparse, px::AllReduce>, WithEvery<px::Sparse, px::NaivePs>>;

template <class... Pairs, class Session>
auto keep(std::type_identity<std::tuple<Pairs...>>, Session& session, std::string const& name) {
  std::size_t number = 0;
  auto const next = [&]<class P>(std::type_identity<P>) {
    std::size_t const n = number++;
    return Kept<typename P::Variable>{session, name + std::to_string(n), P::alone(n), P::reduce(n)};
  };
  return std::tuple{next(std::type_identity<Pairs>{})...};
}

template <class... Pairs, class Kepts>
void check(std::type_identity<std::tuple<Pairs...>>, Kepts const& kepts, int ranks, std::vector<int> const& hosts) {
  std::size_t number = 0;
  std::apply([&](auto const&... kept) { (Pairs::check(number++, ranks, hosts, kept.diary), ...); }, kepts);
}

}  // namespace

TEST_CASE("every policy with every optimizer gives the oracle's bits on MPI", "[equivalence][mpi]") {
  px::MpiCommunicator world;
  std::vector<int> hosts = GENERATE(std::vector<int>{}, std::vector<int>{0, 0, 1});
  if (world.size() < 3 && !hosts.empty()) return;

  px::Session session{hosts.empty() ? px::Topology{world} : px::Topology{world, hosts}};
  auto layers = keep(std::type_identity<Layers>{}, session, "layer ");
  auto tables = keep(std::type_identity<Tables>{}, session, "table ");
  for (int step = 0; step < steps; ++step) {
    std::apply([&](auto&... layer) { (layer.next(step), ...); }, layers);
    std::apply([&](auto&... table) { (table.next(step), ...); }, tables);
    auto handles = std::apply([&](auto&... table) { return session.pull(table.variable.at(table.ids())...); }, tables);
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (std::get<I>(tables).note_pulled(step, std::get<I>(handles)), ...);
      std::apply([&](auto&... layer) { session.step(layer.grad()..., std::get<I>(tables).grad(std::get<I>(handles))...); }, layers);
    }(std::make_index_sequence<std::tuple_size_v<Tables>>{});
    std::apply([&](auto&... layer) { (layer.note(step + 1), ...); }, layers);
  }
  std::apply([&](auto&... table) { (table.note(steps), ...); }, tables);
  session.finish();

  check(std::type_identity<Layers>{}, layers, world.size(), hosts);
  check(std::type_identity<Tables>{}, tables, world.size(), hosts);
}
