// Checkpoints by ranks of MPI, and of a run of threads before them.
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <mpi.h>
#include <signal.h>

#include "../catch.hpp"
#include "../interop/scratch.hpp"
#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/comm/any.hpp"
#include "parallax/comm/mpi.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

struct Trainer {
  Trainer(px::AnyCommunicator& world, float initial)
      : memory(1500, initial), session{world}, words{session, "words", {301, 5, px::uniform(initial, 1, 3)}} {
    seed += static_cast<unsigned>(session.rank());
  }

  void train_to(std::int64_t steps) {
    for (; session.steps() < steps; ++epoch, seed *= 3) {
      std::vector<std::int64_t> const ids{7 * session.rank() + session.steps(), 5, 299};
      session.step(px::grad(words, ids, std::vector<float>(15, 0.25f)), px::grad(bias, std::vector<float>(1500, 0.5f)));
    }
  }
  px::Saved save(std::string const& folder) {
    return session.save(folder, {.block_bytes = 500}, words, bias, px::shared_value("epoch", epoch),
                        px::own_value("seed", seed));
  }
  px::Restored restore(std::string const& folder) {
    return session.restore(folder, {}, words, bias, px::shared_value("epoch", epoch), px::own_value("seed", seed));
  }
  // Of all rows and what stands beside them, by their numbers; summed over all ranks it is of the whole state.
  std::uint64_t digest() {
    std::uint64_t sum = 0;
    auto const rows = words.local(), first = words.slot("m"), second = words.slot("v");
    for (std::int64_t i = 0; i < rows.rows; ++i) {
      auto const by = 2 * static_cast<std::uint64_t>(words.global_row(i)) + 1;
      sum += (px::detail::checksum(rows.row(i), 20) + 3 * px::detail::checksum(first.row(i), 20) +
              5 * px::detail::checksum(second.row(i), 20)) *
             by;
    }
    if (session.rank() == 0)
      sum += px::detail::checksum(memory.data(), 6000) + static_cast<std::uint64_t>(1000 * epoch + session.steps());
    return sum;
  }

  std::vector<float> memory;
  px::Session<px::AnyCommunicator> session;
  px::Variable<px::Sparse, px::Adam, px::Hash> words;
  px::Variable<px::Dense, px::Momentum> bias{session, "bias", px::bind(memory)};
  int epoch = 0;
  std::uint64_t seed = 1;
};

// A folder that all ranks of MPI know; rank 0 makes it, and removes it.
struct Shared {
  Shared() {
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    if (rank == 0) scratch = std::make_unique<parallax_test::Scratch>();
    std::string name = rank == 0 ? scratch->path("run") : "";
    auto length = static_cast<int>(name.size());
    MPI_Bcast(&length, 1, MPI_INT, 0, MPI_COMM_WORLD);
    name.resize(static_cast<std::size_t>(length));
    MPI_Bcast(name.data(), length, MPI_CHAR, 0, MPI_COMM_WORLD);
    folder = name;
  }
  ~Shared() { MPI_Barrier(MPI_COMM_WORLD); }

  std::unique_ptr<parallax_test::Scratch> scratch;
  std::string folder;
  int rank = 0;
};

std::uint64_t all_together(std::uint64_t mine) {
  std::uint64_t sum = 0;
  MPI_Allreduce(&mine, &sum, 1, MPI_UINT64_T, MPI_SUM, MPI_COMM_WORLD);
  return sum;
}

}  // namespace

