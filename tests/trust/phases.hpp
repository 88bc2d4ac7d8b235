// Random trainings in phases, each a world of its own that goes on from a checkpoint of those before, and the values that they
// must come to. They are drawn from a seed, and trained on plain maps and loops that share no code with the library. Sums are
// in the order of docs/sums.md.
//
// Each rank draws the whole program for itself, does its own part of it by a Doer, and trains the model of all ranks beside it.
// So nothing but the seed is to be known by all, be they threads or processes. Without a Doer the model is trained alone.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "../support/random.hpp"

namespace parallax_test::phases {

// ---- what is trained -----------------------------------------------------------------------------------------------------

enum class Rule { momentum, adam, adagrad, subtract };
enum class Mean { mean, sum, by_count };

// The variables that there are, each made in another of its ways in each phase: under other policies, partitioners and types of
// ids. phases.cpp has the ways; way 0 is under PsShard, which knows letters.
struct Kind {
  char const* name;
  bool dense;
  Rule rule;
  int ways, narrow;  // narrow: the way whose ids have 32 bits, to which no accumulator is given here; -1: none
};
inline constexpr std::array<Kind, 6> kinds{{{"layer", true, Rule::momentum, 2, -1},
                                            {"bias", true, Rule::adam, 2, -1},
                                            {"words", false, Rule::momentum, 3, 1},
                                            {"users", false, Rule::adam, 4, 0},
                                            {"counts", false, Rule::subtract, 3, -1},
                                            {"items", false, Rule::adagrad, 3, 0}}};

// A variable as the model knows it, whoever holds which of its rows.
struct Variable {
  std::size_t kind = 0;
  int rows = 1, width = 1;  // of a dense one: `rows` elements
  float initial = 0;
  // Of this phase:
  int way = 0;
  Mean mean{};
  bool drops = false;
  std::string name;
  // Kept by a checkpoint:
  double rate = 0;
  std::int64_t steps = 0;
  std::vector<float> values, first, second;  // parameters and slots

