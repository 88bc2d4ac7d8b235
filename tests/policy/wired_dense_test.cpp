// Dense variables whose policy has a wire, trained by sessions on threads that lend each other memory, and that send messages.
#include <string>
#include <vector>

#include "../catch.hpp"
#include "../support/copying_communicator.hpp"
#include "parallax/comm/thread.hpp"
#include "wired_dense.hpp"

namespace px = parallax;
using namespace parallax_test::wired_dense;

namespace {

using Words = std::vector<std::string>;

template <class F>
Words on_threads(int ranks, bool lends, F&& f) {
  Words wrong(static_cast<std::size_t>(ranks), "did not get there");
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    parallax_test::CopyingCommunicator copying{world};
    wrong[static_cast<std::size_t>(world.rank())] = lends ? f(world) : f(copying);
  }, {.deadline = std::chrono::seconds{30}});
  return wrong;
}

}  // namespace

TEST_CASE("dense gradients travel as the policy's wire has them, and nothing else is rounded", "[policy][wire]") {
  int const ranks = GENERATE(1, 2, 3, 4, 5);
  bool const lends = GENERATE(true, false);
  CAPTURE(ranks, lends);
  CHECK(on_threads(ranks, lends, [](auto& world) { return all_wrong(world, {}); }) == Words(static_cast<std::size_t>(ranks)));
}

TEST_CASE("over hosts, their sums of dense gradients are encoded once more", "[policy][wire]") {
  auto const hosts = GENERATE(std::vector{0, 0}, std::vector{0, 0, 1}, std::vector{5, 2, 5, 2}, std::vector{0, 1, 1, 1, 0});
  bool const lends = GENERATE(true, false);
  CAPTURE(hosts, lends);
  auto const wrong = on_threads(static_cast<int>(hosts.size()), lends, [&](auto& world) { return all_wrong(world, hosts); });
  CHECK(wrong == Words(hosts.size()));
}

TEST_CASE("dedicated servers decode what workers encode", "[policy][wire]") {
  bool const lends = GENERATE(true, false);
  int const servers = GENERATE(1, 2);
  CAPTURE(lends, servers);
  int const workers = 3;
  auto const wrong = on_threads(servers + workers, lends, [&](auto& world) {
    px::Session session{px::Topology{world, px::Servers{servers}}, {.join_divisor = px::JoinDivisor::active}};
    Layer<px::AllReduce, parallax_test::Bf16Wire, float> whole{session, 1, 703};
    Layer<px::PsShard, parallax_test::Bf16Wire, float> shard{session, 2, 211};
    auto const step = [&](int number) {
      whole.fill(world.rank() - servers, number), shard.fill(world.rank() - servers, number);
      session.step(whole.update(), shard.update());
    };
    if (world.rank() >= servers)
      for (int number = 0; number < 3; ++number) step(number);
    session.join([&] { step(3); });
    for (int number = 0; number < 3; ++number) {
      whole.expect(number, workers, {}, false);
      shard.expect(number, workers, {}, false);
    }
    session.finish();
    return whole.wrong(2) + shard.wrong(2);
  });
  CHECK(wrong == Words(static_cast<std::size_t>(servers + workers)));
}
