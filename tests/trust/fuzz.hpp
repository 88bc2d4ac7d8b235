// Random programs and what they must do: drawn from a seed, and run on a plain sequential model that shares no code with the
// library. Gradients are small integers (bags' weights halves), so that every sum over ranks is exact in any order; what is
// rounded after that is rounded here element by element as documented.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "../support/random.hpp"

namespace parallax_test::fuzz {

// ---- what a program is made of -------------------------------------------------------------------------------------------

enum class Type { dense_all_reduce, dense_ps_shard, ps_shard, all_reduce, all_gather, naive_ps };
inline constexpr int types = 6;
inline bool is_dense(Type type) { return type <= Type::dense_ps_shard; }
inline bool is_sharded(Type type) { return type == Type::ps_shard || type == Type::naive_ps; }

enum class Mean { mean, sum, by_count };
enum class Pooled { sum, mean, weighted };
enum class Odd { propagate, skip, error };  // what is not finite
enum class Per { index, distinct, bag };

struct Spec {
  Type type{};
  std::string name;
  int rows = 0, width = 1;  // dense: `rows` elements
  Mean mean{};
  bool drops = false;
  double rate = 0.5;
  float initial = 0;
};

// One rank's part of a pull.
struct Batch {
  std::vector<std::int64_t> ids;
  std::vector<std::int32_t> offsets;  // of bags
  std::vector<float> weights;
  std::vector<float> expected;  // a row per index, or per bag
  int distinct = 0, dropped = 0;
};
struct Pull {
  int variable = -1, handle = -1;
  bool bags = false, stepped = false;  // stepped: a step has applied gradients of its rows
  Pooled pool{};
  std::vector<Batch> ranks;
};

// One rank's part of an update.
struct Part {
  std::vector<std::int64_t> ids;  // where no handle names them
  std::vector<float> values;
  Per per = Per::index;
};
struct Update {
  int variable = -1, handle = -1;
  bool grouped = false, twisted = false;  // in the clip group; doubled and negated by a transform
  std::uint64_t salt = 0;                 // of the gradients of distinct rows
  std::vector<Part> ranks;
};

enum class Kind {
  enter, destroy, move, pull, drop, start, burst, poll, step, join, broadcast, finish, set_rate, set_options, different, uneven,
  leave
};
inline constexpr std::array<char const*, 17> kind_names{
    "register", "destroy", "move", "pull", "drop a handle", "start", "start 15 times", "poll", "step", "join", "broadcast",
    "finish", "set a rate", "set options", "different operations", "one start too many", "leave by an exception"};

enum class Fault { none, bad_id, size, order, omit, rate, limit, throws, poison, offsets, groups, joined_ids };
inline constexpr std::array<char const*, 12> fault_names{
    "",           "a bad id",      "a wrong size",         "another order",       "one missing", "another rate",
    "another limit", "a throwing transform", "a poisoned gradient", "bad offsets", "two clip groups",
    "indices of a joined rank"};

// The library's codes, as a set.
enum Code : unsigned {
  invalid_argument = 1, bad_id = 2, mismatch = 4, user_exception = 8, non_finite = 16, misuse = 32, aborted = 64, ended = 128
};

// What a variable must hold after an operation.
struct Shot {
  int variable;
  bool local;  // look at the rows; not always, for that settles them
  std::int64_t steps;
  std::vector<float> values;
};

struct Operation {
  Kind kind{};
  Spec spec = {};
  int variable = -1, handle = -1;
  std::vector<Pull> pulls = {};
  std::vector<Update> updates = {};
  double limit = 0;  // of the clip group; none
  bool single = false;  // given as one update, not as ranges
  Fault fault = Fault::none;
  int culprit = -1, with = 0;
  double rate = 0;
  Odd odd{};
  bool over_active = false;
  std::vector<std::vector<Operation>> iterations = {};
  std::vector<int> batches = {};  // of each rank, in a join
  // Expected:
  bool refused = false, applied = true, last = false;
  unsigned codes = 0;
  std::int64_t steps = 0;
  std::vector<Shot> shots = {};
};

struct Program {
  std::uint64_t seed = 0;
  int ranks = 1;
  std::vector<int> hosts;  // empty: flat
  int fusion = 0;
  bool meet = false;  // the ranks wait for each other before they leave: updates are in flight
  std::vector<Operation> operations;
};

// The gradient of a distinct row.
inline float distinct_gradient(std::uint64_t salt, std::int64_t id, int column) {
  Random random{salt + static_cast<std::uint64_t>(id) * 31 + static_cast<std::uint64_t>(column)};
  return static_cast<float>(random.below(9) - 4);
}

// ---- the model -----------------------------------------------------------------------------------------------------------

struct ModelVariable {
  Spec spec;
  bool alive = true;
  std::vector<float> values, first, second;  // parameters and the optimizer's state
  std::int64_t steps = 0;
};

struct Flight {
  std::vector<Update> updates;
  double limit = 0;
  unsigned codes = 0;  // with which it is refused
  bool throws = false;
};

class Model {
 public:
  explicit Model(int given_ranks) : ranks{given_ranks}, active(static_cast<std::size_t>(given_ranks), true) {}

  int const ranks;
  std::map<int, ModelVariable> variables;
  std::map<int, Pull> handles;
  std::vector<Flight> pending;
  std::vector<bool> active;
  Odd odd{};
  bool over_active = false;
  std::int64_t steps = 0;

