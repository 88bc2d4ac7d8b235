// Whether rings and trees would pay over sockets: collectives by direct blocks, by a ring and by trees, in turn, on the ranks of px::run:
//   bench_schedules [ROUNDS] [--smoke] [options of run]
// Sums are not among them: their bits depend on who adds what to what, and are those of all communicators. Results are checked.
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <vector>

#include "parallax/comm/collectives.hpp"
#include "parallax/comm/run.hpp"
#include "parallax/comm/socket.hpp"

namespace px = parallax;

namespace {

using Clock = std::chrono::steady_clock;
using Memory = std::vector<std::byte>;

// Blocks of one operation at a time, sent from and received into the same memory.
template <class C>
class Exchange {
 public:
  explicit Exchange(C& world)
      : world_{world}, to_(static_cast<std::size_t>(world.size())), from_(static_cast<std::size_t>(world.size())) {}

  void send(int rank, std::size_t at, std::size_t bytes) { to_[static_cast<std::size_t>(rank)] = {at, bytes}; }
  void expect(int rank, std::size_t at, std::size_t bytes) { from_[static_cast<std::size_t>(rank)] = {at, bytes}; }
  // Collective: sends and receives all that was said since the last call, and waits.
  void run(Memory& memory) {
    auto request = world_.ialltoallv(0, {.send = memory.data(), .to = to_, .receive = memory.data(), .from = from_});
    while (!request.test()) {
      if constexpr (px::SleepsUntilNews<C>) world_.sleep(std::chrono::milliseconds{1});
      else std::this_thread::yield();
    }
    std::fill(to_.begin(), to_.end(), px::ByteRange{});
    std::fill(from_.begin(), from_.end(), px::ByteRange{});
  }

