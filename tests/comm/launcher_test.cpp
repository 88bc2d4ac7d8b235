// A job of processes: what its ranks find, where their words go, how it ends, and that nothing is left of it. Ranks are shells; other
// hosts are reached by a script in ssh's place (tests/support/bin/ssh).
#include "parallax/detail/launch/launcher.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include "../catch.hpp"
#include "../interop/scratch.hpp"

namespace px = parallax;

namespace {

struct Ended {
  int status = -1;
  std::string out, err;
};

// Empty where there is no such file, or it goes meanwhile, as those of a process that ends.
std::string text_of(std::string const& path) {
  std::ostringstream text;
  text << std::ifstream{path}.rdbuf();
  return text.str();
}
std::string sorted_lines(std::string const& text) {
  std::istringstream lines{text};
  std::vector<std::string> all;
  for (std::string line; std::getline(lines, line);) all.push_back(line);
  std::sort(all.begin(), all.end());
  std::string sorted;
  for (std::string const& line : all) sorted += line + "\n";
  return sorted;
}

class Launched {
 public:
  Launched(std::string const& hosts, std::vector<std::string> const& command, px::LaunchOptions options = {}) {
    options.ssh = {std::filesystem::path{__FILE__}.parent_path() / "../support/bin/ssh", "-o", "BatchMode=yes"};
    std::fflush(nullptr);
    process_ = ::fork();
    if (process_ != 0) return;
    std::freopen(scratch.path("out").c_str(), "w", stdout);
    std::freopen(scratch.path("err").c_str(), "w", stderr);
    int status = 86;
    try {
      status = px::launch(px::parse_resources(hosts, "hosts"), command, options);
    } catch (px::Error const& error) {
      std::fprintf(stderr, "%s\n", error.what());
    }
    std::fflush(nullptr);
    ::_exit(status);
  }
  ~Launched() {
    if (process_ > 0) ::kill(process_, SIGKILL), ::waitpid(process_, nullptr, 0);
  }

  Ended end() {
    int status = 0;
    ::waitpid(process_, &status, 0);
    process_ = -1;
    return {WIFSIGNALED(status) ? 1000 + WTERMSIG(status) : WEXITSTATUS(status), text_of(scratch.path("out")),
            text_of(scratch.path("err"))};
  }
  void signal(int number) const { ::kill(process_, number); }
  std::string out() const { return text_of(scratch.path("out")); }
  // Waits until standard output has so many lines.
  bool has_lines(std::ptrdiff_t count) const {
    return within_seconds(20, [&] {
      std::string const text = out();
      return std::count(text.begin(), text.end(), '\n') >= count;
    });
  }
  static bool within_seconds(double seconds, std::function<bool()> const& holds) {
    for (int turn = 0; turn < 100 * seconds; ++turn) {
      if (holds()) return true;
      std::this_thread::sleep_for(std::chrono::milliseconds{10});
    }
    return holds();
  }

  parallax_test::Scratch scratch;

 private:
  ::pid_t process_ = -1;
};

std::vector<std::string> shell(std::string const& script) { return {"/bin/sh", "-c", script}; }
constexpr char const* two_hosts = "node-a slots=2\nlocalhost slots=2\n";

// The processes that have said who they are, a line "rank pid" each, after its prefix.
std::set<::pid_t> processes_in(std::string const& text) {
  std::set<::pid_t> found;
  std::istringstream lines{text};
  for (std::string line; std::getline(lines, line);)
    found.insert(static_cast<::pid_t>(std::stoi(line.substr(line.rfind(' ')))));
  return found;
}
bool all_gone(std::set<::pid_t> const& processes) {
  return std::all_of(processes.begin(), processes.end(), [](::pid_t one) {
    std::string const status = text_of("/proc/" + std::to_string(one) + "/stat");
    std::size_t const state = status.rfind(')') + 2;  // Z: it has ended, and nobody has asked how
    return state >= status.size() || status[state] == 'Z';
  });
}

}  // namespace

