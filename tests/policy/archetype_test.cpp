// Every way, driven over states that have what the concepts of policy/state.hpp name and nothing more, on two ranks that are threads;
// the results are those of plain loops.
#include "archetype.hpp"

#include <barrier>
#include <cmath>
#include <functional>
#include <thread>
#include <type_traits>

#include "../catch.hpp"
#include "../support/bf16_wire.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/detail/step/dense_exchange.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;
using namespace parallax_test::archetype;

namespace {

constexpr int ranks = 2;

template <class Policy>
struct Wired : Policy {
  template <class Kind>
  struct exchange : Policy::template exchange<Kind> {
    using wire = parallax_test::Bf16Wire;
  };
};
// The exchange of a policy from outside, over sums of its own: every rank sends its gradient to all.
struct Swap {
  template <px::Communicator C, class Update>
  class way : public px::DenseWay<C, Update, px::WholeSums> {
    using Base = px::DenseWay<C, Update, px::WholeSums>;

   public:
    void prepare(Update const& update, px::Topology<C> const& topology, px::Preparing how, int clip) {
      Base::prepare(update, topology, how, clip);
      this->sums_.open(this->gradient_.size());
      arrived_ = false;
    }
    bool next(px::Mails<C>& mails) {
      if (arrived_) return false;
      slip_ = mails.of().open_shared(sizeof(float), px::Payload::dense);
      for (int rank = 0; rank < ranks; ++rank) {
        mails.of().send(slip_, rank, this->gradient_.size_bytes());
        mails.of().expect(slip_, rank, this->gradient_.size_bytes());
      }
      return true;
    }
    void write(px::Mails<C>& mails) {
      mails.of().template write_shared<float>(slip_, [&](float* run) { std::ranges::copy(this->gradient_, run); });
    }
    void read(px::Mails<C>& mails) {
      auto const sums = this->sums_.own().values;
      std::ranges::fill(sums, 0.0f);
      for (int rank = 0; rank < ranks; ++rank)
        for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += mails.of().template incoming<float>(slip_, rank)[i];
      arrived_ = true;
    }

   private:
    int slip_ = -1;
    bool arrived_ = true;
  };
  static constexpr bool sharded = false;
};
struct Chosen : px::Choose<px::PsShard, px::AllGather, px::AllReduce> {
  static constexpr std::string_view name = "Chosen";
};

// The ranks' own words, in place of a session's agreements.
struct Meeting {
  std::barrier<> meets{ranks};
  std::size_t told[ranks][ranks][2] = {};
  double squares[ranks] = {};
  bool willing[ranks] = {};
  std::vector<double> uses[ranks];
};

struct Asked {
  int clip = -1;         // the number of a clip group, of norm 1
  bool early = false;    // sums may spread before the commit
  bool keeps = false;    // ways copy what they are given
  bool refuses = false;  // after the agreement
};

// The legs of ways of one type.
template <class C, class W>
class Legs final : public px::Traveller<C> {
 public:
  explicit Legs(std::vector<W>& ways) : ways_{&ways} {}
  bool next(px::Mails<C>& mails) override {
    bool any = false;
    each([&](auto& way) { any |= way.travelling = way.next(mails); });
    return any;
  }
  void write(px::Mails<C>& mails) override {
    each([&](auto& way) { way.travelling ? way.write(mails) : void(); });
  }
  void read(px::Mails<C>& mails) override {
    each([&](auto& way) { way.travelling ? way.read(mails) : void(); });
  }

 private:
  template <class F>
  void each(F&& f) {
    for (W& way : *ways_) px::detail::with_way(way, f);
  }
  std::vector<W>* ways_;
};

// A flight of ways of one type: the phases of a step as a session calls them, without its checks.
template <class C>
class Flight {
 public:
  Flight(C& world, Meeting& meeting, bool hosts)
      : topology{hosts ? px::Topology<C>{world, std::vector<int>{0, 1}} : px::Topology<C>{world}}, meeting_{&meeting} {}

