// parallax-bench: all-reduce beside parameter server, by size, by policy, by model, by partitioner, by what Auto chooses, by
// what models learn, and beside MPI by hand; most of it on one page.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <thread>

#include "allreduce.hpp"
#include "auto.hpp"
#include "compare.hpp"
#include "converge.hpp"
#include "kernels.hpp"
#include "machines.hpp"
#include "partition.hpp"
#include "peers.hpp"
#include "ps.hpp"
#include "throughput.hpp"

namespace bench {

// Under mpiexec every process could complain; the first one does.
bool complains() {
  for (char const* name : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"})
    if (char const* const rank = std::getenv(name)) return std::string_view{rank} == "0";
  return true;
}

// One page.
template <class T>
void run_report(Options const& options, Environment const& environment, Ranks& ranks, Report& report, Progress& progress,
                Ids const* recorded) {
  run_throughput<T>(options, environment, report, progress, recorded);
  Comparison<T>{options, ranks, report, progress, recorded}.run();
  Options of_partition = options;
  of_partition.ranks = 0;
  run_partition(of_partition, true, report, progress, recorded);
#ifdef PARALLAX_HAS_EIGEN
  run_converge(options, ranks, report, progress);
#endif
}

template <class T>
void run(Options const& options, Environment const& environment, Ranks& ranks, Report& report, Progress& progress,
         Ids const* recorded) {
  if (options.command == "allreduce") run_allreduce<T>(options, ranks, report, progress);
  else if (options.command == "ps") run_ps<T>(options, ranks, report, progress, recorded);
  else if (options.command == "report") run_report<T>(options, environment, ranks, report, progress, recorded);
#ifdef PARALLAX_HAS_MPI
  else if (options.command == "peers") PeersRun<T>{options, ranks, report, progress}.run();
#endif
  else Comparison<T>{options, ranks, report, progress, recorded}.run();
}

int complain(Refusal const& refusal) {
  if (complains()) std::fprintf(stderr, "parallax-bench: %s\n", refusal.what());
  return 2;
}

int run(Options const& options, int argc, char** argv) {
  bool const local = options.local();
  Options of_ranks = options;
  if (local) of_ranks.comm = Comm::self, of_ranks.hosts = 0, of_ranks.real_hosts = false;
  Environment const environment{of_ranks, argc, argv};
  try {
    Ids recorded;
    if (!options.ids.empty()) recorded = recorded_ids(options.ids);
    Ids const* const ids = options.ids.empty() ? nullptr : &recorded;
    Ranks ranks{environment, of_ranks};
    bool const prints = ranks.prints() && (!local || complains());
    auto const hosts = ranks.hosts().empty() ? 0 : ByteCount{ranks.size(), ranks.hosts()}.hosts();
    Facts facts{{"cores", static_cast<std::int64_t>(std::thread::hardware_concurrency())},
                {"compiler", compiler() + ", " + optimisation()}};
    if (!local)
      facts.insert(facts.end(), {{"comm", std::string{comm_names[static_cast<std::size_t>(of_ranks.comm)]}},
                                 {"ranks", std::int64_t{ranks.size()}},
                                 {"hosts_declared", static_cast<std::int64_t>(hosts)}});
    if (auto const version = mpi_version(of_ranks.comm == Comm::mpi); !version.empty()) facts.push_back({"mpi", version});
    Report report{options, facts};
    Progress progress{prints};
    if (ranks.oversubscribed() && prints)
      std::printf("# more ranks than cores: times tell of the scheduler, bytes are exact\n");
    if (options.command == "partition") run_partition(options, prints, report, progress, ids);
    else if (options.command == "count") MachineCount{options, prints, report, progress, ids}.run();
    else if (options.command == "kernels") KernelCommand{options, prints, report, progress}.run();
    else if (options.command == "auto") run_auto(options, prints, report, progress);
#ifdef PARALLAX_HAS_EIGEN
    else if (options.command == "converge") run_converge(options, ranks, report, progress);
#endif
    else if (options.doubles) run<double>(options, environment, ranks, report, progress, ids);
    else run<float>(options, environment, ranks, report, progress, ids);
    progress.clear();
    if (prints) {
      report.write();
      if (report.wrong() > 0) std::printf("# %lld wrong\n", static_cast<long long>(report.wrong()));
    }
    return report.wrong() > 0 ? 1 : 0;
  } catch (Refusal const& refusal) {
    return complain(refusal);
  }
}

}  // namespace bench

int main(int argc, char** argv) {
  try {
    auto const options = bench::parse(argc, argv);
    if (!options.help) return bench::run(options, argc, argv);
    if (bench::complains()) bench::print_help();
    return 0;
  } catch (bench::Refusal const& refusal) {
    return bench::complain(refusal);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "parallax-bench: %s\n", error.what());
    return 3;
  }
}
