#include "parallax/comm/thread.hpp"

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <memory>
#include <stdexcept>
#include <string_view>
#include <thread>
#include <vector>

#include "../catch.hpp"
#include "parallax/conformance/communicator.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

struct Threads {
  int ranks;

  template <class Body>
  void run(std::chrono::nanoseconds deadline, Body const& body) const {
    px::run_threads(ranks, body, {deadline});
  }
};

// Posts nothing to and expects `bytes` from every rank; or the other way round.
struct OneWay {
  OneWay(int size, std::size_t to_bytes, std::size_t from_bytes)
      : to(static_cast<std::size_t>(size), {0, to_bytes}), from(static_cast<std::size_t>(size), {0, from_bytes}) {}

  std::vector<std::byte> memory = std::vector<std::byte>(64);
  std::vector<px::ByteRange> to, from;
  px::Transfer transfer() { return {memory.data(), to, memory.data(), from}; }
};

}  // namespace

TEST_CASE("threads pass the communicators' suite", "[comm][thread]") {
  int const ranks = GENERATE(1, 2, 3, 4, 8);
  auto const seed = GENERATE(std::uint64_t{1}, std::uint64_t{20260701});
  CAPTURE(ranks, seed);
  parallax_conformance::check_communicator(Threads{ranks}, seed);
}

TEST_CASE("threads pass the suite of failures", "[comm][thread]") {
  int const ranks = GENERATE(3, 8);
  CAPTURE(ranks);
  parallax_conformance::check_failures(Threads{ranks});
}

TEST_CASE("an exception that leaves a rank wakes the others and is rethrown", "[comm][thread]") {
  int const ranks = GENERATE(2, 5);
  int const culprit = GENERATE(0, 1);
  std::atomic<int> told{0};
  auto const body = [&](px::ThreadCommunicator& comm) {
    OneWay part{comm.size(), 8, 8};
    for (px::ByteRange& block : part.from) block.offset = 8u * static_cast<std::size_t>(&block - part.from.data());
    try {
      if (comm.rank() == culprit) throw std::runtime_error{"the batch is empty"};
      auto request = comm.ialltoallv(0, part.transfer());
      px::wait(comm, request, "a test");
    } catch (px::Error const& error) {
      told += error.code() == px::Errc::user_exception && error.rank() == culprit && error.detail() == "the batch is empty";
      throw;
    }
  };
  CHECK_THROWS_WITH(px::run_threads(ranks, body), "the batch is empty");
  CHECK(told == ranks - 1);
}

TEST_CASE("a rank that aborts as it leaves by an exception does not hide what the exception says", "[comm][thread]") {
  std::atomic<int> told{0};
  auto const body = [&](px::ThreadCommunicator& comm) {
    OneWay part{comm.size(), 0, 0};
    part.from[0].bytes = 8;
    if (comm.rank() == 0) {
      comm.abort({px::Errc::aborted, 0, "", "", "left by an exception"});
      throw std::runtime_error{"the cause"};
    }
    try {
      auto request = comm.ialltoallv(0, part.transfer());
      px::wait(comm, request, "a test");
    } catch (px::Error const& error) {
      told += error.detail() == "the cause";
    }
  };
  CHECK_THROWS_WITH(px::run_threads(2, body), "the cause");
  CHECK(told == 1);
}

TEST_CASE("a block that was withdrawn is not read", "[comm][thread]") {
  auto const group = std::make_shared<px::ThreadGroup>(2);
  px::ThreadCommunicator sender{group, 0}, receiver{group, 1};
  OneWay out{2, 0, 0}, in{2, 0, 0};
  out.to[1].bytes = in.from[0].bytes = 8;
  auto arriving = receiver.ialltoallv(0, in.transfer());
  { auto const withdrawn = sender.ialltoallv(0, out.transfer()); }
  CHECK_FALSE(arriving.test());
  CHECK(arriving.waiting_for() == 0);
}

