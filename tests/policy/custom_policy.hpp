// Trainings by TopK, the policy of examples/custom_policy, on any communicator, compiled once for all tests of them. Every rank
// works out for all ranks what must come of a step.
#pragma once

#include <string>

#include "parallax/comm/any.hpp"

namespace parallax_test::top_k {

namespace px = parallax;

// Collective; of three ranks and more, on two hosts where asked for. Each returns what was wrong on this rank, a line each.
std::string every_step(px::AnyCommunicator&, bool hosts, unsigned seed);
std::string whole_runs(px::AnyCommunicator&, bool hosts, unsigned seed);
std::string refusals(px::AnyCommunicator&, bool hosts, unsigned seed);
std::string joined_ranks(px::AnyCommunicator&, bool hosts, unsigned seed);
std::string bytes_sent(px::AnyCommunicator&, bool hosts, unsigned seed);
std::string clipped(px::AnyCommunicator&, bool hosts, unsigned seed);

}  // namespace parallax_test::top_k
