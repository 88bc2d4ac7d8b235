// The method all_reduce, in place as well, and in MPI's own order.
#include "by_session.hpp"

namespace bench {

namespace {

[[maybe_unused]] bool const plain = bring_session<px::presets::all_reduce>("all_reduce", "all_reduce", Way::densified);
[[maybe_unused]] bool const over =
    bring_session<px::presets::all_reduce, Manner::in_place>(in_place_method, in_place_method, Way::densified);
[[maybe_unused]] bool const vendor = bring_session<px::presets::all_reduce>(vendor_method, vendor_method, Way::densified, true);
[[maybe_unused]] bool const vendor_over =
    bring_session<px::presets::all_reduce, Manner::in_place>(vendor_in_place, vendor_in_place, Way::densified, true);

}  // namespace

}  // namespace bench
