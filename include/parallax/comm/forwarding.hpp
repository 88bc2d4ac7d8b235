// A communicator over another one: all abilities of the one inside show through. Staged, NcclCommunicator and
// CudaThreadCommunicator derive from this class.
#pragma once

#include <utility>

#include "parallax/comm/communicator.hpp"

namespace parallax::inline v0_2 {
namespace detail {

// The operations of a communicator beside those of the one inside.
class Beside {
 public:
  virtual void move_on() = 0;                   // makes progress; throws the errors of a Request's `test`
  virtual bool carries(int channel) const = 0;  // true if it has an operation in flight on the channel

 protected:
  ~Beside() = default;
};

}  // namespace detail

// Refers to the communicator inside, the host, which must outlive it and stay in its place, and to the operations beside, or
// null. Made to be derived from. While an operation of the host's is polled, the operations beside move on, too: a peer may be
// waiting for one.
template <Communicator Host>
class Forwarding {
 public:
  // The host's: the host's lendable memory is lendable through this as well.
  using lent_space = typename detail::LentSpace<Host>::type;

  class Request;

  // The communicator inside.
  Host& host() const { return *host_; }
  // Called by the engine: allocates memory that the host can lend.
  detail::LentMemory lent_memory() const { return detail::lent_memory(*host_); }

// Every function of the list in the host, passed on to it; functions absent there are absent here.
#define PARALLAX_ABILITY(ability, result, name, parameters, arguments, qualifiers, otherwise) \
  result name parameters qualifiers                                                          \
    requires ability<Host>                                                                   \
  {                                                                                          \
    return host_->name arguments;                                                            \
  }
// Every operation of the list in the host. Error (misuse) while one on device memory is in flight on the channel.
#define PARALLAX_OPERATION(ability, name, parameters, arguments) \
  Request name parameters                                        \
    requires ability<Host>                                       \
  {                                                              \
    refuse_busy(channel, #name);                                 \
    return {host_->name arguments, beside_};                     \
  }
#include "parallax/detail/comm/abilities.hpp"

  // Members with a type of the host's own.
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
  // Local. Called by derived classes, with their own operations, or null.
  Forwarding(Host& host, detail::Beside* beside) : host_{&host}, beside_{beside} {}

 private:
  // Host memory and device memory share the order of a channel: throws if the other has an operation there.
  void refuse_busy(int channel, char const* operation) const {
    if (beside_ && beside_->carries(channel))
      throw Error{Errc::misuse, rank(), operation, "", "an operation on device memory is in flight on this channel"};
  }

  // Neither is owned.
  Host* host_;
  detail::Beside* beside_;
};

// The host's request, moving on the operations beside it until it is complete. Does not outlive the communicator.
template <Communicator Host>
class Forwarding<Host>::Request {
 public:
  // Throws the errors of the host's request, and of the operations beside it.
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
