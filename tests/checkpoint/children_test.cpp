// A forked child of a rank that saves. Whatever it destroys, and however it ends, the rank's files, threads and signals stay as
// they are.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "../interop/scratch.hpp"
#include "../support/children.hpp"
#include "catch.hpp"
#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"
#include "parallax/session/progress_thread.hpp"

namespace parallax_test {
namespace {

namespace px = parallax;

TEST_CASE("a child removes no file that its parent is writing", "[checkpoint][child]") {
  Scratch const scratch;
  std::optional<px::NewFile> file{std::in_place, scratch.path("file"), 3};
  std::filesystem::create_directory(scratch.path("folder"));
  std::optional<px::detail::UnfinishedFolder> folder{scratch.path("folder")};
  CHECK(status_of([&] {
          auto moved = std::move(folder);
          folder.reset(), moved.reset(), file.reset();
        }) == 0);
  CHECK(std::filesystem::exists(scratch.path("folder")));
  file->write(0, std::as_bytes(std::span{"abc", 3}));
  file->finish();
  CHECK(std::filesystem::file_size(scratch.path("file")) == 3);
  folder.reset();
  CHECK(!std::filesystem::exists(scratch.path("folder")));
}

TEST_CASE("a child destroys a session whose threads save and let it progress", "[checkpoint][child]") {
  Scratch const scratch;
  std::vector<int> statuses(2);
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    std::optional<px::Session<px::ThreadCommunicator>> session{std::in_place, world};
    std::optional<px::Variable<px::Sparse>> words{std::in_place, *session, "words", px::Table{.rows = 200, .width = 4}};
    std::optional<px::ProgressThread<px::Session<px::ThreadCommunicator>>> helper{std::in_place, *session};
    session->step(px::grad(*words, std::vector{1, 2}, std::vector<float>(8, 1.0f)));
    auto const saved = session->save_async(scratch.path("saves"), {}, *words);
    statuses[static_cast<std::size_t>(world.rank())] = status_of([&] { helper.reset(), words.reset(), session.reset(); });
    session->step(px::grad(*words, std::vector{1, 2}, std::vector<float>(8, 1.0f)));
    session->finish();
    session->restore(scratch.path("saves"), {.generation = saved.generation}, *words);
    session->finish();
  });
  CHECK(statuses == std::vector{0, 0});
}

TEST_CASE("a child's first SIGTERM does what it did before its parent watched for it", "[checkpoint][child]") {
  auto* const before = ::signal(SIGTERM, SIG_DFL);  // which the test framework has taken
  std::optional<px::detail::SignalWatch> watch{std::in_place, px::Signals{true}};
  int const status = status_of([] { ::raise(SIGTERM); });
  CHECK((WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM));
  CHECK(!watch->seen());
  ::raise(SIGTERM);  // the parent's is still noted
  CHECK(watch->seen());
  watch.reset();
  ::signal(SIGTERM, before);
}

TEST_CASE("a signal to all of a group leaves a reader to the rank that still needs it", "[checkpoint][child]") {
  auto *const before = ::signal(SIGTERM, SIG_DFL), *const broken_pipe = ::signal(SIGPIPE, SIG_IGN);
  std::optional<px::detail::SignalWatch> watch{std::in_place, px::Signals{true}};
  enum class Sent { once, at_once, again_later, by_the_rank };
  // Returns what becomes of a reader that is sent signals, by a process beside it or by the rank, and then no more batches.
  auto const end_of = [](int signal, Sent sent) {
    int orders[2], batches[2];
    REQUIRE((::pipe(orders) == 0 && ::pipe(batches) == 0));
    pid_t const reader = ::fork();
    if (reader == 0) {
      ::alarm(20), ::close(orders[1]), ::close(batches[0]);
      for (char order; ::read(orders[0], &order, 1) == 1;)
        if (::write(batches[1], &order, 1) != 1) break;
      ::_exit(5);
    }
    ::close(orders[0]), ::close(batches[1]);
    auto const serves = [&] {
      char order = 1;
      return ::write(orders[1], &order, 1) == 1 && ::read(batches[0], &order, 1) == 1;
    };
    bool served = serves();  // it is there
    if (sent == Sent::by_the_rank) ::kill(reader, signal);
    else
      REQUIRE(status_of([&] {
                for (int times = sent == Sent::once ? 1 : 2; times > 0; --times) {
                  ::kill(reader, signal);
                  if (times == 2 && sent == Sent::again_later) ::usleep(1'200'000);
                }
              }) == 0);
    if (sent == Sent::once || sent == Sent::at_once) served = served && serves();
    ::close(orders[1]);
    int status = -1;
    while (::waitpid(reader, &status, 0) < 0) {}
    ::close(batches[0]);
    return served ? WIFSIGNALED(status) ? WTERMSIG(status) : 1000 + WEXITSTATUS(status) : -1;
  };
  CHECK(end_of(SIGTERM, Sent::once) == 1005);
  CHECK(end_of(SIGTERM, Sent::at_once) == 1005);  // launchers send on the one of a terminal
  CHECK(end_of(SIGUSR1, Sent::at_once) == 1005);
  CHECK(end_of(SIGTERM, Sent::again_later) == SIGTERM);
  CHECK(end_of(SIGTERM, Sent::by_the_rank) == SIGTERM);  // as a pool of readers is ended
  CHECK(end_of(SIGUSR1, Sent::by_the_rank) == SIGUSR1);
  CHECK(!watch->seen());
  watch.reset();
  ::signal(SIGTERM, before), ::signal(SIGPIPE, broken_pipe);
}

}  // namespace
}  // namespace parallax_test
