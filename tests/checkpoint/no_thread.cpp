// A system that makes no more threads, or is slow: a caller that needs one says so by its name, and a save in the background is
// made at once. A slow rank's is made all the same.
#include "../support/failing_calls.hpp"

#include <chrono>
#include <filesystem>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "../interop/scratch.hpp"
#include "catch.hpp"
#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/comm/run.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"
#include "parallax/session/progress_thread.hpp"

namespace {
// So many threads are made from now on; negative: all. By ranks that are threads themselves: of this thread alone.
std::atomic<int> threads_left{-1};
thread_local bool none_by_this = false;

// As limits of a user or of a container (pids.max) have it.
int refuse_threads(parallax_test::SystemCall const& call) {
  if ((call.kinds & parallax_test::makes_thread) == 0) return 0;
  if (none_by_this || threads_left == 0) return EAGAIN;
  if (threads_left > 0) --threads_left;
  return 0;
}
[[maybe_unused]] bool const refuses = (parallax_test::call_judge = refuse_threads, true);
}  // namespace

namespace parallax_test {
namespace {

namespace px = parallax;

// Returns the Error of this call; fails where there is none.
template <class Call>
px::Error error_of(Call&& call) {
  try {
    call();
  } catch (px::Error const& error) {
    return error;
  }
  FAIL("nothing was thrown");
  throw;
}

TEST_CASE("a rank for which there is no thread is named, and those that have one do not wait for it",
          "[checkpoint][no_thread]") {
  std::atomic<int> begun{0};
  threads_left = 1;
  auto const error = error_of([&] {
    px::run_threads(4, [&](px::ThreadCommunicator& world) {
      ++begun;
      px::Session session{world};
      px::Variable<px::Sparse> words{session, "words", {.rows = 20, .width = 2}};
      [[maybe_unused]] auto const rows = session.pull(words, std::vector{1, 2});
    });
  });
  threads_left = -1;
  CHECK(error.code() == px::Errc::out_of_memory);
  CHECK(error.rank() == 2);
  CHECK(error.operation() == "run_threads");
  CHECK(error.detail().find("no thread can be made: Resource temporarily unavailable") == 0);
  CHECK(begun == 1);
}

TEST_CASE("a ProgressThread for which there is no thread says so, and the session goes on", "[checkpoint][no_thread]") {
  px::run_threads(1, [&](px::ThreadCommunicator& world) {
    px::Session session{world};
    px::Variable<px::Sparse> words{session, "words", {.rows = 20, .width = 2}};
    none_by_this = true;
    auto const error = error_of([&] { px::ProgressThread const helper{session}; });
    none_by_this = false;
    CHECK(error.code() == px::Errc::out_of_memory);
    CHECK(error.detail().find("no thread can be made") == 0);
    [[maybe_unused]] auto const rows = session.pull(words, std::vector{1, 2});
    session.finish();
  });
}

TEST_CASE("save_async writes at once where there is no thread, on some ranks or on all", "[checkpoint][no_thread]") {
  for (int const without : {0, 1, 2, 3}) {  // as bits: the ranks that have none
    Scratch const scratch;
    std::vector<float> restored(2);
    px::run_threads(2, [&](px::ThreadCommunicator& world) {
      auto const self = static_cast<std::size_t>(world.rank());
      px::Session session{world};
      px::Variable<px::Sparse> words{session, "words", {.rows = 20, .width = 2}};
      auto const step = [&] { session.step(px::grad(words, std::vector{1, 2}, std::vector<float>(4, 1.0f))); };
      step();
      auto const before = session.pull(words, std::vector{1})[0][0];
      none_by_this = (without >> world.rank() & 1) != 0;
      session.save_async(scratch.path("saves"), {}, words);
      none_by_this = false;
      step();
      session.finish();
      session.restore(scratch.path("saves"), {}, words);
      restored[self] = session.pull(words, std::vector{1})[0][0] - before;
      session.finish();
      if (world.journal().status().pause != 0) restored[self] = 7;
    });
    CAPTURE(without);
    CHECK(restored == std::vector<float>{0, 0});
  }
}

// The path of the generation that is being saved; and how often a marked thread has opened a folder.
std::string awaited;
std::atomic<int> opened_folders{0};

// Keeps a marked thread from opening a folder a second time until the generation has its name, within reason.
int open_late(SystemCall const& call) {
  if (!thread_mark || call.name != std::string_view{"open"} || (call.flags & O_DIRECTORY) == 0 || opened_folders++ == 0)
    return 0;
  for (int i = 0; i < 2000 && !std::filesystem::exists(awaited); ++i) std::this_thread::sleep_for(std::chrono::milliseconds{1});
  return 0;
}

TEST_CASE("rank 0 may name a generation as soon as it has heard of each file, however slow the other ranks are",
          "[checkpoint][no_thread]") {
  Scratch const scratch;
  awaited = scratch.path("saves") + "/generation-000001";
  call_judge = open_late;
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    px::Session session{world};
    px::Variable<px::Sparse> words{session, "words", {.rows = 20, .width = 2}};
    thread_mark = world.rank() == 1;
    session.save_async(scratch.path("saves"), {}, words);
    thread_mark = 0;
    session.finish();
  });
  call_judge = refuse_threads;
  CHECK(std::filesystem::exists(awaited));
  CHECK(opened_folders > 0);
}

}  // namespace
}  // namespace parallax_test
