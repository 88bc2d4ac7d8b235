// A communicator that does whatever the concept allows and nobody hopes for: late, out of order, in pieces, failing, limited.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "parallax/comm/communicator.hpp"

namespace parallax_test {

// What a hostile communicator does; nothing, as it stands. `seed` and `largest` are alike on all ranks, the others need not be.
struct Hostility {
  static constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

  std::uint64_t seed = 1;
  int latest = 0;         // an operation is reported complete up to so many polls after it is
  bool reversed = false;  // of complete operations on several channels, the one posted last is reported first
  int naps = 0;           // some postings sleep up to so many microseconds
  std::size_t largest = unlimited;  // bytes of a block that travel at once: what is larger goes piece after piece
  std::size_t limit = unlimited;    // the transport refuses (Error transport) blocks of more bytes
  std::int64_t fails_at = -1;       // this call of ialltoallv or test, counted from 0, throws Error (transport)
  std::function<void(int channel)> before = {};  // called at the beginning of ialltoallv; may block or throw
  std::function<std::chrono::nanoseconds()> clock = {};  // the time, if not the steady clock's
};

// One rank's end. Refers to the communicator inside, which must outlive it and stay where it is; move-only. Where `largest`
// is set, every operation is begun by one that tells each peer the size of its block and the number of pieces, so that all
// ranks post as many.
template <parallax::Communicator C>
class HostileCommunicator {
 public:
  class Request;

  HostileCommunicator(C& inside, Hostility hostility) : end_{std::make_unique<End>(inside, std::move(hostility))} {}

  int rank() const { return end_->inside.rank(); }
  int size() const { return end_->inside.size(); }
  std::chrono::nanoseconds deadline() const { return end_->inside.deadline(); }
  std::chrono::nanoseconds now() const {
    return end_->hostility.clock ? end_->hostility.clock() : parallax::now(end_->inside);
  }
  bool oversubscribed() const {
    if constexpr (parallax::KnowsOversubscription<C>) return end_->inside.oversubscribed();
    return false;
  }
  void abort(parallax::Error const& reason) { end_->inside.abort(reason); }

  // What ranks are doing is known to those inside.
  auto& journal() requires requires(C& comm) { comm.journal(); } { return end_->inside.journal(); }
  auto status_of(int rank, bool& fresh) requires requires(C& comm) { comm.status_of(rank, fresh); } {
    return end_->inside.status_of(rank, fresh);
  }
  void answer() requires requires(C& comm) { comm.answer(); } { end_->inside.answer(); }

  Request ialltoallv(int channel, parallax::Transfer const& transfer) {
    end_->post(channel, transfer);
    return Request{end_.get(), channel};
  }

  std::int64_t calls() const { return end_->calls; }  // of ialltoallv and test so far

 private:
  using ByteRange = parallax::ByteRange;
  using Error = parallax::Error;

  // What each rank tells each other before the pieces.
  struct Header {
    std::uint64_t bytes = 0, pieces = 0;
  };

  enum class Stage : unsigned char { idle, headers, pieces, complete };

  // The operation in flight on one channel.
  struct Lane {
    Stage stage = Stage::idle;
    parallax::Transfer transfer;
    std::optional<parallax::request_of<C>> inner;
    std::vector<Header> told, heard;
    std::vector<ByteRange> to, from;  // of the inner operation in flight
    std::size_t piece = 0, pieces = 0;
    std::uint64_t posted = 0;  // its number among all operations of this rank
    int late = 0, patience = 0;
  };

  struct End {
    End(C& given, Hostility what) : inside{given}, hostility{std::move(what)}, state{hostility.seed} {
      auto const ranks = static_cast<std::size_t>(inside.size());
      random();
      state += static_cast<std::uint64_t>(inside.rank()) * 0x9e3779b97f4a7c15u;
      for (Lane& lane : lanes) {
        lane.told.resize(ranks), lane.heard.resize(ranks);
        lane.to.resize(ranks), lane.from.resize(ranks);
      }
    }

