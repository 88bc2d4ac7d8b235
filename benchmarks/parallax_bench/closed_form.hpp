// The time of a step in closed form: rounds, and the bytes of the busiest machine.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

#include "measured.hpp"

namespace bench {

// Bytes of a machine: sent to others, across its link in the busier direction, handed among its own ranks.
struct Load {
  double sent_mean = 0, sent_busiest = 0, link_busiest = 0, local_busiest = 0;

  Load over(double steps) const {
    return {sent_mean / steps, sent_busiest / steps, link_busiest / steps, local_busiest / steps};
  }
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

// The parts of a step: what is pulled and pushed by naive ranks; what `push` hands to ranks at the end where rows are gathered.
struct Parts {
  Load dense, pull, push, all;
};

// Seconds: of the messages that follow each other, and of the bytes, at the busiest machine. On two levels a phase is either
// within machines or between them, so that their times add up; without, both overlap. Two parts are under way beside another
// one: what is pushed naively goes straight to the owners while the dense gradients are summed within the machines, and
// gathered rows are handed to a machine's ranks while the dense sums are gathered between the machines.
inline double closed_form(Network const& network, Parts const& parts, Way way, bool two_levels, double rounds) {
  auto const link = [&](Load const& load) { return load.link_busiest / network.bandwidth; };
  auto const local = [&](Load const& load) { return load.local_busiest / network.local_bandwidth; };
  bool const local_rounds = two_levels && local(parts.all) > 0, link_rounds = link(parts.all) > 0;
  double const waits = !local_rounds ? rounds * network.latency : !link_rounds ? rounds * network.local_latency
                                     : rounds / 2 * (network.latency + network.local_latency);
  if (!two_levels) return waits + std::max(link(parts.all), local(parts.all));
  double const in_turn = waits + link(parts.all) + local(parts.all);
  if (way == Way::gathered) return in_turn - std::min(link(parts.dense) / 2, local(parts.push));
  if (way != Way::naive) return in_turn;
  double const summed_here = local(parts.dense) / 2;
  return waits + std::max(link(parts.pull), local(parts.pull)) +
         std::max(summed_here + local(parts.push), link(parts.push)) + link(parts.dense) + summed_here;
}

inline std::vector<int> machine_of_ranks(Machines const& layout) {
  std::vector<int> of_rank;
  for (int rank = 0; rank < layout.machines * layout.ranks; ++rank) of_rank.push_back(rank / layout.ranks);
  return of_rank;
}

inline void count_parts(ByteCount& pull, ByteCount& push, Workload const& work, Way way, Asked const& asked,
                        std::uint64_t scalar_bytes) {
  for_tables(work, asked, pull.owners(), scalar_bytes, [&](auto const& rows) {
    if (way == Way::naive) pull.pull_directly(rows), push.push_occurrences(rows);
    if (way == Way::gathered) push.hand_to_ranks(rows);
  });
}

// Of a step on average over the batches of a workload, its ranks on these hosts and machines.
inline Parts parts_of(Workload const& work, Way way, std::vector<int> const& hosts, std::vector<int> const& machines,
                      std::uint64_t scalar_bytes) {
  ByteCount dense{work.ranks, hosts, machines}, pull = dense, push = dense, all = dense;
  for (std::int64_t batch = 0; batch < work.batches; ++batch) {
    auto const asked = asked_of(work, at(batch));
    count_dense(dense, work, scalar_bytes);
    count_dense(all, work, scalar_bytes);
    count_tables(all, work, way, asked, scalar_bytes);
    count_parts(pull, push, work, way, asked, scalar_bytes);
  }
  auto const load = [&](ByteCount const& count) { return load_of(count.flows, machines).over(real(work.batches)); };
  return {load(dense), load(pull), load(push), load(all)};
}

}  // namespace bench
