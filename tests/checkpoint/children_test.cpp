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
#include "catch.hpp"
#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"
#include "parallax/session/progress_thread.hpp"

namespace parallax_test {
namespace {

namespace px = parallax;

// Returns what waitpid says of a child that does this, and then exits with 0. A child that hangs is ended by SIGALRM.
int status_of(std::function<void()> const& work) {
  pid_t const child = ::fork();
  if (child == 0) {
    ::alarm(20);
    work();
    ::_exit(0);
  }
  int status = -1;
  while (::waitpid(child, &status, 0) < 0) {}
  return status;
}

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

}  // namespace
}  // namespace parallax_test
