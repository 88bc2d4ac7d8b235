// Random training steps of a small model: what all ranks do alike, and the gradients of each, functions of (seed, step, rank).
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <set>
#include <span>
#include <vector>

namespace parallax_test {

// The same numbers on every machine (Steele, Lea and Flood, OOPSLA 2014: SplitMix64).
class Random {
 public:
  Random(std::initializer_list<std::uint64_t> stream) {
    for (std::uint64_t const word : stream) state_ = next() ^ word;
  }
  std::uint64_t next() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
    z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
    return z ^ (z >> 31);
  }
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(next() % n); }
  bool percent(std::size_t chance) { return below(100) < chance; }
  double unit() { return static_cast<double>(next() >> 11) * 0x1p-53; }

 private:
  std::uint64_t state_ = 0;
};

// The model: dense layers of these sizes, one table.
struct Shape {
  std::vector<std::size_t> layers = {37, 5, 1, 64, 0};
  std::int64_t rows = 61, width = 3;
};

// How a batch of rows reaches the table.
enum class Way : unsigned char {
  ids,       // named by index, never pulled
  handle,    // pulled, a gradient row for every index
  distinct,  // pulled, a gradient row for every distinct index
  looked_at  // pulled, and no gradient at all
};

inline bool pushes(Way way) { return way != Way::looked_at; }

// What all ranks do alike in one step. The order of the updates is that of the lists; several of one variable are merged.
struct Script {
  std::vector<std::size_t> layers;         // a dense update each
  std::vector<Way> batches;                // of the table
  double clip = 0;                         // the largest global norm, 0 for none
  double rate = 1;                         // by what the learning rate is multiplied
  std::size_t early_layers = 0;            // how many of the dense updates a session may start before the pulls
  std::size_t early_batches = 0;           // how many of the batches it may start after the pulls, before the step
};

// A batch of one rank. `rows` has a row for every index or, where distinct, for every distinct index ascending.
template <class T>
struct RowBatch {
  std::vector<std::int64_t> ids;
  std::vector<T> rows;
  bool distinct = false;
};

template <class T>
struct Gradients {
  std::vector<std::vector<T>> layers;  // as Script::layers
  std::vector<RowBatch<T>> batches;    // as Script::batches
};

inline std::vector<std::int64_t> ascending_distinct(std::span<std::int64_t const> ids) {
  std::set<std::int64_t> const once(ids.begin(), ids.end());
  return {once.begin(), once.end()};
}

template <class T>
struct Workload {
  using value_type = T;

  Shape shape;
  std::uint64_t seed = 1;
  bool integers = false;  // all gradients are small integers, so that their sums are exact
  bool distinct = true;   // some batches bring a row for every distinct index
  bool clips = true;      // some steps are clipped

  // The parameters before the first step, multiples of 2^-6.
  std::vector<T> first_values(std::size_t variable, std::size_t count) const {
    Random random{seed, 1, variable};
    std::vector<T> values(count);
    for (T& value : values) value = static_cast<T>(static_cast<double>(random.below(257)) / 64 - 2);
    return values;
  }

  Script script(int step) const {
    Random random{seed, 2, static_cast<std::uint64_t>(step)};
    Script script;
    script.rate = step < 17 ? 1 : step < 33 ? 0.5 : 0.25;
    if (!random.percent(10))
      for (std::size_t layer = 0; layer < shape.layers.size(); ++layer) script.layers.push_back(layer);
    if (random.percent(20)) script.layers.push_back(random.below(shape.layers.size()));
    std::size_t const kinds[] = {1, 1, 1, 1, 2, 3, 0};
    script.batches.resize(kinds[random.below(7)]);
    for (Way& way : script.batches) way = a_way(random);
    if (clips && random.percent(20)) script.clip = 0.5 + 20 * random.unit();
    script.early_layers = random.below(script.layers.size() + 1);
    script.early_batches = random.below(script.batches.size() + 1);
    return script;
  }

  Gradients<T> gradients(int step, int rank) const {
    Random random{seed, 3, static_cast<std::uint64_t>(step), static_cast<std::uint64_t>(rank)};
    Script const what = script(step);
    Gradients<T> gradients;
    for (std::size_t const layer : what.layers) gradients.layers.push_back(values(random, shape.layers[layer]));
    for (Way const way : what.batches) gradients.batches.push_back(batch(random, way));
    return gradients;
  }

  std::vector<T> values(Random& random, std::size_t count) const {
    std::vector<T> result(count);
    for (T& value : result) {
      double const spread = 2 * random.unit() - 1;  // a multiple of 2^-52, whose sums would be exact
      double const drawn = integers ? static_cast<double>(random.below(17)) - 8 : spread * 1.1;
      value = random.percent(6) ? T(-0.0) : static_cast<T>(drawn);
    }
    return result;
  }

  RowBatch<T> batch(Random& random, Way way) const {
    RowBatch<T> batch{indices(random), {}, way == Way::distinct};
    std::size_t const rows = batch.distinct ? ascending_distinct(batch.ids).size() : batch.ids.size();
    batch.rows = values(random, rows * static_cast<std::size_t>(shape.width));
    return batch;
  }

 private:
  Way a_way(Random& random) const {
    switch (random.below(8)) {
      case 0: case 1: case 2: return Way::handle;
      case 3: case 4: return distinct ? Way::distinct : Way::handle;
      case 5: return Way::looked_at;
      default: return Way::ids;
    }
  }

  // Uneven numbers of indices, none on some ranks, 0 to 100 % of them duplicates: sums of more than two chunks occur.
  std::vector<std::int64_t> indices(Random& random) const {
    std::size_t const counts[] = {0, 1, 6, 20, 40, 150};
    std::size_t const duplicates[] = {0, 25, 50, 90, 100};
    std::size_t const chance = duplicates[random.below(5)];
    std::vector<std::int64_t> ids, unused;
    for (std::int64_t row = 0; row < shape.rows; ++row) unused.push_back(row);
    for (std::size_t left = counts[random.below(6)]; left > 0 && shape.rows > 0; --left) {
      if (unused.empty() || (!ids.empty() && random.percent(chance))) {
        ids.push_back(ids[random.below(std::min<std::size_t>(ids.size(), 3))]);
        continue;
      }
      std::swap(unused[random.below(unused.size())], unused.back());
      ids.push_back(unused.back());
      unused.pop_back();
    }
    return ids;
  }
};

extern template struct Workload<float>;  // in oracle.cpp
extern template struct Workload<double>;

}  // namespace parallax_test
