#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <limits>
#include <utility>
#include <vector>

#include "../catch.hpp"
#include "parallax/comm/any.hpp"
#include "parallax/comm/mpi.hpp"
#include "parallax/conformance/communicator.hpp"

namespace px = parallax;

namespace {

struct MpiRanks {
  px::MpiOptions options = {};

  template <class Body>
  void run(std::chrono::nanoseconds deadline, Body const& body) const {
    px::MpiOptions mine = options;
    mine.deadline = deadline;
    px::MpiCommunicator comm{MPI_COMM_WORLD, mine};
    body(comm);
  }
};

struct AnyMpiRanks {
  template <class Body>
  void run(std::chrono::nanoseconds deadline, Body const& body) const {
    px::AnyCommunicator any{px::MpiCommunicator{MPI_COMM_WORLD, {.deadline = deadline}}};
    body(any);
  }
};

// The memory of an exchange of `bytes` with every rank.
struct Even {
  Even(int size, std::size_t bytes) : out(bytes * static_cast<std::size_t>(size)), in(out.size()) {
    for (std::size_t r = 0; r < static_cast<std::size_t>(size); ++r) blocks.push_back({r * bytes, bytes});
  }
  px::Transfer transfer() { return {out.data(), blocks, in.data(), blocks}; }

  std::vector<std::byte> out, in;
  std::vector<px::ByteRange> blocks;
};

px::Errc code_of(std::function<void()> const& body) {
  try {
    body();
  } catch (px::Error const& error) {
    return error.code();
  }
  return px::Errc{};
}

}  // namespace

TEST_CASE("MPI passes the communicators' suite", "[comm][mpi]") {
  parallax_conformance::check_communicator(MpiRanks{});
}

TEST_CASE("MPI passes the communicators' suite when messages travel in small chunks", "[comm][mpi]") {
  parallax_conformance::check_communicator(MpiRanks{{.largest_message = 1000, .shared_memory = false}}, 2);
}

TEST_CASE("MPI passes the communicators' suite with the vendor's all-reduce and by messages", "[comm][mpi]") {
  parallax_conformance::check_communicator(MpiRanks{{.order = px::SumOrder::vendor, .shared_memory = false}}, 3);
}

TEST_CASE("a type-erased communicator over MPI passes the communicators' suite", "[comm][mpi][any]") {
  parallax_conformance::check_communicator(AnyMpiRanks{}, 4);
}

TEST_CASE("a communicator is made of the user's own, with its ranks, and apart from its messages", "[comm][mpi]") {
  int world_rank = 0, world_size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &world_rank);
  MPI_Comm_size(MPI_COMM_WORLD, &world_size);
  MPI_Comm reversed = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, 0, -world_rank, &reversed);
  {
    px::MpiCommunicator comm{reversed};
    CHECK(comm.rank() == world_size - 1 - world_rank);
    CHECK(comm.size() == world_size);
    int const next = (comm.rank() + 1) % comm.size();
    // A message of the user's that is under way while ours are, with a tag and a size that ours have too.
    long sent = comm.rank(), received = -1;
    MPI_Request mine = MPI_REQUEST_NULL;
    MPI_Isend(&sent, 1, MPI_LONG, next, px::channels, reversed, &mine);
    Even part{comm.size(), sizeof(long)};
    auto request = comm.ialltoallv(0, part.transfer());
    px::wait(comm, request, "a test");
    MPI_Recv(&received, 1, MPI_LONG, MPI_ANY_SOURCE, px::channels, reversed, MPI_STATUS_IGNORE);
    MPI_Wait(&mine, MPI_STATUS_IGNORE);
    CHECK(received == (comm.rank() + comm.size() - 1) % comm.size());
  }
  MPI_Barrier(reversed);
  MPI_Comm_free(&reversed);
}

TEST_CASE("a communicator of a part of the ranks", "[comm][mpi]") {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank == 1 ? MPI_UNDEFINED : 0, rank, &part);
  if (rank == 1) {
    CHECK(part == MPI_COMM_NULL);
    return;
  }
  {
    px::MpiCommunicator comm{part};
    Even exchange{comm.size(), 100};
    auto request = comm.ialltoallv(3, exchange.transfer());
    px::wait(comm, request, "a test");
    CHECK(exchange.in == exchange.out);
  }
  MPI_Comm_free(&part);
}

TEST_CASE("the error handler of the user's communicators is left as it was", "[comm][mpi]") {
  MPI_Errhandler handler = MPI_ERRHANDLER_NULL;
  {
    px::MpiCommunicator comm;
    Even part{comm.size(), 8};
    auto request = comm.ialltoallv(0, part.transfer());
    px::wait(comm, request, "a test");
  }
  MPI_Comm_get_errhandler(MPI_COMM_WORLD, &handler);
  CHECK(handler == MPI_ERRORS_ARE_FATAL);
  MPI_Errhandler_free(&handler);
}

