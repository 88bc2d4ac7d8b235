#include "parallax/comm/run.hpp"

#include <map>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "parallax/comm/collectives.hpp"

namespace px = parallax;
namespace launch = parallax::detail;

namespace {

// The process that the tables are about; its parent is 90.
constexpr std::int64_t own_process = 100;

// An environment: "PMI_RANK=0 PMI_SIZE=2".
class Variables {
 public:
  explicit Variables(std::string const& text) {
    std::istringstream words{text};
    for (std::string word; words >> word;) values_[word.substr(0, word.find('='))] = word.substr(word.find('=') + 1);
  }
  char const* operator()(char const* name) const {
    auto const found = values_.find(name);
    return found == values_.end() ? nullptr : found->second.c_str();
  }

 private:
  std::map<std::string, std::string> values_;
};

// What the guard says of a start.
std::string objection(std::string const& environment, launch::Membership const& joined) {
  Variables const variables{environment};
  return launch::objection({variables, own_process}, joined);
}

// The arguments of a program.
struct Arguments {
  explicit Arguments(std::vector<std::string> given) : words{std::move(given)} {
    for (std::string& word : words) pointers.push_back(word.data());
    pointers.push_back(nullptr);
    count = static_cast<int>(words.size());
    values = pointers.data();
  }
  std::vector<std::string> left() const { return {values, values + count}; }

  std::vector<std::string> words;
  std::vector<char*> pointers;
  int count = 0;
  char** values = nullptr;
};

using Words = std::vector<std::string>;

// `run` in an environment, with its options behind the program's name.
template <class... Communicators, class Body>
int run(std::string const& environment, Words options, Body const& body, px::RunOptions const& more = {}) {
  options.insert(options.begin(), "program");
  Arguments arguments{std::move(options)};
  Variables const variables{environment};
  constexpr bool self = sizeof...(Communicators) == 0 || (std::is_same_v<Communicators, px::SelfCommunicator> || ...);
  auto const call = [&](px::JoinedWorld& world) { return launch::call_body<Communicators...>(body, world); };
  return launch::run_ranks(arguments.count, arguments.values, call, more, {variables, own_process}, self);
}

// Who is a rank in a world of which many are called.
struct Seen {
  int size = 0, sum = 0;
};

// An entrance as a backend would add it: it claims by MY_RANK, and each process joins by itself.
int joins = 0;
char const* mine_claims(launch::Environment variable) { return variable("MY_RANK"); }
int join_mine(int&, char**&, px::RunOptions const&, px::FunctionRef<int(px::JoinedWorld&)> body) {
  ++joins;
  px::SelfCommunicator own;
  px::JoinedWorld world{own};
  try {
    return body(world);
  } catch (...) {
    return launch::end_by(7, px::current_error(7, "the training of a rank"));
  }
}
px::Entrance mine{.name = "mine", .precedence = 30, .claims = mine_claims, .join = join_mine};
bool const mine_is_known = px::add_entrance(mine);
// One that comes before it.
int join_first(int&, char**&, px::RunOptions const&, px::FunctionRef<int(px::JoinedWorld&)>) { return 55; }
px::Entrance first{.name = "first",
                   .precedence = 5,
                   .claims = [](launch::Environment variable) { return variable("FIRST"); },
                   .join = join_first};
bool const first_is_known = px::add_entrance(first);

struct Start {
  char const* what;
  char const* environment;
  launch::Membership joined;
};

constexpr launch::Membership alone{"", 1, false}, alone_with_mpi{"", 1, true}, alone_with_sockets{"", 1, false, true};
constexpr launch::Membership by_mpi(int size) { return {"MPI", size, true}; }
constexpr launch::Membership by_threads(int size) { return {"threads", size, true}; }
constexpr launch::Membership by_sockets(int size) { return {"sockets", size, false}; }

}  // namespace

TEST_CASE("the options of run are read, and taken out of the arguments", "[comm][run]") {
  struct Case {
    Words given, left;
    int ranks;
    bool guard, help;
  };
  std::vector<Case> const cases{
      {{"p"}, {"p"}, 0, true, false},
      {{"p", "--px-ranks", "3"}, {"p"}, 3, true, false},
      {{"p", "--px-ranks=4"}, {"p"}, 4, true, false},
      {{"p", "--px-ranks", "1024"}, {"p"}, 1024, true, false},
      {{"p", "--px-ranks", "2", "--px-ranks=5"}, {"p"}, 5, true, false},
      {{"p", "a", "--px-ranks", "2", "b", "--px-no-guard"}, {"p", "a", "b"}, 2, false, false},
      {{"p", "--px-help", "--rows", "3"}, {"p", "--rows", "3"}, 0, true, true},
      {{"p", "--px", "-px-ranks", "px-ranks", ""}, {"p", "--px", "-px-ranks", "px-ranks", ""}, 0, true, false},
      {{"p", "--px-no-guard", "--", "--px-ranks", "0"}, {"p", "--", "--px-ranks", "0"}, 0, false, false},
  };
  for (Case const& each : cases) {
    Arguments arguments{each.given};
    auto const read = launch::take_run_arguments(arguments.count, arguments.values);
    CHECK(arguments.left() == each.left);
    CHECK(arguments.values[arguments.count] == nullptr);
    CHECK(read.ranks == each.ranks);
    CHECK(read.guard == each.guard);
    CHECK(read.help == each.help);
    CHECK(read.mistake.empty());
  }
}

