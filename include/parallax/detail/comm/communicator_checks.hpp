// Checks of a type for the members of a communicator, with a lack in one sentence: a Session includes it, and the suites of the
// room `conformance`, which refuse such a type when they are compiled.
#pragma once

#include <concepts>
#include <type_traits>
#include <utility>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/core/clock.hpp"

namespace parallax::inline v0_2::detail {

// The members of the core, and of its requests; `mutability`: the type is const. `nothing`: it is a communicator.
enum class CommunicatorLack { nothing, mutability, rank, size, ialltoallv, movable, test, waiting_for, abort, deadline };

// Returns the first missing member, in the order of the concept. A member is asked for only if those before it are there, so
// that the answer names one.
template <class C>
consteval CommunicatorLack communicator_lacks() {
  if constexpr (std::is_const_v<C>) {
    return CommunicatorLack::mutability;
  } else if constexpr (!requires(C const& view) { { view.rank() } -> std::same_as<int>; }) {
    return CommunicatorLack::rank;
  } else if constexpr (!requires(C const& view) { { view.size() } -> std::same_as<int>; }) {
    return CommunicatorLack::size;
  } else if constexpr (!requires(C& comm, Transfer const& transfer) { comm.ialltoallv(0, transfer); }) {
    return CommunicatorLack::ialltoallv;
  } else {
    using R = decltype(std::declval<C&>().ialltoallv(0, std::declval<Transfer const&>()));
    if constexpr (!std::movable<R>) return CommunicatorLack::movable;
    else if constexpr (!requires(R& request) { { request.test() } -> std::same_as<bool>; }) return CommunicatorLack::test;
    else if constexpr (!requires(R const& request) { { request.waiting_for() } -> std::same_as<int>; })
      return CommunicatorLack::waiting_for;
    else if constexpr (!requires(C& comm, Error const& reason) { comm.abort(reason); }) return CommunicatorLack::abort;
    else if constexpr (!requires(C const& view) { { view.deadline() } -> std::convertible_to<std::chrono::nanoseconds>; })
      return CommunicatorLack::deadline;
    else return CommunicatorLack::nothing;
  }
}

// The beginning of each sentence on a type that is no communicator.
#define PARALLAX_NO_COMMUNICATOR "parallax: a Session is made over a communicator (see comm/communicator.hpp), and "

// One of its assertions fails if C is no communicator.
template <class C>
struct check_communicator {
  // The lack examined by each assertion.
  static constexpr CommunicatorLack lack = communicator_lacks<C>();
  static_assert(lack != CommunicatorLack::mutability, PARALLAX_NO_COMMUNICATOR "this one is const");
  static_assert(lack != CommunicatorLack::rank, PARALLAX_NO_COMMUNICATOR "this type lacks int rank() const");
  static_assert(lack != CommunicatorLack::size, PARALLAX_NO_COMMUNICATOR "this type lacks int size() const");
  static_assert(lack != CommunicatorLack::ialltoallv, PARALLAX_NO_COMMUNICATOR "this type lacks ialltoallv(channel, transfer)");
  static_assert(lack != CommunicatorLack::movable,
                PARALLAX_NO_COMMUNICATOR "what this one's ialltoallv(channel, transfer) returns is not movable");
  static_assert(lack != CommunicatorLack::test,
                PARALLAX_NO_COMMUNICATOR "what this one's ialltoallv(channel, transfer) returns lacks bool test()");
  static_assert(lack != CommunicatorLack::waiting_for,
                PARALLAX_NO_COMMUNICATOR "what this one's ialltoallv(channel, transfer) returns lacks int waiting_for() const");
  static_assert(lack != CommunicatorLack::abort, PARALLAX_NO_COMMUNICATOR "this type lacks abort(reason)");
  static_assert(lack != CommunicatorLack::deadline, PARALLAX_NO_COMMUNICATOR "this type lacks deadline() const");
};

#undef PARALLAX_NO_COMMUNICATOR

}  // namespace parallax::detail