  Kind const& of() const { return kinds[kind]; }
};

// The form in which a gradient is given. Of `accumulated` there are several micro-batches.
enum class Form { plain, rows, distinct, bags, changed, accumulated, accumulated_rows };
enum class Pooled { sum, mean, weighted };

// One rank's part of an update, or of a micro-batch of it.
struct Batch {
  std::vector<std::int64_t> ids;
  std::vector<std::int32_t> offsets;  // of bags
  std::vector<float> weights;
  std::vector<float> values;  // a row for each index, or for each bag; of `changed`: what is added to each index's row
};
struct Update {
  std::size_t variable = 0;
  Form form{};
  Pooled pool{};
  bool micro_mean = false, started = false;
  int micros = 1;                         // of accumulated rows, whose pulls all ranks make together
  std::uint64_t salt = 0;                 // of the gradients of distinct rows
  std::vector<std::vector<Batch>> ranks;  // by rank, by micro-batch
};
// A batch of pulls and a step of all ranks.
struct Iteration {
  std::vector<Update> updates;
  std::size_t ahead = kinds.size();  // the table that is named for the next one, and pulled after the step; none
  std::vector<std::vector<std::int64_t>> ahead_ids;
  std::vector<bool> active;
  int culprit = -1;     // the rank that gives a wrong index, for which all refuse the step
  bool applied = true;  // what step returns
  bool polls = false;
};

// Returns the gradient of a distinct row.
inline float distinct_gradient(std::uint64_t salt, std::int64_t id, int column) {
  Random random{salt + static_cast<std::uint64_t>(id) * 31 + static_cast<std::uint64_t>(column)};
  return static_cast<float>(random.below(9) - 4) / 2;
}

// The world of a phase.
struct World {
  int number = 0, ranks = 1;
  std::vector<int> hosts;  // empty: flat
  bool apart = false;      // an AsyncSession
  int servers = 0;         // of one
  bool over_active = false, skips = false;
  int fusion = 0;
};

// The contents of a checkpoint.
struct Kept {
  std::vector<std::optional<Variable>> variables = std::vector<std::optional<Variable>>(kinds.size());
  std::int64_t steps = 0;
  int epoch = 0;
  std::string note;
  std::vector<std::uint64_t> own;  // by rank
};

// One rank of a phase, in the library. Whatever is not as expected is thrown.
struct Doer {
  virtual ~Doer() = default;
  virtual int rank() const = 0;
  virtual void enter(Variable const& variable) = 0;
  virtual void begin(Kept const& now) = 0;  // values of the trainer as it begins
  // Calls the body after the variables were entered; and in a world apart in between trainings.
  virtual void quietly(std::function<void()> const& body) = 0;
  virtual void save(std::string const& folder, int keep, bool behind, std::int64_t generation, Kept const& now) = 0;
  virtual void restore(std::string const& folder, std::int64_t wanted, std::int64_t generation, bool partial,
                       std::vector<std::pair<std::string, std::string>> const& names, Kept const& now, bool own_lost) = 0;
  virtual void look(Kept const& now) = 0;  // at everything
  virtual void rate(std::size_t variable, double rate) = 0;
  virtual void assign(std::size_t variable, std::vector<std::int64_t> const& ids, std::vector<float> const& rows) = 0;
  virtual void scale(std::size_t variable, std::vector<std::int64_t> const& ids, double factor) = 0;
  virtual void favour(int method, int interval) = 0;  // of Auto
  virtual void search(std::size_t variable) = 0;
  virtual void iterate(Iteration const& iteration, Kept const& before, Kept const& after) = 0;
  // Calls `next` as often as this rank has batches, and then as the world joins or leaves; it is called `all` times in all.
  virtual void unevenly(int mine, int all, std::function<void()> const& next) = 0;
  virtual void finish() = 0;
  virtual void leave() = 0;  // as by an accident
};

// ---- the model -----------------------------------------------------------------------------------------------------------

using Row = std::vector<float>;

// Returns the sum of a run of addends: chunks of 64, each summed from a copy of its first; then the chunks.
inline Row run_of(std::vector<Row> const& addends) {
  Row total;
  for (std::size_t begin = 0; begin < addends.size(); begin += 64) {
    Row chunk = addends[begin];
    for (std::size_t i = begin + 1; i < std::min(addends.size(), begin + 64); ++i)
      for (std::size_t c = 0; c < chunk.size(); ++c) chunk[c] = chunk[c] + addends[i][c];
    if (begin == 0) total = chunk;
    else
      for (std::size_t c = 0; c < chunk.size(); ++c) total[c] = total[c] + chunk[c];
  }
  return total;
}

// Returns the ranks of each host, hosts in the order of their first ranks; all ranks where there are none.
inline std::vector<std::vector<std::size_t>> by_host(World const& world) {
  std::vector<std::vector<std::size_t>> groups;
  std::map<int, std::size_t> known;
  for (std::size_t rank = 0; rank < static_cast<std::size_t>(world.ranks); ++rank) {
    std::size_t const group = world.hosts.empty() ? 0 : known.try_emplace(world.hosts[rank], known.size()).first->second;
    groups.resize(std::max(groups.size(), group + 1));
    groups[group].push_back(rank);
  }
  return groups;
}

// The rows that a rank's ids name, and their addends; a row's in their order. `counts`: how many indices named it.
struct Named {
  std::map<std::int64_t, std::vector<Row>> addends;
  std::map<std::int64_t, int> counts;
};

inline Row row_of(Variable const& variable, std::int64_t id) {
  auto const width = static_cast<std::ptrdiff_t>(variable.width);
  auto const begin = variable.values.begin() + static_cast<std::ptrdiff_t>(id) * width;
  return {begin, begin + width};
}
inline bool inside(Variable const& variable, std::int64_t id) { return id >= 0 && id < variable.rows; }

// Returns the row of each bag.
inline std::vector<Row> pooled(Variable const& variable, Batch const& batch, Pooled pool) {
  std::vector<Row> bags;
  for (std::size_t bag = 0; bag + 1 < batch.offsets.size(); ++bag) {
    std::vector<Row> terms;
    int kept = 0;
    for (auto i = static_cast<std::size_t>(batch.offsets[bag]); i < static_cast<std::size_t>(batch.offsets[bag + 1]); ++i) {
      bool const there = inside(variable, batch.ids[i]);
      Row term = there ? row_of(variable, batch.ids[i]) : Row(static_cast<std::size_t>(variable.width));
      kept += there;
      if (pool == Pooled::weighted)
        for (float& t : term) t = batch.weights[i] * t;
      terms.push_back(std::move(term));
    }
    Row sum = terms.empty() ? Row(static_cast<std::size_t>(variable.width)) : run_of(terms);
    if (pool == Pooled::mean && kept > 1)
      for (float& s : sum) s = s / static_cast<float>(kept);
    bags.push_back(std::move(sum));
  }
  return bags;
}

inline Named named_by(Variable const& variable, Update const& update, std::size_t rank) {
  Named named;
  auto const width = static_cast<std::size_t>(variable.width);
  auto const& micros = update.ranks[rank];
  bool const divides = update.micro_mean && micros.size() > 1;
  auto const add = [&](std::int64_t id, Row row) {
    if (divides)
      for (float& g : row) g = g / static_cast<float>(micros.size());
    named.addends[id].push_back(std::move(row));
  };
  for (Batch const& batch : micros) {
    auto const given = [&](std::size_t i) {
      return Row(batch.values.begin() + static_cast<std::ptrdiff_t>(i * width),
                 batch.values.begin() + static_cast<std::ptrdiff_t>((i + 1) * width));
    };
    for (std::int64_t const id : batch.ids)
      if (inside(variable, id)) ++named.counts[id];
    switch (update.form) {
      case Form::plain:
      case Form::rows:
      case Form::accumulated:
        for (std::size_t i = 0; i < batch.ids.size(); ++i)
          if (inside(variable, batch.ids[i])) add(batch.ids[i], given(i));
        break;
      case Form::accumulated_rows: {  // a run for each row of a micro-batch
        std::map<std::int64_t, std::vector<Row>> runs;
        for (std::size_t i = 0; i < batch.ids.size(); ++i)
          if (inside(variable, batch.ids[i])) runs[batch.ids[i]].push_back(given(i));
        for (auto const& [id, addends] : runs) add(id, run_of(addends));
        break;
      }
      case Form::distinct:
        for (std::int64_t const id : std::set<std::int64_t>(batch.ids.begin(), batch.ids.end())) {
          if (!inside(variable, id)) continue;
          Row row;
          for (std::size_t c = 0; c < width; ++c) row.push_back(distinct_gradient(update.salt, id, static_cast<int>(c)));
          add(id, std::move(row));
        }
        break;
      case Form::bags:
        for (std::size_t bag = 0; bag + 1 < batch.offsets.size(); ++bag) {
          auto const begin = static_cast<std::size_t>(batch.offsets[bag]),
                     end = static_cast<std::size_t>(batch.offsets[bag + 1]);
          int kept = 0;
          for (std::size_t i = begin; i < end; ++i) kept += inside(variable, batch.ids[i]);
          for (std::size_t i = begin; i < end; ++i) {
            if (!inside(variable, batch.ids[i])) continue;
            Row row = given(bag);
            float const factor = update.pool == Pooled::mean       ? 1.0f / static_cast<float>(kept)
                                 : update.pool == Pooled::weighted ? batch.weights[i]
                                                                   : 1.0f;
            if (update.pool != Pooled::sum)
              for (float& g : row) g = factor * g;
            add(batch.ids[i], std::move(row));
          }
        }
        break;
      case Form::changed: {
        std::map<std::int64_t, Row> changed;
        for (std::size_t i = 0; i < batch.ids.size(); ++i) {
          if (!inside(variable, batch.ids[i])) continue;
          Row& row = changed.try_emplace(batch.ids[i], row_of(variable, batch.ids[i])).first->second;
          Row const by = given(i);
          for (std::size_t c = 0; c < width; ++c) row[c] += by[c];
        }
        for (auto const& [id, after] : changed) {
          Row difference = row_of(variable, id);
          for (std::size_t c = 0; c < width; ++c) difference[c] -= after[c];
          add(id, std::move(difference));
        }
        break;
      }
    }
  }
  return named;
}

// Returns a dense gradient of a rank.
inline Row dense_of(Variable const& variable, Update const& update, std::size_t rank) {
  auto const& micros = update.ranks[rank];
  Row sum(static_cast<std::size_t>(variable.rows));
  for (std::size_t m = 0; m < micros.size(); ++m)
    for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = m == 0 ? micros[m].values[i] : sum[i] + micros[m].values[i];
  if (update.micro_mean && micros.size() > 1)
    for (float& g : sum) g = g / static_cast<float>(micros.size());
  return sum;
}

// The sum over ranks of what each row is given, row by row: within ranks, hosts, and all.
struct Sum {
  std::map<std::int64_t, Row> rows;
  std::map<std::int64_t, int> counts;
};
inline Sum sum_of(Variable const& variable, Update const& update, World const& world, std::vector<bool> const& active) {
  Sum sum;
  std::map<std::int64_t, std::vector<Row>> of_hosts;
  for (auto const& host : by_host(world)) {
    std::map<std::int64_t, std::vector<Row>> of_ranks;
    for (std::size_t const rank : host) {
      if (!active[rank]) continue;
      if (variable.of().dense) {
        of_ranks[0].push_back(dense_of(variable, update, rank));
        continue;
      }
      Named const named = named_by(variable, update, rank);
      for (auto const& [id, addends] : named.addends) of_ranks[id].push_back(run_of(addends));
      for (auto const& [id, count] : named.counts) sum.counts[id] += count;
    }
    for (auto const& [id, addends] : of_ranks) of_hosts[id].push_back(run_of(addends));
  }
  for (auto const& [id, addends] : of_hosts) sum.rows[id] = run_of(addends);
  return sum;
}

inline void apply(Variable& variable, std::vector<float> const& gradient, std::vector<bool> const& touched) {
  ++variable.steps;
  auto const rate = static_cast<float>(variable.rate);
  auto const t = static_cast<double>(variable.steps);
  auto const adam_rate = static_cast<float>(variable.rate / (1 - std::pow(0.9, t)));
  auto const adam_root = static_cast<float>(std::sqrt(1 - std::pow(0.999, t)));
  for (std::size_t i = 0; i < gradient.size(); ++i) {
    float const g = gradient[i];
    float& p = variable.values[i];
    float &m = variable.first[i], &v = variable.second[i];
    switch (variable.of().rule) {
      case Rule::momentum:
        m = 0.5f * m + g;
        p -= rate * m;
        break;
      case Rule::adam:
        m += static_cast<float>(1 - 0.9) * (g - m);
        v += static_cast<float>(1 - 0.999) * (g * g - v);
        p -= adam_rate * m / (std::sqrt(v) / adam_root + static_cast<float>(1e-8));
        break;
      case Rule::adagrad:
        if (!touched[i]) break;
        m += g * g;
        p -= rate * g / (std::sqrt(m) + static_cast<float>(1e-10));
        break;
      case Rule::subtract:
        if (touched[i]) p -= g;
        break;
    }
  }
}

// Takes a step of all ranks. False, and nothing changed, where nobody has data or a gradient is not finite and such steps are
// skipped.
inline bool step(Kept& now, World const& world, Iteration const& iteration) {
  auto const& active = iteration.active;
  auto const active_count = static_cast<int>(std::count(active.begin(), active.end(), true));
  if (active_count == 0) return false;
  std::map<std::size_t, Sum> sums;  // of all updates of a variable, those that were started first
  for (bool const started : {true, false})
    for (Update const& update : iteration.updates) {
      if (update.started != started) continue;
      Sum one = sum_of(*now.variables[update.variable], update, world, active);
      auto const [at, fresh] = sums.try_emplace(update.variable, one);
      if (fresh) continue;
      for (auto const& [id, row] : one.rows) {
        auto const [into, first] = at->second.rows.try_emplace(id, row);
        if (!first) into->second = run_of({into->second, row});
      }
      for (auto const& [id, count] : one.counts) at->second.counts[id] += count;
    }
  std::map<std::size_t, std::pair<std::vector<float>, std::vector<bool>>> gradients;
  for (auto const& [number, sum] : sums) {
    Variable const& variable = *now.variables[number];
    bool const dense = variable.of().dense;
    auto& [gradient, touched] = gradients[number];
    gradient.assign(variable.values.size(), 0);
    touched.assign(variable.values.size(), dense);
    for (auto const& [id, row] : sum.rows) {
      int divisor = 1;
      if (variable.mean == Mean::mean) divisor = world.over_active ? active_count : world.ranks;
      if (variable.mean == Mean::by_count) divisor = dense ? active_count : sum.counts.at(id);
      for (std::size_t c = 0; c < row.size(); ++c) {
        std::size_t const at = dense ? c : static_cast<std::size_t>(id) * row.size() + c;
        gradient[at] = divisor > 1 ? row[c] / static_cast<float>(divisor) : row[c];
        touched[at] = true;
        if (!std::isfinite(gradient[at]) && world.skips) return false;
      }
    }
  }
  for (auto const& [number, of] : gradients) apply(*now.variables[number], of.first, of.second);
  ++now.steps;
  return true;
}

// ---- a walk through phases -----------------------------------------------------------------------------------------------

class Walk {
 public:
  // Begins a walk. Worlds have at most so many ranks. `folder`: of the checkpoints. `tell`: what happens is printed. `leaves`:
  // some worlds end as by an accident.
  Walk(std::uint64_t seed, int most, std::string folder, bool tell, bool leaves = true)
      : random_{seed},
        most_{most},
        folder_{std::move(folder)},
        tell_{tell},
        leaves_{leaves},
        phases_{2 + random_.below(3)},
        exact_{random_.percent(50)} {
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
      if (!random_.percent(60) && !(kind + 1 == kinds.size() && drawn_.empty())) continue;
      Variable variable;
      variable.kind = kind;
      variable.rows = random_.of(std::array{1, 2, 3, 5, 8, 13, 40});
      variable.width = kinds[kind].dense ? 1 : 1 + random_.below(3);
      variable.initial = static_cast<float>(random_.below(9) - 4) / 4;
      since_[kind] = random_.percent(85) || drawn_.empty() ? 0 : random_.below(phases_);
      drawn_.push_back(variable);
    }
  }

