// A communicator over another one: all that the one inside can do shows through. Staged, NcclCommunicator and
// CudaThreadCommunicator derive from it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>

#include "parallax/comm/communicator.hpp"

namespace parallax {
namespace detail {

// What a communicator has under way beside the operations of the one inside.
class Beside {
 public:
  virtual void move_on() = 0;                   // makes progress; throws what a Request's `test` throws
  virtual bool carries(int channel) const = 0;  // whether it has an operation in flight on the channel

 protected:
  ~Beside() = default;
};

}  // namespace detail

// Refers to the communicator inside, the host, which must outlive it and stay where it is, and to what goes on beside it, or
// null. Made to be derived from. While an operation of the host's is polled, what goes on beside it moves on, too: a peer may
// be waiting for it.
template <Communicator Host>
class Forwarding {
 public:
  // Of the host: what it can lend, it lends through this as well.
  using lent_space = typename detail::LentSpace<Host>::type;

  class Request;

  // The communicator inside.
  Host& host() const { return *host_; }
  // By the engine: allocates what the host can lend.
  detail::LentMemory lent_memory() const { return detail::lent_memory(*host_); }

// Every function of the list that the host has, passed on to it; of those that it lacks there is none here.
#define PARALLAX_ABILITY(ability, result, name, parameters, arguments, qualifiers, otherwise) \
  result name parameters qualifiers                                                          \
    requires ability<Host>                                                                   \
  {                                                                                          \
    return host_->name arguments;                                                            \
  }
// Every operation of the list that the host has. Error (misuse) where one on device memory is in flight on the channel.
#define PARALLAX_OPERATION(ability, name, parameters, arguments) \
  Request name parameters                                        \
    requires ability<Host>                                       \
  {                                                              \
    refuse_busy(channel, #name);                                 \
    return {host_->name arguments, beside_};                     \
  }
#include "parallax/detail/comm/abilities.hpp"

  // What has a type of the host's own.
  auto bare()
    requires BareAllreduce<Host>
  {
    return host_->bare();
  }
  // Of MpiCommunicator: the host of every rank, for topologies of two levels.
  decltype(auto) hosts() const
    requires requires(Host const& host) { host.hosts(); }
  {
    return std::as_const(*host_).hosts();
  }

 protected:
  // Local. Called by derived classes, with what they have under way, or null.
  Forwarding(Host& host, detail::Beside* beside) : host_{&host}, beside_{beside} {}

 private:
  // Host memory and device memory share the order of a channel: throws where the other has an operation there.
  void refuse_busy(int channel, char const* operation) const {
    if (beside_ && beside_->carries(channel))
      throw Error{Errc::misuse, rank(), operation, "", "an operation on device memory is in flight on this channel"};
  }

  // Neither is owned.
  Host* host_;
  detail::Beside* beside_;
};

// The host's request, which moves on what goes on beside it as long as it is not complete. Does not outlive the communicator.
template <Communicator Host>
class Forwarding<Host>::Request {
 public:
  // Throws what the host's request throws, and what the operations beside it throw.
  bool test() {
    if (inside_.test()) return true;
    if (beside_) beside_->move_on();
    return false;
  }
  // As the host's request says.
  int waiting_for() const { return inside_.waiting_for(); }

 private:
  friend class Forwarding;
  Request(request_of<Host> inside, detail::Beside* beside) : inside_{std::move(inside)}, beside_{beside} {}

  request_of<Host> inside_;
  detail::Beside* beside_;
};

}  // namespace parallax
