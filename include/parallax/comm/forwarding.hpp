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

  // Returns the communicator inside, which is not owned.
  Host& host() const { return *host_; }
  // Returns the two functions of memory that the host can lend. Called by the engine.
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

  // Collective. Returns a new object of the host's, for all-reduces with nothing in between: see BareAllreduce.
  auto bare()
    requires BareAllreduce<Host>
  {
    return host_->bare();
  }
  // Local. Returns the number of the host of every rank, by rank, for topologies of two levels.
  decltype(auto) hosts() const
    requires requires(Host const& host) { host.hosts(); }
  {
    return std::as_const(*host_).hosts();
  }

 protected:
  // Local. Called by derived classes, with their own operations, or null. Refers to both, which must outlive it.
  Forwarding(Host& host, detail::Beside* beside) : host_{&host}, beside_{beside} {}

 private:
  // Throws Error (misuse) if an operation beside is in flight there: host and device memory share the order of a channel.
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
  // Makes progress; returns true once the host's operation is complete. Throws its errors, and those of operations beside it.
  bool test() {
    if (inside_.test()) return true;
    if (beside_) beside_->move_on();
    return false;
  }
  // Returns a rank still to deliver, or -1, as the host's request says.
  int waiting_for() const { return inside_.waiting_for(); }

 private:
  friend class Forwarding;
  Request(request_of<Host> inside, detail::Beside* beside) : inside_{std::move(inside)}, beside_{beside} {}

  request_of<Host> inside_;
  detail::Beside* beside_;
};

}  // namespace parallax
