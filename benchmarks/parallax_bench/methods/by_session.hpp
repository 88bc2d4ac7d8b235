// What the files of this folder have in common: a method that trains by a session of the library.
#pragma once

#include <memory>
#include <string>
#include <string_view>

#include "../measured.hpp"

namespace bench {

// The training under `Policy`, on the ranks' own communicator, or on the one that sums in MPI's own order.
template <class Policy, class T, Manner manner = Manner::plain>
Method by_session(std::string_view name, Way way, bool vendor = false) {
  return {std::string{name}, way, !vendor, [vendor](World const& world, Workload const& work) -> std::unique_ptr<Training> {
            World once = world;
            once.options.choice.interval = 1'000'000;  // under Auto rows are moved before the measured steps, or not at all
            return std::make_unique<SessionTraining<Policy, T, manner>>(once, vendor ? world.vendor() : world.comm, work);
          }};
}

// Brings it for every scalar that this program has.
template <class Policy, Manner manner = Manner::plain>
bool bring_session(std::string_view key, std::string_view name, Way way, bool vendor = false) {
#ifndef BENCH_FLOATS_ALONE
  bring_method<double>(key, by_session<Policy, double, manner>(name, way, vendor));
#endif
  return bring_method<float>(key, by_session<Policy, float, manner>(name, way, vendor));
}

}  // namespace bench
