// A pull and a step of one sparse variable under Adagrad, on thread ranks: PsShard beside AllGather and NaivePs, on the rows that
// a batch of LM1B touches; and beside itself on vocabularies a hundred times as large, whose rows it must not notice.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <string>
#include <vector>

#include "../tests/support/allocation_counter.hpp"
#include "measure.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"
#include "parallax_bench/ids.hpp"
#include "baseline/naive_ps.hpp"

namespace px = parallax;

namespace {

using bench::Ids;
constexpr int batches = 4;

struct Sizes {
  std::int64_t rows = 793'470, width = 128, touched = 6'903;  // LM1B's vocabulary, and the share of it that a rank touches
  std::int64_t least_vocabulary = 100'000;
  int steps = 8;
};

// One table trained by one rank.
template <class Policy>
struct Trainer {
  Trainer(px::ThreadCommunicator& world, std::int64_t rows, std::int64_t width, std::vector<Ids> const& of_rank)
      : session{world}, words{session, "words", {rows, width, px::constant(0.5)}}, ids{&of_rank} {
    std::size_t most = 0;
    for (auto const& batch : of_rank) most = std::max(most, batch.size());
    gradient.resize(most * static_cast<std::size_t>(width));
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = static_cast<float>((i + 3) % 17) / 16 - 0.5f;
  }
  void step() {
    auto const& batch = (*ids)[static_cast<std::size_t>(steps++ % batches)];
    auto const rows = session.pull(words, batch);
    session.step(px::grad(rows, std::span{gradient}.first(batch.size() * static_cast<std::size_t>(words.width()))));
  }
  // Of the rows of batch 0.
  double sum() {
    auto const rows = session.pull(words, (*ids)[0]);
    double sum = 0;
    for (std::size_t i = 0; i < rows.indices(); ++i)
      for (float const value : rows[i]) sum += value;
    return sum;
  }

  px::Session<px::ThreadCommunicator> session;
  px::Variable<px::Sparse, Policy, px::Adagrad> words;
  std::vector<Ids> const* ids;
  std::vector<float> gradient;
  int steps = 0;
};

// Runs each of `contenders` in turn, all ranks together; by contender, the best round's seconds a step.
template <class... Contender>
std::vector<double> best_of(px::ThreadCommunicator& world, measure::Options const& options, int steps, Contender&... contenders) {
  return measure::best_seconds(options.rounds, [&] {
    px::barrier(world);
    for (int step = 0; step < steps; ++step) contenders.step();
    px::barrier(world);
  }...);
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-5 * (std::abs(a) + std::abs(b)); }

// By rank and batch: as many draws as name so many different rows, by frequency.
std::vector<std::vector<Ids>> zipf_ids(int ranks, Sizes const& sizes) {
  bench::Zipf const zipf{sizes.rows, 1};
  std::int64_t const draws = zipf.draws_for(static_cast<double>(sizes.touched));
  std::vector<std::vector<Ids>> ids(static_cast<std::size_t>(ranks), std::vector<Ids>(batches));
  for (int rank = 0; rank < ranks; ++rank)
    for (int batch = 0; batch < batches; ++batch) {
      bench::Random random{7, rank, batch};
      auto& drawn = ids[static_cast<std::size_t>(rank)][static_cast<std::size_t>(batch)];
      for (std::int64_t i = 0; i < draws; ++i) drawn.push_back(zipf.draw(random));
    }
  return ids;
}

void policies(measure::Report& report, measure::Options const& options, Sizes const& sizes, int ranks, double gather_goal) {
  auto const ids = zipf_ids(ranks, sizes);
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    auto const& mine = ids[static_cast<std::size_t>(world.rank())];
    Trainer<px::PsShard> shard{world, sizes.rows, sizes.width, mine}, again{world, sizes.rows, sizes.width, mine};
    Trainer<px::AllGather> gather{world, sizes.rows, sizes.width, mine};
    Trainer<baseline::NaivePs> naive{world, sizes.rows, sizes.width, mine};
    auto const best = best_of(world, options, sizes.steps, shard, gather, naive, again);
    auto const sums = std::vector{shard.sum(), gather.sum(), naive.sum(), again.sum()};
    if (world.rank() == 0) {
      auto const each = [&](std::size_t i) { return best[i] / sizes.steps; };
      std::string const what = std::to_string(ranks) + " threads, " + std::to_string(sizes.rows) + " x " +
                               std::to_string(sizes.width) + ", PsShard";
      report.line(what + " against itself", each(3), "PsShard", each(0));
      report.line(what, each(0), "AllGather", each(1), gather_goal);
      report.line(what, each(0), "NaivePs", each(2), 0.95);
      report.result(what, near(sums[0], sums[1]) && near(sums[0], sums[2]) && sums[0] == sums[3]);
    }
    for (auto* session : {&shard.session, &again.session, &gather.session, &naive.session}) session->finish();
  });
}

