// Sockets of the system and addresses of TCP: what the meeting of ranks (detail/transport/socket/meeting.hpp) and their
// connections (detail/transport/socket/connection.hpp) are made of. Nothing here blocks, but for the look-up of a name.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
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

namespace parallax::detail {

// A moment of the steady clock, by which everything here has its deadline.
using Moment = std::chrono::steady_clock::time_point;

// An address of IPv4 or IPv6 with its port, as the system writes it.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t length = 0;

  // The system's view of it.
  sockaddr const* native() const { return reinterpret_cast<sockaddr const*>(&storage); }
  sockaddr* native() { return reinterpret_cast<sockaddr*>(&storage); }
  // Where the port lies, in the order of bytes of networks.
  in_port_t& port_field() {
    return storage.ss_family == AF_INET6 ? reinterpret_cast<sockaddr_in6&>(storage).sin6_port
                                         : reinterpret_cast<sockaddr_in&>(storage).sin_port;
  }
  std::uint16_t port() const { return ntohs(const_cast<SocketAddress*>(this)->port_field()); }
  // The same host at another port.
  SocketAddress at(std::uint16_t port) const {
    SocketAddress result = *this;
    result.port_field() = htons(port);
    return result;
  }
  // Whether only processes of this host can reach it; an address of IPv4 may be written as one of IPv6.
  bool loopback() const {
    if (storage.ss_family == AF_INET)
      return ntohl(reinterpret_cast<sockaddr_in const&>(storage).sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    in6_addr const& six = reinterpret_cast<sockaddr_in6 const&>(storage).sin6_addr;
    return IN6_IS_ADDR_LOOPBACK(&six) || (IN6_IS_ADDR_V4MAPPED(&six) && six.s6_addr[12] == IN_LOOPBACKNET);
  }
  // Whether it is no address of one interface: who listens there is reached at all of them.
  bool anywhere() const {
    if (storage.ss_family == AF_INET) return reinterpret_cast<sockaddr_in const&>(storage).sin_addr.s_addr == htonl(INADDR_ANY);
    return IN6_IS_ADDR_UNSPECIFIED(&reinterpret_cast<sockaddr_in6 const&>(storage).sin6_addr);
  }
  // Whether it means something to the hosts of one link alone, which name their interfaces each in its own way.
  bool of_one_link() const {
    return storage.ss_family == AF_INET6 && IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<sockaddr_in6 const&>(storage).sin6_addr);
  }
};

// The same address, as one of IPv4 where it is such a one in IPv6's form: hosts without IPv6 can call it.
inline SocketAddress unmapped(SocketAddress const& address) {
  if (address.storage.ss_family != AF_INET6) return address;
  in6_addr const& six = reinterpret_cast<sockaddr_in6 const&>(address.storage).sin6_addr;
  if (!IN6_IS_ADDR_V4MAPPED(&six)) return address;
  SocketAddress result;
  auto& four = reinterpret_cast<sockaddr_in&>(result.storage);
  four.sin_family = AF_INET;
  four.sin_port = htons(address.port());
  std::memcpy(&four.sin_addr, &six.s6_addr[12], sizeof four.sin_addr);
  result.length = sizeof(sockaddr_in);
  return result;
}

// Parts of "host:port", or of "[host]:port" where the host has colons itself.
struct HostAndPort {
  std::string host, port;
};

