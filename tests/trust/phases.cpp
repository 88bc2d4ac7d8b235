// A rank of a random training in phases, in the library: sessions over any communicator, a variable of every way to make it.
#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "parallax/async/async_session.hpp"
#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/comm/any.hpp"
#include "parallax/parallax.hpp"
#include "phases_of.hpp"

namespace parallax_test::phases {
namespace {

namespace px = parallax;
using Any = px::AnyCommunicator;
using Session = px::Session<Any>;
using Apart = px::AsyncSession<Any>;

struct Mine : px::Choose<px::AllReduce, px::PsShard> {
  static constexpr std::string_view name = "Mine";
};
using Narrow = px::Index<std::int32_t>;

// By kind, and by the way in which it is made (phases.hpp).
using Made = std::tuple<
    std::tuple<px::Variable<px::Dense, px::PsShard, px::Momentum>, px::Variable<px::Dense, px::AllReduce, px::Momentum>>,
    std::tuple<px::Variable<px::Dense, px::PsShard, px::Adam>, px::Variable<px::Dense, px::AllReduce, px::Adam>>,
    std::tuple<px::Variable<px::Sparse, px::PsShard, px::Momentum>,
               px::Variable<px::Sparse, px::Auto, px::Momentum, px::Hash, Narrow>,
               px::Variable<px::Sparse, px::AllGather, px::Momentum, px::Block>>,
    std::tuple<px::Variable<px::Sparse, px::PsShard, px::Adam, px::Block, Narrow>,
               px::Variable<px::Sparse, px::AllReduce, px::Adam>, px::Variable<px::Sparse, Mine, px::Adam, px::Hash>,
               px::Variable<px::Sparse, px::Auto, px::Adam>>,
    std::tuple<px::Variable<px::Sparse, px::PsShard, px::Subtract, px::Hash>,
               px::Variable<px::Sparse, px::AllGather, px::Subtract>,
               px::Variable<px::Sparse, px::Auto, px::Subtract, px::Block>>,
    std::tuple<px::Variable<px::Sparse, px::PsShard, px::Adagrad, px::Hash, Narrow>,
               px::Variable<px::Sparse, px::Auto, px::Adagrad>,
               px::Variable<px::Sparse, px::AllReduce, px::Adagrad, px::Block>>>;

template <class V>
inline constexpr bool is_dense = std::same_as<typename V::kind, px::Dense>;
template <class V>
inline constexpr bool is_narrow = false;
template <class V>
  requires(!is_dense<V>)
inline constexpr bool is_narrow<V> = std::same_as<typename V::State::index_type, std::int32_t>;
template <class V>
inline constexpr bool knows_letters = std::same_as<typename V::State::policy, px::PsShard>;

template <class V, bool dense = is_dense<V>>
struct UpdatesOf {
  using type = std::vector<px::DenseUpdate<typename V::State>>;
};
template <class V>
struct UpdatesOf<V, false> {
  using type = std::vector<px::RowUpdate<typename V::State, typename V::State::index_type>>;
};
template <class... Lists>
using Joined = decltype(std::tuple_cat(std::declval<Lists>()...));
template <class Tuple>
struct GivenOf;
template <class... Lists>
struct GivenOf<std::tuple<Lists...>> {
  template <class List>
  struct Each;
  template <class... V>
  struct Each<std::tuple<V...>> {
    using type = std::tuple<typename UpdatesOf<V>::type...>;
    using letters = Joined<std::conditional_t<knows_letters<V>, std::tuple<typename UpdatesOf<V>::type>, std::tuple<>>...>;
  };
  using type = Joined<typename Each<Lists>::type...>;
  using letters = Joined<typename Each<Lists>::letters...>;
};
// A list of updates for each type of variable; and of those that a worker may push.
using Given = GivenOf<Made>::type;
using Pushed = GivenOf<Made>::letters;

bool same(float a, float b) { return a == b || (std::isnan(a) && std::isnan(b)); }

struct Complaint : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// The things that a step reads until it returns.
struct Keep {
  std::deque<std::vector<float>> values;
  std::deque<std::vector<std::int64_t>> ids;
  std::deque<std::vector<std::int32_t>> narrow_ids;
  std::deque<std::shared_ptr<void>> things;
};

// A variable of any type.
struct Held {
  virtual ~Held() = default;
  virtual void bring(Session& session, Update const& update, int rank, Variable const& before, Keep& keep, Given& given) = 0;
  virtual void bring(px::Worker<px::detail::edge_of<Any>>& worker, Update const& update, int rank, Variable const& before,
                     Keep& keep, Pushed& given) = 0;
  virtual void name_ahead(Session& session, std::vector<std::int64_t> const& ids) = 0;
  virtual void pull_ahead(Session& session, std::vector<std::int64_t> const& ids, Variable const& now) = 0;
  virtual void look(Session& session, Variable const& now) = 0;
  virtual void rate(double rate) = 0;
  virtual void assign(Session& session, std::vector<std::int64_t> const& ids, std::vector<float> const& rows) = 0;
  virtual void scale(Session& session, std::vector<std::int64_t> const& ids, double factor) = 0;
  virtual void search(Session& session) = 0;
};

[[noreturn]] void differs(Variable const& variable, char const* what, std::int64_t at, double is, double right) {
  char text[160];
  std::snprintf(text, sizeof text, "%s of %s at %lld is %.9g for %.9g", what, variable.name.c_str(), static_cast<long long>(at),
                is, right);
  throw Complaint{text};
}
void demand(bool right, std::string const& about) {
  if (!right) throw Complaint{about};
}

template <class V>
class HeldBy : public Held {
  using State = typename V::State;
  using Optimizer = typename State::optimizer_type;
  static constexpr bool dense = is_dense<V>;

