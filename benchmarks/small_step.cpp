// A pull and a step of few rows of one table, on two thread ranks: the processor's time that a rank spends on it, beside a loop by
// hand on a table that the ranks share, which agrees on nothing, checks nothing and counts nothing.
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <ctime>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "measure.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"
#include "parallax_bench/ids.hpp"

namespace px = parallax;

namespace {

using bench::Ids;
constexpr int ranks = 2, batches = 8;
constexpr float rate = 0.0078125f;  // with it, and these gradients, all sums are exact: they may be made in any order
constexpr std::int64_t width = 64;

struct Shape {
  std::int64_t rows;
  std::size_t ids;
  int steps;
};

// By rank, then step.
using Batches = std::array<std::array<Ids, batches>, ranks>;
Batches batches_of(Shape const& shape) {
  bench::Zipf const zipf{shape.rows, 1};
  Batches ids;
  for (int rank = 0; rank < ranks; ++rank)
    for (int batch = 0; batch < batches; ++batch) {
      bench::Random random{11, rank, batch};
      auto& drawn = ids[static_cast<std::size_t>(rank)][static_cast<std::size_t>(batch)];
      for (std::size_t i = 0; i < shape.ids; ++i) drawn.push_back(zipf.draw(random));
    }
  return ids;
}
float gradient_at(std::size_t i) { return static_cast<float>((i * 7 + 3) % 17) / 16 - 0.5f; }

struct Ours {
  Ours(px::ThreadCommunicator& world, Shape const& shape, Batches const& all)
      : session{world},
        words{session, "words", {shape.rows, width, px::constant(0.5)}, px::Sgd{.learning_rate = rate}},
        ids{&all[static_cast<std::size_t>(world.rank())]},
        gradient(shape.ids * width) {
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = gradient_at(i);
  }
  void step() {
    auto const rows = session.pull(words, (*ids)[static_cast<std::size_t>(steps++ % batches)]);
    seen += rows[0][0];
    session.step(px::grad(rows, std::span<float const>{gradient}));
  }
  // The rows of batch 0, as they are now.
  std::vector<float> rows() {
    auto const pulled = session.pull(words, (*ids)[0]);
    std::vector<float> values;
    for (std::size_t i = 0; i < pulled.indices(); ++i) values.insert(values.end(), pulled[i].begin(), pulled[i].end());
    return values;
  }

  px::Session<px::ThreadCommunicator> session;
  px::Variable<px::Sparse, px::PsShard, px::Sgd> words;
  std::array<Ids, batches> const* ids;
  std::vector<float> gradient;
  float seen = 0;
  int steps = 0;
};

// What the ranks of the loop by hand share. A barrier spins for 200 looks, then yields at each.
struct Table {
  explicit Table(Shape const& shape) : values(static_cast<std::size_t>(shape.rows * width), 0.5f) {}
  void barrier(int& turn) {
    ++turn;
    arrived.fetch_add(1);
    for (int looks = 0; arrived.load(std::memory_order_acquire) < turn * ranks; ++looks)
      if (looks >= 200) std::this_thread::yield();
  }

  std::vector<float> values;
  std::array<std::span<float const>, ranks> gradients;
  std::atomic<int> arrived = 0;
};
struct ByHand {
  ByHand(int self, Table& shared, Shape const& shape, Batches const& every)
      : rank{self}, table{&shared}, all{&every}, gradient(shape.ids * width), read(shape.ids * width) {
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = gradient_at(i);
    table->gradients[static_cast<std::size_t>(rank)] = gradient;
  }
  // Reads the rows of its ids; once all ranks have, changes the rows that it owns by all that named them.
  void step() {
    auto const batch = static_cast<std::size_t>(steps++ % batches);
    gather((*all)[static_cast<std::size_t>(rank)][batch]);
    seen += read[0];
    table->barrier(turn);
    for (std::size_t source = 0; source < ranks; ++source) {
      Ids const& ids = (*all)[source][batch];
      for (std::size_t i = 0; i < ids.size(); ++i) {
        if (ids[i] % ranks != rank) continue;
        float* __restrict const row = table->values.data() + ids[i] * width;
        float const* __restrict const sent = table->gradients[source].data() + i * width;
        for (std::int64_t c = 0; c < width; ++c) row[c] -= rate * (sent[c] / ranks);
      }
    }
    table->barrier(turn);
  }
  std::vector<float> const& rows() {
    gather((*all)[static_cast<std::size_t>(rank)][0]);
    return read;
  }
  void gather(Ids const& ids) {
    for (std::size_t i = 0; i < ids.size(); ++i)
      std::copy_n(table->values.data() + ids[i] * width, width, read.data() + i * width);
  }

  int rank, turn = 0, steps = 0;
  Table* table;
  Batches const* all;
  std::vector<float> gradient, read;
  float seen = 0;
};

double processor_seconds() {
  timespec time{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
  return static_cast<double>(time.tv_sec) + 1e-9 * static_cast<double>(time.tv_nsec);
}

// In turn, all ranks together; by contender, the best round's seconds of a step of a rank, in the mean over ranks.
template <class... Contender>
std::vector<double> best_of(px::ThreadCommunicator& world, int rounds, int steps, Contender&... contenders) {
  std::vector<double> best(sizeof...(Contender), 1e9);
  for (int round = -1; round < rounds; ++round) {
    std::size_t number = 0;
    auto const time = [&](auto& contender) {
      px::barrier(world);
      double const begin = processor_seconds();
      for (int step = 0; step < steps; ++step) contender.step();
      std::vector<double> took{(processor_seconds() - begin) / steps / ranks};
      px::allreduce(world, std::span{took});
      if (round >= 0) best[number] = std::min(best[number], took[0]);
      ++number;
    };
    (time(contenders), ...);
  }
  return best;
}

void small_step(measure::Report& report, measure::Options const& options, Shape const& shape, double goal) {
  auto const ids = batches_of(shape);
  Table table{shape}, table_again{shape};
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    ByHand hand{world.rank(), table, shape, ids}, again{world.rank(), table_again, shape, ids};
    Ours ours{world, shape, ids};
    px::barrier(world);
    auto const best = best_of(world, options.rounds, shape.steps, hand, ours, again);
    std::vector<double> wrong{hand.rows() == ours.rows() && hand.rows() == again.rows() ? 0.0 : 1.0};
    px::allreduce(world, std::span{wrong});
    ours.session.finish();
    if (world.rank() != 0) return;
    std::string const name = std::to_string(shape.ids) + " ids of width " + std::to_string(width) + ", processor time";
    report.line(name + ", by hand against itself", best[2], "by hand, one table", best[0]);
    report.line(name, best[1], "by hand, one table", best[0], goal);
    report.result(name, wrong[0] == 0);
  });
}

}  // namespace

int main(int argc, char** argv) {
  measure::Options const options{argc, argv};
  measure::Report report{options};
  int const steps = options.smoke ? 3 : 50;
  small_step(report, options, {20'000, 64, steps}, 0);
  small_step(report, options, {20'000, 256, steps}, 1 / 2.5);
  small_step(report, options, {20'000, 1'000, steps}, 0);
  return report.exit_code();
}
