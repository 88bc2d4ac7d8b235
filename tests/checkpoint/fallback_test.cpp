// Restores that go back where files are damaged, files that are no generation, and the one job that saves in a folder.
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "../interop/scratch.hpp"
#include "../support/size.hpp"
#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;
using parallax_test::Scratch;

namespace {

using World = px::ThreadCommunicator;

// A session of a table whose rows all have the number of its steps, a layer, and values of both kinds.
struct Trainer {
  explicit Trainer(World& world) : session{world} {}

  void step() {
    std::vector<int> ids(40);
    for (int i = 0; i < 40; ++i) ids[static_cast<std::size_t>(i)] = i;
    bool const first = session.rank() == 0;
    session.step(px::grad(words, std::span{ids}.first(first ? 40u : 0u), std::vector<float>(first ? 80 : 0, 1.0f)),
                 px::grad(layer, std::vector<float>(7, first ? 1.0f : 0.0f)));
    ++epoch, mine += session.rank() + 1;
  }
  template <class F>
  auto with_all(F&& f) {
    return f(words, layer, px::shared_value("epoch", epoch), px::own_value("mine", mine));
  }
  px::Saved save(std::string const& folder, px::SaveOptions options = {.block_bytes = 64}) {
    return with_all([&](auto&&... things) { return session.save(folder, options, things...); });
  }
  px::Restored restore(std::string const& folder, px::RestoreOptions const& options) {
    return with_all([&](auto&&... things) { return session.restore(folder, options, things...); });
  }
  // Returns the number of steps that every value says; -1 where they do not agree.
  std::int64_t at() {
    auto const steps = session.steps();
    bool right = epoch == steps && mine == steps * (session.rank() + 1);
    for (float const value : memory) right = right && value == static_cast<float>(steps);
    auto const rows = words.local();
    for (std::int64_t i = 0; i < rows.rows * rows.width; ++i) right = right && rows.data[i] == static_cast<float>(steps);
    return right ? steps : -1;
  }

  px::Session<World> session;
  std::vector<float> memory = std::vector<float>(7);
  px::Sgd count{.learning_rate = -1};
  px::Variable<px::Sparse, px::Hash> words{session, "words", {.rows = 40, .width = 2}, count, px::Reduce::sum};
  px::Variable<px::Dense> layer{session, "layer", px::bind(memory), count, px::Reduce::sum};
  std::int64_t epoch = 0, mine = 0;
};

// Returns the first words of any rank; "" where all are content.
std::string on_ranks(int ranks, std::function<std::string(World&)> const& body) {
  std::vector<std::string> told(static_cast<std::size_t>(ranks));
  try {
    px::run_threads(ranks, [&](World& world) { told[static_cast<std::size_t>(world.rank())] = body(world); },
                    {.deadline = std::chrono::seconds{20}});
  } catch (std::exception const& error) {
    return error.what();
  }
  for (std::string const& one : told)
    if (!one.empty()) return one;
  return {};
}

// Generations 1, 2 and 3 of two ranks, of steps 1, 2 and 3.
struct Run : Scratch {
  Run() {
    REQUIRE(on_ranks(2, [&](World& world) {
              Trainer trainer{world};
              for (int i = 0; i < 3; ++i) trainer.step(), trainer.save(folder);
              trainer.session.finish();
              return std::string{};
            }) == "");
  }
  std::string file(int generation, std::string const& name) const {
    return folder + "/generation-00000" + std::to_string(generation) + "/" + name;
  }
  std::string folder = path("run");
};

void flip(std::string const& path, std::uint64_t at) {
  std::fstream file{path, std::ios::in | std::ios::out | std::ios::binary};
  file.seekg(static_cast<std::streamoff>(at));
  int const was = file.get();
  file.seekp(static_cast<std::streamoff>(at));
  file.put(static_cast<char>(was ^ 4));
}

// Restores on so many ranks, which then train on. Returns the step, and how many generations were passed over; or the error,
// after which the session has what it had, and trains on as well.
std::string restored(int ranks, std::string const& folder, px::RestoreOptions const& options) {
  std::string text;
  std::string const wrong = on_ranks(ranks, [&](World& world) {
    Trainer trainer{world};
    trainer.step();
    std::string mine;
    try {
      px::Restored const was = trainer.restore(folder, options);
      mine = "step " + std::to_string(was.step) + ", past " + std::to_string(was.passed_over.size());
      for (auto const& why : was.passed_over) mine += "\n" + why;
      bool const as_many = ranks == 2;
      if (!as_many) trainer.mine = was.step * (world.rank() + 1);
      if (trainer.at() != was.step) return std::string{"values are not as of that step"};
    } catch (px::Error const& error) {
      mine = error.what();
      if (trainer.at() != 1) return "something has changed: " + mine;
    }
    trainer.step();
    if (trainer.at() != trainer.session.steps()) return "it does not go on: " + mine;
    if (world.rank() == 0) text = mine;
    trainer.session.finish();
    return std::string{};
  });
  return wrong.empty() ? text : wrong;
}

}  // namespace

