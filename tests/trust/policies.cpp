// What is promised of ranks that join, of gradients that are not finite and of repeated runs, in many cases.
#include <algorithm>
#include <array>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "../session/model.hpp"
#include "table.hpp"
#include "../../benchmarks/baseline/naive_ps.hpp"

namespace parallax_test::trust_policies {
namespace {

using px::grad;
using Threads = px::ThreadCommunicator;

constexpr int ranks = 4;

px::Topology<Threads> topology_of(Threads& world, bool two_hops) {
  return two_hops ? px::Topology<Threads>{world, {0, 0, 1, 1}} : px::Topology<Threads>{world};
}

// Whether an answer is that of a deadline, or of a peer's.
bool hung(Answer const& answer) { return answer.refused && answer.code == px::Errc::timeout; }

// ---- joining -------------------------------------------------------------------------------------------------------------

constexpr std::int64_t rows = 5, width = 2, elements = 6;

// One rank's batch: small integers, so that sums are exact and means round in one place. Empty after its last one.
struct Batch {
  std::vector<float> dense, row_gradients, bag_gradients;
  std::vector<int> ids, offsets{0};
};
Batch batch_of(int rank, int step) {
  Batch batch;
  for (int i = 0; i < elements; ++i) batch.dense.push_back(static_cast<float>((rank + 2 * step + i) % 7 - 3));
  for (int i = 0; i < 3; ++i) batch.ids.push_back((rank * 3 + step + 2 * i) % static_cast<int>(rows));
  for (int i = 0; i < 6; ++i) batch.row_gradients.push_back(static_cast<float>((rank + step * i) % 5 - 2));
  for (int i = 0; i < 4; ++i) batch.bag_gradients.push_back(static_cast<float>((3 * rank + step + i) % 9 - 4));
  batch.offsets = {0, 2, 3};
  return batch;
}

// What all variables hold: dense by mean and by count, rows by mean, by count, and in bags.
struct Right {
  std::vector<float> dense = std::vector<float>(elements, 1.0f), dense_by_count = dense;
  std::vector<float> table = std::vector<float>(rows * width, 1.0f), by_count = table, bags = table;
  int steps = 0;
};
Right right_of(std::vector<int> const& batches, px::JoinDivisor divisor) {
  Right now;
  now.steps = *std::max_element(batches.begin(), batches.end());
  for (int step = 0; step < now.steps; ++step) {
    std::vector<float> dense(elements), table(rows * width), bags(rows * width);
    std::vector<int> count(rows);
    int active = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      if (step >= batches[static_cast<std::size_t>(rank)]) continue;
      ++active;
      Batch const batch = batch_of(rank, step);
      for (std::size_t i = 0; i < elements; ++i) dense[i] += batch.dense[i];
      for (std::size_t i = 0; i < 3; ++i) {
        auto const row = static_cast<std::size_t>(batch.ids[i]);
        ++count[row];
        for (std::size_t c = 0; c < width; ++c) {
          table[row * width + c] += batch.row_gradients[i * width + c];
          bags[row * width + c] += batch.bag_gradients[(i < 2 ? 0 : 1) * width + c];
        }
      }
    }
    auto const by = static_cast<float>(divisor == px::JoinDivisor::active ? active : ranks);
    for (std::size_t i = 0; i < elements; ++i) {
      now.dense[i] -= 0.5f * (dense[i] / by);
      now.dense_by_count[i] -= 0.5f * (dense[i] / static_cast<float>(active));
    }
    for (std::size_t i = 0; i < rows * width; ++i) {
      now.table[i] -= 0.5f * (table[i] / by);
      now.bags[i] -= 0.5f * (bags[i] / by);
      if (count[i / width] > 0) now.by_count[i] -= 0.5f * (table[i] / static_cast<float>(count[i / width]));
    }
  }
  return now;
}

struct Joining {
  std::vector<int> batches;
  px::JoinDivisor divisor;
  bool started, two_hops;
};
struct Seen {
  std::string complaint;
  bool hung = false;
};

Seen join(Threads& world, Joining const& how, Right const& right) {
  Seen seen;
  auto const answer = answer_of([&] {
    px::Session session{topology_of(world, how.two_hops), {.join_divisor = how.divisor}};
    px::Sgd const rate{.learning_rate = 0.5};
    std::vector<float> memory(elements, 1.0f), sharded_memory = memory, counted_memory = memory;
    px::Table const shape{rows, width, px::constant(1)};
    px::Variable<px::Dense> dense{session, "dense", px::bind(memory), rate};
    px::Variable<px::Dense, px::PsShard> sharded{session, "sharded", px::bind(sharded_memory), rate};
    px::Variable<px::Dense> counted{session, "counted", px::bind(counted_memory), rate, px::Reduce::mean_by_count};
    px::Variable<px::Sparse, px::PsShard> owned{session, "owned", shape, rate};
    px::Variable<px::Sparse, px::AllReduce> whole{session, "whole", shape, rate};
    px::Variable<px::Sparse, px::AllGather> copied{session, "copied", shape, rate};
    px::Variable<px::Sparse, baseline::NaivePs> naive{session, "naive", shape, rate};
    px::Variable<px::Sparse, px::PsShard> by_count{session, "by count", shape, rate, px::Reduce::mean_by_count};
    px::Variable<px::Sparse, px::PsShard> bagged{session, "bagged", shape, rate};
    auto const iteration = [&](Batch const& batch) {
      auto const handles =
          session.pull(owned.at(batch.ids), naive.at(batch.ids), by_count.at(batch.ids), bagged.bags(batch.ids, batch.offsets));
      auto const dense_update = grad(dense, batch.dense);
      auto const sharded_update = grad(sharded, batch.dense);
      auto const owned_update = grad(std::get<0>(handles), batch.row_gradients);
      auto const bag_update = grad(std::get<3>(handles), batch.bag_gradients);
      auto const rest = [&](auto const&... more) {
        return session.step(more..., grad(counted, batch.dense), grad(whole, batch.ids, batch.row_gradients),
                            grad(copied, batch.ids, batch.row_gradients), grad(std::get<1>(handles), batch.row_gradients),
                            grad(std::get<2>(handles), batch.row_gradients));
      };
      if (!how.started) return rest(dense_update, sharded_update, owned_update, bag_update);
      session.start(dense_update, owned_update);
      session.poll();
      session.start(sharded_update, bag_update);
      return rest();
    };
    int const mine = how.batches[static_cast<std::size_t>(world.rank())];
    int applied = 0, called = 0;
    for (int step = 0; step < mine; ++step) applied += iteration(batch_of(world.rank(), step));
    session.join([&] {
      ++called;
      applied += iteration({});
    });
    auto const demand = [&](bool good, char const* what) {
      if (!good && seen.complaint.empty()) seen.complaint = what;
    };
    demand(applied == right.steps && session.steps() == right.steps, "another number of steps");
    demand(called == right.steps - mine + 1, "the body of join was called another number of times");
    demand(memory == right.dense && sharded_memory == right.dense, "a dense variable differs");
    demand(counted_memory == right.dense_by_count, "a dense variable by count differs");
    auto const compare = [&](auto& table, std::vector<float> const& expected) {
      auto const local = table.local();
      for (std::int64_t row = 0; row < local.rows; ++row)
        for (std::int64_t c = 0; c < width; ++c)
          if (local.row(row)[c] != expected[static_cast<std::size_t>(table.global_row(row) * width + c)] &&
              seen.complaint.empty())
            seen.complaint = "the table «" + table.name() + "» differs";
    };
    compare(owned, right.table);
    compare(whole, right.table);
    compare(copied, right.table);
    compare(naive, right.table);
    compare(by_count, right.by_count);
    compare(bagged, right.bags);
    demand(iteration(batch_of(world.rank(), 9)), "the session does not go on");
    session.finish();
  });
  if (answer.refused) seen = {answer.what, hung(answer)};
  return seen;
}

// ---- what is not finite --------------------------------------------------------------------------------------------------

enum class Where : unsigned char { dense, dense_sharded, sharded, whole, copied, naive };
constexpr std::array<char const*, 6> names{"dense", "dense sharded", "sharded", "whole", "copied", "naive"};

struct Poison {
  Where where;
  int culprit;
  float value;
  std::size_t at, second;  // elements of the gradient; equal, or two of them
  bool started;
};

struct Shop {
  Shop(px::Topology<Threads> topology, px::NonFinite policy) : session{std::move(topology), {.non_finite = policy}} {}

