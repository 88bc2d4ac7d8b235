// Bodies of parallax/detail/transport/socket/descriptor.hpp.
#pragma once

#include "parallax/detail/transport/socket/descriptor.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE SocketAddress unmapped(SocketAddress const& address) {
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

PARALLAX_INLINE HostAndPort split_address(std::string_view address) {
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

PARALLAX_INLINE Error system_error(std::string_view call, int peer) {
  return {Errc::transport, peer, "SocketCommunicator", "", joined({call, ": ", std::strerror(errno)})};
}

PARALLAX_INLINE std::vector<SocketAddress> addresses_asked(HostAndPort const& name, int more) {
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

PARALLAX_INLINE std::vector<SocketAddress> addresses_of(HostAndPort const& name) {
  std::vector<SocketAddress> addresses = addresses_asked(name, 0);
  std::array<char, 256> own{};
  if (addresses.empty() && ::gethostname(own.data(), own.size() - 1) == 0 && name.host == own.data())
    addresses = addresses_asked({"127.0.0.1", name.port}, AI_NUMERICHOST);
  return addresses;
}

PARALLAX_INLINE std::string host_of(SocketAddress const& address) {
  char host[NI_MAXHOST] = "?";
  ::getnameinfo(address.native(), address.length, host, sizeof host, nullptr, 0, NI_NUMERICHOST);
  return host;
}

PARALLAX_INLINE std::string text_of(SocketAddress const& address) {
  bool const six = address.storage.ss_family == AF_INET6;
  return joined({six ? "[" : "", host_of(address), six ? "]:" : ":", int{address.port()}});
}

PARALLAX_INLINE SocketAddress socket_address(OwnedDescriptor const& socket, int (*ask)(int, sockaddr*, socklen_t*)) {
  SocketAddress address;
  address.length = sizeof address.storage;
  if (ask(socket.get(), address.native(), &address.length) != 0) address.length = 0;
  return address;
}

PARALLAX_INLINE void check_descriptors(int rank, int size) {
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

PARALLAX_INLINE void poll_until(std::vector<pollfd>& sockets, Moment until) {
  auto const left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
  if (::poll(sockets.data(), static_cast<nfds_t>(sockets.size()), static_cast<int>(std::clamp<std::int64_t>(left, 0, 1000))) <
      0)
    for (pollfd& socket : sockets) socket.revents = 0;
}

PARALLAX_INLINE OwnedDescriptor new_socket(int family) {
  OwnedDescriptor socket{::socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!socket) throw system_error("socket");
  return socket;
}

PARALLAX_INLINE bool begin_connecting(OwnedDescriptor const& socket, SocketAddress const& address) {
  auto const connect = [&] { return ::connect(socket.get(), address.native(), address.length); };
  return uninterrupted(connect) == 0 || errno == EINPROGRESS || errno == EALREADY || errno == EISCONN;
}

PARALLAX_INLINE OwnedDescriptor listening_socket(SocketAddress const& address) {
  OwnedDescriptor socket = new_socket(address.storage.ss_family);
  int const on = 1, off = 0;
  ::setsockopt(socket.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  if (address.storage.ss_family == AF_INET6) ::setsockopt(socket.get(), IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof off);
  if (::bind(socket.get(), address.native(), address.length) != 0 || ::listen(socket.get(), SOMAXCONN) != 0)
    throw system_error(joined({"listen at ", text_of(address)}));
  return socket;
}

PARALLAX_INLINE OwnedDescriptor listening_everywhere(std::uint16_t port) {
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

PARALLAX_INLINE void tune(OwnedDescriptor const& socket, std::chrono::nanoseconds deadline) {
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
