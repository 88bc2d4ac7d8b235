// Checkpoints of tables whose rows are behind. Saving settles none, and the notes of settings go along. Other ranks take them
// up with other partitioners, also where a rank was late with rows that others would have forgotten the notes of.
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "../interop/scratch.hpp"
#include "../variable/replays.hpp"
#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/comm/thread.hpp"

namespace px = parallax;

PARALLAX_FEW_NOTES(px::Adam);

namespace {

constexpr std::int64_t rows = 20'000;

struct Seen {
  std::vector<float> table = std::vector<float>(rows);
  std::int64_t replays_of_save = 0, swept = 0;
};

// Takes steps `first` up to `last`: rank 0 names the first rows of all in the first step, and later a few of all; every step
// has a rate of its own. Then a checkpoint is saved, and `more` steps follow.
template <class P>
Seen train(std::string const& folder, int ranks, bool restores, int first, int last, int more) {
  Seen seen;
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    px::Session session{world};
    px::Variable<px::Sparse, px::Adam, P> table{session, "table", {rows, 1, px::constant(1)}, px::Reduce::sum};
    if (restores) session.restore(folder, {}, table);
    auto const step = [&](int number) {
      std::vector<std::int64_t> ids;
      if (world.rank() == 0 && number == 0)
        for (std::int64_t row = 0; row < rows / 2; ++row) ids.push_back(row);
      else if (world.rank() == 0)
        for (std::int64_t i = 0; i < 5; ++i) ids.push_back((number * 7 + i * 1'801) % rows);
      table.optimizer().learning_rate = 0.001 * (1 + number % 13);
      session.step(px::grad(table, ids, std::vector<float>(ids.size(), 0.25f)));
    };
    for (int number = first; number < last; ++number) step(number);
    if (!restores) {
      auto const before = table.state().replays();
      session.save(folder, {}, table);
      auto const after = table.state().replays();
      if (world.rank() == 0) seen.swept = before.full + before.resting;
      if (world.rank() == 1) seen.replays_of_save = after.full + after.resting - before.full - before.resting;
    }
    for (int number = last; number < last + more; ++number) step(number);
    auto const local = table.local();
    for (std::int64_t i = 0; i < local.rows; ++i) seen.table[static_cast<std::size_t>(table.global_row(i))] = local[i][0];
    session.finish();
  });
  return seen;
}

}  // namespace

TEST_CASE("rows that are behind are saved as they are, and restored by other ranks with the notes that they need",
          "[checkpoint][settle]") {
  parallax_test::Scratch scratch;
  std::string const folder = scratch.path("run");
  Seen const whole = train<px::Block>(folder, 2, false, 0, 200, 60);
  CHECK(whole.swept > 0);
  CHECK(whole.replays_of_save == 0);
  for (int const ranks : {1, 3}) {
    CAPTURE(ranks);
    Seen const again = train<px::Hash>(folder, ranks, true, 200, 200, 60);
    CHECK(std::memcmp(again.table.data(), whole.table.data(), rows * sizeof(float)) == 0);
  }
}