TEST_CASE("a restore falls back to the newest generation that is whole, if asked", "[checkpoint][fallback]") {
  px::RestoreOptions const whole{.whole = true};
  for (int const ranks : {1, 2, 3}) {
    CAPTURE(ranks);
    Run const run;
    CHECK(restored(ranks, run.folder, whole) == "step 3, past 0");
    std::string const shard = run.file(3, "shard-00001.safetensors");
    std::uint64_t const end = std::filesystem::file_size(shard);
    flip(shard, end - 1);
    std::string const past = restored(ranks, run.folder, whole);
    CHECK(past.find("step 2, past 1\n" + shard + ": tensor '") == 0);
    CHECK(past.find("they are damaged") != std::string::npos);
    CHECK(restored(ranks, run.folder, {.generation = 3, .whole = true}).find("parallax: file (rank ") == 0);
    CHECK(restored(ranks, run.folder, {.generation = 2, .whole = true}) == "step 2, past 0");
    flip(run.file(2, "manifest.safetensors"), 900);
    std::string const further = restored(ranks, run.folder, whole);
    CHECK(further.find("step 1, past 2\n" + shard) == 0);
    CHECK(further.find("\n" + run.file(2, "manifest.safetensors")) != std::string::npos);
    std::filesystem::remove(run.file(1, "shard-00000.safetensors"));
    CHECK(restored(ranks, run.folder, whole).find("it has no complete generation of a checkpoint") != std::string::npos);
    flip(shard, end - 1);  // as it was
    CHECK(restored(ranks, run.folder, whole) == "step 3, past 0");
  }
}

TEST_CASE("any bit of the newest generation may turn: what is restored is whole", "[checkpoint][fallback]") {
  char const* const given = std::getenv("PARALLAX_SEED");
  std::uint64_t const seed = given ? std::strtoull(given, nullptr, 10) : std::random_device{}();
  std::printf("seed %llu\n", static_cast<unsigned long long>(seed));
  std::mt19937_64 random{seed};
  Run const run;
  int past = 0;
  for (int turn = 0; turn < parallax_test::sized(10, 40, 2000); ++turn) {
    std::string const path = run.file(3, std::vector<std::string>{"manifest.safetensors", "shard-00000.safetensors",
                                                                  "shard-00001.safetensors"}[random() % 3]);
    std::uint64_t const at = random() % std::filesystem::file_size(path);
    CAPTURE(turn, path, at, seed);
    flip(path, at);
    std::string const was = restored(1 + static_cast<int>(random() % 3), run.folder, {.whole = true});
    CHECK(
        (was == "step 3, past 0" || was.find("step 2, past 1\n" + path + ": ") == 0 || was.find("is of version ") != was.npos));
    past += was.find("step 2") == 0;
    flip(path, at);
  }
  CHECK(past > 3);
}

