// The cost of checksums for a step over sockets: W1 (25,557,032 floats, summed and applied) with and without them in turn, and
// without them a second time. Runs one of the ranks that the environment names (RANK, WORLD_SIZE, MASTER_ADDR, …), as
// benchmarks/checksums starts them; with --smoke two threads of this process, and little of it.
//   bench_checksums [ROUNDS=15] [MOST=1.1]
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "parallax/comm/collectives.hpp"
#include "parallax/comm/socket.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

// A training on connections of its own.
class Training {
 public:
  Training(px::SocketOptions const& options, std::size_t elements)
      : world_{options}, parameters_(elements, 1.0f), variable_{session_, "values", px::bind(parameters_), px::Sgd{}} {}

  px::SocketCommunicator& world() { return world_; }
  void step(std::vector<float> const& gradient) { session_.step(px::grad(variable_, gradient)); }
  // Returns the bytes that were sent, as the session counts them, and as the connections do.
  std::uint64_t counted() const {
    std::uint64_t all = 0;
    for (auto const& bytes : session_.traffic().sent) all += bytes.all;
    return all;
  }
  std::uint64_t written() const { return world_.wire_bytes(); }
  std::vector<float> const& parameters() const { return parameters_; }
  void finish() { session_.finish(); }

 private:
  px::SocketCommunicator world_;
  px::Session<px::SocketCommunicator> session_{world_};
  std::vector<float> parameters_;
  px::Variable<px::Dense, px::Sgd> variable_;
};

struct Method {
  char const* name;
  bool checksums;
  std::vector<double> seconds = {};        // by round
  double of_core = 0;                      // seconds of the processor in all rounds
  std::uint64_t counted = 0, written = 0;  // bytes of all rounds
  std::unique_ptr<Training> training = nullptr;
};

double seconds_of_core() {
  timespec used{};
  ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + 1e-9 * static_cast<double>(used.tv_nsec);
}

double quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}
double median(std::vector<double> const& values) { return quantile(values, 0.5); }