TEST_CASE("who sends a small block is done, also where nobody has taken it yet", "[comm][thread]") {
  auto const group = std::make_shared<px::ThreadGroup>(2);
  px::ThreadCommunicator sender{group, 0}, receiver{group, 1};
  OneWay out{2, 0, 0}, in{2, 0, 0};
  out.to[1].bytes = in.from[0].bytes = 64;
  for (int operation = 1; operation <= 2; ++operation) {
    out.memory.assign(64, static_cast<std::byte>(operation));
    CHECK(sender.ialltoallv(0, out.transfer()).test());
  }
  out.memory.assign(64, std::byte{3});
  auto third = sender.ialltoallv(0, out.transfer());
  CHECK_FALSE(third.test());  // there are two boxes
  CHECK(third.waiting_for() == 1);
  for (int operation = 1; operation <= 3; ++operation) {
    auto arriving = receiver.ialltoallv(0, in.transfer());
    if (operation == 3) CHECK(third.test());
    CHECK(arriving.test());
    CHECK(in.memory == std::vector<std::byte>(64, static_cast<std::byte>(operation)));
  }
  out.memory.resize(65), in.memory.resize(65);
  out.to[1].bytes = in.from[0].bytes = 65;
  auto large = sender.ialltoallv(0, out.transfer());
  CHECK_FALSE(large.test());
  CHECK(receiver.ialltoallv(0, in.transfer()).test());
  CHECK(large.test());
}

TEST_CASE("a small block that nobody expected is an error of the operation that meets it", "[comm][thread]") {
  auto const group = std::make_shared<px::ThreadGroup>(2);
  px::ThreadCommunicator sender{group, 0}, receiver{group, 1};
  OneWay out{2, 0, 0}, nothing{2, 0, 0}, in{2, 0, 0};
  out.to[1].bytes = in.from[0].bytes = 8;
  CHECK(sender.ialltoallv(0, out.transfer()).test());
  CHECK(receiver.ialltoallv(0, nothing.transfer()).test());
  int const silent = GENERATE(0, 1);  // operations in between
  for (int operation = 0; operation < silent; ++operation) {
    CHECK(sender.ialltoallv(0, nothing.transfer()).test());
    CHECK(receiver.ialltoallv(0, nothing.transfer()).test());
  }
  auto next = sender.ialltoallv(0, out.transfer());
  auto arriving = receiver.ialltoallv(0, in.transfer());
  CHECK_THROWS_WITH(arriving.test(), parallax_test::contains("rank 0 has sent bytes before that were not expected by rank 1"));
}

TEST_CASE("a rank that sends nothing where a block is expected is found out, however far on it is", "[comm][thread]") {
  int const sent = GENERATE(0, 1, 2);  // afterwards
  auto const group = std::make_shared<px::ThreadGroup>(2);
  px::ThreadCommunicator sender{group, 0}, receiver{group, 1};
  OneWay out{2, 0, 0}, nothing{2, 0, 0}, in{2, 0, 0};
  out.to[1].bytes = in.from[0].bytes = 8;
  CHECK(sender.ialltoallv(0, nothing.transfer()).test());
  for (int block = 0; block < sent; ++block) CHECK(sender.ialltoallv(0, out.transfer()).test());
  auto arriving = receiver.ialltoallv(0, in.transfer());
  if (sent == 0) CHECK_FALSE(arriving.test());  // nothing says yet that no block is to come
  else CHECK_THROWS_WITH(arriving.test(), parallax_test::contains("rank 0 sent nothing in this operation to rank 1"));
}

TEST_CASE("who tells where memory lies finds out when all have read it", "[comm][thread]") {
  auto const group = std::make_shared<px::ThreadGroup>(3);
  std::vector<px::ThreadCommunicator> ranks;
  for (int rank = 0; rank < 3; ++rank) ranks.emplace_back(group, rank);
  CHECK(ranks[1].unread() == -1);
  ranks[0].begin_reading();  // what a flight was told, which is no turn
  ranks[0].end_reading();
  ranks[0].begin_reading();
  ranks[1].begin_reading();
  ranks[1].end_reading();
  ranks[1].take_turn();
  CHECK(ranks[1].unread() == 2);
  ranks[2].take_turn();
  CHECK(ranks[1].unread() == 0);
  ranks[0].end_reading();
  CHECK(ranks[1].unread() == 0);
  ranks[0].take_turn();
  for (auto const& rank : ranks) CHECK(rank.unread() == -1);

  // Who aborts waits for those who read, and from then on nobody does.
  ranks[0].begin_reading();
  ranks[1].abort({px::Errc::user_exception, 1, "", "", "leaves"});
  std::atomic<bool> over{false};
  {
    std::jthread const waits{[&] {
      ranks[1].await_readers();
      over = true;
    }};
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    CHECK_FALSE(over);
    ranks[0].end_reading();
  }
  CHECK(over);
  CHECK_THROWS_WITH(ranks[2].begin_reading(), parallax_test::contains("leaves"));
  CHECK(ranks[0].unread() == -1);  // all have read before
  ranks[0].take_turn();
  CHECK_THROWS_WITH(ranks[0].unread(), parallax_test::contains("leaves"));
  ranks[0].await_readers();  // who was refused does not read
}

