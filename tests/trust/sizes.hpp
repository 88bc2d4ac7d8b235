// Steps whose blocks have sizes about a limit: of dense gradients, of ids, of rows times width. Compiled once for all
// communicators.
#pragma once

#include <string>
#include <vector>

#include "parallax/comm/any.hpp"

namespace parallax_test {

struct Sized {
  std::string kind, complaint;  // no complaint: every element was right
};

// Collective. `sizes` steps whose blocks between two ranks have about 0, 1, 2, … times `limit` bytes, give or take 3 elements.
std::vector<Sized> train_sizes(parallax::AnyCommunicator& world, int sizes, std::size_t limit);

}  // namespace parallax_test
