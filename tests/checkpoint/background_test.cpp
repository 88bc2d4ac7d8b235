// Saves behind the steps: of which step they are, what they cost the steps, and where what goes wrong is told. And signals.
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../interop/scratch.hpp"
#include "../support/size.hpp"
#include "catch.hpp"
#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace parallax_test {
namespace {

namespace px = parallax;

struct Trainer {
  explicit Trainer(px::ThreadCommunicator& world) : session{world} {}

  void step() {
    std::vector<std::int64_t> const ids{7 * session.rank() + session.steps() % 100, 5, 199};
    session.step(px::grad(words, ids, std::vector<float>(12, 0.25f)), px::grad(bias, std::vector<float>(1100, 0.5f)));
    ++count;
  }
  void train_to(std::int64_t steps) {
    while (session.steps() < steps) step();
  }
  // What a save is given.
  auto with(auto&& operation) {
    return operation(words, bias, px::shared_value("count", count), px::own_value("large", large));
  }
  px::Saved save_async(std::string const& folder, int keep = 0) {
    return with([&](auto&&... things) { return session.save_async(folder, {.keep = keep}, things...); });
  }
  px::Restored restore(std::string const& folder, std::int64_t generation = 0) {
    return with([&](auto&&... things) { return session.restore(folder, {.generation = generation}, things...); });
  }
  // Of this rank's rows and slots, of what all ranks have alike, and of the counts.
  std::uint64_t digest() {
    std::uint64_t sum = 0;
    auto const rows = words.local(), first = words.slot("m"), second = words.slot("v");
    for (std::int64_t i = 0; i < rows.rows; ++i)
      sum += (px::detail::checksum(rows.row(i), 16) + 3 * px::detail::checksum(first.row(i), 16) +
              5 * px::detail::checksum(second.row(i), 16)) *
             (2 * static_cast<std::uint64_t>(words.global_row(i)) + 1);
    return sum + px::detail::checksum(memory.data(), 4400) + static_cast<std::uint64_t>(1000 * count + session.steps());
  }

  px::Session<px::ThreadCommunicator> session;
  std::vector<float> memory = std::vector<float>(1100, 1.0f);
  px::Variable<px::Sparse, px::LazyAdam, px::Hash> words{session, "words", {200, 4, px::uniform(0, 1, 3)}};
  px::Variable<px::Dense, px::Momentum> bias{session, "bias", px::bind(memory)};
  int count = 0;
  std::vector<std::uint64_t> large;
};

// What an operation of a checkpoint says when it goes wrong; empty where it does not.
template <class Operation>
std::string told(Operation&& operation) {
  try {
    operation();
  } catch (px::Error const& error) {
    return error.code() == px::Errc::file ? error.what() : "not of a file: " + std::string{error.what()};
  }
  return {};
}

// While it lives, no file has more bytes.
struct SmallFiles {
  explicit SmallFiles(rlim_t bytes) {
    getrlimit(RLIMIT_FSIZE, &before);
    rlimit const now{bytes, before.rlim_max};
    setrlimit(RLIMIT_FSIZE, &now);
  }
  ~SmallFiles() { setrlimit(RLIMIT_FSIZE, &before); }
  rlimit before{};
};

}  // namespace

