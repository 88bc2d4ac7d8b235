// The bytes on connections between ranks: bits that flip on their way, peers that say what cannot be, and the number of bytes.
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../catch.hpp"
#include "../support/byte_model.hpp"
#include "../support/size.hpp"
#include "expected.hpp"
#include "parallax/parallax.hpp"
#include "socket_job.hpp"
#include "sockets.hpp"

namespace px = parallax;
using namespace std::chrono_literals;
using px::detail::FrameHeader, px::detail::FrameKind;

namespace {

// Keeps what a connection tells.
struct Sink final : px::detail::FrameSink {
  std::byte* begin(int, FrameHeader const& message) override {
    memory.assign(message.bytes_behind(0), std::byte{});
    return memory.data();
  }
  std::byte* more(int, FrameHeader const&, std::size_t bytes, std::byte*) override {
    memory.resize(bytes);
    return memory.data();
  }
  void come(int, FrameHeader const&) override { ++messages; }
  void garbled(int, std::string_view how) override { found = how; }
  void gone(int, int) override {}
  std::vector<std::byte> memory;
  int messages = 0;
  std::string found;
};

struct Ends {
  px::detail::OwnedDescriptor one, other;
  Ends() {
    int both[2];
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, both) == 0);
    one = px::detail::OwnedDescriptor{both[0]}, other = px::detail::OwnedDescriptor{both[1]};
  }
};

std::vector<std::byte> random_bytes(std::size_t size, std::mt19937_64& dice) {
  std::vector<std::byte> bytes(size);
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(dice());
  return bytes;
}

// Returns the bytes that a connection writes for a block.
std::vector<std::byte> written(std::vector<std::byte> const& block, bool summed) {
  Ends ends;
  px::detail::Connection connection{std::move(ends.one), 0};
  FrameHeader header;
  header.number = 7, header.total = block.size(), header.summed = summed ? 1 : 0;
  connection.send(header, block.data());
  Sink sink;
  std::vector<std::byte> all;
  for (std::array<std::byte, 65536> some;;) {
    connection.write(sink);
    auto const got = ::recv(ends.other.get(), some.data(), some.size(), 0);
    if (got <= 0) return all;
    all.insert(all.end(), some.data(), some.data() + got);
  }
}

