// An AsyncSession over processes: by clock it has the bits of a Session, and apart nothing is lost.
#include <vector>

#include "../async/training.hpp"
#include "../catch.hpp"
#include "parallax/comm/mpi.hpp"

using namespace async_test;

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
