// What the parameters must be after every step: the training of all ranks in one process, written without the library.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

#include "workload.hpp"

namespace parallax_test::oracle {

// The product rounded to T. Never inlined, so that no compiler contracts it with an addition; all products of the oracle
// that meet a sum go through here.
template <class T>
[[gnu::noinline]] T product(T a, T b) {
  return a * b;
}

enum class Rule : unsigned char {
  sgd,
  momentum,
  adagrad,
  centered_rms_prop,
  adam,
  lazy_adam,
  adadelta,
  proximal_sgd,
  proximal_adagrad,
  adagrad_da,
  tempered
};

struct Formula {
  Rule rule = Rule::sgd;
  double rate = 0, epsilon = 0, beta1 = 0, beta2 = 0;
  double first = 0, second = 0;  // what the slots begin as
  double l1 = 0, l2 = 0;         // penalties
};

// Rules that leave rows alone which nobody touched; a gradient of zero moves them under the others.
inline constexpr Rule resting[] = {Rule::sgd, Rule::adagrad, Rule::lazy_adam, Rule::tempered};

enum class Average : unsigned char { mean, sum, by_count };

// In which order the gradients of a table are summed.
enum class Rows : unsigned char {
  by_hops,     // equal indices of a rank; then the ranks of a host, ascending; then hosts
  densified,   // the same, but ranks that did not touch a row add zeros
  occurrences  // every occurrence, in the order (rank, position)
};

struct Settings {
  int ranks = 1;
  std::vector<int> hosts;  // of each rank; empty: one hop
  Formula formula;
  Average average = Average::mean;
  Rows rows = Rows::by_hops;
  bool one_after_another = false;  // all sums in the order (rank, position): one process with the concatenated batch
  int divisor = 0;                 // of the mean; 0: the number of ranks

  // The hosts in the order of their first ranks, each with its ranks ascending.
  std::vector<std::vector<std::size_t>> ranks_by_host() const {
    std::vector<std::vector<std::size_t>> groups(1);
    std::map<int, std::size_t> known;
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
      bool const flat = hosts.empty() || one_after_another;
      std::size_t const group = flat ? 0 : known.try_emplace(hosts[rank], known.size()).first->second;
      groups.resize(std::max(groups.size(), group + 1));
      groups[group].push_back(rank);
    }
    return groups;
  }
};

template <class T>
using Values = std::vector<T>;

// A sum starts from a copy of its first addend.
template <class T>
Values<T> sum(std::vector<Values<T>> const& addends) {
  Values<T> total = addends.front();
  for (std::size_t a = 1; a < addends.size(); ++a)
    for (std::size_t i = 0; i < total.size(); ++i) total[i] = total[i] + addends[a][i];
  return total;
}

// Equal indices: chunks of 64 from the first, then the sums of the chunks.
template <class T>
Values<T> sum_in_chunks(std::vector<Values<T>> const& addends) {
  std::vector<Values<T>> chunks;
  for (std::size_t first = 0; first < addends.size(); first += 64)
    chunks.push_back(
        sum(std::vector<Values<T>>(addends.begin() + static_cast<std::ptrdiff_t>(first),
                                   addends.begin() + static_cast<std::ptrdiff_t>(std::min(addends.size(), first + 64)))));
  return sum(chunks);
}

// Parameters and the optimizer's state, element by element.
template <class T>
class Parameters {
 public:
  Parameters() = default;
  Parameters(Formula const& f, Values<T> first)
      : values{std::move(first)}, one_(values.size(), static_cast<T>(f.first)), two_(values.size(), static_cast<T>(f.second)) {}

  // The update number `step` (from 1) of elements [first, first + gradient.size()).
  void update(Formula const& f, int step, std::size_t first, Values<T> const& gradient) {
    for (std::size_t i = 0; i < gradient.size(); ++i)
      update(f, step, values[first + i], gradient[i], one_[first + i], two_[first + i]);
  }

  Values<T> values;