TEST_CASE("a run on MPI that is stopped and goes on ends as one that was not", "[checkpoint][mpi]") {
  Shared const shared;
  px::AnyCommunicator world{px::MpiCommunicator{}};
  std::uint64_t straight = 0, saved = 0, seed = 0, resumed = 0;
  {
    Trainer trainer{world, 0};
    trainer.train_to(3);
    auto const made = trainer.save(shared.folder);
    CHECK((made.generation == 1 && made.step == 3 && made.path == shared.folder + "/generation-000001"));
    saved = all_together(trainer.digest());
    trainer.train_to(6);
    straight = all_together(trainer.digest());
    seed = trainer.seed;
    trainer.session.finish();
  }
  Trainer trainer{world, 0};
  auto const restored = trainer.restore(shared.folder);
  CHECK((restored.generation == 1 && restored.step == 3 && restored.lost.empty()));
  CHECK(all_together(trainer.digest()) == saved);
  trainer.train_to(6);
  resumed = all_together(trainer.digest());
  CHECK(resumed == straight);
  CHECK(resumed != saved);
  CHECK(trainer.seed == seed);
  trainer.session.finish();
}

TEST_CASE("a checkpoint by four threads is restored on MPI", "[checkpoint][mpi]") {
  Shared const shared;
  std::uint64_t saved = 0;
  if (shared.rank == 0) {
    std::vector<std::uint64_t> sums(4);
    px::run_threads(4, [&](px::ThreadCommunicator& thread) {
      px::AnyCommunicator world{std::ref(thread)};
      Trainer trainer{world, 0};
      trainer.train_to(5);
      trainer.save(shared.folder);
      sums[static_cast<std::size_t>(world.rank())] = trainer.digest();
      trainer.session.finish();
    });
    for (std::uint64_t const one : sums) saved += one;
  }
  saved = all_together(saved);
  px::AnyCommunicator world{px::MpiCommunicator{}};
  Trainer trainer{world, 0.5f};
  auto const restored = trainer.restore(shared.folder);
  CHECK(restored.step == 5);
  CHECK(restored.lost == std::vector<std::string>{"words/dropped", "words/seen", "seed"});
  CHECK(trainer.session.steps() == 5);
  CHECK(trainer.epoch == 5);
  CHECK(all_together(trainer.digest()) == saved);
  trainer.session.finish();
}

TEST_CASE("a checkpoint that is not there is refused by all ranks of MPI", "[checkpoint][mpi]") {
  Shared const shared;
  px::AnyCommunicator world{px::MpiCommunicator{}};
  Trainer trainer{world, 0};
  std::string said;
  try {
    trainer.restore(shared.folder);
  } catch (px::Error const& error) {
    said = error.what();
  }
  CHECK(said == "parallax: file (rank 0) in restore: " + shared.folder + ": it has no complete generation of a checkpoint");
  trainer.train_to(2);
  trainer.session.finish();
}

TEST_CASE("ranks of MPI save behind the steps, and when one of them is sent a signal", "[checkpoint][mpi]") {
  Shared const shared;
  signal(SIGTERM, [](int) {});
  px::AnyCommunicator world{px::MpiCommunicator{}};
  std::uint64_t last = 0;
  {
    Trainer trainer{world, 0};
    px::Checkpoints every{trainer.session,
                          shared.folder,
                          {.steps = 4, .on_signals = true},
                          trainer.words,
                          trainer.bias,
                          px::shared_value("epoch", trainer.epoch),
                          px::own_value("seed", trainer.seed)};
    std::vector<std::int64_t> saved;
    while (trainer.session.steps() < 20 && !every.stopping()) {
      trainer.train_to(trainer.session.steps() + 1);
      if (trainer.session.steps() == 13 && world.rank() == world.size() - 1) raise(SIGTERM);
      if (auto const now = every.step()) saved.push_back(now->step);
    }
    CHECK(saved == std::vector<std::int64_t>{4, 8, 14});
    CHECK(every.stopping());
    last = all_together(trainer.digest());
    trainer.session.finish();
  }
  signal(SIGTERM, SIG_DFL);
  Trainer trainer{world, 0.5f};
  auto const restored = trainer.restore(shared.folder);
  CHECK((restored.step == 14 && restored.generation == 4));
  CHECK(all_together(trainer.digest()) == last);
  trainer.session.finish();
}
