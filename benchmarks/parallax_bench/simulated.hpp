// Ranks as threads whose messages take the time of a network that is not there: a clock for each rank, moved by transfers.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "parallax/comm/thread.hpp"

namespace bench {

namespace px = parallax;

// Hockney's model with full-duplex ports: what rank r receives in a transfer is there when the last of its senders has posted
// it, plus the latency, plus the larger of the bytes that the sender sends and that r receives, over the bandwidth. Local work
// takes no time. Every rank is a host.
struct NetworkModel {
  double latency = 5e-6, bytes_per_second = 12.5e9;
};

// What all ranks know of what was posted. Outlives their communicators.
class SimulatedNetwork {
 public:
  SimulatedNetwork(NetworkModel const& model, int ranks) : model_{model}, ranks_{static_cast<std::size_t>(ranks)} {}

  struct Post {
    double time = 0;
    std::size_t bytes = 0;  // to other ranks
  };
  void post(int channel, std::uint64_t number, int rank, Post const& post) {
    std::lock_guard const lock{mutex_};
    auto& transfer = transfers_[{channel, number}];
    transfer.posts.resize(ranks_);
    transfer.posts[static_cast<std::size_t>(rank)] = post;
  }
  // When a rank that posted has everything: `from` by sender.
  double arrival(int channel, std::uint64_t number, int rank, std::vector<std::size_t> const& from) {
    std::lock_guard const lock{mutex_};
    auto const found = transfers_.find({channel, number});
    auto const& posts = found->second.posts;
    std::size_t received = 0;
    for (std::size_t sender = 0; sender < ranks_; ++sender)
      if (static_cast<int>(sender) != rank) received += from[sender];
    Post const& own = posts[static_cast<std::size_t>(rank)];
    double time = own.bytes ? own.time + seconds(own.bytes) : own.time;
    for (std::size_t sender = 0; sender < ranks_; ++sender)
      if (static_cast<int>(sender) != rank && from[sender] > 0)
        time = std::max(time, std::max(posts[sender].time, own.time) + seconds(std::max(posts[sender].bytes, received)));
    if (++found->second.done == ranks_) transfers_.erase(found);
    return time;
  }

 private:
  struct Transfer {
    std::vector<Post> posts;
    std::size_t done = 0;
  };
  double seconds(std::size_t bytes) const { return model_.latency + static_cast<double>(bytes) / model_.bytes_per_second; }

  NetworkModel model_;
  std::size_t ranks_;
  std::mutex mutex_;
  std::map<std::pair<int, std::uint64_t>, Transfer> transfers_;
};

// One rank's communicator: the bytes go through `inner`, the time is the network's.
class SimulatedCommunicator {
 public:
  SimulatedCommunicator(px::ThreadCommunicator& inner, SimulatedNetwork& network) : inner_{&inner}, network_{&network} {}

  class Request {
   public:
    Request(px::request_of<px::ThreadCommunicator> inner, SimulatedCommunicator& comm, int channel)
        : inner_{std::move(inner)}, comm_{&comm}, channel_{channel} {}
    bool test() {
      if (!inner_.test()) return false;
      if (comm_) std::exchange(comm_, nullptr)->arrive(channel_);
      return true;
    }
    int waiting_for() const { return inner_.waiting_for(); }

   private:
    px::request_of<px::ThreadCommunicator> inner_;
    SimulatedCommunicator* comm_;
    int channel_;
  };

  int rank() const { return inner_->rank(); }
  int size() const { return inner_->size(); }
  auto deadline() const { return inner_->deadline(); }
  void abort(px::Error const& reason) { inner_->abort(reason); }
  bool oversubscribed() const { return inner_->oversubscribed(); }
  std::chrono::nanoseconds now() const { return std::chrono::nanoseconds{static_cast<std::int64_t>(time_ * 1e9)}; }
  double seconds() const { return time_; }

  Request ialltoallv(int channel, px::Transfer const& transfer) {
    Posted& posted = posted_[static_cast<std::size_t>(channel)];
    ++posted.number;
    posted.from.clear();
    std::size_t sent = 0;
    for (std::size_t peer = 0; peer < transfer.to.size(); ++peer) {
      if (static_cast<int>(peer) != rank()) sent += transfer.to[peer].bytes;
      posted.from.push_back(transfer.from[peer].bytes);
    }
    network_->post(channel, posted.number, rank(), {time_, sent});
    return {inner_->ialltoallv(channel, transfer), *this, channel};
  }

 private:
  struct Posted {
    std::uint64_t number = 0;
    std::vector<std::size_t> from;
  };
  void arrive(int channel) {
    Posted const& posted = posted_[static_cast<std::size_t>(channel)];
    time_ = std::max(time_, network_->arrival(channel, posted.number, rank(), posted.from));
  }

  px::ThreadCommunicator* inner_;
  SimulatedNetwork* network_;
  double time_ = 0;
  std::vector<Posted> posted_ = std::vector<Posted>(px::channels);
};

static_assert(px::Communicator<SimulatedCommunicator> && px::OwnClock<SimulatedCommunicator>);

}  // namespace bench
