// An AsyncSession over sockets: by clock it has the bits of a Session between threads, and apart those of the threads whose log it
// follows.
#include <cstdint>
#include <vector>

#include "../catch.hpp"
#include "../comm/sockets.hpp"
#include "parallax/comm/thread.hpp"
#include "training.hpp"

using namespace async_test;

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
  for (bool const shared_memory : {true, false})
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
                  {.shared_memory = shared_memory});
      CAPTURE(shared_memory, servers);
      check_same(threads, sockets);
    }
}
