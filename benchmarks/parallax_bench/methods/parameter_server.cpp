// The method parameter_server.
#include "by_session.hpp"

namespace bench {

namespace {

[[maybe_unused]] bool const here =
    bring_session<px::presets::parameter_server>("parameter_server", "parameter_server", Way::parameter_server);

}  // namespace

}  // namespace bench
