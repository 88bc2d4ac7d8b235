// The methods by hand on MPI.
#ifdef PARALLAX_HAS_MPI
#include "../raw_mpi.hpp"

#include <memory>
#include <string>
#include <string_view>

#include "../measured.hpp"

namespace bench {

namespace {

template <class T>
bool bring_raw(std::string_view key, bool blocking, bool in_place) {
  auto const make = [blocking, in_place](World const& world, Workload const& work) -> std::unique_ptr<Training> {
    return std::make_unique<RawTraining<T>>(world, work, blocking, in_place);
  };
  return bring_method<T>(key, {std::string{key}, Way::gathered, false, make});
}

template <class T>
bool bring_all() {
  bring_raw<T>(raw_method, false, false), bring_raw<T>(raw_in_place, false, true);
  return bring_raw<T>(blocking_method, true, false) && bring_raw<T>(blocking_in_place, true, true);
}

[[maybe_unused]] bool const floats = bring_all<float>();
#ifndef BENCH_FLOATS_ALONE
[[maybe_unused]] bool const doubles = bring_all<double>();
#endif

}  // namespace

}  // namespace bench
#endif