TEST_CASE("a save behind the steps is of the step after which it was called", "[checkpoint][background]") {
  unsigned const seed = std::random_device{}();
  std::printf("seed %u\n", seed);
  Scratch const scratch;
  std::string const folder = scratch.path("run");
  constexpr int ranks = 3;
  int const moments = sized(200, 200, 30);
  std::vector<std::array<std::uint64_t, ranks>> known(static_cast<std::size_t>(moments));
  std::array<int, ranks> right{};
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    auto const rank = static_cast<std::size_t>(world.rank());
    std::mt19937 random{seed};  // alike on all ranks
    Trainer trainer{world};
    for (std::int64_t saved = 0; saved < moments; ++saved) {
      for (auto more = random() % 5; more > 0; --more) trainer.step();
      known[static_cast<std::size_t>(saved)][rank] = trainer.digest();
      px::Saved const made = trainer.save_async(folder);
      if (made.step != trainer.session.steps() || made.generation != saved + 1) std::abort();
      trainer.step();
    }
    trainer.session.finish();
  });
  REQUIRE(px::detail::generations_in(folder).size() == static_cast<std::size_t>(moments));
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    auto const rank = static_cast<std::size_t>(world.rank());
    Trainer trainer{world};
    for (std::int64_t saved = 0; saved < moments; ++saved) {
      trainer.restore(folder, saved + 1);
      right[rank] += trainer.digest() == known[static_cast<std::size_t>(saved)][rank];
    }
    trainer.session.finish();
  });
  for (int const count : right) CHECK(count == moments);
}

TEST_CASE("steps beside a save send what they send alone", "[checkpoint][background]") {
  Scratch const scratch;
  std::array<std::array<std::uint64_t, 2>, 4> messages{};
  for (bool const saving : {false, true})
    px::run_threads(4, [&](px::ThreadCommunicator& world) {
      Trainer trainer{world};
      trainer.train_to(2);
      if (saving) trainer.save_async(scratch.path("run"));
      auto const before = trainer.session.traffic().messages;
      trainer.train_to(12);
      messages[static_cast<std::size_t>(world.rank())][saving] = trainer.session.traffic().messages - before;
      trainer.session.finish();
    });
  for (auto const& of_rank : messages) CHECK((of_rank[0] > 0 && of_rank[0] == of_rank[1]));
}

TEST_CASE("what goes wrong behind the steps is told after the next step, to all ranks alike", "[checkpoint][background]") {
  Scratch const scratch;
  std::string const folder = scratch.path("run");
  constexpr int ranks = 3;
  std::array<std::string, ranks> said;
  std::array<std::int64_t, ranks> at{};
  std::barrier together{ranks};
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    auto const rank = static_cast<std::size_t>(world.rank());
    Trainer trainer{world};
    trainer.with([&](auto&&... things) {
      px::Checkpoints every{trainer.session, folder, {.steps = 10, .keep = 2}, things...};
      while (trainer.session.steps() < 10) trainer.step(), every.step();
      together.arrive_and_wait();
      trainer.save_async(folder);  // ends the one of step 10
      if (rank == 1) trainer.large.resize(1 << 16);
      std::optional<SmallFiles> small;
      while (trainer.session.steps() < 29) {
        trainer.step();
        if (rank == 0 && trainer.session.steps() == 15) small.emplace(100'000u);
        if (trainer.session.steps() > 20 && said[rank].empty())
          std::this_thread::sleep_for(std::chrono::milliseconds{100});  // it is behind
        if (std::string const text = told([&] { every.step(); }); !text.empty()) {
          said[rank] += text + "; ", at[rank] = trainer.session.steps();
          together.arrive_and_wait();
          small.reset();
          together.arrive_and_wait();
        }
      }
      while (trainer.session.steps() < 40) trainer.step(), every.step();
    });
    trainer.session.finish();
  });
  for (std::string const& text : said) CHECK(text == said[0]);
  CHECK(said[0] == "parallax: file (rank 1) in save: " + folder +
                       "/generation-000003.part/shard-00001.safetensors.part: pwrite: File too large; ");
  for (std::int64_t const step : at) CHECK((step > 20 && step == at[0]));
  CHECK(px::detail::generations_in(folder) == std::vector<std::int64_t>{4, 3});
}