TEST_CASE("a communicator may move while operations are in flight", "[comm][mpi]") {
  px::MpiCommunicator first;
  Even part{first.size(), 1000};
  auto request = first.ialltoallv(0, part.transfer());
  px::MpiCommunicator second = std::move(first);
  px::wait(second, request, "a test");
  CHECK(part.in == part.out);
}

TEST_CASE("what cannot be a communicator is refused before anything is sent", "[comm][mpi]") {
  CHECK(code_of([] { px::MpiCommunicator{MPI_COMM_NULL}; }) == px::Errc::invalid_argument);
  CHECK(code_of([] { px::MpiCommunicator{MPI_COMM_WORLD, {.largest_message = 0}}; }) == px::Errc::invalid_argument);
  std::size_t const too_much = std::size_t{std::numeric_limits<int>::max()} + 1;
  CHECK(code_of([&] {
          px::MpiCommunicator{MPI_COMM_WORLD, {.largest_message = too_much}};
        }) == px::Errc::invalid_argument);
}

TEST_CASE("options that differ between ranks are a mismatch on all of them", "[comm][mpi]") {
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  if (size == 1) return;
  bool const odd = rank == 1;
  px::MpiOptions const chunks{.largest_message = odd ? 1000u : 2000u};
  px::MpiOptions const orders{.order = odd ? px::SumOrder::vendor : px::SumOrder::fixed};
  px::MpiOptions const memories{.shared_memory = odd};
  px::MpiOptions const windows{.mailbox = {.window = odd ? 3 : 4}};
  px::MpiOptions const letters{.mailbox = {.largest = odd ? 300u : 400u}};
  for (px::MpiOptions const& options : {chunks, orders, memories, windows, letters}) {
    try {
      px::MpiCommunicator comm{MPI_COMM_WORLD, options};
      FAIL("no error");
    } catch (px::Error const& error) {
      CHECK(error.code() == px::Errc::mismatch);
      CHECK(error.rank() == 1);
      CHECK(error.detail() == "rank 1 was given another order, largest_message, shared_memory or mailbox than rank 0");
    }
  }
}

TEST_CASE("operations that make no sense are refused, and harm no other", "[comm][mpi]") {
  px::MpiCommunicator comm;
  Even part{comm.size(), 8};
  std::vector<px::ByteRange> const short_list(static_cast<std::size_t>(comm.size()) - 1);
  std::vector<px::ByteRange> uneven = part.blocks;
  uneven[static_cast<std::size_t>(comm.rank())].bytes = 7;
  px::Transfer const sound = part.transfer();
  CHECK(code_of([&] { comm.ialltoallv(-1, sound); }) == px::Errc::invalid_argument);
  CHECK(code_of([&] { comm.ialltoallv(px::channels, sound); }) == px::Errc::invalid_argument);
  CHECK(code_of([&] {
          comm.ialltoallv(0, {sound.send, short_list, sound.receive, sound.from});
        }) == px::Errc::invalid_argument);
  CHECK(code_of([&] { comm.ialltoallv(0, {sound.send, sound.to, sound.receive, uneven}); }) == px::Errc::mismatch);
  float f = 0;
  CHECK(code_of([&] { comm.iallreduce(0, &f, &f, 1); }) == px::Errc::misuse);
  auto request = comm.ialltoallv(0, sound);
  px::wait(comm, request, "a test");
  CHECK(part.in == part.out);
}

TEST_CASE("ranks of one host share its number, and its memory where they may", "[comm][mpi]") {
  px::MpiCommunicator const comm;
  CHECK(px::mpi_hosts(comm) == std::vector<int>(static_cast<std::size_t>(comm.size()), 0));
  px::MpiCommunicator const apart{MPI_COMM_WORLD, {.shared_memory = false}};
  for (int rank = 0; rank < comm.size(); ++rank) {
    CHECK(comm.shares_memory(comm.rank(), rank));
    CHECK(apart.shares_memory(comm.rank(), rank) == (rank == comm.rank()));
  }
  int const cores = px::detail::least_cores(px::detail::cores_of_host(), px::detail::cores_by_quota());
  CHECK(comm.oversubscribed() == px::detail::outnumber(comm.size(), cores));
}