  px::Session<Threads> session;
  std::vector<float> memory = std::vector<float>(20, 1.0f), sharded_memory = std::vector<float>(23, 1.0f);
  px::Table const shape{9, 2, px::constant(1)};
  px::Variable<px::Dense, px::Adagrad> dense{session, names[0], px::bind(memory)};
  px::Variable<px::Dense, px::PsShard, px::Adam> dense_sharded{session, names[1], px::bind(sharded_memory)};
  px::Variable<px::Sparse, px::PsShard, px::Adam> sharded{session, names[2], shape};
  px::Variable<px::Sparse, px::AllReduce, px::LazyAdam> whole{session, names[3], shape};
  px::Variable<px::Sparse, px::AllGather, px::Momentum> copied{session, names[4], shape};
  px::Variable<px::Sparse, baseline::NaivePs, px::Momentum> naive{session, names[5], shape};
  std::vector<int> const ids{4, 1, 8, 4, 0};

  bool train(Poison const* poison) {
    std::vector<float> d(20, 0.25f), s(23, 0.5f);
    std::array<std::vector<float>, 4> g;
    for (auto& table : g) table.assign(ids.size() * 2, 0.5f);
    if (poison && session.rank() == poison->culprit) {
      auto const which = static_cast<std::size_t>(poison->where);
      auto& gradient = which == 0 ? d : which == 1 ? s : g[which - 2];
      gradient[poison->at] = gradient[poison->second] = poison->value;
    }
    auto const rows_of = session.pull(sharded, ids);
    if (poison && poison->started) {
      session.start(grad(dense, d), grad(rows_of, g[0]));
      session.start(grad(dense_sharded, s), grad(copied, ids, g[2]));
      return session.step(grad(whole, ids, g[1]), grad(naive, ids, g[3]));
    }
    return session.step(grad(dense, d), grad(dense_sharded, s), grad(rows_of, g[0]), grad(whole, ids, g[1]),
                        grad(copied, ids, g[2]), grad(naive, ids, g[3]));
  }
  std::size_t size_of(Where where) const {
    return where == Where::dense ? memory.size() : where == Where::dense_sharded ? sharded_memory.size() : ids.size() * 2;
  }

