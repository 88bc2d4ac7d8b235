// The form of an element of a gradient or a row on its way: encoded before a transfer, decoded after it, and nowhere else. The
// dense exchange and slips of a mail take a wire as a parameter; a policy chooses it (policy/policy.hpp).
#pragma once

#include <concepts>
#include <cstddef>
#include <cstring>
#include <type_traits>

#include "parallax/detail/core/short_float.hpp"
#include "parallax/detail/memory/space.hpp"

namespace parallax::inline v0_2 {

// W is a wire for scalars T. A wire has no state; its functions are local and keep to the two ranges, without overlap.
//   element<T>             the form sent for one T: trivially copyable, of 1, 2, 4, 8 or 16 bytes
//   encode(from, n, to)    n of T to n of element<T>
//   decode(from, n, to)    n of element<T> to n of T
// A wire for memory of a device has both also with a queue ahead of the arguments: encode(queue, from, n, to). The ranges lie
// there, and the work is put in the queue's order. Every rank works with the values of the encoded elements, also of its own:
// an owner sums decoded addends in the order of ranks, and all ranks decode the same encoded sum. Over two hops the sums of a
// host are encoded once more.
template <class W, class T>
concept Wire = std::is_trivially_copyable_v<typename W::template element<T>> && sizeof(typename W::template element<T>) <= 16 &&
               (sizeof(typename W::template element<T>) & (sizeof(typename W::template element<T>) - 1)) == 0 &&
               requires(T const* values, std::size_t n, typename W::template element<T>* encoded,
                        typename W::template element<T> const* arrived, T* decoded) {
  W::encode(values, n, encoded);
  W::decode(arrived, n, decoded);
};

// Elements travel as they are. Nothing is copied for it, and ranks with shared memory exchange in place; under any other wire
// they exchange messages. The wire of every policy that names none.
struct IdentityWire {
  // The value itself.
  template <class T>
  using element = T;
  // Copies n values. The exchanges leave it out, and take elements from their place.
  template <class T>
  static void encode(T const* from, std::size_t n, T* to) {
    if (n > 0) std::memcpy(to, from, n * sizeof(T));
  }
  // Copies n values; the exchanges leave it out as well.
  template <class T>
  static void decode(T const* from, std::size_t n, T* to) {
    if (n > 0) std::memcpy(to, from, n * sizeof(T));
  }
};

// Floats travel as numbers of 16 bits, BFloat16 or Float16: rounded to the nearest, and exact if kept so before. The wire of a
// pull from a table of such numbers; policies may name it for gradients.
template <class Short>
  requires is_short_float<Short>
struct NarrowWire {
  // The number of 16 bits, standing for a float.
  template <class T>
    requires std::same_as<T, float>
  using element = Short;
  // Rounds n values.
  static void encode(float const* from, std::size_t n, Short* to) { narrow(from, n, to); }
  // Widens n values.
  static void decode(Short const* from, std::size_t n, float* to) { widen(from, n, to); }
  // Rounds n values in memory of a device, in the order of the queue; does not wait.
  template <class Queue>
  static void encode(Queue const& queue, float const* from, std::size_t n, Short* to) {
    narrow_elements(queue, from, n, to);
  }
  // Widens n values in memory of a device, in the order of the queue; does not wait.
  template <class Queue>
  static void decode(Queue const& queue, Short const* from, std::size_t n, float* to) {
    widen_elements(queue, from, n, to);
  }
};

// True if a wire is one for memory of devices as well.
template <class W>
inline constexpr bool is_for_devices = false;
// True of NarrowWire.
template <class Short>
inline constexpr bool is_for_devices<NarrowWire<Short>> = true;

// True if elements have another form on their way than in memory: false of IdentityWire alone.
template <class W>
inline constexpr bool encodes = !std::same_as<W, IdentityWire>;

namespace detail {

// A member of encoding wires only.
struct NotEncoded {};
template <class W, class Member>
using IfEncodes = std::conditional_t<encodes<W>, Member, NotEncoded>;

// The element sent for a T in memory of a space.
template <class T, MemorySpace Space, Wire<T> W>
struct Travelling {
  static_assert(!encodes<W> || Space::host_readable || is_for_devices<W>,
                "parallax: an encoding wire needs memory that the host reads: leave out the wire, or the memory space");
  using type = typename W::template element<T>;
};

}  // namespace detail
}  // namespace parallax
