// Thrust's vectors as tensors of variables and gradients, and as indices, without a copy. Trainers with Thrust include this
// header beside parallax.hpp; `bind`, `grad` and `on_device` then take a thrust::device_vector.
#pragma once

#include <thrust/device_vector.h>

#include <span>

#include "parallax/core/tensor_traits.hpp"
#include "parallax/detail/core/on_device.hpp"

namespace parallax::inline v0_2 {

// The elements of a vector in device memory, as one run; the vector keeps them, and is not resized while they are in use. For
// variables of the vector's device. Thrust writes them in the order of its own stream: unless this is also the session's
// stream, the session's has to wait for it.
template <class T, class Allocator>
struct tensor_traits<thrust::device_vector<T, Allocator>> {
  // Returns all elements, for reading and writing; of a const vector, for reading. The vector owns them.
  template <class Self>
  static auto flat(Self& vector) {
    return std::span{thrust::raw_pointer_cast(vector.data()), vector.size()};
  }
};

// Returns a view of the indices, or weights, in a vector, as on_device of a span does; the vector keeps them.
template <detail::Arithmetic Id, class Allocator>
std::span<OnDevice<Id> const> on_device(thrust::device_vector<Id, Allocator> const& ids) {
  return on_device(flat_view(ids));
}

}  // namespace parallax