  template <class W, class Update>
  void step(std::vector<W>& ways, std::vector<Update> const& updates, Asked asked) {
    auto const me = static_cast<std::size_t>(topology.rank());
    auto const each = [&](auto&& f) {
      for (W& way : ways) px::detail::with_way(way, f);
    };
    auto const leaders = [&](auto&& f) {
      each([&](auto& way) {
        if (way.leader()) f(way);
      });
    };
    auto const until = [](auto&& poll) {
      while (!poll()) std::this_thread::yield();
    };
    for (auto& bucket : buckets_.all()) bucket->clear();
    for (std::size_t i = 0; i < ways.size(); ++i) ways[i].prepare(updates[i], topology, {asked.keeps, false, true}, asked.clip);
    bool early = asked.early;
    each([&](auto& way) {
      way.join(buckets_);
      early = early && way.gathers_early();
      static_cast<void>(way.gradient()), static_cast<void>(way.named()), static_cast<void>(way.memory());
    });
    px::Spread const in_place = asked.clip < 0 ? px::Spread::in_place : px::Spread::apart;
    for (auto& bucket : buckets_.all()) bucket->close(topology, {}, early ? in_place : px::Spread::later);
    std::size_t which = 0;
    each([&](auto& way) {
      if (way.counts() == 0) return;
      way.tell(topology, [&](int rank, std::size_t n) { meeting_->told[me][static_cast<std::size_t>(rank)][which] = n; });
      ++which;
    });
    meeting_->meets.arrive_and_wait();
    which = 0;
    each([&](auto& way) {
      if (way.counts() == 0) return;
      way.hear(topology, [&](int rank) { return meeting_->told[static_cast<std::size_t>(rank)][me][which]; });
      ++which;
    });
    if (asked.refuses) {
      each([](auto& way) { way.refused(), way.close(); });
    } else {
      until([&] { return carried(ways); });
      dense_.begin(early);
      until([&] { return dense_.exchange(); });
      each([&](auto& way) { way.reduce(), way.divide_by({ranks, ranks}), way.deposit(asked.clip); });
      each([](auto& way) { way.merge(); });
      each([](auto& way) { way.transform(); });
      measured_.clear();
      leaders([&](auto& way) { way.enrol(measured_); });
      measured_.open(topology);
      meeting_->squares[me] = 0;
      leaders([&](auto& way) {
        px::RowsView<float const> const rows = way.clipped(topology), all = way.result();
        for (std::int64_t i = 0; i < rows.rows && asked.clip >= 0; ++i)
          for (float const value : rows[i]) meeting_->squares[me] += value * value;
        if (all.rows > 0 && all.width > 0) static_cast<void>(way.place_of({0, 0, 0}, true));
      });
      meeting_->meets.arrive_and_wait();
      double const norm = std::sqrt(meeting_->squares[0] + meeting_->squares[1]), scale = norm > 1 ? 1 / norm : 1;
      until([&] { return dense_.gather_gradients(); });
      leaders([&](auto& way) { way.measure(scale); });
      until([&] { return measured_.gather(dense_.lane()); });
      leaders([&](auto& way) { way.apply(scale); });
      until([&] { return dense_.gather_parameters(); });
      if constexpr (px::is_adaptive<typename Update::State::Exchange>) adapt(updates[0].state);
      each([](auto& way) { way.settled(), way.close(); });
    }
    for (auto& bucket : buckets_.all()) bucket->drop();
    meeting_->meets.arrive_and_wait();
  }

  // What a step does as its last act of a table under Choose; `then` is given an Adapting, too.
  template <class S>
  void adapt(S* state, std::function<void(px::detail::Adapting<C>&)> then = {}) {
    using Adaptation = px::detail::Adaptation<S>;
    auto const me = static_cast<std::size_t>(topology.rank());
    px::List<double> words;
    if (!then) {
      Adaptation::tell(*state, words, 1.0);
      meeting_->uses[me].assign(words.begin(), words.end());
    }
    meeting_->meets.arrive_and_wait();
    auto const drive = [](std::string const&, px::FunctionRef<bool()> poll) {
      while (!poll()) std::this_thread::yield();
    };
    auto const all = [&](std::string const&, bool mine) {
      meeting_->willing[me] = mine;
      meeting_->meets.arrive_and_wait();
      bool const every = meeting_->willing[0] && meeting_->willing[1];
      meeting_->meets.arrive_and_wait();
      return every;
    };
    px::AutoOptions const options{.first_step = 1000};
    px::Costs costs, on_device;
    px::detail::Adapting<C> by{topology, options, costs, on_device, 1, mails_.lane(), drive, all, decisions};
    if (then) return then(by);
    Adaptation::conclude(*state, by, [&](int rank) -> double const* { return meeting_->uses[rank].data(); });
  }

  px::Topology<C> topology;
  std::vector<px::Decision> decisions;

