// The trainings under every policy, compiled for float here and for double from the same text.
#include "measured.hpp"
#include "../baseline/naive_ps.hpp"

#ifndef BENCH_SCALAR
#define BENCH_SCALAR float
#endif

namespace bench {

namespace {

template <class Policy, class T>
Method by_session(std::string_view name, Way way) {
  return {std::string{name}, way, true, [](World const& world, Workload const& work) -> std::unique_ptr<Training> {
            World once = world;
            once.options.choice.interval = 1'000'000;  // under Auto rows are moved before the measured steps, or not at all
            return std::make_unique<SessionTraining<Policy, T>>(once, world.comm, work);
          }};
}

}  // namespace

template <>
Method method_of<BENCH_SCALAR>(std::string_view policy) {
  using T = BENCH_SCALAR;
  if (policy == "hybrid") return by_session<px::presets::hybrid, T>(policy, Way::parameter_server);
  if (policy == "all_reduce") return by_session<px::presets::all_reduce, T>(policy, Way::densified);
  if (policy == "parameter_server") return by_session<px::presets::parameter_server, T>(policy, Way::parameter_server);
  if (policy == "all_gather") return by_session<px::presets::all_gather, T>(policy, Way::gathered);
  if (policy == "auto") {
    Method method = by_session<px::Auto, T>(policy, Way::parameter_server);
    method.settling = px::AutoOptions{}.first_step + 1;
    return method;
  }
  return by_session<baseline::naive_parameter_server, T>(policy, Way::naive);
}

template <>
Method ahead_method<BENCH_SCALAR>() {
  return {"hybrid, ids ahead", Way::parameter_server, true,
          [](World const& world, Workload const& work) -> std::unique_ptr<Training> {
            return std::make_unique<SessionTraining<px::presets::hybrid, BENCH_SCALAR>>(world, world.comm, work, true);
          }};
}

template <>
Method vendor_method<BENCH_SCALAR>() {
  return {"session_vendor", Way::densified, false, [](World const& world, Workload const& work) -> std::unique_ptr<Training> {
            return std::make_unique<SessionTraining<px::presets::all_reduce, BENCH_SCALAR>>(world, world.vendor(), work);
          }};
}

template <>
Method raw_method<BENCH_SCALAR>([[maybe_unused]] bool blocking) {
#ifdef PARALLAX_HAS_MPI
  return {blocking ? "MPI_Allreduce" : "MPI_Iallreduce", Way::gathered, false,
          [blocking](World const& world, Workload const& work) -> std::unique_ptr<Training> {
            return std::make_unique<RawTraining<BENCH_SCALAR>>(world, work, blocking);
          }};
#else
  throw Refusal{"this program was built without MPI"};
#endif
}

}  // namespace bench
