// A rank that owns and trains serves while its body computes, if a thread helps; and nothing is lost by it.
#include <atomic>
#include <chrono>
#include <optional>
#include <thread>
#include <vector>

#include "../catch.hpp"
#include "parallax/async/async_session.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"
#include "parallax/session/progress_thread.hpp"

namespace px = parallax;

TEST_CASE("others go on beside a rank that is deaf, if a thread serves for it", "[async][progress]") {
  using namespace std::chrono_literals;
  constexpr int pushes = 200;
  std::vector<double> ends(3);
  std::atomic<int> done{0};
  int seen = 0;
  px::run_threads(3, [&](px::ThreadCommunicator& world) {
    px::AsyncSession session{world, px::Asp{}};
    std::vector<double> sum(7);
    px::Variable<px::Dense, px::PsShard, double> layer{session, "sum", px::bind(sum), px::Sgd{.learning_rate = -1}};
    px::ProgressThread const thread{session};
    session.train([&](auto& worker) {
      if (worker.rank() == 1) {  // computes until the others have done, for 20 s at most, and neither pulls nor polls
        auto const begin = std::chrono::steady_clock::now();
        while (done < 2 && std::chrono::steady_clock::now() < begin + 20s) std::this_thread::sleep_for(1ms);
        seen = done;
        return;
      }
      for (int step = 0; step < pushes; ++step) {
        worker.pull(layer);
        worker.push(px::grad(layer, std::vector<double>(7, 1.0)));
      }
      ++done;
    });
    session.together([&](auto&) { ends[static_cast<std::size_t>(world.rank())] = sum[3]; });
    session.finish();
  });
  CHECK(ends == std::vector<double>(3, 2 * pushes));
  CHECK(seen == 2);
}
