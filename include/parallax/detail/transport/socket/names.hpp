// Addresses behind a name of a host, without waiting for the system's resolver; and this host's own. The search for rank 0
// (detail/transport/socket/rendezvous.hpp) includes it.
#pragma once

#include <ifaddrs.h>
#include <net/if.h>

#include <chrono>
#include <cstring>
#include <future>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "parallax/detail/transport/socket/descriptor.hpp"

namespace parallax::inline v0_2::detail {

// A look-up of a name, again and again. The system's resolver may take longer than any deadline: it has a thread of its own,
// left to itself if nobody waits for it any more. Digits need no thread.
class NameLookUp {
 public:
  using Resolver = std::vector<SocketAddress> (*)(HostAndPort const&);
  // The resolver. Tests have one of their own.
  static inline Resolver resolver = &addresses_of;

  explicit NameLookUp(HostAndPort name) : name_{std::move(name)}, digits_{addresses_in_digits(name_)} {}

  // Waits a moment at most. Returns all addresses of the name at its last look-up, the system's best first; empty if nobody
  // knows it (yet).
  std::vector<SocketAddress> look() {
    if (!digits_.empty()) return digits_;
    if (!answer_.valid()) begin();
    if (answer_.wait_for(moment) != std::future_status::ready) return {};
    return answer_.get();  // the next call asks anew
  }

 private:
  static constexpr std::chrono::milliseconds moment{20};

  void begin() {
    std::packaged_task<std::vector<SocketAddress>()> task{[ask = resolver, name = name_] { return ask(name); }};
    answer_ = task.get_future();
    try {
      std::thread{std::move(task)}.detach();
    } catch (std::system_error const&) {  // no thread can be had: then it takes as long as it takes
      std::promise<std::vector<SocketAddress>> here;
      here.set_value(resolver(name_));
      answer_ = here.get_future();
    }
  }

  HostAndPort name_;
  std::vector<SocketAddress> digits_;
  std::future<std::vector<SocketAddress>> answer_;
};

// Returns the addresses of this host for other hosts, IPv4 first: of all interfaces that are up, without loopback and without
// addresses of one link alone. Ports are 0.
std::vector<SocketAddress> own_addresses();

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/socket/names-inl.hpp"
#endif