// A rank whose session an exception leaves says so before anybody knows what the exception says.
TEST_CASE("nobody begins to read what a rank has told that an exception leaves", "[comm][thread]") {
  std::atomic<bool> left{false}, refused{false};
  auto const train = [&](px::ThreadCommunicator& world) {
    if (world.rank() == 0) {
      world.abort({px::Errc::aborted, 0, "", "", "rank 0 left the session by an exception"});
      world.await_readers();
      left = true;
      std::this_thread::sleep_for(std::chrono::milliseconds{20});
      throw std::runtime_error{"what it says"};
    }
    while (!left) std::this_thread::yield();
    try {
      world.begin_reading();
    } catch (px::Error const& error) {
      refused = std::string_view{error.what()}.find("what it says") != std::string_view::npos;
      throw;
    }
  };
  CHECK_THROWS_WITH(px::run_threads(2, train), "what it says");
  CHECK(refused);
}

namespace {

// Of the error that a body gets, or another: whether it is that of a rank whose body has returned.
bool misses(px::Error const& error, int rank) {
  return error.code() == px::Errc::transport && error.rank() == rank &&
         error.detail() == "the body of rank " + std::to_string(rank) + " has returned, and the rank is waited for";
}

// Runs the body on three ranks, with a deadline that no test outlives. Returns a bit for each rank with such an error of rank 1.
template <class Body>
unsigned without_rank_1(Body const& body) {
  std::atomic<unsigned> told{0};
  auto const train = [&](px::ThreadCommunicator& world) {
    try {
      body(world);
    } catch (px::Error const& error) {
      if (misses(error, 1)) told |= 1u << world.rank();
      throw;
    }
  };
  try {
    px::run_threads(3, train, {std::chrono::seconds{20}});
  } catch (px::Error const& error) {
    CHECK(misses(error, 1));
  }
  return told;
}

// All to all, with blocks of that size.
void exchange(px::ThreadCommunicator& world, std::size_t bytes) {
  std::vector<std::byte> send(3 * bytes), receive(3 * bytes);
  std::vector<px::ByteRange> const blocks{{0, bytes}, {bytes, bytes}, {2 * bytes, bytes}};
  auto request = world.ialltoallv(0, {send.data(), blocks, receive.data(), blocks});
  px::wait(world, request, "a test");
}

}  // namespace

TEST_CASE("who waits for a rank whose body has returned is told at once", "[comm][thread]") {
  std::size_t const bytes = GENERATE(8, 65);
  int const before = GENERATE(0, 1, 2);
  CHECK(without_rank_1([&](px::ThreadCommunicator& world) {
          for (int operation = 0; operation < before; ++operation) exchange(world, bytes);
          if (world.rank() != 1) exchange(world, bytes);
        }) == 0b101u);
}

TEST_CASE("what a rank has posted before its body returned is received, and the others go on without it", "[comm][thread]") {
  int const pause = GENERATE(0, 5);  // ms: the end of rank 1 comes around the look for its block, or before it
  std::atomic<bool> over{false};
  std::array<int, 3> block{}, letter{};
  CHECK(without_rank_1([&](px::ThreadCommunicator& world) {
          auto const at = static_cast<std::size_t>(world.rank());
          OneWay first{3, 0, 0}, later{3, 0, 0};
          if (world.rank() == 1) {
            first.to[0].bytes = first.to[2].bytes = 8;
            first.memory.assign(64, std::byte{7});
            static_cast<void>(world.ialltoallv(0, first.transfer()).test());
            for (int const to : {0, 2}) px::post_letter(world, px::LetterLane::answers, to, 5);
            over = true;
            return;
          }
          while (!over) std::this_thread::yield();
          std::this_thread::sleep_for(std::chrono::milliseconds{pause});
          first.from[1].bytes = 8;
          auto request = world.ialltoallv(0, first.transfer());
          px::wait(world, request, "a test");
          block[at] = static_cast<int>(first.memory[0]);
          px::Letter taken;
          for (int poll = 0; poll < 3; ++poll)  // a poll is no wait
            letter[at] += world.take(px::LetterLane::answers, 1, taken) ? static_cast<int>(taken.bytes[0]) : 100;
          auto const other = static_cast<std::size_t>(2 - world.rank());
          later.to[other].bytes = later.from[other].bytes = 8;
          for (int operation = 0; operation < 100; ++operation) {
            auto next = world.ialltoallv(1, later.transfer());
            px::wait(world, next, "a test");
          }
        }) == 0);
  CHECK(block == std::array{7, 0, 7});
  CHECK(letter == std::array{205, 0, 205});
}