  // Every bit of parameters and optimizer state, and the numbers of steps.
  std::uint64_t hash() {
    px::Fingerprint all;
    auto const bits = [&](auto values) {
      for (float const value : values) all.add(std::uint64_t{std::bit_cast<std::uint32_t>(value)});
    };
    auto const table = [&](auto& variable) {
      auto const local = variable.local();
      bits(std::span{local.data, static_cast<std::size_t>(local.rows * local.width)});
      bits(variable.state().optimizer_state().template span<0>());
      all.add(static_cast<std::uint64_t>(variable.steps()));
    };
    bits(std::span{memory});
    bits(std::span{sharded_memory});
    bits(dense.state().optimizer_state().template span<0>());
    bits(dense_sharded.state().optimizer_state().template span<0>());
    bits(dense_sharded.state().optimizer_state().template span<1>());
    table(sharded), table(whole), table(copied), table(naive);
    bits(sharded.state().optimizer_state().template span<1>());
    bits(whole.state().optimizer_state().template span<1>());
    all.add(static_cast<std::uint64_t>(dense.steps() + 1000 * dense_sharded.steps()));
    all.add(static_cast<std::uint64_t>(session.steps()));
    return all.value();
  }
};

// `count` poisons on one session, drawn alike on all ranks, each of them followed by a good step now and then.
std::vector<std::pair<Poison, std::string>> poisoned(Threads& world, px::NonFinite policy, bool two_hops, std::uint64_t seed,
                                                     int count) {
  std::vector<std::pair<Poison, std::string>> cases;
  std::mt19937_64 random{seed};
  Shop shop{topology_of(world, two_hops), policy};
  shop.train(nullptr);
  std::int64_t steps = 1;
  for (int i = 0; i < count; ++i) {
    Poison poison{static_cast<Where>(random() % 6), static_cast<int>(random() % ranks), 0, 0, 0, random() % 2 == 0};
    poison.value = std::array{std::nanf(""), std::numeric_limits<float>::infinity(),
                              -std::numeric_limits<float>::infinity()}[random() % 3];
    std::size_t const size = shop.size_of(poison.where);
    poison.at = std::array{std::size_t{0}, size - 1, random() % size}[random() % 3];
    poison.second = random() % 4 == 0 ? random() % size : poison.at;
    std::string complaint;
    auto const before = shop.hash();
    bool applied = true;
    auto const answer = answer_of([&] { applied = shop.train(&poison); });
    if (shop.hash() != before) complaint = "something changed";
    if (shop.session.steps() != steps) complaint = "the step was counted";
    std::size_t const first = std::min(poison.at, poison.second);
    bool const is_dense = poison.where <= Where::dense_sharded;
    std::string const place = is_dense ? "element " + std::to_string(first) + " is"
                                       : "row " + std::to_string(first / 2) + ", column " + std::to_string(first % 2) + " is";
    if (policy == px::NonFinite::skip_step) {
      if (answer.refused) complaint = answer.what;
      else if (applied) complaint = "applied";
    } else if (answer.code != px::Errc::non_finite || !answer.refused || answer.rank != poison.culprit ||
               answer.variable != names[static_cast<std::size_t>(poison.where)] ||
               answer.detail.find(place) == std::string::npos) {
      complaint = "for " + place + ": " + answer.what;
    }
    cases.emplace_back(poison, complaint);
    if (hung(answer)) cases.back().second = "hung";
    if (i % 3 == 0) {
      if (!shop.train(nullptr)) cases.back().second = "a good step afterwards was not applied";
      ++steps;
      for (float const value : shop.memory)
        if (!std::isfinite(value)) cases.back().second = "poisoned";
    }
  }
  shop.session.finish();
  return cases;
}

// ---- the same bits, whoever is late --------------------------------------------------------------------------------------

// Thread ranks that are late at random.
class Late {
 public:
  Late(Threads& world, std::uint64_t seed) : world_{&world}, random_{seed * 64 + static_cast<std::uint64_t>(world.rank())} {}