  int active_count() const { return static_cast<int>(std::count(active.begin(), active.end(), true)); }

  bool name_is_taken(std::string const& name) const {
    for (auto const& [id, variable] : variables) {
      if (variable.spec.name != name) continue;
      if (variable.alive) return true;
      for (auto const& [handle, pull] : handles)
        if (pull.variable == id) return true;
      for (Flight const& flight : pending)
        for (Update const& update : flight.updates)
          if (update.variable == id) return true;
    }
    return false;
  }

  void enter(int id, Spec const& spec) {
    ModelVariable variable;
    variable.spec = spec;
    auto const size = static_cast<std::size_t>(spec.rows * spec.width);
    variable.values.assign(size, spec.initial);
    variable.first.assign(size, 0);
    variable.second.assign(size, 0);
    variables[id] = variable;
  }

  // What each rank sees of a pull.
  void look(Pull& pull) const {
    ModelVariable const& variable = variables.at(pull.variable);
    auto const width = static_cast<std::size_t>(variable.spec.width);
    for (Batch& batch : pull.ranks) {
      std::set<std::int64_t> distinct;
      std::vector<float> rows;
      batch.dropped = 0;
      for (std::int64_t const id : batch.ids) {
        bool const inside = id >= 0 && id < variable.spec.rows;
        if (inside) distinct.insert(id);
        batch.dropped += !inside;
        for (std::size_t c = 0; c < width; ++c)
          rows.push_back(inside ? variable.values[static_cast<std::size_t>(id) * width + c] : 0.0f);
      }
      batch.distinct = static_cast<int>(distinct.size());
      batch.expected = rows;
      if (!pull.bags) continue;
      batch.expected.clear();
      for (std::size_t bag = 0; bag + 1 < batch.offsets.size(); ++bag)
        for (std::size_t c = 0; c < width; ++c) {
          float sum = 0;
          int kept = 0;
          auto const begin = static_cast<std::size_t>(batch.offsets[bag]);
          auto const end = static_cast<std::size_t>(batch.offsets[bag + 1]);
          for (std::size_t i = begin; i < end; ++i) {
            float const value = rows[i * width + c];
            float const term = pull.pool == Pooled::weighted ? batch.weights[i] * value : value;
            sum = i == begin ? term : sum + term;
            kept += batch.ids[i] >= 0 && batch.ids[i] < variable.spec.rows;
          }
          if (pull.pool == Pooled::mean && kept > 1) sum = sum / static_cast<float>(kept);
          batch.expected.push_back(sum);
        }
    }
  }

  // Whether a rank's own look at its gradients finds one that is not finite.
  bool is_poisoned(Flight const& flight) const {
    for (Update const& update : flight.updates)
      for (int rank = 0; rank < ranks; ++rank)
        if (active[static_cast<std::size_t>(rank)])
          for (float const value : update.ranks[static_cast<std::size_t>(rank)].values)
            if (!std::isfinite(value)) return true;
    return false;
  }

  struct Sum {
    std::vector<double> gradient;
    std::vector<int> count;  // indices by row
    int group = -1, twists = 0;
  };

  // Completes what is pending, and `own` with it. `refused` and `codes` say how it ends; true when something was applied.
  bool step(Flight const& own, bool& refused, unsigned& codes, std::set<int>& concerned) {
    std::vector<Flight> flights = std::move(pending);
    pending.clear();
    flights.push_back(own);
    codes = 0;
    for (std::size_t f = 0; f < flights.size(); ++f) {
      codes |= flights[f].codes;
      for (Update const& update : flights[f].updates) {
        concerned.insert(update.variable);
        if (!variables.at(update.variable).alive) codes |= misuse;
      }
    }
    refused = codes != 0;
    if (refused || active_count() == 0) return false;

    std::map<int, Sum> sums;
    for (std::size_t f = 0; f < flights.size(); ++f) {
      if (flights[f].throws) codes |= user_exception;
      for (Update const& update : flights[f].updates) {
        int const group = update.grouped ? static_cast<int>(f) : -1;
        bool const first = !sums.contains(update.variable);
        Sum& sum = sums[update.variable];
        if (first) sum.group = group;
        if (sum.group != group) codes |= misuse;
        add(update, sum);
      }
    }
    bool finite = true;
    for (auto& [id, sum] : sums) {
      average(variables.at(id), sum);
      for (double const g : sum.gradient) finite = finite && std::isfinite(g);
    }
    if (odd == Odd::error && !finite) codes |= non_finite;
    refused = codes != 0;
    if (refused || (odd != Odd::propagate && !finite)) return false;

    std::vector<double> squared(flights.size(), 0.0), scale(flights.size(), 1.0);
    for (auto const& [id, sum] : sums)
      if (sum.group >= 0)
        for (double const g : sum.gradient) squared[static_cast<std::size_t>(sum.group)] += g * g;
    for (std::size_t f = 0; f < flights.size(); ++f)
      if (double const norm = std::sqrt(squared[f]); flights[f].limit > 0 && norm > flights[f].limit)
        scale[f] = flights[f].limit / norm;
    for (auto const& [id, sum] : sums)
      apply(variables.at(id), sum, sum.group < 0 ? 1.0f : static_cast<float>(scale[static_cast<std::size_t>(sum.group)]));
    for (Flight const& flight : flights)
      for (Update const& update : flight.updates)
        if (update.handle >= 0) handles.at(update.handle).stepped = true;
    ++steps;
    return true;
  }

