// TopK with error feedback, a policy from outside: what it sends, what it keeps, and what it gives back of a refused step.
#include "custom_policy.hpp"

#include <chrono>
#include <functional>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "parallax/comm/thread.hpp"

namespace px = parallax;
using namespace parallax_test;

namespace {

constexpr unsigned seed = 20'1101;

using Trial = std::string (*)(px::AnyCommunicator&, bool, unsigned);

std::string on_threads(Trial trial) {
  std::string text;
  for (int const ranks : {1, 2, 3, 4})
    for (bool const hosts : {false, true}) {
      if (hosts && ranks < 3) continue;
      std::vector<std::string> said(static_cast<std::size_t>(ranks));
      px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
        px::AnyCommunicator any{std::ref(world)};
        said[static_cast<std::size_t>(world.rank())] = trial(any, hosts, seed);
      }, {.deadline = std::chrono::seconds{30}});
      for (std::string const& mine : said)
        if (!mine.empty()) text += std::to_string(ranks) + (hosts ? " ranks on two hosts, " : " ranks, ") + mine;
    }
  return text.empty() ? text : text + "seed " + std::to_string(seed);
}

}  // namespace

TEST_CASE("in every step residual and gradient are what is sent and what is left", "[policy][custom]") {
  CHECK(on_threads(top_k::every_step) == "");
}
TEST_CASE("over a whole run nothing of the gradients is lost", "[policy][custom]") {
  CHECK(on_threads(top_k::whole_runs) == "");
}
TEST_CASE("a refused or skipped step leaves what was kept as it was", "[policy][custom]") {
  CHECK(on_threads(top_k::refusals) == "");
}
TEST_CASE("ranks that have joined send what they have left, and nothing once all have joined", "[policy][custom]") {
  CHECK(on_threads(top_k::joined_ranks) == "");
}
TEST_CASE("a rank sends k pairs to every other, and the session says so", "[policy][custom]") {
  CHECK(on_threads(top_k::bytes_sent) == "");
}
TEST_CASE("a clip group of TopK and AllReduce is scaled as one", "[policy][custom]") {
  CHECK(on_threads(top_k::clipped) == "");
}
