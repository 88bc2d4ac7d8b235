// Every allocation of a save and of a restore fails once, on one rank of two: all ranks are told, files stay whole, and the session
// goes on or says that it cannot.
#include <barrier>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "../interop/scratch.hpp"
#include "../support/allocation_counter.hpp"
#include "../support/size.hpp"
#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;
using namespace parallax_test;

namespace {

struct Trainer {
  explicit Trainer(px::ThreadCommunicator& world) : session{world} {}

  void step() {
    std::vector<int> const ids{3 * session.rank(), 5, 39};
    session.step(px::grad(words, ids, std::vector<float>(3, 0.25f)), px::grad(bias, std::vector<float>(5, 0.5f)));
    ++epoch;
  }
  px::Saved save(std::string const& folder) {
    return session.save(folder, {.keep = 2, .block_bytes = 64}, words, bias, px::shared_value("epoch", epoch),
                        px::shared_value("note", note), px::own_value("mine", mine));
  }
  px::Restored restore(std::string const& folder) {
    return session.restore(folder, {}, words, bias, px::shared_value("epoch", epoch), px::shared_value("note", note),
                           px::own_value("mine", mine));
  }
  // Each of this rank's numbers, exactly.
  std::string seen() {
    std::string text = std::to_string(session.steps()) + " " + std::to_string(epoch) + note;
    for (auto const& rows : {words.local(), words.slot("sum")})
      for (std::int64_t i = 0; i < rows.rows; ++i) text.append(reinterpret_cast<char const*>(rows.row(i)), 4);
    text.append(reinterpret_cast<char const*>(memory.data()), 20);
    for (double const value : mine) text += " " + std::to_string(value);
    return text;
  }

  px::Session<px::ThreadCommunicator> session;
  std::vector<float> memory = std::vector<float>(5, 1.0f);
  px::Variable<px::Sparse, px::Adagrad, px::Hash> words{session, "words", {40, 1, px::uniform(0, 1, 3)}};
  px::Variable<px::Dense, px::Sgd> bias{session, "bias", px::bind(memory)};
  int epoch = 0;
  std::string note = "a text that is longer than fifteen letters";
  std::vector<double> mine = std::vector<double>(20, static_cast<double>(session.rank()));
};

// What one rank was told by an operation, and by the same one again.
struct Seen {
  bool happened = false, changed = false;
  std::string first, again;  // "" where all is well
  px::Errc code{};
  bool poisoned = false;  // the session has ended
  std::string state;
};

std::vector<Seen> run(std::string const& folder, bool restores, int culprit, std::int64_t k) {
  std::vector<Seen> seen(2);
  std::barrier meeting{2};
  auto const rank_does = [&](px::ThreadCommunicator& world) {
    Seen& mine = seen[static_cast<std::size_t>(world.rank())];
    Trainer trainer{world};
    trainer.step();
    std::string const before = trainer.seen();
    meeting.arrive_and_wait();  // else the one has ended the session before the other has come so far
    {
      FailingAllocation failing{world.rank() == culprit ? k : -1};
      try {
        if (restores) trainer.restore(folder);
        else trainer.save(folder);
      } catch (px::Error const& error) {
        std::int64_t const left = failing_new;
        failing_new = -1;
        mine.code = error.code(), mine.first = error.what();
        failing_new = left;
      }
      mine.happened = world.rank() == culprit && k >= 0 && failing.happened();
    }
    try {
      mine.changed = trainer.seen() != before;
      if (k >= 0 && restores) trainer.restore(folder);
      else if (k >= 0) trainer.save(folder);
      trainer.session.finish();
    } catch (px::Error const& error) {
      mine.again = error.what(), mine.poisoned = true;
    }
    if (!mine.poisoned) mine.state = trainer.seen();
  };
  px::run_threads(2, rank_does, {.deadline = std::chrono::seconds{10}});
  return seen;
}

// Of each allocation that fails, from the first on.
void check(bool restores, int culprit) {
  Scratch const scratch;
  std::string const good = scratch.path("good");
  run(good, false, -1, -1);
  auto const undisturbed = run(good, restores, -1, -1);
  long refused = 0, ended = 0, unnoticed = 0;
  for (std::int64_t k = 0;; k += sized(7, 1, 1)) {
    REQUIRE(k < 5000);
    std::string const folder = restores ? good : scratch.path("run" + std::to_string(k));
    if (!restores) std::filesystem::copy(good, folder, std::filesystem::copy_options::recursive);
    auto const seen = run(folder, restores, culprit, k);
    Seen const& one = seen[static_cast<std::size_t>(culprit)];
    INFO("allocation " << k << (restores ? " of a restore" : " of a save") << " on rank " << culprit << ": " << seen[0].first
                       << " / " << seen[0].again << " | " << seen[1].first << " / " << seen[1].again);
    if (!one.happened) break;
    bool const over = one.poisoned || seen[static_cast<std::size_t>(1 - culprit)].poisoned;
    ++(over ? ended : one.first.empty() ? unnoticed : refused);
    if (!one.first.empty()) CHECK(one.code == px::Errc::out_of_memory);
    for (Seen const& each : seen) {
      if (over) {  // the one may have ended before the other could be told
        CHECK((each.first == one.first || each.again == one.first || each.poisoned));
        CHECK_FALSE((each.first.empty() && each.again.empty()));
      } else {
        CHECK(each.first == one.first);
        CHECK(each.again.empty());
        if (!each.first.empty()) CHECK_FALSE(each.changed);
        CHECK(each.state == undisturbed[static_cast<std::size_t>(&each - seen.data())].state);
      }
    }
    // Whoever comes afterwards finds a generation, and saves.
    if (!restores) {
      for (Seen const& after : run(folder, true, -1, -1)) CHECK(after.first.empty());
      for (Seen const& after : run(folder, false, -1, -1)) CHECK(after.first.empty());
      for (std::string const& name : px::detail::names_in(folder)) CHECK_FALSE(name.ends_with(".part"));
      std::filesystem::remove_all(folder);
    }
  }
  std::printf("%s, rank %d: %ld allocations were refused, %ld ended the session, of %ld nobody was told\n",
              restores ? "restore" : "save", culprit, refused, ended, unnoticed);
  CHECK(refused + ended > sized(5, 50, 50));
}

}  // namespace

TEST_CASE("a save of which an allocation fails is refused on all ranks", "[checkpoint][allocations]") {
  check(false, 0);
  check(false, 1);
}

TEST_CASE("a restore of which an allocation fails is refused on all ranks, or ends the session", "[checkpoint][allocations]") {
  check(true, 0);
  check(true, 1);
}
