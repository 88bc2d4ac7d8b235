// A communicator from outside, written from README.md and docs/ alone: ranks are threads that leave copies of blocks in queues.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <deque>
#include <exception>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include <parallax/comm/communicator.hpp>

namespace outside {

namespace px = parallax;

// What the ranks share: a queue for each pair of ranks and channel, and the first reason of an abort.
class Queues {
 public:
  explicit Queues(int ranks) : ranks_{ranks}, blocks_(static_cast<std::size_t>(ranks * ranks * px::channels)) {}

 private:
  friend class QueueCommunicator;
  struct Block {
    std::uint64_t operation;  // of its channel, so that none is taken for one of a later operation
    std::vector<std::byte> bytes;
  };
  std::deque<Block>& of(int from, int to, int channel) {
    return blocks_.at(static_cast<std::size_t>((channel * ranks_ + from) * ranks_ + to));
  }

  int ranks_;
  std::mutex mutex_;
  std::vector<std::deque<Block>> blocks_;
  std::optional<px::Error> reason_;
};

class QueueCommunicator {
 public:
  class Request {
   public:
    bool test() {
      if (missing_.empty()) return true;
      std::lock_guard const lock{comm_->queues_->mutex_};
      if (comm_->queues_->reason_) throw *comm_->queues_->reason_;
      std::erase_if(missing_, [&](int rank) { return take(rank); });
      comm_->lane(channel_).busy = !missing_.empty();
      return missing_.empty();
    }
    int waiting_for() const { return missing_.empty() ? -1 : missing_.front(); }

   private:
    friend class QueueCommunicator;
    bool take(int rank) {
      auto& blocks = comm_->queues_->of(rank, comm_->rank_, channel_);
      if (blocks.empty()) return false;
      px::ByteRange const place = transfer_.from[static_cast<std::size_t>(rank)];
      auto const& [operation, bytes] = blocks.front();
      if (operation != operation_ || bytes.size() != place.bytes)
        throw px::Error{px::Errc::mismatch, rank, "ialltoallv", "",
                        "sends " + std::to_string(bytes.size()) + " bytes in its operation " + std::to_string(operation) +
                            ", expected are " + std::to_string(place.bytes) + " in " + std::to_string(operation_)};
      std::memcpy(transfer_.receive + place.offset, bytes.data(), place.bytes);
      blocks.pop_front();
      return true;
    }

    QueueCommunicator* comm_ = nullptr;
    int channel_ = 0;
    std::uint64_t operation_ = 0;
    px::Transfer transfer_;
    std::vector<int> missing_;  // ranks whose block has not come
  };

  QueueCommunicator(int rank, Queues& queues, std::chrono::nanoseconds deadline)
      : rank_{rank}, queues_{&queues}, deadline_{deadline} {}
  int rank() const { return rank_; }
  int size() const { return queues_->ranks_; }
  std::chrono::nanoseconds deadline() const { return deadline_; }
  void abort(px::Error const& reason) {
    std::lock_guard const lock{queues_->mutex_};
    if (!queues_->reason_) queues_->reason_ = reason;
  }
  Request ialltoallv(int channel, px::Transfer const& transfer) {
    std::lock_guard const lock{queues_->mutex_};
    if (queues_->reason_) throw *queues_->reason_;
    Lane& lane = this->lane(channel);
    if (lane.busy) throw px::Error{px::Errc::misuse, rank_, "ialltoallv", "", "the channel is busy"};
    Request request;
    request.comm_ = this, request.channel_ = channel, request.operation_ = ++lane.operations, request.transfer_ = transfer;
    for (int rank = 0; rank < size(); ++rank) {
      px::ByteRange const block = transfer.to[static_cast<std::size_t>(rank)];
      std::byte const* const first = transfer.send + block.offset;
      if (block.bytes > 0) queues_->of(rank_, rank, channel).push_back({lane.operations, {first, first + block.bytes}});
      if (transfer.from[static_cast<std::size_t>(rank)].bytes > 0) request.missing_.push_back(rank);
    }
    lane.busy = !request.missing_.empty();
    return request;
  }

 private:
  struct Lane {
    std::uint64_t operations = 0;
    bool busy = false;  // with the last of them
  };
  Lane& lane(int channel) { return lanes_.at(static_cast<std::size_t>(channel)); }

  int rank_;
  Queues* queues_;
  std::chrono::nanoseconds deadline_;
  std::array<Lane, px::channels> lanes_;
};

// Calls body(communicator) on every rank, each a thread, and throws what a rank has thrown.
struct QueueRanks {
  int ranks;

  template <class Body>
  void run(std::chrono::nanoseconds deadline, Body const& body) const {
    Queues queues{ranks};
    std::vector<std::exception_ptr> thrown(static_cast<std::size_t>(ranks));
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        QueueCommunicator comm{rank, queues, deadline};
        try {
          body(comm);
        } catch (std::exception const& error) {
          comm.abort({px::Errc::user_exception, rank, "run", "", error.what()});
          thrown[static_cast<std::size_t>(rank)] = std::current_exception();
        }
      });
    threads.clear();  // joins
    for (std::exception_ptr const& error : thrown)
      if (error) std::rethrow_exception(error);
  }
};

}  // namespace outside
