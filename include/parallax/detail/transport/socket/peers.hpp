// A rank's connections to all others over sockets: read and written together, as far as the system says that they are ready
// (epoll: what a look costs does not grow with the ranks). An endpoint (detail/transport/socket/endpoint.hpp) owns one, and is
// told what comes.
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
#include <string_view>
#include <utility>
#include <vector>

#include "parallax/detail/transport/socket/connection.hpp"
#include "parallax/detail/transport/socket/words.hpp"

namespace parallax::inline v0_2::detail {

// Who is told what comes from which rank: as FrameSink has it of one connection.
class PeerSink {
 public:
  virtual std::byte* begin(int from, FrameHeader const& message) = 0;
  virtual std::byte* more(int from, FrameHeader const& message, std::size_t bytes, std::byte* to) = 0;
  virtual void come(int from, FrameHeader const& message) = 0;
  virtual void garbled(int from, std::string_view how) = 0;
  virtual void gone(int to, int channel) = 0;

 protected:
  ~PeerSink() = default;
};

// Refers to who is told. Does not block, but in `sleep` and `linger`.
class SocketPeers {
 public:
  // Error (transport) where the system has no descriptor left.
  SocketPeers(int size, PeerSink& told) : peers_(static_cast<std::size_t>(size)), ready_{::epoll_create1(EPOLL_CLOEXEC)} {
    if (!ready_) throw system_error("watch connections");
    for (std::size_t rank = 0; rank < peers_.size(); ++rank)
      peers_[rank].rank = static_cast<int>(rank), peers_[rank].told = &told;
  }

  // Takes over a connection to a rank of that host.
  void connect(int rank, OwnedDescriptor socket, std::string host) {
    peer(rank).connection = Connection{std::move(socket)};
    peer(rank).host = std::move(host);
    watch(peer(rank));
  }
  // The connection to a rank; to the rank itself, and to one that was not reached, there is one that has ended.
  Connection& connection(int rank) { return peer(rank).connection; }
  // The name of a rank's host.
  std::string const& host(int rank) const { return peers_[static_cast<std::size_t>(rank)].host; }
  // A rank has said its last word: goodbye, or that the communicator has failed. It needs to hear nothing any more.
  void part(int rank, bool in_peace) {
    peer(rank).parted = true;
    peer(rank).left = in_peace;
  }
  // Whether that was a goodbye.
  bool left(int rank) const { return peers_[static_cast<std::size_t>(rank)].left; }
  // Returns whether nothing more comes from a rank: it has said its last word, or its connection has ended.
  bool silent(int rank) const {
    Peer const& its = peers_[static_cast<std::size_t>(rank)];
    return its.parted || (its.connection.socket() && its.connection.ended());
  }
  // A rank whose connection has ended without a goodbye, or -1.
  int lost() const {
    for (Peer const& peer : peers_)
      if (peer.connection.socket() && peer.connection.ended() && !peer.left) return peer.rank;
    return -1;
  }

  // Sends a block, and what waits before it, as far as the system takes it.
  void send(int to, FrameHeader const& block, std::byte const* bytes) {
    peer(to).connection.send(block, bytes);
    write(peer(to));
  }
  // Sends a message likewise, and keeps its bytes. They are summed unless it is said that they are not. Sends nothing where the
  // connection has ended.
  void tell(int to, FrameKind kind, std::uint64_t number, std::vector<std::byte> bytes, bool summed = true);
  // Reads and writes what can be read and written now.
  void move_on();
  // Returns when something can be read or written, or after so long; at once, where something came since the last call.
  void sleep(std::chrono::nanoseconds at_most);
  // Moves on until all connections are done, so long at most; done(connection) says of those whose ranks have not parted. For
  // `but`, a rank, nobody waits.
  template <class Done>
  void linger(std::chrono::milliseconds at_most, Done const& done, int but = -1) noexcept;

  // Forgets all unsent messages, drops all that is coming, and tells all why: at once, where there is no memory to keep it.
  // `given_up`: the number that goes along.
  void fail(Error const& reason, std::uint64_t given_up = 0);
  // The same of the blocks of one channel.
  void withdraw(int channel);
  // Bytes that the system was given, headers and all.
  std::uint64_t written() const;

 private:
  // Says of one connection what came from which rank.
  struct Peer final : FrameSink {
    PeerSink* told = nullptr;
    int rank = 0;
    Connection connection;
    std::string host;
    bool left = false, parted = false;
    short watched = 0;  // for which events

    std::byte* begin(FrameHeader const& message) override { return told->begin(rank, message); }
    std::byte* more(FrameHeader const& message, std::size_t bytes, std::byte* to) override {
      return told->more(rank, message, bytes, to);
    }
    void come(FrameHeader const& message) override { told->come(rank, message); }
    void garbled(std::string_view how) override { told->garbled(rank, how); }
    void gone(int channel) override { told->gone(rank, channel); }
  };

  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  // Writes what can be written. True if that was anything.
  bool write(Peer& peer) {
    bool const wrote = peer.connection.write(peer);
    watch(peer);
    return wrote;
  }
  // Tells the system for what it is to wait now: called after all that may have changed it.
  void watch(Peer& peer);
  // Returns when something can be read or written, or after so long.
  void wait(std::chrono::nanoseconds at_most) const;

  std::vector<Peer> peers_;  // by rank
  OwnedDescriptor ready_;    // of epoll: the connections that are to be looked at
  bool news_ = false;        // something came since the last `sleep`
};

template <class Done>
void SocketPeers::linger(std::chrono::milliseconds at_most, Done const& done, int but) noexcept try {
  auto const until = std::chrono::steady_clock::now() + at_most;
  auto const all = [&] {
    return std::all_of(peers_.begin(), peers_.end(),
                       [&](Peer const& peer) { return peer.parted || peer.rank == but || done(peer.connection); });
  };
  while (!all() && std::chrono::steady_clock::now() < until) {
    wait(std::chrono::milliseconds{1});
    move_on();
  }
} catch (...) {  // no memory: the peers will see that the connection ends
}

// Tells a rank that must not join why, and waits a quarter of a second at most until its system has it. `told` hears what comes
// meanwhile.
void tell_refused(OwnedDescriptor socket, Error const& why, PeerSink& told);

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/socket/peers-inl.hpp"
#endif