 private:
  template <class W>
  bool carried(std::vector<W>& ways) {
    Legs<C, W> legs{ways};
    px::Traveller<C>* const one = &legs;
    while (!px::carry<C>(mails_, {&one, 1})) std::this_thread::yield();
    return true;
  }

  px::Traffic traffic_;
  px::Mails<C> mails_{topology, 1, traffic_};
  px::Buckets<C> buckets_;
  px::detail::DenseExchange<C> dense_{topology, 2, traffic_, buckets_};
  px::MeasuredSums<C> measured_;
  Meeting* meeting_;
};

// Runs `body(flight, kept)` on two ranks, and returns what the state of each has kept.
template <class Body>
std::vector<Kept> on_two_ranks(Kept const& begin, bool hosts, Body const& body) {
  std::vector<Kept> kept(ranks, begin);
  Meeting meeting;
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    Flight<px::ThreadCommunicator> flight{world, meeting, hosts};
    body(flight, kept[static_cast<std::size_t>(world.rank())]);
  });
  return kept;
}
// The largest difference beside what is expected; of a table with two owners in turn the rows of each are looked at alone.
double off(std::vector<Kept> const& kept, std::vector<double> const& expected, bool shards = false) {
  double worst = 0;
  for (std::size_t rank = 0; rank < kept.size(); ++rank)
    for (std::size_t i = 0; i < expected.size(); ++i)
      if (!shards || i / kept[rank].unit % ranks == rank) worst = std::max(worst, std::abs(kept[rank].values[i] - expected[i]));
  return worst;
}

struct Doubling {
  void operator()(px::DenseGradient<float> const& gradient) const {
    for (float& value : gradient.values) value *= 2;
  }
  void operator()(px::RowsGradient<std::int64_t, float> const& gradient) const {
    for (std::size_t i = 0; i < gradient.ids.size(); ++i)
      for (float& value : gradient.values[static_cast<std::int64_t>(i)]) value *= gradient.ids[i] >= 0 ? 2.0f : 0.0f;
  }
};

float dense_gradient(int rank, std::size_t update, std::size_t i) {
  return static_cast<float>((rank + 1) * (static_cast<int>(i) - 3) + static_cast<int>(update));
}

// Two steps of two updates of one dense variable, beside loops over all ranks; then one that is refused.
template <class S, class F>
std::string train_dense(std::string const& what) {
  std::string wrong;
  for (int const shape : {0, 1, 2, 7}) {
    Asked const asked{shape & 1 ? 0 : -1, (shape & 2) != 0, (shape & 4) != 0, false};
    for (px::Reduce const reduce : {px::Reduce::sum, px::Reduce::mean}) {
      Kept begin{.values = {1, 2, 3, 4, 5, 6, 7, 8}, .unit = 1, .rate = 0.5f, .reduce = reduce};
      if constexpr (!S::by_element && !S::measures) begin.unit = 2;
      std::vector<double> expected(begin.values.begin(), begin.values.end());
      for (int step = 0; step < 2; ++step) {
        std::vector<double> sums(expected.size());
        double squares = 0, rate = begin.rate;
        for (std::size_t i = 0; i < sums.size(); ++i) {
          for (int rank = 0; rank < ranks; ++rank)
            for (std::size_t update = 0; update < 2; ++update) sums[i] += dense_gradient(rank, update, i);
          sums[i] /= reduce == px::Reduce::sum ? 1 : ranks;
          if (px::transforms<F>) sums[i] *= 4;  // by the function of each update
          squares += sums[i] * sums[i];
        }
        double const scale = asked.clip >= 0 ? 1 / std::sqrt(squares) : 1;
        if (S::measures) rate /= 1 + squares * scale * scale / static_cast<double>(sums.size());
        for (std::size_t i = 0; i < sums.size(); ++i) expected[i] -= rate * scale * sums[i];
      }
      auto const kept = on_two_ranks(begin, false, [&]<class C>(Flight<C>& flight, Kept& mine) {
        using Update = px::DenseUpdate<S, F>;
        px::Shared<S> const state = px::make_counted<S>(mine);
        std::vector<px::detail::way_of<C, Update>> ways(2);
        std::vector<std::vector<float>> gradients(2, std::vector<float>(8));
        for (std::size_t update = 0; update < 2; ++update)
          for (std::size_t i = 0; i < 8; ++i) gradients[update][i] = dense_gradient(flight.topology.rank(), update, i);
        std::vector<Update> const updates{{state.get(), gradients[0]}, {state.get(), gradients[1]}};
        for (int step = 0; step < 2; ++step) flight.step(ways, updates, asked);
        flight.step(ways, updates, {.refuses = true});
      });
      bool const wired = px::encodes<px::wire_of<typename S::Exchange>>;
      if (double const worst = off(kept, expected); !(worst < (wired ? 0.1 : 1e-4)))
        wrong += what + ", " + std::to_string(shape) + ": off by " + std::to_string(worst) + "\n";
      for (Kept const& mine : kept)
        if (mine.reserved != 2 || mine.begun != 2 || mine.updates != 2 || mine.settled != 4 || mine.refused != 2)
          wrong += what + ", " + std::to_string(shape) + ": it was told otherwise of its steps\n";
    }
  }
  return wrong;
}
template <template <class> class S>
std::string train_dense_by(std::string const& what) {
  auto const of = [&]<class E>(std::type_identity<E>, std::string const& policy) {
    static_assert(px::DenseVariableState<S<E>>);
    return train_dense<S<E>, px::NoTransform>(what + " by " + policy) +
           train_dense<S<E>, Doubling>(what + " by " + policy + ", transformed");
  };
  return of(std::type_identity<px::AllReduce::exchange<px::Dense>>{}, "AllReduce") +
         of(std::type_identity<px::PsShard::exchange<px::Dense>>{}, "PsShard") +
         of(std::type_identity<Wired<px::AllReduce>::exchange<px::Dense>>{}, "AllReduce with a wire") +
         of(std::type_identity<Wired<px::PsShard>::exchange<px::Dense>>{}, "PsShard with a wire") +
         of(std::type_identity<Swap>{}, "sums of its own");
}