TEST_CASE("the options of ranks on hosts are read, and excluded by those of threads", "[comm][run]") {
  Arguments arguments{{"p", "--px-hosts", "h", "a", "--px-output=rank0"}};
  auto const read = launch::take_run_arguments(arguments.count, arguments.values);
  CHECK(arguments.left() == Words{"p", "a"});
  CHECK(std::string{read.hosts} == "h");
  CHECK_FALSE(read.all_speak);
  CHECK(read.mistake.empty());
  struct Case {
    Words given;
    std::string mistake;
  };
  std::vector<Case> const cases{
      {{"p", "--px-hosts"}, "--px-hosts takes the name of a file, and has none"},
      {{"p", "--px-hosts="}, "--px-hosts takes the name of a file, not «»"},
      {{"p", "--px-output", "none"}, "--px-output takes all or rank0, not «none»"},
      {{"p", "--px-output"}, "--px-output takes all or rank0, and has none"},
      {{"p", "--px-hostss", "--px-hosts=x"}, "there is no option --px-hostss (--px-help tells which there are)"},
      {{"p", "--px-hosts=x", "--px-ranks", "2"}, "--px-ranks and --px-hosts exclude each other"},
      {{"p", "--px-mpi"}, "--px-mpi starts the ranks of --px-hosts, which is missing"},
      {{"p", "--px-mpi=", "--px-hosts=x"}, "--px-mpi= takes the path of an mpiexec, and has none"},
      {{"p", "--px-mpich", "--px-hosts=x"}, "there is no option --px-mpich (--px-help tells which there are)"},
  };
  for (Case const& each : cases) {
    Arguments wrong{each.given};
    CHECK(launch::take_run_arguments(wrong.count, wrong.values).mistake == each.mistake);
    CHECK(wrong.left() == Words{"p"});
  }
  Arguments by_mpi{{"p", "--px-mpi", "a", "--px-hosts", "h"}}, by_path{{"p", "--px-hosts", "h", "--px-mpi=/b/mpiexec"}};
  auto const found = launch::take_run_arguments(by_mpi.count, by_mpi.values);
  CHECK(by_mpi.left() == Words{"p", "a"});
  CHECK(found.by_mpi);
  CHECK(found.mpiexec == nullptr);
  CHECK(std::string{launch::take_run_arguments(by_path.count, by_path.values).mpiexec} == "/b/mpiexec");
  // Under a launcher, and without sockets, none are started; nor by a file that is none.
  CHECK(run("PMI_RANK=0 PMI_SIZE=1 MY_RANK=0", {"--px-hosts=/dev/null"}, [](px::AnyCommunicator&) { throw 1; }) == 86);
  CHECK(run("", {"--px-hosts=/dev/null"}, [](px::AnyCommunicator&) { throw 1; }) == 86);
  CHECK(run("", {"--px-hosts=/dev/null", "--px-mpi"}, [](px::AnyCommunicator&) { throw 1; }) == 86);
}

TEST_CASE("a program reads its own arguments before it calls run", "[comm][run]") {
  Arguments const arguments{{"p", "a", "--px-ranks", "2", "--px-hosts=x", "--b", "--", "--px-help"}};
  auto const own = px::own_arguments(arguments.count, arguments.values);
  CHECK(Words{own.begin(), own.end()} == Words{"a", "--b", "--", "--px-help"});
  CHECK(arguments.left() == arguments.words);
  CHECK(px::own_arguments(0, nullptr).empty());
}