  int rank() const { return world_->rank(); }
  int size() const { return world_->size(); }
  std::chrono::nanoseconds deadline() const { return world_->deadline(); }
  void abort(px::Error const& reason) { world_->abort(reason); }
  Threads::Request ialltoallv(int channel, px::Transfer const& transfer) {
    std::uint64_t const draw = random_() % 16;
    if (draw == 0) std::this_thread::sleep_for(std::chrono::microseconds{random_() % 200});
    for (std::uint64_t i = 0; i < draw / 4; ++i) std::this_thread::yield();
    return world_->ialltoallv(channel, transfer);
  }

 private:
  Threads* world_;
  std::mt19937_64 random_;
};
static_assert(px::Communicator<Late>);

std::uint64_t trained(Threads& world, bool two_hops, std::uint64_t run) {
  Late late{world, run};
  Model<Late> model{two_hops ? px::Topology<Late>{late, {0, 0, 1, 1}} : px::Topology<Late>{late}};
  for (int step = 0; step < 12; ++step) model.train(7, step);
  model.session.finish();
  return model.hash();
}

}  // namespace

TEST_CASE("ranks that finish in any order leave what the others' data say", "[trust][policies][join]") {
  Table table{"joins of 4 ranks after 0 to 3 batches each"};
  for (int pattern = 0; pattern < 256; ++pattern) {
    std::vector<int> batches;
    for (int rank = 0; rank < ranks; ++rank) batches.push_back(pattern >> (2 * rank) & 3);
    for (px::JoinDivisor const divisor : {px::JoinDivisor::world, px::JoinDivisor::active}) {
      Right const right = right_of(batches, divisor);
      for (bool const started : {false, true}) {
        Joining const how{batches, divisor, started, (pattern + started) % 2 == 1};
        auto const seen = on_ranks(ranks, [&](Threads& world) { return join(world, how, right); });
        std::string complaint;
        bool hang = false;
        for (auto const& one : seen) {
          if (complaint.empty()) complaint = one.complaint;
          hang = hang || one.hung;
        }
        if (!complaint.empty()) complaint = "pattern " + std::to_string(pattern) + ": " + complaint;
        table.count(std::string{divisor == px::JoinDivisor::world ? "mean over all ranks" : "mean over those with data"} +
                        (started ? ", started" : "") + (how.two_hops ? ", two hops" : ""),
                    complaint, hang);
      }
    }
  }
  table.check(1024);
}

