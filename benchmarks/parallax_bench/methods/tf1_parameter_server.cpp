// The method tf1_parameter_server: the policies of benchmarks/baseline for dense variables and for rows.
#include "../../baseline/tf1_ps.hpp"
#include "by_session.hpp"

namespace bench {

namespace {

[[maybe_unused]] bool const here =
    bring_session<baseline::tf1_parameter_server>("tf1_parameter_server", "tf1_parameter_server", Way::tf1);

}  // namespace

}  // namespace bench