 private:
  void add(Update const& update, Sum& sum) const {
    Spec const& spec = variables.at(update.variable).spec;
    auto const width = static_cast<std::size_t>(spec.width);
    sum.gradient.resize(static_cast<std::size_t>(spec.rows) * width);
    sum.count.resize(static_cast<std::size_t>(spec.rows));
    sum.twists += update.twisted;
    for (std::size_t rank = 0; rank < active.size(); ++rank) {
      if (!active[rank]) continue;
      Part const& part = update.ranks[rank];
      if (is_dense(spec.type)) {
        for (std::size_t i = 0; i < sum.gradient.size(); ++i) sum.gradient[i] += static_cast<double>(part.values[i]);
        continue;
      }
      Batch const* const batch = update.handle < 0 ? nullptr : &handles.at(update.handle).ranks[rank];
      auto const& ids = batch ? batch->ids : part.ids;
      std::set<std::int64_t> seen;
      std::size_t bag = 0;
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] < 0 || ids[i] >= spec.rows) continue;
        auto const row = static_cast<std::size_t>(ids[i]);
        sum.count[row] += 1;
        if (part.per == Per::distinct && !seen.insert(ids[i]).second) continue;
        double factor = 1;
        std::size_t from = i;
        if (part.per == Per::bag) {
          while (static_cast<std::size_t>(batch->offsets[bag + 1]) <= i) ++bag;
          from = bag;
          Pooled const pool = handles.at(update.handle).pool;
          if (pool == Pooled::mean) factor = 1.0 / (batch->offsets[bag + 1] - batch->offsets[bag]);
          if (pool == Pooled::weighted) factor = static_cast<double>(batch->weights[i]);
        }
        for (std::size_t c = 0; c < width; ++c) {
          float const g = part.per == Per::distinct ? distinct_gradient(update.salt, ids[i], static_cast<int>(c))
                                                    : part.values[from * width + c];
          sum.gradient[row * width + c] += factor * static_cast<double>(g);
        }
      }
    }
  }

  // Mean, transforms; from here on in float.
  void average(ModelVariable const& variable, Sum& sum) const {
    Spec const& spec = variable.spec;
    for (std::size_t i = 0; i < sum.gradient.size(); ++i) {
      int divisor = 1;
      if (spec.mean == Mean::mean) divisor = over_active ? active_count() : ranks;
      if (spec.mean == Mean::by_count)
        divisor = is_dense(spec.type) ? active_count() : sum.count[i / static_cast<std::size_t>(spec.width)];
      float g = static_cast<float>(sum.gradient[i]);
      if (divisor > 1) g = g / static_cast<float>(divisor);
      for (int t = 0; t < sum.twists; ++t) g = g * -2.0f;
      sum.gradient[i] = static_cast<double>(g);
    }
  }

  static void apply(ModelVariable& variable, Sum const& sum, float scale) {
    Spec const& spec = variable.spec;
    ++variable.steps;
    auto const rate = static_cast<float>(spec.rate);
    auto const t = static_cast<double>(variable.steps);
    for (std::size_t i = 0; i < variable.values.size(); ++i) {
      bool const touched = is_dense(spec.type) || sum.count[i / static_cast<std::size_t>(spec.width)] > 0;
      float g = static_cast<float>(sum.gradient[i]);
      if (scale != 1.0f) g = g * scale;
      float& p = variable.values[i];
      float& m = variable.first[i];
      float& v = variable.second[i];
      switch (spec.type) {
        case Type::ps_shard:  // exact momentum: untouched rows move as well
        case Type::dense_all_reduce:
        case Type::all_reduce:  // lazy momentum
          if (spec.type == Type::all_reduce && !touched) break;
          m = 0.5f * m + g;
          p -= rate * m;
          break;
        case Type::naive_ps:
          if (touched) p -= rate * g;
          break;
        case Type::dense_ps_shard:
        case Type::all_gather: {  // lazy Adam
          if (!touched) break;
          auto const now = static_cast<float>(spec.rate / (1 - std::pow(0.9, t)));
          auto const root = static_cast<float>(std::sqrt(1 - std::pow(0.999, t)));
          m += static_cast<float>(1 - 0.9) * (g - m);
          v += static_cast<float>(1 - 0.999) * (g * g - v);
          p -= now * m / (std::sqrt(v) / root + static_cast<float>(1e-8));
          break;
        }
      }
    }
  }
};

// ---- drawing a program ---------------------------------------------------------------------------------------------------

class Author {
 public:
  explicit Author(std::uint64_t seed) : random_{seed}, model_{ranks_of(random_)} {
    program_.seed = seed;
    program_.ranks = model_.ranks;
    if (model_.ranks >= 3 && random_.percent(40))
      program_.hosts = model_.ranks == 3 ? std::vector<int>{0, 0, 1} : random_.percent(70) ? std::vector<int>{0, 0, 1, 1}
                                                                                           : std::vector<int>{4, 2, 4, 4};
    program_.fusion = random_.below(3);
  }

  Program write() {
    int const length = 1 + random_.below(30);
    if (random_.percent(50)) set_options();
    for (int i = 0; i < 2 && i < length; ++i) enter();
    while (static_cast<int>(program_.operations.size()) < length && !ended_) operation();
    if (!ended_) {
      for (auto const& [id, variable] : model_.variables)
        if (!program_.operations.empty() && variable.alive) shoot(program_.operations.back(), id, true);
      if (random_.percent(70)) finish();
      program_.meet = !model_.pending.empty();
    }
    return std::move(program_);
  }