  int phases() const { return phases_; }
  // Sets whether what happens is printed from now on; returns whether it was.
  bool tells(bool now) { return std::exchange(tell_, now); }
  std::set<std::int64_t> generations() const {
    std::set<std::int64_t> all;
    for (auto const& [number, kept] : kept_) all.insert(number);
    return all;
  }

  // Draws the world of the next phase, which `run` goes through then.
  World const& enter_phase() {
    World next;
    next.number = world_.number + 1;
    next.ranks = 1 + random_.below(most_);
    next.apart = random_.percent(25) && next.ranks > 1;
    if (next.apart && random_.percent(50)) next.servers = 1 + random_.below(next.ranks - 1);
    if (!next.apart && next.ranks > 1 && random_.percent(45)) {
      for (int rank = 0; rank < next.ranks; ++rank) next.hosts.push_back(random_.below(2));
      next.hosts[static_cast<std::size_t>(random_.below(next.ranks))] ^= 1;
    }
    next.over_active = next.apart || random_.percent(50);
    next.skips = !next.apart && random_.percent(60);
    next.fusion = random_.below(3);
    world_ = next;
    return world_;
  }

  // Runs the phase, on a rank of it or on none.
  void run(Doer* doer) {
    doer_ = doer;
    now_ = {};
    for (int rank = 0; rank < world_.ranks; ++rank) now_.own.push_back(1000u + static_cast<std::uint64_t>(rank));
    for (Variable variable : drawn_) {
      if (since_[variable.kind] >= world_.number) continue;
      variable.way = world_.apart ? 0 : random_.below(variable.of().ways);
      variable.mean = static_cast<Mean>(random_.below(3));
      variable.drops = !variable.of().dense && random_.percent(30);
      variable.name = std::string{variable.of().name} + (random_.percent(20) ? "_anew" : "");
      variable.rate = random_.of(std::array{0.5, 0.25, 0.1});
      auto const size = static_cast<std::size_t>(variable.rows * variable.width);
      variable.values.assign(size, variable.initial), variable.first.assign(size, 0), variable.second.assign(size, 0);
      now_.variables[variable.kind] = variable;
    }
    tell("phase " + std::to_string(world_.number) + ": " + std::to_string(world_.ranks) + " ranks" +
         (world_.apart           ? " apart, servers " + std::to_string(world_.servers)
          : world_.hosts.empty() ? ""
                                 : " on hosts") +
         (world_.skips ? ", skips" : "") + (world_.over_active ? ", over active" : ""));
    if (world_.hosts.size() > 0) {
      std::string text = "  hosts";
      for (int const host : world_.hosts) text += " " + std::to_string(host);
      tell(text);
    }
    for (auto const& variable : now_.variables) {
      if (!variable) continue;
      tell("  " + variable->name + " " + std::to_string(variable->rows) + "x" + std::to_string(variable->width) + ", way " +
           std::to_string(variable->way) + ", reduce " + std::to_string(static_cast<int>(variable->mean)) +
           (variable->drops ? ", drops" : ""));
      if (doer) doer->enter(*variable);
    }
    if (doer) doer->begin(now_);
    if (!world_.apart) favour();
    if (!kept_.empty()) quietly([&] { restore(); });
    look();
    int const events = 3 + random_.below(8), due = random_.below(events);
    bool saved = false, behind = false;
    for (int event = 0; event < events; ++event) {
      if (event == due || random_.percent(8)) {
        quietly([&] { behind = save(); });
        saved = true;
        continue;
      }
      int const draw = random_.below(100);
      if (draw < 55) iterate_some();
      else if (draw < 63) look();
      else if (draw < 70) set_rate();
      else if (draw < 75) assign();
      else if (draw < 79) scale();
      else if (draw < 83) favour();
      else if (draw < 85) search();
      else if (draw < 92 && saved) quietly([&] { restore(); }), behind = false;
      else iterate_some();
    }
    look();
    bool const leaves = !behind && random_.percent(15) && leaves_;
    tell(leaves ? "leaves" : "finishes");
    if (doer) leaves ? doer->leave() : doer->finish();
    doer_ = nullptr;
  }

