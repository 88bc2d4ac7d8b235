// The method all_gather.
#include "by_session.hpp"

namespace bench {

namespace {

[[maybe_unused]] bool const here = bring_session<px::presets::all_gather>("all_gather", "all_gather", Way::gathered);

}  // namespace

}  // namespace bench
