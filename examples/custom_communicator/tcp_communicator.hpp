// A communicator of your own: ranks that are processes, or threads, joined by TCP. main.cpp trains over it.
//
// All channels of two ranks share one connection, on which a block travels as a frame. Frames are numbered by operation, so
// that a block which its receiver did not expect is never taken for one of a later operation. Blocks are copied on their way
// out and in: what peers send while nobody waits for it lies in `arrived`, and the caller's memory is touched inside of its own
// calls only. Everything moves in `progress`, which every `test` calls.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <parallax/comm/communicator.hpp>

#include "connection.hpp"

namespace example {

namespace px = parallax;

class TcpCommunicator {
 public:
  class Request;

  // `sockets[r]` is connected with rank r: see connect_all. Their number is the size; the rank's own is empty.
  TcpCommunicator(int rank, std::vector<Socket> sockets, std::chrono::nanoseconds deadline) : rank_{rank}, deadline_{deadline} {
    for (Socket& socket : sockets) peers_.push_back({Connection{std::move(socket)}, {}});
  }
  TcpCommunicator(TcpCommunicator const&) = delete;
  TcpCommunicator& operator=(TcpCommunicator const&) = delete;
  ~TcpCommunicator() {
    if (!failure_) return;
    // To close a connection over bytes that nobody read resets it, and the reason may be lost: let the peers leave first.
    for (Peer& peer : peers_)
      if (peer.connection.idle()) peer.connection.end();
    linger([](Connection const& connection) { return connection.ended(); });
  }

  // ---- what the concept Communicator asks for ----

  int rank() const { return rank_; }
  int size() const { return static_cast<int>(peers_.size()); }
  std::chrono::nanoseconds deadline() const { return deadline_; }
  Request ialltoallv(int channel, px::Transfer const& transfer);
  void abort(px::Error const& reason) {
    fail(reason);
    linger([](Connection const& connection) { return connection.idle(); });
  }

  // The optional ability TellsOfAborts: makes progress, and throws the reason once a rank has aborted.
  void check() {
    progress();
    if (failure_) throw *failure_;
  }

 private:
  struct Peer {
    Connection connection;
    std::array<std::deque<Frame>, px::channels> arrived;  // in the order of their operations
  };
  static constexpr std::int32_t abort_channel = -1;  // its frames hold an Error

  // Reads and writes what can be read and written now; waits so many milliseconds at most until something can.
  void progress(int patience = 0) {
    polled_.clear();
    for (Peer const& peer : peers_) polled_.push_back(peer.connection.question());
    if (::poll(polled_.data(), polled_.size(), patience) <= 0) return;
    for (std::size_t r = 0; r < peers_.size(); ++r) {
      if (polled_[r].revents & ~POLLOUT) peers_[r].connection.read();
      while (std::optional<Frame> frame = peers_[r].connection.next())
        if (frame->channel == abort_channel) fail(error_of(frame->bytes));
        else peers_[r].arrived.at(static_cast<std::size_t>(frame->channel)).push_back(std::move(*frame));
    }
    for (std::size_t r = 0; r < peers_.size(); ++r)
      if (polled_[r].revents & POLLOUT) peers_[r].connection.write();
  }

  // The first reason stays. Every rank that hears it passes it on: so no connection ends before its peer knows the reason.
  void fail(px::Error const& reason) {
    if (failure_) return;
    failure_ = reason;
    std::string const text = text_of(reason);
    for (Peer& peer : peers_)
      if (!peer.connection.ended())
        peer.connection.send(abort_channel, 0, reinterpret_cast<std::byte const*>(text.data()), text.size());
  }

  // Makes progress until every connection is `done`, for a second at most.
  template <class Done>
  void linger(Done const& done) noexcept try {
    auto const until = std::chrono::steady_clock::now() + std::chrono::seconds{1};
    for (bool all = false; !all && std::chrono::steady_clock::now() < until;) {
      all = true;
      for (Peer const& peer : peers_) all = all && done(peer.connection);
      if (!all) progress(10);
    }
  } catch (...) {  // no memory: the peers will see that the connection ends
  }