 private:
  static void update(Formula const& f, int step, T& p, T g, T& one, T& two) {
    T const rate = static_cast<T>(f.rate), epsilon = static_cast<T>(f.epsilon);
    switch (f.rule) {
      case Rule::sgd: p = p - product(rate, g); return;
      case Rule::momentum:
        one = product(static_cast<T>(f.beta1), one) + g;
        p = p - product(rate, one);
        return;
      case Rule::adagrad:
        one = one + product(g, g);
        p = p - product(rate, g) / (std::sqrt(one) + epsilon);
        return;
      case Rule::centered_rms_prop: {
        T const share = static_cast<T>(1 - f.beta1);
        one = one + product(share, product(g, g) - one);
        two = two + product(share, g - two);
        p = p - product(rate, g) / (std::sqrt(std::max(T{0}, one - product(two, two))) + epsilon);
        return;
      }
      case Rule::adam:
      case Rule::lazy_adam: {
        T const corrected = static_cast<T>(f.rate / (1 - std::pow(f.beta1, static_cast<double>(step))));
        T const root = static_cast<T>(std::sqrt(1 - std::pow(f.beta2, static_cast<double>(step))));
        one = one + product(static_cast<T>(1 - f.beta1), g - one);
        two = two + product(static_cast<T>(1 - f.beta2), product(g, g) - two);
        p = p - product(corrected, one) / (std::sqrt(two) / root + epsilon);
        return;
      }
      case Rule::adadelta: {
        T const share = static_cast<T>(1 - f.beta1);
        one = one + product(share, product(g, g) - one);
        T const moved = product(std::sqrt(two + epsilon) / std::sqrt(one + epsilon), g);
        two = two + product(share, product(moved, moved) - two);
        p = p - product(rate, moved);
        return;
      }
      case Rule::proximal_sgd:
        p = nearer(p - product(rate, g), static_cast<T>(f.rate * f.l1)) / static_cast<T>(1 + f.rate * f.l2);
        return;
      case Rule::proximal_adagrad: {
        one = one + product(g, g);
        T const own = rate / std::sqrt(one);
        p = nearer(p - product(own, g), product(own, static_cast<T>(f.l1))) / (T{1} + product(own, static_cast<T>(f.l2)));
        return;
      }
      case Rule::adagrad_da:
        if (step == 1) {  // the sum that leads to the first value, of those that lead to 0 the nearest
          T const edge = static_cast<T>(f.l1), drawn = product(p, (static_cast<T>(f.rate * f.l2) + std::sqrt(two)) / rate);
          one = p == T{0} ? std::clamp(one, -edge, edge) : p < T{0} ? edge - drawn : -edge - drawn;
        }
        one = one + g;
        two = two + product(g, g);
        p = product(rate, nearer(T{0} - one, static_cast<T>(f.l1 * step))) /
            (static_cast<T>(f.rate * f.l2 * step) + std::sqrt(two));
        return;
      case Rule::tempered:  // `two` counts the gradients that are not zero
        if (g != T{0}) two = two + T{1};
        one = one + product(g, g);
        if (two > T{0}) p = p - product(rate, g) / (T{1} + one / two);
        return;
    }
  }

  // x, moved towards 0 by no more than it is away from it.
  static T nearer(T x, T by) { return std::abs(x) <= by ? T{0} : std::copysign(std::abs(x) - by, x); }

  Values<T> one_, two_;
};

// The parameters of the whole model at one moment.
template <class T>
struct Snapshot {
  std::vector<Values<T>> layers;
  Values<T> table;
};

// All ranks' training. `step` takes what every rank brings and moves the parameters.
template <class T>
class Training {
 public:
  Training(Settings settings, Shape const& shape, std::vector<Values<T>> layers, Values<T> table)
      : settings_{std::move(settings)},
        width_{static_cast<std::size_t>(shape.width)},
        table_{settings_.formula, std::move(table)} {
    for (auto& values : layers) layers_.emplace_back(settings_.formula, std::move(values));
    layer_steps_.resize(layers_.size(), 0);
  }

  Snapshot<T> snapshot() const {
    Snapshot<T> now{{}, table_.values};
    for (auto const& layer : layers_) now.layers.push_back(layer.values);
    return now;
  }

