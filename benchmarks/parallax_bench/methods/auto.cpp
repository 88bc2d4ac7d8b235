// The method auto, which settles before it is measured.
#include "by_session.hpp"

namespace bench {

namespace {

template <class T>
bool bring_auto() {
  Method method = by_session<px::Auto, T>("auto", Way::parameter_server);
  method.settling = px::AutoOptions{}.first_step + 1;
  return bring_method<T>("auto", method);
}

[[maybe_unused]] bool const floats = bring_auto<float>();
#ifndef BENCH_FLOATS_ALONE
[[maybe_unused]] bool const doubles = bring_auto<double>();
#endif

}  // namespace

}  // namespace bench