// Of a table of 9 rows: what a rank names by an update, twice one of the rows, and the gradients of them.
constexpr std::size_t width = 2, table_rows = 9;
std::vector<std::int64_t> ids_of(int rank, std::size_t update) {
  if (update == 0) return rank == 0 ? std::vector<std::int64_t>{5, 1, 5, 8} : std::vector<std::int64_t>{0, 5, 7};
  return rank == 0 ? std::vector<std::int64_t>{2, 2} : std::vector<std::int64_t>{1, 6};
}
float row_gradient(int rank, std::size_t i, std::size_t c) {
  return static_cast<float>((rank + 1) * (static_cast<int>(i) - 1) + static_cast<int>(c));
}
std::vector<float> rows_of(int rank, std::size_t update) {
  std::vector<float> rows;
  for (std::size_t i = 0; i < ids_of(rank, update).size(); ++i)
    for (std::size_t c = 0; c < width; ++c) rows.push_back(row_gradient(rank, i, c));
  return rows;
}
// By loops over all ranks: the table after a step with so many updates.
void step_by_loops(std::vector<double>& table, Kept const& begin, std::size_t updates, bool clipped, bool transformed) {
  std::vector<double> sums(table.size()), named(table_rows);
  for (std::size_t update = 0; update < updates; ++update)
    for (int rank = 0; rank < ranks; ++rank) {
      auto const ids = ids_of(rank, update);
      for (std::size_t i = 0; i < ids.size(); ++i) {
        auto const row = static_cast<std::size_t>(ids[i]);
        named[row] += 1;
        for (std::size_t c = 0; c < width; ++c) sums[row * width + c] += row_gradient(rank, i, c);
      }
    }
  double squares = 0;
  for (std::size_t i = 0; i < sums.size(); ++i) {
    if (begin.reduce == px::Reduce::mean) sums[i] /= ranks;
    if (begin.reduce == px::Reduce::mean_by_count) sums[i] /= std::max(named[i / width], 1.0);
    if (transformed) sums[i] *= static_cast<double>(2 * updates);  // by the function of each
    squares += sums[i] * sums[i];
  }
  double const scale = clipped ? std::min(1.0, 1 / std::sqrt(squares)) : 1;
  for (std::size_t i = 0; i < sums.size(); ++i) table[i] -= begin.rate * scale * sums[i];
}
Kept table_of(px::Reduce reduce) {
  Kept kept{.values = std::vector<float>(table_rows * width), .unit = width, .rate = 0.5f, .reduce = reduce};
  for (std::size_t i = 0; i < kept.values.size(); ++i) kept.values[i] = static_cast<float>(i);
  return kept;
}

