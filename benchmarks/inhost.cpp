// Dense sums between two ranks of one host, beside MPI's own: of one vector, in the rank's own memory, in memory that the host's
// processes share, and between threads; and of a thousand small ones in a session. Run it under mpiexec on two ranks.
#include <cstdio>

#include "measure.hpp"

#if !defined(PARALLAX_HAS_MPI)
int main() { std::puts("without MPI there is nothing to compare with"); }
#else
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <deque>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "parallax/comm/mpi.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

constexpr float rate = 0.125f;

void wait(MPI_Request& request) {
  for (int done = 0; !done;) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
}

// All ranks begin together; returns the seconds of one of `steps` runs.
double seconds(int steps, std::function<void()> const& run) {
  MPI_Barrier(MPI_COMM_WORLD);
  double const begin = MPI_Wtime();
  for (int step = 0; step < steps; ++step) run();
  return (MPI_Wtime() - begin) / steps;
}

// The seconds of a step that `run` takes, each after `prepare` and a barrier, which are not counted.
template <class Barrier>
double seconds(int steps, std::function<void()> const& prepare, std::function<void()> const& run, Barrier const& barrier) {
  double sum = 0;
  for (int step = 0; step < steps; ++step) {
    prepare();
    barrier();
    auto const begin = std::chrono::steady_clock::now();
    run();
    sum += std::chrono::duration<double>{std::chrono::steady_clock::now() - begin}.count();
  }
  return sum / steps;
}

// Runs `body(world, rank)` on threads of rank 0, as many as there are ranks, while the others sleep. Returns what it returns.
template <class Body>
double on_threads(int ranks, Body const& body) {
  int rank = 0;
  double result = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank == 0)
    px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
      double const took = body(world);
      if (world.rank() == 0) result = took;
    });
  MPI_Request request;
  MPI_Ibarrier(MPI_COMM_WORLD, &request);
  for (int done = 0; !done; std::this_thread::sleep_for(std::chrono::milliseconds{1}))
    MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  return result;
}
template <class Run>
double seconds_of_threads(px::ThreadCommunicator& world, int steps, Run&& run) {
  px::barrier(world);
  auto const begin = std::chrono::steady_clock::now();
  for (int step = 0; step < steps; ++step) run();
  return std::chrono::duration<double>{std::chrono::steady_clock::now() - begin}.count() / steps;
}

// The best of each contender's rounds. They run in turn; the first is run again as the last, to show what the machine is worth.
std::vector<double> best_of(int rounds, std::vector<std::function<double()>> contenders) {
  contenders.push_back(contenders.front());
  std::vector<double> best(contenders.size(), 1e9);
  for (int round = -1; round < rounds; ++round)
    for (std::size_t c = 0; c < contenders.size(); ++c)
      if (double const took = contenders[c](); round >= 0) best[c] = std::min(best[c], took);
  return best;
}

float brought(int rank, std::size_t i) { return static_cast<float>((i + static_cast<std::size_t>(rank)) % 9) / 7; }
void fill(std::span<float> values, int rank) {
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = brought(rank, i);
}
bool is_sum(std::span<float const> values, int ranks) {
  std::size_t wrong = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    float sum = brought(0, i);
    for (int rank = 1; rank < ranks; ++rank) sum += brought(rank, i);
    wrong += values[i] != sum;
  }
  return wrong == 0;
}

struct Goals {
  double own, own_faster, shared, shared_faster, threads, threads_faster;  // against MPI_Iallreduce, and the faster of the two
};

// A vector of each kind, as it lies somewhere in this machine's memory.
struct Vectors {
  std::vector<float> own, vendor;
  px::SharedBuffer<float> shared;
  std::vector<std::vector<float>> of_threads;

  Vectors(px::MpiCommunicator const& world, std::size_t n)
      : own(n), vendor(n), shared{n},
        of_threads(static_cast<std::size_t>(world.rank() == 0 ? world.size() : 0), std::vector<float>(n)) {}
};