TEST_CASE("ranks find out who they are", "[comm][launch]") {
  ::setenv("OMP_NUM_THREADS", "3", 1);
  ::setenv("UNKNOWN_THERE", "here", 1);
  for (char const* of_mpiexec : {"PMI_RANK", "PMI_FD", "PMIX_RANK", "OMPI_COMM_WORLD_SIZE"}) ::setenv(of_mpiexec, "1", 1);
  Launched job{"mode = hybrid\nme@node-a port=2222\nlocalhost: 3,5\n",
               shell("echo \"$RANK/$WORLD_SIZE $LOCAL_RANK/$LOCAL_WORLD_SIZE $MASTER_ADDR $((MASTER_PORT > 0)) "
                     "${CUDA_VISIBLE_DEVICES-none} $PARALLAX_MODE $OMP_NUM_THREADS ${UNKNOWN_THERE-lost}"
                     "$PMI_RANK$PMI_FD$PMIX_RANK$OMPI_COMM_WORLD_SIZE $(pwd)\""),
               {.port = 4567}};
  Ended const ended = job.end();
  CHECK(ended.err == "");
  CHECK(ended.status == 0);
  char folder[4096];
  REQUIRE(::getcwd(folder, sizeof(folder)) != nullptr);
  std::string const here{folder};
  CHECK(sorted_lines(ended.out) ==
        sorted_lines("0/3 0/1 node-a 1 none hybrid 3 lost " + here + "\n[1] 1/3 0/2 node-a 1 3 hybrid 3 here " + here +
                     "\n[2] 2/3 1/2 node-a 1 5 hybrid 3 here " + here + "\n"));
}

TEST_CASE("a job has a key, which no list of processes shows", "[comm][launch]") {
  std::string const look = "tr '\\0' '\\n' </proc/$$/cmdline | grep -c \"$PARALLAX_JOB_KEY\"; echo \"$PARALLAX_JOB_KEY\"";
  std::set<std::string> keys;
  for (int turn = 0; turn < 2; ++turn) {
    Ended const ended = Launched{"node-a\nlocalhost\n", shell(look)}.end();
    CHECK(ended.status == 0);
    std::istringstream words{ended.out};
    std::vector<std::string> all{std::istream_iterator<std::string>{words}, {}};
    std::erase(all, "[1]");
    std::sort(all.begin(), all.end());
    REQUIRE(all.size() == 4);
    CHECK(all[0] == "0");
    CHECK(all[1] == "0");
    CHECK(all[2] == all[3]);
    CHECK(all[2].size() == 64);
    keys.insert(all[2]);
  }
  CHECK(keys.size() == 2);
}

TEST_CASE("a name that no shell can export stays here, is told of once, and does nothing there", "[comm][launch]") {
  parallax_test::Scratch const traces;
  std::string const touch = "touch " + traces.path("ran");
  std::string const count = "tr '\\0' '\\n' </proc/$$/environ | grep -c '^CUDA_X.Y=1$'; true";
  std::vector<std::string> const names{"CUDA_X.Y",
                                       "PARALLAX_A;" + touch + ";B",
                                       "OMP_$(" + touch + ")",
                                       "NCCL_`" + touch + "`",
                                       "CUDA_A B",
                                       "CUDA_'A",
                                       "OMP_A\n" + touch + "\nB",
                                       "OMP_\xc3\xa9",
                                       "NCCL_A,B"};
  for (std::string const& name : names) ::setenv(name.c_str(), "1", 1);
  ::setenv("CUDA_9_a", "it's; $(touch here) `x`\n\"y", 1);
  Ended const ended = Launched{two_hosts, shell("printf '%s\\n' \"$CUDA_9_a\"; " + count)}.end();
  for (std::string const& name : names) ::unsetenv(name.c_str());
  ::unsetenv("CUDA_9_a");
  CHECK(ended.status == 0);
  std::string const value = "it's; $(touch here) `x`", there = value + "\n\"y\n0\n";
  std::string expected = there;
  for (std::string const rank : {"[1] ", "[2] ", "[3] "})
    expected += rank + value + "\n" + rank + "\"y\n" + rank + (rank == "[1] " ? "0\n" : "1\n");  // ranks of this host have all
  CHECK(sorted_lines(ended.out) == sorted_lines(expected));
  CHECK_FALSE(std::filesystem::exists(traces.path("ran")));
  for (std::string const& name : names) {
    std::string shown = name;
    for (char& c : shown)
      if (c < ' ' || c > '~') c = '?';
    std::string const line =
        "parallax: the variable '" + shown + "' does not go to other hosts: no shell can export that name\n";
    INFO(line);
    std::size_t const first = ended.err.find(line);
    REQUIRE(first != ended.err.npos);
    CHECK(ended.err.find(line, first + 1) == ended.err.npos);
  }
  // A job of this host alone has no shell between, and nothing to be told of.
  ::setenv("CUDA_X.Y", "1", 1);
  Ended const here = Launched{"localhost", shell(count)}.end();
  ::unsetenv("CUDA_X.Y");
  CHECK(here.out == "1\n");
  CHECK(here.err == "");
}

