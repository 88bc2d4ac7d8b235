// Signals interrupt every few calls of the system, and reads and writes are short: ranks meet, share memory and exchange all
// the same, and a launcher passes on each line. A call for which the system would end a process is an Error.
#include "../support/failing_calls.hpp"

#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "../interop/scratch.hpp"
#include "parallax/comm/socket.hpp"
#include "parallax/detail/conformance/exchange.hpp"
#include "parallax/detail/launch/launcher.hpp"

namespace px = parallax;
using namespace std::chrono_literals;

namespace {

// Starts a process that runs the body, which says why it is not right, or nothing.
pid_t forked(std::string const& said, std::function<std::string()> const& body) {
  std::fflush(nullptr);
  pid_t const process = ::fork();
  if (process != 0) return process;
  std::string why;
  try {
    why = body();
  } catch (std::exception const& error) {
    why = error.what();
  }
  parallax_test::Interruptions::end();
  if (std::FILE* const file = std::fopen(said.c_str(), "w")) std::fputs(why.c_str(), file), std::fclose(file);
  ::_exit(why.empty() ? 0 : 1);
}
// Returns what the process has said; or how it ended.
std::string end_of(pid_t process, std::string const& said) {
  int status = 0;
  ::waitpid(process, &status, 0);
  if (status == 0) return {};
  if (WIFSIGNALED(status)) return "ended by " + std::string{::strsignal(WTERMSIG(status))};
  std::string text(1000, '\0');
  if (std::FILE* const file = std::fopen(said.c_str(), "r"))
    text.resize(std::fread(text.data(), 1, text.size(), file)), std::fclose(file);
  return text.empty() ? "failed without a word" : text;
}
std::string in_a_process(parallax_test::Scratch const& scratch, std::function<std::string()> const& body) {
  std::string const said = scratch.path("said");
  return end_of(forked(said, body), said);
}

}  // namespace

TEST_CASE("ranks that signals interrupt meet by a file, share memory and exchange, and leave nothing",
          "[comm][socket][interrupted]") {
  for (int const every : {2, 3, 5, 7, 11}) {
    parallax_test::Scratch const scratch;
    std::vector<pid_t> processes;
    for (int rank = 0; rank < 3; ++rank)
      processes.push_back(forked(scratch.path("said" + std::to_string(rank)), [&]() -> std::string {
        parallax_test::Interruptions const interruptions{every};
        px::SocketOptions options;
        options.address = "file:" + scratch.path("meet"), options.rank = rank, options.size = 3, options.deadline = 20s;
        options.meeting_deadline = 20s;
        px::SocketCommunicator comm{options};
        if (!comm.shares_memory(0, 1) || !comm.shares_memory(1, 2)) return "memory is not shared";
        for (int turn = 0; turn < 3; ++turn) parallax_conformance::exchange_ragged(comm, turn % 2, 7);
        return parallax_test::interrupted_calls > 5 ? "" : "hardly a call was interrupted";
      }));
    for (std::size_t rank = 0; rank < 3; ++rank) {
      INFO("every " << every << ", rank " << rank);
      CHECK(end_of(processes[rank], scratch.path("said" + std::to_string(rank))) == "");
    }
    struct ::stat status;
    CHECK(::stat(scratch.path("meet").c_str(), &status) != 0);
  }
}

TEST_CASE("memory without a name is made and found although a signal interrupts that", "[comm][memory][interrupted]") {
  for (int const every : {2, 3}) {
    parallax_test::Interruptions const interruptions{every};
    int lost = 0;
    for (int i = 0; i < 20; ++i) {
      auto const made = px::detail::NamelessFile::make(100);
      auto const found = made.memory ? px::detail::NamelessFile::find(made.place_of(made.memory)) : px::detail::NamelessFile{};
      lost += !made.memory + !found.memory;
      found.unmap(), made.unmap(), made.close();
    }
    CHECK(lost == 0);
    CHECK(parallax_test::interrupted_calls > 5);
  }
}

