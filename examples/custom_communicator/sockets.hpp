// TCP connections between all ranks, made before a deadline: what tcp_communicator.hpp sends its bytes through.
#pragma once

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <parallax/core/error.hpp>

namespace example {

// Owns a file descriptor.
class Socket {
 public:
  explicit Socket(int descriptor = -1) : descriptor_{descriptor} {}
  Socket(Socket&& other) noexcept : descriptor_{std::exchange(other.descriptor_, -1)} {}
  Socket& operator=(Socket&& other) noexcept {
    std::swap(descriptor_, other.descriptor_);
    return *this;
  }
  ~Socket() {
    if (descriptor_ >= 0) ::close(descriptor_);
  }
  int get() const { return descriptor_; }

 private:
  int descriptor_;
};

// An IPv4 address in digits, and a port.
struct Address {
  std::string host = "127.0.0.1";
  std::uint16_t port = 0;

  sockaddr_in native() const {
    sockaddr_in result{};
    result.sin_family = AF_INET;
    result.sin_port = htons(port);
    if (::inet_pton(AF_INET, host.c_str(), &result.sin_addr) != 1)
      throw parallax::Error{parallax::Errc::invalid_argument, -1, "connect", "", "'" + host + "' is no IPv4 address"};
    return result;
  }
};

using Moment = std::chrono::steady_clock::time_point;

// What a call of the system has just failed at. `peer`: the rank at the other end, or -1.
inline parallax::Error socket_error(int peer, std::string const& call) {
  return {parallax::Errc::transport, peer, "connect", "", call + ": " + std::strerror(errno)};
}

// Waits until the socket can be read. Throws Error (timeout) when `until` has passed.
inline void wait_readable(Socket const& socket, Moment until) {
  for (;;) {
    auto const left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now()).count();
    pollfd entry{socket.get(), POLLIN, 0};
    if (left > 0 && ::poll(&entry, 1, static_cast<int>(left)) > 0) return;
    if (left <= 0) throw parallax::Error{parallax::Errc::timeout, -1, "connect", "", "a rank has not connected"};
  }
}

// Waits for connections at an address; port 0 lets the system choose a free one. Ranks may connect as soon as it is made.
class Listener {
 public:
  explicit Listener(Address const& address = {}) : socket_{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)} {
    sockaddr_in native = address.native();
    socklen_t length = sizeof native;
    int const on = 1;
    ::setsockopt(socket_.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    auto* const name = reinterpret_cast<sockaddr*>(&native);
    if (::bind(socket_.get(), name, length) != 0 || ::listen(socket_.get(), SOMAXCONN) != 0 ||
        ::getsockname(socket_.get(), name, &length) != 0)
      throw socket_error(-1, "listen at port " + std::to_string(address.port));
    address_ = {address.host, ntohs(native.sin_port)};
  }

  Address const& address() const { return address_; }

  Socket accept(Moment until) const {
    wait_readable(socket_, until);
    Socket connection{::accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
    if (connection.get() < 0) throw socket_error(-1, "accept");
    return connection;
  }

 private:
  Socket socket_;
  Address address_;
};

// Tries until the peer listens or the time is over.
inline Socket connect_to(int peer, Address const& address, Moment until) {
  sockaddr_in const native = address.native();
  for (;;) {
    Socket connection{::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (::connect(connection.get(), reinterpret_cast<sockaddr const*>(&native), sizeof native) == 0) return connection;
    if (std::chrono::steady_clock::now() > until) throw socket_error(peer, "connect to rank " + std::to_string(peer));
    std::this_thread::sleep_for(std::chrono::milliseconds{10});
  }
}

// Collective. One connection to every peer, without blocking from now on; the rank's own place stays empty. Each rank calls
// those before it, says who it is, and is called by those behind it.
inline std::vector<Socket> connect_all(int rank, Listener const& listener, std::vector<Address> const& addresses,
                                       std::chrono::nanoseconds deadline) {
  auto const until = std::chrono::steady_clock::now() + deadline;
  std::vector<Socket> connections(addresses.size());
  for (int peer = 0; peer < rank; ++peer) {
    Socket connection = connect_to(peer, addresses[static_cast<std::size_t>(peer)], until);
    if (::send(connection.get(), &rank, sizeof rank, MSG_NOSIGNAL) != sizeof rank)
      throw socket_error(peer, "greet rank " + std::to_string(peer));
    connections[static_cast<std::size_t>(peer)] = std::move(connection);
  }
  for (std::size_t missing = addresses.size() - static_cast<std::size_t>(rank) - 1; missing > 0; --missing) {
    Socket connection = listener.accept(until);
    int peer = -1;
    wait_readable(connection, until);
    if (::recv(connection.get(), &peer, sizeof peer, MSG_WAITALL) != sizeof peer || peer <= rank ||
        static_cast<std::size_t>(peer) >= addresses.size())
      throw socket_error(-1, "a connection that is no rank's");
    connections[static_cast<std::size_t>(peer)] = std::move(connection);
  }
  for (Socket const& connection : connections) {
    if (connection.get() < 0) continue;
    int const on = 1;
    ::setsockopt(connection.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    ::fcntl(connection.get(), F_SETFL, O_NONBLOCK);
  }
  return connections;
}

}  // namespace example