  int rank_;
  std::chrono::nanoseconds deadline_;
  std::vector<Peer> peers_;                               // by rank
  std::vector<pollfd> polled_;                            // scratch of `progress`
  std::array<std::uint32_t, px::channels> operations_{};  // posted so far, by channel
  std::array<bool, px::channels> busy_{};                 // whether one of them is in flight
  std::optional<px::Error> failure_;
};

// An operation in flight. Complete when every block has arrived and the system has taken all of ours.
class TcpCommunicator::Request {
 public:
  bool test() {
    if (!busy_) return true;
    comm_->check();
    std::erase_if(missing_, [&](int rank) { return take(rank); });
    std::erase_if(unsent_, [&](auto const& sent) { return is_taken(sent.first, sent.second); });
    if (!missing_.empty() || !unsent_.empty()) return false;
    busy_.reset();
    return true;
  }
  int waiting_for() const { return !missing_.empty() ? missing_.front() : !unsent_.empty() ? unsent_.front().first : -1; }

 private:
  friend class TcpCommunicator;
  struct Free {
    void operator()(bool* busy) const { *busy = false; }
  };

  Request(TcpCommunicator& comm, std::size_t channel, px::Transfer const& transfer)
      : comm_{&comm}, channel_{channel}, operation_{++comm.operations_[channel]}, transfer_{transfer} {
    comm.busy_[channel] = true;
    busy_.reset(&comm.busy_[channel]);
  }

  // Whether the block from this rank is there; it is then put into its place.
  bool take(int rank) {
    Peer& peer = comm_->peers_[static_cast<std::size_t>(rank)];
    auto& frames = peer.arrived[channel_];
    if (frames.empty() && peer.connection.ended()) throw broken(px::Errc::transport, rank, "has closed its connection");
    if (frames.empty()) return false;
    Frame const& frame = frames.front();
    px::ByteRange const block = transfer_.from[static_cast<std::size_t>(rank)];
    if (frame.operation != operation_ || frame.bytes.size() != block.bytes)
      throw broken(px::Errc::mismatch, rank,
                   "sends " + std::to_string(frame.bytes.size()) + " bytes in its operation " +
                       std::to_string(frame.operation) + ", expected are " + std::to_string(block.bytes));
    std::memcpy(transfer_.receive + block.offset, frame.bytes.data(), block.bytes);
    frames.pop_front();
    return true;
  }
  bool is_taken(int rank, std::uint64_t bytes) const {
    Connection const& connection = comm_->peers_[static_cast<std::size_t>(rank)].connection;
    if (connection.taken() < bytes && connection.ended()) throw broken(px::Errc::transport, rank, "has closed its connection");
    return connection.taken() >= bytes;
  }
  px::Error broken(px::Errc code, int rank, std::string const& what) const {
    return {code, rank, "ialltoallv", "",
            "rank " + std::to_string(rank) + ' ' + what + " (rank " + std::to_string(comm_->rank()) + ", channel " +
                std::to_string(channel_) + ", operation " + std::to_string(operation_) + ")"};
  }

  TcpCommunicator* comm_;
  std::size_t channel_;
  std::uint32_t operation_;
  px::Transfer transfer_;
  std::unique_ptr<bool, Free> busy_;                    // the channel's; empty once the operation is complete
  std::vector<int> missing_;                            // ranks whose block has not arrived
  std::vector<std::pair<int, std::uint64_t>> unsent_;   // ranks and their connection's `taken` once our block is
};

inline TcpCommunicator::Request TcpCommunicator::ialltoallv(int channel, px::Transfer const& transfer) {
  check();
  auto const lane = static_cast<std::size_t>(channel), self = static_cast<std::size_t>(rank_);
  if (busy_.at(lane))
    throw px::Error{px::Errc::misuse, rank_, "ialltoallv", "", "channel " + std::to_string(channel) + " is busy"};
  px::ByteRange const out = transfer.to[self], in = transfer.from[self];
  if (out.bytes != in.bytes)
    throw px::Error{px::Errc::mismatch, rank_, "ialltoallv", "",
                    "sends itself " + std::to_string(out.bytes) + " bytes, expects " + std::to_string(in.bytes)};
  if (out.bytes > 0) std::memmove(transfer.receive + in.offset, transfer.send + out.offset, out.bytes);

  Request request{*this, lane, transfer};
  for (int rank = 0; rank < size(); ++rank) {
    auto const r = static_cast<std::size_t>(rank);
    if (rank == rank_) continue;
    if (transfer.from[r].bytes > 0) request.missing_.push_back(rank);
    if (px::ByteRange const block = transfer.to[r]; block.bytes > 0) {  // a block of nothing sends no message
      Connection& connection = peers_[r].connection;
      connection.send(channel, request.operation_, transfer.send + block.offset, block.bytes);
      request.unsent_.emplace_back(rank, connection.queued());
    }
  }
  return request;
}

static_assert(px::Communicator<TcpCommunicator> && px::TellsOfAborts<TcpCommunicator>);

}  // namespace example
