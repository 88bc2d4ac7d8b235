// parallax-bench: all-reduce beside parameter server, by size, by policy, by model, by partitioner, by what Auto chooses, by
// what models learn, and beside MPI by hand; most of it on one page.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <string>
#include <string_view>
#include <thread>

#include "parallax/version.hpp"

#include "commands.hpp"
#include "count.hpp"

#ifndef BENCH_COMMAND  // of a program of one command, its name
#define BENCH_COMMAND ""
#endif

namespace bench {

// Under mpiexec every process could complain; the first one does.
bool complains() {
  for (char const* name : {"PMI_RANK", "PMIX_RANK", "OMPI_COMM_WORLD_RANK"})
    if (char const* const rank = std::getenv(name)) return std::string_view{rank} == "0";
  return true;
}

// The version, the commit that was configured, the compiler.
std::string build() {
  std::string const number = std::to_string(PARALLAX_VERSION_MAJOR) + '.' + std::to_string(PARALLAX_VERSION_MINOR) + '.' +
                             std::to_string(PARALLAX_VERSION_PATCH);
  std::string const commit = PARALLAX_BENCH_COMMIT;
  return number + (commit.empty() ? "" : ", commit " + commit) + ", " + compiler() + ", " + optimisation();
}

int complain(Refusal const& refusal) {
  if (complains()) std::fprintf(stderr, "parallax-bench: %s\n", refusal.what());
  return 2;
}

int run_command(Options const& options, int argc, char** argv) {
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
    Facts facts{{"date", today()},
                {"cpu", cpu_name()},
                {"cores", static_cast<std::int64_t>(std::thread::hardware_concurrency())},
                {"parallax", build()}};
    if (!local)
      facts.insert(facts.end(), {{"comm", std::string{comm_names[static_cast<std::size_t>(of_ranks.comm)]}},
                                 {"ranks", std::int64_t{ranks.size()}}});
    if (!local && hosts > 0) facts.push_back({"hosts_declared", static_cast<std::int64_t>(hosts)});
    if (auto const version = mpi_version(of_ranks.comm == Comm::mpi); !version.empty()) facts.push_back({"mpi", version});
    Report report{options, facts};
    Progress progress{prints};
    if (ranks.oversubscribed() && prints) print_line("# more ranks than cores: times tell of the scheduler, bytes are exact");
    run(options.command, {options, environment, ranks, report, progress, ids, prints});
    progress.clear();
    if (prints) report.write();
    return report.wrong() > 0 ? 1 : 0;
  } catch (Refusal const& refusal) {
    return complain(refusal);
  }
}

}  // namespace bench

int main(int argc, char** argv) {
  try {
    auto const options = bench::parse(argc, argv, BENCH_COMMAND);
    if (!options.help && !options.version) return bench::run_command(options, argc, argv);
    if (!bench::complains()) return 0;
    if (options.version) std::printf("parallax-bench %s\n", bench::build().c_str());
    else bench::print_help(options.command);
    return 0;
  } catch (bench::Refusal const& refusal) {
    return bench::complain(refusal);
  } catch (std::exception const& error) {
    std::fprintf(stderr, "parallax-bench: %s\n", error.what());
    return 3;
  }
}