 public:
  template <class AnySession>
  HeldBy(AnySession& session, Variable const& as) : memory_(as.values), variable_{make(session, as)} {}

  V& variable() { return variable_; }

  void bring(Session& session, Update const& update, int rank, Variable const& before, Keep& keep, Given& given) override {
    bring_by(session, update, rank, before, keep, std::get<typename UpdatesOf<V>::type>(given));
  }
  void bring(px::Worker<px::detail::edge_of<Any>>& worker, Update const& update, int rank, Variable const& before, Keep& keep,
             Pushed& given) override {
    if constexpr (knows_letters<V>) bring_by(worker, update, rank, before, keep, std::get<typename UpdatesOf<V>::type>(given));
    else throw Complaint{"no letters"};
  }

  void name_ahead(Session& session, std::vector<std::int64_t> const& ids) override {
    if constexpr (!dense) ahead_.emplace(session.prefetch(variable_, ids));
  }
  void pull_ahead(Session& session, std::vector<std::int64_t> const& ids, Variable const& now) override {
    if constexpr (!dense) {
      auto const rows = session.pull(std::move(*ahead_));
      ahead_.reset();
      compare(rows, ids, now, "a row named ahead");
    }
  }

  void look(Session& session, Variable const& now) override {
    if (variable_.steps() != now.steps)
      throw Complaint{now.name + " has " + std::to_string(variable_.steps()) + " steps for " + std::to_string(now.steps)};
    if constexpr (requires { variable_.optimizer().learning_rate; })
      if (variable_.optimizer().learning_rate != now.rate)
        differs(now, "the rate", 0, variable_.optimizer().learning_rate, now.rate);
    if constexpr (dense) {
      auto const values = variable_.values();
      for (std::size_t i = 0; i < values.size(); ++i)
        if (!same(values[i], now.values[i])) differs(now, "a value", static_cast<std::int64_t>(i), values[i], now.values[i]);
      each_slot(
          [&](char const* name, std::vector<float> const& right) {
            auto const slot = variable_.template slot<float>(name);
            for (std::size_t i = 0; i < slot.size(); ++i)
              if (!same(slot[i], right[variable_.first_owned() + i]))
                differs(now, name, static_cast<std::int64_t>(variable_.first_owned() + i), slot[i],
                        right[variable_.first_owned() + i]);
          },
          now);
    } else {
      std::vector<std::int64_t> all(static_cast<std::size_t>(now.rows));
      for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<std::int64_t>((i * 7 + 3) % all.size());
      compare(session.pull(variable_, all), all, now, "a pulled row");
      auto const check = [&](auto const& local, std::vector<float> const& right, char const* what) {
        for (std::int64_t row = 0; row < local.rows; ++row)
          for (std::int64_t c = 0; c < local.width; ++c) {
            std::int64_t const number = variable_.global_row(row);
            if (float const r = right[static_cast<std::size_t>(number * local.width + c)]; !same(local.row(row)[c], r))
              differs(now, what, number, local.row(row)[c], r);
          }
      };
      check(variable_.local(), now.values, "a row");
      each_slot([&](char const* name, std::vector<float> const& right) { check(variable_.slot(name), right, name); }, now);
    }
  }

