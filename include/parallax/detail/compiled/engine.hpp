// Contents of the library parallax::compiled for an engine over host memory. parallax.hpp includes it if PARALLAX_COMPILED is
// defined: then a program with sessions compiles everything that depends on its variables, and links the rest. The room
// `compiled` has the sources of the library, and their contents.
#pragma once

#include "parallax/detail/compiled/engine_of.hpp"

// `template` in the one source that has them, else a promise that they are there.
#if !defined(PARALLAX_ENGINE_ONCE)
#define PARALLAX_ENGINE_ONCE extern template
#endif

namespace parallax::inline v0_2 {

PARALLAX_ENGINE_OF(PARALLAX_ENGINE_ONCE, AnyCommunicator)

PARALLAX_ENGINE_ONCE class LentHop<float, AnyCommunicator>;
PARALLAX_ENGINE_ONCE class LentHop<double, AnyCommunicator>;
PARALLAX_ENGINE_ONCE class ReduceScatter<float, AnyCommunicator>;
PARALLAX_ENGINE_ONCE class ReduceScatter<double, AnyCommunicator>;
PARALLAX_ENGINE_ONCE class Allgather<float, AnyCommunicator>;
PARALLAX_ENGINE_ONCE class Allgather<double, AnyCommunicator>;
PARALLAX_ENGINE_ONCE class DenseBucket<float, AnyCommunicator>;
PARALLAX_ENGINE_ONCE class DenseBucket<double, AnyCommunicator>;
PARALLAX_ENGINE_ONCE class BucketOf<float, AnyCommunicator, HostSpace, IdentityWire>;
PARALLAX_ENGINE_ONCE class BucketOf<double, AnyCommunicator, HostSpace, IdentityWire>;

// Ways of rows of tables indexed by 64-bit numbers, as they are unless a variable says otherwise.
PARALLAX_ENGINE_ONCE struct Route<std::int64_t, HostSpace>;
PARALLAX_ENGINE_ONCE struct RowPlan<std::int64_t, HostSpace>;
PARALLAX_ENGINE_ONCE class Owned<RowPlan<std::int64_t, HostSpace>>;
PARALLAX_ENGINE_ONCE struct RowsLeg<AnyCommunicator, std::int64_t, float, HostSpace, IdentityWire>;
PARALLAX_ENGINE_ONCE struct RowsLeg<AnyCommunicator, std::int64_t, double, HostSpace, IdentityWire>;
PARALLAX_ENGINE_ONCE class PullJourney<AnyCommunicator, std::int64_t, float, float, HostSpace, IdentityWire>;
PARALLAX_ENGINE_ONCE class PullJourney<AnyCommunicator, std::int64_t, double, double, HostSpace, IdentityWire>;
PARALLAX_ENGINE_ONCE class ShardPush<AnyCommunicator, std::int64_t, float, HostSpace, IdentityWire>;
PARALLAX_ENGINE_ONCE class ShardPush<AnyCommunicator, std::int64_t, double, HostSpace, IdentityWire>;

PARALLAX_ENGINE_ONCE class detail::SumsOfParts<AnyCommunicator, HostSpace>;

}  // namespace parallax
