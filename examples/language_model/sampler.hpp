// Words to contrast the right ones with: a sample of ids by Zipf's law, the same on every rank.
#pragma once

#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include "random.hpp"
#include "text.hpp"

namespace lm {

// Draws ids from the log-uniform distribution P(id) = log((id + 2) / (id + 1)) / log(rows + 1), which is close to how
// often the words of a language occur when ids go by descending frequency.
//
// A sample holds distinct ids: ids are drawn until enough different ones have come, and the number of tries gives the
// expected count of each. The draw is a function of the seed alone and uses nothing but exactly rounded operations, so
// all ranks that draw with one seed hold one sample, whatever their C library or processor.
class LogUniformSampler {
 public:
  // Samples `samples` of the ids [0, rows). Throws std::invalid_argument unless 0 < samples <= rows.
  LogUniformSampler(Id rows, Id samples) : rows_{rows}, position_(static_cast<std::size_t>(rows), -1) {
    if (samples < 1 || samples > rows) throw std::invalid_argument{"the sample must be smaller than the vocabulary"};
    ids_.reserve(static_cast<std::size_t>(samples));
    samples_ = static_cast<std::size_t>(samples);
  }

  // Replaces the sample.
  void draw(std::uint64_t seed) {
    for (Id const id : ids_) position_[static_cast<std::size_t>(id)] = -1;
    ids_.clear();
    Random random{seed};
    for (tries_ = 0; ids_.size() < samples_; ++tries_) {
      Id const id = draw_one(random);
      auto& position = position_[static_cast<std::size_t>(id)];
      if (position >= 0) continue;
      position = static_cast<std::int32_t>(ids_.size());
      ids_.push_back(id);
    }
  }

  // The distinct ids of the sample, in the order drawn.
  std::span<Id const> ids() const { return ids_; }

  // Where in ids() an id is; -1 where it is not.
  std::ptrdiff_t find(Id id) const { return position_[static_cast<std::size_t>(id)]; }

  double probability(Id id) const {
    return std::log1p(1 / (static_cast<double>(id) + 1)) / std::log1p(static_cast<double>(rows_));
  }

  // Logarithm of the probability that an id is in a sample of as many tries.
  double log_expected_count(Id id) const {
    return std::log(-std::expm1(static_cast<double>(tries_) * std::log1p(-probability(id))));
  }

 private:
  // log2(id + 1) is uniform: its whole part is drawn first, then x in [1, 2) with density 1 / (x ln 2) by rejection.
  Id draw_one(Random& random) const {
    auto const octaves = static_cast<double>(std::bit_width(static_cast<std::uint64_t>(rows_)));
    for (;;) {
      auto const octave = static_cast<int>(uniform(random) * octaves);
      double const x = 1 + uniform(random);
      if (uniform(random) * x >= 1) continue;
      Id const id = static_cast<Id>(x * static_cast<double>(std::uint64_t{1} << octave)) - 1;
      if (id < rows_) return id;
    }
  }

  Id rows_;
  std::size_t samples_;
  std::vector<Id> ids_;
  std::vector<std::int32_t> position_;  // by id: its place in ids_, or -1
  std::int64_t tries_ = 0;
};

}  // namespace lm