  void rate(double rate) override {
    if constexpr (requires { variable_.optimizer().learning_rate; }) variable_.optimizer().learning_rate = rate;
  }
  void assign(Session& session, std::vector<std::int64_t> const& ids, std::vector<float> const& rows) override {
    if constexpr (!dense) session.assign(variable_, ids, rows);
  }
  void scale(Session& session, std::vector<std::int64_t> const& ids, double factor) override {
    if constexpr (!dense) session.scale(variable_, ids, factor);
  }
  void search(Session& session) override {
    if constexpr (requires { requires State::adaptive; })
      session.search_pieces(variable_, {.most = 6, .probes = 2, .steps = 1, .settling = 0});
  }

 private:
  template <class AnySession>
  V make(AnySession& session, Variable const& as) {
    Optimizer optimizer;
    if constexpr (requires { optimizer.learning_rate; }) optimizer.learning_rate = as.rate;
    if constexpr (requires { optimizer.momentum; }) optimizer.momentum = 0.5;
    auto const mean = static_cast<px::Reduce>(as.mean);
    if constexpr (dense) return V{session, as.name, px::bind(memory_), optimizer, mean};
    else
      return V{session, as.name,   px::Table{as.rows, as.width, px::constant(static_cast<double>(as.initial))},
               mean,    optimizer, as.drops ? px::BadIds::drop_and_count : px::BadIds::error};
  }

  template <class F>
  static void each_slot(F&& f, Variable const& now) {
    if (now.of().rule == Rule::momentum) f("v", now.first);
    if (now.of().rule == Rule::adagrad) f("sum", now.first);
    if (now.of().rule == Rule::adam) f("m", now.first), f("v", now.second);
  }

  template <class Rows>
  void compare(Rows const& rows, std::vector<std::int64_t> const& ids, Variable const& now, char const* what) {
    demand(rows.indices() == ids.size(), now.name + ": pulled another number of indices");
    std::set<std::int64_t> distinct;
    std::size_t dropped = 0;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      bool const there = inside(now, ids[i]);
      if (there) distinct.insert(ids[i]);
      dropped += !there;
      Row const right = there ? row_of(now, ids[i]) : Row(static_cast<std::size_t>(now.width));
      for (std::size_t c = 0; c < right.size(); ++c)
        if (!same(rows[i][c], right[c])) differs(now, what, ids[i], rows[i][c], right[c]);
    }
    demand(rows.size() == distinct.size(), now.name + ": pulled another number of rows");
    demand(rows.dropped() == dropped, now.name + ": dropped another number of indices");
  }

  template <class T, class... Arguments>
  static T& kept(Keep& keep, Arguments&&... arguments) {
    auto thing = std::make_shared<T>(std::forward<Arguments>(arguments)...);
    T& made = *thing;
    keep.things.push_back(std::move(thing));
    return made;
  }