    void post(int channel, parallax::Transfer const& transfer) {
      if (hostility.before) hostility.before(channel);
      count_call("ialltoallv");
      if (hostility.naps > 0 && random() % 4 == 0)
        std::this_thread::sleep_for(std::chrono::microseconds{random() % static_cast<std::uint64_t>(hostility.naps)});
      Lane& lane = lanes[static_cast<std::size_t>(channel)];
      if (lane.stage != Stage::idle)
        throw Error{parallax::Errc::misuse, inside.rank(), "ialltoallv", "", "an operation is in flight on this channel"};
      lane.transfer = transfer;
      lane.late = hostility.latest > 0 ? static_cast<int>(random() % static_cast<std::uint64_t>(hostility.latest + 1)) : 0;
      lane.patience = hostility.reversed ? 50 : 0;
      lane.posted = ++operations;
      lane.piece = 0;
      if (hostility.largest == Hostility::unlimited) {
        hand_over(channel, lane, transfer);
        lane.pieces = 0;
        lane.stage = Stage::pieces;
        return;
      }
      copy_own_block(transfer);
      std::size_t largest = 0;
      for (ByteRange const& block : transfer.to) largest = std::max(largest, block.bytes);
      for (ByteRange const& block : transfer.from) largest = std::max(largest, block.bytes);
      lane.pieces = largest / hostility.largest + (largest % hostility.largest > 0);
      for (std::size_t r = 0; r < lane.told.size(); ++r) {
        lane.told[r] = {transfer.to[r].bytes, lane.pieces};
        lane.to[r] = lane.from[r] = other(r) ? ByteRange{r * sizeof(Header), sizeof(Header)} : ByteRange{};
      }
      lane.inner.emplace(inside.ialltoallv(channel, {reinterpret_cast<std::byte const*>(lane.told.data()), lane.to,
                                                     reinterpret_cast<std::byte*>(lane.heard.data()), lane.from}));
      lane.stage = Stage::headers;
    }

    bool test(int channel) {
      count_call("test");
      for (std::size_t other = 0; other < lanes.size(); ++other) advance(static_cast<int>(other), lanes[other]);
      Lane& lane = lanes[static_cast<std::size_t>(channel)];
      if (lane.stage == Stage::idle) return true;
      if (lane.stage != Stage::complete) return false;
      if (lane.late > 0 && lane.late--) return false;
      bool const later_one = std::ranges::any_of(lanes, [&](Lane const& l) {
        return l.stage == Stage::complete && l.posted > lane.posted;
      });
      if (later_one && lane.patience > 0 && lane.patience--) return false;
      lane.stage = Stage::idle;
      return true;
    }

    int waiting_for(int channel) const {
      Lane const& lane = lanes[static_cast<std::size_t>(channel)];
      return lane.inner ? lane.inner->waiting_for() : -1;
    }

    void withdraw(int channel) noexcept {
      Lane& lane = lanes[static_cast<std::size_t>(channel)];
      lane.inner.reset();
      lane.stage = Stage::idle;
    }

    void advance(int channel, Lane& lane) {
      while (lane.inner && lane.inner->test()) {
        lane.inner.reset();
        if (lane.stage == Stage::headers) read_headers(lane);
        if (lane.piece < lane.pieces) post_piece(channel, lane);
        else lane.stage = Stage::complete;
      }
    }

    void read_headers(Lane& lane) {
      for (std::size_t r = 0; r < lane.heard.size(); ++r) {
        if (!other(r)) continue;
        if (lane.heard[r].bytes != lane.transfer.from[r].bytes)
          throw Error{parallax::Errc::mismatch, static_cast<int>(r), "ialltoallv", "",
                      "rank " + std::to_string(r) + " sent " + std::to_string(lane.heard[r].bytes) + " bytes where " +
                          std::to_string(lane.transfer.from[r].bytes) + " were expected by rank " +
                          std::to_string(inside.rank())};
        lane.pieces = std::max(lane.pieces, static_cast<std::size_t>(lane.heard[r].pieces));
      }
      lane.stage = Stage::pieces;
    }

