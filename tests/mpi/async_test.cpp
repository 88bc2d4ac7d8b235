// An AsyncSession over processes: by clock it has the bits of a Session, and apart nothing is lost.
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "../async/training.hpp"
#include "../catch.hpp"
#include "parallax/comm/mpi.hpp"
#include "parallax/comm/thread.hpp"

using namespace async_test;

namespace {

std::uint64_t sum_of(px::MemoryArchive::Record const& record) {
  px::Fingerprint hash;
  for (std::byte const byte : record.bytes) hash.add(static_cast<std::uint64_t>(byte));
  return hash.value();
}

}  // namespace

TEST_CASE("by clock, workers and owners in processes have the bits of a session", "[async][mpi]") {
  px::MpiCommunicator world;
  using TheModel = Model<float, px::Adam, px::Adagrad, px::Hash>;
  for (int servers = 0; servers < world.size(); ++servers) {
    auto const together = train_together<TheModel>(world, servers, 20, 5);
    auto const apart = train_apart<TheModel>(world, px::Ssp{0}, servers, 20, 5, [](auto& worker, int) { worker.poll(); }, {});
    REQUIRE(together.records().size() == apart.records().size());
    for (std::size_t i = 0; i < apart.records().size(); ++i) {
      CAPTURE(servers, apart.records()[i].variable, apart.records()[i].name);
      if (apart.records()[i].name != "seen") CHECK(together.records()[i] == apart.records()[i]);
    }
  }
}

TEST_CASE("apart, every push of every process arrives once", "[async][mpi]") {
  px::MpiCommunicator world;
  for (int servers = 0; servers < world.size(); ++servers) {
    std::optional<px::AsyncSession<px::MpiCommunicator>> session;
    if (servers) session.emplace(world, px::Ssp{3}, px::Servers{servers});
    else session.emplace(world, px::Asp{});
    std::vector<double> sums(5);
    px::Variable<px::Dense, px::PsShard, double> layer{*session, "sums", px::bind(sums), px::Sgd{.learning_rate = -1}};
    session->train([&](auto& worker) {
      for (int step = 0; step < 50; ++step) {
        worker.pull(layer);
        worker.push(px::grad(layer, std::vector<double>(5, 1 + worker.rank())));
      }
    });
    session->together([&](auto&) {
      int const workers = world.size() - servers;
      CHECK(sums == std::vector<double>(5, 50.0 * workers * (workers + 1) / 2));
    });
    session->finish();
  }
}

TEST_CASE("processes that follow the logs of threads have their bits", "[async][mpi][replay]") {
  px::MpiCommunicator world;
  using TheModel = Model<float, px::Adam, px::Adagrad, px::Cyclic>;
  auto const ranks = static_cast<std::size_t>(world.size());
  auto const rested = [](std::uint64_t seed, int rank) {
    return [random = std::mt19937_64{seed + static_cast<std::uint64_t>(rank)}](auto& worker, int) mutable {
      if (random() % 3 == 0) std::this_thread::sleep_for(std::chrono::microseconds{random() % 300});
      worker.poll();
    };
  };
  auto const check = [&](auto const& rule, int servers) {
    std::vector<px::RunLog> logs(ranks);
    States first(ranks);  // of this process's own threads
    px::run_threads(world.size(), [&](px::ThreadCommunicator& thread) {
      auto const rank = static_cast<std::size_t>(thread.rank());
      first[rank] = train_apart<TheModel>(thread, rule, servers, 30, 9, rested(1, thread.rank()), {.record = &logs[rank]});
    });
    std::vector<std::uint64_t> numbers;  // all processes follow what the threads of the first one did
    auto const rank = static_cast<std::size_t>(world.rank());
    for (std::size_t of = 0; of < ranks; ++of) {
      std::vector<std::uint64_t> of_first = logs[of].numbers();
      std::uint64_t count = of_first.size();
      MPI_Bcast(&count, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
      of_first.resize(count);
      MPI_Bcast(of_first.data(), static_cast<int>(count), MPI_UINT64_T, 0, MPI_COMM_WORLD);
      if (of == rank) numbers = of_first;
    }
    px::RunLog const log{numbers};
    auto const again = train_apart<TheModel>(world, rule, servers, 30, 9, rested(2, world.rank()), {.replay = &log});
    for (std::size_t of = 0; of < ranks; ++of)
      for (std::size_t i = 0; i < first[of].records().size(); ++i) {
        std::uint64_t expected = sum_of(first[of].records()[i]);
        MPI_Bcast(&expected, 1, MPI_UINT64_T, 0, MPI_COMM_WORLD);
        auto const& mine = again.records()[i];
        CAPTURE(servers, mine.variable, mine.name);
        if (of == rank && mine.name != "seen") CHECK(sum_of(mine) == expected);
      }
  };
  for (int servers = 0; servers < world.size(); ++servers) {
    check(px::Asp{}, servers);
    check(px::Ssp{2}, servers);
    if (world.size() - servers > 1) check(px::Backup{1}, servers);
  }
}

TEST_CASE("with a spare process, every owner makes its updates of the same pushes", "[async][mpi]") {
  px::MpiCommunicator world;
  for (int servers = 0; servers + 1 < world.size(); ++servers) {
    px::RunLog log;
    px::AsyncOptions const options{.record = &log};
    std::optional<px::AsyncSession<px::MpiCommunicator>> session;
    if (servers) session.emplace(world, px::Backup{1}, px::Servers{servers}, options);
    else session.emplace(world, px::Backup{1}, options);
    std::vector<double> updates(5);
    px::Variable<px::Dense, px::PsShard, double> layer{*session, "updates", px::bind(updates), px::Sgd{.learning_rate = -1}};
    std::int64_t last = 0;
    session->train([&](auto& worker) {
      for (;;) {
        worker.pull(layer);
        last = worker.clock();
        if (last >= 50) return;
        CHECK(updates == std::vector<double>(5, static_cast<double>(last)));  // one clock at all owners
        worker.push(px::grad(layer, std::vector<double>(5, 1.0)));
      }
    });
    session->together([&](auto& all) {
      CHECK(updates == std::vector<double>(5, 50.0));
      px::Fingerprint hash;
      for (std::uint64_t const number : log.numbers()) hash.add(number);
      auto const mine = all.topology().owner() < 0 ? -1.0 : static_cast<double>(hash.value() >> 12);
      auto const of_all = px::allgather(world, mine);
      for (double const other : of_all) CHECK((other < 0 || other == of_all[0]));
    });
    session->finish();
  }
}