 private:
  std::size_t ranks() const { return static_cast<std::size_t>(world_.ranks); }
  bool trains(std::size_t rank) const { return static_cast<int>(rank) >= world_.servers; }
  void tell(std::string const& text) const {
    if (!tell_ || (doer_ && doer_->rank() != 0)) return;
    std::printf("%s\n", text.c_str());
    std::fflush(stdout);
  }
  void quietly(std::function<void()> const& body) {
    if (doer_) doer_->quietly(body);
    else body();
  }
  void look() {
    tell("look");
    quietly([&] {
      if (doer_) doer_->look(now_);
    });
  }

  // Draws a table, or any variable; `kinds.size()` where there is none.
  template <class Fits>
  std::size_t any(Fits&& fits) {
    std::vector<std::size_t> found;
    for (auto const& variable : now_.variables)
      if (variable && fits(*variable)) found.push_back(variable->kind);
    return found.empty() ? kinds.size() : found[static_cast<std::size_t>(random_.below(static_cast<int>(found.size())))];
  }
  std::size_t any_table() {
    return any([](Variable const& variable) { return !variable.of().dense; });
  }

  // ---- checkpoints -----------------------------------------------------------------------------------------------------

  // Returns whether it is written behind the steps.
  bool save() {
    bool const behind = random_.percent(40);
    int const keep = random_.of(std::array{0, 0, 1, 2, 3});
    std::int64_t const number = kept_.empty() ? 1 : kept_.rbegin()->first + 1;
    tell("save " + std::to_string(number) + (behind ? " behind the steps" : "") + ", keep " + std::to_string(keep));
    kept_[number] = now_;
    while (keep > 0 && static_cast<int>(kept_.size()) > keep) kept_.erase(kept_.begin());
    if (doer_) doer_->save(folder_, keep, behind, number, now_);
    return behind;
  }