TEST_CASE("Checkpoints resume from a whole generation, and say what they passed over", "[checkpoint][fallback]") {
  Run const run;
  flip(run.file(3, "shard-00000.safetensors"), std::filesystem::file_size(run.file(3, "shard-00000.safetensors")) - 1);
  CHECK(on_ranks(2, [&](World& world) {
          Trainer trainer{world};
          return trainer.with_all([&](auto&&... things) {
            px::Checkpoints every{trainer.session, run.folder, {.steps = 1, .background = false}, things...};
            auto const was = every.resume({.whole = true});
            if (!was || was->step != 2 || was->passed_over.size() != 1 || trainer.at() != 2) return std::string{"other values"};
            trainer.step();
            auto const saved = every.step();
            if (!saved || saved->generation != 4 || saved->step != 3) return std::string{"the next one is another"};
            trainer.session.finish();
            return std::string{};
          });
        }) == "");
}

TEST_CASE("keep_for alone removes what is old, behind the steps as well", "[checkpoint][fallback]") {
  for (bool const background : {false, true}) {
    CAPTURE(background);
    Run const run;
    auto const old = std::filesystem::file_time_type::clock::now() - std::chrono::hours{2};
    for (int const number : {1, 2}) std::filesystem::last_write_time(run.file(number, "manifest.safetensors"), old);
    CHECK(on_ranks(2, [&](World& world) {
            Trainer trainer{world};
            return trainer.with_all([&](auto&&... things) {
              px::Every const often{.steps = 1, .keep = 0, .keep_for = 3600, .background = background};
              px::Checkpoints every{trainer.session, run.folder, often, things...};
              every.resume();
              trainer.step();
              every.step();
              trainer.session.finish();
              return std::string{};
            });
          }) == "");
    std::vector<std::string> left;
    for (auto const& entry : std::filesystem::directory_iterator{run.folder})
      if (entry.is_directory()) left.push_back(entry.path().filename().string());
    std::sort(left.begin(), left.end());
    CHECK(left == std::vector<std::string>{"generation-000003", "generation-000004"});
  }
}

TEST_CASE("a file that is called like a generation is none, and stands in no one's way", "[checkpoint][fallback]") {
  for (int const ranks : {1, 2}) {
    Run const run;
    std::ofstream{run.folder + "/generation-000099"} << "notes";
    std::filesystem::create_symlink("nowhere", run.folder + "/generation-000100");
    CHECK(restored(ranks, run.folder, {}) == "step 3, past 0");
    std::int64_t made = 0;
    CHECK(on_ranks(ranks, [&](World& world) {
            Trainer trainer{world};
            trainer.restore(run.folder, {});
            trainer.mine = trainer.session.steps() * (world.rank() + 1);
            trainer.step();
            auto const saved = trainer.save(run.folder, {.keep = 2});
            if (world.rank() == 0) made = saved.generation;
            trainer.session.finish();
            return std::string{};
          }) == "");
    CHECK(made == 101);
    CHECK(restored(ranks, run.folder, {}) == "step 4, past 0");
    CHECK(std::filesystem::exists(run.folder + "/generation-000099"));
    CHECK_FALSE(std::filesystem::exists(run.folder + "/generation-000002"));
    std::string const empty = run.path("empty");
    std::filesystem::create_directory(empty);
    std::ofstream{empty + "/generation-000001"} << "notes";
    CHECK(on_ranks(ranks, [&](World& world) {
            Trainer trainer{world};
            return trainer.with_all([&](auto&&... things) {
              px::Checkpoints every{trainer.session, empty, {.steps = 1}, things...};
              bool const first = !every.resume();
              trainer.session.finish();
              return std::string{first ? "" : "there was something to resume"};
            });
          }) == "");
  }
}