    void post_piece(int channel, Lane& lane) {
      std::size_t const begin = lane.piece++ * hostility.largest;
      for (std::size_t r = 0; r < lane.to.size(); ++r) {
        lane.to[r] = other(r) ? part(lane.transfer.to[r], begin) : ByteRange{};
        lane.from[r] = other(r) ? part(lane.transfer.from[r], begin) : ByteRange{};
      }
      hand_over(channel, lane, {lane.transfer.send, lane.to, lane.transfer.receive, lane.from});
    }
    ByteRange part(ByteRange const& block, std::size_t begin) const {
      std::size_t const from = std::min(begin, block.bytes);
      return {block.offset + from, std::min(block.bytes - from, hostility.largest)};
    }

    void hand_over(int channel, Lane& lane, parallax::Transfer const& transfer) {
      for (std::size_t r = 0; r < transfer.to.size(); ++r)
        if (other(r) && std::max(transfer.to[r].bytes, transfer.from[r].bytes) > hostility.limit)
          throw Error{parallax::Errc::transport, inside.rank(), "ialltoallv", "",
                      "a block of " + std::to_string(std::max(transfer.to[r].bytes, transfer.from[r].bytes)) +
                          " bytes exceeds the limit of " + std::to_string(hostility.limit)};
      lane.inner.emplace(inside.ialltoallv(channel, transfer));
    }

    void copy_own_block(parallax::Transfer const& transfer) const {
      auto const self = static_cast<std::size_t>(inside.rank());
      ByteRange const out = transfer.to[self], in = transfer.from[self];
      if (out.bytes != in.bytes)
        throw Error{parallax::Errc::mismatch, inside.rank(), "ialltoallv", "",
                    "sends to itself " + std::to_string(out.bytes) + " bytes but expects " + std::to_string(in.bytes)};
      if (out.bytes) std::memmove(transfer.receive + in.offset, transfer.send + out.offset, out.bytes);
    }

    void count_call(char const* name) {
      if (calls++ == hostility.fails_at)
        throw Error{parallax::Errc::transport, inside.rank(), name, "",
                    "call " + std::to_string(hostility.fails_at) + " of this communicator fails"};
    }
    bool other(std::size_t r) const { return r != static_cast<std::size_t>(inside.rank()); }
    std::uint64_t random() {
      std::uint64_t z = (state += 0x9e3779b97f4a7c15u);
      z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
      z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
      return z ^ (z >> 31);
    }

    C& inside;
    Hostility hostility;
    std::uint64_t state, operations = 0;
    std::int64_t calls = 0;
    std::array<Lane, parallax::channels> lanes;
  };

  std::unique_ptr<End> end_;
};

// A token on an operation in flight; does not outlive the communicator.
template <parallax::Communicator C>
class HostileCommunicator<C>::Request {
 public:
  Request(Request&& other) noexcept : end_{std::exchange(other.end_, nullptr)}, channel_{other.channel_} {}
  Request& operator=(Request&& other) noexcept {
    if (this != &other) {
      drop();
      end_ = std::exchange(other.end_, nullptr);
      channel_ = other.channel_;
    }
    return *this;
  }
  ~Request() { drop(); }

  bool test() {
    if (end_ && end_->test(channel_)) end_ = nullptr;
    return !end_;
  }
  int waiting_for() const { return end_ ? end_->waiting_for(channel_) : -1; }

 private:
  friend class HostileCommunicator;
  Request(End* end, int channel) : end_{end}, channel_{channel} {}
  void drop() noexcept {
    if (end_) end_->withdraw(channel_);
    end_ = nullptr;
  }

  End* end_;
  int channel_;
};

}  // namespace parallax_test
