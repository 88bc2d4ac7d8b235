// The example's communicator passes the whole suite, with ranks on threads, each with sockets of its own.
#include "custom_communicator/tcp_communicator.hpp"

#include <exception>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../catch.hpp"
#include "parallax/conformance/communicator.hpp"

namespace px = parallax;

namespace {

struct TcpThreads {
  int ranks;

  template <class Body>
  void run(std::chrono::nanoseconds deadline, Body const& body) const {
    std::vector<example::Listener> const listeners(static_cast<std::size_t>(ranks));
    std::vector<example::Address> addresses;
    for (example::Listener const& listener : listeners) addresses.push_back(listener.address());
    std::mutex mutex;
    std::exception_ptr failure;
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < ranks; ++rank)
      threads.emplace_back([&, rank] {
        try {
          // However short the deadline of waits is, connecting may take its time.
          auto const self = static_cast<std::size_t>(rank);
          auto sockets = connect_all(rank, listeners[self], addresses, std::chrono::seconds{60});
          example::TcpCommunicator comm{rank, std::move(sockets), deadline};
          try {
            body(comm);
          } catch (std::exception const& error) {
            comm.abort({px::Errc::user_exception, rank, "test", "", error.what()});
            throw;
          }
        } catch (...) {
          std::lock_guard const lock{mutex};
          if (!failure) failure = std::current_exception();
        }
      });
    threads.clear();
    if (failure) std::rethrow_exception(failure);
  }
};

}  // namespace

TEST_CASE("the example's communicator passes the communicators' suite", "[examples][tcp]") {
  int const ranks = GENERATE(1, 2, 3, 5);
  CAPTURE(ranks);
  parallax_conformance::check_communicator(TcpThreads{ranks});
}

TEST_CASE("the example's communicator passes the suite of failures", "[examples][tcp]") {
  parallax_conformance::check_failures(TcpThreads{3});
}

TEST_CASE("a rank whose process is gone is named, on every rank", "[examples][tcp]") {
  std::vector<std::string> seen(3);
  TcpThreads{3}.run(std::chrono::seconds{60}, [&](example::TcpCommunicator& comm) {
    if (comm.rank() == 1) return;  // its connections end, as those of a process do that was killed
    parallax_conformance::CheckedTransfer const part{comm, 1, [](int, int) { return std::size_t{100}; }};
    auto const error = parallax_conformance::error_of(comm.rank(), [&] { parallax_conformance::exchange(comm, 0, part); });
    seen[static_cast<std::size_t>(comm.rank())] = error.what();
  });
  for (int const rank : {0, 2})
    CHECK_THAT(seen[static_cast<std::size_t>(rank)],
               parallax_test::contains("transport failure (rank 1) in ialltoallv: rank 1 has closed its connection"));
}

TEST_CASE("a rank that nobody joins says so by the deadline", "[examples][tcp]") {
  example::Listener const alone;
  auto const join = [&] { connect_all(0, alone, {alone.address(), alone.address()}, std::chrono::milliseconds{50}); };
  CHECK_THROWS_WITH(join(), parallax_test::contains("parallax: timeout in connect: a rank has not connected"));
}
