// What ranks saw, compared with the oracle: to the last bit, or within the bound that sums in another order may reach.
#pragma once

#include <cmath>
#include <cstddef>
#include <cstring>
#include <limits>
#include <set>
#include <sstream>
#include <string>
#include <tuple>
#include <vector>

#include "../catch.hpp"
#include "training.hpp"

namespace parallax_test {

// The parameters that an entry of a diary should show.
template <class T>
std::vector<T> expected(Seen<T> const& seen, std::vector<oracle::Snapshot<T>> const& snapshots, Shape const& shape) {
  auto const& now = snapshots[static_cast<std::size_t>(seen.step)];
  if (seen.what == Seen<T>::What::layer) return now.layers[seen.layer];
  std::vector<T> rows;
  for (std::int64_t const id : seen.ids) {
    auto const first = now.table.begin() + static_cast<std::ptrdiff_t>(id * shape.width);
    rows.insert(rows.end(), first, first + static_cast<std::ptrdiff_t>(shape.width));
  }
  return rows;
}

// How far diaries are from the oracle: the first entry with other bits, and the largest difference of two elements relative
// to the largest element of the variable.
struct Deviation {
  std::string first;
  double largest = 0;
};

template <class T>
std::string where(Seen<T> const& seen, std::size_t rank, std::size_t element, T value, T wanted) {
  std::ostringstream out;
  out.precision(17);
  out << "after step " << seen.step << " rank " << rank << " has " << value << " where " << wanted << " belongs: element " << element;
  if (seen.what == Seen<T>::What::layer) out << " of layer " << seen.layer;
  else out << (seen.what == Seen<T>::What::pulled ? " of the rows pulled" : " of the rows held");
  return out.str();
}

template <class T>
Deviation deviation(std::vector<Diary<T>> const& diaries, std::vector<oracle::Snapshot<T>> const& snapshots, Shape const& shape) {
  Deviation found;
  for (std::size_t rank = 0; rank < diaries.size(); ++rank)
    for (Seen<T> const& seen : diaries[rank]) {
      std::vector<T> const wanted = expected(seen, snapshots, shape);
      if (seen.values.size() != wanted.size()) return {"wrong size", std::numeric_limits<double>::infinity()};
      double scale = std::numeric_limits<double>::min();
      auto const& whole = seen.what == Seen<T>::What::layer ? wanted : snapshots[static_cast<std::size_t>(seen.step)].table;
      for (T const value : whole) scale = std::max(scale, std::abs(static_cast<double>(value)));
      for (std::size_t i = 0; i < wanted.size(); ++i) {
        if (std::memcmp(&seen.values[i], &wanted[i], sizeof(T)) == 0) continue;
        if (found.first.empty()) found.first = where(seen, rank, i, seen.values[i], wanted[i]);
        double const apart = std::abs(static_cast<double>(seen.values[i]) - static_cast<double>(wanted[i])) / scale;
        found.largest = std::max(found.largest, std::isnan(apart) ? std::numeric_limits<double>::infinity() : apart);
      }
    }
  return found;
}

// By how much another order of the sums may move a parameter.
template <class T>
double bound(Case const& c) {
  return 8.0 * c.ranks * c.steps * static_cast<double>(std::numeric_limits<T>::epsilon());
}

// Whether the norm of the clipped gradients is exact, whatever the order of its sum.
inline bool exact_norm(Case const& c) {
  bool const power_of_two = (c.ranks & (c.ranks - 1)) == 0;
  return !c.clips || (c.integers && (c.reduce == px::Reduce::sum || (c.reduce == px::Reduce::mean && power_of_two)));
}

// A sharded table's rows are held once, a replicated one's by every rank.
template <class M>
bool rows_are_held_as_they_should(std::vector<Diary<typename M::T>> const& diaries, Shape const& shape) {
  std::multiset<std::int64_t> held;
  for (auto const& diary : diaries) held.insert(diary.back().ids.begin(), diary.back().ids.end());
  std::size_t const times = M::Words::State::sharded ? 1 : diaries.size();
  for (std::int64_t row = 0; row < shape.rows; ++row)
    if (held.count(row) != times) return false;
  return held.size() == static_cast<std::size_t>(shape.rows) * times;
}

// Trains on threads, and compares with the oracle in the documented order and with one process that sums one after another.
template <class M>
void check_equality(Case const& c) {
  using T = typename M::T;
  INFO(M::name() << ", " << c.text());
  auto const diaries = train_on_threads<M>(c);
  auto const workload = workload_of<M>(c);
  oracle::Settings settings = oracle_of<M>(c);
  CHECK(rows_are_held_as_they_should<M>(diaries, c.shape));

  Deviation const documented = deviation(diaries, oracle::train(workload, settings, c.steps), c.shape);
  if (exact_norm(c)) CHECK(documented.first == "");
  else CHECK(documented.largest <= bound<T>(c));

  settings.one_after_another = true;
  Deviation const one_process = deviation(diaries, oracle::train(workload, settings, c.steps), c.shape);
  if (c.integers && c.reduce == px::Reduce::sum) CHECK(one_process.first == "");
  else CHECK(one_process.largest <= bound<T>(c));
}

// Every policy for dense and sparse variables, with an optimizer.
template <class O>
using Models = std::tuple<Model<px::AllReduce, px::PsShard, O>,
                          Model<px::PsShard, px::AllGather, O, px::Block, float, std::int32_t>,
                          Model<px::AllReduce, px::AllReduce, O, px::Hash>,
                          Model<px::PsShard, px::NaivePs, O, px::Hash, float, std::int32_t>>;

// The trainings that every kind of variable must pass.
inline std::vector<Case> const& cases() {
  using enum px::Reduce;
  static std::vector<Case> const all = {
      {.ranks = 1, .reduce = mean, .seed = 1},
      {.ranks = 1, .reduce = mean_by_count, .clips = true, .seed = 2},
      {.ranks = 2, .reduce = mean, .clips = true, .seed = 3},
      {.ranks = 2, .reduce = sum, .integers = true, .clips = true, .seed = 4, .overlap = false},
      {.ranks = 3, .reduce = mean, .seed = 5},
      {.ranks = 3, .reduce = sum, .integers = true, .seed = 6, .pieces = 7},
      {.ranks = 3, .reduce = mean_by_count, .seed = 7, .lent = true},
      {.ranks = 4, .reduce = mean, .integers = true, .clips = true, .seed = 8, .fusion = {}},
      {.ranks = 4, .reduce = sum, .seed = 9, .overlap = false, .lent = true},
      {.ranks = 8, .reduce = mean, .seed = 10},
      {.ranks = 8, .reduce = sum, .integers = true, .clips = true, .seed = 11},
      {.ranks = 8, .reduce = mean_by_count, .seed = 12, .pieces = 5},
      {.ranks = 3, .hosts = {5, 5, 5}, .reduce = mean, .seed = 13},
      {.ranks = 3, .hosts = {2, 1, 0}, .reduce = mean_by_count, .seed = 14},
      {.ranks = 4, .hosts = {0, 0, 1, 1}, .reduce = mean, .seed = 15},
      {.ranks = 4, .hosts = {0, 1, 0, 1}, .reduce = mean_by_count, .seed = 16, .overlap = false},
      {.ranks = 4, .hosts = {0, 0, 1, 1}, .reduce = sum, .integers = true, .clips = true, .seed = 17},
      {.ranks = 5, .hosts = {0, 0, 0, 1, 1}, .reduce = mean, .clips = true, .seed = 18},
      {.ranks = 5, .hosts = {0, 0, 0, 1, 1}, .reduce = sum, .integers = true, .seed = 19, .lent = true},
      {.ranks = 5, .hosts = {1, 0, 0, 0, 1}, .reduce = mean_by_count, .seed = 20},
      {.ranks = 8, .hosts = {0, 0, 0, 1, 1, 2, 2, 2}, .reduce = mean, .seed = 21},
      {.ranks = 8, .hosts = {0, 1, 0, 1, 0, 1, 0, 1}, .reduce = sum, .integers = true, .seed = 22},
  };
  return all;
}

}  // namespace parallax_test
