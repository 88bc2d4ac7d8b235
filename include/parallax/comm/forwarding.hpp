// A communicator over another one: all that the one inside can do shows through.
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
  using lent_space = typename detail::LentSpace<Host>::type;

  class Request;

  Host& host() const { return *host_; }

  int rank() const { return host_->rank(); }
  int size() const { return host_->size(); }
  std::chrono::nanoseconds deadline() const { return host_->deadline(); }
  void abort(Error const& reason) { host_->abort(reason); }
  Request ialltoallv(int channel, Transfer const& transfer) {
    refuse_busy(channel, "ialltoallv");
    return {host_->ialltoallv(channel, transfer), beside_};
  }

  void check()
    requires TellsOfAborts<Host>
  {
    host_->check();
  }

  SumOrder sum_order() const
    requires VendorAllreduce<Host>
  {
    return host_->sum_order();
  }
  Request iallreduce(int channel, float const* send, float* receive, std::size_t count)
    requires VendorAllreduce<Host>
  {
    refuse_busy(channel, "iallreduce");
    return {host_->iallreduce(channel, send, receive, count), beside_};
  }
  Request iallreduce(int channel, double const* send, double* receive, std::size_t count)
    requires VendorAllreduce<Host>
  {
    refuse_busy(channel, "iallreduce");
    return {host_->iallreduce(channel, send, receive, count), beside_};
  }
  auto bare()
    requires BareAllreduce<Host>
  {
    return host_->bare();
  }

  std::chrono::nanoseconds now() const
    requires OwnClock<Host>
  {
    return host_->now();
  }
  bool oversubscribed() const
    requires KnowsOversubscription<Host>
  {
    return host_->oversubscribed();
  }
  bool serialized() const
    requires KnowsThreads<Host>
  {
    return host_->serialized();
  }
  bool shares_memory(int one, int other) const
    requires KnowsSharedMemory<Host>
  {
    return host_->shares_memory(one, other);
  }
  // Of MpiCommunicator: the host of every rank, for topologies of two levels.
  decltype(auto) hosts() const
    requires requires(Host const& host) { host.hosts(); }
  {
    return std::as_const(*host_).hosts();
  }

  Journal& journal()
    requires KeepsJournals<Host>
  {
    return host_->journal();
  }
  std::optional<Status> status_of(int rank, bool& fresh)
    requires KeepsJournals<Host>
  {
    return host_->status_of(rank, fresh);
  }
  void answer()
    requires KeepsJournals<Host>
  {
    host_->answer();
  }

  bool lends(int one, int other) const
    requires LendsMemory<Host>
  {
    return host_->lends(one, other);
  }
  Place place_of(void const* memory) const
    requires LendsMemory<Host>
  {
    return host_->place_of(memory);
  }
  std::byte* window(int channel, std::size_t bytes)
    requires LendsMemory<Host>
  {
    return host_->window(channel, bytes);
  }
  std::byte* address_of(Place const& place)
    requires LendsMemory<Host>
  {
    return host_->address_of(place);
  }
  std::uint64_t lend(int channel)
    requires LendsMemory<Host>
  {
    return host_->lend(channel);
  }
  bool hold(int channel, int rank, std::uint64_t number)
    requires LendsMemory<Host>
  {
    return host_->hold(channel, rank, number);
  }
  void release(int channel, int rank) noexcept
    requires LendsMemory<Host>
  {
    host_->release(channel, rank);
  }
  void reclaim(int channel) noexcept
    requires LendsMemory<Host>
  {
    host_->reclaim(channel);
  }

 protected:
  Forwarding(Host& host, detail::Beside* beside) : host_{&host}, beside_{beside} {}

 private:
  void refuse_busy(int channel, char const* operation) const {
    if (beside_ && beside_->carries(channel))
      throw Error{Errc::misuse, rank(), operation, "", "an operation on device memory is in flight on this channel"};
  }

  Host* host_;
  detail::Beside* beside_;
};

template <Communicator Host>
class Forwarding<Host>::Request {
 public:
  bool test() {
    if (inside_.test()) return true;
    if (beside_) beside_->move_on();
    return false;
  }
  int waiting_for() const { return inside_.waiting_for(); }

 private:
  friend class Forwarding;
  Request(request_of<Host> inside, detail::Beside* beside) : inside_{std::move(inside)}, beside_{beside} {}

  request_of<Host> inside_;
  detail::Beside* beside_;
};

}  // namespace parallax