TEST_CASE("a body that has copied argc and argv has the whole command line, of which own_arguments tells its part",
          "[comm][run]") {
  for (Words const& given : {Words{"p", "--px-ranks", "2", "a"}, Words{"p", "a", "--px-ranks=2", "--px-no-guard", "b"}}) {
    Arguments arguments{given};
    int& argc = arguments.count;
    char**& argv = arguments.values;
    std::vector<Words> all(2), own(2);
    auto const body = [=, &all, &own](px::AnyCommunicator& world) {
      auto const rank = static_cast<std::size_t>(world.rank());
      for (int i = 0; i < argc; ++i) all[rank].push_back(argv[i] ? argv[i] : "nothing");
      for (std::string_view const word : px::own_arguments(argc, argv)) own[rank].emplace_back(word);
      return argv[argc] ? 1 : 0;
    };
    auto const call = [&](px::JoinedWorld& world) { return launch::call_body<>(body, world); };
    CHECK(launch::run_ranks(argc, argv, call, {}, {Variables{""}, own_process}, true) == 0);
    Words left = given.size() == 4 ? Words{"a"} : Words{"a", "b"};
    for (std::size_t rank = 0; rank < 2; ++rank) {
      CHECK(all[rank] == given);
      CHECK(own[rank] == left);
    }
    left.insert(left.begin(), "p");
    CHECK(arguments.left() == left);  // who has argc and argv themselves
    CHECK(argv[argc] == nullptr);
  }
}

TEST_CASE("a process that nobody launched has the threads of its program", "[comm][run]") {
  auto const size = [](px::AnyCommunicator& world) { return world.size(); };
  CHECK(run("", {}, size, {.threads = 3}) == 3);
  CHECK(run("", {"--px-ranks=2"}, size, {.threads = 3}) == 2);
  CHECK(run("MY_RANK=0", {}, size, {.threads = 3}) == 1);
}

TEST_CASE("a program without arguments, even without a name, has no options", "[comm][run]") {
  int count = 0;
  char* values[] = {nullptr};
  auto const read = launch::take_run_arguments(count, values);
  CHECK(count == 0);
  CHECK(read.mistake.empty());
}

TEST_CASE("a wrong option of run is one sentence, and all of them are taken out", "[comm][run]") {
  struct Case {
    Words given;
    std::string mistake;
  };
  std::string const number = "--px-ranks takes a number from 1 to 1024, ";
  std::vector<Case> const cases{
      {{"p", "--px-ranks"}, number + "and has none"},
      {{"p", "--px-ranks="}, number + "not «»"},
      {{"p", "--px-ranks", "0"}, number + "not «0»"},
      {{"p", "--px-ranks", "-2"}, number + "not «-2»"},
      {{"p", "--px-ranks=1025"}, number + "not «1025»"},
      {{"p", "--px-ranks=99999999999999999999"}, number + "not «99999999999999999999»"},
      {{"p", "--px-ranks", "3x"}, number + "not «3x»"},
      {{"p", "--px-ranks=+3"}, number + "not «+3»"},
      {{"p", "--px-ranks= 3"}, number + "not « 3»"},
      {{"p", "--px-ranks", "many"}, number + "not «many»"},
      {{"p", "--px-rank", "--px-ranks=0"}, "there is no option --px-rank (--px-help tells which there are)"},
      {{"p", "--px-"}, "there is no option --px- (--px-help tells which there are)"},
      {{"p", "--px-guard=no"}, "there is no option --px-guard=no (--px-help tells which there are)"},
  };
  for (Case const& each : cases) {
    Arguments arguments{each.given};
    auto const read = launch::take_run_arguments(arguments.count, arguments.values);
    CHECK(read.mistake == each.mistake);
    CHECK(arguments.left() == Words{"p"});
    CHECK(run("", {each.given.begin() + 1, each.given.end()}, [](px::AnyCommunicator&) { throw 1; }) == 2);
  }
}

TEST_CASE("the body of run is called on every rank, alone and on threads", "[comm][run]") {
  for (int const size : {1, 2, 3}) {
    std::vector<Seen> seen(static_cast<std::size_t>(size));
    Words const options = size == 1 ? Words{} : Words{"--px-ranks", std::to_string(size)};
    int const status = run("", options, [&](px::AnyCommunicator& world) {
      std::vector<float> sum{static_cast<float>(world.rank())};
      px::allreduce(world, std::span{sum});
      seen[static_cast<std::size_t>(world.rank())] = {world.size(), static_cast<int>(sum[0])};
    });
    CHECK(status == 0);
    for (Seen const& one : seen) {
      CHECK(one.size == size);
      CHECK(one.sum == size * (size - 1) / 2);
    }
  }
}

TEST_CASE("run returns the first status by rank that is not 0", "[comm][run]") {
  CHECK(run("", {}, [](px::AnyCommunicator&) { return 5; }) == 5);
  auto const of_rank = [](px::AnyCommunicator& world) { return world.rank() == 0 ? 0 : 10 + world.rank(); };
  CHECK(run("", {"--px-ranks", "3"}, of_rank) == 11);
  CHECK(run("", {"--px-ranks", "1"}, of_rank) == 0);
  CHECK(run("", {"--px-ranks", "2"}, [](px::AnyCommunicator&) { return 0; }) == 0);
}