// Prints what was found on rank 0. Returns how much of it is wrong, on any rank.
int compare(std::vector<px::SocketOptions> const& options, std::size_t elements, int rounds, double most) {
  std::vector<Method> methods;
  methods.push_back({"without", false});
  methods.push_back({"without, again", false});
  methods.push_back({"with checksums", true});
  for (std::size_t m = 0; m < methods.size(); ++m) {
    auto mine = options[m];
    mine.checksums = methods[m].checksums;
    methods[m].training = std::make_unique<Training>(mine, elements);
  }
  auto& first = methods[0].training->world();
  std::vector<float> gradient(elements);
  for (std::size_t i = 0; i < elements; ++i)
    gradient[i] = static_cast<float>((i + static_cast<std::size_t>(first.rank())) % 9) / 64;
  for (int round = -2; round < rounds; ++round)  // two to begin with are not counted
    for (std::size_t turn = 0; turn < methods.size(); ++turn) {
      Method& method = methods[(turn + static_cast<std::size_t>(round + 2)) % methods.size()];
      px::barrier(first);
      auto const counted = method.training->counted(), written = method.training->written();
      double const of_core = seconds_of_core();
      auto const begin = std::chrono::steady_clock::now();
      method.training->step(gradient);
      double const own = std::chrono::duration<double>{std::chrono::steady_clock::now() - begin}.count();
      if (round < 0) continue;
      method.counted += method.training->counted() - counted;
      method.written += method.training->written() - written;
      method.seconds.push_back(own);
      method.of_core += seconds_of_core() - of_core;
    }
  for (Method& method : methods)  // of a step that of the slowest rank counts
    for (double& seconds : method.seconds) {
      double slowest = 0;
      for (double const each : px::allgather(first, seconds)) slowest = std::max(slowest, each);
      seconds = slowest;
    }
  for (Method& method : methods) {
    double sum = 0;
    for (double const each : px::allgather(first, method.of_core)) sum += each;
    method.of_core = sum / first.size();
  }

  // A frame has 24 bytes beside those of its message, and 28 with checksums: both methods send the same frames.
  int wrong = 0;
  auto const frames = [](Method const& method, std::uint64_t beside) {
    std::uint64_t const more = method.written - method.counted;
    return more % beside == 0 ? more / beside : 0;
  };
  if (first.size() > 1) {
    wrong += frames(methods[0], 24) == 0 || frames(methods[0], 24) != frames(methods[2], 28);
    wrong += methods[0].written != methods[1].written;
  }
  for (Method& method : methods) wrong += method.training->parameters() != methods[0].training->parameters();
  for (Method& method : methods) method.training->finish();
  int all_wrong = 0;
  for (int const each : px::allgather(first, wrong)) all_wrong += each;

  if (first.rank() != 0) return all_wrong;
  std::printf("%d ranks, %zu floats, %d steps of each in turn\n%-16s %9s %9s %9s %9s %9s %9s %9s %14s\n", first.size(),
              elements, rounds, "", "ms/step", "p10", "p90", "ratio", "p10", "p90", "of core", "bytes/step");
  std::vector<double> found;
  for (Method const& method : methods) {
    std::vector<double> ratios;
    for (std::size_t i = 0; i < method.seconds.size(); ++i) ratios.push_back(method.seconds[i] / methods[0].seconds[i]);
    found.push_back(median(ratios));
    std::printf("%-16s %9.2f %9.2f %9.2f %9.4f %9.4f %9.4f %9.2f %14llu\n", method.name, 1e3 * median(method.seconds),
                1e3 * quantile(method.seconds, 0.1), 1e3 * quantile(method.seconds, 0.9), found.back(), quantile(ratios, 0.1),
                quantile(ratios, 0.9), 1e3 * method.of_core / rounds,
                static_cast<unsigned long long>(method.written / static_cast<unsigned>(rounds)));
  }
  // Beside the mean of both without: what the first of a pair finds in the caches is no advantage then.
  double const ratio = median(methods[2].seconds) / (0.5 * (median(methods[0].seconds) + median(methods[1].seconds)));
  std::printf(
      "# with checksums a step takes %.3f of the time without, which without them again is %.3f; at most %.2f is aimed at: "
      "%s\n",
      ratio, median(methods[1].seconds) / median(methods[0].seconds), most, ratio <= most ? "kept" : "MISSED");
  std::printf("# bytes are those of the closed form, and parameters equal: %s\n", all_wrong == 0 ? "yes" : "NO");
  return all_wrong;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc > 1 && std::string_view{argv[1]} == "--smoke") {
    std::vector<px::SocketOptions> options[2];
    for (int k = 0; k < 3; ++k)
      for (int rank = 0; rank < 2; ++rank)
        options[rank].push_back({.rank = rank,
                                 .size = 2,
                                 .address = "file:" + std::string{argv[0]} + ".meet" + std::to_string(k),
                                 .shared_memory = false});
    int wrong = 0;
    std::jthread const other{[&] { compare(options[1], 100'000, 2, 1.1); }};
    wrong = compare(options[0], 100'000, 2, 1.1);
    return wrong == 0 ? 0 : 1;
  }
  auto const own = px::socket_options_from_environment();
  if (!own) {
    std::fputs("bench_checksums: RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT say which rank this is\n", stderr);
    return 2;
  }
  std::vector<px::SocketOptions> options(3, *own);
  auto const colon = own->address.rfind(':') + 1;
  int const port = std::atoi(own->address.c_str() + colon);
  for (int k = 0; k < 3; ++k) {
    options[static_cast<std::size_t>(k)].address = own->address.substr(0, colon) + std::to_string(port + k);
    options[static_cast<std::size_t>(k)].shared_memory = false;
  }
  int const rounds = argc > 1 ? std::max(std::atoi(argv[1]), 1) : 15;
  return compare(options, 25'557'032, rounds, argc > 2 ? std::atof(argv[2]) : 1.1) == 0 ? 0 : 1;
}