  // Gives the rank's part of an update, to a list of its type. `puller`: a session, or a worker, of which dense variables are
  // pulled too.
  template <class Puller, class List>
  void bring_by(Puller& puller, Update const& update, int rank, Variable const& before, Keep& keep, List& list) {
    auto const& micros = update.ranks[static_cast<std::size_t>(rank)];
    if constexpr (dense) {
      if constexpr (!std::same_as<Puller, Session>) {
        puller.pull(variable_);
        for (std::size_t i = 0; i < memory_.size(); ++i)
          if (!same(memory_[i], before.values[i]))
            differs(before, "a pulled value", static_cast<std::int64_t>(i), memory_[i], before.values[i]);
      }
      if (update.form == Form::plain) {
        list.push_back(px::grad(variable_, keep.values.emplace_back(micros[0].values)));
      } else {
        auto& sums = kept<px::Accumulator<V>>(keep, variable_, update.micro_mean ? px::Micro::mean : px::Micro::sum);
        for (Batch const& micro : micros) sums.add(micro.values);
        list.push_back(sums.grad());
      }
    } else {
      constexpr bool wide = !is_narrow<V>;
      auto const pull = [&](Batch const& batch) -> auto& {
        auto pulled = puller.pull(variable_.at(batch.ids));
        compare(pulled, batch.ids, before, "a pulled row");
        return kept<decltype(pulled)>(keep, std::move(pulled));
      };
      switch (update.form) {
        case Form::plain: {
          auto const& values = keep.values.emplace_back(micros[0].values);
          if constexpr (wide) list.push_back(px::grad(variable_, keep.ids.emplace_back(micros[0].ids), values));
          else
            list.push_back(
                px::grad(variable_, keep.narrow_ids.emplace_back(micros[0].ids.begin(), micros[0].ids.end()), values));
          break;
        }
        case Form::rows: list.push_back(px::grad(pull(micros[0]), keep.values.emplace_back(micros[0].values))); break;
        case Form::distinct: {
          auto const& rows = pull(micros[0]);
          auto& values = keep.values.emplace_back();
          for (std::size_t j = 0; j < rows.size(); ++j)
            for (int c = 0; c < before.width; ++c) values.push_back(distinct_gradient(update.salt, rows.id(j), c));
          list.push_back(px::grad(rows, px::distinct(values)));
          break;
        }
        case Form::bags: {
          Batch const& batch = micros[0];
          auto const named = [&] {
            if (update.pool == Pooled::weighted) return variable_.bags(batch.ids, batch.offsets, batch.weights);
            return variable_.bags(batch.ids, batch.offsets, update.pool == Pooled::mean ? px::Pool::mean : px::Pool::sum);
          };
          auto pulled = puller.pull(named());
          std::vector<Row> const right = pooled(before, batch, update.pool);
          demand(pulled.size() == right.size(), before.name + ": pulled another number of bags");
          for (std::size_t bag = 0; bag < right.size(); ++bag)
            for (std::size_t c = 0; c < right[bag].size(); ++c)
              if (!same(pulled[bag][c], right[bag][c]))
                differs(before, "a bag", static_cast<std::int64_t>(bag), pulled[bag][c], right[bag][c]);
          auto const& bags = kept<decltype(pulled)>(keep, std::move(pulled));
          list.push_back(px::grad(bags, keep.values.emplace_back(batch.values)));
          break;
        }
        case Form::changed:
          if constexpr (std::same_as<Optimizer, px::Subtract>) {
            px::PulledRows<State>& rows = pull(micros[0]);
            auto changing = std::move(rows).editable();
            auto& changed = kept<decltype(changing)>(keep, std::move(changing));
            for (std::size_t i = 0; i < micros[0].ids.size(); ++i) {
              if (!inside(before, micros[0].ids[i])) continue;
              for (std::size_t c = 0; c < static_cast<std::size_t>(before.width); ++c)
                changed[i][c] += micros[0].values[i * static_cast<std::size_t>(before.width) + c];
            }
            list.push_back(px::grad(changed, px::difference));
          }
          break;
        case Form::accumulated:
        case Form::accumulated_rows:
          if constexpr (wide) {
            auto& sums = kept<px::Accumulator<V>>(keep, variable_, update.micro_mean ? px::Micro::mean : px::Micro::sum);
            for (Batch const& micro : micros) {
              auto const& values = keep.values.emplace_back(micro.values);
              if (update.form == Form::accumulated) sums.add(px::grad(variable_, micro.ids, values));
              else sums.add(px::grad(pull(micro), values));
            }
            list.push_back(sums.grad());
          }
          break;
      }
    }
  }