TEST_CASE("what a rank looks up about its host is found although a signal interrupts that", "[comm][socket][interrupted]") {
  px::detail::RankFacts right;
  px::detail::set_host(right);
  parallax_test::Scratch const scratch;
  std::filesystem::create_directories(scratch.path("proc/self"));
  std::filesystem::create_directories(scratch.path("sys/fs/cgroup"));
  std::ofstream{scratch.path("proc/self/cgroup")} << "0::/\n";
  std::ofstream{scratch.path("sys/fs/cgroup/cpu.max")} << "300000 100000\n";
  for (int const every : {2, 3}) {
    parallax_test::Interruptions const interruptions{every};
    int lost = 0;
    for (int i = 0; i < 20; ++i) {
      px::detail::RankFacts found;
      px::detail::set_host(found);
      lost += found.boot != right.boot;
      lost += px::detail::cores_by_quota(scratch.path("").c_str()) != 3;
    }
    CHECK(lost == 0);
    CHECK(parallax_test::interrupted_calls > 5);
  }
}

TEST_CASE("a key is read to its end although reads are short", "[comm][socket][interrupted]") {
  parallax_test::Scratch const scratch;
  std::string const path = scratch.path("key"), key(3000, 'k');
  std::FILE* const file = std::fopen(path.c_str(), "w");
  std::fputs(key.c_str(), file), std::fclose(file);
  ::chmod(path.c_str(), 0600);
  for (int const every : {2, 3, 5}) {
    parallax_test::Interruptions const interruptions{every};
    CHECK(px::detail::key_in_file(path) == key);
  }
}

TEST_CASE("a launcher that signals interrupt reads its file and passes on each line", "[comm][launch][interrupted]") {
  for (int const every : {2, 3, 5}) {
    parallax_test::Scratch const scratch;
    std::string const hosts = scratch.path("hosts"), out = scratch.path("out");
    std::FILE* const file = std::fopen(hosts.c_str(), "w");
    std::fputs("# three ranks of this host\nlocalhost slots=3\n", file), std::fclose(file);
    CHECK(in_a_process(scratch, [&]() -> std::string {
            std::freopen(out.c_str(), "w", stdout);
            parallax_test::Interruptions const interruptions{every};
            std::vector<std::string> const command{"/bin/sh", "-c", "for i in $(seq 500); do echo line $i of $RANK; done"};
            px::LaunchOptions options;
            options.all_speak = true;
            int const status = px::launch(px::read_resources(hosts), command, options);
            return status == 0 ? "" : "status " + std::to_string(status);
          }) == "");
    std::FILE* const read = std::fopen(out.c_str(), "r");
    int lines = 0;
    for (int c; (c = std::fgetc(read)) != EOF;) lines += c == '\n';
    std::fclose(read);
    CHECK(lines == 1500);
  }
}

TEST_CASE("a place of rank 0 and shared memory beyond the limit of files are refused, and no signal ends the process",
          "[comm][socket][limit]") {
  parallax_test::Scratch const scratch;
  auto const limited = [](rlim_t bytes) {
    ::rlimit const limit{bytes, bytes};
    return ::setrlimit(RLIMIT_FSIZE, &limit) == 0;
  };
  CHECK(in_a_process(scratch, [&]() -> std::string {
          if (!limited(10)) return "no limit";
          try {
            px::detail::PlaceFile const place{scratch.path("meet"), "more than ten bytes"};
          } catch (px::Error const& error) {
            return std::string_view{error.what()}.find("File too large") != std::string_view::npos ? "" : error.what();
          }
          return "it was written";
        }) == "");
  CHECK(in_a_process(scratch, [&]() -> std::string {
          if (!limited(100'000)) return "no limit";
          try {
            px::SharedSpace::deallocate(px::SharedSpace::allocate(1 << 20), 1 << 20);
          } catch (px::Error const& error) {
            return error.code() == px::Errc::out_of_memory ? "" : error.what();
          }
          return "it was had";
        }) == "");
}
