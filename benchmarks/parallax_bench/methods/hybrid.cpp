// The method hybrid, and the same where the next batch is named ahead.
#include "by_session.hpp"

namespace bench {

namespace {

[[maybe_unused]] bool const plain = bring_session<px::presets::hybrid>("hybrid", "hybrid", Way::parameter_server);
[[maybe_unused]] bool const ahead =
    bring_session<px::presets::hybrid, Manner::ahead>(ahead_method, ahead_method, Way::parameter_server);

}  // namespace

}  // namespace bench