  void restore() {
    auto at = std::prev(kept_.end());
    bool const wanted = random_.percent(30);
    if (wanted) at = std::next(kept_.begin(), random_.below(static_cast<int>(kept_.size())));
    Kept const& kept = at->second;
    bool partial = random_.percent(10);
    std::vector<std::pair<std::string, std::string>> names;
    for (auto& variable : now_.variables) {
      if (!variable) continue;
      auto const& there = kept.variables[variable->kind];
      partial = partial || !there;
      if (!there) continue;  // it keeps what it has
      if (there->name != variable->name) names.emplace_back(variable->name, there->name);
      variable->rate = there->rate, variable->steps = there->steps;
      variable->values = there->values, variable->first = there->first, variable->second = there->second;
    }
    now_.steps = kept.steps, now_.epoch = kept.epoch, now_.note = kept.note;
    bool const own_lost = kept.own.size() != now_.own.size();
    if (!own_lost) now_.own = kept.own;
    tell("restore " + std::to_string(at->first) + (wanted ? " by number" : ""));
    if (doer_) doer_->restore(folder_, wanted ? at->first : 0, at->first, partial, names, now_, own_lost);
  }

  // ---- what is between steps -------------------------------------------------------------------------------------------

  void set_rate() {
    std::size_t const number = any([](Variable const& variable) { return variable.of().rule != Rule::subtract; });
    if (number == kinds.size()) return;
    double const rate = random_.of(std::array{0.5, 0.25, 0.125, 0.1});
    tell("rate of " + now_.variables[number]->name + ": " + std::to_string(rate));
    now_.variables[number]->rate = rate;
    if (doer_) doer_->rate(number, rate);
  }
  void assign() {
    std::size_t const number = any_table();
    if (number == kinds.size() || world_.apart) return;
    Variable& variable = *now_.variables[number];
    std::uint64_t const salt = random_.next();
    std::vector<std::vector<std::int64_t>> const ids = ids_of_ranks(variable);
    tell("assign to " + variable.name);
    auto const values_of = [&](std::vector<std::int64_t> const& of) {
      std::vector<float> rows;
      for (std::int64_t const id : of)
        for (int c = 0; c < variable.width; ++c) rows.push_back(distinct_gradient(salt, id, c));
      return rows;
    };
    for (auto const& of : ids)
      for (std::int64_t const id : of)
        for (int c = 0; c < variable.width && inside(variable, id); ++c)
          variable.values[static_cast<std::size_t>(id * variable.width + c)] = distinct_gradient(salt, id, c);
    if (doer_)
      doer_->assign(number, ids[static_cast<std::size_t>(doer_->rank())],
                    values_of(ids[static_cast<std::size_t>(doer_->rank())]));
  }
  void scale() {
    std::size_t const number = any_table();
    if (number == kinds.size() || world_.apart) return;
    Variable& variable = *now_.variables[number];
    float const factor = random_.of(std::array{0.5f, -1.0f, 2.0f, 0.75f});
    auto const ids = ids_of_ranks(variable);
    tell("scale " + variable.name);
    std::set<std::int64_t> named;
    for (auto const& of : ids) named.insert(of.begin(), of.end());
    for (std::int64_t const id : named)
      for (int c = 0; c < variable.width && inside(variable, id); ++c) {
        float& value = variable.values[static_cast<std::size_t>(id * variable.width + c)];
        value = factor * value;
      }
    if (doer_) doer_->scale(number, ids[static_cast<std::size_t>(doer_->rank())], static_cast<double>(factor));
  }
  void favour() {
    int const method = random_.below(3), interval = 1 + random_.below(2);
    if (world_.apart) return;
    tell("favour " + std::to_string(method));
    if (doer_) doer_->favour(method, interval);
  }
  void search() {
    std::size_t const number = any_table();
    if (number == kinds.size() || world_.apart) return;
    tell("search pieces of " + now_.variables[number]->name);
    if (doer_) doer_->search(number);
  }

