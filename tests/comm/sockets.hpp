// Ranks over sockets that are threads of one process: what tests of SocketCommunicator run on.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "parallax/comm/socket.hpp"

// Runs body(communicator) on every rank of a fresh world over loopback, and rethrows what came first.
template <class Body>
void run_sockets(int ranks, Body const& body, parallax::SocketOptions options = {}) {
  parallax::SocketListener listener;
  options.address = listener.address();
  options.size = ranks;
  if (options.meeting_deadline.count() == 0) options.meeting_deadline = std::chrono::seconds{60};
  std::mutex mutex;
  std::exception_ptr first;
  auto const rank_main = [&](int rank) {
    auto mine = options;
    mine.rank = rank;
    try {
      parallax::SocketCommunicator comm =
          rank == 0 ? parallax::SocketCommunicator{std::move(listener), mine} : parallax::SocketCommunicator{mine};
      try {
        body(comm);
      } catch (...) {
        {
          std::lock_guard const lock{mutex};
          if (!first) first = std::current_exception();
        }
        comm.abort(parallax::current_error(rank, "a test"));
      }
    } catch (...) {
      std::lock_guard const lock{mutex};
      if (!first) first = std::current_exception();
    }
  };
  {
    std::vector<std::jthread> others;
    for (int rank = 1; rank < ranks; ++rank) others.emplace_back(rank_main, rank);
    rank_main(0);
  }
  if (first) std::rethrow_exception(first);
}

// The model of the conformance suites.
struct Sockets {
  int ranks;
  int window = 3;
  bool shared_memory = true, checksums = false;

  template <class Body>
  void run(std::chrono::nanoseconds deadline, Body const& body) const {
    run_sockets(ranks, body,
                {.deadline = deadline,
                 .shared_memory = shared_memory,
                 .checksums = checksums,
                 .mailbox = {.window = window, .largest = 100'000}});
  }
};
