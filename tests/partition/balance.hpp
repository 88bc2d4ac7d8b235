// How evenly a layout spreads the ids of several ranks over the owners.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>
#include <set>
#include <vector>

#include "parallax/partition/partitioner.hpp"

namespace balance {

using Ids = std::set<std::int64_t>;  // the distinct ids of one rank

// Ids of a vocabulary sorted by frequency: id i is drawn with a probability proportional to 1 / (i + 1).
inline std::vector<Ids> zipf_batches(std::int64_t rows, int ranks, int draws, unsigned seed) {
  std::vector<double> cumulative(static_cast<std::size_t>(rows));
  double total = 0;
  for (std::size_t i = 0; i < cumulative.size(); ++i) cumulative[i] = total += 1.0 / static_cast<double>(i + 1);
  std::mt19937_64 random{seed};
  std::uniform_real_distribution<double> uniform{0, total};
  std::vector<Ids> batches(static_cast<std::size_t>(ranks));
  for (Ids& ids : batches)
    for (int draw = 0; draw < draws; ++draw)
      ids.insert(std::lower_bound(cumulative.begin(), cumulative.end() - 1, uniform(random)) - cumulative.begin());
  return batches;
}

// The rows that the busiest owner serves, over the mean of all owners.
template <parallax::PartitionLayout Layout>
double busiest_over_mean(Layout const& layout, std::vector<Ids> const& batches) {
  std::vector<double> load(static_cast<std::size_t>(layout.owners()));
  for (Ids const& ids : batches)
    for (std::int64_t const id : ids) ++load[static_cast<std::size_t>(layout.locate(id).owner)];
  double const mean = std::accumulate(load.begin(), load.end(), 0.0) / static_cast<double>(load.size());
  return *std::max_element(load.begin(), load.end()) / mean;
}

}  // namespace balance
