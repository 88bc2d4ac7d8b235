// Two saves by two ranks of MPI, one of which is killed before or after a call that touches a file, while the other goes on until the
// job has ended: whoever comes afterwards finds the one generation or the other, whole. At some calls it is stopped for good instead:
// the other rank names it once the deadline has passed, and the time that a save may take. mpi_kills MPIEXEC NUMPROC_FLAG [POINTS] draws
// so many of the points, 0: takes all; it starts itself as the ranks of each.
#include <spawn.h>

#include <map>
#include <random>
#include <tuple>

#include "kills.hpp"
#include "parallax/comm/mpi.hpp"

using namespace parallax_test;

namespace {

// As a rank: mpi_kills --rank FOLDER WAY CALL VICTIM. A victim that lives to the end says how many calls it has made.
int be_rank(int argc, char** argv) {
  std::string_view const way = argv[3];
  std::string const folder = argv[2];
  auto const body = [&](px::MpiCommunicator& world) {
    bool const victim = world.rank() == std::atoi(argv[5]);
    Place const place{folder, world.rank()};
    if (victim) {
      calls_below = folder, plan.at = std::atol(argv[4]);
      plan.way = way == "before" ? Way::kill_before : way == "after" ? Way::kill_after : way == "stop" ? Way::stop : Way::none;
      calls_armed = true;
    }
    std::string const said = save_twice_as(world, place.folder, way == "stop" ? 0.5 : 600);
    calls_armed = false;
    if (victim) std::printf("%ld calls\n", calls[0].load());
    if (said != "saved; saved; ") std::printf("not saved: %s\n", said.c_str());
  };
  return px::run_mpi(argc, argv, body, {.deadline = std::chrono::milliseconds{way == "stop" ? 500 : 30'000}});
}

struct Driver {
  // What the job of one point has printed; `ended`: its exit code, -1 of one that was ended by a signal.
  std::string job(std::string const& folder, char const* way, long at, int victim, int& ended) const {
    std::string const command = "exec " + mpiexec + " " + flag + " 2 " + self + " --rank " + folder + " " + way + " " +
                                std::to_string(at) + " " + std::to_string(victim) + (background ? " --background" : "") +
                                (apart ? " --apart" : "") + " 2>&1";
    std::string text;
    char buffer[512];
    std::FILE* const pipe = popen(command.c_str(), "r");
    while (std::size_t const count = std::fread(buffer, 1, sizeof(buffer), pipe)) text.append(buffer, count);
    int const status = pclose(pipe);
    ended = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
    return text;
  }
  std::string mpiexec, flag, self;
};

struct Point {
  bool background, apart;
  char const* way;
  int victim;
  long at;
};

}  // namespace

int main(int argc, char** argv) {
  ranks = 2;
  for (int i = 1; i < argc; ++i) {
    background = background || std::string_view{argv[i]} == "--background";
    apart = apart || std::string_view{argv[i]} == "--apart";
  }
  if (argc > 5 && std::string_view{argv[1]} == "--rank") return be_rank(argc, argv);
  if (argc < 3) return std::fputs("usage: mpi_kills MPIEXEC NUMPROC_FLAG [POINTS [SEED]]\n", stderr), 2;
  auto const begin = std::chrono::steady_clock::now();
  Driver const driver{argv[1], argv[2], std::filesystem::read_symlink("/proc/self/exe").string()};
  auto const wanted = static_cast<std::size_t>(argc > 3 ? std::atol(argv[3]) : 0);
  unsigned const seed = argc > 4 ? static_cast<unsigned>(std::atol(argv[4])) : std::random_device{}();
  std::printf("seed %u\n", seed);
  Scratch const scratch;
  States const states = known_states();
  int failures = 0, number = 0;
  auto const complain = [&](std::string const& what) { std::printf("FAILED: %s\n", what.c_str()), ++failures; };

  std::vector<Point> points;
  for (bool const behind : {false, true})
    for (bool const on_two : {false, true})
      for (int const victim : {0, 1}) {
        background = behind, apart = on_two;
        std::string const folder = scratch.path("run" + std::to_string(++number));
        make_hosts(folder);
        int ended = 0;
        std::string const said = driver.job(folder, "none", -1, victim, ended);
        long const calls = std::atol(said.c_str());
        if (ended != 0 || calls < 10) complain("without a kill: " + said);
        if (std::string const found = looked(folder, 2, states); found != "4") complain("without a kill, afterwards: " + found);
        for (long at = 0; at < calls; ++at)
          for (char const* const way : {"before", "after", "stop"})
            if (*way != 's' || (!behind && at % 8 == 0)) points.push_back({behind, on_two, way, victim, at});
      }
  std::printf("%zu points\n", points.size());
  std::mt19937 random{seed};
  std::shuffle(points.begin(), points.end(), random);
  if (wanted > 0 && wanted < points.size()) points.resize(wanted);
  struct Row {
    long points = 0, none = 0, first = 0, second = 0;
  };
  std::map<std::tuple<bool, bool, int>, Row> table;
  long survived = 0;
  for (Point const& point : points) {
    background = point.background, apart = point.apart;
    std::string const folder = scratch.path("run" + std::to_string(++number));
    make_hosts(folder);
    int ended = 0;
    std::string const said = driver.job(folder, point.way, point.at, point.victim, ended);
    bool const stopped = *point.way == 's';
    std::string const victim = "rank " + std::to_string(point.victim);
    std::string const where = victim + (stopped ? " stopped at" : std::string{" killed "} + point.way) + " call " +
                              std::to_string(point.at) + (background ? ", behind the steps" : "") +
                              (apart ? ", on two hosts" : "");
    // Threads write in another order each time, and a rank that finds what it waits for makes a call less: the last numbers may
    // not come.
    if (ended == 0 && !background && std::atol(said.c_str()) > point.at) complain(where + ": the job ended by 0: " + said);
    if (stopped && (ended != 86 || said.find("parallax: timeout (" + victim + ") in ") == said.npos))
      complain(where + ": exit code " + std::to_string(ended) + ", " + said);
    survived += ended == 0;
    std::string const found = looked(folder, 2, states);
    if (found != "0" && found != "2" && found != "4") complain(where + ", afterwards: " + found);
    Row& row = table[{background, apart, point.victim}];
    ++row.points, ++(found == "4" ? row.second : found == "2" ? row.first : row.none);
    std::filesystem::remove_all(folder);
  }
  std::printf("%-44s %7s %8s %8s %8s\n", "", "points", "none", "first", "second");
  for (auto const& [key, row] : table)
    std::printf(
        "rank %d%-38s %7ld %8ld %8ld %8ld\n", std::get<2>(key),
        (std::string{std::get<0>(key) ? ", behind the steps" : ""} + (std::get<1>(key) ? ", on two hosts" : "")).c_str(),
        row.points, row.none, row.first, row.second);
  std::printf("%zu kills and stops, of which %ld did not come, %d failures, %.1f s\n", points.size(), survived, failures,
              std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  return failures > 0 ? 1 : 0;
}