  std::vector<float> memory_;
  V variable_;
  using Prefetched = typename decltype([] {
    if constexpr (dense) return std::type_identity<int>{};
    else
      return std::type_identity<decltype(std::declval<Session&>().prefetch(
          std::declval<V const&>(), std::declval<std::vector<std::int64_t> const&>()))>{};
  }())::type;
  std::optional<Prefetched> ahead_;
};

template <std::size_t kind, class AnySession>
std::unique_ptr<Held> held(AnySession& session, Variable const& as) {
  using List = std::tuple_element_t<kind, Made>;
  static_assert(std::tuple_size_v<List> == static_cast<std::size_t>(kinds[kind].ways));
  std::unique_ptr<Held> made;
  auto const make = [&]<class V, std::size_t way>() {
    static_assert(knows_letters<V> || way > 0);
    static_assert(is_narrow<V> == (kinds[kind].narrow == static_cast<int>(way)));
    if (as.way != static_cast<int>(way)) return;
    if constexpr (std::same_as<AnySession, Session> || knows_letters<V>) made = std::make_unique<HeldBy<V>>(session, as);
  };
  [&]<std::size_t... way>(std::index_sequence<way...>) {
    (make.template operator()<std::tuple_element_t<way, List>, way>(), ...);
  }
  (std::make_index_sequence<std::tuple_size_v<List>>{});
  return made;
}
template <class AnySession>
std::unique_ptr<Held> held(AnySession& session, Variable const& as) {
  std::unique_ptr<Held> made;
  [&]<std::size_t... kind>(std::index_sequence<kind...>) {
    static_cast<void>(((as.kind == kind && (made = held<kind>(session, as), true)) || ...));
  }
  (std::make_index_sequence<std::tuple_size_v<Made>>{});
  if (!made) throw Complaint{"nobody makes " + as.name};
  return made;
}

px::Costs favouring(int method) {
  px::Costs costs;
  if (method == 0) costs.per_row = 1, costs.per_stream_byte = 1;  // PsShard
  if (method == 1) costs.round = 1;                               // AllGather
  if (method == 2) costs.per_key = 1;                             // AllReduce
  return costs;
}

// Returns the variable of one type, or none, as a checkpoint is given it.
template <class V>
struct OneOrNone {
  V *first = nullptr, *last = nullptr;
  V* begin() const { return first; }
  V* end() const { return last; }
};
template <class... Lists>
auto all_of(std::vector<std::unique_ptr<Held>> const& variables, std::type_identity<std::tuple<Lists...>>) {
  auto const one = [&]<class V>(std::type_identity<V>) {
    OneOrNone<V> found;
    for (auto const& held : variables)
      if (auto* const by = dynamic_cast<HeldBy<V>*>(held.get())) found = {&by->variable(), &by->variable() + 1};
    return std::tuple{found};
  };
  auto const each = [&]<class... V>(std::type_identity<std::tuple<V...>>) {
    return std::tuple_cat(one(std::type_identity<V>{})...);
  };
  return std::tuple_cat(each(std::type_identity<Lists>{})...);
}

class OfSession : public Doer {
 private:
  // Calls f(what a checkpoint has).
  template <class F>
  auto with_all(F&& f) {
    auto all = all_of(variables_, std::type_identity<Made>{});
    auto epoch = px::shared_value("epoch", epoch_);
    auto note = px::shared_value("note", note_);
    auto own = px::own_value("own", own_);
    return std::apply([&](auto&... lists) { return f(lists..., epoch, note, own); }, all);
  }

