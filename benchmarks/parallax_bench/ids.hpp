// Streams of ids: Zipf, uniform and recorded, the same on whichever rank they are drawn.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "options.hpp"

namespace bench {

using Ids = std::vector<std::int64_t>;

inline std::uint64_t mixed(std::uint64_t word) {
  word = (word ^ (word >> 30)) * 0xbf58476d1ce4e5b9;
  word = (word ^ (word >> 27)) * 0x94d049bb133111eb;
  return word ^ (word >> 31);
}

// SplitMix64 (Steele, Lea and Flood, OOPSLA 2014), begun from several numbers.
class Random {
 public:
  template <class... Seeds>
  explicit Random(Seeds... seeds) {
    ((state_ = mixed(state_ + 0x9e3779b97f4a7c15 + static_cast<std::uint64_t>(seeds))), ...);
  }
  std::uint64_t next() { return mixed(state_ += 0x9e3779b97f4a7c15); }
  double unit() { return (real(next() >> 11) + 0.5) * 0x1.0p-53; }  // in (0, 1)

 private:
  std::uint64_t state_ = 0;
};

// Ids 0, 1, … of `rows` rows; id i is drawn in proportion to (i + 1)^-skew, as in a vocabulary sorted by frequency.
class Zipf {
 public:
  Zipf(std::int64_t rows, double skew) : rows_{rows}, skew_{skew} {
    if (skew == 0) return;
    cumulative_.reserve(at(rows));
    double sum = 0;
    for (std::int64_t row = 0; row < rows; ++row) cumulative_.push_back(sum += std::pow(real(row + 1), -skew));
  }

  std::int64_t rows() const { return rows_; }

  // By inversion of the cumulative table.
  std::int64_t draw(Random& random) const {
    if (skew_ == 0) return std::min(static_cast<std::int64_t>(random.unit() * real(rows_)), rows_ - 1);
    auto const found = std::upper_bound(cumulative_.begin(), cumulative_.end(), random.unit() * cumulative_.back());
    return std::min<std::int64_t>(found - cumulative_.begin(), rows_ - 1);
  }

  // How many draws name `distinct` different rows, as expected.
  std::int64_t draws_for(double distinct) const {
    double low = distinct, high = distinct;
    while (expected_distinct(high) < distinct && high < 1e12) high *= 2;
    for (int turn = 0; turn < 50; ++turn) (expected_distinct((low + high) / 2) < distinct ? low : high) = (low + high) / 2;
    return std::max<std::int64_t>(std::llround(high), 1);
  }

  // `count` different rows, as drawing until there are so many would give them: the rows whose exponential waiting times, in
  // proportion to the inverse of their weights, are the shortest (Efraimidis and Spirakis, Inf. Proc. Letters 97, 2006).
  Ids distinct(std::int64_t count, Random& random) const {
    std::vector<std::pair<double, std::int64_t>> waits;
    waits.reserve(at(rows_));
    for (std::int64_t row = 0; row < rows_; ++row)
      waits.emplace_back(-std::log(random.unit()) * std::pow(real(row + 1), skew_), row);
    count = std::clamp<std::int64_t>(count, 1, rows_);
    if (count < rows_) std::nth_element(waits.begin(), waits.begin() + count, waits.end());
    Ids ids;
    for (std::int64_t i = 0; i < count; ++i) ids.push_back(waits[at(i)].second);
    return ids;
  }

 private:
  // Rows beyond the first thousand are taken together where their weights differ by less than a hundredth.
  double expected_distinct(double draws) const {
    double const total = skew_ == 0 ? real(rows_) : cumulative_.back();
    auto const named = [&](double weight) {
      double const p = weight / total;
      return p >= 1 ? 1.0 : -std::expm1(draws * std::log1p(-p));
    };
    if (skew_ == 0) return real(rows_) * named(1);
    double sum = 0;
    for (std::int64_t row = 0; row < rows_;) {
      std::int64_t const next = std::min(rows_, row < 1000 ? row + 1 : row + row / 200);
      double const weight = (cumulative_[at(next - 1)] - (row ? cumulative_[at(row - 1)] : 0)) / real(next - row);
      sum += real(next - row) * named(weight);
      row = next;
    }
    return sum;
  }

  std::int64_t rows_;
  double skew_;
  std::vector<double> cumulative_;
};

// The integers of a text file.
inline Ids recorded_ids(std::string const& path) {
  std::ifstream file{path};
  Ids ids;
  for (std::int64_t id; file >> id;) ids.push_back(id);
  if (ids.empty() || !file.eof()) throw Refusal{"--ids: " + path + " is no text file of integers"};
  return ids;
}

// What every rank asks of one table: ids[rank][batch].
struct Stream {
  std::vector<std::vector<Ids>> ids;

  std::size_t largest() const {
    std::size_t most = 0;
    for (auto const& of_rank : ids)
      for (auto const& batch : of_rank) most = std::max(most, batch.size());
    return most;
  }
};

inline Ids sorted_distinct(Ids ids) {
  std::sort(ids.begin(), ids.end());
  ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
  return ids;
}

}  // namespace bench
