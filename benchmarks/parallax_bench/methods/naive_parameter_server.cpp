// The method naive_parameter_server: the policy of benchmarks/baseline.
#include "../../baseline/naive_ps.hpp"
#include "by_session.hpp"

namespace bench {

namespace {

[[maybe_unused]] bool const here =
    bring_session<baseline::naive_parameter_server>("naive_parameter_server", "naive_parameter_server", Way::naive);

}  // namespace

}  // namespace bench