TEST_CASE("a line with this host's own name goes by ssh where it has a user or a port", "[comm][launch]") {
  char name[256] = {};
  REQUIRE(::gethostname(name, sizeof(name) - 1) == 0);
  ::setenv("UNKNOWN_THERE", "here", 1);
  std::string const own{name};
  auto const by_ssh = [](std::string const& hosts) {
    Ended const ended = Launched{hosts, shell("echo ${UNKNOWN_THERE-lost}")}.end();
    CHECK(ended.err == "");
    CHECK((ended.out == "lost\n" || ended.out == "here\n"));
    return ended.out == "lost\n";
  };
  CHECK_FALSE(by_ssh(own));
  CHECK(by_ssh(own + " port=2222"));
  CHECK(by_ssh("me@" + own));
  CHECK_FALSE(by_ssh("localhost"));
  CHECK(by_ssh("localhost port=2222"));
  CHECK(by_ssh("me@localhost"));
}

TEST_CASE("arguments arrive as they were given", "[comm][launch]") {
  std::vector<std::string> command{"/bin/sh", "-c", "for word; do printf '<%s>' \"$word\"; done; echo", "name"};
  std::vector<std::string> const words{"plain", "two words", "it's", "\"$HOME\"", "`date`", "$(date)",
                                       "a\\b",  "",          "*",    "; exit 3",  "\n"};
  command.insert(command.end(), words.begin(), words.end());
  std::string expected;
  for (std::string const& word : words) expected += "<" + word + ">";
  for (std::string const host : {"localhost", "node-a"}) CHECK(Launched{host, command}.end().out == expected + "\n");
}

TEST_CASE("lines of other ranks have their rank before them", "[comm][launch]") {
  std::string const speak =
      "printf 'first\\nsecond'; printf ' half\\n\\n' ; printf '10 %%\\r20 %%\\r100 %%\\n' ; echo wrong >&2; printf unended";
  Ended const ended =
      Launched{"localhost slots=2", shell("if [ $RANK = 1 ]; then " + speak + "; else printf '5 %%\\r6 %%\\n'; fi")}.end();
  CHECK(ended.status == 0);
  CHECK(ended.err == "[1] wrong\n");
  CHECK(sorted_lines(ended.out) == sorted_lines("5 %\r6 %\n[1] first\n[1] second half\n[1] \n[1] 100 %\n[1] unended\n"));

  Ended const quiet = Launched{two_hosts, shell("echo $RANK; echo $RANK >&2"), {.all_speak = false}}.end();
  CHECK(quiet.out == "0\n");
  CHECK(quiet.err == "0\n");

  // Many long lines of several ranks at once do not mix.
  Ended const many =
      Launched{two_hosts, shell("i=0; while [ $i -lt 300 ]; do echo $RANK$RANK$RANK$RANK$RANK$RANK$RANK; i=$((i+1)); done")}
          .end();
  std::istringstream lines{many.out};
  int right = 0;
  for (std::string line; std::getline(lines, line);) {
    char const rank = line.back();
    right += line == (rank == '0' ? "" : std::string{"["} + rank + "] ") + std::string(7, rank);
  }
  CHECK(right == 1200);
}

TEST_CASE("a job ends with 0 only if every rank did", "[comm][launch]") {
  Ended const seven = Launched{two_hosts, shell("[ $RANK != 1 ] || exit 7; exec sleep 30"), {.grace = 0.1}}.end();
  CHECK(seven.status == 7);
  CHECK(seven.err == "parallax: rank 1 on node-a ended first, with exit status 7\n");
  Ended const killed = Launched{two_hosts, shell("[ $RANK != 2 ] || kill -KILL $$; exec sleep 30"), {.grace = 0.1}}.end();
  CHECK(killed.status == 128 + SIGKILL);
  CHECK(killed.err == "parallax: rank 2 on localhost ended first, by signal 9 (Killed)\n");
  // Survivors that end by themselves are waited for, and say why they end.
  Ended const spoken = Launched{two_hosts, shell("[ $RANK != 3 ] || exit 86; sleep 2; echo \"lost 3\" >&2; exit 1")}.end();
  CHECK(spoken.status == 86);
  CHECK(sorted_lines(spoken.err) ==
        sorted_lines("lost 3\n[1] lost 3\n[2] lost 3\nparallax: rank 3 on localhost ended first, with exit status 86\n"));
  // Who does not heed SIGTERM is ended all the same.
  Ended const deaf =
      Launched{two_hosts, shell("[ $RANK != 0 ] || exit 5; trap '' TERM; while :; do sleep 1; done"), {.grace = 0.1}}.end();
  CHECK(deaf.status == 5);
  Ended const none = Launched{"localhost slots=2", {"/no/such/program"}}.end();
  CHECK(none.status == 127);
  CHECK_THAT(none.err, parallax_test::contains("parallax: /no/such/program cannot be run: No such file or directory\n"));
  Ended const no_ssh = Launched{"node-a", shell("exit 255")}.end();
  CHECK(no_ssh.status == 255);
  CHECK(no_ssh.err == "parallax: rank 0 on node-a ended first, with exit status 255, the sign of ssh that it failed itself\n");
}