 public:
  OfSession(Any& communicator, World const& world) : world_{world}, rank_{communicator.rank()} {
    px::SessionOptions options;
    options.join_divisor = world.over_active ? px::JoinDivisor::active : px::JoinDivisor::world;
    options.non_finite = world.skips ? px::NonFinite::skip_step : px::NonFinite::propagate;
    if (world.fusion == 1) options.fusion = {.fusion_bytes = 32, .direct_bytes = 16, .round_bytes = 8};
    if (world.fusion == 2) options.fusion = {.fusion_bytes = 64, .direct_bytes = 1000, .round_bytes = 4};
    if (!world.apart) {
      session_.emplace(world.hosts.empty() ? px::Topology<Any>{communicator} : px::Topology<Any>{communicator, world.hosts},
                       options);
      quiet_ = &*session_;
    } else if (world.servers > 0) {
      apart_.emplace(communicator, px::Ssp{0}, px::Servers{world.servers}, px::AsyncOptions{.session = options});
    } else {
      apart_.emplace(communicator, px::Ssp{0}, px::AsyncOptions{.session = options});
    }
  }

  int rank() const override { return rank_; }
  void enter(Variable const& variable) override {
    numbers_.push_back(variable.kind);
    variables_.push_back(apart_ ? held(*apart_, variable) : held(*session_, variable));
  }
  void begin(Kept const& now) override { take(now); }
  void quietly(std::function<void()> const& body) override {
    if (!apart_) return body();
    apart_->together([&](Session& session) {
      quiet_ = &session;
      body();
      quiet_ = nullptr;
    });
  }

  void save(std::string const& folder, int keep, bool behind, std::int64_t generation, Kept const& now) override {
    px::SaveOptions const options{.keep = keep, .block_bytes = 64};
    px::Saved const saved = with_all([&](auto&... things) {
      return behind ? quiet_->save_async(folder, options, things...) : quiet_->save(folder, options, things...);
    });
    demand(saved.generation == generation,
           "saved generation " + std::to_string(saved.generation) + " for " + std::to_string(generation));
    demand(saved.step == now.steps, "saved step " + std::to_string(saved.step) + " for " + std::to_string(now.steps));
  }
  void restore(std::string const& folder, std::int64_t wanted, std::int64_t generation, bool partial,
               std::vector<std::pair<std::string, std::string>> const& names, Kept const& now, bool own_lost) override {
    px::RestoreOptions const options{.generation = wanted, .partial = partial, .names = names};
    px::Restored const was = with_all([&](auto&... things) { return quiet_->restore(folder, options, things...); });
    demand(was.generation == generation,
           "restored generation " + std::to_string(was.generation) + " for " + std::to_string(generation));
    demand(was.step == now.steps, "restored step " + std::to_string(was.step) + " for " + std::to_string(now.steps));
    bool const lost = std::find(was.lost.begin(), was.lost.end(), "own") != was.lost.end();
    demand(lost == own_lost, own_lost ? "nobody says that own values are lost" : "own values are said to be lost");
    check_values(now);
  }
  void look(Kept const& now) override {
    check_values(now);
    if (quiet_->steps() != now.steps)
      throw Complaint{"the session has " + std::to_string(quiet_->steps()) + " steps for " + std::to_string(now.steps)};
    for (std::size_t i = 0; i < variables_.size(); ++i) variables_[i]->look(*quiet_, *now.variables[numbers_[i]]);
  }
  void rate(std::size_t variable, double rate) override { of(variable).rate(rate); }
  void assign(std::size_t variable, std::vector<std::int64_t> const& ids, std::vector<float> const& rows) override {
    of(variable).assign(*quiet_, ids, rows);
  }
  void scale(std::size_t variable, std::vector<std::int64_t> const& ids, double factor) override {
    of(variable).scale(*quiet_, ids, factor);
  }
  void favour(int method, int interval) override {
    auto const costs = favouring(method);
    quiet_->options().choice = {.first_step = 1, .interval = interval, .horizon = 1e30, .costs = costs, .device_costs = costs};
  }
  void search(std::size_t variable) override { of(variable).search(*quiet_); }

