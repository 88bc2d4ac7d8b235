// A process that may open no more files: the rank with the lack says so, by its cause, and leaves nothing behind.
#include <sys/resource.h>

#include <cerrno>
#include <filesystem>
#include <string>

#include "../catch.hpp"
#include "parallax/memory/shared.hpp"
#include "socket_job.hpp"

namespace px = parallax;
namespace detail = parallax::detail;
using namespace socket_job;

namespace {

// Lets this process open so many files more.
void leave_descriptors(int count) {
  int const first = ::dup(STDERR_FILENO);
  ::close(first);
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = static_cast<rlim_t>(first + count);
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// Returns the exit code of a process that does this.
int exit_code_of(std::function<int()> const& work) {
  pid_t const child = ::fork();
  if (child == 0) ::_exit(work());
  int status = -1;
  while (::waitpid(child, &status, 0) < 0) {}
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

bool has(char const* text, char const* words) { return std::string{text}.find(words) != std::string::npos; }

}  // namespace

// Clang's look at the type of an object opens a pipe, and takes any object for a wrong one where it cannot. And ThreadSanitizer does
// not see how libstdc++ counts the owners of an exception, which the resolver's thread hands over here.
#if defined(__has_feature)
#if __has_feature(undefined_behavior_sanitizer) || __has_feature(thread_sanitizer)
#define PARALLAX_LOOKS_NEED_DESCRIPTORS 1
#endif
#endif

TEST_CASE("a rank that may open too few files for its world names its limit, and all are told", "[comm][socket][descriptors]") {
  Job job{exchanging(8), {.deadline = 20s}, [](int rank) {
            if (rank == 1) leave_descriptors(7);
          }};
  for (int i = 0; i < Job::ranks; ++i) {
    Report const report = job.next();
    CAPTURE(report.rank, report.words);
    CHECK(report.code == static_cast<int>(px::Errc::transport));
    CHECK(report.blamed == 1);
    CHECK(has(report.words, "descriptors open (ulimit -n)"));
  }
}

TEST_CASE("a rank 0 that may open too few files says so before it leaves word", "[comm][socket][descriptors]") {
  std::string folder = "/tmp/parallax_descriptors_XXXXXX";
  REQUIRE(::mkdtemp(folder.data()));
  int const code = exit_code_of([&] {
    leave_descriptors(7);
    try {
      px::SocketCommunicator const comm{px::SocketOptions{.size = 3, .address = "file:" + folder + "/meet", .deadline = 5s}};
    } catch (px::Error const& error) {
      return error.code() == px::Errc::transport && error.rank() == 0 && has(error.what(), "ulimit -n") ? 0 : 2;
    }
    return 1;
  });
  CHECK(code == 0);
  CHECK(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
}

#if !PARALLAX_LOOKS_NEED_DESCRIPTORS
TEST_CASE("a name that no descriptor is left to look up is no name that nobody knows", "[comm][socket][descriptors]") {
  CHECK(exit_code_of([] {
          leave_descriptors(0);
          detail::NameLookUp look_up{{"localhost", "80"}};
          try {
            for (int i = 0; i < 1000; ++i)
              if (!look_up.look().empty()) return 1;
          } catch (px::Error const& error) {
            bool const right =
                error.code() == px::Errc::transport && has(error.what(), "look up localhost: Too many open files");
            return right ? 0 : 2;
          }
          return 3;
        }) == 0);
}
#endif

TEST_CASE("rank 0's file goes with it where nothing can be opened any more", "[comm][socket][descriptors]") {
  std::string folder = "/tmp/parallax_descriptors_XXXXXX";
  REQUIRE(::mkdtemp(folder.data()));
  CHECK(exit_code_of([&] {
          detail::PlaceFile const file{folder + "/meet", "px1/1/-/a/::1"};
          leave_descriptors(0);
          return 0;
        }) == 0);
  CHECK(std::filesystem::is_empty(folder));
  std::filesystem::remove_all(folder);
}

TEST_CASE("strangers that take all descriptors of a meeting make room for ranks", "[comm][socket][descriptors]") {
  px::SocketListener listener;
  px::SocketOptions options{.size = 2, .address = listener.address(), .key = "a key", .deadline = 20s};
  pid_t const first = ::fork();
  if (first == 0) {
    leave_descriptors(12);
    try {
      px::SocketCommunicator comm{std::move(listener), options};
      exchange(comm, 100);
    } catch (px::Error const& error) {
      ::_exit(static_cast<int>(error.code()));
    }
    ::_exit(0);
  }
  auto const addresses = detail::addresses_of(detail::split_address(options.address));
  std::vector<detail::OwnedDescriptor> strangers;
  for (int i = 0; i < 40; ++i) {
    strangers.emplace_back(::socket(addresses[0].storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
    CHECK(::connect(strangers.back().get(), addresses[0].native(), addresses[0].length) == 0);
  }
  options.rank = 1;
  std::optional<px::SocketCommunicator> comm{std::in_place, options};
  exchange(*comm, 100);
  comm.reset();
  int status = -1;
  REQUIRE(::waitpid(first, &status, 0) == first);
  CHECK(status == 0);
}

#if !PARALLAX_LOOKS_NEED_DESCRIPTORS
TEST_CASE("memory that processes share is refused by its cause", "[comm][socket][descriptors]") {
  px::SharedBuffer<float> shared(100);
  auto const place = detail::shared_blocks.place_of(shared.data());
  if (!place.id) PARALLAX_SKIP("processes share no memory here");
  CHECK(exit_code_of([&] {
          leave_descriptors(0);
          if (detail::NamelessFile::find(place).memory || errno != EMFILE) return 1;
          try {
            px::SharedBuffer<float> const more(100);
          } catch (px::Error const& error) {
            return error.code() == px::Errc::out_of_memory && has(error.what(), "Too many open files") ? 0 : 3;
          }
          return 2;
        }) == 0);
}
#endif
