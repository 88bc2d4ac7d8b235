// Two versions in one process, each in a library that was loaded for itself, and what the process has one of; and two versions in
// one job. THIS and NEXT are the files of the libraries.
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "../support/children.hpp"
#include "load.hpp"

namespace {

Part const& this_part() { return loaded(THIS, "this_part", RTLD_LOCAL); }
Part const& next_part() { return loaded(NEXT, "next_part", RTLD_LOCAL); }

int by_user = 0;
void count(int) { ++by_user; }

// In a child.
void must(bool holds) {
  if (!holds) ::_exit(1);
}
// Returns the end of a child, in which Catch2 handles no SIGTERM.
int status_of(std::function<void()> const& work) {
  return parallax_test::status_of([&] {
    ::signal(SIGTERM, SIG_DFL);
    work();
  });
}
bool is_by_sigterm(int status) { return WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM; }

// Every action of the process.
std::vector<void*> handlers() {
  std::vector<void*> all;
  for (int number = 1; number < 32; ++number) {
    struct ::sigaction action {};
    ::sigaction(number, nullptr, &action);
    all.push_back(reinterpret_cast<void*>(action.sa_handler));
  }
  return all;
}

// A folder that goes with the test case.
struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("parallax_versions." + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directory(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

// Returns the words of each rank of a job of two processes: rank 0 has the one version, and rank 1 the other.
std::array<std::string, 2> said_by(std::array<Part const*, 2> const& parts, bool apart) {
  Folder const folder;
  std::array<std::array<int, 2>, 2> pipes{};
  std::array<pid_t, 2> ranks{};
  for (std::size_t rank = 0; rank < 2; ++rank) {
    REQUIRE(::pipe(pipes[rank].data()) == 0);
    ranks[rank] = ::fork();
    if (ranks[rank] != 0) continue;
    ::alarm(60);
    std::string const said = parts[rank]->join(static_cast<int>(rank), "file:" + (folder.path / "address").string(), apart);
    ::_exit(::write(pipes[rank][1], said.data(), said.size()) < 0);
  }
  std::array<std::string, 2> said;
  for (std::size_t rank = 0; rank < 2; ++rank) {
    ::close(pipes[rank][1]);
    std::array<char, 2000> text;
    auto const bytes = ::read(pipes[rank][0], text.data(), text.size());
    if (bytes > 0) said[rank].assign(text.data(), static_cast<std::size_t>(bytes));
    ::close(pipes[rank][0]);
    ::waitpid(ranks[rank], nullptr, 0);
  }
  return said;
}

}  // namespace

TEST_CASE("trainings of two versions leave the process's handlers as they were") {
  this_part(), next_part();  // MPI has handlers of its own
  auto const terminate = std::get_terminate();
  auto const before = handlers();
  CHECK(this_part().train().starts_with("parallax 0."));
  CHECK(next_part().train().starts_with("parallax 0."));
  CHECK(this_part().train() != next_part().train());
  CHECK(std::get_terminate() == terminate);
  CHECK(handlers() == before);
}

TEST_CASE("a signal is seen by the watches of two versions, and by the program's handler once") {
  for (bool const turned : {false, true}) {
    auto const& one = turned ? next_part() : this_part();
    auto const& other = turned ? this_part() : next_part();
    CHECK(status_of([&] {
            ::signal(SIGTERM, count);
            void* const first = one.watch();
            void* const second = other.watch();
            ::raise(SIGTERM);
            must(one.seen(first) && other.seen(second) && by_user == 1);
          }) == 0);
  }
}

TEST_CASE("of signals that are warnings, the second version leaves the first its own") {
  CHECK(status_of([] {
          void* const first = this_part().watch();
          void* const second = next_part().watch();
          ::raise(SIGUSR1);
          must(this_part().seen(first) && !next_part().seen(second));
          this_part().unwatch(first);
          void* const third = next_part().watch();
          ::raise(SIGUSR1);
          must(next_part().seen(third));
        }) == 0);
}

TEST_CASE("watches of two versions may end in any order, and no signal is swallowed then") {
  auto const& one = this_part();
  auto const& other = next_part();
  for (bool const in_order : {true, false}) {
    CHECK(is_by_sigterm(status_of([&] {
      void* const first = one.watch();
      void* const second = other.watch();
      if (in_order) one.unwatch(first), other.unwatch(second);
      else other.unwatch(second), one.unwatch(first);
      ::raise(SIGTERM);
    })));
  }
  // As long as one watches, the end of the other's watch changes nothing.
  CHECK(status_of([&] {
          void* const first = one.watch();
          void* const second = other.watch();
          one.unwatch(first);
          ::raise(SIGTERM);
          must(other.seen(second));
        }) == 0);
  CHECK(status_of([&] {
          ::signal(SIGTERM, count);
          void* const first = one.watch();
          void* const second = other.watch();
          one.unwatch(first), other.unwatch(second);
          ::raise(SIGTERM);
          ::raise(SIGTERM);
          must(by_user == 2);
        }) == 0);
}

TEST_CASE("a watch that begins again under another version's sees signals once") {
  auto const& one = this_part();
  auto const& other = next_part();
  CHECK(status_of([&] {
          ::signal(SIGTERM, count);
          void* const first = one.watch();
          void* const second = other.watch();
          one.unwatch(first);
          void* const again = one.watch();
          must(!one.seen(again));
          ::raise(SIGTERM);
          must(one.seen(again) && other.seen(second) && by_user == 1);
          other.unwatch(second), one.unwatch(again);
          ::raise(SIGTERM);
          must(by_user == 2);
        }) == 0);
}

TEST_CASE("a further SIGTERM ends a process that two versions watch") {
  CHECK(is_by_sigterm(status_of([] {
    this_part().watch();
    next_part().watch();
    ::raise(SIGTERM);
    ::usleep(1'100'000);
    ::raise(SIGTERM);
  })));
}

TEST_CASE("each version tells a forked child that it has no part in the training") {
  for (int turn = 0; turn < 2; ++turn)
    for (Part const* part : {&this_part(), &next_part()})
      CHECK_THAT(part->fork_and_use(), parallax_test::contains("this process is a child that rank 0 has forked"));
}

TEST_CASE("a folder in which one version saves is kept from the other") {
  Folder const folder;
  CHECK(next_part().lock(folder.path) == "");
  CHECK_THAT(this_part().lock(folder.path),
             parallax_test::contains("another job saves here: process " + std::to_string(::getpid())));
}

TEST_CASE("the launcher's socket is of the version that joins first") {
  std::array<int, 2> ends;
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends.data()) == 0);
  REQUIRE(::shutdown(ends[1], SHUT_WR) == 0);  // a launcher that hears all and says nothing
  CHECK(
      status_of([&] {
        ::setenv("PMI_FD", std::to_string(ends[0]).c_str(), 1);
        ::setenv("PMI_RANK", "0", 1), ::setenv("PMI_SIZE", "2", 1);
        std::array<char, 200> heard;
        must(this_part().join(0, "", false).find("asked its launcher by PMI for 'init', which hangs up") != std::string::npos);
        must(::recv(ends[1], heard.data(), heard.size(), 0) > 0);
        must(next_part().join(0, "", false).find("is taken: the first parallax of a process joins by it") != std::string::npos);
        must(::recv(ends[1], heard.data(), heard.size(), MSG_DONTWAIT) < 0);
      }) == 0);
  ::close(ends[0]), ::close(ends[1]);
}

TEST_CASE("ranks of two versions in one job are told so, and both end") {
  auto const& one = this_part();
  auto const& other = next_part();
  for (bool const apart : {false, true}) {
    auto const alike = said_by({&one, &one}, apart);
    CHECK(alike[0] == alike[1]);
    CHECK(!alike[0].empty());
    CHECK(alike[0].find_first_not_of("0123456789") == std::string::npos);
    auto const mixed = said_by({&one, &other}, apart);
    for (auto const& said : mixed) {
      CAPTURE(apart);
      CHECK_THAT(said, parallax_test::contains("rank 1 has «parallax " NEXT_VERSION "»"));
      CHECK_THAT(said, parallax_test::contains("«parallax " THIS_VERSION "»"));
    }
  }
}
