// How ranks over sockets find each other, and what becomes of strangers.
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../catch.hpp"
#include "expected.hpp"
#include "parallax/detail/conformance/exchange.hpp"
#include "sockets.hpp"

namespace px = parallax;
using namespace std::chrono_literals;

namespace {

// What the construction of each of these ranks throws; nothing where it succeeds.
std::vector<std::optional<px::Error>> meet(std::vector<px::SocketOptions> const& ranks) {
  std::vector<std::optional<px::Error>> errors(ranks.size());
  px::SocketListener listener;
  std::string const address = listener.address();
  std::vector<std::jthread> threads;
  for (std::size_t i = 0; i < ranks.size(); ++i)
    threads.emplace_back([&, i] {
      px::SocketOptions mine = ranks[i];
      mine.address = address;
      try {
        if (mine.rank == 0) px::SocketCommunicator{std::move(listener), mine};
        else px::SocketCommunicator{mine};
      } catch (px::Error const& error) {
        errors[i] = error;
      }
    });
  threads.clear();
  return errors;
}

px::detail::OwnedDescriptor call(std::string const& address) {
  auto const addresses = px::detail::addresses_of(px::detail::split_address(address));
  px::detail::OwnedDescriptor socket{::socket(addresses[0].storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  if (::connect(socket.get(), addresses[0].native(), addresses[0].length) != 0) socket.close();
  return socket;
}

// Keeps what this process writes to stderr while it lives.
class HeardStderr {
 public:
  HeardStderr() : file_{std::tmpfile()}, before_{::dup(STDERR_FILENO)} { ::dup2(::fileno(file_), STDERR_FILENO); }
  HeardStderr(HeardStderr const&) = delete;
  HeardStderr& operator=(HeardStderr const&) = delete;
  ~HeardStderr() {
    ::dup2(before_, STDERR_FILENO);
    ::close(before_);
    std::fclose(file_);
  }
  std::string text() const {
    std::string all(1 << 16, '\0');
    auto const bytes = ::pread(::fileno(file_), all.data(), all.size(), 0);
    all.resize(bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
    return all;
  }
  // Waits until this has been said; false where it takes longer than a minute.
  bool hears(std::string const& words) const {
    auto const until = std::chrono::steady_clock::now() + 60s;
    for (; std::chrono::steady_clock::now() < until; std::this_thread::sleep_for(10ms))
      if (text().find(words) != std::string::npos) return true;
    return false;
  }
  int count(std::string const& words) const {
    std::string const all = text();
    int found = 0;
    for (auto at = all.find(words); at != all.npos; at = all.find(words, at + 1)) ++found;
    return found;
  }

 private:
  std::FILE* file_;
  int before_;
};

// Random bytes, of which some begin as a rank's would.
void babble(std::string const& address, std::mt19937_64& dice) {
  auto const socket = call(address);
  if (!socket) return;
  std::vector<unsigned char> bytes(dice() % 400);
  for (auto& byte : bytes) byte = static_cast<unsigned char>(dice());
  std::array<unsigned char, 16> const hello{'p', 'a', 'r', 'a', 'l', 'l', 'a', 'x', 3, 0, 0, 0, 4, 3, 2, 1};
  if (dice() % 2 == 0 && bytes.size() > hello.size()) std::copy(hello.begin(), hello.end(), bytes.begin());
  [[maybe_unused]] auto const sent = ::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

// Speaks the protocol, as a rank would that guesses the key. Whether it was believed.
bool guess(std::string const& address, int rank) {
  auto socket = call(address);
  if (!socket) return false;
  px::detail::RankFacts facts;
  facts.rank = rank, facts.size = 4;
  px::detail::Greeting greeting{std::move(socket), true, "a guess", facts, std::chrono::steady_clock::now() + 5s};
  auto state = greeting.move_on();  // its socket blocks
  while (state == px::detail::Greeting::State::pending) state = greeting.move_on();
  return state == px::detail::Greeting::State::done;
}

void exchange_numbers(px::SocketCommunicator& comm) {
  parallax_conformance::exchange_ragged(comm, 0, 7);
  parallax_conformance::exchange_ragged(comm, 3, 8);
}

}  // namespace

TEST_CASE("ranks with a key meet, and strangers do not disturb them", "[comm][socket][strangers]") {
  std::uint64_t const seed = std::random_device{}();
  CAPTURE(seed);
  px::SocketListener listener;
  std::string const address = listener.address();
  std::atomic<bool> over{false};
  std::atomic<int> strangers{0}, joins{0};
  std::jthread const noise{[&] {
    std::mt19937_64 dice{seed};
    std::vector<px::detail::OwnedDescriptor> silent;
    while (!over) {
      babble(address, dice);
      silent.push_back(call(address));  // and says nothing
      call(address);                    // a port scanner
      joins += guess(address, 1 + static_cast<int>(dice() % 3));
      strangers += 4;
      if (silent.size() > 300) silent.clear();
    }
  }};
  auto const rank_main = [&](int rank) {
    px::SocketOptions const options{.rank = rank, .size = 4, .address = address, .key = "of the job", .deadline = 20s};
    if (rank > 0) std::this_thread::sleep_for(100ms * rank);
    auto comm = rank == 0 ? px::SocketCommunicator{std::move(listener), options} : px::SocketCommunicator{options};
    for (int i = 0; i < 20; ++i) exchange_numbers(comm);
  };
  std::atomic<int> failures{0};
  {
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 4; ++rank)
      ranks.emplace_back([&, rank] {
        try {
          rank_main(rank);
        } catch (std::exception const& error) {
          std::printf("rank %d: %s\n", rank, error.what());
          ++failures;
        }
      });
  }
  over = true;
  CHECK(failures == 0);
  CHECK(strangers > 100);
  CHECK(joins == 0);
}

TEST_CASE("after the meeting nobody listens", "[comm][socket][strangers]") {
  px::SocketListener listener;
  std::string const address = listener.address();
  std::atomic<int> ready{0};
  std::jthread const other{[&] {
    px::SocketCommunicator comm{{.rank = 1, .size = 2, .address = address, .deadline = 20s}};
    ++ready;
    exchange_numbers(comm);
  }};
  px::SocketCommunicator comm{std::move(listener), {.rank = 0, .size = 2, .deadline = 20s}};
  while (ready == 0) std::this_thread::yield();
  CHECK_FALSE(call(address));
  exchange_numbers(comm);
}

TEST_CASE("a process with another key does not join", "[comm][socket][strangers]") {
  auto const errors = meet({{.rank = 0, .size = 2, .key = "of the job", .deadline = 1s},
                            {.rank = 1, .size = 2, .key = "of another job", .deadline = 1s}});
  CHECK(has(errors[0], px::Errc::timeout, "rank 1"));
  CHECK(has(errors[1], px::Errc::timeout, "PARALLAX_JOB_KEY"));
  auto const without =
      meet({{.rank = 0, .size = 2, .key = "of the job", .deadline = 1s}, {.rank = 1, .size = 2, .deadline = 1s}});
  CHECK(has(without[0], px::Errc::timeout, "rank 1"));
  CHECK(without[1]);
}

TEST_CASE("without a key only loopback addresses are met on", "[comm][socket]") {
  for (int const rank : {0, 1}) {
    std::optional<px::Error> error;
    try {
      px::SocketCommunicator{{.rank = rank, .size = 2, .address = "192.0.2.1:4711", .deadline = 300ms}};
    } catch (px::Error const& thrown) {
      error = thrown;
    }
    CHECK(has(error, px::Errc::invalid_argument, "without a key"));
  }
  std::optional<px::Error> error;
  try {
    px::SocketCommunicator{px::SocketListener{"0.0.0.0:0"}, {.rank = 0, .size = 2, .deadline = 300ms}};
  } catch (px::Error const& thrown) {
    error = thrown;
  }
  CHECK(has(error, px::Errc::invalid_argument, "without a key"));
}

TEST_CASE("ranks that do not come are named by all that did", "[comm][socket]") {
  auto const began = std::chrono::steady_clock::now();
  auto const errors = meet({{.rank = 0, .size = 5, .deadline = 1s}, {.rank = 2, .size = 5, .deadline = 1s}});
  CHECK(has(errors[0], px::Errc::timeout, "ranks 1, 3, 4"));
  CHECK(errors[0]->rank() == 1);
  CHECK(has(errors[1], px::Errc::timeout, "ranks 1, 3, 4"));
  CHECK(std::chrono::steady_clock::now() - began < 20s);
  std::optional<px::Error> alone;
  try {
    px::SocketCommunicator{{.rank = 3, .size = 5, .address = px::SocketListener{}.address(), .deadline = 300ms}};
  } catch (px::Error const& error) {
    alone = error;
  }
  CHECK(has(alone, px::Errc::timeout, "for rank 0"));
}

TEST_CASE("ranks that were told of different worlds are a mismatch", "[comm][socket]") {
  auto const sizes = meet({{.rank = 0, .size = 3, .deadline = 5s}, {.rank = 1, .size = 2, .deadline = 5s}});
  for (auto const& error : sizes) CHECK(has(error, px::Errc::mismatch, "rank 1 was told of 2 ranks, and rank 0 of 3"));
  auto const twice = meet(
      {{.rank = 0, .size = 3, .deadline = 5s}, {.rank = 1, .size = 3, .deadline = 5s}, {.rank = 1, .size = 3, .deadline = 5s}});
  for (auto const& error : twice) CHECK(has(error, px::Errc::mismatch, "two processes call themselves rank 1"));
  auto const windows =
      meet({{.rank = 0, .size = 2, .deadline = 5s}, {.rank = 1, .size = 2, .deadline = 5s, .mailbox = {.window = 3}}});
  for (auto const& error : windows) CHECK(has(error, px::Errc::mismatch, "another mailbox"));
  auto const memories =
      meet({{.rank = 0, .size = 2, .deadline = 5s}, {.rank = 1, .size = 2, .deadline = 5s, .shared_memory = false}});
  for (auto const& error : memories) CHECK(has(error, px::Errc::mismatch, "another shared_memory"));
  auto const sums = meet({{.rank = 0, .size = 2, .deadline = 5s, .checksums = true}, {.rank = 1, .size = 2, .deadline = 5s}});
  for (auto const& error : sums) CHECK(has(error, px::Errc::mismatch, "rank 0 was given checksums, and rank 1 was not"));
  CHECK(has(meet({{.rank = 3, .size = 2}})[0], px::Errc::invalid_argument, "no rank 3"));
  CHECK(has(meet({{.rank = 0, .size = 2, .mailbox = {.window = 0}}})[0], px::Errc::invalid_argument, "window"));
}

// A process of another version, as far as it comes: it says hello and hears what it is told.
TEST_CASE("a process of another version is told both versions, and so is the rank that it has called", "[comm][socket]") {
  std::array<unsigned char, 48> hello{'p', 'a', 'r', 'a', 'l', 'l', 'a', 'x', 2, 0, 0, 0, 4, 3, 2, 1}, heard{};
  px::SocketListener listener;
  std::string const address = listener.address();
  std::jthread const older{[&] {
    auto const socket = call(address);
    [[maybe_unused]] auto const sent = ::send(socket.get(), hello.data(), hello.size(), MSG_NOSIGNAL);
    [[maybe_unused]] auto const got = ::recv(socket.get(), heard.data(), heard.size(), MSG_WAITALL);
  }};
  std::optional<px::Error> error;
  try {
    px::SocketCommunicator{std::move(listener), {.rank = 0, .size = 2, .deadline = 1s}};
  } catch (px::Error const& thrown) {
    error = thrown;
  }
  std::string const words = "speaks version 2 of the protocol, and this rank version 3: build the programs of all ranks";
  CHECK(has(error, px::Errc::timeout, words));
  CHECK(heard[8] == 3);

  px::SocketListener other;  // which answers in the place of rank 0
  std::string const there = other.address();
  std::jthread const called{[&] {
    auto const to = px::detail::addresses_of(px::detail::split_address(there))[0];
    { px::SocketListener const gone{std::move(other)}; }
    auto const listening = px::detail::listening_socket(to);
    pollfd waits{listening.get(), POLLIN, 0};
    if (::poll(&waits, 1, 10'000) != 1) return;
    px::detail::OwnedDescriptor const caller{::accept(listening.get(), nullptr, nullptr)};
    [[maybe_unused]] auto const sent = ::send(caller.get(), hello.data(), hello.size(), MSG_NOSIGNAL);
    std::this_thread::sleep_for(500ms);
  }};
  error.reset();
  try {
    px::SocketCommunicator{{.rank = 1, .size = 2, .address = there, .deadline = 2s}};
  } catch (px::Error const& thrown) {
    error = thrown;
  }
  CHECK(has(error, px::Errc::timeout, words));
}

// Two ends of a connection, of which one is a rank's and the other says what it has heard before.
TEST_CASE("a proof that is sent back, or was recorded, proves nothing", "[comm][socket][strangers]") {
  using px::detail::Greeting;
  px::detail::RankFacts first, second;
  first.rank = 0, second.rank = 1;
  first.size = second.size = 2;
  auto const ends = [] {
    int both[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both) == 0);
    return std::pair{px::detail::OwnedDescriptor{both[0]}, px::detail::OwnedDescriptor{both[1]}};
  };
  auto const later = std::chrono::steady_clock::now() + 20s;
  auto const heard = [](px::detail::OwnedDescriptor const& socket) {
    std::vector<char> bytes(1000);
    auto const got = ::recv(socket.get(), bytes.data(), bytes.size(), 0);
    bytes.resize(got > 0 ? static_cast<std::size_t>(got) : 0);
    return bytes;
  };
  auto const say = [](px::detail::OwnedDescriptor const& socket, std::vector<char> const& bytes) {
    REQUIRE(::send(socket.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL) == static_cast<::ssize_t>(bytes.size()));
  };

  SECTION("a caller is told what it has said") {
    auto [mine, theirs] = ends();
    Greeting greeting{std::move(mine), true, "a key", second, later};
    greeting.move_on();
    say(theirs, heard(theirs));  // its hello
    greeting.move_on();
    say(theirs, heard(theirs));  // its proof
    CHECK(greeting.move_on() == Greeting::State::failed);
    CHECK(greeting.why() == "does not know the key of this job");
  }
  SECTION("what both have said is said again") {
    auto [one, to_one] = ends();
    auto [two, to_two] = ends();
    Greeting caller{std::move(one), true, "a key", second, later}, called{std::move(two), false, "a key", first, later};
    std::vector<std::vector<char>> by_caller, by_called;
    for (int round = 0; round < 2; ++round) {
      caller.move_on();
      by_caller.push_back(heard(to_one));
      say(to_two, by_caller.back());
      called.move_on();
      by_called.push_back(heard(to_two));
      say(to_one, by_called.back());
    }
    CHECK(caller.move_on() == Greeting::State::done);
    CHECK(called.move_on() == Greeting::State::done);

    auto [three, to_three] = ends();
    Greeting next_called{std::move(three), false, "a key", first, later};
    say(to_three, by_caller[0]);
    next_called.move_on();
    say(to_three, by_caller[1]);
    CHECK(next_called.move_on() == Greeting::State::failed);
    CHECK(next_called.why() == "does not know the key of this job");

    auto [four, to_four] = ends();
    Greeting next_caller{std::move(four), true, "a key", second, later};
    next_caller.move_on();
    say(to_four, by_called[0]);
    next_caller.move_on();
    say(to_four, by_called[1]);
    CHECK(next_caller.move_on() == Greeting::State::failed);
    CHECK(next_caller.why() == "does not know the key of this job");
  }
}

TEST_CASE("a world may meet by IPv6", "[comm][socket]") {
  std::optional<px::SocketListener> listener;
  try {
    listener.emplace("[::1]:0");
  } catch (px::Error const&) {
    WARN("this machine has no IPv6");
    return;
  }
  std::string const address = listener->address();
  CHECK(address.starts_with("[::1]:"));
  std::vector<std::jthread> others;
  for (int rank = 1; rank < 3; ++rank)
    others.emplace_back([&, rank] {
      px::SocketCommunicator comm{{.rank = rank, .size = 3, .address = address, .deadline = 20s}};
      exchange_numbers(comm);
    });
  px::SocketCommunicator comm{std::move(*listener), {.rank = 0, .size = 3, .deadline = 20s}};
  exchange_numbers(comm);
}

TEST_CASE("rank 0 may be the last to come", "[comm][socket]") {
  std::string const address = px::SocketListener{}.address();  // which is free again
  std::vector<std::jthread> ranks;
  std::atomic<int> there{0};
  for (int rank = 2; rank >= 0; --rank)
    ranks.emplace_back([&, rank] {
      if (rank == 0) std::this_thread::sleep_for(200ms);
      px::SocketCommunicator comm{{.rank = rank, .size = 3, .address = address, .deadline = 20s}};
      exchange_numbers(comm);
      ++there;
    });
  ranks.clear();
  CHECK(there == 3);
}

TEST_CASE("a rank that has waited for some seconds says once for whom, and where", "[comm][socket]") {
  px::SocketListener listener;
  // Below the ports that systems give away: a call of one of those may meet itself.
  std::string const here = listener.address(), nowhere = "127.0.0.1:" + std::to_string(20000 + ::getpid() % 12000);
  std::string const come = "parallax: rank 0 waits: ranks 1, 2 have not come to " + here + " yet\n";
  std::string const answer = "parallax: rank 1 waits: rank 0 has not come yet: " + nowhere + ": ";
  std::atomic<int> there{0};
  HeardStderr heard;
  std::vector<std::jthread> ranks;
  auto const join = [&](std::string const& address, int rank, int size) {
    ranks.emplace_back([&there, &listener, address, own = address == here && rank == 0, rank, size] {
      px::SocketOptions const options{.rank = rank, .size = size, .address = address, .deadline = 180s};
      auto comm = own ? px::SocketCommunicator{std::move(listener), options} : px::SocketCommunicator{options};
      exchange_numbers(comm);
      ++there;
    });
  };
  join(here, 0, 3);
  join(nowhere, 1, 2);
  bool const both = heard.hears(come) && heard.hears(answer);
  join(here, 1, 3), join(here, 2, 3), join(nowhere, 0, 2);
  ranks.clear();
  CAPTURE(heard.text());
  CHECK(both);
  CHECK(there == 5);
  CHECK(heard.count(" waits: ") == 2);
}

TEST_CASE("addresses are read as they are written", "[comm][socket]") {
  CHECK(px::detail::split_address("[fe80::1]:80").host == "fe80::1");
  CHECK(px::detail::split_address("node-7.local:29500").port == "29500");
  for (char const* wrong : {"", "host", "host:", ":80", "host:65536", "host:8o", "host:999999", "host:-1"})
    CHECK_THROWS_AS(px::detail::split_address(wrong), px::Error);
}

TEST_CASE("the environment says who a process is", "[comm][socket]") {
  CHECK_FALSE(px::socket_options_from_environment());
  Variable const rank{"RANK", "2"};
  CHECK_THROWS_AS(px::socket_options_from_environment(), px::Error);
  Variable const size{"WORLD_SIZE", "4"}, port{"MASTER_PORT", "4711"};
  CHECK_THROWS_AS(px::socket_options_from_environment(), px::Error);
  Variable const host{"MASTER_ADDR", "node-7"};
  auto options = px::socket_options_from_environment();
  REQUIRE(options);
  CHECK(options->rank == 2);
  CHECK(options->size == 4);
  CHECK(options->address == "node-7:4711");
  CHECK(options->key.empty());
  {
    Variable const own{"PARALLAX_PORT", "4712"};
    CHECK(px::socket_options_from_environment()->address == "node-7:4712");
  }
  {
    Variable const key{"PARALLAX_JOB_KEY", "secret"}, six{"MASTER_ADDR", "::1"};
    options = px::socket_options_from_environment();
    CHECK(options->key == "secret");
    CHECK(options->address == "[::1]:4711");
  }
  for (char const* wrong : {"", "x", "4x", "-1", "99999999999"}) {
    Variable const bad{"RANK", wrong};
    CHECK_THROWS_AS(px::socket_options_from_environment(), px::Error);
  }
}

TEST_CASE("a key in a file is read where only its owner may read it", "[comm][socket]") {
  char path[] = "/tmp/parallax_key_XXXXXX";
  px::detail::OwnedDescriptor const file{::mkstemp(path)};
  std::ofstream{path} << "from a file\n";
  CHECK(px::detail::key_in_file(path) == "from a file");
  ::chmod(path, 0640);
  CHECK_THROWS_AS(px::detail::key_in_file(path), px::Error);
  ::chmod(path, 0600);
  std::ofstream{path, std::ios::trunc} << "\n";
  CHECK_THROWS_AS(px::detail::key_in_file(path), px::Error);
  std::remove(path);
  CHECK_THROWS_AS(px::detail::key_in_file(path), px::Error);
}
