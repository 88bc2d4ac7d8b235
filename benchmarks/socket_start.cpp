// How long ranks take to find each other over sockets, and what a rank costs that waits for another one: one of the ranks that the
// environment names (RANK, WORLD_SIZE, MASTER_ADDR, …), as benchmarks/starts starts them; with --smoke two threads of this process.
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <string_view>
#include <thread>

#include "parallax/comm/collectives.hpp"
#include "parallax/comm/socket.hpp"

namespace px = parallax;

namespace {

double seconds_of_cpu() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  auto const seconds = [](timeval const& time) {
    return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

// Rank 0 prints the seconds from `started`, on the clock that does not jump, until all ranks have met, and the largest share of a
// core that a rank has used which waited for rank 0 meanwhile.
void meet_and_wait(px::SocketOptions const& options, std::chrono::nanoseconds started, std::chrono::milliseconds idle) {
  px::SocketCommunicator world{options};
  px::barrier(world);
  std::chrono::duration<double> const met = std::chrono::steady_clock::now().time_since_epoch() - started;
  double const before = seconds_of_cpu();
  if (world.rank() == 0) std::this_thread::sleep_for(idle);
  px::barrier(world);
  double const share = (seconds_of_cpu() - before) / std::chrono::duration<double>{idle}.count();
  double most = 0;
  for (double const each : px::allgather(world, world.rank() == 0 ? 0.0 : share)) most = std::max(most, each);
  if (world.rank() == 0)
    std::printf("%d ranks met after %.3f s; a rank that waits uses %.4f of a core\n", world.size(), met.count(), most);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view{argv[1]} == "--smoke") {
    px::SocketListener listener;
    px::SocketOptions const first{.rank = 0, .size = 2}, second{.rank = 1, .size = 2, .address = listener.address()};
    auto const now = std::chrono::steady_clock::now().time_since_epoch();
    std::jthread const other{[&] { meet_and_wait(second, now, std::chrono::milliseconds{1}); }};
    px::SocketCommunicator world{std::move(listener), first};
    px::barrier(world), px::barrier(world);
    px::allgather(world, 0.0);
    return 0;
  }
  auto const options = px::socket_options_from_environment();
  char const* const started = std::getenv("STARTED");  // nanoseconds
  if (!options || !started) {
    std::fputs("bench_socket_start: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and STARTED say what to measure\n", stderr);
    return 2;
  }
  meet_and_wait(*options, std::chrono::nanoseconds{std::atoll(started)}, std::chrono::milliseconds{2000});
}