// Returns what a connection makes of these bytes, in parts of any size.
Sink read(std::vector<std::byte> const& bytes, std::mt19937_64& dice) {
  Ends ends;
  px::detail::Connection connection{std::move(ends.one), 0};
  Sink sink;
  for (std::size_t at = 0; at < bytes.size() && !connection.ended();) {
    std::size_t const part = std::min(bytes.size() - at, 1 + static_cast<std::size_t>(dice() % 100'000));
    auto const sent = ::send(ends.other.get(), bytes.data() + at, part, MSG_NOSIGNAL);
    if (sent > 0) at += static_cast<std::size_t>(sent);
    connection.read(sink);
  }
  return sink;
}

// A wire between a rank that calls `address` and the one that listens there. Flips a bit of the caller's bytes, or of those to
// it.
class FlippingWire {
 public:
  FlippingWire(std::string const& to, bool of_caller, std::size_t at, int bit)
      : listener_{px::detail::listening_socket(px::detail::addresses_of(px::detail::split_address("127.0.0.1:0"))[0])},
        thread_{[=, this](std::stop_token stop) { run(stop, to, of_caller, at, bit); }} {}

  std::string address() const { return px::detail::text_of(px::detail::socket_address(listener_, &::getsockname)); }
  bool flipped() const { return flipped_; }

 private:
  void run(std::stop_token const& stop, std::string const& to, bool of_caller, std::size_t at, int bit) {
    pollfd waits{listener_.get(), POLLIN, 0};
    while (::poll(&waits, 1, 20) == 0)
      if (stop.stop_requested()) return;
    px::detail::OwnedDescriptor const caller{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC)};
    auto const there = px::detail::addresses_of(px::detail::split_address(to))[0];
    px::detail::OwnedDescriptor const called{::socket(there.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (::connect(called.get(), there.native(), there.length) != 0) return;
    struct Way {
      int from, to;
      bool flips;
      std::size_t passed = 0;
      bool open = true;
    };
    Way ways[] = {{caller.get(), called.get(), of_caller}, {called.get(), caller.get(), !of_caller}};
    std::vector<std::byte> bytes(65536);
    while (ways[0].open || ways[1].open) {
      pollfd both[] = {{ways[0].open ? caller.get() : -1, POLLIN, 0}, {ways[1].open ? called.get() : -1, POLLIN, 0}};
      if (::poll(both, 2, 20) == 0 && stop.stop_requested()) return;
      for (std::size_t i = 0; i < 2; ++i) {
        Way& way = ways[i];
        if (both[i].revents == 0) continue;
        auto const got = ::recv(way.from, bytes.data(), bytes.size(), 0);
        way.open = got > 0;
        if (!way.open) ::shutdown(way.to, SHUT_WR);
        if (!way.open) continue;
        auto const size = static_cast<std::size_t>(got);
        if (way.flips && way.passed <= at && at < way.passed + size)
          bytes[at - way.passed] ^= static_cast<std::byte>(1 << bit), flipped_ = true;
        way.passed += size;
        for (std::size_t sent = 0; sent < size;) {
          auto const count = ::send(way.to, bytes.data() + sent, size - sent, MSG_NOSIGNAL);
          if (count <= 0) break;
          sent += static_cast<std::size_t>(count);
        }
      }
    }
  }

  px::detail::OwnedDescriptor listener_;
  std::atomic<bool> flipped_{false};
  std::jthread thread_;
};

// Runs two ranks, of which rank 1 reaches rank 0 over such a wire. Returns the errors that they have thrown.
template <class Body>
std::array<std::optional<px::Error>, 2> over_a_wire(px::SocketOptions options, bool of_caller, std::size_t at, int bit,
                                                    Body const& body) {
  std::array<std::optional<px::Error>, 2> errors;
  px::SocketListener listener;
  FlippingWire const wire{listener.address(), of_caller, at, bit};
  options.size = 2;
  options.shared_memory = false;
  options.deadline = 20s;
  auto const run = [&](int rank) {
    auto mine = options;
    mine.rank = rank;
    mine.address = wire.address();
    try {
      auto comm = rank == 0 ? px::SocketCommunicator{std::move(listener), mine} : px::SocketCommunicator{mine};
      body(comm);
    } catch (px::Error const& error) {
      errors[static_cast<std::size_t>(rank)] = error;
    }
  };
  {
    std::jthread const other{run, 1};
    run(0);
  }
  REQUIRE(wire.flipped());
  return errors;
}

constexpr std::size_t handshake = 48 + 192;  // bytes that each end says before the first frame

// Steps under two policies, and the parameters after each.
struct Steps {
  std::vector<std::vector<float>> after;

  void run(px::SocketCommunicator& comm) {
    px::Session session{comm};
    std::vector<float> weights(3'000, 1.0f), rows(400);
    px::Variable<px::Dense, px::Sgd> layer{session, "layer", px::bind(weights)};
    px::Variable<px::Dense, px::PsShard, px::Sgd> shards{session, "shards", px::bind(rows)};
    for (int step = 0; step < 20; ++step) {
      std::vector<float> gradient(weights), of_rows(rows.size(), 0.5f);
      for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] *= static_cast<float>(i % 5 + 1) * 0.01f;
      keep(weights, rows);
      session.step(px::grad(layer, gradient), px::grad(shards, of_rows));
    }
    keep(weights, rows);
    session.finish();
  }
  void keep(std::vector<float> const& one, std::vector<float> const& other) {
    after.push_back(one);
    after.back().insert(after.back().end(), other.begin(), other.end());
  }
};

// Runs a rank 1 that knows the key, and says what it likes. Returns what rank 0 throws once `say` has spoken and the liar has
// left.
template <class Say>
px::Error told_by_liar(Say const& say, px::SocketOptions options = {}) {
  px::SocketListener listener;
  std::string const address = listener.address();
  options.size = 2;
  options.deadline = 20s;
  options.shared_memory = false;
  std::jthread const liar{[&] {
    auto const to = px::detail::addresses_of(px::detail::split_address(address))[0];
    px::detail::OwnedDescriptor socket{::socket(to.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0)};
    if (::connect(socket.get(), to.native(), to.length) != 0) return;
    px::detail::RankFacts facts;
    facts.rank = 1, facts.size = 2, facts.window = options.mailbox.window, facts.largest = options.mailbox.largest;
    facts.checksums = options.checksums;
    px::detail::set_text(facts.name, "e\x1b[31mvil");
    px::detail::Greeting greeting{std::move(socket), true, "", facts, std::chrono::steady_clock::now() + 20s};
    auto state = greeting.move_on();
    while (state == px::detail::Greeting::State::pending) state = greeting.move_on();
    socket = greeting.take();
    say(socket.get());
    ::shutdown(socket.get(), SHUT_WR);
    char byte;
    while (::recv(socket.get(), &byte, 1, 0) > 0) {}
  }};
  try {
    px::SocketCommunicator comm{std::move(listener), options};
    socket_job::All all{comm, 8};
    auto request = comm.ialltoallv(0, all.transfer());
    px::wait(comm, request, "a test");
  } catch (px::Error const& error) {
    return error;
  }
  return {px::Errc::misuse, -1, "", "", "nothing was thrown"};
}

std::vector<std::byte> frame(FrameKind kind, std::uint64_t total, std::vector<std::byte> const& bytes,
                             std::uint64_t number = 0) {
  FrameHeader header;
  header.kind = kind, header.number = number, header.total = total;
  header.check = header.own_check();
  std::vector<std::byte> all(sizeof header);
  std::memcpy(all.data(), &header, sizeof header);
  all.insert(all.end(), bytes.begin(), bytes.end());
  return all;
}

void say(int socket, std::vector<std::byte> const& bytes) {
  [[maybe_unused]] auto const sent = ::send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL);
}

std::size_t kibibytes_at_most() {
  rusage use{};
  ::getrusage(RUSAGE_SELF, &use);
  return static_cast<std::size_t>(use.ru_maxrss);
}

}  // namespace

TEST_CASE("no bit of a frame flips unnoticed", "[comm][socket]") {
  std::uint64_t const seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 dice{seed};
  std::size_t const size = GENERATE(std::size_t{0}, std::size_t{8}, std::size_t{300'000});
  auto const block = random_bytes(size, dice);
  auto const bytes = written(block, true);
  Sink const right = read(bytes, dice);
  REQUIRE(right.messages == 1);
  REQUIRE((size == 0 || right.memory == block));
  std::size_t const bits = 8 * bytes.size(), tries = std::min<std::size_t>(bits, parallax_test::sized(288, 500, 20'000));
  for (std::size_t i = 0; i < tries; ++i) {
    std::size_t const bit = tries == bits ? i : i < 192 ? i : dice() % bits;  // of a large block the first header's, and some
    CAPTURE(bit);
    auto flipped = bytes;
    flipped[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    Sink const sink = read(flipped, dice);
    CHECK(sink.messages == 0);
    CHECK(sink.found.find(bit < 192 ? "the checksum of its header" : "changed on its way") != std::string::npos);
  }
}

TEST_CASE("without checksums of bytes headers have theirs", "[comm][socket]") {
  std::mt19937_64 dice{1};
  auto const bytes = written(random_bytes(8, dice), false);
  REQUIRE(bytes.size() == 32);
  for (std::size_t bit = 0; bit < 8 * sizeof(FrameHeader); ++bit) {
    auto flipped = bytes;
    flipped[bit / 8] ^= static_cast<std::byte>(1 << bit % 8);
    CHECK(read(flipped, dice).messages == 0);
  }
}

TEST_CASE("frames that change places are no message", "[comm][socket]") {
  std::mt19937_64 dice{2};
  auto bytes = written(random_bytes(2 * px::detail::frame_bytes, dice), true);
  std::size_t const half = bytes.size() / 2;
  std::rotate(bytes.begin(), bytes.begin() + static_cast<std::ptrdiff_t>(half), bytes.end());
  CHECK(read(bytes, dice).messages == 0);
}

TEST_CASE("a bit that flips between two ranks ends both, and names who has sent it and what", "[comm][socket]") {
  std::uint64_t const seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 dice{seed};
  bool const checksums = GENERATE(true, false);
  for (int round = parallax_test::sized(6, 20, 400); round > 0; --round) {
    // Rank 1 says nothing but blocks of 8 bytes; rank 0 a directory first, which is longer than 240 bytes.
    bool const of_caller = dice() % 2 == 0;
    std::size_t const frame = sizeof(FrameHeader) + 8 + (checksums ? 4 : 0);
    std::size_t const at = handshake + 100 * frame + dice() % 1000;
    if (!checksums && (!of_caller || (at - handshake) % frame >= sizeof(FrameHeader))) continue;
    CAPTURE(of_caller, at);
    int const from = of_caller ? 1 : 0;
    std::atomic<int> wrong{0};
    auto const errors =
        over_a_wire({.checksums = checksums}, of_caller, at, static_cast<int>(dice() % 8), [&](px::SocketCommunicator& comm) {
          for (int i = 0; i < 1000; ++i) {
            socket_job::All all{comm, 8};
            auto request = comm.ialltoallv(i % 2, all.transfer());
            px::wait(comm, request, "a test");
            for (int k = 0; k < 8; ++k)
              wrong += all.receive[static_cast<std::size_t>(8 * (1 - comm.rank()) + k)] != std::byte{1};
          }
        });
    CHECK(wrong == 0);
    for (auto const& error : errors) {
      CHECK(has(error, px::Errc::transport, "changed on its way"));
      if (!error) continue;
      CHECK(error->rank() == from);
      bool const of_header =
          error->detail().find("that was changed on its way: the checksum of its header") != std::string::npos;
      CHECK((of_header || error->detail().find("sent a block of 8 bytes that was changed") != std::string::npos));
    }
  }
}

TEST_CASE("a bit that flips in a training reaches no parameter", "[comm][socket]") {
  std::uint64_t const seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 dice{seed};
  Steps reference;
  run_sockets(2, [&](px::SocketCommunicator& comm) {
    Steps own;
    own.run(comm);
    if (comm.rank() == 0) reference = own;
  });
  REQUIRE(reference.after.size() == 21);
  for (int round = parallax_test::sized(3, 10, 200); round > 0; --round) {
    bool const of_caller = dice() % 2 == 0;
    std::size_t const at = handshake + 1000 + dice() % 200'000;  // of some 260,000 that a rank sends
    CAPTURE(of_caller, at);
    std::array<Steps, 2> steps;
    auto const errors =
        over_a_wire({.checksums = true}, of_caller, at, static_cast<int>(dice() % 8),
                    [&](px::SocketCommunicator& comm) { steps[static_cast<std::size_t>(comm.rank())].run(comm); });
    for (auto const& error : errors) {
      CHECK(has(error, px::Errc::transport, "changed on its way"));
      if (error) CHECK(error->rank() == (of_caller ? 1 : 0));
    }
    for (Steps const& own : steps) {
      CHECK(own.after.size() <= reference.after.size());
      for (std::size_t i = 0; i < own.after.size(); ++i) CHECK(own.after[i] == reference.after[i]);
    }
  }
}

TEST_CASE("blocks take as many bytes on a connection as the closed form says", "[comm][socket]") {
  bool const checksums = GENERATE(false, true);
  std::uint64_t const seed = std::random_device{}();
  CAPTURE(checksums, seed);
  std::mt19937_64 dice{seed};
  std::vector<std::size_t> sizes{1, 8, 262'143, 262'144, 262'145, 524'288, 1'000'000};
  for (int i = 0; i < 5; ++i) sizes.push_back(1 + dice() % 700'000);
  run_sockets(3,
              [&](px::SocketCommunicator& comm) {
                socket_job::exchange(comm, 8);
                for (std::size_t const size : sizes) {
                  auto const before = comm.wire_bytes();
                  socket_job::exchange(comm, size);
                  std::uint64_t const expected = 2 * parallax_test::bytes::on_connection(size, checksums);
                  if (comm.wire_bytes() - before != expected)
                    throw px::Error{px::Errc::misuse, comm.rank(), "", "",
                                    px::joined({comm.wire_bytes() - before, " bytes of ", size, ", not ", expected})};
                }
              },
              {.shared_memory = false, .checksums = checksums});
}

TEST_CASE("a peer that announces what cannot be is named, and gets no memory", "[comm][socket]") {
  constexpr std::uint64_t large = std::uint64_t{3} << 30, huge = std::uint64_t{1} << 62;
  struct Lie {
    FrameKind kind;
    std::uint64_t total;
    char const* words;
    std::uint64_t number = 0;
  };
  constexpr std::array lies{
      Lie{FrameKind::request, large, "announces a request of 3221225472 bytes, where 67108864 are the most"},
      Lie{FrameKind::request, huge, "announces a request of 4611686018427387904 bytes"},
      Lie{FrameKind::answer, large, "announces an answer of 3221225472 bytes, where 67108864 are the most"},
      Lie{FrameKind::abort, large, "announces an abort of 3221225472 bytes"},
      Lie{FrameKind::abort, huge, "announces an abort of 4611686018427387904 bytes"},
      Lie{FrameKind::directory, large, "announces a directory of ranks of 3221225472 bytes"},
      Lie{FrameKind::status, 7, "announces a status of 7 bytes"},
      Lie{FrameKind::question, 0, "announces a question after its journal of 0 bytes"},
      Lie{FrameKind::place, 1, "announces a place in memory of 1 bytes"},
      Lie{FrameKind::bell, 1, "announces a bell of 1 bytes"},
      Lie{FrameKind::credit, 0, "claims to have taken 18446744073709551615 requests", ~std::uint64_t{0}},
  };
  std::size_t const before = kibibytes_at_most();
  for (Lie const& lie : lies) {
    CAPTURE(lie.words);
    auto const bytes =
        frame(lie.kind, lie.total, std::vector<std::byte>(std::min<std::uint64_t>(lie.total, 262'144)), lie.number);
    auto const error = told_by_liar([&](int socket) { say(socket, bytes); });
    CAPTURE(error.what());
    CHECK(error.code() == px::Errc::transport);
    CHECK(error.rank() == 1);
    CHECK(std::string_view{error.what()}.find(lie.words) != std::string_view::npos);
    CHECK(std::string_view{error.what()}.find("rank 1 on e?[31mvil") != std::string_view::npos);
  }
  for (std::uint64_t const total : {large, huge}) {  // of a block that nobody waits for yet
    auto const bytes = frame(FrameKind::block, total, std::vector<std::byte>(262'144), 5);
    CAPTURE(total);
    auto const error = told_by_liar([&](int socket) {
      FrameHeader header;
      std::memcpy(&header, bytes.data(), sizeof header);
      header.channel = 3;
      header.check = header.own_check();
      auto of_another = bytes;
      std::memcpy(of_another.data(), &header, sizeof header);
      say(socket, of_another);
    });
    CAPTURE(error.what());
    CHECK(std::string_view{error.what()}.find("has gone without a goodbye") != std::string_view::npos);
  }
  if (parallax_test::sized(false, true, true)) CHECK(kibibytes_at_most() < before + 64 * 1024);
}

TEST_CASE("more requests than the window has end the communicator", "[comm][socket]") {
  auto const bytes = frame(FrameKind::request, 8, std::vector<std::byte>(8));
  auto const error = told_by_liar(
      [&](int socket) {
        for (int i = 0; i < 4; ++i) say(socket, bytes);
      },
      {.mailbox = {.window = 3}});
  CHECK(error.code() == px::Errc::transport);
  CHECK(std::string_view{error.what()}.find("sends more requests than the 3 that may wait") != std::string_view::npos);
}

TEST_CASE("long letters and early blocks arrive whole, though their memory grows as they come", "[comm][socket]") {
  std::uint64_t const seed = std::random_device{}();
  CAPTURE(seed);
  std::mt19937_64 dice{seed};
  auto const long_one = random_bytes(5'000'000 + dice() % 1000, dice), short_one = random_bytes(100, dice);
  bool const checksums = GENERATE(false, true);
  run_sockets(
      2,
      [&](px::SocketCommunicator& comm) {
        auto const require = [](bool right, char const* words) {
          if (!right) throw px::Error{px::Errc::misuse, -1, "", "", words};
        };
        std::vector<px::ByteRange> const none(2), out{{0, 0}, {0, long_one.size()}}, in{{0, long_one.size()}, {0, 0}};
        if (comm.rank() == 0) {
          auto request = comm.ialltoallv(2, {long_one.data(), out, nullptr, none});
          std::array<std::span<std::byte const>, 2> const parts{std::span{long_one}, std::span{short_one}};
          for (int i = 0; i < 2; ++i) {
            comm.post(px::LetterLane::answers, 1, parts);
            comm.post(px::LetterLane::answers, 1, std::span{&parts[1], 1});
          }
          px::wait(comm, request, "a test");
          socket_job::exchange(comm, 8);
          return;
        }
        std::vector<std::byte> received(long_one.size());
        px::Letter letter;
        for (int i = 0; i < 4; ++i) {  // they come behind the block
          while (!comm.take(px::LetterLane::answers, 0, letter)) std::this_thread::yield();
          std::size_t const head = i % 2 == 0 ? long_one.size() : 0;
          require(letter.bytes.size() == head + short_one.size(), "a letter of another size");
          require(std::equal(long_one.begin(), long_one.begin() + static_cast<std::ptrdiff_t>(head), letter.bytes.begin()) &&
                      std::equal(short_one.begin(), short_one.end(), letter.bytes.begin() + static_cast<std::ptrdiff_t>(head)),
                  "another letter");
        }
        auto request = comm.ialltoallv(2, {nullptr, none, received.data(), in});
        px::wait(comm, request, "a test");
        require(received == long_one, "another block");
        socket_job::exchange(comm, 8);
      },
      {.shared_memory = false, .checksums = checksums});
}

TEST_CASE("an abort is shown as far as it makes sense", "[comm][socket]") {
  px::Error const lie{static_cast<px::Errc>(4711),
                      12'345,
                      "st\x1b[2Jep",
                      "la\nyer\x7f",
                      "Größe \xc2\x9b"
                      "1m \xff\xfe\n\tmore",
                      "\nreport\r"};
  auto const error = told_by_liar([&](int socket) {
    auto const bytes = px::detail::error_bytes(lie);
    say(socket, frame(FrameKind::abort, bytes.size(), bytes));
  });
  CHECK(error.code() == px::Errc::aborted);
  CHECK(error.rank() == -1);
  CHECK(error.operation() == "st?[2Jep");
  CHECK(error.variable() == "la?yer?");
  CHECK(error.detail() == "Größe ??1m ??\n?more");
  CHECK(error.report() == "\nreport?");
  for (std::size_t size : {std::size_t{0}, std::size_t{3}, std::size_t{200}}) {
    std::mt19937_64 dice{size};
    auto const bytes = random_bytes(size, dice);
    auto const random = told_by_liar([&](int socket) { say(socket, frame(FrameKind::abort, size, bytes)); });
    CHECK(px::to_string(random.code()) != px::to_string(px::Errc{}));
    for (unsigned char const c : std::string_view{random.what()}) CHECK((c >= ' ' || c == '\n'));
  }
}

TEST_CASE("a status of any bytes can be shown", "[comm][socket]") {
  px::detail::SocketJournals journals;
  journals.join(2);
  std::memset(journals.begin(1), 0xff, sizeof(px::RankStatus));
  journals.come(1, false);
  bool fresh = false;
  auto const status = journals.status_of(1, fresh);
  REQUIRE(status);
  CHECK(status->waiting_for == -1);
  CHECK(status->pausing.text() == std::string(15, '?'));
  for (px::JournalEntry const& entry : status->last) {
    CHECK(entry.operation.text() == std::string(15, '?'));
    CHECK(std::string_view{entry.variable} == std::string(37, '?'));
  }
}