TEST_CASE("an exception that leaves the body of run is the status 86", "[comm][run]") {
  CHECK(px::abort_code == 86);
  CHECK(run("", {}, [](px::AnyCommunicator&) { throw std::runtime_error{"no batch left"}; }) == 86);
  CHECK(run("", {}, [](px::AnyCommunicator&) { throw px::Error{px::Errc::bad_id, 0, "pull", "words", "7"}; }) == 86);
  CHECK(run("", {"--px-ranks=3"}, [](px::AnyCommunicator& world) {
          if (world.rank() == 1) throw std::runtime_error{"no batch left"};
          px::barrier(world);
        }) == 86);
}

TEST_CASE("--px-help is the status 0, and the body is not called", "[comm][run]") {
  CHECK(run("PMI_RANK=0 PMI_SIZE=2", {"--px-help"}, [](px::AnyCommunicator&) { throw 1; }) == 0);
}

TEST_CASE("a template is called with the type of communicator that was chosen", "[comm][run]") {
  auto const kind = []<class C>(C&) {
    return std::is_same_v<C, px::ThreadCommunicator> ? 11 : std::is_same_v<C, px::SelfCommunicator> ? 12 : 13;
  };
  CHECK(run<px::SelfCommunicator, px::ThreadCommunicator>("", {}, kind) == 12);
  CHECK(run<px::SelfCommunicator, px::ThreadCommunicator>("", {"--px-ranks=2"}, kind) == 11);
  CHECK(run("", {"--px-ranks=2"}, kind) == 13);
  Arguments arguments{{"program", "--px-ranks=1", "--px-no-guard"}};
  CHECK(px::run<px::ThreadCommunicator>(arguments.count, arguments.values, kind) == 11);
}

TEST_CASE("who is alone has a thread's communicator where that is named, and no other", "[comm][run]") {
  Arguments arguments{{"program", "--px-no-guard"}};
  int size = 0;
  px::run<px::ThreadCommunicator>(arguments.count, arguments.values,
                                  [&](px::ThreadCommunicator& world) { size = world.size(); });
  CHECK(size == 1);
}

TEST_CASE("a template is compiled for the types that are named, and for no other", "[comm][run]") {
  Arguments arguments{{"program", "--px-ranks=2", "--px-no-guard"}};
  CHECK(px::run<px::ThreadCommunicator>(arguments.count, arguments.values, [](auto& world) {
          static_assert(std::is_same_v<decltype(world), px::ThreadCommunicator&>);
          return world.size();
        }) == 2);
}

TEST_CASE("a type of communicator that was not named is refused by its name", "[comm][run]") {
  px::SelfCommunicator own;
  px::JoinedWorld world{own};
  auto const body = [](px::ThreadCommunicator&) {};
  try {
    launch::call_body<px::ThreadCommunicator>(body, world);
    FAIL("no error");
  } catch (px::Error const& error) {
    CHECK(error.code() == px::Errc::misuse);
    CHECK(error.detail() == "the ranks are of a parallax::SelfCommunicator, none of the types given to run: add it to them");
  }
}

TEST_CASE("run joins by the entrance that claims the process", "[comm][run]") {
  REQUIRE(mine_is_known);
  REQUIRE(first_is_known);
  joins = 0;
  CHECK(run("", {}, [](px::AnyCommunicator&) { return 3; }) == 3);
  CHECK(joins == 0);
  CHECK(run("MY_RANK=0", {}, [](px::AnyCommunicator&) { return 4; }) == 4);
  CHECK(joins == 1);
  CHECK(run("MY_RANK=0", {"--px-ranks", "2"}, [](px::AnyCommunicator& world) { return world.size(); }) == 2);
  CHECK(joins == 1);
  CHECK(run("MY_RANK=0 FIRST=yes", {}, [](px::AnyCommunicator&) { return 4; }) == 55);
  CHECK(joins == 1);
  CHECK(run("MY_RANK=0 FIRST=yes PMI_SIZE=1", {}, [](px::AnyCommunicator&) { return 4; }) == 55);
}

