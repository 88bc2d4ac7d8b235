// The step of a dense variable beside a loop by hand: MPI_Iallreduce, MPI_Test until it is done, SGD. In vendor and in fixed
// order, with all checks on; and what agreement and commit cost by themselves. Run it under mpiexec on two ranks.
#include <cstdio>

#include "measure.hpp"

#if !defined(PARALLAX_HAS_MPI)
int main() { std::puts("without MPI there is nothing to compare with"); }
#else
#include <mpi.h>

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "parallax/comm/mpi.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

constexpr float rate = 0.125f;

struct ByHand {
  MPI_Comm comm;
  int ranks;
  std::vector<float> parameters, sums;

  void step(std::vector<float> const& gradient) {
    int const n = static_cast<int>(gradient.size());
    MPI_Request request;
    MPI_Iallreduce(gradient.data(), sums.data(), n, MPI_FLOAT, MPI_SUM, comm, &request);
    for (int done = 0; !done;) MPI_Test(&request, &done, MPI_STATUS_IGNORE);
    float const divisor = static_cast<float>(ranks);
    float* __restrict const p = parameters.data();
    float const* __restrict const g = sums.data();
    for (int i = 0; i < n; ++i) p[i] -= rate * (g[i] / divisor);
  }
};

struct ByLibrary {
  px::MpiCommunicator comm;
  px::Session<px::MpiCommunicator> session{comm};
  std::vector<float> parameters;
  px::Variable<px::Dense, px::Sgd> variable;

  ByLibrary(px::SumOrder order, std::size_t elements)
      : comm{MPI_COMM_WORLD, {.order = order}},
        parameters(elements, 1.0f),
        variable{session, "variable", px::bind(parameters), px::Sgd{.learning_rate = rate}} {}
  void step(std::vector<float> const& gradient) { session.step(px::grad(variable, gradient)); }
};

// Slow ranks do not make the next contender wait within its own time.
template <class Step>
auto repeated(int steps, Step step) {
  return [steps, step] {
    MPI_Barrier(MPI_COMM_WORLD);
    for (int i = 0; i < steps; ++i) step();
  };
}

bool near(std::vector<float> const& a, std::vector<float> const& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if (std::abs(a[i] - b[i]) > 1e-4f * (1 + std::abs(b[i]))) return false;
  return true;
}

void compare(measure::Report& report, measure::Options const& options, std::size_t elements, int steps, double vendor_goal,
             double fixed_goal) {
  int rank = 0, ranks = 1;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  std::vector<float> gradient(elements);
  for (std::size_t i = 0; i < elements; ++i) gradient[i] = static_cast<float>((i + static_cast<std::size_t>(rank)) % 9) / 64;
  std::vector<float> const first(elements, 1.0f);
  ByHand hand{MPI_COMM_WORLD, ranks, first, first}, again{MPI_COMM_WORLD, ranks, first, first};
  ByLibrary vendor{px::SumOrder::vendor, elements}, fixed{px::SumOrder::fixed, elements};
  auto const best = measure::best_seconds(options.rounds, repeated(steps, [&] { hand.step(gradient); }),
                                          repeated(steps, [&] { vendor.step(gradient); }),
                                          repeated(steps, [&] { again.step(gradient); }),
                                          repeated(steps, [&] { fixed.step(gradient); }));
  vendor.session.finish();
  fixed.session.finish();
  bool const right = near(vendor.parameters, hand.parameters) && near(fixed.parameters, hand.parameters);
  auto const each = [&](std::size_t i) { return best[i] / steps; };
  std::string const size = elements >= 262144 ? std::to_string(elements / 262144) + " MB" : std::to_string(elements / 256) + " KB";
  report.line(size + ", by hand against itself", each(2), "by hand", each(0));
  report.line(size + ", vendor's sum", each(1), "by hand", each(0), vendor_goal);
  report.line(size + ", sum in fixed order", each(3), "by hand", each(0), fixed_goal);
  report.result(size, right);
}

// A variable without elements: nothing is exchanged but what the ranks agree on.
void agreements(measure::Options const& options) {
  ByLibrary empty{px::SumOrder::fixed, 0};
  std::vector<float> const nothing;
  int const steps = options.smoke ? 10 : empty.comm.oversubscribed() ? 200 : 5000;
  auto const best = measure::best_seconds(options.rounds, repeated(steps, [&] { empty.step(nothing); }));
  empty.session.finish();
  std::printf("agreement and commit of a step, nothing else: %.2f us\n", best[0] / steps * 1e6);
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
    compare(report, options, 1000, 2, 0, 0);
  } else {
    compare(report, options, 16 << 10, 50, 0, 1.0);
    compare(report, options, 256 << 10, 20, 0.97, 1.0);
    compare(report, options, 16 << 20, 2, 0.97, 1 / 0.7);
  }
  agreements(options);
  return report.exit_code();
}
#endif
