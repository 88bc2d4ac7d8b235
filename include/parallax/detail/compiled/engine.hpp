// Contents of the library parallax::compiled for an engine over host memory. parallax.hpp includes it if PARALLAX_COMPILED is
// defined: then a program with sessions compiles everything that depends on its variables, and links the rest. The room
// `compiled` has the sources of the library, and their contents.
#pragma once

#include "parallax/session/session.hpp"

// `template` in the one source that has them, else a promise that they are there.
#if !defined(PARALLAX_ENGINE_ONCE)
#define PARALLAX_ENGINE_ONCE extern template
#endif

namespace parallax::inline v0_2 {

PARALLAX_ENGINE_ONCE class Topology<AnyCommunicator>;
PARALLAX_ENGINE_ONCE class Lane<AnyCommunicator>;
PARALLAX_ENGINE_ONCE class Mail<AnyCommunicator, HostSpace>;
PARALLAX_ENGINE_ONCE class Mails<AnyCommunicator>;
PARALLAX_ENGINE_ONCE class Agreement<AnyCommunicator>;
PARALLAX_ENGINE_ONCE class JournalReport<AnyCommunicator>;
PARALLAX_ENGINE_ONCE bool carry(Mails<AnyCommunicator>&, std::span<Traveller<AnyCommunicator>* const>);
PARALLAX_ENGINE_ONCE Verdict explain_difference(Lane<AnyCommunicator>&, Testimony const&, FunctionRef<void()>);
PARALLAX_ENGINE_ONCE Error timeout_error(AnyCommunicator const&, int, std::string_view, std::string_view, std::string_view,
                                         std::string_view);

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
PARALLAX_ENGINE_ONCE class Buckets<AnyCommunicator>;

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

namespace detail {

PARALLAX_ENGINE_ONCE class SumsOfParts<AnyCommunicator, HostSpace>;
PARALLAX_ENGINE_ONCE class DenseExchange<AnyCommunicator>;
PARALLAX_ENGINE_ONCE class Flight<AnyCommunicator>;
PARALLAX_ENGINE_ONCE class Flights<AnyCommunicator>;
PARALLAX_ENGINE_ONCE class Ahead<AnyCommunicator>;
PARALLAX_ENGINE_ONCE class Waiting<AnyCommunicator>;
PARALLAX_ENGINE_ONCE class Rounds<AnyCommunicator>;
PARALLAX_ENGINE_ONCE class SessionCore<AnyCommunicator>;
PARALLAX_ENGINE_ONCE class Completing<AnyCommunicator>;
PARALLAX_ENGINE_ONCE bool take_step(SessionCore<AnyCommunicator>&, Flight<AnyCommunicator>&, FunctionRef<void()>);
PARALLAX_ENGINE_ONCE void carry_out(SessionCore<AnyCommunicator>&, FetchBase<AnyCommunicator>&);
PARALLAX_ENGINE_ONCE Completion finish(SessionCore<AnyCommunicator>&);
PARALLAX_ENGINE_ONCE void poll(SessionCore<AnyCommunicator>&);

}  // namespace detail
}  // namespace parallax