// Where a vector's pages lie decides what of it stays in a cache: of several placements the best counts, of every contender.
void sums(measure::Report& report, measure::Options const& options, std::string const& name, std::size_t n, int steps,
          Goals const& goals) {
  px::MpiCommunicator world;
  int const ranks = world.size();
  std::deque<Vectors> placements;
  std::vector<double> best;
  for (int placement = 0; placement < (options.smoke ? 1 : 4); ++placement) {
    auto& [own, vendor, shared, of_threads] = placements.emplace_back(world, n);
    fill(own, world.rank()), fill(shared.span(), world.rank());
    px::allreduce(world, std::span{own});
    px::allreduce(world, shared.span());
    auto const threads = [&, &vectors = of_threads](int times, bool once) {
      return on_threads(ranks, [&](px::ThreadCommunicator& thread) {
        auto& values = vectors[static_cast<std::size_t>(thread.rank())];
        if (once) fill(values, thread.rank());
        return seconds_of_threads(thread, times, [&] { px::allreduce(thread, std::span{values}); });
      });
    };
    threads(1, true);
    bool right = is_sum(own, ranks) && is_sum(shared.span(), ranks);
    for (auto const& values : of_threads) right = right && is_sum(values, ranks);
    report.result(name, right);

    // In place, of zeros: as often as one likes.
    std::fill_n(own.data(), n, 0.0f), std::fill_n(shared.data(), n, 0.0f);
    for (auto& values : of_threads) std::fill(values.begin(), values.end(), 0.0f);
    auto* const vendors = vendor.data();
    auto const took = best_of(
        options.rounds,
        {[&] {
           return seconds(steps, [&] {
             MPI_Request request;
             MPI_Iallreduce(MPI_IN_PLACE, vendors, static_cast<int>(n), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD, &request);
             wait(request);
           });
         },
         [&] {
           return seconds(steps, [&] {
             MPI_Allreduce(MPI_IN_PLACE, vendors, static_cast<int>(n), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
           });
         },
         [&, &mine = own] { return seconds(steps, [&] { px::allreduce(world, std::span{mine}); }); },
         [&, &mine = shared] { return seconds(steps, [&] { px::allreduce(world, mine.span()); }); },
         [&] { return threads(steps, false); }});
    if (best.empty()) best = took;
    for (std::size_t c = 0; c < best.size(); ++c) best[c] = std::min(best[c], took[c]);
  }
  report.line(name + ", MPI_Iallreduce against itself", best[5], "MPI_Iallreduce", best[0]);
  double const faster = std::min(best[0], best[1]);
  auto const both = [&](char const* memory, double took, double goal, double goal_faster) {
    report.line(name + ", " + memory, took, "MPI_Iallreduce", best[0], goal);
    report.line(name + ", " + memory, took, best[1] < best[0] ? "faster: MPI_Allreduce" : "faster: MPI_Iallreduce", faster,
                goal_faster);
  };
  both("the rank's own memory", best[2], goals.own, goals.own_faster);
  both("memory shared by processes", best[3], goals.shared, goals.shared_faster);
  both("threads", best[4], goals.threads, goals.threads_faster);
}

// Gradients of many small variables: each in memory of its own, or views of one buffer that the host's processes share.
struct Apart {
  std::vector<std::vector<float>> of_variables;
  Apart(std::size_t count, std::size_t n) : of_variables(count, std::vector<float>(n)) {}
  std::span<float> operator[](std::size_t v) { return of_variables[v]; }
};
struct InOneBuffer {
  std::size_t n;
  px::SharedBuffer<float> buffer;
  InOneBuffer(std::size_t count, std::size_t size) : n{size}, buffer{count * size} {}
  std::span<float> operator[](std::size_t v) { return buffer.span().subspan(v * n, n); }
};

// A step of all the variables. Gradients in one buffer may be overwritten.
template <class C, class Gradients>
struct Small {
  C& world;
  px::Session<C> session{world};
  std::vector<std::vector<float>> parameters;
  Gradients gradients;
  std::vector<px::Variable<px::Dense, px::Sgd>> variables;
  std::vector<decltype(px::grad(variables[0], std::span<float>{}))> updates;

  Small(C& comm, std::size_t count, std::size_t n)
      : world{comm}, parameters(count, std::vector<float>(n, 1.0f)), gradients{count, n} {
    for (std::size_t v = 0; v < count; ++v)
      variables.emplace_back(session, "v" + std::to_string(v), px::bind(parameters[v]), px::Sgd{.learning_rate = rate});
    for (std::size_t v = 0; v < count; ++v)
      if constexpr (std::same_as<Gradients, Apart>) updates.push_back(px::grad(variables[v], gradients[v]));
      else updates.push_back(px::grad(variables[v], px::in_place(gradients[v])));
  }
  void prepare() {
    for (std::size_t v = 0; v < variables.size(); ++v) fill(gradients[v], world.rank());
  }
  void step() { session.step(updates); }
};

// By hand: each summed by itself, then applied.
struct ByHand {
  int rank, ranks;
  std::vector<std::vector<float>> parameters, gradients, sums;
  std::vector<MPI_Request> requests;

  ByHand(int self, int size, std::size_t count, std::size_t n)
      : rank{self}, ranks{size}, parameters(count, std::vector<float>(n, 1.0f)), gradients(parameters), sums(parameters),
        requests(count) {}
  void prepare() {
    for (auto& gradient : gradients) fill(gradient, rank);
  }
  void in_sequence() {
    for (std::size_t v = 0; v < sums.size(); ++v)
      MPI_Allreduce(gradients[v].data(), sums[v].data(), static_cast<int>(sums[v].size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
    apply();
  }
  void at_once() {
    for (std::size_t v = 0; v < sums.size(); ++v)
      MPI_Iallreduce(gradients[v].data(), sums[v].data(), static_cast<int>(sums[v].size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD,
                     &requests[v]);
    MPI_Waitall(static_cast<int>(requests.size()), requests.data(), MPI_STATUSES_IGNORE);
    apply();
  }
  void apply() {
    float const divisor = static_cast<float>(ranks);
    for (std::size_t v = 0; v < sums.size(); ++v) {
      float* __restrict const p = parameters[v].data();
      float const* __restrict const g = sums[v].data();
      for (std::size_t i = 0; i < sums[v].size(); ++i) p[i] -= rate * (g[i] / divisor);
    }
  }
};

void fused(measure::Report& report, measure::Options const& options, std::size_t count, int steps, double goal) {
  std::size_t const n = 256;
  px::MpiCommunicator world;
  Small<px::MpiCommunicator, Apart> apart{world, count, n};
  Small<px::MpiCommunicator, InOneBuffer> in_place{world, count, n};
  ByHand hand{world.rank(), world.size(), count, n};
  std::string const name = std::to_string(count) + " x 1 KB";
  for (int step = 0; step < 2; ++step) {
    apart.prepare(), in_place.prepare(), hand.prepare();
    apart.step(), in_place.step(), hand.in_sequence();
    bool const right = apart.parameters == hand.parameters && in_place.parameters == hand.parameters;
    report.result(name, right || world.size() > 2);
  }
  auto const barrier = [] { MPI_Barrier(MPI_COMM_WORLD); };
  auto const of_threads = [&](px::ThreadCommunicator& thread) {
    Small<px::ThreadCommunicator, InOneBuffer> model{thread, count, n};
    double const took = seconds(steps, [&] { model.prepare(); }, [&] { model.step(); }, [&] { px::barrier(thread); });
    model.session.finish();
    return took;
  };
  auto const best = best_of(
      options.rounds, {[&] { return seconds(steps, [&] { hand.prepare(); }, [&] { hand.in_sequence(); }, barrier); },
                       [&] { return seconds(steps, [&] { hand.prepare(); }, [&] { hand.at_once(); }, barrier); },
                       [&] { return seconds(steps, [&] { apart.prepare(); }, [&] { apart.step(); }, barrier); },
                       [&] { return seconds(steps, [&] { in_place.prepare(); }, [&] { in_place.step(); }, barrier); },
                       [&] { return on_threads(world.size(), of_threads); }});
  apart.session.finish(), in_place.session.finish();
  double const faster = std::min(best[0], best[1]);
  std::string const fastest = best[0] < best[1] ? "MPI_Allreduce each" : "MPI_Iallreduce at once";
  report.line(name + ", MPI_Allreduce each against itself", best[5], "MPI_Allreduce each", best[0]);
  report.line(name + ", a session's step", best[2], fastest, faster);
  report.line(name + ", the same in place in one shared buffer", best[3], fastest, faster, goal);
  report.line(name + ", the same in place on threads", best[4], fastest, faster);
}

}  // namespace

int main(int argc, char** argv) {
  px::MpiEnvironment const mpi{argc, argv};
  measure::Options const options{argc, argv};
  int rank = 0, length = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  char version[MPI_MAX_LIBRARY_VERSION_STRING];
  MPI_Get_library_version(version, &length);
  if (rank == 0) std::printf("%.*s\n", static_cast<int>(std::string_view{version}.find('\n')), version);
  if (rank != 0) std::freopen("/dev/null", "w", stdout);
  measure::Report report{options};
  if (options.smoke) {
    sums(report, options, "4 KB", 1'001, 2, {});
    fused(report, options, 10, 2, 0);
    return report.exit_code();
  }
  sums(report, options, "1 MB", 256 << 10, 100, {2, 0, 6, 0, 6, 0});
  sums(report, options, "64 MB", 16 << 20, 2, {4, 2.2, 5, 3, 5, 3.5});
  fused(report, options, 1'000, 30, 5);
  return report.exit_code();
}
#endif
