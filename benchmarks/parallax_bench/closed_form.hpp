// The time of a step in closed form: rounds, and the bytes of the busiest machine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "count.hpp"
#include "options.hpp"

namespace bench {

// Bytes of a machine: what it sends to others, what crosses its link in the busier direction, what its ranks hand to each other.
struct Load {
  double sent_mean = 0, sent_busiest = 0, link_busiest = 0, local_busiest = 0;
};

inline Load load_of(std::vector<Flow> const& flows, std::vector<int> const& machine_of_rank) {
  std::size_t machines = 0;
  for (int const machine : machine_of_rank) machines = std::max(machines, at(machine) + 1);
  std::vector<double> sent(machines), received(machines), local(machines);
  for (std::size_t rank = 0; rank < flows.size(); ++rank) {
    std::size_t const machine = at(machine_of_rank[rank]);
    sent[machine] += real(flows[rank].sent.between_hosts);
    received[machine] += real(flows[rank].received.between_hosts);
    local[machine] += real(flows[rank].sent.all - flows[rank].sent.between_hosts);
  }
  Load load;
  for (std::size_t m = 0; m < machines; ++m) {
    load.sent_mean += sent[m] / real(machines);
    load.sent_busiest = std::max(load.sent_busiest, sent[m]);
    load.link_busiest = std::max({load.link_busiest, sent[m], received[m]});
    load.local_busiest = std::max(load.local_busiest, local[m]);
  }
  return load;
}

// `in_turn`: what stays in a machine and what leaves it follow each other, as on two levels; else they overlap.
inline double closed_form(Network const& network, Load const& load, double rounds, double local_rounds, bool in_turn) {
  double const link = load.link_busiest / network.bandwidth, local = load.local_busiest / network.local_bandwidth;
  return rounds * network.latency + local_rounds * network.local_latency + (in_turn ? link + local : std::max(link, local));
}

inline std::vector<int> machine_of_ranks(Machines const& layout) {
  std::vector<int> of_rank;
  for (int rank = 0; rank < layout.machines * layout.ranks; ++rank) of_rank.push_back(rank / layout.ranks);
  return of_rank;
}

}  // namespace bench