TEST_CASE("signals reach every rank, and the second one ends them", "[comm][launch]") {
  for (int const number : {SIGTERM, SIGINT, SIGHUP}) {
    INFO("signal " << number);
    Launched job{two_hosts, shell("trap 'echo saved; exit 0' TERM INT HUP; echo ready; while :; do sleep 0.05; done")};
    REQUIRE(job.has_lines(4));
    job.signal(number);
    Ended const ended = job.end();
    CHECK(ended.status == 0);
    CHECK(sorted_lines(ended.out) ==
          sorted_lines("ready\n[1] ready\n[2] ready\n[3] ready\nsaved\n[1] saved\n[2] saved\n[3] saved\n"));
  }
  for (int const number : {SIGUSR1, SIGUSR2, SIGXCPU}) {  // warnings, of which any number may come
    INFO("signal " << number);
    Launched job{"node-a\nlocalhost", shell("trap 'n=$((n + 1)); echo heard; [ $n = 3 ] && exit 0' USR1 USR2 XCPU; echo ready; "
                                            "while :; do sleep 0.05; done")};
    REQUIRE(job.has_lines(2));
    for (int time = 1; time <= 3; ++time) {
      job.signal(number);
      REQUIRE(job.has_lines(2 + 2 * time));
    }
    CHECK(job.end().status == 0);
  }
  Launched job{two_hosts, shell("trap 'echo heard' TERM; echo \"$RANK $$\"; while :; do sleep 0.05; done")};
  REQUIRE(job.has_lines(4));
  std::set<::pid_t> const processes = processes_in(job.out());
  job.signal(SIGTERM);
  REQUIRE(job.has_lines(8));
  job.signal(SIGTERM);
  CHECK(job.end().status == 128 + SIGKILL);
  CHECK(processes.size() == 4);
  CHECK(Launched::within_seconds(2, [&] { return all_gone(processes); }));
}

TEST_CASE("a signal reaches ranks that never stop writing, and their last words are heard", "[comm][launch]") {
  Launched job{
      "localhost slots=3",
      shell("trap 'kill $!; echo last; exit 3' TERM; if [ $RANK = 1 ]; then yes & else sleep 60 & fi; echo ready >&2; wait"),
      {.grace = 30}};
  REQUIRE(Launched::within_seconds(20, [&] {
    std::string const text = text_of(job.scratch.path("err"));
    return std::count(text.begin(), text.end(), '\n') == 3;
  }));
  job.signal(SIGTERM);
  Ended const ended = job.end();
  CHECK(ended.status == 3);
  for (std::string const line : {"[1] last\n", "[2] last\n"}) CHECK(ended.out.find(line) != ended.out.npos);
}

TEST_CASE("of a launcher that is killed no process is left", "[comm][launch]") {
  for (int turn = 0; turn < 10; ++turn) {
    Launched job{two_hosts, shell("echo \"$RANK $$\"; while :; do sleep 0.05; done")};
    REQUIRE(job.has_lines(4));
    std::set<::pid_t> const processes = processes_in(job.out());
    CHECK(processes.size() == 4);
    job.signal(SIGKILL);
    CHECK(job.end().status == 1000 + SIGKILL);
    CHECK(Launched::within_seconds(2, [&] { return all_gone(processes); }));
  }
}

TEST_CASE("a job that cannot be is refused", "[comm][launch]") {
  Ended const unreachable = Launched{"# hosts\nlocalhost\nnode-a\n", shell("exit 0")}.end();
  CHECK(unreachable.status == 86);
  CHECK(unreachable.err ==
        "parallax: invalid argument in launch: line 2 of the hosts: others cannot reach rank 0 at localhost; name "
        "it as they know it, or put another host first\n");
  CHECK_THAT(Launched("localhost", {}).end().err, parallax_test::contains("there is no command to run"));
}