TEST_CASE("a wrong start ends before the body, by every entrance, unless the guard is off", "[comm][run]") {
  std::string const launched = "PMI_RANK=1 PMI_SIZE=2";
  auto const body = [](px::AnyCommunicator&) { return 4; };
  CHECK(run(launched, {}, body) == 86);
  CHECK(run(launched + " MY_RANK=1", {}, body) == 86);
  CHECK(run(launched, {"--px-ranks", "2"}, body) == 86);
  for (std::string const more : {"", " MY_RANK=1"}) {
    CHECK(run(launched + more, {"--px-no-guard"}, body) == 4);
    CHECK(run(launched + more, {}, body, {.guard = false}) == 4);
    CHECK(run(launched + more + " PARALLAX_NO_GUARD=1", {}, body) == 4);
    CHECK(run(launched + more + " PARALLAX_NO_GUARD=0", {}, body) == 86);
    CHECK(run(launched + more + " PARALLAX_NO_GUARD=", {}, body) == 86);
  }
  CHECK(run(launched, {"--px-ranks", "2", "--px-no-guard"}, body) == 4);
}

TEST_CASE("the guard's error is misuse, and tells how to go on without it", "[comm][run]") {
  Variables const variables{"PMI_RANK=0 PMI_SIZE=2"};
  for (std::string const operation : {"run", "run_mpi"}) {
    try {
      launch::check_start({variables, own_process}, alone, operation);
      FAIL("no error");
    } catch (px::Error const& error) {
      CHECK(error.code() == px::Errc::misuse);
      CHECK(error.operation() == operation);
      CHECK(error.detail() ==
            "2 processes were launched together (PMI_SIZE=2), but this one is alone, as rank 0 of 1: include "
            "parallax/comm/socket.hpp, by which ranks join, or parallax/comm/mpi.hpp, and link MPI; if each is meant to be "
            "apart, say " +
                std::string{operation == "run" ? "--px-no-guard, or " : ""} + "PARALLAX_NO_GUARD=1");
    }
  }
}

char const* const flux_without_pmi = "FLUX_JOB_SIZE=4 FLUX_TASK_RANK=3 FLUX_TASK_LOCAL_ID=1 FLUX_JOB_NNODES=2";

