// What a session promises when a rank refuses or ranks differ: the same error everywhere, nothing changed, and on it goes. For
// threads and MPI alike.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "model.hpp"
#include "parallax/comm/any.hpp"

namespace parallax_test::guarantee {

struct Seen {
  Answer answer;
  bool unchanged = false;
};
struct Job {
  std::vector<Seen> seen;  // by fault
  std::uint64_t hash = 0;  // at the end
};

// The faults in a random order, by number.
std::vector<std::size_t> plan_of(std::uint64_t seed);

// Collective. Trains a step after every fault of the plan; without faults, only trains.
Job train(px::Topology<px::AnyCommunicator> const& topology, std::uint64_t seed, std::vector<std::size_t> const& plan,
          bool with_faults);

// Asserts what every rank saw, beside ranks that trained undisturbed. Returns the number of refusals.
int check(std::vector<Job> const& jobs, std::vector<Job> const& undisturbed, std::uint64_t seed,
          std::vector<std::size_t> const& plan);

}  // namespace parallax_test::guarantee