  void iterate(Iteration const& iteration, Kept const& before, Kept const& after) override {
    if (!apart_) step(iteration, before, after);
    else if (push_ && iteration.active[static_cast<std::size_t>(rank_)]) push_(iteration, before);
    take(after);
  }
  void unevenly(int mine, int all, std::function<void()> const& next) override {
    int done = 0;
    if (!apart_) {
      for (; done < mine; ++done) next();
      session_->join([&] {
        demand(done < all, "a join goes on after all ranks have joined");
        ++done;
        next();
      });
      return;
    }
    apart_->train([&](auto& worker) {
      push_ = [&](Iteration const& iteration, Kept const& before) {
        Keep keep;
        Pushed given;
        for (Update const& update : iteration.updates)
          of(update.variable).bring(worker, update, rank_, *before.variables[update.variable], keep, given);
        if (iteration.polls) worker.poll();
        std::apply([&](auto const&... lists) { demand(worker.push(lists...), "a push was skipped"); }, given);
      };
      for (; done < mine; ++done) next();
      push_ = nullptr;
    });
    for (; done < all; ++done) next();
  }
  void finish() override {
    px::Completion const completion = apart_ ? apart_->finish() : session_->finish();
    demand(completion.records.size() == static_cast<std::size_t>(world_.ranks), "a completion of other ranks");
  }
  void leave() override { throw Leaves{}; }

 private:
  Held& of(std::size_t variable) {
    for (std::size_t i = 0; i < numbers_.size(); ++i)
      if (numbers_[i] == variable) return *variables_[i];
    throw Complaint{"no such variable"};
  }
  void take(Kept const& now) { epoch_ = now.epoch, note_ = now.note, own_ = now.own[static_cast<std::size_t>(rank_)]; }
  void check_values(Kept const& now) {
    demand(epoch_ == now.epoch, "epoch " + std::to_string(epoch_) + " for " + std::to_string(now.epoch));
    demand(note_ == now.note, "note " + note_ + " for " + now.note);
    demand(own_ == now.own[static_cast<std::size_t>(rank_)], "another own value");
  }
  void step(Iteration const& iteration, Kept const& before, Kept const& after) {
    Session& session = *session_;
    Keep keep;
    Given started, given;
    for (Update const& update : iteration.updates)
      of(update.variable)
          .bring(session, update, rank_, *before.variables[update.variable], keep, update.started ? started : given);
    auto const mine = static_cast<std::size_t>(rank_);
    bool const names = iteration.ahead < kinds.size();
    if (names) of(iteration.ahead).name_ahead(session, iteration.ahead_ids[mine]);
    bool starts = false;
    for (Update const& update : iteration.updates) starts = starts || update.started;
    if (starts) std::apply([&](auto const&... lists) { session.start(lists...); }, started);
    if (iteration.polls) session.poll();
    bool refused = false, applied = false;
    try {
      applied = std::apply([&](auto const&... lists) { return session.step(lists...); }, given);
    } catch (px::Error const& error) {
      if (iteration.culprit < 0 || error.code() != px::Errc::bad_id || error.rank() != iteration.culprit) throw;
      refused = true;
    }
    demand(refused == (iteration.culprit >= 0), "a step that should have been refused was not");
    demand(applied == iteration.applied, applied ? "a step was applied, and should not" : "a step was not applied, and should");
    if (session.steps() != after.steps)
      throw Complaint{"the session has " + std::to_string(session.steps()) + " steps for " + std::to_string(after.steps)};
    if (names) of(iteration.ahead).pull_ahead(session, iteration.ahead_ids[mine], *after.variables[iteration.ahead]);
  }

  World world_;
  int rank_;
  std::optional<Session> session_;
  std::optional<Apart> apart_;
  Session* quiet_ = nullptr;  // while nothing is under way
  std::vector<std::size_t> numbers_;
  std::vector<std::unique_ptr<Held>> variables_;
  std::function<void(Iteration const&, Kept const&)> push_;  // within `train`
  int epoch_ = 0;
  std::string note_;
  std::uint64_t own_ = 0;
};

}  // namespace

std::unique_ptr<Doer> doer_of(px::AnyCommunicator& communicator, World const& world) {
  return std::make_unique<OfSession>(communicator, world);
}

}  // namespace parallax_test::phases