  // ---- steps -----------------------------------------------------------------------------------------------------------

  float value() {
    return exact_ ? static_cast<float>(random_.below(17) - 8) / 4 : static_cast<float>(random_.below(2001) - 1000) / 1000;
  }
  std::vector<std::int64_t> draw_ids(Variable const& variable, int count) {
    std::vector<std::int64_t> ids;
    for (int i = 0; i < count; ++i)
      ids.push_back(!variable.drops || random_.percent(80) ? random_.below(variable.rows)
                    : random_.percent(50)                  ? -1 - random_.below(3)
                                                           : variable.rows + random_.below(3));
    return ids;
  }
  std::vector<std::vector<std::int64_t>> ids_of_ranks(Variable const& variable) {
    std::vector<std::vector<std::int64_t>> ids;
    for (std::size_t rank = 0; rank < ranks(); ++rank) ids.push_back(draw_ids(variable, random_.below(7)));
    return ids;
  }

  // Draws what the iterations of a loop have alike: variables and forms. The data are drawn for each.
  Iteration draw_shape() {
    Iteration shape;
    for (auto const& variable : now_.variables) {
      if (!variable || !random_.percent(70)) continue;
      for (int again = 0; again < 2; ++again) {
        Update update;
        update.variable = variable->kind;
        bool const dense = variable->of().dense, narrow = variable->way == variable->of().narrow;
        if (dense) update.form = random_.percent(30) ? Form::accumulated : Form::plain;
        else if (variable->of().rule == Rule::subtract && random_.percent(50)) update.form = Form::changed;
        else
          update.form = random_.of(std::array{Form::plain, Form::rows, Form::rows, Form::distinct, Form::bags,
                                              Form::accumulated, Form::accumulated_rows});
        if (!dense && update.form == Form::accumulated && narrow) update.form = Form::plain;
        if (update.form == Form::accumulated_rows && (narrow || variable->mean == Mean::by_count)) update.form = Form::rows;
        update.pool = static_cast<Pooled>(random_.below(3));
        update.micro_mean = random_.percent(50);
        update.started = !world_.apart && random_.percent(25);
        update.micros = random_.below(4);
        shape.updates.push_back(update);
        if (world_.apart || !random_.percent(12)) break;
      }
    }
    if (!world_.apart && random_.percent(20)) shape.ahead = any_table();
    shape.polls = random_.percent(20);
    return shape;
  }
  void fill(Iteration& iteration) {
    for (Update& update : iteration.updates) {
      Variable const& variable = *now_.variables[update.variable];
      update.ranks.assign(ranks(), {});
      update.salt = random_.next();
      for (std::size_t rank = 0; rank < ranks(); ++rank) {
        bool const has_data = iteration.active[rank];
        int const micros = update.form == Form::accumulated_rows ? update.micros
                           : update.form != Form::accumulated    ? 1
                           : has_data                            ? random_.below(4)
                                                                 : 0;
        for (int m = 0; m < micros; ++m) {
          Batch batch;
          if (variable.of().dense) {
            for (int i = 0; i < variable.rows; ++i) batch.values.push_back(value());
          } else if (update.form == Form::bags) {
            batch.offsets.push_back(0);
            for (int bag = has_data ? random_.below(4) : 0; bag > 0; --bag) {
              auto const more = draw_ids(variable, random_.below(5));
              batch.ids.insert(batch.ids.end(), more.begin(), more.end());
              batch.offsets.push_back(static_cast<std::int32_t>(batch.ids.size()));
              for (int c = 0; c < variable.width; ++c) batch.values.push_back(value());
            }
            for (std::size_t i = 0; i < batch.ids.size(); ++i)
              batch.weights.push_back(static_cast<float>(random_.below(7) - 3) / 2);
          } else {
            int const few = random_.below(8);
            batch.ids = draw_ids(variable, !has_data ? 0 : random_.percent(4) ? 60 + random_.below(90) : few);
            if (update.form != Form::distinct)
              for (std::size_t i = 0; i < batch.ids.size() * static_cast<std::size_t>(variable.width); ++i)
                batch.values.push_back(value());
          }
          update.ranks[rank].push_back(std::move(batch));
        }
      }
    }
    if (iteration.ahead < kinds.size()) {
      iteration.ahead_ids = ids_of_ranks(*now_.variables[iteration.ahead]);
      for (std::size_t rank = 0; rank < ranks(); ++rank)
        if (!iteration.active[rank]) iteration.ahead_ids[rank].clear();
    }
  }

