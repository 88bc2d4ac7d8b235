// What a step has once for all its updates, by memory space: the buckets of dense gradients, sums that optimizers measure, and
// what is sought in gradients.
#pragma once

#include <concepts>

#include "parallax/comm/communicator.hpp"
#include "parallax/kernel/findings.hpp"
#include "parallax/policy/bucket/measured.hpp"
#include "parallax/policy/bucket/dense_bucket.hpp"
#include "parallax/policy/bucket/encoded.hpp"

namespace parallax {

// Something that a step has for each memory space in which its updates may be: Of<C, Space>, whose parameters are a
// Communicator and a MemorySpace.
template <Communicator C, template <class, class> class Of>
struct BySpace {
  template <MemorySpace>
  Of<C, HostSpace>& of() { return host; }
  template <class F>
  void each(F&& f) { f(host); }

  Of<C, HostSpace> host;
};
template <CarriesDevice C, template <class, class> class Of>
struct BySpace<C, Of> {
  template <MemorySpace Space>
  auto& of() {
    if constexpr (std::same_as<Space, HostSpace>) return host;
    else return device;
  }
  template <class F>
  void each(F&& f) {
    f(host);
    f(device);
  }

  Of<C, HostSpace> host;
  Of<C, typename C::device_space> device;
};

// The buckets of one memory space: dense gradients by scalar type, by what is gathered afterwards, and by wire.
template <class C, class Space>
struct BucketsIn {
  DenseBucket<float, C, Space> replicated_float, sharded_float;
  DenseBucket<double, C, Space> replicated_double, sharded_double;
  Owned<EncodedBucket<C>> replicated_encoded, sharded_encoded;

  template <class T, bool sharded, class W = IdentityWire>
  auto& of() {
    if constexpr (encodes<W>) {
      if constexpr (sharded) return bucket_among<T, Space, W>(sharded_encoded);
      else return bucket_among<T, Space, W>(replicated_encoded);
    } else if constexpr (std::same_as<T, float>) {
      if constexpr (sharded) return sharded_float;
      else return replicated_float;
    } else {
      if constexpr (sharded) return sharded_double;
      else return replicated_double;
    }
  }
  // Calls f with every bucket, and whether it is sharded.
  template <class F>
  void each(F& f) {
    f(replicated_float, false);
    f(sharded_float, true);
    f(replicated_double, false);
    f(sharded_double, true);
    if (replicated_encoded) f(*replicated_encoded, false);
    if (sharded_encoded) f(*sharded_encoded, true);
  }
};
template <Communicator C>
using Buckets = BySpace<C, BucketsIn>;

template <Communicator C>
using MeasuredSums = BySpace<C, detail::MeasuredIn>;

template <class, class Space>
struct FindingsIn {
  using space = Space;

  Findings<Space> of_gradients, of_sums;  // as they were brought, and summed over ranks
};

}  // namespace parallax