  void step(Script const& script, std::vector<Gradients<T>> const& by_rank) {
    std::map<std::size_t, Values<T>> layers = reduced_layers(script, by_rank);
    std::map<std::int64_t, Row> rows = reduced_rows(script, by_rank);
    if (script.clip > 0) clip(script.clip, layers, rows);
    Formula formula = settings_.formula;
    formula.rate *= script.rate;
    for (auto const& [layer, gradient] : layers) layers_[layer].update(formula, ++layer_steps_[layer], 0, gradient);
    if (std::ranges::any_of(script.batches, pushes)) update_table(formula, rows);
  }

 private:
  struct Row {
    Values<T> sum;
    std::size_t named = 0;  // by how many indices
  };
  using Table = std::map<std::int64_t, Row>;

  // The values of some ranks, by rank, along the tree of sums: the ranks of a host, then hosts.
  Values<T> sum_of_ranks(std::map<std::size_t, Values<T>> const& by_rank) const {
    std::vector<Values<T>> hosts;
    for (auto const& group : settings_.ranks_by_host()) {
      std::vector<Values<T>> here;
      for (std::size_t const rank : group)
        if (auto const found = by_rank.find(rank); found != by_rank.end()) here.push_back(found->second);
      if (!here.empty()) hosts.push_back(sum(here));
    }
    return sum(hosts);
  }

  void average(Values<T>& sum, std::size_t named) const {
    std::size_t const ranks = static_cast<std::size_t>(settings_.divisor ? settings_.divisor : settings_.ranks);
    if (settings_.average == Average::sum) return;
    for (T& value : sum) value = value / static_cast<T>(settings_.average == Average::mean ? ranks : named);
  }

  // ---- dense -----------------------------------------------------------------------------------------------------------

  std::map<std::size_t, Values<T>> reduced_layers(Script const& script, std::vector<Gradients<T>> const& by_rank) const {
    std::map<std::size_t, std::vector<Values<T>>> updates;
    for (std::size_t u = 0; u < script.layers.size(); ++u) {
      std::map<std::size_t, Values<T>> gradients;
      for (std::size_t rank = 0; rank < by_rank.size(); ++rank) gradients[rank] = by_rank[rank].layers[u];
      updates[script.layers[u]].push_back(sum_of_ranks(gradients));
    }
    std::map<std::size_t, Values<T>> reduced;
    for (auto const& [layer, sums] : updates) {
      reduced[layer] = sum(sums);
      average(reduced[layer], by_rank.size());  // every rank names a dense gradient once
    }
    return reduced;
  }

  // ---- rows ------------------------------------------------------------------------------------------------------------

  // The gradient rows of one batch by index, in the order of position.
  std::map<std::int64_t, std::vector<Values<T>>> occurrences(RowBatch<T> const& batch) const {
    std::map<std::int64_t, std::vector<Values<T>>> found;
    auto const& ids = batch.distinct ? ascending_distinct(batch.ids) : batch.ids;
    for (std::size_t i = 0; i < ids.size(); ++i) {
      auto const first = batch.rows.begin() + static_cast<std::ptrdiff_t>(i * width_);
      found[ids[i]].emplace_back(first, first + static_cast<std::ptrdiff_t>(width_));
    }
    return found;
  }

  // One batch of every rank as sums by row.
  Table reduced_batch(std::vector<RowBatch<T> const*> const& by_rank) const {
    std::map<std::int64_t, std::map<std::size_t, Values<T>>> rank_sums;
    std::map<std::int64_t, std::vector<Values<T>>> all;
    Table rows;
    for (std::size_t rank = 0; rank < by_rank.size(); ++rank) {
      for (auto const& [id, addends] : occurrences(*by_rank[rank])) {
        rank_sums[id][rank] = sum_in_chunks(addends);
        all[id].insert(all[id].end(), addends.begin(), addends.end());
      }
      for (std::int64_t const id : by_rank[rank]->ids) ++rows[id].named;
    }
    for (auto& [id, row] : rows) {
      if (settings_.rows == Rows::densified)
        for (std::size_t rank = 0; rank < by_rank.size(); ++rank) rank_sums[id].try_emplace(rank, Values<T>(width_, T{0}));
      if (settings_.one_after_another) row.sum = sum(all[id]);
      else row.sum = settings_.rows == Rows::occurrences ? sum_in_chunks(all[id]) : sum_of_ranks(rank_sums[id]);
    }
    return rows;
  }