// As many different rows of a vocabulary `times` as large, with the same owners, and as far from each other as it is larger.
std::vector<Ids> spread(std::vector<Ids> ids, std::int64_t rows, std::int64_t times, int ranks) {
  auto const small = px::Cyclic{}.layout(rows, ranks), large = px::Cyclic{}.layout(rows * times, ranks);
  for (auto& batch : ids)
    for (auto& id : batch) {
      auto const place = small.locate(id);
      id = large.global_row(place.owner, place.local * times);
    }
  return ids;
}

struct Counted {
  std::uint64_t bytes, messages, transfers, rows;
  std::int64_t allocations;
  friend bool operator==(Counted const&, Counted const&) = default;
};
Counted counted(Trainer<px::PsShard>& trainer, int steps) {
  auto const before = trainer.session.traffic();
  std::int64_t const news = parallax_test::news;
  for (int step = 0; step < steps; ++step) trainer.step();
  auto const after = trainer.session.traffic();
  auto const rows = [](px::Traffic const& traffic) {
    return traffic.sent_of(px::Payload::rows).all + traffic.received_of(px::Payload::rows).all;
  };
  return {after.payload_sent() - before.payload_sent(), after.messages - before.messages, after.transfers - before.transfers,
          (rows(after) - rows(before)) / (sizeof(float) * static_cast<std::uint64_t>(trainer.words.width())),
          parallax_test::news - news};
}

void vocabularies(measure::Report& report, measure::Options const& options, Sizes const& sizes, int ranks) {
  Sizes smallest = sizes;
  smallest.rows = sizes.least_vocabulary / ranks * ranks;
  auto const ids = zipf_ids(ranks, smallest);
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    auto const& mine = ids[static_cast<std::size_t>(world.rank())];
    auto const tenfold = spread(mine, smallest.rows, 10, ranks), hundredfold = spread(mine, smallest.rows, 100, ranks);
    using Shard = Trainer<px::PsShard>;
    Shard small{world, smallest.rows, sizes.width, mine}, large{world, smallest.rows * 10, sizes.width, tenfold},
        huge{world, smallest.rows * 100, sizes.width, hundredfold}, again{world, smallest.rows, sizes.width, mine};
    auto const best = best_of(world, options, sizes.steps, small, large, huge, again);
    Counted const counts[] = {counted(small, batches), counted(large, batches), counted(huge, batches)};
    bool const same = counts[0] == counts[1] && counts[0] == counts[2] && counts[0].allocations == 0;
    bool const right = small.sum() == large.sum() && small.sum() == huge.sum();
    std::vector<double> wrong{same && right ? 0.0 : 1.0};
    px::allreduce(world, std::span{wrong});
    if (world.rank() == 0) {
      auto const each = [&](std::size_t i) { return best[i] / sizes.steps; };
      auto const name = [&](std::int64_t times) {
        return std::to_string(ranks) + " threads, PsShard, " + std::to_string(smallest.rows * times) + " rows";
      };
      std::string const reference = std::to_string(smallest.rows) + " rows";
      report.line(name(1) + " against itself", each(3), reference, each(0));
      report.line(name(10), each(1), reference, each(0), 1 / 1.3);
      report.line(name(100), each(2), reference, each(0), 1 / 1.3);
      std::printf("rank 0, %d steps, each of them: %llu bytes sent, %llu rows sent and received, %llu messages, %llu transfers, "
                  "%lld allocations\n",
                  batches, static_cast<unsigned long long>(counts[0].bytes), static_cast<unsigned long long>(counts[0].rows),
                  static_cast<unsigned long long>(counts[0].messages), static_cast<unsigned long long>(counts[0].transfers),
                  static_cast<long long>(counts[0].allocations));
      report.result("the same counts and results on every vocabulary", wrong[0] == 0);
    }
    for (auto* session : {&small.session, &large.session, &huge.session, &again.session}) session->finish();
  });
}

}  // namespace

int main(int argc, char** argv) {
  measure::Options const options{argc, argv};
  measure::Report report{options};
  Sizes sizes;
  if (options.smoke) sizes = {2'000, 8, 100, 400, 4};
  policies(report, options, sizes, 8, 3.0);
  policies(report, options, sizes, 4, 1.8);
  vocabularies(report, options, sizes, 4);
  return report.exit_code();
}
