// Letters between MPI processes.
#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "../catch.hpp"
#include "parallax/comm/any.hpp"
#include "parallax/comm/mpi.hpp"
#include "parallax/conformance/mailbox.hpp"

namespace px = parallax;

namespace {

struct MpiRanks {
  px::MpiOptions options;

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
    px::MpiOptions const options{.deadline = deadline, .mailbox = {.window = 2, .largest = 100'000}};
    px::AnyCommunicator any{px::MpiCommunicator{MPI_COMM_WORLD, options}};
    body(any);
  }
};

// Random, and the same on all ranks.
std::uint64_t common_seed() {
  double seed = MPI_Wtime() * 1e6;
  MPI_Bcast(&seed, 1, MPI_DOUBLE, 0, MPI_COMM_WORLD);
  return static_cast<std::uint64_t>(seed);
}

}  // namespace

TEST_CASE("MPI passes the mailboxes' suite", "[comm][mpi][mailbox]") {
  std::uint64_t const seed = common_seed();
  CAPTURE(seed);
  MpiRanks const narrow{{.mailbox = {.window = 1, .largest = 100'000}}};
  MpiRanks const wide{{.shared_memory = false, .mailbox = {.window = 8, .largest = 1'000'000}}};
  for (MpiRanks const& model : {narrow, wide}) parallax_conformance::check_mailbox(model, seed, 3);
}

TEST_CASE("a type-erased communicator over MPI passes the mailboxes' suite", "[comm][mpi][mailbox][any]") {
  parallax_conformance::check_mailbox(AnyMpiRanks{}, 1, 1);
}

// Letters that MPI does not keep between two processes: they wait at their writer, which has gone on to an exchange before anybody
// takes one.
TEST_CASE("letters go on while their writer waits for an exchange", "[comm][mpi][mailbox]") {
  constexpr std::size_t many = 8, bytes = 1'000'000;
  for (bool const shared_memory : {true, false}) {
    CAPTURE(shared_memory);
    px::MpiOptions const options{.shared_memory = shared_memory, .mailbox = {.window = many, .largest = 2 * bytes}};
    px::MpiCommunicator comm{MPI_COMM_WORLD, options};
    std::vector<std::byte> const words(bytes, std::byte{7});
    px::Letter letter;
    if (comm.rank() == 0)
      for (std::size_t i = 0; i < many; ++i)
        REQUIRE(px::post_letter(comm, px::LetterLane::answers, comm.size() - 1, i, std::span{words}));
    if (comm.rank() == comm.size() - 1) {
      std::this_thread::sleep_for(std::chrono::milliseconds{200});
      for (std::size_t i = 0; i < many; ++i) {
        parallax_conformance::until("letter " + std::to_string(i),
                                    [&] { return comm.take(px::LetterLane::answers, 0, letter); });
        REQUIRE(letter.bytes.size() == sizeof i + bytes);
      }
    }
    parallax_conformance::meet(comm, 1);
  }
}

TEST_CASE("mailboxes of two communicators, and journals, are apart", "[comm][mpi][mailbox]") {
  px::MpiCommunicator one, two;
  int const next = (one.rank() + 1) % one.size(), before = (one.rank() + one.size() - 1) % one.size();
  one.journal().enter("serve", 1 + static_cast<std::uint64_t>(one.rank()), 0, 0);
  REQUIRE(px::post_letter(one, px::LetterLane::requests, next, 1));
  REQUIRE(px::post_letter(two, px::LetterLane::requests, next, 2));
  bool fresh = false;
  one.status_of(next, fresh);  // asks, by a letter that the mailbox must not show
  two.status_of(next, fresh);
  px::Letter letter;
  for (int const expected : {2, 1}) {
    px::MpiCommunicator& comm = expected == 2 ? two : one;
    parallax_conformance::until("a letter", [&] { return comm.take(px::LetterLane::requests, -1, letter); });
    int value = 0;
    REQUIRE(letter.bytes.size() == sizeof value);
    std::memcpy(&value, letter.bytes.data(), sizeof value);
    CHECK(value == expected);
    CHECK(letter.from == before);
  }
  fresh = one.size() == 1;
  parallax_conformance::until("a journal", [&] {
    one.answer(), two.answer();
    return one.status_of(next, fresh).has_value() && fresh && two.status_of(next, fresh).has_value() && fresh;
  });
  CHECK(one.status_of(next, fresh)->latest()->operation.text() == "serve");
  CHECK(one.status_of(next, fresh)->latest()->number == 1 + static_cast<std::uint64_t>(next));
  parallax_conformance::meet(one, 1);
  one.answer(), two.answer();
  CHECK_FALSE(one.take(px::LetterLane::requests, -1, letter));
  CHECK_FALSE(one.take(px::LetterLane::answers, -1, letter));
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST_CASE("mailboxes whose bounds differ or make no sense are refused", "[comm][mpi][mailbox]") {
  int rank = 0, size = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  CHECK_THROWS_AS((px::MpiCommunicator{MPI_COMM_WORLD, {.mailbox = {.window = 0}}}), px::Error);
  CHECK_THROWS_AS((px::MpiCommunicator{MPI_COMM_WORLD, {.mailbox = {.largest = std::size_t{1} << 31}}}), px::Error);
  if (size > 1) CHECK_THROWS_AS((px::MpiCommunicator{MPI_COMM_WORLD, {.mailbox = {.window = rank == 1 ? 2 : 3}}}), px::Error);
}
