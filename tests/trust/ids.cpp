// Indices that lie outside a table, however they came about: refused by every rank before anything is written.
#include <cmath>
#include <cstdint>
#include <limits>
#include <random>
#include <string>
#include <vector>

#include "../session/model.hpp"
#include "table.hpp"

namespace parallax_test::trust_ids {
namespace {

using Threads = px::ThreadCommunicator;
using ThreadModel = Model<Threads>;

// What a program might make of an id. Unsigned ones are named as such by the error.
template <class Id>
struct Bad {
  char const* name;
  Id value;
};
std::int64_t const not_a_number = std::llrint(std::numeric_limits<double>::quiet_NaN());  // a large negative number here
std::vector<Bad<std::int64_t>> const signed_ids{{"-1", -1},
                                                {"rows", 0},  // filled in
                                                {"2^31", std::int64_t{1} << 31},
                                                {"2^32 (0 in 32 bits)", std::int64_t{1} << 32},
                                                {"2^32 + 3 (3 in 32 bits)", (std::int64_t{1} << 32) + 3},
                                                {"INT64_MAX", std::numeric_limits<std::int64_t>::max()},
                                                {"INT64_MIN", std::numeric_limits<std::int64_t>::min()},
                                                {"INT64_MIN + 3", std::numeric_limits<std::int64_t>::min() + 3},
                                                {"cast of NaN", not_a_number}};
std::vector<Bad<std::uint64_t>> const unsigned_ids{{"2^63 unsigned", std::uint64_t{1} << 63},
                                                   {"2^63 + 5 unsigned", (std::uint64_t{1} << 63) + 5},
                                                   {"2^64 - 1 unsigned", std::numeric_limits<std::uint64_t>::max()},
                                                   {"2^32 + 1 unsigned", (std::uint64_t{1} << 32) + 1}};
std::vector<Bad<std::int32_t>> const narrow_ids{{"-1 in 32 bits", -1},
                                                {"INT32_MIN", std::numeric_limits<std::int32_t>::min()},
                                                {"INT32_MAX", std::numeric_limits<std::int32_t>::max()}};
std::vector<Bad<std::uint8_t>> const byte_ids{{"255 in 8 bits", 255}};

enum class Way : unsigned char { pulled, stepped, started, second_of_two };

struct Result {
  std::string name, complaint;
};

// What all ranks know of a batch: who is to have a bad id, and where.
struct Plan {
  int culprit;
  std::size_t position, size;
  Way way;
};

// One batch with a bad id on one rank; `update(ids, rows)` and `index(ids)` are of the variable at hand.
template <class Id, class V>
Answer refused(ThreadModel& m, V& variable, Plan const& plan, Id bad, std::mt19937_64& random) {
  using T = typename V::scalar_type;
  std::vector<Id> ids(plan.size);
  for (Id& id : ids) id = static_cast<Id>(random() % static_cast<std::uint64_t>(variable.rows()));
  if (m.rank() == plan.culprit) ids[plan.position] = bad;
  std::vector<T> const rows(ids.size() * static_cast<std::size_t>(variable.width()), T{1});
  std::vector<float> const hidden(37, 1.0f);
  return answer_of([&] {
    switch (plan.way) {
      case Way::pulled: {
        auto const handle = m.session.pull(variable, ids);
        return;
      }
      case Way::second_of_two: {
        std::vector<Id> const none;
        auto const handles = m.session.pull(variable.at(none), variable.at(ids));
        return;
      }
      case Way::stepped: m.session.step(px::grad(m.hidden, hidden), px::grad(variable, ids, rows)); return;
      case Way::started:
        m.session.start(px::grad(variable, ids, rows));
        m.session.poll();
        m.session.step(px::grad(m.hidden, hidden));
    }
  });
}

template <class Id, class V>
Result one_batch(ThreadModel& m, V& variable, std::vector<Bad<Id>> const& all, std::mt19937_64& common, std::mt19937_64& own,
                 bool narrow_table) {
  Bad<Id> bad = all[common() % all.size()];
  if (std::string{bad.name} == "rows") bad.value = static_cast<Id>(variable.rows());
  Plan plan{static_cast<int>(common() % static_cast<std::uint64_t>(m.session.size())), 0, 1 + common() % 12,
            static_cast<Way>(common() % 4)};
  plan.position = common() % plan.size;
  std::uint64_t const before = m.hash();
  Answer const a = refused(m, variable, plan, bad.value, own);
  bool const pulls = plan.way == Way::pulled || plan.way == Way::second_of_two;
  std::string const detail = "index " + std::to_string(bad.value) + " at position " + std::to_string(plan.position) +
                             " is outside [0, " + std::to_string(variable.rows()) + ")";
  Result result{bad.name + std::string{narrow_table ? ", table by int32" : ""}, ""};
  if (a.code != px::Errc::bad_id || a.rank != plan.culprit || a.variable != variable.name() || a.detail != detail ||
      a.operation != (pulls ? "pull" : "step"))
    result.complaint = "rank " + std::to_string(plan.culprit) + ", " + detail + ": " + (a.refused ? a.what : "silent");
  else if (m.hash() != before) result.complaint = "something was written: " + a.what;
  return result;
}

}  // namespace

TEST_CASE("R7 a bad id is named by rank, position and value, and nothing is written", "[trust][ids]") {
  Table table{"R7 batches with exactly one bad id: 1, 2, 3, 4 ranks, every policy"};
  int const batches = 2520;  // with each number of ranks
  for (int const ranks : {1, 2, 3, 4}) {
    auto const results = on_ranks(ranks, [&](Threads& world) {
      std::vector<Result> seen;
      ThreadModel m{px::Topology{world}};
      m.train(1, 0);
      std::mt19937_64 common{20260901u + static_cast<unsigned>(ranks)}, own{static_cast<std::uint64_t>(world.rank()) + 1};
      for (int batch = 0; batch < batches; ++batch) {
        switch (batch % 9) {
          case 0: seen.push_back(one_batch(m, m.words, signed_ids, common, own, false)); break;
          case 1: seen.push_back(one_batch(m, m.exact, signed_ids, common, own, true)); break;
          case 2: seen.push_back(one_batch(m, m.copy, signed_ids, common, own, false)); break;
          case 3: seen.push_back(one_batch(m, m.whole, signed_ids, common, own, false)); break;
          case 4: seen.push_back(one_batch(m, m.naive, signed_ids, common, own, false)); break;
          case 5: seen.push_back(one_batch(m, m.words, unsigned_ids, common, own, false)); break;
          case 6: seen.push_back(one_batch(m, m.exact, unsigned_ids, common, own, true)); break;
          case 7: seen.push_back(one_batch(m, m.exact, narrow_ids, common, own, true)); break;
          default: seen.push_back(one_batch(m, m.words, byte_ids, common, own, false));
        }
        if (batch % 100 == 99) m.train(1, 1 + batch / 100);
      }
      m.session.finish();
      seen.push_back({"", std::to_string(m.hash())});
      return seen;
    });
    auto const undisturbed = on_ranks(ranks, [&](Threads& world) {
      ThreadModel m{px::Topology{world}};
      for (int step = 0; step <= batches / 100; ++step) m.train(1, step);
      return std::to_string(m.hash());
    });
    for (int batch = 0; batch < batches; ++batch) {
      std::string complaint;
      for (auto const& of_rank : results)
        if (!of_rank[static_cast<std::size_t>(batch)].complaint.empty())
          complaint = of_rank[static_cast<std::size_t>(batch)].complaint;
      table.count(results[0][static_cast<std::size_t>(batch)].name, complaint);
    }
    for (std::size_t rank = 0; rank < results.size(); ++rank) CHECK(results[rank].back().complaint == undisturbed[rank]);
  }
  table.check(10'000);
}

}  // namespace parallax_test::trust_ids
