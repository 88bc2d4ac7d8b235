// An AsyncSession over sockets: by clock it has the bits of a Session between threads, and apart those of the threads whose log it
// follows. A forked child has no part in it, and letters that are changed on their way end it.
#include <cstdint>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "../catch.hpp"
#include "../comm/sockets.hpp"
#include "../support/children.hpp"
#include "parallax/comm/thread.hpp"
#include "training.hpp"

using namespace async_test;
using parallax_test::must_be_refused, parallax_test::status_of;

namespace {

using TheModel = Model<float, px::Adagrad, px::Adam, px::Hash>;

void check_same(States const& threads, States const& sockets) {
  for (std::size_t rank = 0; rank < threads.size(); ++rank) {
    REQUIRE(threads[rank].records().size() == sockets[rank].records().size());
    for (std::size_t i = 0; i < threads[rank].records().size(); ++i) {
      auto const &one = threads[rank].records()[i], &other = sockets[rank].records()[i];
      CAPTURE(rank, one.variable, one.name);
      CHECK((one.name == "seen" || one == other));
    }
  }
}

auto const polls = [](auto& worker, int) { worker.poll(); };

}  // namespace

TEST_CASE("by clock, ranks over sockets have the bits of a session between threads", "[async][sockets]") {
  for (int const servers : {0, 1, 2}) {
    States threads(3), sockets(3);
    px::run_threads(3, [&](px::ThreadCommunicator& world) {
      threads[static_cast<std::size_t>(world.rank())] = train_together<TheModel>(world, servers, 15, 3);
    });
    run_sockets(3, [&](px::SocketCommunicator& world) {
      sockets[static_cast<std::size_t>(world.rank())] = train_apart<TheModel>(world, px::Ssp{0}, servers, 15, 3, polls, {});
    });
    CAPTURE(servers);
    check_same(threads, sockets);
  }
}

TEST_CASE("ranks over sockets that follow the logs of threads have their bits", "[async][sockets][replay]") {
  for (auto const& [shared_memory, checksums] : {std::pair{true, false}, {true, true}, {false, false}, {false, true}})
    for (int const servers : {0, 1}) {
      std::vector<px::RunLog> logs(3);
      States threads(3), sockets(3);
      px::run_threads(3, [&](px::ThreadCommunicator& world) {
        auto const rank = static_cast<std::size_t>(world.rank());
        threads[rank] = train_apart<TheModel>(world, px::Asp{}, servers, 30, 4, polls, {.record = &logs[rank]});
      });
      run_sockets(3,
                  [&](px::SocketCommunicator& world) {
                    auto const rank = static_cast<std::size_t>(world.rank());
                    sockets[rank] = train_apart<TheModel>(world, px::Asp{}, servers, 30, 4, polls, {.replay = &logs[rank]});
                  },
                  {.shared_memory = shared_memory, .checksums = checksums});
      CAPTURE(shared_memory, checksums, servers);
      check_same(threads, sockets);
    }
}

namespace {

// Returns the sums of ones that workers have pushed, as a rank sees them in the end, and how its children have ended: of a worker
// that forks in the middle, and of a server.
template <class C>
std::pair<std::vector<double>, std::vector<int>> train_with_children(C& world) {
  std::vector<int> statuses;
  std::optional<px::AsyncSession<C>> session{std::in_place, world, px::Asp{}, px::Servers{1}};
  std::vector<double> sums(4), ones(4, 1.0), seen;
  std::optional<px::Variable<px::Dense, px::PsShard, double>> layer;
  layer.emplace(*session, "sums", px::bind(sums), px::Sgd{.learning_rate = -1});
  auto const must_end = [&] { layer.reset(), session.reset(); };
  if (world.rank() == 0) statuses.push_back(status_of(must_end));
  session->train([&](auto& worker) {
    for (int step = 0; step < 20; ++step) {
      worker.pull(*layer);
      if (step == 7)
        statuses.push_back(status_of([&] {
          must_be_refused(world.rank(), [&] { worker.pull(*layer); });
          must_be_refused(world.rank(), [&] { worker.push(px::grad(*layer, ones)); });
        }));
      worker.push(px::grad(*layer, ones));
    }
  });
  statuses.push_back(status_of(must_end));
  statuses.push_back(status_of([&] { must_be_refused(world.rank(), [&] { session->together([](auto&) {}); }); }));
  session->together([&](auto&) { seen = sums; });
  session->finish();
  return {seen, statuses};
}

void check_children(std::vector<std::pair<std::vector<double>, std::vector<int>>> const& told) {
  for (auto const& [sums, statuses] : told) {
    CHECK(sums == std::vector<double>(4, 40.0));
    CHECK(statuses == std::vector<int>(3));
  }
}

}  // namespace

TEST_CASE("a forked child has no part in an AsyncSession over sockets", "[async][sockets][child]") {
  for (bool const shared_memory : {true, false}) {
    std::vector<std::pair<std::vector<double>, std::vector<int>>> told(3);
    run_sockets(
        3, [&](px::SocketCommunicator& world) { told[static_cast<std::size_t>(world.rank())] = train_with_children(world); },
        {.shared_memory = shared_memory});
    CAPTURE(shared_memory);
    check_children(told);
  }
}

TEST_CASE("a forked child has no part in an AsyncSession between threads", "[async][child]") {
  std::vector<std::pair<std::vector<double>, std::vector<int>>> told(3);
  px::run_threads(
      3, [&](px::ThreadCommunicator& world) { told[static_cast<std::size_t>(world.rank())] = train_with_children(world); });
  check_children(told);
}
