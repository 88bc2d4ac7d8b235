// What becomes of the others when a rank over sockets fails, leaves or dies; ranks that are processes are killed and stopped.
#include <dirent.h>
#include <malloc.h>
#include <sched.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <memory>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "../catch.hpp"
#include "../support/size.hpp"
#include "parallax/detail/conformance/exchange.hpp"
#include "parallax/parallax.hpp"
#include "socket_job.hpp"
#include "sockets.hpp"

namespace px = parallax;
using namespace socket_job;

namespace {

// Trains until that fails, with one gradient that ranks of the host sum where it lies, and one that they do not reach.
void training(px::SocketCommunicator& comm) {
  px::Session session{comm};
  std::vector<float> weights(5000, 1.0f), gradient(weights), other_weights(300'000, 1.0f);
  px::SharedBuffer<float> other_gradient(other_weights.size());
  px::Variable<px::Dense, px::Sgd> layer{session, "layer", px::bind(weights)};
  px::Variable<px::Dense, px::Sgd> other{session, "other", px::bind(other_weights)};
  for (;;) {
    std::fill_n(other_gradient.data(), other_gradient.size(), 0.5f);
    session.step(px::grad(layer, gradient),
                 px::grad(other, px::in_place(std::span{other_gradient.data(), other_gradient.size()})));
  }
}

// What this process has.
struct Belongings {
  int descriptors, threads;
  std::size_t bytes;  // of its heap; 0 under sanitizers, which have one of their own

  static int entries(char const* name) {
    DIR* const folder = ::opendir(name);
    int count = 0;
    while (::readdir(folder)) ++count;
    ::closedir(folder);
    return count - 2;
  }
  static Belongings now() {
    return {entries("/proc/self/fd") - 1, entries("/proc/self/task"), static_cast<std::size_t>(::mallinfo2().uordblks)};
  }
};

}  // namespace

TEST_CASE("a process that is killed is named by the others", "[comm][socket][processes]") {
  std::size_t const bytes = GENERATE(std::size_t{0}, std::size_t{8}, std::size_t{8} << 20);  // 0: a training
  int const victim = GENERATE(0, 1, 2);
  bool const shared_memory = GENERATE(true, false);
  CAPTURE(bytes, victim, shared_memory);
  Job job{bytes > 0 ? exchanging(bytes) : training, {.deadline = 20s, .shared_memory = shared_memory}};
  job.together();
  std::this_thread::sleep_for(10ms);
  strike(job, victim, SIGKILL, px::Errc::transport, 0s);
}

TEST_CASE("a process that is stopped is named when the deadline is over", "[comm][socket][processes]") {
  auto const [victim, shared_memory] = GENERATE(std::pair{0, true}, std::pair{1, true}, std::pair{1, false});
  CAPTURE(victim, shared_memory);
  Job job{training, {.deadline = 1s, .shared_memory = shared_memory}};
  job.together();
  strike(job, victim, SIGSTOP, px::Errc::timeout, 1s);
}

TEST_CASE("where one rank of a host cannot have its memory, all of them use their connections", "[comm][socket][processes]") {
  int const without = GENERATE(0, 1);
  CAPTURE(without);
  auto const work = [](px::SocketCommunicator& comm) {
    for (int rank = 0; rank < comm.size(); ++rank)
      if (rank != comm.rank() && comm.shares_memory(comm.rank(), rank))
        throw px::Error{px::Errc::user_exception, comm.rank(), "", "", "memory is shared"};
    exchange(comm, 300'000);
  };
  Job job{work, {.deadline = 20s}, [&](int rank) {
            rlimit const none{0, 0};
            if (rank == without) ::setrlimit(RLIMIT_FSIZE, &none);  // no file in memory either
            ::signal(SIGXFSZ, SIG_IGN);
          }};
  job.together();
  for (int i = 0; i < Job::ranks; ++i) CHECK(std::string{job.next().words} == "");
}

TEST_CASE("ranks of two hosts exchange through memory within one, and over connections between them",
          "[comm][socket][processes]") {
  auto const elsewhere = [](int rank) {
    char const name[] = "another-host";
    return rank != 1 || (::unshare(CLONE_NEWUTS) == 0 && ::sethostname(name, sizeof name - 1) == 0);
  };
  pid_t const trial = ::fork();
  if (trial == 0) ::_exit(elsewhere(1) ? 0 : 1);
  int status = 0;
  ::waitpid(trial, &status, 0);
  if (status != 0) PARALLAX_SKIP("another name of the host needs root");
  auto const work = [](px::SocketCommunicator& comm) {
    constexpr std::size_t bytes = 500'000;
    auto const require = [&](bool right, char const* words) {
      if (!right) throw px::Error{px::Errc::user_exception, comm.rank(), "", "", words};
    };
    require(comm.hosts() == std::vector<int>{0, 1, 0}, "the hosts are wrong");
    for (int one = 0; one < 3; ++one)
      for (int other = 0; other < 3; ++other)
        require(comm.shares_memory(one, other) == (one == other || one + other == 2), "memory is shared, or not");
    auto const before = comm.wire_bytes();
    for (int round = 0; round < 20; ++round) {
      All all{comm, bytes};
      std::fill(all.send.begin(), all.send.end(), static_cast<std::byte>(10 * round + comm.rank()));
      auto request = comm.ialltoallv(round % 3, all.transfer());
      px::wait(comm, request, "a test");
      for (std::size_t i = 0; i < all.receive.size(); i += 999)
        require(static_cast<int>(i / bytes) == comm.rank() ||
                    all.receive[i] == static_cast<std::byte>(static_cast<std::size_t>(10 * round) + i / bytes),
                "a wrong byte");
    }
    std::uint64_t const far = comm.rank() == 1 ? 2 : 1, blocks = far * 20 * bytes, written = comm.wire_bytes() - before;
    require(written >= blocks && written < blocks + 20 * bytes / 2, "blocks went where they need not");
    exchange(comm, 8);
  };
  Job job{work, {.deadline = 20s}, elsewhere};
  job.together();
  for (int i = 0; i < Job::ranks; ++i) CHECK(std::string{job.next().words} == "");
}

// Rank 1 holds what rank 0 lends, and is stopped or killed.
TEST_CASE("a loan comes back from a process that is stopped or killed, and its memory stays as it is",
          "[comm][socket][processes]") {
  bool const killed = GENERATE(false, true);
  CAPTURE(killed);
  auto const work = [&](px::SocketCommunicator& comm) {
    struct Lent {
      px::Place place;
      std::uint64_t number = 0;
      pid_t process = 0;
    };
    std::vector<Lent> all(3);
    Lent mine;
    mine.process = ::getpid();
    std::byte* memory = nullptr;
    if (comm.rank() == 0) {
      memory = comm.window(0, 100'000);
      std::fill_n(memory, 100'000, std::byte{1});
      mine.place = comm.place_of(memory);
      mine.number = comm.lend(0);
    }
    std::vector<px::ByteRange> const to(3, {0, sizeof mine});
    std::vector<px::ByteRange> from;
    for (std::size_t rank = 0; rank < 3; ++rank) from.push_back({rank * sizeof mine, sizeof mine});
    auto request =
        comm.ialltoallv(0, {reinterpret_cast<std::byte const*>(&mine), to, reinterpret_cast<std::byte*>(all.data()), from});
    px::wait(comm, request, "a test");
    auto const require = [&](bool right, char const* words) {
      if (!right) throw px::Error{px::Errc::user_exception, comm.rank(), "", "", words};
    };
    std::byte* theirs = nullptr;
    if (comm.rank() == 1) {
      theirs = comm.address_of(all[0].place);
      require(comm.hold(0, 0, all[0].number), "an open loan cannot be held");
    }
    exchange(comm, 8);
    if (comm.rank() == 0) {
      if (killed) ::kill(all[1].process, SIGKILL);
      comm.reclaim(0);
      require(!killed || memory[5] == std::byte{1}, "what was lent is not as it was");
      memory[5] = std::byte{2};
      if (!killed) ::kill(all[1].process, SIGCONT);
    } else if (comm.rank() == 1) {
      if (!killed) ::raise(SIGSTOP);
      while (killed) ::pause();
      std::fill_n(theirs, 100'000, std::byte{9});
      comm.release(0, 0);
      require(!comm.hold(0, 0, all[0].number), "a loan that has come back can be held");
    }
    if (killed && comm.rank() != 1) return;
    exchange(comm, 8);
    if (comm.rank() == 0)
      require(memory[5] == std::byte{2} && memory[6] == std::byte{1}, "a peer has written what is not lent");
  };
  Job job{work, {.deadline = 20s}};
  job.together();
  for (int left = killed ? 2 : 3; left > 0; --left) {
    Report const report = job.next();
    CAPTURE(report.rank, report.words);
    if (!killed) CHECK(report.code == 0);
    CHECK(std::string{report.words}.find("exception in user code") == std::string::npos);
  }
}

TEST_CASE("a rank that leaves by an exception is named by the others", "[comm][socket]") {
  std::atomic<int> told{0};
  auto const body = [&](px::SocketOptions options, px::SocketListener* listener) {
    try {
      auto comm = listener ? px::SocketCommunicator{std::move(*listener), options} : px::SocketCommunicator{options};
      if (options.rank == 1) {
        exchange(comm, 8);
        throw std::logic_error{"the batch is empty"};
      }
      auto const error = error_of(comm, 8);
      told += error.code() == px::Errc::aborted && error.rank() == 1;
    } catch (std::logic_error const&) {}
  };
  px::SocketListener listener;
  std::string const address = listener.address();
  {
    std::vector<std::jthread> ranks;
    for (int rank = 0; rank < 3; ++rank)
      ranks.emplace_back([&, rank] { body({.rank = rank, .size = 3, .address = address}, rank == 0 ? &listener : nullptr); });
  }
  CHECK(told == 2);
}

TEST_CASE("a rank that has left in peace is not waited for", "[comm][socket]") {
  std::atomic<int> told{0};
  auto const began = Clock::now();
  run_sockets(3, [&](px::SocketCommunicator& comm) {
    if (comm.rank() == 2) return exchange(comm, 8);
    auto const error = error_of(comm, 8);
    told += error.code() == px::Errc::transport && error.rank() == 2;
  });
  CHECK(told == 2);
  CHECK(Clock::now() - began < 20s);  // of a deadline of 60
}

TEST_CASE("what a rank has left in memory is there when it has gone in peace", "[comm][socket]") {
  for (std::size_t const bytes : {std::size_t{8}, std::size_t{250'000}, std::size_t{2} << 20}) {
    CAPTURE(bytes);
    std::atomic<bool> posted{false}, wanted{false}, gone{false};
    std::vector<std::byte> const sent(bytes, std::byte{6});
    std::vector<std::byte> received(bytes);
    std::vector<px::ByteRange> const none(2), first{{0, bytes}, {0, 0}}, second{{0, 0}, {0, bytes}};
    std::jthread late;
    run_sockets(2, [&](px::SocketCommunicator& comm) {
      if (comm.rank() == 0) {
        auto request = comm.ialltoallv(0, {sent.data(), second, nullptr, none});
        posted = true;
        while (!wanted) std::this_thread::yield();
        px::wait(comm, request, "a test");
        late = std::jthread{[&] {  // when this communicator has said goodbye
          std::this_thread::sleep_for(50ms);
          gone = true;
        }};
        return;
      }
      auto request = comm.ialltoallv(0, {nullptr, none, received.data(), first});
      while (!posted) std::this_thread::yield();
      request.test();
      wanted = true;
      if (bytes <= 250'000)  // all of it is on its way
        while (!gone) std::this_thread::yield();
      px::wait(comm, request, "a test");
    });
    CHECK(received == sent);
  }
}

TEST_CASE("a block that nobody expects is a mismatch in the next operation", "[comm][socket]") {
  std::size_t const bytes = GENERATE(std::size_t{16}, std::size_t{300'000});
  bool const shared_memory = GENERATE(true, false);
  CAPTURE(bytes, shared_memory);
  std::atomic<int> told{0};
  auto const body = [&](px::SocketCommunicator& comm) {
    std::vector<std::byte> memory(2 * bytes);
    std::vector<px::ByteRange> const none(2), to_second{{0, 0}, {0, bytes}}, from_first{{0, bytes}, {0, 0}};
    bool const first = comm.rank() == 0;
    try {
      auto request = comm.ialltoallv(0, {memory.data(), first ? to_second : none, nullptr, none});
      if (!first) px::wait(comm, request, "a test");
      if (!first) request = comm.ialltoallv(0, {nullptr, none, memory.data(), from_first});
      px::wait(comm, request, "a test");
      error_of(comm, 8);
    } catch (px::Error const& error) {
      told += error.code() == px::Errc::mismatch && error.rank() == 0;
    }
  };
  run_sockets(2, body, {.deadline = 20s, .shared_memory = shared_memory});
  CHECK(told >= 1);
}

TEST_CASE("a block that has gone half its way is given up with its memory", "[comm][socket]") {
  for (int round = 0; round < 10; ++round) {
    std::atomic<bool> aborted{false};
    std::atomic<int> told{0};
    auto const body = [&](px::SocketCommunicator& comm) {
      px::Error const reason{px::Errc::user_exception, 0, "step", "words", std::string(100'000, 'x')};
      if (comm.rank() == 0) {
        auto all = std::make_unique<All>(comm, std::size_t{24} << 20);
        auto request = comm.ialltoallv(0, all->transfer());
        for (int poll = 0; poll < round; ++poll) request.test();
        comm.abort(reason);
        request = {};
        all.reset();
        aborted = true;
      } else {
        All all{comm, std::size_t{24} << 20};
        std::optional<px::SocketCommunicator::Request> request;
        if (round % 2 == 0) request = comm.ialltoallv(0, all.transfer());
        while (!aborted) std::this_thread::yield();
        try {
          if (request) px::wait(comm, *request, "a test");
          else
            for (;;) comm.check();
        } catch (px::Error const& error) {
          told += error.code() == reason.code() && error.detail().size() == 65536;  // what is very long is cut
        }
      }
    };
    run_sockets(2, body, {.shared_memory = round < 5, .checksums = round % 3 == 0});
    CHECK(told == 1);
  }
}

TEST_CASE("a request that is dropped lets go of its memory", "[comm][socket]") {
  constexpr std::size_t bytes = std::size_t{48} << 20;  // of which a poll moves a few, or all while the peer takes them
  for (int round = 0; round < 6; ++round) {
    std::string told;
    std::atomic<bool> sent{false};
    auto const body = [&](px::SocketCommunicator& comm) {
      px::Error const reason{px::Errc::user_exception, 0, "step", "words", "the reason"};
      if (comm.rank() == 0) {
        auto* const memory =
            static_cast<std::byte*>(::mmap(nullptr, 2 * bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        std::vector<px::ByteRange> const to{{0, 0}, {0, bytes}};
        auto request = comm.ialltoallv(0, {memory, to, memory + bytes, to});
        while (!sent) std::this_thread::yield();
        request.test();
        request = {};
        ::munmap(memory, 2 * bytes);
        for (int poll = 0; poll < 20; ++poll) comm.check();
        comm.abort(reason);
      } else {
        All all{comm, bytes};
        auto request = comm.ialltoallv(0, all.transfer());
        sent = true;
        try {
          px::wait(comm, request, "a test");
          for (;;) comm.check();
        } catch (px::Error const& error) {
          told = error.detail();
        }
      }
    };
    run_sockets(2, body, {.shared_memory = round % 2 == 0, .checksums = round > 2});
    CHECK(told == "the reason");
  }
}

TEST_CASE("random bytes in a connection are found out, and crash nobody", "[comm][socket]") {
  struct Sink final : px::detail::FrameSink {
    std::byte* begin(int, px::detail::FrameHeader const& message) override {
      memory.resize(static_cast<std::size_t>(std::min<std::uint64_t>(message.total, 1 << 20)));
      return message.total <= memory.size() ? memory.data() : nullptr;
    }
    std::byte* more(int, px::detail::FrameHeader const&, std::size_t, std::byte* to) override { return to; }
    void come(int, px::detail::FrameHeader const&) override { ++messages; }
    void garbled(int, std::string_view) override { ++found; }
    void gone(int, int) override {}
    std::vector<std::byte> memory;
    int messages = 0, found = 0;
  };
  std::uint64_t const seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 dice{seed};
  int messages = 0, found = 0, frames = 0;
  int const rounds = parallax_test::sized(300, 3000, 200'000);
  for (int round = 0; round < rounds; ++round) {
    int ends[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends) == 0);
    px::detail::OwnedDescriptor const liar{ends[0]};
    px::detail::Connection connection{px::detail::OwnedDescriptor{ends[1]}, 0};
    Sink sink;
    for (int frame = 0; frame < 20 && !connection.ended(); ++frame) {
      px::detail::FrameHeader header;
      header.total = dice() % 5000;
      header.number = dice();
      header.channel = static_cast<std::uint8_t>(dice() % px::channels);
      header.kind = static_cast<px::detail::FrameKind>(dice() % 12);
      header.check = header.own_check();
      auto bytes = std::make_unique<std::byte[]>(sizeof header + 5000);
      std::memcpy(bytes.get(), &header, sizeof header);
      if (dice() % 8 == 0) bytes[dice() % sizeof header] = static_cast<std::byte>(dice());
      std::size_t const size = sizeof header + static_cast<std::size_t>(header.total);
      [[maybe_unused]] auto const sent = ::send(liar.get(), bytes.get(), size, MSG_NOSIGNAL);
      connection.read(sink);
      ++frames;
    }
    messages += sink.messages;
    found += sink.found;
    CHECK(sink.found == connection.ended());
  }
  CHECK(messages > rounds);
  CHECK(found > rounds / 10);
  if (parallax_test::full_size())
    std::printf("seed %llu: %d frames in %d connections, %d messages came whole, %d connections were found out\n",
                static_cast<unsigned long long>(seed), frames, rounds, messages, found);
}

TEST_CASE("worlds and sessions that come and go leave nothing", "[comm][socket]") {
  auto const train = [](px::SocketCommunicator& comm, bool leaves) {
    px::Session session{comm};
    std::vector<float> weights(100, 1.0f), gradient(weights);
    px::Variable<px::Dense, px::Sgd> layer{session, "layer", px::bind(weights)};
    px::Variable<px::Sparse, px::Adagrad> table{session, "table", {.rows = 50, .width = 4}};
    for (int step = 0; step < 2; ++step) {
      auto const rows = session.pull(table, std::vector{step, comm.rank()});
      if (leaves && step == 1 && comm.rank() == 1) throw std::runtime_error{"leaves"};
      session.step(px::grad(layer, gradient), px::grad(rows, std::vector<float>(2 * 4, 1.0f)));
    }
    session.finish();
  };
  Belongings before{};
  int const worlds = parallax_test::sized(30, 200, 10'000);
  for (int round = 0; round < worlds; ++round) {
    if (round == 10) before = Belongings::now();
    try {
      run_sockets(3, [&](px::SocketCommunicator& comm) {
        exchange(comm, 8);
        train(comm, round % 3 == 1);
      });
    } catch (std::exception const&) {}
  }
  auto const after = Belongings::now();
  CHECK(after.descriptors == before.descriptors);
  CHECK(after.threads == before.threads);
  CHECK(after.bytes <= before.bytes + 65'536);
  if (parallax_test::full_size())
    std::printf("%d worlds of 3 ranks with a session each: descriptors %d, then %d; threads %d, then %d; bytes %zu, then %zu\n",
                worlds, before.descriptors, after.descriptors, before.threads, after.threads, before.bytes, after.bytes);
}

TEST_CASE("a rank tells where it is, and announces that it will be late", "[comm][socket]") {
  std::atomic<int> phase{0};
  auto const reach = [&](int wanted) {
    while (phase < wanted) std::this_thread::yield();
  };
  run_sockets(2, [&](px::SocketCommunicator& comm) {
    bool fresh = false;
    if (comm.rank() == 1) {
      comm.journal().enter("step", 3, 2, 17);
      comm.journal().wait(0, Clock::now().time_since_epoch().count());
      phase = 1;
      while (phase < 2) comm.answer();
      comm.journal().pause("saving", 5'000'000'000, 0);
      comm.announce();
      phase = 3;
      reach(4);
      return;
    }
    CHECK(comm.longest_pause() == 0s);
    reach(1);
    auto status = comm.status_of(1, fresh);
    while (!fresh) {
      comm.answer();
      status = comm.status_of(1, fresh);
    }
    CHECK(status->latest()->number == 3);
    CHECK(status->latest()->operation.text() == "step");
    CHECK(status->waiting_for == 0);
    phase = 2;
    reach(3);
    while (comm.longest_pause() == 0s) std::this_thread::yield();
    CHECK(comm.longest_pause() == 5s);
    CHECK(comm.status_of(1, fresh)->pausing.text() == "saving");
    phase = 4;
  });
}