TEST_CASE("each wrong start is named, with what was launched, what was joined and what to do", "[comm][run][guard]") {
  struct Wrong {
    Start start;
    Words said;
  };
  std::vector<Wrong> const starts{
      {{"srun --mpi=none, MPI is included", "SLURM_STEP_NUM_TASKS=4 SLURM_NTASKS=4 SLURM_PROCID=2 SLURM_TASK_PID=100",
        alone_with_mpi},
       {"4 processes", "SLURM_STEP_NUM_TASKS=4", "alone", "srun --mpi=pmi2"}},
      {{"srun --mpi=none, by run_mpi", "SLURM_STEP_NUM_TASKS=4 SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_TASK_PID=100", by_mpi(1)},
       {"SLURM_STEP_NUM_TASKS=4", "joined 1 by MPI", "srun --mpi=pmi2"}},
      {{"srun, without MPI, in a wrapper", "SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 SLURM_TASK_PID=90 SLURM_STEP_ID=0", alone},
       {"SLURM_STEP_NUM_TASKS=2", "alone", "include parallax/comm/socket.hpp, or parallax/comm/mpi.hpp", "srun --mpi=pmi2"}},
      {{"srun --mpi=none, with sockets", "SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 SLURM_TASK_PID=100", alone_with_sockets},
       {"SLURM_STEP_NUM_TASKS=2", "alone", "rank 0 of 1: start it by srun --mpi=pmi2"}},
      {{"MPICH's mpiexec, without MPI", "PMI_RANK=0 PMI_SIZE=2 PMI_FD=6", alone},
       {"PMI_SIZE=2", "alone", "include parallax/comm/socket.hpp, by which ranks join, or parallax/comm/mpi.hpp"}},
      {{"a launcher of PMI that cannot be asked, with sockets", "PMI_RANK=0 PMI_SIZE=2", alone_with_sockets},
       {"PMI_SIZE=2", "alone", "rank 0 of 1: include parallax/comm/mpi.hpp"}},
      {{"Open MPI's mpirun, with sockets", "OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=0 PMIX_RANK=0", alone_with_sockets},
       {"OMPI_COMM_WORLD_SIZE=3", "alone", "rank 0 of 1: include parallax/comm/mpi.hpp"}},
      {{"pods of Kubernetes, without sockets", "JOB_COMPLETION_INDEX=2 WORLD_SIZE=4 MASTER_ADDR=a", alone},
       {"WORLD_SIZE=4", "alone", "include parallax/comm/socket.hpp"}},
      {{"Open MPI's mpirun, without MPI", "OMPI_COMM_WORLD_SIZE=3 OMPI_COMM_WORLD_RANK=0 PMIX_RANK=0", alone},
       {"3 processes", "OMPI_COMM_WORLD_SIZE=3", "alone", "include parallax/comm/mpi.hpp"}},
      {{"MPICH's mpiexec, Open MPI's program", "PMI_RANK=1 PMI_SIZE=2 PMI_FD=8", by_mpi(1)},
       {"PMI_SIZE=2", "joined 1 by MPI", "link the MPI of that launcher"}},
      {{"Open MPI's mpirun, MPICH's program", "OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_RANK=1", by_mpi(1)},
       {"OMPI_COMM_WORLD_SIZE=2", "joined 1 by MPI", "link the MPI of that launcher"}},
      {{"flux run -o pmi=off, with sockets", flux_without_pmi, alone_with_sockets},
       {"4 processes", "FLUX_JOB_SIZE=4", "alone", "flux run -o pmi=simple"}},
      {{"flux run -o pmi=off, without sockets", flux_without_pmi, alone},
       {"FLUX_JOB_SIZE=4", "alone", "include parallax/comm/socket.hpp, or parallax/comm/mpi.hpp", "flux run -o pmi=simple"}},
      {{"flux run -o pmi=off, by run_mpi", flux_without_pmi, by_mpi(1)}, {"FLUX_JOB_SIZE=4", "joined 1 by MPI"}},
      {{"--px-ranks for each task of flux run", flux_without_pmi, by_threads(2)}, {"FLUX_JOB_SIZE=4", "leave out --px-ranks"}},
      {{"torchrun, without sockets", "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 MASTER_ADDR=node MASTER_PORT=29500", alone_with_mpi},
       {"8 processes", "WORLD_SIZE=8", "alone", "include parallax/comm/socket.hpp"}},
      {{"--px-ranks under mpiexec", "PMI_RANK=0 PMI_SIZE=2", by_threads(2)},
       {"PMI_SIZE=2", "given --px-ranks 2", "leave out --px-ranks"}},
      {{"--px-ranks for each task of srun", "SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=0 SLURM_TASK_PID=100", by_threads(8)},
       {"SLURM_STEP_NUM_TASKS=2", "given --px-ranks 8", "leave out --px-ranks"}},
      {{"--px-ranks 1 under mpiexec", "PMI_RANK=0 PMI_SIZE=2", by_threads(1)}, {"given --px-ranks 1", "leave out --px-ranks"}},
      {{"mpiexec in the shell of srun --pty, of another MPI",
        "SLURM_STEP_NUM_TASKS=1 SLURM_NTASKS=1 SLURM_PROCID=0 SLURM_TASK_PID=90 PMI_RANK=0 PMI_SIZE=4", by_mpi(1)},
       {"PMI_SIZE=4", "joined 1 by MPI"}},
      {{"srun in the shell of mpiexec -n 1", "SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 SLURM_TASK_PID=100 PMI_RANK=0 PMI_SIZE=1",
        by_mpi(1)},
       {"SLURM_STEP_NUM_TASKS=4", "joined 1 by MPI"}},
      {{"torchrun in srun -n 1", "SLURM_STEP_NUM_TASKS=1 SLURM_PROCID=0 SLURM_TASK_PID=90 RANK=0 WORLD_SIZE=4", alone},
       {"WORLD_SIZE=4"}},
      {{"half of the world", "PMI_RANK=3 PMI_SIZE=4", by_mpi(2)}, {"PMI_SIZE=4", "joined 2 by MPI"}},
      {{"sockets of another number", "PMI_RANK=3 PMI_SIZE=4 RANK=1 WORLD_SIZE=2", by_sockets(2)},
       {"PMI_SIZE=4", "joined 2 by sockets", "name all that were launched"}},
  };
  for (auto const& [start, said] : starts) {
    INFO(start.what);
    std::string const text = objection(start.environment, start.joined);
    INFO(text);
    for (std::string const& words : said) CHECK(text.find(words) != std::string::npos);
    CHECK(objection(start.environment + std::string{" PARALLAX_NO_GUARD=1"}, start.joined).empty());
  }
}