// Two steps of two updates that name rows by index, and one that is refused; then one of the plan of a pull, and one of a plan
// whose rows have moved since.
template <class S, class F>
std::string train_table(std::string const& what) {
  static_assert(px::TableState<S>);
  std::string wrong;
  for (int const shape : {0, 3, 5, 6}) {
    Asked const asked{shape & 1 ? 0 : -1, false, (shape & 4) != 0, false};
    bool const hosts = (shape & 2) != 0;
    for (px::Reduce const reduce : {px::Reduce::sum, px::Reduce::mean, px::Reduce::mean_by_count}) {
      Kept const begin = table_of(reduce);
      std::vector<double> expected(begin.values.begin(), begin.values.end());
      bool const transformed = px::transforms<F>, clips = asked.clip >= 0;
      for (int step = 0; step < 2; ++step) step_by_loops(expected, begin, 2, clips, transformed);
      for (int step = 0; step < 2; ++step) step_by_loops(expected, begin, 1, clips, transformed);
      auto const kept = on_two_ranks(begin, hosts, [&]<class C>(Flight<C>& flight, Kept& mine) {
        using Update = px::RowUpdate<S, std::int64_t, F>;
        px::Shared<S> const state = px::make_counted<S>(mine);
        std::vector<px::detail::way_of<C, Update>> ways(2), one(1);
        int const rank = flight.topology.rank();
        std::vector<std::int64_t> const ids[] = {ids_of(rank, 0), ids_of(rank, 1)};
        std::vector<float> const rows[] = {rows_of(rank, 0), rows_of(rank, 1)};
        auto const update = [&](std::size_t number, typename S::Plan* plan) {
          auto const n = static_cast<std::int64_t>(ids[number].size());
          return Update{
              state.get(), plan, plan ? std::span<std::int64_t const>{} : ids[number], {rows[number].data(), n, width}};
        };
        std::vector<Update> const both{update(0, nullptr), update(1, nullptr)};
        for (int step = 0; step < 2; ++step) flight.step(ways, both, asked);
        flight.step(ways, both, {.refuses = true});
        double const pushed = state->seen.pushed;
        for (bool const retires : {false, true}) {
          typename S::Plan& plan = state->take_plan();
          ++plan.users;
          px::detail::make_plan(flight.topology, px::IndicesOf{state.get(), std::span{ids[0]}}, plan, "pull");
          if (retires) plan.retire([&](std::int64_t key) { return state->placement().row(key); });
          flight.step(one, std::vector{update(0, &plan)}, asked);
          --plan.users;
        }
        if (!(state->seen.pushed > pushed)) mine.updates = -1;
      });
      bool const wired = px::encodes<px::wire_of<typename S::Exchange>>;
      if (double const worst = off(kept, expected, S::Exchange::sharded); !(worst < (wired ? 0.1 : 1e-4)))
        wrong += what + ", " + std::to_string(shape) + ": off by " + std::to_string(worst) + "\n";
      for (Kept const& mine : kept)
        if (mine.reserved != 4 || mine.updates != 4 || mine.settled != 6 || mine.refused != 2)
          wrong += what + ", " + std::to_string(shape) + ": it was told otherwise of its steps\n";
    }
  }
  return wrong;
}
template <class P, bool lazy = false>
std::string train_table_by(std::string const& what) {
  return train_table<Table<P, lazy>, px::NoTransform>(what) + train_table<Table<P, lazy>, Doubling>(what + ", transformed");
}

}  // namespace

TEST_CASE("every dense way asks a state for members of the concept alone", "[policy][archetype]") {
  CHECK(train_dense_by<ByElement>("a rule by element") == "");
  CHECK(train_dense_by<ByRow>("a rule by row") == "");
  CHECK(train_dense_by<ByTensor>("a rule that measures") == "");
}

TEST_CASE("every way of rows asks a table for members of the concept alone", "[policy][archetype]") {
  CHECK(train_table_by<px::PsShard>("PsShard") == "");
  CHECK(train_table_by<Wired<px::PsShard>>("PsShard with a wire") == "");
  CHECK(train_table_by<px::AllGather>("AllGather") == "");
  CHECK(train_table_by<Wired<px::AllGather>>("AllGather with a wire") == "");
  CHECK(train_table_by<px::AllReduce>("AllReduce") == "");
  CHECK(train_table_by<px::AllReduce, true>("AllReduce of a lazy optimizer") == "");
}