 private:
  static int ranks_of(Random& random) {
    int const draw = random.below(10);
    return draw == 0 ? 1 : draw < 5 ? 2 : draw < 8 ? 3 : 4;
  }
  std::size_t ranks() const { return static_cast<std::size_t>(model_.ranks); }
  int any_rank() { return random_.below(model_.ranks); }

  void operation() {
    int const draw = random_.below(100);
    if (draw < 8) enter();
    else if (draw < 11) destroy();
    else if (draw < 12) move();
    else if (draw < 34) pull();
    else if (draw < 37) drop();
    else if (draw < 49) start();
    else if (draw < 52) poll();
    else if (draw < 78) step();
    else if (draw < 83) join();
    else if (draw < 87) broadcast();
    else if (draw < 89) finish();
    else if (draw < 92) set_rate();
    else if (draw < 96) set_options();
    else if (draw < 98) different();
    else if (draw < 99 && random_.percent(60)) uneven();
    else if (random_.percent(60)) leave();
  }

  void push(Operation operation) {
    operation.steps = model_.steps;
    program_.operations.push_back(std::move(operation));
  }
  void shoot(Operation& operation, int id, bool always = false) {
    ModelVariable const& variable = model_.variables.at(id);
    if (!variable.alive) return;
    bool const local = always || variable.spec.type != Type::ps_shard || random_.percent(25);
    operation.shots.push_back({id, local, variable.steps, variable.values});
  }

  template <class F>
  int any_variable(F&& fits) {
    std::vector<int> found;
    for (auto const& [id, variable] : model_.variables)
      if (variable.alive && fits(variable.spec)) found.push_back(id);
    return found.empty() ? -1 : found[static_cast<std::size_t>(random_.below(static_cast<int>(found.size())))];
  }
  int any_variable() {
    return any_variable([](Spec const&) { return true; });
  }
  int any_table() {
    return any_variable([](Spec const& spec) { return !is_dense(spec.type); });
  }
  Spec const& spec_of(int variable) const { return model_.variables.at(variable).spec; }

  // ---- variables ---------------------------------------------------------------------------------------------------------

  void enter() {
    Operation op{.kind = Kind::enter};
    op.variable = next_variable_++;
    Spec& spec = op.spec;
    spec.type = static_cast<Type>(random_.below(types));
    spec.name = "v" + std::to_string(random_.below(12));
    spec.rows = random_.of(is_dense(spec.type) ? std::array{0, 1, 2, 3, 5, 9, 16} : std::array{0, 1, 2, 3, 5, 8, 13});
    spec.width = is_dense(spec.type) ? 1 : random_.of(std::array{0, 1, 1, 2, 3});
    spec.mean = static_cast<Mean>(random_.below(3));
    spec.drops = !is_dense(spec.type) && random_.percent(30);
    spec.rate = random_.of(std::array{0.5, 0.25, 0.125, 0.1});
    spec.initial = static_cast<float>(random_.below(5) - 2);
    // A rank that stopped half way through a start that is going to be refused does not hold all of its variables' names.
    bool const unsure = std::any_of(model_.pending.begin(), model_.pending.end(), [](Flight const& f) { return f.codes != 0; });
    if (unsure && model_.name_is_taken(spec.name)) return;
    op.refused = model_.name_is_taken(spec.name);
    op.codes = op.refused ? invalid_argument : 0u;
    if (!op.refused) {
      model_.enter(op.variable, spec);
      shoot(op, op.variable);
    }
    push(std::move(op));
  }
  void destroy() {
    Operation op{.kind = Kind::destroy};
    op.variable = any_variable();
    if (op.variable < 0) return;
    model_.variables.at(op.variable).alive = false;
    push(std::move(op));
  }
  void move() {
    Operation op{.kind = Kind::move};
    op.variable = any_variable();
    if (op.variable >= 0) push(std::move(op));
  }
  void set_rate() {
    Operation op{.kind = Kind::set_rate};
    op.variable = any_variable();
    if (op.variable < 0) return;
    op.rate = random_.of(std::array{0.5, 0.25, 0.125, 0.1});
    model_.variables.at(op.variable).spec.rate = op.rate;
    push(std::move(op));
  }
  void set_options() {
    Operation op{.kind = Kind::set_options};
    op.odd = random_.of(std::array{Odd::propagate, Odd::skip, Odd::skip, Odd::error});
    op.over_active = model_.pending.empty() ? random_.percent(50) : model_.over_active;
    model_.odd = op.odd;
    model_.over_active = op.over_active;
    push(std::move(op));
  }
  void broadcast() {
    Operation op{.kind = Kind::broadcast};
    op.variable = any_variable([](Spec const& spec) { return !is_sharded(spec.type); });
    if (op.variable < 0) return;
    shoot(op, op.variable);
    push(std::move(op));
  }

  // ---- pulls -------------------------------------------------------------------------------------------------------------

  std::vector<std::int64_t> draw_ids(Spec const& spec, std::size_t n, bool good) {
    std::vector<std::int64_t> ids;
    for (std::size_t i = 0; i < n; ++i) {
      if (spec.drops && !good && random_.percent(20)) ids.push_back(bad_id_of(spec, random_));
      else if (spec.rows > 0) ids.push_back(random_.below(spec.rows));
    }
    return ids;
  }
  static std::int64_t bad_id_of(Spec const& spec, Random& random) {
    return random.percent(50) ? -1 - random.below(3) : spec.rows + random.below(3);
  }

