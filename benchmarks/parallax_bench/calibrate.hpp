// The latency of a message and the seconds of a byte, measured in about a second on the communicator in use.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

#include "ranks.hpp"

namespace bench {

// By the communicator's clock, which may be a simulated one.
inline double seconds_now(px::AnyCommunicator const& comm) { return std::chrono::duration<double>{px::now(comm)}.count(); }

// The Hockney model: a message of b bytes takes latency + b · per_byte.
struct Wire {
  double latency = 0, per_byte = 0;
};

// Every rank sends to the next one while it receives from the last, in two sizes.
inline Wire calibrate(Ranks& ranks, bool smoke) {
  if (ranks.size() == 1) return {};
  std::size_t const small = 8, large = smoke ? 1 << 14 : 4 << 20;
  auto const results = ranks.run([&](World const& world) {
    px::AnyCommunicator& comm = world.comm;
    auto const size = at(comm.size()), next = at(comm.rank() + 1) % size, last = (at(comm.rank()) + size - 1) % size;
    std::vector<std::byte> sent(large), received(large);
    std::vector<px::ByteRange> to(size), from(size);
    auto const shift = [&](std::size_t bytes) {
      to[next] = {0, bytes};
      from[last] = {0, bytes};
      auto request = comm.ialltoallv(px::collectives_channel, {sent.data(), to, received.data(), from});
      px::wait(comm, request, "calibration");
    };
    // The median of rounds, each of several exchanges: a rank that was held up spoils one round only.
    auto const median = [&](std::size_t bytes, int rounds, int shifts) {
      std::vector<double> times;
      for (int round = 0; round < rounds; ++round) {
        px::barrier(comm);
        double const begin = seconds_now(comm);
        for (int i = 0; i < shifts; ++i) shift(bytes);
        times.push_back((seconds_now(comm) - begin) / shifts);
      }
      std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
      return times[at(rounds / 2)];
    };
    double const one = median(small, smoke ? 3 : 25, smoke ? 2 : 100), many = median(large, smoke ? 3 : 25, smoke ? 1 : 4);
    return Ranks::Numbers{one, many};
  });
  double one = 0, many = 0;  // of the slowest rank
  for (auto const& result : results) one = std::max(one, result[0]), many = std::max(many, result[1]);
  return {one, std::max(many - one, 0.0) / real(large - small)};
}

}  // namespace bench