TEST_CASE("a table under Choose has members of its concept alone, and goes on as it is moved", "[policy][archetype]") {
  using S = AdaptiveTable<Chosen>;
  static_assert(px::AdaptiveTableState<S, px::ThreadCommunicator>);
  Kept const begin = table_of(px::Reduce::mean);
  std::vector<double> expected(begin.values.begin(), begin.values.end());
  for (int step = 0; step < 5; ++step) step_by_loops(expected, begin, 1, false, false);
  std::vector<std::string> reasons[ranks];
  auto const kept = on_two_ranks(begin, false, [&]<class C>(Flight<C>& flight, Kept& mine) {
    using Update = px::RowUpdate<S, std::int64_t>;
    px::Shared<S> const state = px::make_counted<S>(mine);
    std::vector<px::detail::way_of<C, Update>> ways(1);
    int const rank = flight.topology.rank();
    auto const ids = ids_of(rank, 0);
    auto const rows = rows_of(rank, 0);
    std::vector<Update> const updates{{state.get(), nullptr, ids, {rows.data(), static_cast<std::int64_t>(ids.size()), width}}};
    auto const move = [&](std::size_t choice) {
      flight.adapt(state.get(), [&](px::detail::Adapting<C>& by) {
        px::detail::move_rows(*state, px::detail::PlannedMove<Pieces>{choice, state->partitioner(), "it is time"}, by);
      });
    };
    flight.step(ways, updates, {});
    for (std::size_t const choice : {1u, 2u, 0u}) {
      move(choice);
      flight.step(ways, updates, {});
    }
    state->search = px::make_owned<px::PieceSearch>(2, px::SearchOptions{.steps = 1, .settling = 0});
    flight.step(ways, updates, {});
    move(1);
    for (auto const& decision : flight.decisions) reasons[rank].push_back(decision.text.substr(0, 10));
    if (state->told_words != px::Chooser::words + 1 || state->step_began != 1.0 || state->partitioner().pieces == 2)
      mine.updates = -1;
  });
  CHECK(off(kept, expected) < 1e-4);
  for (Kept const& mine : kept) CHECK(mine.updates == 5);
  for (Kept const& mine : kept) CHECK(mine.placements == 1);
  CHECK(reasons[0] == std::vector<std::string>{"it is time", "it is time", "it is time", "2 pieces t", "it is time"});
  CHECK(reasons[1] == reasons[0]);
}

TEST_CASE("a batch with bags, of a stack, with ids outside asks a table for members of the concept alone",
          "[policy][archetype]") {
  using S = Table<px::PsShard>;
  Kept begin = table_of(px::Reduce::sum);
  begin.bad_ids = px::BadIds::drop_and_count;
  begin.firsts = {0, 4, 9};
  std::vector<double> expected(begin.values.begin(), begin.values.end());
  // The bags of table 0 are {1, 1} and {0}, those of table 1 are {3, 77} and {}: of the whole the rows 1, 1, 0 and 7.
  for (auto const& [row, bag] : {std::pair{1, 0}, {1, 0}, {0, 1}, {7, 2}})
    for (std::size_t c = 0; c < width; ++c) expected[static_cast<std::size_t>(row) * width + c] -= 0.5 * 3 * (bag + 1);
  auto const kept = on_two_ranks(begin, false, [&]<class C>(Flight<C>& flight, Kept& mine) {
    using Update = px::RowUpdate<S, std::int64_t>;
    px::Shared<S> const state = px::make_counted<S>(mine);
    std::vector<std::int64_t> const ids{1, 1, 0, 3, 77}, offsets{0, 2, 3, 5, 5};
    typename S::Plan& plan = state->take_plan();
    ++plan.users;
    px::BagsOf<S, std::int64_t, std::int64_t> const bags{{state.get(), ids}, offsets, {}, px::Pool::sum, false};
    px::detail::make_plan(flight.topology, bags, plan, "pull");
    std::vector<float> rows;
    for (int bag = 0; bag < 4; ++bag)
      for (std::size_t c = 0; c < width; ++c) rows.push_back(static_cast<float>((flight.topology.rank() + 1) * (bag + 1)));
    std::vector<px::detail::way_of<C, Update>> ways(1);
    flight.step(ways, std::vector{Update{state.get(), &plan, {}, {rows.data(), 4, width}, px::RowsPer::bag}}, {});
    --plan.users;
    mine.bad_ids = px::BadIds::error;
    try {
      px::detail::make_plan(flight.topology, px::IndicesOf{state.get(), std::span{ids}}, plan, "pull");
    } catch (px::Error const& error) {
      mine.dropped += error.code() == px::Errc::bad_id ? 100 : 0;
    }
  });
  CHECK(off(kept, expected, true) < 1e-4);
  for (Kept const& mine : kept) CHECK(mine.dropped == 101);
}
