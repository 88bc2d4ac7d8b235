// Indices in the memory of a device, for tables on it, with the begins and weights of bags. A trainer marks them by `on_device`
// and passes them to `at`, `bags`, `pull` or `grad`.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>
#include <type_traits>

#include "parallax/core/fields.hpp"
#include "parallax/detail/core/config.hpp"

namespace parallax::inline v0_2 {

namespace detail {
// Types that may lie on a device by a mark: indices and offsets, and weights.
template <class T>
concept Arithmetic = std::is_arithmetic_v<T>;
}  // namespace detail

// An index, or a weight, that the host cannot read: a mark on the type, with the bytes of the Id.
template <detail::Arithmetic Id>
struct OnDevice {
  // Number of a row, or its factor, to be read by work on the device alone.
  Id index;
};

// Does not own. Marks indices in memory of their table's device, written by earlier work of the session's queue:
// session.pull(words, px::on_device(ids)). They may be written again once the call with them has returned. They are made into a
// plan on the device, by one sort; the host gets the plan by one copy, and waits for it under the communicator's deadline. If a
// kernel cannot tell the owners of rows (a layout without `on_device`: Greedy), the host gets the indices instead. Errors, by
// the call: as of indices in the host's memory; of the device, device, out_of_memory and timeout. Weights of bags, floats or
// doubles, are copied there.
template <detail::Arithmetic Id>
auto on_device(std::span<Id> ids) {
  using Marked = OnDevice<std::remove_const_t<Id>> const;
  static_assert(sizeof(Marked) == sizeof(Id));
  return std::span<Marked>{reinterpret_cast<Marked*>(ids.data()), ids.size()};
}

namespace detail {

// True for an index on a device: `at` and `grad` choose the way of the ids by it.
template <class Id>
inline constexpr bool is_on_device = false;
template <class Id>
inline constexpr bool is_on_device<OnDevice<Id>> = std::integral<Id>;

// Returns the row for an id outside a table under BadIds::hash, of `rows` > 0.
PARALLAX_HOST_DEVICE constexpr std::int64_t hashed_row(std::uint64_t id, std::int64_t rows) {
  Fingerprint hash;
  hash.add(id);
  return static_cast<std::int64_t>(hash.value() % static_cast<std::uint64_t>(rows));
}

}  // namespace detail
}  // namespace parallax