 private:
  C& world_;
  std::vector<px::ByteRange> to_, from_;
};

// ---- all have the block of every rank, `bytes` each ----

template <class C>
void gather_directly(C& world, Memory& all, std::size_t bytes) {
  Exchange<C> exchange{world};
  for (int rank = 0; rank < world.size(); ++rank) {
    if (rank == world.rank()) continue;
    exchange.send(rank, static_cast<std::size_t>(world.rank()) * bytes, bytes);
    exchange.expect(rank, static_cast<std::size_t>(rank) * bytes, bytes);
  }
  exchange.run(all);
}

template <class C>
void gather_by_ring(C& world, Memory& all, std::size_t bytes) {
  int const ranks = world.size(), rank = world.rank(), next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
  Exchange<C> exchange{world};
  for (int round = 0; round + 1 < ranks; ++round) {
    exchange.send(next, static_cast<std::size_t>((rank + ranks - round) % ranks) * bytes, bytes);
    exchange.expect(last, static_cast<std::size_t>((last + ranks - round) % ranks) * bytes, bytes);
    exchange.run(all);
  }
}

// Of a power of two of ranks: with each round a rank has twice as many blocks.
template <class C>
void gather_by_tree(C& world, Memory& all, std::size_t bytes) {
  Exchange<C> exchange{world};
  for (int have = 1; have < world.size(); have *= 2) {
    int const other = world.rank() ^ have;
    auto const begin = [&](int rank) { return static_cast<std::size_t>(rank / have * have) * bytes; };
    exchange.send(other, begin(world.rank()), static_cast<std::size_t>(have) * bytes);
    exchange.expect(other, begin(other), static_cast<std::size_t>(have) * bytes);
    exchange.run(all);
  }
}

// ---- all have what rank 0 has, `bytes` for each rank ----

template <class C>
void broadcast_directly(C& world, Memory& all, std::size_t bytes) {
  Exchange<C> exchange{world};
  bytes *= static_cast<std::size_t>(world.size());
  for (int rank = 1; rank < world.size() && world.rank() == 0; ++rank) exchange.send(rank, 0, bytes);
  if (world.rank() != 0) exchange.expect(0, 0, bytes);
  exchange.run(all);
}

template <class C>
void broadcast_by_tree(C& world, Memory& all, std::size_t bytes) {
  Exchange<C> exchange{world};
  int const rank = world.rank();
  bytes *= static_cast<std::size_t>(world.size());
  for (int have = 1; have < world.size(); have *= 2) {
    if (rank < have && rank + have < world.size()) exchange.send(rank + have, 0, bytes);
    if (rank >= have && rank < 2 * have) exchange.expect(rank - have, 0, bytes);
    exchange.run(all);
  }
}

// Rank 0 deals a part to each, and all gather them: what Session::broadcast does.
template <class C>
void broadcast_dealt(C& world, Memory& all, std::size_t bytes) {
  Exchange<C> exchange{world};
  for (int rank = 1; rank < world.size() && world.rank() == 0; ++rank)
    exchange.send(rank, static_cast<std::size_t>(rank) * bytes, bytes);
  if (world.rank() != 0) exchange.expect(0, static_cast<std::size_t>(world.rank()) * bytes, bytes);
  exchange.run(all);
  gather_directly(world, all, bytes);
}

template <class C>
struct Schedule {
  char const *what, *name;
  bool of_all;  // every rank has a block to begin with, or rank 0 has all
  void (*run)(C&, Memory&, std::size_t);
};

// Microseconds of one operation on rank 0, the mean of `times` in a row; -1 where it is wrong on some rank.
template <class C>
double measure(C& world, Schedule<C> const& schedule, std::size_t bytes, int times) {
  auto const value = [](int rank, std::size_t i) { return static_cast<std::byte>(31 * rank + static_cast<int>(i % 251) + 1); };
  Memory all(bytes * static_cast<std::size_t>(world.size()));
  bool right = true;
  auto const each = [&](auto const& what) {
    for (int rank = 0; rank < world.size(); ++rank)
      for (std::size_t i = 0; i < bytes; ++i) what(rank, all[static_cast<std::size_t>(rank) * bytes + i], value(rank, i));
  };
  each([&](int rank, std::byte& at, std::byte is) {
    if (world.rank() == (schedule.of_all ? rank : 0)) at = is;
  });
  px::barrier(world);
  auto const begin = Clock::now();
  for (int k = 0; k < times; ++k) schedule.run(world, all, bytes);
  px::barrier(world);
  double const seconds = std::chrono::duration<double>(Clock::now() - begin).count();
  each([&](int, std::byte& at, std::byte is) { right = right && at == is; });
  for (int const one : px::allgather(world, int{right})) right = right && one != 0;
  return right ? 1e6 * seconds / times : -1;
}

template <class C>
int compare(C& world, int rounds, bool smoke) {
  std::vector<Schedule<C>> schedules{{"all gather", "direct", true, gather_directly<C>},
                                     {"all gather", "ring", true, gather_by_ring<C>},
                                     {"broadcast", "direct", false, broadcast_directly<C>},
                                     {"broadcast", "tree", false, broadcast_by_tree<C>},
                                     {"broadcast", "dealt and gathered", false, broadcast_dealt<C>}};
  if ((world.size() & (world.size() - 1)) == 0)
    schedules.insert(schedules.begin() + 2, {"all gather", "tree", true, gather_by_tree<C>});
  std::vector<std::size_t> const sizes =
      smoke ? std::vector<std::size_t>{3, 1000} : std::vector<std::size_t>{64, 4096, 262'144, 2'097'152};
  if (world.rank() == 0)
    std::printf("%d ranks; microseconds of an operation, medians of %d\n%-11s %-19s", world.size(), rounds, "",
                "bytes of a rank");
  for (std::size_t const bytes : sizes)
    if (world.rank() == 0) std::printf(" %9zu", bytes);
  std::vector<std::vector<std::vector<double>>> found(schedules.size(), std::vector<std::vector<double>>(sizes.size()));
  for (std::size_t s = 0; s < sizes.size(); ++s)
    for (int round = 0; round < rounds; ++round)
      for (std::size_t k = 0; k < schedules.size(); ++k) {
        double const took = measure(world, schedules[k], sizes[s], smoke ? 1 : sizes[s] < 100'000 ? 50 : 2);
        if (took < 0) return std::fprintf(stderr, "%s, %s, is wrong\n", schedules[k].what, schedules[k].name), 1;
        found[k][s].push_back(took);
      }
  for (std::size_t k = 0; k < schedules.size() && world.rank() == 0; ++k) {
    std::printf("\n%-11s %-19s", schedules[k].what, schedules[k].name);
    for (auto& times : found[k]) {
      std::nth_element(times.begin(), times.begin() + rounds / 2, times.end());
      std::printf(" %9.0f", times[static_cast<std::size_t>(rounds / 2)]);
    }
  }
  if (world.rank() == 0) std::printf("\n");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  auto const arguments = px::own_arguments(argc, argv);
  bool const smoke = std::ranges::count(arguments, "--smoke") > 0;
  int const rounds = smoke ? 1 : arguments.empty() ? 15 : std::max(std::atoi(arguments[0].data()), 1);
  return px::run<px::ThreadCommunicator, px::SocketCommunicator>(
      argc, argv, [&](auto& world) { return compare(world, rounds, smoke); }, {.threads = 4});
}
