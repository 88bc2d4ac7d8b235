// An owner that does not listen costs no memory without bound, neither there nor where its letters are written.
#include <algorithm>
#include <chrono>
#include <fstream>
#include <span>
#include <thread>
#include <vector>

#include <mpi.h>
#include <unistd.h>

#include "../catch.hpp"
#include "../support/size.hpp"
#include "parallax/async/async_session.hpp"
#include "parallax/comm/collectives.hpp"
#include "parallax/comm/mpi.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

constexpr int window = 8;

// Bytes of this process in memory.
std::int64_t resident() {
  std::ifstream file{"/proc/self/statm"};
  std::int64_t all = 0, pages = 0;
  file >> all >> pages;
  return pages * ::sysconf(_SC_PAGESIZE);
}

// By how many bytes this process grows at most while rank 0 is deaf, and while it then takes what has come.
struct Growth {
  std::int64_t deaf = 0, after = 0;
};

Growth grow(std::int64_t width, std::chrono::milliseconds deaf) {
  px::MpiCommunicator world{MPI_COMM_WORLD, {.deadline = 4 * deaf + std::chrono::seconds{10}, .mailbox = {.window = window}}};
  px::AsyncSession session{world, px::Asp{}};
  px::Variable<px::Sparse, px::PsShard, px::Sgd, px::Block, double> table{
      session, "counts", {.rows = world.size(), .width = width}, px::Sgd{.learning_rate = -1}, px::Reduce::sum};
  std::vector<double> const ones(static_cast<std::size_t>(width), 1.0);
  Growth growth;
  double pushes = 0;
  session.train([&](auto& worker) {
    for (int step = 0; step < 5 * window; ++step) {  // until all memory is there that a lively training takes
      worker.pull(table.at(std::vector{0}));
      worker.push(px::grad(table, std::vector{0}, ones));
      ++pushes;
    }
    // All are there; and then rank 0 listens no more, which it says past its session.
    MPI_Request ready{};
    int done = 0;
    for (MPI_Ibarrier(MPI_COMM_WORLD, &ready); !done; MPI_Test(&ready, &done, MPI_STATUS_IGNORE)) worker.poll();
    using Clock = std::chrono::steady_clock;  // of the host
    std::int64_t until = (Clock::now() + deaf).time_since_epoch().count();
    std::int64_t const before = resident();
    auto const is_deaf = [&] { return Clock::now().time_since_epoch().count() < until; };
    if (world.rank() == 0) {
      for (int other = 1; other < world.size(); ++other) MPI_Send(&until, 1, MPI_INT64_T, other, 0, MPI_COMM_WORLD);
      while (is_deaf()) std::this_thread::sleep_for(std::chrono::milliseconds{1});
    } else {
      MPI_Recv(&until, 1, MPI_INT64_T, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    }
    growth.deaf = resident() - before;
    int blind = 0;
    while (is_deaf()) {  // the last push waits until rank 0 listens
      worker.push(px::grad(table, std::vector{0}, ones));
      ++pushes;
      blind += is_deaf();
      growth.deaf = std::max(growth.deaf, resident() - before);
    }
    CHECK(blind <= window);
    for (int look = 0; look < 2 * window; ++look) {
      worker.poll();
      growth.after = std::max(growth.after, resident() - before);
    }
  });
  double of_all[] = {pushes};
  px::allreduce(world, std::span{of_all});
  session.together([&](auto& all) {
    auto const rows = all.pull(table, std::vector{0});
    CHECK(rows[0][0] == of_all[0]);  // each once
    CHECK(rows[0][static_cast<std::size_t>(width - 1)] == of_all[0]);
  });
  session.finish();
  return growth;
}

}  // namespace

TEST_CASE("letters to an owner that is deaf wait within its bounds", "[async][mpi][deaf]") {
  std::chrono::milliseconds const deaf{parallax_test::sized(500, 700, 10'000)};
  int size = 0, rank = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  constexpr std::int64_t slack = 1'000'000;
  for (std::int64_t const letter : {2'000, 1'000'000}) {
    Growth const growth = grow(letter / 8, deaf);
    double const own[]{static_cast<double>(growth.deaf), static_cast<double>(growth.after)};
    double all[2 * 3]{};
    MPI_Gather(own, 2, MPI_DOUBLE, all, 2, MPI_DOUBLE, 0, MPI_COMM_WORLD);
    std::int64_t const kept = letter < slack / window ? 0 : window * letter;  // of one pair
    CAPTURE(rank, letter);
    for (int of = 0; rank == 0 && of < size; ++of)
      WARN("letters of " << letter << " bytes, rank " << of << ": +" << all[2 * of] << " bytes while rank 0 is deaf, +"
                         << all[2 * of + 1] << " after it");
    std::int64_t const most = (rank == 0 ? (size - 1) * kept : kept + letter) + slack;  // and the one that finds no place
    CHECK(growth.deaf <= most);
    CHECK(growth.after <= most);
  }
}
