// A model's training under one policy after another by ranks that SimGrid simulates: the simulated time of a step beside the
// closed form, bytes beside the count, parameters beside what they must be.
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <string>
#include <vector>

#include "parallax_bench/closed_form.hpp"
#include "parallax_bench/measured.hpp"

namespace bench {

// Simulated ranks are threads of one process whose globals are their own: what is alike on all of them is made once.
class SharedWorkload {
 public:
  SharedWorkload(Options const& options, Model const& model, int ranks, int batches) {
    int rank = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0)
      own_ = std::make_unique<Workload>(
          make_workload(options, model.dense, model.sparse, ranks, batches, options.alpha, false, nullptr));
    work_ = own_.get();
    MPI_Bcast(&work_, sizeof work_, MPI_BYTE, 0, MPI_COMM_WORLD);
  }
  SharedWorkload(SharedWorkload const&) = delete;
  SharedWorkload& operator=(SharedWorkload const&) = delete;
  ~SharedWorkload() { MPI_Barrier(MPI_COMM_WORLD); }

  Workload const& operator*() const { return *work_; }

 private:
  std::unique_ptr<Workload> own_;
  Workload const* work_ = nullptr;
};

// 1/payload of a model: shorter dense tensors and narrower rows; of what is densified fewer rows instead.
Model shrunk(Model const& full, Way way, std::int64_t payload) {
  Model model = at_payload(full, payload);
  if (way != Way::densified) return model;
  model.sparse = full.sparse;
  for (auto& table : model.sparse) table.rows = std::max<std::int64_t>(table.rows / payload, 1);
  return model;
}

// The paper's sizes for the same ids.
Workload at_full_size(Workload work, Way way, Model const& full, std::int64_t scale) {
  work.dense = full.dense;
  for (std::size_t t = 0; t < work.tables.size(); ++t) {
    work.tables[t].width = full.sparse[t].width;
    if (way == Way::densified) work.tables[t].rows = std::max<std::int64_t>(full.sparse[t].rows / scale, 1);
  }
  return work;
}

void print(Options const& options, Ranks const& ranks, Outcome const& outcome, Method const& method, Workload const& work,
           Model const& full) {
  Machines const layout = options.machines[0];
  auto const machines = machine_of_ranks(layout);
  bool const two_levels = !ranks.hosts().empty();
  Network network = options.network;
  network.bandwidth /= real(options.payload), network.local_bandwidth /= real(options.payload);
  auto const parts = [&](Workload const& of) { return parts_of(of, method.way, ranks.hosts(), machines, sizeof(float)); };
  Parts const small = parts(work), whole = parts(at_full_size(work, method.way, full, options.scale));
  double const seconds = closed_form(network, small, method.way, two_levels, outcome.rounds);
  double const whole_seconds = closed_form(options.network, whole, method.way, two_levels, outcome.rounds);
  auto const mb = [](double bytes) { return fixed(bytes / 1e6, 6); };
  std::vector<std::string> const cells{full.name,
                                       method.name,
                                       std::to_string(layout.machines),
                                       std::to_string(layout.ranks),
                                       two_levels ? "hosts" : "flat",
                                       std::string{partition_names[static_cast<std::size_t>(options.partition)]},
                                       std::to_string(options.payload),
                                       fixed(outcome.seconds.median * 1e3, 6),
                                       fixed(seconds * 1e3, 6),
                                       fixed(100 * (seconds / outcome.seconds.median - 1), 2),
                                       fixed(whole_seconds * 1e3, 6),
                                       mb(small.all.sent_mean),
                                       mb(small.all.link_busiest),
                                       mb(small.all.local_busiest),
                                       mb(whole.all.sent_mean),
                                       mb(whole.all.link_busiest),
                                       fixed(outcome.rounds, 1),
                                       fixed(outcome.messages, 1),
                                       std::to_string(outcome.wrong)};
  std::string line;
  for (auto const& cell : cells) (line += line.empty() ? "" : ",") += cell;
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

int run(Options options, int argc, char** argv) {
  options.comm = Comm::mpi;
  options.shared_memory = false;
  Environment const environment{options, argc, argv};
  Ranks ranks{environment, options};
  Machines const layout = options.machines[0];
  if (layout.machines * layout.ranks != ranks.size()) throw Refusal{"--machines and the number of ranks differ"};
  Model const full = model_named(options.model, options.width);
  int const steps = options.iterations ? options.iterations : 2;
  Progress progress{false};
  std::int64_t wrong = 0;
  for (auto const& policy : options.policies) {
    std::vector<Method> const method{method_of<float>(policy)};
    SharedWorkload const shared{options, shrunk(full, method[0].way, options.payload), ranks.size(), std::min(steps, 2)};
    Schedule const plan{steps, options.warmup, 1, options.check};
    auto const results = train(ranks, *shared, method, plan, progress);
    if (!ranks.prints()) continue;
    auto const outcome = judge(ranks, *shared, method, plan, sizeof(float), results)[0];
    print(options, ranks, outcome, method[0], *shared, full);
    wrong += outcome.wrong;
  }
  return wrong > 0 ? 1 : 0;
}

}  // namespace bench

int main(int argc, char** argv) {
  try {
    return bench::run(bench::parse(argc, argv, "compare", "count"), argc,
                      argv);  // a step that is run, on machines that are not there
  } catch (std::exception const& error) {
    std::fprintf(stderr, "parallax-simulation: %s\n", error.what());
    return 3;
  }
}
