// Single variables with random gradients of their own: what each is given, what ranks see of it, what it must be.
#pragma once

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "equality.hpp"

namespace parallax_test {

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
Alone<T> alone_layer(std::size_t size, std::uint64_t seed) {
  return {{{{size}, 0, 0}, seed}, Way::ids};
}
template <class T>
Alone<T> alone_table(std::int64_t rows, std::int64_t width, std::uint64_t seed, Way way) {
  return {{{{}, rows, width}, seed}, way};
}

// A variable of a session, the gradients of the step at hand, and what this rank saw.
template <class V>
class Kept {
 public:
  using T = typename V::scalar_type;

  template <class Session>
  Kept(Session& session, std::string const& name, Alone<T> alone, px::Reduce reduce)
      : alone_{std::move(alone)}, memory_{first_values()}, rank_{session.rank()}, variable{make(session, name, reduce)} {
    if constexpr (!dense) {
      auto const mine = variable.local();
      for (std::int64_t row = 0; row < mine.rows; ++row)
        std::copy_n(memory_.data() + variable.global_row(row) * width(), width(), mine.row(row));
    }
  }
  Kept(Kept&&) = default;

  void next(int step) { gradients_ = alone_.gradients(step, rank_); }
  std::vector<std::int64_t> const& ids() const { return gradients_.batches[0].ids; }

  // The update of this step: of a layer, of named rows, of pulled ones.
  auto grad() const {
    if constexpr (dense) return px::grad(variable, gradients_.layers[0]);
    else return px::grad(variable, ids(), gradients_.batches[0].rows);
  }
  template <class Handle>
  auto grad(Handle const& handle) {
    return px::grad(handle, gradients_.batches[0].rows);
  }
  template <class Handle>
  auto distinct_grad(Handle const& handle) {
    auto const ascending = ascending_distinct(ids());
    auto const first = gradients_.batches[0].rows.begin();
    rows_.clear();
    for (std::size_t j = 0; j < handle.size(); ++j) {
      auto const at = std::ranges::lower_bound(ascending, handle.id(j)) - ascending.begin();
      rows_.insert(rows_.end(), first + at * width(), first + (at + 1) * width());
    }
    return px::grad(handle, px::distinct(rows_));
  }

  template <class Handle>
  void note_pulled(int step, Handle const& handle) {
    Seen<T> seen{Seen<T>::What::pulled, step, 0, ids(), {}};
    for (std::size_t i = 0; i < handle.indices(); ++i) seen.values.insert(seen.values.end(), handle[i].begin(), handle[i].end());
    diary.push_back(std::move(seen));
  }
  void note(int step) {
    if constexpr (dense) {
      diary.push_back({Seen<T>::What::layer, step, 0, {}, memory_});
    } else {
      Seen<T> seen{Seen<T>::What::held, step, 0, {}, {}};
      auto const mine = variable.local();
      for (std::int64_t row = 0; row < mine.rows; ++row) {
        seen.ids.push_back(variable.global_row(row));
        seen.values.insert(seen.values.end(), mine[row].begin(), mine[row].end());
      }
      diary.push_back(std::move(seen));
    }
  }

 private:
  static constexpr bool dense = std::is_same_v<typename V::kind, px::Dense>;

  std::int64_t width() const { return alone_.shape.width; }
  std::vector<T> first_values() const {
    return alone_.first_values(0, dense ? alone_.shape.layers[0] : static_cast<std::size_t>(alone_.shape.rows * width()));
  }
  template <class Session>
  V make(Session& session, std::string const& name, px::Reduce reduce) {
    if constexpr (dense) return {session, name, px::bind(memory_), reduce};
    else return {session, name, px::Table{alone_.shape.rows, width()}, reduce};
  }

  Alone<T> alone_;
  std::vector<T> memory_;  // of a layer its parameters, of a table their first values
  int rank_;
  Gradients<T> gradients_;
  std::vector<T> rows_;

 public:
  V variable;
  Diary<T> diary;
};

// What ranks saw of a variable is what one process computes, bit by bit.
template <class T>
void check_alone(Alone<T> const& alone, oracle::Settings const& settings, std::vector<Diary<T>> const& diaries, int steps) {
  INFO("seed " << alone.seed);
  CHECK(deviation(diaries, oracle::train(alone, settings, steps), alone.shape).first == "");
}

}  // namespace parallax_test
