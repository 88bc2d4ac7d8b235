// The commands by which mpiexec starts the ranks of a file of hosts, and what a rank's lines become. tests/mpi/CMakeLists.txt runs them.
#include "parallax/detail/launch/mpiexec.hpp"

#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <string>
#include <utility>
#include <vector>

#include "../catch.hpp"
#include "../interop/scratch.hpp"

namespace px = parallax;

namespace {

using px::detail::MpiexecKind;

std::string command(MpiexecKind kind, std::string const& hosts, std::vector<std::string> const& names = {"OMP_X", "CUDA_Y"}) {
  std::vector<std::string> const program{"/bin/p", "--a"};
  std::string text;
  for (std::string const& word :
       px::detail::mpiexec_command(kind, "mpiexec", px::parse_resources(hosts, "hosts"), program, "/here", names))
    text += (text.empty() ? "" : " ") + word;
  return text;
}

std::string text_of(std::string const& path) {
  std::ifstream file{path};
  return {std::istreambuf_iterator<char>{file}, {}};
}

// What a rank writes into a file, whose process has `set` in its environment, and lets its lines be passed on.
std::string spoken(std::vector<std::pair<char const*, char const*>> const& set) {
  parallax_test::Scratch scratch;
  std::fflush(nullptr);
  ::pid_t const rank = ::fork();
  if (rank == 0) {
    for (char const* name : {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"}) ::unsetenv(name);
    for (auto const& [name, value] : set) ::setenv(name, value, 1);
    std::freopen(scratch.path("out").c_str(), "w", stdout);
    std::freopen(scratch.path("err").c_str(), "w", stderr);
    px::detail::speak_as_rank();
    std::printf("one\nt");
    std::fflush(stdout);
    std::fprintf(stderr, "w\n");
    std::printf("wo\n10 %%\r20 %%\r%s children", ::waitpid(-1, nullptr, 0) < 0 ? "no" : "with");
    std::fflush(nullptr);
    ::_exit(::getenv("PARALLAX_OUTPUT") ? 1 : 0);
  }
  int status = 0;
  ::waitpid(rank, &status, 0);
  CHECK(status == 0);
  std::string out, err;
  for (int turn = 0; turn < 100 && (err.empty() || out.find("children\n") == out.npos); ++turn) {
    out = text_of(scratch.path("out")), err = text_of(scratch.path("err"));
    if (out.ends_with("no children")) break;  // nobody passes it on
    ::usleep(turn < 50 ? 2000 : 20000);
  }
  return out + "|" + err;
}

}  // namespace

TEST_CASE("Hydra is told of all hosts once, and of the device of each rank", "[comm][launch]") {
  CHECK(command(MpiexecKind::hydra, "a slots=3\nb") ==
        "mpiexec -hosts a:3,b:1 -wdir /here -genvlist OMP_X,CUDA_Y -n 4 /bin/p --a");
  CHECK(command(MpiexecKind::hydra, "localhost", {}) == "mpiexec -hosts localhost:1 -wdir /here -genvnone -n 1 /bin/p --a");
  CHECK(command(MpiexecKind::hydra, "a\nb slots=2\nc: 5,0\nd\ne: 1", {"X"}) ==
        "mpiexec -hosts a:1,b:2,c:2,d:1,e:1 -wdir /here -genvlist X -n 3 /bin/p --a : "
        "-n 1 -env CUDA_VISIBLE_DEVICES 5 /bin/p --a : -n 1 -env CUDA_VISIBLE_DEVICES 0 /bin/p --a : -n 1 /bin/p --a : "
        "-n 1 -env CUDA_VISIBLE_DEVICES 1 /bin/p --a");
}

TEST_CASE("Open MPI is told of the hosts of each group of ranks", "[comm][launch]") {
  CHECK(command(MpiexecKind::open_mpi, "a slots=3\nb") ==
        "mpiexec --host a:3,b:1 --wdir /here -x OMP_X -x CUDA_Y -n 4 /bin/p --a");
  CHECK(command(MpiexecKind::open_mpi, "a: 5,0\nb", {"X", "CUDA_VISIBLE_DEVICES"}) ==
        "mpiexec --host a:2 --wdir /here -x X -n 1 -x CUDA_VISIBLE_DEVICES=5 /bin/p --a : "
        "--host a:2 --wdir /here -x X -n 1 -x CUDA_VISIBLE_DEVICES=0 /bin/p --a : "
        "--host b:1 --wdir /here -x X -x CUDA_VISIBLE_DEVICES -n 1 /bin/p --a");
}

TEST_CASE("what only ssh can be told is refused with the line that says it", "[comm][launch]") {
  for (char const* hosts : {"a\nme@b", "a\nb port=22", "a\n[fe80::1]"})
    for (MpiexecKind const kind : {MpiexecKind::hydra, MpiexecKind::open_mpi})
      CHECK_THROWS_WITH(command(kind, hosts),
                        parallax_test::contains("line 2 of the hosts: mpiexec is told a name or an address"));
}

TEST_CASE("an mpiexec and a library say whose they are", "[comm][launch]") {
  CHECK(px::detail::kind_of_mpiexec("HYDRA build details:\n    Version:    4.0.2\n") == MpiexecKind::hydra);
  CHECK(px::detail::kind_of_mpiexec("Intel(R) MPI Library for Linux* OS, Version 2021.6 Build 20220227\n") ==
        MpiexecKind::hydra);
  CHECK(px::detail::kind_of_mpiexec("mpiexec (OpenRTE) 4.1.4\n") == MpiexecKind::open_mpi);
  CHECK(px::detail::kind_of_mpiexec("mpirun (Open MPI) 5.0.3\n") == MpiexecKind::open_mpi);
  CHECK(px::detail::kind_of_mpiexec("something else 1.0") == MpiexecKind::unknown);
  CHECK(px::detail::starts_library("Open MPI v4.1.4, package: Debian OpenMPI") == MpiexecKind::open_mpi);
  CHECK(px::detail::starts_library("MPICH Version:\t4.0.2") == MpiexecKind::hydra);
}

TEST_CASE("what goes along to the ranks of mpiexec", "[comm][launch]") {
  ::setenv("FI_PROVIDER", "tcp", 1);
  ::setenv("OMP_NUM_THREADS", "3", 1);
  ::setenv("UNKNOWN_THERE", "here", 1);
  std::vector<std::string> const names = px::detail::names_for_mpiexec();
  for (char const* name : {"FI_PROVIDER", "OMP_NUM_THREADS"}) CHECK(std::count(names.begin(), names.end(), name) == 1);
  for (char const* name : {"UNKNOWN_THERE", "PATH"}) CHECK(std::count(names.begin(), names.end(), name) == 0);
  // Whatever parts a list of names is in none of them.
  std::vector<std::string> const odd{"CUDA_A,PATH", "UCX_A;PATH", "FI_A B", "OMP_X.Y"};
  for (std::string const& name : odd) ::setenv(name.c_str(), "1", 1);
  CHECK(px::detail::names_for_mpiexec() == names);
  for (std::string const& name : odd) ::unsetenv(name.c_str());
}

TEST_CASE("a rank that mpiexec has started says its lines with its rank before them, and has no child more", "[comm][launch]") {
  CHECK(spoken({{"PARALLAX_OUTPUT", "all"}, {"PMI_RANK", "3"}}) == "[3] one\n[3] two\n[3] no children\n|[3] w\n");
  CHECK(spoken({{"PARALLAX_OUTPUT", "all"}, {"OMPI_COMM_WORLD_RANK", "12"}}) ==
        "[12] one\n[12] two\n[12] no children\n|[12] w\n");
  CHECK(spoken({{"PARALLAX_OUTPUT", "rank0"}, {"PMI_RANK", "3"}}) == "|");
  for (char const* who : {"all", "rank0"})
    CHECK(spoken({{"PARALLAX_OUTPUT", who}, {"PMI_RANK", "0"}}) == "one\ntwo\n10 %\r20 %\rno children|w\n");
  CHECK(spoken({{"PMI_RANK", "3"}}) == "one\ntwo\n10 %\r20 %\rno children|w\n");
}