TEST_CASE("a poisoned gradient is skipped or refused with its place, whoever has it where", "[trust][policies][non_finite]") {
  Table table{"poisoned gradients"};
  for (px::NonFinite const policy : {px::NonFinite::skip_step, px::NonFinite::error})
    for (std::uint64_t batch = 0; batch < 20; ++batch) {
      bool const two_hops = batch % 2 == 1;
      auto const results = on_ranks(ranks, [&](Threads& world) { return poisoned(world, policy, two_hops, batch, 50); });
      for (std::size_t i = 0; i < results[0].size(); ++i) {
        Poison const& poison = results[0][i].first;
        std::string complaint;
        for (auto const& result : results)
          if (complaint.empty()) complaint = result[i].second;
        table.count(std::string{policy == px::NonFinite::error ? "error, " : "skip_step, "} +
                        names[static_cast<std::size_t>(poison.where)] + (poison.started ? ", started" : "") +
                        (two_hops ? ", two hops" : ""),
                    complaint, complaint == "hung");
      }
    }
  table.check(2000);
}

TEST_CASE("a training ends with the same bits whichever ranks are late", "[trust][policies][repeat]") {
  Table table{"repeated trainings of 4 ranks that are late at random"};
  for (bool const two_hops : {false, true}) {
    std::vector<std::uint64_t> first;
    for (std::uint64_t run = 0; run < 51; ++run) {
      auto const hashes = on_ranks(ranks, [&](Threads& world) { return trained(world, two_hops, run); });
      if (run == 0) first = hashes;
      else table.count(two_hops ? "two hops" : "one hop", hashes == first ? "" : "run " + std::to_string(run) + " differs");
    }
  }
  table.check(100);
}

// A started update by the handle's plan may have arrived on some ranks and not on others when the next one is prepared.
TEST_CASE("a handle of a gathered table serves a started update and a step, on two hops", "[trust][policies][handles]") {
  auto const answers = on_ranks(3, [](Threads& world) {
    px::Session session{px::Topology<Threads>{world, {0, 0, 1}}};
    px::Variable<px::Sparse, px::AllGather> table{session, "table", {4, 1}};
    auto const handle = session.pull(table, std::vector{0, 1});
    std::vector<float> const gradient{1, 1};
    if (world.rank() == 0) std::this_thread::sleep_for(std::chrono::milliseconds{20});
    session.start(grad(handle, gradient));
    for (int i = 0; world.rank() == 0 && i < 50; ++i) {
      session.poll();
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
    return answer_of([&] { session.step(grad(handle, gradient)); });
  });
  for (auto const& answer : answers) CHECK(answer.what == "");
}

}  // namespace parallax_test::trust_policies