TEST_CASE("blocks of all sizes go through shared memory whole, on several channels at once", "[comm][mpi]") {
  px::MpiCommunicator comm;
  auto const ranks = static_cast<std::size_t>(comm.size()), self = static_cast<std::size_t>(comm.rank());
  auto const value = [](std::size_t from, std::size_t to, std::size_t channel, std::size_t i) {
    return static_cast<std::byte>(((i + 7 * channel) * 0x9e3779b97f4a7c15u + 31 * from + 57 * to) >> 32);
  };
  constexpr std::size_t lanes = 3;
  std::size_t wrong = 0;
  for (std::size_t const size : {1u, 239u, 240u, 241u, 65'535u, 65'537u, 262'143u, 262'145u, 1'000'003u}) {
    std::vector<std::vector<std::byte>> out(lanes), in(lanes), expected(lanes);
    std::vector<std::vector<px::ByteRange>> blocks(lanes);
    for (std::size_t lane = 0; lane < lanes; ++lane) {
      std::size_t const bytes = size + lane;
      out[lane].resize(ranks * bytes), in[lane].resize(ranks * bytes), expected[lane].resize(ranks * bytes);
      for (std::size_t other = 0; other < ranks; ++other) {
        blocks[lane].push_back({other * bytes, bytes});
        for (std::size_t i = 0; i < bytes; ++i) {
          out[lane][other * bytes + i] = value(self, other, lane, i);
          expected[lane][other * bytes + i] = value(other, self, lane, i);
        }
      }
    }
    // Those that are larger than the memory between two ranks share it, and who writes meets who reads: again and again.
    for (int rounds = size > 200'000 ? 12 : 1; rounds > 0; --rounds) {
      std::vector<px::MpiCommunicator::Request> requests;
      for (std::size_t k = 0; k < lanes; ++k) {  // in another order on every other rank: who comes first on one waits on another
        std::size_t const lane = comm.rank() % 2 ? lanes - 1 - k : k;
        std::fill(in[lane].begin(), in[lane].end(), std::byte{});
        requests.push_back(
            comm.ialltoallv(static_cast<int>(lane), {out[lane].data(), blocks[lane], in[lane].data(), blocks[lane]}));
      }
      for (auto& request : requests) px::wait(comm, request, "a test");
      for (std::size_t lane = 0; lane < lanes; ++lane) wrong += in[lane] != expected[lane];
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("the clock is MPI's", "[comm][mpi]") {
  px::MpiCommunicator const comm;
  double const before = MPI_Wtime();
  double const now = std::chrono::duration<double>{px::now(comm)}.count();
  double const after = MPI_Wtime();
  CHECK(now >= before - 1e-6);
  CHECK(now <= after + 1e-6);
}

// Needs 4.3 GB: one block that no MPI count can hold, in chunks of 1 GiB.
TEST_CASE("a block of more than 2^31 bytes arrives whole", "[.huge][comm][mpi]") {
  px::MpiCommunicator comm;
  if (comm.size() < 2) return;
  auto const ranks = static_cast<std::size_t>(comm.size());
  std::size_t const bytes = (std::size_t{1} << 31) + 1000;
  auto const value = [](std::size_t i) { return static_cast<std::byte>((i * 0x9e3779b97f4a7c15u) >> 56); };
  std::vector<px::ByteRange> to(ranks), from(ranks);
  std::vector<std::byte> memory;
  if (comm.rank() < 2) memory.resize(bytes);
  if (comm.rank() == 0) {
    to[1].bytes = bytes;
    for (std::size_t i = 0; i < bytes; ++i) memory[i] = value(i);
  }
  if (comm.rank() == 1) from[0].bytes = bytes;
  auto request = comm.ialltoallv(0, {memory.data(), to, memory.data(), from});
  px::wait(comm, request, "a test");
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < memory.size(); ++i) wrong += memory[i] != value(i);
  CHECK(wrong == 0);
}

// Prints the latency of the smallest agreement, 16 bytes gathered from every rank, and the time to construct.
TEST_CASE("the latency of an agreement over MPI", "[.benchmark][comm][mpi]") {
  px::MpiCommunicator comm;
  auto const size = static_cast<std::size_t>(comm.size());
  std::vector<std::byte> mine(16), all(16 * size);
  std::vector<px::ByteRange> const to(size, {0, 16});
  std::vector<px::ByteRange> from(size);
  for (std::size_t r = 0; r < size; ++r) from[r] = {16 * r, 16};
  auto const agree = [&](int times) {
    double const begin = MPI_Wtime();
    for (int i = 0; i < times; ++i) {
      auto request = comm.ialltoallv(0, {mine.data(), to, all.data(), from});
      px::wait(comm, request, "an agreement");
    }
    return (MPI_Wtime() - begin) / times * 1e6;
  };
  auto const construct = [](px::SumOrder order) {
    double const begin = MPI_Wtime();
    px::MpiCommunicator const another{MPI_COMM_WORLD, {.order = order}};
    return (MPI_Wtime() - begin) * 1e3;
  };
  double microseconds = agree(100);
  for (int batch = 0; batch < 100; ++batch) microseconds = std::min(microseconds, agree(100));
  double const fixed = construct(px::SumOrder::fixed), vendor = construct(px::SumOrder::vendor);
  if (comm.rank() == 0)
    std::printf(
        "agreement of 16 bytes, %d ranks: %.2f us (best of 100 batches); constructing %.1f ms, with vendor's sums %.1f "
        "ms\n",
        comm.size(), microseconds, fixed, vendor);
}
