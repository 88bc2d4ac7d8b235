// Every policy with every optimizer: a variable for each pair, all of one session, updated in the same steps.
#pragma once

#include <string>
#include <variant>
#include <vector>

#include "parallax/comm/any.hpp"
#include "training.hpp"

namespace parallax_test {

struct PairsCase {
  int ranks = 1;
  std::vector<int> hosts = {};  // of each rank; empty: the flat topology
  bool integers = false;        // integer gradients, summed: all sums are exact; else reductions take turns
  int steps = 50;

  std::string text() const;
};

// What one rank saw of each variable.
using PairDiaries = std::vector<std::variant<Diary<float>, Diary<double>>>;

PairDiaries train_every_pair(px::AnyCommunicator& world, PairsCase const& c);

// Compares what ranks saw with the oracle. `by_rank`: of all ranks, or of some.
void check_every_pair(PairsCase const& c, std::vector<PairDiaries> const& by_rank);

}  // namespace parallax_test