TEST_CASE("a second job that saves in a folder is told who does", "[checkpoint][fallback]") {
  Scratch const scratch;
  std::string const folder = scratch.path("run");
  auto const attempt = [&](std::string const& by, int ranks = 2) {  // what its save is told, after which it trains on
    std::string text;
    std::string const wrong = on_ranks(ranks, [&](World& world) {
      Trainer trainer{world};
      trainer.step();
      std::string mine = "saved";
      try {
        trainer.save(by);
      } catch (px::Error const& error) {
        mine = error.code() == px::Errc::file ? error.what() : "another code";
      }
      trainer.step();
      if (trainer.at() != 2) return std::string{"it does not go on"};
      if (world.rank() == 0) text = mine;
      trainer.session.finish();
      return std::string{};
    });
    return wrong.empty() ? text : wrong;
  };
  CHECK(attempt(folder) == "saved");
  CHECK(attempt(folder) == "saved");  // the first one has ended
  int made[2], go[2];
  REQUIRE((::pipe(made) == 0 && ::pipe(go) == 0));
  pid_t const child = ::fork();
  if (child == 0) {  // another job, of one rank, which is killed while it has the folder
    px::SelfCommunicator self;
    px::Session session{self};
    px::Variable<px::Sparse> table{session, "table", {.rows = 3, .width = 1}};
    session.save(folder, {}, table);
    char byte = 1;
    static_cast<void>(!::write(made[1], &byte, 1));
    static_cast<void>(!::read(go[0], &byte, 1));
    ::_exit(1);
  }
  char byte = 0;
  REQUIRE(::read(made[0], &byte, 1) == 1);
  std::string const told = attempt(folder);
  CHECK(told.find("parallax: file (rank 0) in save: " + folder + ": another job saves here: process " + std::to_string(child) +
                  " on host ") == 0);
  CHECK(told.find(" UTC; in a folder one saves at a time") != std::string::npos);
  CHECK(std::filesystem::exists(folder + "/generation-000003"));
  CHECK_FALSE(std::filesystem::exists(folder + "/generation-000004"));
  CHECK(attempt(scratch.path("other")) == "saved");
  CHECK(restored(1, folder, {.generation = 1}) == "step 1, past 0");  // who reads needs no lock
  ::kill(child, SIGKILL);
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(attempt(folder) == "saved");  // what a killed job leaves is in nobody's way
  std::string const precious = scratch.write("precious", "precious"), trap = scratch.path("trap");
  std::filesystem::create_directory(trap);
  std::filesystem::create_symlink(precious, trap + "/checkpoint.lock");
  CHECK(attempt(trap).find(trap + "/checkpoint.lock: open: ") != std::string::npos);  // a link is not followed
  CHECK(std::filesystem::file_size(precious) == 8);
  // Two folders of one session, and one folder by two names.
  CHECK(on_ranks(2, [&](World& world) {
          Trainer trainer{world};
          trainer.step();
          trainer.save(folder), trainer.save(folder + "/."), trainer.save(scratch.path("other")), trainer.save(folder);
          trainer.session.finish();
          return std::string{};
        }) == "");
}

TEST_CASE("a record of completion that cannot be written says which call failed and why", "[checkpoint][fallback]") {
  Scratch const scratch;
  px::Completion const completion{0, {}};
  auto const told = [&](std::string const& path) {
    try {
      completion.save(path);
    } catch (px::Error const& error) {
      return error.detail();
    }
    return std::string{"written"};
  };
  std::string const folder = scratch.path("folder");
  std::filesystem::create_directory(folder);
  CHECK(told(folder) == "the record of completion cannot be written to " + folder + ": rename: Is a directory");
  CHECK_FALSE(std::filesystem::exists(folder + ".part"));
  std::string const nowhere = scratch.path("none") + "/record";
  CHECK(told(nowhere) == "the record of completion cannot be written to " + nowhere + ": open: No such file or directory");
  CHECK(told("/dev/full/x").find(": open: Not a directory") != std::string::npos);
  CHECK(told(scratch.path("record")) == "written");
  CHECK_FALSE(std::filesystem::exists(scratch.path("record.part")));
}
