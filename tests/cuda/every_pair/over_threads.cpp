// Between threads: by the device itself, by the host's memory, and by NCCL.
#include <chrono>

#include "../communicators.hpp"
#include "every_pair.hpp"

namespace {

template <class Ranks>
every_pair::Carrier carrier(char const* name, Ranks ranks) {
  return {name, [ranks](auto const& body) {
            ranks.run(std::chrono::minutes{1}, [&](auto& world) {
              every_pair::World any{std::ref(world)};
              body(any);
            });
          }};
}

}  // namespace

std::vector<every_pair::Carrier> every_pair::carriers() {
  return {carrier("threads", communicators::CudaThreads{2}), carrier("the host's memory", communicators::StagedThreads{2}),
          carrier("NCCL", communicators::NcclThreads{2})};
}
