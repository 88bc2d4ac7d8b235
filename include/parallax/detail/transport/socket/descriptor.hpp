// Sockets of the system and addresses of TCP: the material of ranks' meeting (detail/transport/socket/meeting.hpp) and of their
// connections (detail/transport/socket/connection.hpp). Nothing here waits, except the look-up of a name and `poll_until`.
#pragma once

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <vector>

#include "parallax/core/error.hpp"
#include "parallax/detail/comm/owned_descriptor.hpp"
#include "parallax/detail/core/system.hpp"

namespace parallax::inline v0_2::detail {

// A moment of the steady clock, for all deadlines here.
using Moment = std::chrono::steady_clock::time_point;

// An address of IPv4 or IPv6 with its port, as the system writes it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  // Returns the address as the system views it, inside this object.
  sockaddr const* native() const { return reinterpret_cast<sockaddr const*>(&storage); }
  sockaddr* native() { return reinterpret_cast<sockaddr*>(&storage); }
  // Returns the port, in networks' order of bytes.
  in_port_t& port_field() {
    return storage.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(storage).sin6_port
                                         : reinterpret_cast<sockaddr_in&>(storage).sin_port;
  }
  std::uint16_t port() const { return ntohs(const_cast<SocketAddress*>(this)->port_field()); }
  // Returns the address of the same host at another port.
  SocketAddress at(std::uint16_t port) const {
    SocketAddress result = *this;
    result.port_field() = htons(port);
    return result;
  }
  // Returns true if only processes of this host can reach it; an address of IPv4 may be written as one of IPv6.
  bool loopback() const {
    if (storage.ss_family == AF_INET)
      return ntohl(reinterpret_cast<sockaddr_in const&>(storage).sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    in6_addr const& six = reinterpret_cast<sockaddr_in6 const&>(storage).sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == IN_LOOPBACKNET);
  }
  // Returns true if it is no address of one interface: a listener there is reached at all of them.
  bool anywhere() const {
    if (storage.ss_family == AF_INET) return reinterpret_cast<sockaddr_in const&>(storage).sin_addr.s_addr == htonl(INADDR_ANY);
    return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<sockaddr_in6 const&>(storage).sin6_addr);
  }
  // Returns true if it means something to the hosts of one link alone. Each host names its interfaces differently.
  bool of_one_link() const {
    return storage.ss_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<sockaddr_in6 const&>(storage).sin6_addr);
  }
};

// Returns the address, an IPv4 address in IPv6's form as plain IPv4: hosts without IPv6 can call it.
SocketAddress unmapped(SocketAddress const& address);

// Parts of "host:port", or of "[host]:port" if the host has colons itself.
struct HostAndPort {
  std::string host, port;
};

// Splits an address in users' form. Throws Error (invalid_argument) if it has no host, or no port between 0 and 65535.
HostAndPort split_address(std::string_view address);

// Returns Error (transport) with the name of a call and errno's words. `peer`: the rank concerned, or -1.
Error system_error(std::string_view call, int peer = -1);

// Returns true if the system has just refused a call (errno) for lack of descriptors or memory: trying again is in vain.
inline bool is_lack() { return errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM; }

// Returns all addresses of the name now, the system's best first; empty if nobody knows the name (yet). May block for as long
// as the system's resolver does. `more`: flags of getaddrinfo. Throws Error (transport) if the process lacks descriptors or
// memory: the resolver then says that nobody knows the name.
std::vector<SocketAddress> addresses_asked(HostAndPort const& name, int more);
// Does as addresses_asked. A machine with a name unknown even to its /etc/hosts is found at the loopback address.
std::vector<SocketAddress> addresses_of(HostAndPort const& name);
// Returns the address of a host in digits, never blocking; empty for a name. Throws like addresses_asked.
inline std::vector<SocketAddress> addresses_in_digits(HostAndPort const& name) { return addresses_asked(name, AI_NUMERICHOST); }

// Returns the host in digits, without the port: "127.0.0.1" or "::1".
std::string host_of(SocketAddress const& address);

// Returns the address in digits, in users' form: "127.0.0.1:4711" or "[::1]:4711".
std::string text_of(SocketAddress const& address);

// Returns the address of the other end, or, by getsockname, of this one; of length 0 if the system has none.
SocketAddress socket_address(OwnedDescriptor const& socket, int (*ask)(int, sockaddr*, socklen_t*) = &::getpeername);

// Throws Error (transport), about `rank`, this one, if its process may not open the further descriptors of a world of `size`.
void check_descriptors(int rank, int size);

// Waits until one of these is ready, the moment has come, or a second has passed. `revents` then tells the ready ones.
void poll_until(std::vector<pollfd>& sockets, Moment until);

// Returns a new socket, never blocking, and closed if another program takes the process over. Throws Error (transport).
OwnedDescriptor new_socket(int family);

// Begins to connect a socket that never blocks. Returns false if it fails at once; errno says why. The system may go on with an
// interrupted call.
bool begin_connecting(OwnedDescriptor const& socket, SocketAddress const& address);

// Returns a socket that listens at an address; port 0: any. Throws Error (transport) if it is taken, or not of this host.
OwnedDescriptor listening_socket(SocketAddress const& address);

// Returns a socket that listens at all addresses here, of IPv6 and IPv4 if there are both. Throws Error like listening_socket.
OwnedDescriptor listening_everywhere(std::uint16_t port);

// Tunes a connected socket, as far as the system lets it, without errors: small messages go at once, and a host that is gone is
// noticed though nobody writes to it. Not before half of the deadline: 7 probes, a twelfth of it apart, after 10 s of silence.
void tune(OwnedDescriptor const& socket, std::chrono::nanoseconds deadline);

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/socket/descriptor-inl.hpp"
#endif
