// Ranks over sockets that are processes of a test, which kills and stops them, and what they tell of their ends.
#pragma once

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "../support/size.hpp"
#include "parallax/comm/socket.hpp"

namespace socket_job {

namespace px = parallax;
using namespace std::chrono_literals;

using Clock = std::chrono::steady_clock;

// A transfer of so many bytes to every other rank, and from each.
struct All {
  All(px::SocketCommunicator const& comm, std::size_t bytes)
      : send(bytes, std::byte{1}), receive(bytes * static_cast<std::size_t>(comm.size())) {
    for (int rank = 0; rank < comm.size(); ++rank) {
      std::size_t const here = rank == comm.rank() ? 0 : bytes;
      to.push_back({0, here});
      from.push_back({static_cast<std::size_t>(rank) * bytes, here});
    }
  }
  px::Transfer transfer() { return {send.data(), to, receive.data(), from}; }

  std::vector<std::byte> send, receive;
  std::vector<px::ByteRange> to, from;
};

inline void exchange(px::SocketCommunicator& comm, std::size_t bytes) {
  All all{comm, bytes};
  auto request = comm.ialltoallv(0, all.transfer());
  px::wait(comm, request, "a test");
}

// The Error of a rank that exchanges until it has one.
inline px::Error error_of(px::SocketCommunicator& comm, std::size_t bytes) {
  try {
    for (;;) exchange(comm, bytes);
  } catch (px::Error const& error) {
    return error;
  }
}

// What a process tells of its end.
struct Report {
  int rank = -1, code = 0, blamed = -1;
  Clock::rep at = 0;  // of the steady clock, which all processes share
  char words[200] = {};
};

using Work = std::function<void(px::SocketCommunicator&)>;

// Exchanges blocks until that fails.
inline Work exchanging(std::size_t bytes) {
  return [bytes](px::SocketCommunicator& comm) {
    for (;;) exchange(comm, bytes);
  };
}

// Three processes that work until they fail, and what they tell of it.
struct Job {
  static constexpr int ranks = 3;
  std::array<pid_t, ranks> processes{};
  std::array<int, 2> pipe{};

  // `prepare(rank)` is called in the process of each rank.
  explicit Job(Work const& work, px::SocketOptions options = {.deadline = 20s}, std::function<void(int)> const& prepare = {}) {
    REQUIRE(::pipe(pipe.data()) == 0);
    auto listener = std::make_unique<px::SocketListener>();
    options.size = ranks;
    options.address = listener->address();
    options.key = "a key";
    options.meeting_deadline = 20s;
    for (int rank = 0; rank < ranks; ++rank) {
      processes[static_cast<std::size_t>(rank)] = ::fork();
      if (processes[static_cast<std::size_t>(rank)] != 0) continue;
      auto mine = options;
      mine.rank = rank;
      if (prepare) prepare(rank);
      run(std::move(listener), mine, work);
      ::_exit(0);
    }
    ::close(pipe[1]);
  }
  ~Job() {
    ::close(pipe[0]);
    for (pid_t const process : processes) {
      ::kill(process, SIGKILL);
      ::waitpid(process, nullptr, 0);
    }
  }

  void run(std::unique_ptr<px::SocketListener> listener, px::SocketOptions const& options, Work const& work) {
    Report report{.rank = options.rank};
    auto const note = [&](px::Error const& error) {
      report.code = static_cast<int>(error.code());
      report.blamed = error.rank();
      std::strncpy(report.words, error.what(), sizeof report.words - 1);
    };
    try {
      if (options.rank != 0) listener.reset();
      px::SocketCommunicator comm =
          listener ? px::SocketCommunicator{std::move(*listener), options} : px::SocketCommunicator{options};
      listener.reset();
      exchange(comm, 8);
      [[maybe_unused]] auto const told = ::write(pipe[1], &report, sizeof report);
      try {
        work(comm);
      } catch (px::Error const&) {
        report.at = Clock::now().time_since_epoch().count();
        throw;
      }
    } catch (px::Error const& error) {
      note(error);
    }
    [[maybe_unused]] auto const told = ::write(pipe[1], &report, sizeof report);
  }
  Report next() {
    Report report;
    REQUIRE(::read(pipe[0], &report, sizeof report) == sizeof report);
    return report;
  }
  void together() {
    for (int i = 0; i < ranks; ++i) REQUIRE(next().code == 0);
  }
};

// How much later than it must a failure may be named: promised on a machine that does nothing else, and elsewhere.
inline std::chrono::nanoseconds late() { return parallax_test::sized<std::chrono::nanoseconds>(10s, 3s, 250ms); }

// Sends a rank the signal; all others must end with this error, which names that rank, so long after it and a little.
inline void strike(Job& job, int victim, int signal, px::Errc expected, std::chrono::nanoseconds after) {
  auto const began = Clock::now();
  ::kill(job.processes[static_cast<std::size_t>(victim)], signal);
  for (int i = 0; i < Job::ranks - 1; ++i) {
    Report const report = job.next();
    CAPTURE(report.rank, report.words);
    CHECK(report.rank != victim);
    CHECK(report.code == static_cast<int>(expected));
    CHECK(report.blamed == victim);
    CHECK(Clock::time_point{Clock::duration{report.at}} - began < after + late());
  }
}

}  // namespace socket_job
