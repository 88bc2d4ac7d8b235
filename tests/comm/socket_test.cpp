// Ranks over sockets: the suites, a training with the bits of threads, and what goes over the wire.
#include "parallax/comm/socket.hpp"

#include <sys/resource.h>

#include <atomic>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "../catch.hpp"
#include "../support/size.hpp"
#include "parallax/comm/any.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/conformance/communicator.hpp"
#include "parallax/conformance/mailbox.hpp"
#include "parallax/parallax.hpp"
#include "sockets.hpp"

namespace px = parallax;

namespace {

struct AnySockets {
  int ranks;

  template <class Body>
  void run(std::chrono::nanoseconds deadline, Body const& body) const {
    Sockets{ranks, 2}.run(deadline, [&](px::SocketCommunicator& comm) {
      px::AnyCommunicator any{std::ref(comm)};
      body(any);
    });
  }
};

struct Trained {
  std::vector<float> weights = std::vector<float>(1000, 1.0f), others = std::vector<float>(70'000, 1.0f), rows;
  bool operator==(Trained const&) const = default;
};

template <class C>
Trained trained(C& world) {
  px::Session session{world};
  Trained model;
  px::Variable<px::Dense, px::Adam> layer{session, "layer", px::bind(model.weights)};
  px::Variable<px::Dense, px::Sgd> other{session, "other", px::bind(model.others)};
  px::SharedBuffer<float> in_place(model.others.size());
  px::Variable<px::Sparse, px::Adagrad> words{session, "words", {.rows = 50, .width = 4, .initial = px::uniform(-1, 1)}};
  std::vector<int> const ids{world.rank(), 7, world.rank() + 20};
  for (int step = 0; step < 10; ++step) {
    auto const rows = session.pull(words, ids);
    std::vector<float> gradient(model.weights.size()), of_rows;
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = model.weights[i] * rows[i % 3][i % 4];
    for (std::size_t i = 0; i < 12; ++i) of_rows.push_back(rows[i / 4][i % 4] * model.weights[i]);
    for (std::size_t i = 0; i < in_place.size(); ++i)
      in_place.data()[i] = model.others[i] / static_cast<float>(3 + i % 7 + static_cast<std::size_t>(world.rank()));
    session.step(px::grad(layer, gradient), px::grad(rows, of_rows),
                 px::grad(other, px::in_place(std::span{in_place.data(), in_place.size()})));
  }
  auto const last = session.pull(words, std::vector{0, 1, 7, 20, 21});
  for (std::size_t i = 0; i < 20; ++i) model.rows.push_back(last[i / 4][i % 4]);
  session.finish();
  return model;
}

double cpu_seconds() {
  rusage use{};
  ::getrusage(RUSAGE_THREAD, &use);
  auto const seconds = [](timeval time) { return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec); };
  return seconds(use.ru_utime) + seconds(use.ru_stime);
}

// So many bytes to and from every other rank.
void exchange_blocks(px::SocketCommunicator& comm, std::size_t bytes, std::byte const* send, std::byte* receive) {
  auto const ranks = static_cast<std::size_t>(comm.size()), self = static_cast<std::size_t>(comm.rank());
  std::vector<px::ByteRange> to(ranks, {0, bytes}), from(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) from[rank] = {rank * bytes, bytes};
  to[self].bytes = from[self].bytes = 0;
  auto request = comm.ialltoallv(0, {send, to, receive, from});
  px::wait(comm, request, "a test");
}

}  // namespace

TEST_CASE("sockets pass the communicators' suite", "[comm][socket]") {
  int const ranks = GENERATE(1, 2, 3, 5);
  auto const [shared_memory, checksums] = GENERATE(std::pair{true, false}, std::pair{false, false}, std::pair{false, true});
  std::uint64_t const seed = std::random_device{}();
  CAPTURE(ranks, shared_memory, checksums, seed);
  parallax_conformance::check_communicator(Sockets{ranks, 3, shared_memory, checksums}, seed);
}

