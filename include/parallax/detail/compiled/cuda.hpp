// Contents of the library parallax::compiled_cuda for an engine over device memory, with float, and tables indexed by 64-bit
// numbers. parallax.hpp includes it if PARALLAX_COMPILED_CUDA is defined; detail/compiled/kernels.hpp lists the kernels.
#pragma once

#include "parallax/comm/any.hpp"
#include "parallax/kernel/cuda/row_ops.hpp"
#include "parallax/session/session.hpp"

// `template` in the one source that has them, else a promise that they are there.
#if !defined(PARALLAX_DEVICE_ENGINE_ONCE)
#define PARALLAX_DEVICE_ENGINE_ONCE extern template
#endif

namespace parallax::inline v0_2 {
namespace device {

// Communicator of sessions on a device.
using AnyRanks = AnyDeviceCommunicator<CudaSpace, CudaQueue>;

}  // namespace device

PARALLAX_DEVICE_ENGINE_ONCE class Topology<device::AnyRanks>;
PARALLAX_DEVICE_ENGINE_ONCE class Lane<device::AnyRanks>;
PARALLAX_DEVICE_ENGINE_ONCE class Mail<device::AnyRanks, HostSpace>;
PARALLAX_DEVICE_ENGINE_ONCE class Mail<device::AnyRanks, CudaSpace>;
PARALLAX_DEVICE_ENGINE_ONCE class Mails<device::AnyRanks>;
PARALLAX_DEVICE_ENGINE_ONCE class Agreement<device::AnyRanks>;
PARALLAX_DEVICE_ENGINE_ONCE class JournalReport<device::AnyRanks>;
PARALLAX_DEVICE_ENGINE_ONCE bool carry(Mails<device::AnyRanks>&, std::span<Traveller<device::AnyRanks>* const>);
PARALLAX_DEVICE_ENGINE_ONCE Verdict explain_difference(Lane<device::AnyRanks>&, Testimony const&, FunctionRef<void()>);
PARALLAX_DEVICE_ENGINE_ONCE Error timeout_error(device::AnyRanks const&, int, std::string_view, std::string_view,
                                                std::string_view, std::string_view);

PARALLAX_DEVICE_ENGINE_ONCE class ReduceScatter<float, device::AnyRanks, CudaSpace, IdentityWire>;
PARALLAX_DEVICE_ENGINE_ONCE class Allgather<float, device::AnyRanks, CudaSpace>;
PARALLAX_DEVICE_ENGINE_ONCE class DenseBucket<float, device::AnyRanks, CudaSpace>;
PARALLAX_DEVICE_ENGINE_ONCE class BucketOf<float, device::AnyRanks, CudaSpace, IdentityWire>;
PARALLAX_DEVICE_ENGINE_ONCE class Buckets<device::AnyRanks>;

PARALLAX_DEVICE_ENGINE_ONCE class Groups<std::int64_t, CudaSpace>;
PARALLAX_DEVICE_ENGINE_ONCE struct Route<std::int64_t, CudaSpace>;
PARALLAX_DEVICE_ENGINE_ONCE struct RowPlan<std::int64_t, CudaSpace>;
PARALLAX_DEVICE_ENGINE_ONCE class Owned<RowPlan<std::int64_t, CudaSpace>>;
PARALLAX_DEVICE_ENGINE_ONCE class ShardPush<device::AnyRanks, std::int64_t, float, CudaSpace, IdentityWire>;

namespace detail {

PARALLAX_DEVICE_ENGINE_ONCE class SumsOfParts<device::AnyRanks, CudaSpace>;
PARALLAX_DEVICE_ENGINE_ONCE class DenseExchange<device::AnyRanks>;
PARALLAX_DEVICE_ENGINE_ONCE class Flight<device::AnyRanks>;
PARALLAX_DEVICE_ENGINE_ONCE class Flights<device::AnyRanks>;
PARALLAX_DEVICE_ENGINE_ONCE class Ahead<device::AnyRanks>;
PARALLAX_DEVICE_ENGINE_ONCE class Waiting<device::AnyRanks>;
PARALLAX_DEVICE_ENGINE_ONCE class Rounds<device::AnyRanks>;
PARALLAX_DEVICE_ENGINE_ONCE class SessionCore<device::AnyRanks>;
PARALLAX_DEVICE_ENGINE_ONCE class Completing<device::AnyRanks>;
PARALLAX_DEVICE_ENGINE_ONCE bool take_step(SessionCore<device::AnyRanks>&, Flight<device::AnyRanks>&, FunctionRef<void()>);
PARALLAX_DEVICE_ENGINE_ONCE void carry_out(SessionCore<device::AnyRanks>&, FetchBase<device::AnyRanks>&);
PARALLAX_DEVICE_ENGINE_ONCE Completion finish(SessionCore<device::AnyRanks>&);
PARALLAX_DEVICE_ENGINE_ONCE void poll(SessionCore<device::AnyRanks>&);

}  // namespace detail
}  // namespace parallax