  Pull draw_pull(int variable) {
    Pull pull;
    pull.variable = variable;
    pull.handle = next_handle_++;
    pull.bags = random_.percent(35);
    pull.pool = static_cast<Pooled>(random_.below(3));
    Spec const& spec = spec_of(variable);
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      Batch batch;
      bool const has_data = model_.active[rank];
      if (pull.bags) {
        batch.offsets.push_back(0);
        for (int bag = has_data ? random_.below(4) : 0; bag > 0; --bag) {
          auto const more = draw_ids(spec, random_.of(std::array<std::size_t, 4>{0, 1, 2, 4}), pull.pool == Pooled::mean);
          batch.ids.insert(batch.ids.end(), more.begin(), more.end());
          batch.offsets.push_back(static_cast<std::int32_t>(batch.ids.size()));
        }
        for (std::size_t i = 0; i < batch.ids.size(); ++i)
          batch.weights.push_back(static_cast<float>(random_.below(7) - 3) / 2);
      } else if (has_data && !random_.percent(15)) {
        batch.ids = draw_ids(spec, static_cast<std::size_t>(random_.below(8)), false);
      }
      pull.ranks.push_back(std::move(batch));
    }
    return pull;
  }

  void pull() {
    Operation op{.kind = Kind::pull};
    int const variable = any_table();
    if (variable < 0) return;
    op.pulls.push_back(draw_pull(variable));
    if (spec_of(variable).type == Type::ps_shard && random_.percent(40)) {  // several in one exchange
      op.pulls[0].bags = false;
      for (Batch& batch : op.pulls[0].ranks) batch.offsets.clear(), batch.weights.clear();
      int const other = any_variable([](Spec const& s) { return s.type == Type::ps_shard; });
      op.pulls.push_back(draw_pull(other));
    }
    if (random_.percent(8)) {
      op.culprit = any_rank();
      Batch& batch = op.pulls.back().ranks[static_cast<std::size_t>(op.culprit)];
      Spec const& spec = spec_of(op.pulls.back().variable);
      if (op.pulls.back().bags && random_.percent(40)) {
        op.fault = Fault::offsets;
        op.codes = invalid_argument;
        batch.offsets.back() += 1;
      } else if (!spec.drops) {
        op.fault = Fault::bad_id;
        op.codes = bad_id;
        batch.ids.push_back(bad_id_of(spec, random_));
        batch.weights.push_back(1);
        if (op.pulls.back().bags) batch.offsets.push_back(static_cast<std::int32_t>(batch.ids.size()));
      }
    } else if (random_.percent(3) && op.pulls.size() == 1 && model_.ranks > 1) {  // another table on one rank
      Type const type = spec_of(variable).type;
      int const other = any_variable([&](Spec const& spec) { return spec.type == type && !spec.drops; });
      if (other >= 0 && other != variable && !spec_of(variable).drops) {
        op.fault = Fault::order;
        op.culprit = any_rank();
        op.with = other;
        op.codes = mismatch;
        for (auto& id : op.pulls[0].ranks[static_cast<std::size_t>(op.culprit)].ids)
          id = std::min<std::int64_t>(id, spec_of(other).rows - 1);
        if (spec_of(other).rows == 0) op.codes |= bad_id;
      }
    }
    op.refused = op.codes != 0;
    if (!op.refused)
      for (Pull& one : op.pulls) {
        model_.look(one);
        model_.handles[one.handle] = one;
      }
    push(std::move(op));
  }
  void drop() {
    if (model_.handles.empty()) return;
    Operation op{.kind = Kind::drop};
    auto at = model_.handles.begin();
    std::advance(at, random_.below(static_cast<int>(model_.handles.size())));
    op.handle = at->first;
    if (in_flight(op.handle)) return;  // the model reads ids of handles when a step completes
    model_.handles.erase(at);
    push(std::move(op));
  }
  bool in_flight(int handle) const {
    for (Flight const& flight : model_.pending)
      for (Update const& update : flight.updates)
        if (update.handle == handle) return true;
    return false;
  }

  // ---- updates -----------------------------------------------------------------------------------------------------------

  float draw_value() { return static_cast<float>(random_.below(9) - 4); }
  std::vector<float> draw_values(std::size_t n) {
    std::vector<float> values(n);
    for (float& value : values) value = draw_value();
    return values;
  }

  // With the rows of this handle; -1: of a handle or by indices.
  Update draw_update(int variable, int handle = -1) {
    Update update;
    update.variable = variable;
    update.salt = random_.next();
    Spec const& spec = spec_of(variable);
    auto const width = static_cast<std::size_t>(spec.width);
    if (is_dense(spec.type)) {
      for (std::size_t rank = 0; rank < ranks(); ++rank) {
        Part part;
        part.values = draw_values(static_cast<std::size_t>(spec.rows));
        if (!model_.active[rank]) part.values.assign(static_cast<std::size_t>(random_.below(4)), std::nanf(""));
        update.ranks.push_back(std::move(part));
      }
      return update;
    }
    std::vector<int> handles;
    bool const once_more = random_.percent(10);  // also handles that were stepped, which the step refuses
    for (auto const& [id, pull] : model_.handles)
      if (pull.variable == variable && (once_more || !pull.stepped)) handles.push_back(id);
    update.handle = handle;
    if (handle < 0 && model_.active_count() == model_.ranks && !handles.empty() && random_.percent(70))
      update.handle = handles[static_cast<std::size_t>(random_.below(static_cast<int>(handles.size())))];
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      Part part;
      if (update.handle < 0) {
        if (model_.active[rank]) part.ids = draw_ids(spec, static_cast<std::size_t>(random_.below(7)), false);
        part.values = draw_values(part.ids.size() * width);
      } else {
        Pull const& pull = model_.handles.at(update.handle);
        Batch const& batch = pull.ranks[rank];
        part.per = pull.bags ? Per::bag : spec.type != Type::naive_ps && random_.percent(35) ? Per::distinct : Per::index;
        if (part.per != Per::distinct)
          part.values = draw_values((pull.bags ? batch.offsets.size() - 1 : batch.ids.size()) * width);
      }
      update.ranks.push_back(std::move(part));
    }
    return update;
  }

  void draw_updates(Operation& op) {
    int const wanted = random_.of(std::array{0, 1, 1, 1, 2, 2, 3, 3, 5});
    for (int i = 0; i < wanted; ++i)
      if (int const variable = any_variable(); variable >= 0) op.updates.push_back(draw_update(variable));
    if (op.updates.size() == 1 && random_.percent(15)) {  // another variable of the same type
      Spec const& first = spec_of(op.updates[0].variable);
      int const other = any_variable([&](Spec const& spec) { return spec.type == first.type && spec.name != first.name; });
      if (other >= 0) op.updates.push_back(draw_update(other));
    }
    dress(op);
  }

  // Clip group, transforms, or the update alone.
  void dress(Operation& op) {
    int const how = random_.below(10);
    if (how < 3) {
      op.limit = random_.of(std::array{0.75, 1.5, 6.5, 1000.0});
      std::map<int, bool> grouped;
      for (Update& update : op.updates) {
        if (!grouped.contains(update.variable)) grouped[update.variable] = random_.percent(60);
        update.grouped = grouped[update.variable];
      }
      if (random_.percent(3) && !op.updates.empty()) {
        op.updates.back().grouped = !op.updates.back().grouped;
        op.fault = Fault::groups;  // or no fault at all, where it is the variable's only update
      }
    } else if (how < 5) {
      for (Update& update : op.updates) {
        Type const type = spec_of(update.variable).type;
        update.twisted = (type == Type::dense_all_reduce || type == Type::ps_shard) && random_.percent(60);
      }
    } else if (how < 7 && op.updates.size() == 1) {
      Type const type = spec_of(op.updates[0].variable).type;
      op.single = type == Type::dense_all_reduce || type == Type::ps_shard;
    }
  }

  // At most one thing that is wrong, with the codes by which it is refused.
  Flight spoil(Operation& op, int percent) {
    Flight flight;
    flight.limit = op.limit;
    if (random_.percent(percent) && op.fault == Fault::none) {
      op.culprit = any_rank();
      auto const culprit = static_cast<std::size_t>(op.culprit);
      bool const has_data = model_.active[culprit];
      auto const some_update = [&](auto&& fits) -> Update* {
        std::vector<Update*> found;
        for (Update& update : op.updates)
          if (fits(update)) found.push_back(&update);
        return found.empty() ? nullptr : found[static_cast<std::size_t>(random_.below(static_cast<int>(found.size())))];
      };
      int const chosen = random_.below(10);
      switch (chosen == 8 ? 6 : chosen) {  // transforms are rare
        case 0:
          if (Update* const update = some_update([&](Update const& u) {
                return !is_dense(spec_of(u.variable).type) && u.handle < 0 && !spec_of(u.variable).drops;
              })) {
            Part& part = update->ranks[culprit];
            op.fault = has_data ? Fault::bad_id : Fault::joined_ids;
            Spec const& spec = spec_of(update->variable);
            if (!has_data && spec.rows == 0) op.fault = Fault::bad_id;
            flight.codes |= op.fault == Fault::bad_id ? bad_id : misuse;
            part.ids.push_back(op.fault == Fault::bad_id ? bad_id_of(spec, random_) : 0);
            for (int c = 0; c < spec.width; ++c) part.values.push_back(1);
          }
          break;
        case 1:
          if (Update* const update = some_update([&](Update const& u) {
                return u.ranks[culprit].per != Per::distinct && spec_of(u.variable).width > 0;
              }); update && has_data) {
            for (int c = 0; c < spec_of(update->variable).width; ++c) update->ranks[culprit].values.push_back(1);
            op.fault = Fault::size;
            flight.codes |= invalid_argument;
          }
          break;
        case 2:
          if (op.updates.size() >= 2 && model_.ranks > 1) {
            Update const &one = op.updates[0], &two = op.updates[1];
            bool const alike = spec_of(one.variable).type == spec_of(two.variable).type && one.grouped == two.grouped &&
                               one.twisted == two.twisted;  // given in one range
            if (!alike || one.variable == two.variable) break;
            op.fault = Fault::order;
            flight.codes |= mismatch;
          }
          break;
        case 3:
          if (!op.updates.empty() && model_.ranks > 1 && !op.single) {
            op.fault = Fault::omit;
            flight.codes |= mismatch;
          }
          break;
        case 4:
          if (Update* const update = some_update([](Update const&) { return true; }); update && model_.ranks > 1) {
            op.fault = Fault::rate;
            op.variable = update->variable;
            flight.codes |= mismatch;
          }
          break;
        case 5:
          if (op.limit > 0 && model_.ranks > 1) {
            op.fault = Fault::limit;
            flight.codes |= mismatch;
          }
          break;
        case 6:
          if (some_update([](Update const& u) { return u.twisted; })) {
            op.fault = Fault::throws;
            flight.throws = true;
          }
          break;
        default:
          if (Update* const update = some_update([&](Update const& u) { return !u.ranks[culprit].values.empty(); });
              update && has_data && model_.odd != Odd::propagate) {
            op.fault = Fault::poison;
            auto& values = update->ranks[culprit].values;
            float const infinity = std::numeric_limits<float>::infinity();
            values[static_cast<std::size_t>(random_.below(static_cast<int>(values.size())))] =
                random_.of(std::array{std::nanf(""), infinity, -infinity});
          }
      }
    }
    flight.updates = op.updates;
    if (model_.odd == Odd::error && model_.is_poisoned(flight)) flight.codes |= non_finite;
    for (Update const& update : flight.updates)
      if (update.handle >= 0 && model_.handles.at(update.handle).stepped) flight.codes |= misuse;
    return flight;
  }

  void begin(Operation& op, int faults) { model_.pending.push_back(spoil(op, faults)); }
  void start() {
    Operation op{.kind = Kind::start};
    draw_updates(op);
    if (random_.percent(3)) {
      op.kind = Kind::burst;
      if (!op.updates.empty()) op.updates.resize(1);
      op.limit = 0;
      op.single = false;
      for (Update& update : op.updates) update.grouped = update.twisted = false;
      op.fault = Fault::none;
      Flight flight = spoil(op, 0);
      for (int i = 0; i < 15; ++i) model_.pending.push_back(flight);
    } else {
      begin(op, 5);
    }
    push(std::move(op));
  }
  void poll() { push(Operation{.kind = Kind::poll}); }

  void complete(Operation& op, int faults) {
    Flight const own = spoil(op, faults);
    std::set<int> concerned;
    op.applied = model_.step(own, op.refused, op.codes, concerned);
    for (int const id : concerned) shoot(op, id);
  }
  void step() {
    Operation op{.kind = Kind::step};
    draw_updates(op);
    complete(op, 20);
    push(std::move(op));
  }

  // ---- joins -------------------------------------------------------------------------------------------------------------

  void join() {
    if (!model_.pending.empty() || model_.variables.empty()) return;
    Operation op{.kind = Kind::join};
    int most = 0;
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      op.batches.push_back(random_.below(4));
      most = std::max(most, op.batches.back());
    }
    // Every iteration does the same: a pull, a start, a step.
    int const pulled = random_.percent(60) ? any_table() : -1, started = random_.percent(50) ? any_variable() : -1;
    std::vector<int> stepped;
    for (int i = random_.below(3); i >= 0; --i)
      if (int const variable = any_variable(); variable >= 0) stepped.push_back(variable);
    bool const bags = random_.percent(40);
    int const how = random_.below(3);
    for (int iteration = 0; iteration <= most; ++iteration) {
      for (std::size_t rank = 0; rank < ranks(); ++rank) model_.active[rank] = iteration < op.batches[rank];
      std::vector<Operation> body;
      int handle = -1;
      if (pulled >= 0) {
        Operation first{.kind = Kind::pull};
        first.pulls.push_back(draw_pull(pulled));
        Pull& pull = first.pulls[0];
        if (pull.bags != bags) {
          pull.bags = bags;
          for (Batch& batch : pull.ranks) {
            batch.offsets.clear();
            batch.weights.clear();
            if (!bags) continue;
            for (std::size_t i = 0; i <= batch.ids.size(); ++i) batch.offsets.push_back(static_cast<std::int32_t>(i));
            batch.weights.assign(batch.ids.size(), 0.5f);
            if (pull.pool == Pooled::mean) pull.pool = Pooled::sum;
          }
        }
        model_.look(pull);
        handle = pull.handle;
        model_.handles[handle] = pull;
        first.steps = model_.steps;
        body.push_back(std::move(first));
      }
      auto const update_of = [&](int variable) { return draw_update(variable, variable == pulled ? handle : -1); };
      int const faults = iteration < most ? 10 : 0;
      if (started >= 0) {
        Operation second{.kind = Kind::start};
        second.updates.push_back(update_of(started));
        second.steps = model_.steps;
        begin(second, faults / 2);
        body.push_back(std::move(second));
      }
      Operation third{.kind = Kind::step};
      for (int const variable : stepped) third.updates.push_back(update_of(variable));
      if (how == 1) third.limit = 1.5;
      for (Update& update : third.updates) update.grouped = how == 1 && update.variable != started;
      complete(third, faults);
      third.steps = model_.steps;
      body.push_back(std::move(third));
      if (handle >= 0) {
        Operation fourth{.kind = Kind::drop};
        fourth.handle = handle;
        fourth.steps = model_.steps;
        model_.handles.erase(handle);
        body.push_back(std::move(fourth));
      }
      op.iterations.push_back(std::move(body));
    }
    model_.active.assign(ranks(), true);
    push(std::move(op));
  }

  // ---- the end, and what goes wrong --------------------------------------------------------------------------------------

  void finish() {
    Operation op{.kind = Kind::finish};
    op.refused = !model_.pending.empty();
    op.codes = op.refused ? misuse : 0u;
    finished_ = finished_ || !op.refused;
    push(std::move(op));
  }
  // One rank calls something else: 0 finish, 1 pull, 2 broadcast; the others step (or the other way round).
  void different() {
    if (model_.ranks == 1) return;
    Operation op{.kind = Kind::different};
    op.culprit = any_rank();
    op.with = random_.below(6);
    op.variable = op.with % 3 == 1 ? any_table() : any_variable([](Spec const& spec) { return !is_sharded(spec.type); });
    if (op.with % 3 != 0 && op.variable < 0) return;
    op.refused = true;
    op.codes = mismatch;
    for (Flight const& flight : model_.pending) {
      op.codes |= flight.codes;
      for (Update const& update : flight.updates)
        if (!model_.variables.at(update.variable).alive) op.codes |= misuse;
    }
    if (op.with % 3 == 0 && !model_.pending.empty()) op.codes |= misuse;
    model_.pending.clear();
    for (auto const& [id, variable] : model_.variables)
      if (variable.alive) shoot(op, id);
    push(std::move(op));
  }
  void uneven() {
    if (model_.ranks == 1 || finished_) return;
    Operation op{.kind = Kind::uneven};
    op.culprit = any_rank();
    op.refused = op.last = ended_ = true;
    op.codes = ~0u;
    push(std::move(op));
  }
  void leave() {
    if (model_.ranks == 1 || finished_) return;
    Operation op{.kind = Kind::leave};
    op.culprit = any_rank();
    op.with = random_.below(3);
    op.refused = op.last = ended_ = true;
    op.codes = aborted;
    push(std::move(op));
  }

  Random random_;
  Model model_;
  Program program_;
  int next_variable_ = 0, next_handle_ = 0;
  bool ended_ = false, finished_ = false;
};