TEST_CASE("sockets pass the suite of failures", "[comm][socket]") {
  auto const [ranks, shared_memory] = GENERATE(std::pair{3, true}, std::pair{3, false}, std::pair{5, true});
  CAPTURE(ranks, shared_memory);
  parallax_conformance::check_failures(Sockets{ranks, 3, shared_memory, !shared_memory});
}

TEST_CASE("sockets pass the mailboxes' suite", "[comm][socket][mailbox]") {
  int const ranks = GENERATE(1, 2, 4);
  int const window = GENERATE(1, 3);
  std::uint64_t const seed = std::random_device{}();
  CAPTURE(ranks, window, seed);
  parallax_conformance::check_mailbox(Sockets{ranks, window, true, window == 1}, seed, 4);
  parallax_conformance::check_mailbox_failures(Sockets{ranks, window, true, window == 1});
}

TEST_CASE("sockets behind an erased type pass the suites", "[comm][socket][any]") {
  parallax_conformance::check_communicator(AnySockets{3});
  parallax_conformance::check_failures(AnySockets{2});
  parallax_conformance::check_mailbox(AnySockets{3}, 1, 4);
  parallax_conformance::check_mailbox_failures(AnySockets{3});
}

TEST_CASE("a training over sockets has the bits of threads", "[comm][socket]") {
  int const ranks = GENERATE(1, 2, 3);
  auto const [shared_memory, checksums] = GENERATE(std::pair{true, true}, std::pair{false, false}, std::pair{false, true});
  CAPTURE(ranks, shared_memory, checksums);
  std::vector<Trained> sockets(static_cast<std::size_t>(ranks)), threads(sockets);
  run_sockets(ranks, [&](px::SocketCommunicator& world) { sockets[static_cast<std::size_t>(world.rank())] = trained(world); },
              {.shared_memory = shared_memory, .checksums = checksums});
  px::run_threads(ranks,
                  [&](px::ThreadCommunicator& world) { threads[static_cast<std::size_t>(world.rank())] = trained(world); });
  CHECK(sockets == threads);
  CHECK(sockets[0].weights[0] != 1.0f);
  CHECK(sockets[0].others[69'999] != 1.0f);
}

TEST_CASE("large blocks pass each other, and cost little more than their bytes", "[comm][socket]") {
  constexpr std::size_t bytes = (std::size_t{24} << 20) + 5;  // more than systems buffer
  bool const shared_memory = GENERATE(true, false);
  CAPTURE(shared_memory);
  auto const body = [&](px::SocketCommunicator& comm) {
    std::vector<std::byte> const send(bytes, static_cast<std::byte>(comm.rank() + 1));
    std::vector<std::byte> receive(3 * bytes);
    auto const before = comm.wire_bytes();
    exchange_blocks(comm, bytes, send.data(), receive.data());
    auto const written = comm.wire_bytes() - before, payload = std::uint64_t{2 * bytes};
    if (shared_memory)  // nothing but bells: a block would show
      parallax_conformance::require(written % sizeof(px::detail::FrameHeader) == 0 && written < bytes, "blocks on the wire");
    else parallax_conformance::require(written >= payload && written <= payload + payload / 200, "too much on the wire");
    for (int rank = 0; rank < 3; ++rank)
      for (std::size_t i = 0; i < bytes && rank != comm.rank(); i += 1000)
        parallax_conformance::require(receive[static_cast<std::size_t>(rank) * bytes + i] == static_cast<std::byte>(rank + 1),
                                      "a wrong byte");
  };
  run_sockets(3, body, {.shared_memory = shared_memory});
}

TEST_CASE("a block that comes while its operation is posted goes on where it belongs", "[comm][socket]") {
  constexpr std::size_t bytes = std::size_t{24} << 20;
  auto const body = [&](px::SocketCommunicator& comm) {
    std::vector<std::byte> const send(bytes, std::byte{7});
    std::vector<std::byte> receive(2 * bytes);
    if (comm.rank() == 1) {
      for (int k = 0; k < 3; ++k) {
        std::this_thread::sleep_for(std::chrono::milliseconds{2});
        comm.check();  // reads a part of the block
      }
    }
    exchange_blocks(comm, bytes, send.data(), receive.data());
    auto const first = receive.begin() + static_cast<std::ptrdiff_t>(bytes * static_cast<std::size_t>(1 - comm.rank()));
    parallax_conformance::require(std::count(first, first + static_cast<std::ptrdiff_t>(bytes), std::byte{7}) == bytes,
                                  "a wrong byte");
  };
  run_sockets(2, body, {.shared_memory = false, .checksums = GENERATE(false, true)});
}

TEST_CASE("a rank that waits for its peers sleeps", "[comm][socket]") {
  constexpr std::chrono::milliseconds away{1500};
  bool const shared_memory = GENERATE(true, false);
  CAPTURE(shared_memory);
  auto const body = [&](px::SocketCommunicator& comm) {
    std::byte sent{1}, received[2]{};
    if (comm.rank() == 1) std::this_thread::sleep_for(away);
    double const before = cpu_seconds();
    auto const began = std::chrono::steady_clock::now();
    exchange_blocks(comm, 1, &sent, received);
    double const used = cpu_seconds() - before;
    std::chrono::duration<double> const waited = std::chrono::steady_clock::now() - began;
    if (comm.rank() != 0) return;
    CAPTURE(waited.count(), used);
    CHECK(used < parallax_test::sized(0.1, 0.02, 0.02) * std::chrono::duration<double>{away}.count());
  };
  run_sockets(2, body, {.shared_memory = shared_memory});
}

TEST_CASE("a rank that has announced a pause is waited for, and one that has not is named", "[comm][socket]") {
  bool const announced = GENERATE(true, false);
  CAPTURE(announced);
  std::vector<std::string> errors(3);
  auto const train = [&](px::SocketCommunicator& world) {
    px::Session session{world};
    std::vector<float> weights(10, 1.0f), gradient(weights);
    px::Variable<px::Dense, px::Sgd> layer{session, "layer", px::bind(weights)};
    session.step(px::grad(layer, gradient));
    if (world.rank() == 1) {
      auto const away = [] { std::this_thread::sleep_for(std::chrono::milliseconds{2500}); };
      if (announced) {
        auto const pause = session.pause("saving", std::chrono::seconds{20});
        away();
      } else {
        away();
      }
    }
    try {
      session.step(px::grad(layer, gradient));
      session.finish();
    } catch (px::Error const& error) {
      errors[static_cast<std::size_t>(world.rank())] = error.what();
    }
  };
  run_sockets(3, train, {.deadline = std::chrono::seconds{1}});
  for (std::string const& error : errors) {
    CAPTURE(error);
    CHECK(error.empty() == announced);
    CHECK((announced || error.find("timeout (rank 1) in step of 'layer'") != std::string::npos));
  }
}

TEST_CASE("ranks of one host know it, and share its memory where they may", "[comm][socket]") {
  bool const shared_memory = GENERATE(true, false);
  auto const body = [&](px::SocketCommunicator& comm) {
    parallax_conformance::require(comm.hosts() == std::vector<int>{0, 0, 0}, "the hosts are wrong");
    for (int rank = 0; rank < 3; ++rank)
      parallax_conformance::require(comm.shares_memory(comm.rank(), rank) == (shared_memory || rank == comm.rank()),
                                    "memory is shared, or not");
    std::vector<float> const gradient(10);
    px::SharedBuffer<float> shared(10);
    parallax_conformance::require(!comm.place_of(gradient.data()).id && comm.place_of(shared.data() + 3).id,
                                  "what can be lent is not known");
  };
  run_sockets(3, body, {.shared_memory = shared_memory});
}

TEST_CASE("blocks within a host put no byte on a connection while nobody sleeps", "[comm][socket]") {
  run_sockets(3, [](px::SocketCommunicator& comm) {
    auto const before = comm.wire_bytes();
    for (std::size_t const bytes : {std::size_t{8}, std::size_t{1000}, std::size_t{3} << 20}) {
      std::vector<std::byte> const send(bytes, static_cast<std::byte>(comm.rank() + 1));
      std::vector<std::byte> receive(3 * bytes);
      std::vector<px::ByteRange> const to(3, {0, bytes}), from{{0, bytes}, {bytes, bytes}, {2 * bytes, bytes}};
      auto request = comm.ialltoallv(0, {send.data(), to, receive.data(), from});
      while (!request.test()) std::this_thread::yield();
      for (std::size_t i = 0; i < receive.size(); i += 1 + bytes / 1000)
        parallax_conformance::require(receive[i] == static_cast<std::byte>(i / bytes + 1), "a wrong byte");
    }
    parallax_conformance::require(comm.wire_bytes() == before, "bytes went over a connection");
  });
}

TEST_CASE("a block that is there before its operation is posted keeps nobody asleep", "[comm][socket]") {
  std::atomic<bool> sent{false}, over{false};
  std::chrono::nanoseconds slept{0};
  std::vector<px::ByteRange> const none(2), to{{0, 0}, {0, 8}}, from{{0, 8}, {0, 0}};
  run_sockets(2, [&](px::SocketCommunicator& comm) {
    std::byte bytes[8]{};
    if (comm.rank() == 0) {
      auto request = comm.ialltoallv(0, {bytes, to, nullptr, none});
      px::wait(comm, request, "a test");
      sent = true;
      while (!over) std::this_thread::sleep_for(std::chrono::milliseconds{1});  // so that no goodbye wakes the other
      return;
    }
    while (!sent) std::this_thread::yield();
    comm.check();
    comm.sleep(std::chrono::nanoseconds{1});
    auto request = comm.ialltoallv(0, {nullptr, none, bytes, from});
    auto const began = std::chrono::steady_clock::now();
    comm.sleep(std::chrono::seconds{10});
    slept = std::chrono::steady_clock::now() - began;
    over = true;
    px::wait(comm, request, "a test");
  });
  CHECK(slept < std::chrono::seconds{9});
}

// A wait that was not woken lasts for all of its ten seconds.
TEST_CASE("ranks that sleep miss nothing that comes through memory", "[comm][socket]") {
  std::uint64_t const seed = std::random_device{}();
  CAPTURE(seed);
  int const rounds = parallax_test::sized(2'000, 20'000, 200'000);
  std::atomic<int> missed{0};
  run_sockets(2, [&](px::SocketCommunicator& comm) {
    std::mt19937_64 dice{seed + static_cast<std::uint64_t>(comm.rank())};
    constexpr std::size_t large = 300'000;  // more than a ring holds: then both wait, one after the other
    std::vector<std::byte> send(large), receive(2 * large);
    int const other = 1 - comm.rank();
    std::vector<px::ByteRange> to(2), from(2);
    for (int round = 0; round < rounds && missed == 0; ++round) {
      std::size_t const bytes = round % 100 == 0 ? large : 1 + static_cast<std::size_t>(round % 500);
      to[static_cast<std::size_t>(other)] = from[static_cast<std::size_t>(other)] = {0, bytes};
      switch (dice() % 8) {  // so that the news comes before the other sleeps, while it lies down, and afterwards
        case 0: std::this_thread::sleep_for(std::chrono::nanoseconds{dice() % 100'000}); break;
        case 1: std::this_thread::yield(); break;
        default:
          for (std::uint64_t spin = dice() % 2'000; spin > 0; --spin) send[0] ^= std::byte{1};
      }
      auto request = comm.ialltoallv(round % px::channels, {send.data(), to, receive.data(), from});
      bool const looks = dice() % 2 == 0;  // else it sleeps first: what is there already must not be missed either
      while (!looks || !request.test()) {
        auto const began = std::chrono::steady_clock::now();
        comm.sleep(std::chrono::seconds{10});
        missed += std::chrono::steady_clock::now() - began > std::chrono::seconds{9};
        if (!looks && request.test()) break;
      }
    }
  });
  CHECK(missed == 0);
}