TEST_CASE("who waits for the turn of a rank whose body has returned is told at once", "[comm][thread]") {
  CHECK(without_rank_1([&](px::ThreadCommunicator& world) {
          if (world.rank() == 1) return;
          world.take_turn();
          for (px::Patience patience{world}; world.unread() >= 0 && patience.pause();) {}
        }) == 0b101u);
}

TEST_CASE("a rank whose body returns before its step ends the session of the others at once", "[comm][thread]") {
  int const steps = GENERATE(0, 2);  // before
  CHECK(without_rank_1([&](px::ThreadCommunicator& world) {
          px::Session session{world};
          std::vector<float> memory(1000, 1.0f);
          px::Variable<px::Dense> hidden{session, "hidden", px::bind(memory)};
          for (int step = 0; step < steps + (world.rank() != 1); ++step) session.step(px::grad(hidden, memory));
        }) == 0b101u);
}

TEST_CASE("an operation that is refused leaves its channel free", "[comm][thread]") {
  px::run_threads(1, [](px::ThreadCommunicator& comm) {
    OneWay uneven{1, 8, 4}, even{1, 8, 8};
    CHECK_THROWS_AS(comm.ialltoallv(0, uneven.transfer()), px::Error);
    CHECK(comm.ialltoallv(0, even.transfer()).test());
  });
}

TEST_CASE("a channel that is not there, and lists of another length than there are ranks, are refused", "[comm][thread]") {
  std::vector<std::string> told(2);
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    std::string& mine = told[static_cast<std::size_t>(world.rank())];
    auto const post = [&](int channel, px::Transfer const& transfer) {
      try {
        auto request = world.ialltoallv(channel, transfer);
        mine += "nothing; ";
      } catch (px::Error const& error) {
        mine += error.code() == px::Errc::invalid_argument ? error.detail() + "; " : "another error; ";
      }
    };
    OneWay right{2, 0, 0}, longer{3, 0, 0}, shorter{1, 0, 0};
    post(-1, right.transfer());
    post(px::channels, right.transfer());
    post(0, longer.transfer());
    post(0, shorter.transfer());
    auto request = world.ialltoallv(0, right.transfer());
    px::wait(world, request, "test");
  });
  for (std::string const& mine : told)
    CHECK(mine ==
          "there is no channel -1; there is no channel 32; the lists of blocks need one entry per rank; "
          "the lists of blocks need one entry per rank; ");
}

TEST_CASE("a group of no ranks, and a rank outside its group, are refused", "[comm][thread]") {
  CHECK_THROWS_AS(px::ThreadGroup{0}, px::Error);
  auto const group = std::make_shared<px::ThreadGroup>(2);
  CHECK_THROWS_AS((px::ThreadCommunicator{group, 2}), px::Error);
  CHECK_THROWS_AS((px::ThreadCommunicator{group, -1}), px::Error);
}

// Prints the latency of the smallest agreement: 16 bytes gathered from every rank.
TEST_CASE("the latency of an agreement between threads", "[.benchmark][comm][thread]") {
  int const ranks = GENERATE(2, 4);
  px::run_threads(ranks, [](px::ThreadCommunicator& comm) {
    auto const size = static_cast<std::size_t>(comm.size());
    std::vector<std::byte> mine(16), all(16 * size);
    std::vector<px::ByteRange> const to(size, {0, 16});
    std::vector<px::ByteRange> from(size);
    for (std::size_t r = 0; r < size; ++r) from[r] = {16 * r, 16};
    auto const agree = [&](int times) {
      auto const begin = std::chrono::steady_clock::now();
      for (int i = 0; i < times; ++i) {
        auto request = comm.ialltoallv(0, {mine.data(), to, all.data(), from});
        px::wait(comm, request, "an agreement");
      }
      return std::chrono::duration<double, std::micro>{std::chrono::steady_clock::now() - begin}.count() / times;
    };
    double microseconds = agree(100);
    for (int batch = 0; batch < 100; ++batch) microseconds = std::min(microseconds, agree(100));
    if (comm.rank() == 0)
      std::printf("agreement of 16 bytes, %d threads: %.2f us (best of 100 batches)\n", comm.size(), microseconds);
  });
}