TEST_CASE("no right start is refused", "[comm][run][guard]") {
  std::string const batch = "SLURM_JOB_ID=7 SLURM_NTASKS=4 SLURM_NPROCS=4 SLURM_PROCID=0 SLURM_TASK_PID=90 SLURM_LOCALID=0 ";
  std::string const step = "SLURM_STEP_NUM_TASKS=4 SLURM_NTASKS=4 SLURM_PROCID=1 SLURM_STEP_ID=0 ";
  std::string const step_of_one = "SLURM_STEP_NUM_TASKS=1 SLURM_NTASKS=1 SLURM_PROCID=0 SLURM_STEP_ID=1 ";
  std::string const task = "SLURM_TASK_PID=100 ", in_wrapper = "SLURM_TASK_PID=90 ";
  std::string const mpich = "PMI_RANK=1 PMI_SIZE=4 PMI_FD=8 MPI_LOCALNRANKS=4 ";
  std::string const mpich_of_one = "PMI_RANK=0 PMI_SIZE=1 PMI_FD=6 ";
  std::string const open_mpi = "OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=4 PMIX_RANK=1 ";
  std::string const open_mpi_of_one = "OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=1 PMIX_RANK=0 ";
  std::string const torch = "RANK=1 WORLD_SIZE=4 LOCAL_RANK=1 MASTER_ADDR=a MASTER_PORT=1 ";
  struct Right {
    char const* what;
    std::string environment;
    launch::Membership joined;
  };
  std::vector<Right> const starts{
      // without a launcher
      {"a laptop", "", alone},
      {"a laptop, MPI is included", "HOME=/home/me", alone_with_mpi},
      {"a laptop, by run_mpi", "", by_mpi(1)},
      {"a laptop, on threads", "", by_threads(8)},
      {"variables of size alone, without a rank", "WORLD_SIZE=4", alone},
      {"WORLD_SIZE for a launcher to come", "WORLD_SIZE=4 MASTER_ADDR=a MASTER_PORT=1", alone},
      {"a RANK alone", "RANK=3", alone},
      {"a RANK outside the world", "RANK=4 WORLD_SIZE=4", alone},
      // one process of a launcher
      {"mpiexec -n 1", mpich_of_one, by_mpi(1)},
      {"mpiexec -n 1, without MPI", mpich_of_one, alone},
      {"mpiexec -n 1, on threads", mpich_of_one, by_threads(4)},
      {"mpirun -n 1", open_mpi_of_one, by_mpi(1)},
      {"mpirun -n 1, without MPI", open_mpi_of_one, alone},
      {"torchrun of one", "RANK=0 WORLD_SIZE=1 LOCAL_RANK=0", alone},
      {"torchrun of one, on threads", "RANK=0 WORLD_SIZE=1", by_threads(2)},
      {"srun -n 1", step_of_one + task, alone},
      {"srun -n 1, MPI is included", step_of_one + task, alone_with_mpi},
      {"srun -n 1 --mpi=pmi2", step_of_one + task + mpich_of_one, by_mpi(1)},
      {"srun -n 1, on threads", step_of_one + task, by_threads(16)},
      {"srun --pty, in its shell", step_of_one + in_wrapper, alone},
      // all of a launcher
      {"mpiexec -n 4", mpich, by_mpi(4)},
      {"mpirun -n 4", open_mpi, by_mpi(4)},
      {"srun --mpi=pmi2 -n 4", step + task + mpich, by_mpi(4)},
      {"srun --mpi=pmix -n 4", step + task + "PMIX_RANK=1 ", by_mpi(4)},
      {"srun --mpi=pmi2 -n 4, in a wrapper", step + in_wrapper + mpich, by_mpi(4)},
      {"srun --mpi=pmix -n 4, in a wrapper", step + in_wrapper + "PMIX_RANK=1 ", by_mpi(4)},
      {"mpiexec -n 4, by sockets", mpich, by_sockets(4)},
      {"srun --mpi=pmi2 -n 4, by sockets", step + task + mpich, by_sockets(4)},
      {"pods of Kubernetes", "JOB_COMPLETION_INDEX=2 WORLD_SIZE=4 MASTER_ADDR=a", by_sockets(4)},
      {"a pod of Kubernetes that is alone", "JOB_COMPLETION_INDEX=2", alone},
      {"srun -n 4, MPI knows Slurm", step + task, by_mpi(4)},
      {"torchrun of 4", torch, by_sockets(4)},
      {"srun, sockets by a script's variables", step + in_wrapper + torch, by_sockets(4)},
      {"mpiexec, sockets by a script's variables", mpich + torch, by_sockets(4)},
      {"an environment that has two programs", mpich, by_mpi(4)},
      {"two groups of a heterogeneous step", "SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 " + task, by_mpi(4)},
      {"processes that were spawned later", mpich_of_one, by_mpi(3)},
      {"flux run -n 4, by sockets", std::string{flux_without_pmi} + " " + mpich, by_sockets(4)},
      {"flux run -n 4, by MPI", std::string{flux_without_pmi} + " " + mpich, by_mpi(4)},
      {"flux run -n 1", "FLUX_JOB_SIZE=1 FLUX_TASK_RANK=0", alone},
      {"mpiexec -n 3 in flux run -n 4 -o pmi=off", std::string{flux_without_pmi} + " PMI_RANK=0 PMI_SIZE=3", by_sockets(3)},
      {"mpirun -n 1 in flux run -n 4 -o pmi=off", std::string{flux_without_pmi} + " " + open_mpi_of_one, by_mpi(1)},
      {"torchrun of one in flux run -n 4 -o pmi=off", std::string{flux_without_pmi} + " RANK=0 WORLD_SIZE=1", alone},
      // a batch script, and what it starts
      {"in a batch script", batch, alone},
      {"in a batch script, MPI is included", batch, alone_with_mpi},
      {"in a batch script, by run_mpi", batch, by_mpi(1)},
      {"in a batch script, on threads", batch, by_threads(4)},
      {"in a batch script that was submitted from a step", batch + "SLURM_STEP_NUM_TASKS=2 SLURM_STEP_ID=0", alone},
      {"in a batch script with variables for torch", batch + "WORLD_SIZE=4 MASTER_ADDR=a", alone},
      {"mpiexec of a batch script", batch + mpich, by_mpi(4)},
      {"mpiexec -n 1 of a batch script", batch + mpich_of_one, by_mpi(1)},
      {"mpirun of a batch script, through srun -n 2", batch + "SLURM_STEP_NUM_TASKS=2 " + open_mpi, by_mpi(4)},
      {"torchrun of a batch script", batch + torch, by_sockets(4)},
      {"in the shell of an allocation", "SLURM_STEP_NUM_TASKS=4 SLURM_PROCID=0 SLURM_TASK_PID=90 SLURM_STEP_ID=4294967290",
       alone},
      {"in the shell of an allocation, on threads",
       "SLURM_STEP_NUM_TASKS=4 SLURM_NTASKS=4 SLURM_PROCID=0 SLURM_STEP_ID=4294967290", by_threads(4)},
      // one launcher inside another
      {"mpiexec -n 1 in a step of 4", step + in_wrapper + mpich_of_one, by_mpi(1)},
      {"mpiexec -n 1 in a step of 4, without MPI", step + in_wrapper + mpich_of_one, alone},
      {"mpiexec -n 2 in a step of 4", step + in_wrapper + "PMI_RANK=0 PMI_SIZE=2", by_mpi(2)},
      {"mpirun -n 1 in a step of 4", step + in_wrapper + open_mpi_of_one, by_mpi(1)},
      {"mpiexec -n 4 in a step of 1", step_of_one + in_wrapper + mpich, by_mpi(4)},
      {"mpiexec -n 1, threads, in a step of 4", step + in_wrapper + mpich_of_one, by_threads(2)},
      {"srun -n 1 from a rank of mpiexec", step_of_one + task + mpich, alone},
      {"srun -n 1 from a rank of mpiexec, on threads", step_of_one + task + mpich, by_threads(2)},
      {"srun -n 1 from a rank of torchrun", step_of_one + task + torch, alone},
      {"mpiexec -n 1 from a rank of torchrun", torch + mpich_of_one, by_mpi(1)},
      {"mpirun -n 1 from a rank of mpiexec", mpich + open_mpi_of_one, by_mpi(1)},
      {"mpiexec -n 1 from a rank of mpirun", open_mpi + mpich_of_one, by_mpi(1)},
      {"torchrun in a step of two nodes", "SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 " + in_wrapper + torch, by_sockets(4)},
      {"proxies of mpiexec that srun starts", "SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=1 " + in_wrapper + mpich, by_mpi(4)},
      // variables that hold something else
      {"an empty PMI_SIZE", "PMI_SIZE= PMI_RANK=", alone},
      {"a PMI_SIZE of words", "PMI_SIZE=many PMI_RANK=0", alone},
      {"a PMI_SIZE of 0", "PMI_SIZE=0 PMI_RANK=0", alone},
      {"a negative PMI_SIZE", "PMI_SIZE=-4 PMI_RANK=0", alone},
      {"a PMI_SIZE beyond numbers", "PMI_SIZE=99999999999999999999", alone},
      {"a PMI_SIZE of more than can run", "PMI_SIZE=5000000000 PMI_RANK=0", alone},
      {"a PMI_SIZE with a unit", "PMI_SIZE=4x", alone},
      {"a SLURM_PROCID outside the step", "SLURM_STEP_NUM_TASKS=2 SLURM_PROCID=2", alone},
  };
  REQUIRE(starts.size() >= 50);
  for (Right const& start : starts) {
    INFO(start.what);
    CHECK(objection(start.environment, start.joined) == "");
  }
}

TEST_CASE("a tool that a rank starts is taken for a rank, and says that it is none", "[comm][run][guard]") {
  CHECK(objection("PMI_RANK=1 PMI_SIZE=4", alone) != "");  // the limit of what variables tell
  CHECK(objection("PMI_RANK=1 PMI_SIZE=4 PARALLAX_NO_GUARD=yes", alone) == "");
}