// Splits an address as users write it. Error (invalid_argument) where it has no port between 0 and 65535.
inline HostAndPort split_address(std::string_view address) {
  std::size_t const colon = address.rfind(':');
  HostAndPort parts;
  if (colon != std::string_view::npos) {
    std::string_view host = address.substr(0, colon);
    if (host.size() > 2 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
    parts = {std::string{host}, std::string{address.substr(colon + 1)}};
  }
  bool const digits = !parts.port.empty() && parts.port.size() <= 5 &&
                      std::all_of(parts.port.begin(), parts.port.end(), [](char c) { return c >= '0' && c <= '9'; });
  if (parts.host.empty() || !digits || std::stoi(parts.port) > 65535)
    throw Error{Errc::invalid_argument, -1, "SocketCommunicator", "", joined({"'", address, "' is no address host:port"})};
  return parts;
}

// Error (transport): what the system has just said of a call.
inline Error system_error(std::string_view call, int peer = -1) {
  return {Errc::transport, peer, "SocketCommunicator", "", joined({call, ": ", std::strerror(errno)})};
}

// Returns whether the system has just refused a call for lack of descriptors or memory. Trying again does not mend that.
inline bool is_lack() { return errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM; }

// All addresses that the name stands for now, the system's best first; empty where nobody knows the name (yet). May block for
// as long as the system's resolver does. `more`: flags of getaddrinfo. Error (transport) where it lacks descriptors or memory: it
// says then that nobody knows the name.
inline std::vector<SocketAddress> addresses_asked(HostAndPort const& name, int more) {
  addrinfo hints{}, *found = nullptr;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | more;
  std::vector<SocketAddress> addresses;
  errno = 0;
  if (::getaddrinfo(name.host.c_str(), name.port.c_str(), &hints, &found) != 0) {
    if (is_lack()) throw system_error(joined({"look up ", name.host}));
    return addresses;
  }
  for (addrinfo const* one = found; one; one = one->ai_next) {
    if (one->ai_family != AF_INET && one->ai_family != AF_INET6) continue;
    SocketAddress& address = addresses.emplace_back();
    std::memcpy(&address.storage, one->ai_addr, one->ai_addrlen);
    address.length = one->ai_addrlen;
  }
  ::freeaddrinfo(found);
  return addresses;
}
// Returns the addresses of a name. A machine whose own name nobody knows, not even its /etc/hosts, is found at the loopback
// address.
inline std::vector<SocketAddress> addresses_of(HostAndPort const& name) {
  std::vector<SocketAddress> addresses = addresses_asked(name, 0);
  std::array<char, 256> own{};
  if (addresses.empty() && ::gethostname(own.data(), own.size() - 1) == 0 && name.host == own.data())
    addresses = addresses_asked({"127.0.0.1", name.port}, AI_NUMERICHOST);
  return addresses;
}
// The same of what is in digits, without blocking; empty for a name.
inline std::vector<SocketAddress> addresses_in_digits(HostAndPort const& name) { return addresses_asked(name, AI_NUMERICHOST); }

// In digits, without the port: "127.0.0.1" or "::1".
inline std::string host_of(SocketAddress const& address) {
  char host[NI_MAXHOST] = "?";
  ::getnameinfo(address.native(), address.length, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return host;
}

// In digits, as users write it: "127.0.0.1:4711" or "[::1]:4711".
inline std::string text_of(SocketAddress const& address) {
  bool const six = address.storage.ss_family == AF_INET6;
  return joined({six ? "[" : "", host_of(address), six ? "]:" : ":", int{address.port()}});
}

// The address of the other end, or, by getsockname, of this one.
inline SocketAddress socket_address(OwnedDescriptor const& socket, int (*ask)(int, sockaddr*, socklen_t*) = &::getpeername) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (ask(socket.get(), address.native(), &address.length) != 0) address.length = 0;
  return address;
}

// Throws Error (transport), with this rank's name, where its process may not open as many descriptors more as a world of that
// size takes.
inline void check_descriptors(int rank, int size) {
  constexpr int margin = 8;  // beside connections: a listener, epoll, shared memory, callers not known yet
  rlimit limit{};
  OwnedDescriptor const first_free{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  int const used = first_free ? first_free.get() : 0;
  if (!first_free && !is_lack()) return;
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
  if (first_free && limit.rlim_cur >= static_cast<rlim_t>(used + size - 1 + margin)) return;
  throw Error{Errc::transport, rank, "SocketCommunicator", "",
              joined({"this process may have ", std::uint64_t{limit.rlim_cur},
                      " descriptors open (ulimit -n); beside those that it has, a world of ", size, " ranks takes ",
                      size - 1 + margin})};
}

// Waits until one of these is ready, or the moment has come.
inline void poll_until(std::vector<pollfd>& sockets, Moment until) {
  auto const left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
  if (::poll(sockets.data(), static_cast<nfds_t>(sockets.size()), static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000))) <
      0)
    for (pollfd& socket : sockets) socket.revents = 0;
}

// A new socket which never blocks, and is closed where another program takes the process over.
inline OwnedDescriptor new_socket(int family) {
  OwnedDescriptor socket{::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!socket) throw system_error("socket");
  return socket;
}

// Begins to connect a socket that never blocks. False where that fails at once; errno says why. The system may go on with a
// call that was interrupted.
inline bool begin_connecting(OwnedDescriptor const& socket, SocketAddress const& address) {
  auto const connect = [&] { return ::connect(socket.get(), address.native(), address.length); };
  return uninterrupted(connect) == 0 || errno == EINPROGRESS || errno == EALREADY || errno == EISCONN;
}

// Listens at an address; port 0 lets the system choose. Error (transport) where it is taken, or not of this host.
inline OwnedDescriptor listening_socket(SocketAddress const& address) {
  OwnedDescriptor socket = new_socket(address.storage.ss_family);
  int const on = 1, off = 0;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.storage.ss_family == AF_INET6) ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (::bind(socket.get(), address.native(), address.length) != 0 || ::listen(socket.get(), SOMAXCONN) != 0)
    throw system_error(joined({"listen at ", text_of(address)}));
  return socket;
}

// Listens at all addresses of this host, of IPv6 and IPv4 where it has both. Error likewise.
inline OwnedDescriptor listening_everywhere(std::uint16_t port) {
  SocketAddress every;
  every.storage.ss_family = AF_INET6;
  every.length = sizeof(sockaddr_in6);
  try {
    return listening_socket(every.at(port));
  } catch (Error const&) {  // perhaps without IPv6
    every.storage.ss_family = AF_INET;
    every.length = sizeof(sockaddr_in);
    return listening_socket(every.at(port));
  }
}

// Of connected sockets: small messages go at once, and a host that is gone is noticed though nobody writes to it, but not before it
// has been silent for half of the deadline: 7 probes, a twelfth of it apart, once nothing has come for 10 s.
inline void tune(OwnedDescriptor const& socket, std::chrono::nanoseconds deadline) {
  constexpr int on = 1, idle = 10, probes = 7, longest = 3'600;
  auto const twelfth = std::chrono::ceil<std::chrono::seconds>(deadline / 12).count();
  int const interval = twelfth < 1 ? 1 : twelfth > longest ? longest : static_cast<int>(twelfth);
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  ::setsockopt(socket.get(), SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPINTVL, &interval, sizeof interval);
  ::setsockopt(socket.get(), IPPROTO_TCP, TCP_KEEPCNT, &probes, sizeof probes);
}

}  // namespace parallax::detail