TEST_CASE("what goes wrong behind the steps is told by the next save, restore and finish", "[checkpoint][background]") {
  Scratch const scratch;
  std::string const folder = scratch.path("run");
  constexpr int ranks = 2;
  std::array<std::vector<std::string>, ranks> said;
  std::barrier together{ranks};
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    auto& mine = said[static_cast<std::size_t>(world.rank())];
    Trainer trainer{world};
    trainer.train_to(2);
    trainer.save_async(folder);
    mine.push_back(told([&] { trainer.session.finish(); }));
    if (world.rank() == 1) trainer.large.resize(1 << 16);
    std::optional<SmallFiles> small;
    if (world.rank() == 0) small.emplace(100'000u);
    together.arrive_and_wait();
    auto const twice = [&](auto&& then) {
      trainer.train_to(trainer.session.steps() + 1);
      trainer.save_async(folder);
      mine.push_back(told(then));
      mine.push_back(told([&] { trainer.session.finish(); }));
    };
    twice([&] { trainer.save_async(folder); });
    twice([&] { trainer.with([&](auto&&... things) { trainer.session.save(folder, {}, things...); }); });
    twice([&] { trainer.restore(folder); });
    twice([&] { trainer.session.finish(); });
    mine.push_back(told([&] { trainer.restore(folder); }));
    if (trainer.session.steps() != 2) mine.push_back("the first is not there");
    trainer.session.finish();
    together.arrive_and_wait();
  });
  std::string const wrong = "parallax: file (rank 1) in save: " + folder +
                            "/generation-000002.part/shard-00001.safetensors.part: pwrite: File too large";
  std::vector<std::string> const expected{"", wrong, "", wrong, "", wrong, "", wrong, "", ""};
  CHECK(said[0] == expected);
  CHECK(said[1] == expected);
  CHECK(px::detail::generations_in(folder) == std::vector<std::int64_t>{1});
}

TEST_CASE("a session that ends before its save does leaves the older generation, and nothing else",
          "[checkpoint][background]") {
  Scratch const scratch;
  std::string const folder = scratch.path("run");
  for (int time = 0; time < 20; ++time) {
    try {
      px::run_threads(2, [&](px::ThreadCommunicator& world) {
        Trainer trainer{world};
        trainer.train_to(2 + time);
        trainer.large.resize(1 << 16);
        trainer.save_async(folder, 1);
        if (time > 0 && world.rank() == time % 2) throw std::runtime_error{"the end"};
        if (time > 0) trainer.train_to(100);
        trainer.session.finish();
      });
    } catch (std::exception const&) {}
    auto const generations = px::detail::generations_in(folder);
    REQUIRE(generations.size() == 1);
    px::run_threads(2, [&](px::ThreadCommunicator& world) {
      Trainer trainer{world};
      if (trainer.restore(folder).generation != generations[0]) std::abort();
      trainer.session.finish();
    });
  }
}

namespace {

volatile sig_atomic_t handled = 0;

// Runs a child process that gets signals of the set. Returns how it ended, and which generations it left.
template <class Body>
std::pair<int, std::vector<std::int64_t>> run_with_signals(std::string const& folder, Body&& at_step,
                                                           px::Signals signals = true) {
  std::fflush(nullptr);
  pid_t const child = fork();
  if (child == 0) {
    signal(SIGTERM, SIG_DFL);  // Catch2 has handlers of its own
    signal(SIGINT, [](int) { handled = handled + 1; });
    std::atomic<bool> wrong = false;
    px::run_threads(3, [&](px::ThreadCommunicator& world) {
      Trainer trainer{world};
      trainer.with([&](auto&&... things) {
        px::Checkpoints every{trainer.session, folder, {.steps = 1000, .on_signals = signals}, things...};
        every.resume();
        while (trainer.session.steps() < 100 && !every.stopping()) {
          trainer.step();
          if (world.rank() == 1) at_step(trainer.session.steps());
          auto const saved = every.step();
          if (saved.has_value() != every.stopping() || (saved && saved->step != trainer.session.steps())) wrong = true;
        }
        if (every.stopping() && trainer.session.steps() > 31) wrong = true;
      });
      trainer.session.finish();
    });
    _exit(wrong ? 100 : handled);
  }
  int status = 0;
  waitpid(child, &status, 0);
  return {WIFSIGNALED(status) ? -WTERMSIG(status) : WEXITSTATUS(status), px::detail::generations_in(folder)};
}

}  // namespace