  // Puts in an infinity on one rank, or an index that is not there.
  void spoil(Iteration& iteration) {
    if (world_.apart || iteration.updates.empty() || !random_.percent(15)) return;
    Update& update = iteration.updates[static_cast<std::size_t>(random_.below(static_cast<int>(iteration.updates.size())))];
    Variable const& variable = *now_.variables[update.variable];
    auto const rank = static_cast<std::size_t>(random_.below(world_.ranks));
    if (!iteration.active[rank] || update.form != Form::plain) return;
    Batch& batch = update.ranks[rank][0];
    if (world_.skips && random_.percent(60)) {
      if (batch.values.empty()) return;
      tell("  an infinity on rank " + std::to_string(rank));
      batch.values[static_cast<std::size_t>(random_.below(static_cast<int>(batch.values.size())))] =
          random_.of(std::array{1.0f, -1.0f}) * std::numeric_limits<float>::infinity();
    } else if (!variable.of().dense && !variable.drops) {
      tell("  a bad id on rank " + std::to_string(rank));
      iteration.culprit = static_cast<int>(rank);
      batch.ids.push_back(variable.rows + random_.below(3));
      for (int c = 0; c < variable.width; ++c) batch.values.push_back(1);
    }
  }

  void iterate(Iteration const& shape, std::vector<bool> const& active) {
    Iteration iteration = shape;
    iteration.active = active;
    fill(iteration);
    spoil(iteration);
    std::string text = "  step";
    for (Update const& update : iteration.updates)
      text += " " + now_.variables[update.variable]->name + ":" + std::to_string(static_cast<int>(update.form)) +
              (update.started ? "s" : "");
    if (iteration.ahead < kinds.size()) text += ", ahead " + now_.variables[iteration.ahead]->name;
    Kept const before = now_;
    iteration.applied = iteration.culprit < 0 && step(now_, world_, iteration);
    tell(text + (iteration.applied ? "" : " -> not applied"));
    ++now_.epoch;
    now_.note += static_cast<char>('a' + random_.below(26));
    for (std::size_t rank = 0; rank < ranks(); ++rank) now_.own[rank] = 3 * now_.own[rank] + rank;
    if (doer_) doer_->iterate(iteration, before, now_);
  }

