// Contents of the library parallax::compiled_cuda for an engine over device memory, with float, and tables indexed by 64-bit
// numbers. parallax.hpp includes it if PARALLAX_COMPILED_CUDA is defined; detail/compiled/kernels.hpp lists the kernels.
#pragma once

#include "parallax/comm/any.hpp"
#include "parallax/detail/compiled/engine_of.hpp"
#include "parallax/kernel/cuda/row_ops.hpp"

// `template` in the one source that has them, else a promise that they are there.
#if !defined(PARALLAX_DEVICE_ENGINE_ONCE)
#define PARALLAX_DEVICE_ENGINE_ONCE extern template
#endif

namespace parallax::inline v0_2 {
namespace device {

// Communicator of sessions on a device.
using AnyRanks = AnyDeviceCommunicator<CudaSpace, CudaQueue>;

}  // namespace device

PARALLAX_ENGINE_OF(PARALLAX_DEVICE_ENGINE_ONCE, device::AnyRanks)
PARALLAX_DEVICE_ENGINE_ONCE class Mail<device::AnyRanks, CudaSpace>;

PARALLAX_DEVICE_ENGINE_ONCE class ReduceScatter<float, device::AnyRanks, CudaSpace, IdentityWire>;
PARALLAX_DEVICE_ENGINE_ONCE class Allgather<float, device::AnyRanks, CudaSpace>;
PARALLAX_DEVICE_ENGINE_ONCE class DenseBucket<float, device::AnyRanks, CudaSpace>;
PARALLAX_DEVICE_ENGINE_ONCE class BucketOf<float, device::AnyRanks, CudaSpace, IdentityWire>;

PARALLAX_DEVICE_ENGINE_ONCE class Groups<std::int64_t, CudaSpace>;
PARALLAX_DEVICE_ENGINE_ONCE struct Route<std::int64_t, CudaSpace>;
PARALLAX_DEVICE_ENGINE_ONCE struct RowPlan<std::int64_t, CudaSpace>;
PARALLAX_DEVICE_ENGINE_ONCE class Owned<RowPlan<std::int64_t, CudaSpace>>;
PARALLAX_DEVICE_ENGINE_ONCE class ShardPush<device::AnyRanks, std::int64_t, float, CudaSpace, IdentityWire>;

PARALLAX_DEVICE_ENGINE_ONCE class detail::SumsOfParts<device::AnyRanks, CudaSpace>;

}  // namespace parallax