TEST_CASE("a signal saves after the next step, on all ranks, and goes to the handler that was there", "[checkpoint][signals]") {
  Scratch const scratch;
  std::string const folder = scratch.path("run");
  using Outcome = std::pair<int, std::vector<std::int64_t>>;
  auto const at_30 = [](std::vector<int> signals) {
    return [signals](std::int64_t step) {
      if (step == 30)
        for (int const signal : signals) raise(signal);
    };
  };
  CHECK(run_with_signals(folder, at_30({SIGTERM})) == Outcome{0, {1}});
  std::filesystem::remove_all(folder);
  CHECK(run_with_signals(folder, at_30({SIGINT})) == Outcome{1, {1}});
  std::filesystem::remove_all(folder);
  CHECK(run_with_signals(folder, at_30({SIGTERM, SIGTERM})) == Outcome{0, {1}});  // a launcher's, and a terminal's
  std::filesystem::remove_all(folder);
  CHECK(run_with_signals(folder, [](std::int64_t step) {
          if (step < 30) return;
          raise(SIGTERM);
          sleep(2);
          raise(SIGTERM);
        }) == Outcome{-SIGTERM, {}});
  std::filesystem::remove_all(folder);
  for (int const number : {SIGHUP, SIGUSR1, SIGUSR2, SIGXCPU}) {
    INFO("signal " << number);
    CHECK(run_with_signals(folder, at_30({number})) == Outcome{0, {1}});
    std::filesystem::remove_all(folder);
  }
  // One that warns ends nothing, and neither does the first of those that end.
  CHECK(run_with_signals(folder, [](std::int64_t step) {
          if (step != 30) return;
          raise(SIGUSR1);
          sleep(2);
          for (int const number : {SIGUSR1, SIGXCPU, SIGTERM}) raise(number);
        }) == Outcome{0, {1}});
  std::filesystem::remove_all(folder);
  // A list has those that it names.
  CHECK(run_with_signals(folder, at_30({SIGUSR2}), {SIGUSR2}) == Outcome{0, {1}});
  std::filesystem::remove_all(folder);
  CHECK(run_with_signals(folder, at_30({SIGUSR1}), {SIGUSR2}) == Outcome{-SIGUSR1, {}});
  CHECK(run_with_signals(folder, at_30({SIGTERM}), {SIGUSR2}) == Outcome{-SIGTERM, {}});
}

TEST_CASE("a signal that somebody else handles is left to him, unless it is named", "[checkpoint][signals]") {
  struct ::sigaction own {};
  own.sa_handler = [](int) {};
  struct ::sigaction before {};
  ::sigaction(SIGUSR1, &own, &before);
  {
    px::detail::SignalWatch const watch{true};
    raise(SIGUSR1);
    CHECK_FALSE(watch.seen());
    px::detail::SignalWatch const named{{SIGUSR1}};  // which the first one learns of, for they are one
    raise(SIGUSR1);
    CHECK(named.seen());
    CHECK(watch.seen());
  }
  struct ::sigaction after {};
  ::sigaction(SIGUSR1, &before, &after);
  CHECK(after.sa_handler == own.sa_handler);
  ::signal(SIGUSR1, SIG_IGN);  // as under nohup
  {
    px::detail::SignalWatch const watch{{SIGUSR1}};
    raise(SIGUSR1);
    CHECK_FALSE(watch.seen());
  }
  ::sigaction(SIGUSR1, &before, nullptr);
}

TEST_CASE("handlers are given back", "[checkpoint][signals]") {
  Scratch const scratch;
  struct ::sigaction before {
  }, after{};
  sigaction(SIGTERM, nullptr, &before);
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    Trainer trainer{world};
    trainer.with([&](auto&&... things) {
      px::Checkpoints const every{trainer.session, scratch.path("run"), {.steps = 1, .on_signals = true}, things...};
    });
    trainer.session.finish();
  });
  sigaction(SIGTERM, nullptr, &after);
  CHECK(before.sa_handler == after.sa_handler);
}

}  // namespace parallax_test