// ---- as text -------------------------------------------------------------------------------------------------------------

template <class Values>
std::string list_text(Values const& values) {
  std::string text = "[";
  for (auto const& value : values) {
    std::string number = std::to_string(value);
    if (number.find('.') != std::string::npos) number.erase(number.find_last_not_of("0.") + 1);
    (text += text.size() > 1 ? "," : "") += number.empty() ? "0" : number;
  }
  return text + "]";
}

inline std::string text_of(Operation const& op, std::string const& indent = "") {
  std::string text = indent + kind_names[static_cast<std::size_t>(op.kind)];
  if (op.kind == Kind::enter)
    text += " v" + std::to_string(op.variable) + " «" + op.spec.name + "» type " +
            std::to_string(static_cast<int>(op.spec.type)) + " " + std::to_string(op.spec.rows) + "x" +
            std::to_string(op.spec.width) + " mean " +
            std::to_string(static_cast<int>(op.spec.mean)) + (op.spec.drops ? " drops" : "") + " rate " +
            std::to_string(op.spec.rate) + " initial " + std::to_string(op.spec.initial);
  else if (op.variable >= 0) text += " v" + std::to_string(op.variable);
  if (op.handle >= 0) text += " h" + std::to_string(op.handle);
  if (op.kind == Kind::set_options)
    text += " non-finite " + std::to_string(static_cast<int>(op.odd)) + (op.over_active ? " over active" : " over all");
  if (op.kind == Kind::set_rate) text += " to " + std::to_string(op.rate);
  if (op.kind == Kind::join) text += " batches " + list_text(op.batches);
  if (op.kind == Kind::different || op.kind == Kind::leave) text += " with " + std::to_string(op.with);
  if (op.limit > 0) text += " clip " + std::to_string(op.limit);
  if (op.single) text += " single";
  if (op.fault != Fault::none) (text += ", ") += fault_names[static_cast<std::size_t>(op.fault)];
  if (op.culprit >= 0) text += ", on rank " + std::to_string(op.culprit);
  text += op.refused ? " -> refused" : op.applied ? "" : " -> not applied";
  text += ", steps " + std::to_string(op.steps) + "\n";
  for (Pull const& pull : op.pulls) {
    text += indent + "  v" + std::to_string(pull.variable) + " as h" + std::to_string(pull.handle) +
            (pull.bags ? " bags, pool " + std::to_string(static_cast<int>(pull.pool)) : "") + ":";
    for (Batch const& batch : pull.ranks)
      text += " " + list_text(batch.ids) + (pull.bags ? "/" + list_text(batch.offsets) : "") +
              (pull.bags && pull.pool == Pooled::weighted ? "*" + list_text(batch.weights) : "");
    text += "\n";
  }
  for (Update const& update : op.updates) {
    text += indent + "  grad v" + std::to_string(update.variable) +
            (update.handle >= 0 ? " h" + std::to_string(update.handle) : "") + (update.grouped ? " clipped" : "") +
            (update.twisted ? " transformed" : "") + ":";
    for (Part const& part : update.ranks)
      text += " " + (update.handle < 0 ? list_text(part.ids) : std::string{}) +
              (part.per == Per::distinct ? "distinct" : list_text(part.values));
    text += "\n";
  }
  for (auto const& body : op.iterations) {
    text += indent + "  iteration\n";
    for (Operation const& inner : body) text += text_of(inner, indent + "    ");
  }
  return text;
}

inline std::string text_of(Program const& program) {
  std::string text = "seed " + std::to_string(program.seed) + ": " + std::to_string(program.ranks) + " ranks, hosts " +
                     list_text(program.hosts) + ", fusion " + std::to_string(program.fusion) + "\n";
  for (std::size_t i = 0; i < program.operations.size(); ++i)
    text += std::to_string(i) + ". " + text_of(program.operations[i], "  ").substr(2);
  return text;
}

}  // namespace parallax_test::fuzz