  // Makes some steps of one shape: as many on all ranks, or as many as each has data for.
  void iterate_some() {
    bool const joins = world_.apart || random_.percent(15);
    Iteration const shape = draw_shape();
    std::vector<int> mine(ranks());
    int most = 0;
    int const alike = 1 + random_.below(4);
    bool const uneven = random_.percent(world_.apart ? 40 : 100);
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      mine[rank] = !trains(rank) ? 0 : joins && uneven ? random_.below(5) : alike;
      most = std::max(most, mine[rank]);
    }
    std::string text = joins ? "ends early:" : "steps:";
    for (int const of : mine) text += " " + std::to_string(of);
    tell(text);
    int next = 0;
    auto const one = [&] {
      std::vector<bool> active(ranks());
      for (std::size_t rank = 0; rank < ranks(); ++rank) active[rank] = next < mine[rank];
      ++next;
      iterate(shape, active);
    };
    int const all = joins && !world_.apart ? most + 1 : most;  // the last call of a join is of ranks that have all ended
    if (doer_ && joins) {
      doer_->unevenly(mine[static_cast<std::size_t>(doer_->rank())], all, one);
      if (next != all) throw std::runtime_error{"not as many iterations as there are batches, and one"};
    } else {
      while (next < all) one();
    }
  }

  Random random_;
  int most_;
  std::string folder_;
  bool tell_, leaves_;
  int phases_;
  bool exact_;  // gradients are of few bits
  std::vector<Variable> drawn_;
  std::array<int, kinds.size()> since_{};  // in which phase a variable comes in
  World world_;
  Kept now_;
  std::map<std::int64_t, Kept> kept_;  // by generation
  Doer* doer_ = nullptr;
};

}  // namespace parallax_test::phases
