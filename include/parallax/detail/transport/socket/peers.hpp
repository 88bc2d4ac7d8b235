// A rank's connections to all others over sockets: read and written together, as far as the system says that they are ready
// (epoll: the cost of a look does not grow with the ranks). An endpoint (detail/transport/socket/endpoint.hpp) owns one, and
// hears of all arrivals.
#pragma once

#include <poll.h>
#include <sys/epoll.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string>
#include <utility>
#include <vector>

#include "parallax/detail/transport/socket/connection.hpp"

namespace parallax::inline v0_2::detail {

// Connections by rank, which it owns. Refers to the receiver, which outlives it. Local; waits only in `sleep` and `linger`.
class SocketPeers {
 public:
  // Throws Error (transport) if the system has no descriptor left. `told`: hears all arrivals.
  SocketPeers(int size, FrameSink& told)
      : told_{told}, peers_(static_cast<std::size_t>(size)), ready_{::epoll_create1(EPOLL_CLOEXEC)} {
    if (!ready_) throw system_error("watch connections");
    for (std::size_t rank = 0; rank < peers_.size(); ++rank) peers_[rank].rank = static_cast<int>(rank);
  }

  // Takes over a connection to a rank; `host`: its host's name, for errors. Throws Error (transport) if it cannot be watched.
  void connect(int rank, OwnedDescriptor socket, std::string host) {
    peer(rank).connection = Connection{std::move(socket), rank};
    peer(rank).host = std::move(host);
    watch(peer(rank));
  }
  // Returns the connection to a rank; for the rank itself, and for an unreached one, it has ended.
  Connection& connection(int rank) { return peer(rank).connection; }
  // Returns the name of a rank's host.
  std::string const& host(int rank) const { return peers_[static_cast<std::size_t>(rank)].host; }
  // Notes a rank's last word: a goodbye (`in_peace`), or an abort. That rank needs to hear nothing any more.
  void part(int rank, bool in_peace) {
    peer(rank).parted = true;
    peer(rank).left = in_peace;
  }
  // Returns true if the last word of a rank was a goodbye.
  bool left(int rank) const { return peers_[static_cast<std::size_t>(rank)].left; }
  // Returns true if nothing more comes from a rank: it has said its last word, or its connection has ended.
  bool silent(int rank) const {
    Peer const& its = peers_[static_cast<std::size_t>(rank)];
    return its.parted || (its.connection.socket() && its.connection.ended());
  }
  // Returns a rank whose connection has ended without a goodbye, or -1.
  int lost() const {
    for (Peer const& peer : peers_)
      if (peer.connection.socket() && peer.connection.ended() && !peer.left) return peer.rank;
    return -1;
  }

  // Sends a block, behind earlier messages, as far as the system takes it. Its bytes must stay until the receiver hears `gone`.
  void send(int to, FrameHeader const& block, std::byte const* bytes) {
    peer(to).connection.send(block, bytes);
    write(peer(to));
  }
  // Sends any other message, as far as the system takes it now, and keeps its bytes; nothing if the connection has ended.
  void tell(int to, FrameKind kind, std::uint64_t number, std::vector<std::byte> bytes, bool summed = true);
  // Reads and writes as much as possible now; the receiver hears of it. Throws Error (transport) if a change cannot be watched.
  void move_on();
  // Returns when something can be read or written, or after so long; at once, if something came since the last call.
  void sleep(std::chrono::nanoseconds at_most);
  // Waits, moving on, until `done` is true of all connections but to rank `but` and to parted ranks; so long at most.
  void linger(std::chrono::milliseconds at_most, bool (Connection::*done)() const, int but = -1) noexcept;

  // Forgets all unsent messages, drops all arrivals, and tells all ranks the reason: at once, if there is no memory to keep it.
  // `given_up`: the operations given up, a bit for each channel.
  void fail(Error const& reason, std::uint64_t given_up = 0);
  // Forgets the unsent blocks of one channel, and drops those in arrival: their memory is not touched any more.
  void withdraw(int channel);
  // Returns the bytes taken by the system on all connections, headers and all.
  std::uint64_t written() const;

 private:
  struct Peer {
    int rank = 0;
    Connection connection;
    std::string host;
    bool left = false, parted = false;
    short watched = 0;  // events asked for
  };

  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  // Writes as much as possible to a peer. Returns true if anything was written. Throws Error (transport) like `watch`.
  bool write(Peer& peer) {
    bool const wrote = peer.connection.write(told_);
    watch(peer);
    return wrote;
  }
  // Tells the system the events of a peer to wait for, after every change of them. Throws Error (transport) if it cannot.
  void watch(Peer& peer);
  // Returns when something can be read or written, or after so long.
  void wait(std::chrono::nanoseconds at_most) const;

  FrameSink& told_;
  std::vector<Peer> peers_;  // by rank
  OwnedDescriptor ready_;    // of epoll: the connections to be looked at
  bool news_ = false;        // something came since the last `sleep`
};

// Tells a rank the reason why it must not join, waits a quarter of a second at most until its system has it, and closes the
// socket. `told` hears arrivals meanwhile. Throws Error (transport) if the system has no descriptor left.
void tell_refused(OwnedDescriptor socket, Error const& why, FrameSink& told);

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/socket/peers-inl.hpp"
#endif