  // All batches of a step, each reduced by itself, then summed in their order.
  Table reduced_rows(Script const& script, std::vector<Gradients<T>> const& by_rank) const {
    std::vector<Table> tables;
    for (std::size_t b = 0; b < script.batches.size(); ++b) {
      if (!pushes(script.batches[b])) continue;
      std::vector<RowBatch<T> const*> batches;
      for (auto const& gradients : by_rank) batches.push_back(&gradients.batches[b]);
      tables.push_back(reduced_batch(batches));
    }
    Table merged;
    for (Table const& table : tables)
      for (auto const& [id, row] : table) merged[id].named += row.named;
    for (auto& [id, row] : merged) {
      std::vector<Values<T>> sums;
      for (Table const& table : tables) {
        if (auto const found = table.find(id); found != table.end()) sums.push_back(found->second.sum);
        else if (settings_.rows == Rows::densified) sums.push_back(Values<T>(width_, T{0}));
      }
      row.sum = sum(sums);
      average(row.sum, row.named);
    }
    return merged;
  }

  // Rows that nobody touched rest, except under rules that move them as a gradient of zero would.
  void update_table(Formula const& formula, Table const& rows) {
    ++table_steps_;
    bool const rests = std::ranges::count(resting, formula.rule) > 0;
    std::int64_t const count = width_ ? static_cast<std::int64_t>(table_.values.size() / width_) : 0;
    for (std::int64_t id = 0; id < count; ++id) {
      auto const touched = rows.find(id);
      if (touched == rows.end() && rests) continue;
      table_.update(formula, table_steps_, static_cast<std::size_t>(id) * width_,
                    touched == rows.end() ? Values<T>(width_, T{0}) : touched->second.sum);
    }
  }

  // ---- clipping --------------------------------------------------------------------------------------------------------

  static void clip(double limit, std::map<std::size_t, Values<T>>& layers, Table& rows) {
    std::vector<Values<T>*> all;
    for (auto& [layer, values] : layers) all.push_back(&values);
    for (auto& [id, row] : rows) all.push_back(&row.sum);
    double squared = 0;
    for (auto const* values : all)
      for (T const value : *values) squared += product(static_cast<double>(value), static_cast<double>(value));
    double const norm = std::sqrt(squared);
    if (norm <= limit) return;
    for (auto* values : all)
      for (T& value : *values) value = product(value, static_cast<T>(limit / norm));
  }

  Settings settings_;
  std::size_t width_;
  std::vector<Parameters<T>> layers_;
  Parameters<T> table_;
  std::vector<int> layer_steps_;
  int table_steps_ = 0;
};

extern template class Training<float>;  // in oracle.cpp
extern template class Training<double>;

// The parameters before the first and after every step of a workload, as one process computes them.
template <class AnyWorkload, class T = typename AnyWorkload::value_type>
std::vector<Snapshot<T>> train(AnyWorkload const& workload, Settings const& settings, int steps) {
  std::vector<Values<T>> layers;
  for (std::size_t layer = 0; layer < workload.shape.layers.size(); ++layer)
    layers.push_back(workload.first_values(layer, workload.shape.layers[layer]));
  std::size_t const elements = static_cast<std::size_t>(workload.shape.rows * workload.shape.width);
  Training<T> training{settings, workload.shape, layers, workload.first_values(layers.size(), elements)};
  std::vector<Snapshot<T>> snapshots{training.snapshot()};
  for (int step = 0; step < steps; ++step) {
    std::vector<Gradients<T>> by_rank;
    for (int rank = 0; rank < settings.ranks; ++rank) by_rank.push_back(workload.gradients(step, rank));
    training.step(workload.script(step), by_rank);
    snapshots.push_back(training.snapshot());
  }
  return snapshots;
}

}  // namespace parallax_test::oracle
