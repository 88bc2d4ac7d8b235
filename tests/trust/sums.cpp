// Duplicate indices and empty batches on any ranks, against sums in a std::map: exact in integers, bit for bit in the
// documented order otherwise.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <vector>

#include "../session/model.hpp"
#include "../support/size.hpp"
#include "table.hpp"
#include "../../benchmarks/baseline/naive_ps.hpp"

namespace parallax_test::trust_sums {
namespace {

using Threads = px::ThreadCommunicator;
using Row = std::vector<float>;

// A batch of one rank: indices and a row for each.
struct Batch {
  std::vector<int> ids;
  std::vector<Row> rows;
};

// Sums in the order of the library: a run in chunks of 64, each begun by a copy of its first row; the chunks likewise.
Row sum_of(std::vector<Row> const& run) {
  auto const add = [](Row& to, Row const& from) {
    for (std::size_t i = 0; i < to.size(); ++i) to[i] += from[i];
  };
  std::vector<Row> chunks;
  for (std::size_t i = 0; i < run.size(); ++i) {
    if (i % 64 == 0) chunks.push_back(run[i]);
    else add(chunks.back(), run[i]);
  }
  Row sum = chunks.front();
  for (std::size_t c = 1; c < chunks.size(); ++c) add(sum, chunks[c]);
  return sum;
}

enum class Order : unsigned char {
  by_rank,     // each rank's rows first, then over ranks that have the row
  all_ranks,   // each rank's rows first, then over all ranks, a zero from those that do not have it
  occurrences  // one after another, rank by rank
};

// The gradient of every row that somebody named.
std::map<int, Row> reference(std::vector<Batch> const& batches, std::size_t width, Order order, px::Reduce reduce) {
  std::map<int, std::vector<std::vector<Row>>> named;  // by row, then rank
  for (std::size_t rank = 0; rank < batches.size(); ++rank)
    for (std::size_t i = 0; i < batches[rank].ids.size(); ++i) {
      auto& of_ranks = named[batches[rank].ids[i]];
      of_ranks.resize(batches.size());
      of_ranks[rank].push_back(batches[rank].rows[i]);
    }
  std::map<int, Row> sums;
  for (auto const& [row, of_ranks] : named) {
    std::vector<Row> addends;
    std::size_t count = 0;
    for (auto const& run : of_ranks) {
      count += run.size();
      if (order == Order::occurrences) addends.insert(addends.end(), run.begin(), run.end());
      else if (!run.empty()) addends.push_back(sum_of(run));
      else if (order == Order::all_ranks) addends.push_back(Row(width, 0.0f));
    }
    Row sum = sum_of(addends);
    float const divisor = reduce == px::Reduce::sum    ? 1.0f
                          : reduce == px::Reduce::mean ? static_cast<float>(batches.size())
                                                       : static_cast<float>(count);
    for (float& value : sum) value /= divisor;
    sums[row] = sum;
  }
  return sums;
}

// Which ranks have nothing, and how often ids repeat.
std::vector<Batch> draw(std::mt19937_64& random, std::size_t ranks, int rows, std::size_t width, bool integers) {
  std::vector<Batch> batches(ranks);
  std::uint64_t const empty = random() % 4 == 0 ? random() : 0;  // a bit for each rank
  int const distinct = 1 + static_cast<int>(random() % (random() % 3 == 0 ? 2 : static_cast<std::uint64_t>(rows)));
  std::size_t const longest = random() % 8 == 0 ? 300 : 20;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    if (empty >> rank & 1) continue;
    std::size_t const count = random() % (longest + 1);
    for (std::size_t i = 0; i < count; ++i) {
      batches[rank].ids.push_back(static_cast<int>(random() % static_cast<std::uint64_t>(distinct)) * (rows / distinct));
      Row row(width);
      for (float& value : row) {
        auto const drawn = static_cast<float>(static_cast<int>(random() % 2001) - 1000);
        value = integers ? static_cast<float>(static_cast<int>(drawn) % 17) : drawn * 0.001f * (random() % 9 == 0 ? 1000.0f : 1.0f);
      }
      batches[rank].rows.push_back(row);
    }
  }
  return batches;
}

constexpr auto plain = px::Sgd{.learning_rate = 1};

// A table of every policy. With SGD of rate 1 from 0 a row ends as minus its gradient.
struct Tables {
  Tables(px::Session<Threads>& session, std::int64_t rows, std::int64_t width, px::Reduce reduce)
      : shard{session, "shard", {rows, width}, plain, reduce},
        gather{session, "gather", {rows, width}, plain, reduce},
        dense{session, "dense", {rows, width}, plain, reduce},
        naive{session, "naive", {rows, width}, plain, reduce} {}
  px::Variable<px::Sparse> shard;
  px::Variable<px::Sparse, px::AllGather> gather;
  px::Variable<px::Sparse, px::AllReduce> dense;
  px::Variable<px::Sparse, baseline::NaivePs> naive;

  template <class F>
  void each(F&& f) {
    f(shard, Order::by_rank), f(gather, Order::by_rank), f(dense, Order::all_ranks), f(naive, Order::occurrences);
  }
};

// The first row of this rank that is not minus its gradient.
template <class V>
std::string wrong_row(V& variable, std::map<int, Row> const& wanted, std::size_t width) {
  auto const local = variable.local();
  for (std::int64_t r = 0; r < local.rows; ++r) {
    auto const row = static_cast<int>(variable.global_row(r));
    auto const at = wanted.find(row);
    for (std::size_t k = 0; k < width; ++k) {
      float const expected = 0.0f - (at == wanted.end() ? 0.0f : at->second[k]);
      if (std::memcmp(&local[r][k], &expected, sizeof expected) != 0)
        return variable.name() + ": row " + std::to_string(row) + " has " + std::to_string(local[r][k]) + " instead of " +
               std::to_string(expected);
    }
  }
  return {};
}

template <class V>
void clear(V& variable) {
  auto const local = variable.local();
  std::fill_n(local.data, local.rows * local.width, 0.0f);
}

}  // namespace

TEST_CASE("R8 duplicates are summed in the documented order, whoever has none", "[trust][sums]") {
  Table table{"R8 batches under all four policies: 1 to 8 ranks"};
  constexpr int rows = 19;
  int const per_model = sized(10, 70, 70);
  for (int ranks = 1; ranks <= 8; ++ranks)
    for (std::size_t const width : {std::size_t{1}, std::size_t{5}, std::size_t{8}})
      for (px::Reduce const reduce : {px::Reduce::sum, px::Reduce::mean, px::Reduce::mean_by_count}) {
        auto const complaints = on_ranks(ranks, [&](Threads& world) {
          auto const rank = static_cast<std::size_t>(world.rank());
          std::mt19937_64 random{static_cast<std::uint64_t>(ranks) * 1000 + width * 10 + static_cast<std::uint64_t>(reduce)};
          px::Session session{world};
          Tables tables{session, rows, static_cast<std::int64_t>(width), reduce};
          std::vector<std::string> all;
          for (int i = 0; i < per_model; ++i) {
            auto const batches = draw(random, static_cast<std::size_t>(ranks), rows, width, i % 2 == 0);
            Batch const& own = batches[rank];
            std::vector<float> flat;
            for (Row const& row : own.rows) flat.insert(flat.end(), row.begin(), row.end());
            tables.each([](auto& variable, Order) { clear(variable); });
            if (i % 3 == 0) {
              auto const [s, g, n] = session.pull(tables.shard.at(own.ids), tables.gather.at(own.ids), tables.naive.at(own.ids));
              session.step(px::grad(s, flat), px::grad(g, flat), px::grad(tables.dense, own.ids, flat), px::grad(n, flat));
            } else {
              if (i % 3 == 1) {
                session.start(px::grad(tables.gather, own.ids, flat));
                session.step(px::grad(tables.shard, own.ids, flat), px::grad(tables.dense, own.ids, flat),
                             px::grad(tables.naive, own.ids, flat));
              } else {
                session.step(px::grad(tables.shard, own.ids, flat), px::grad(tables.gather, own.ids, flat),
                             px::grad(tables.dense, own.ids, flat), px::grad(tables.naive, own.ids, flat));
              }
            }
            std::string complaint;
            tables.each([&](auto& variable, Order order) {
              auto const found = wrong_row(variable, reference(batches, width, order, reduce), width);
              if (!found.empty()) complaint = "case " + std::to_string(i) + ", " + found;
            });
            all.push_back(complaint);
          }
          session.finish();
          return all;
        });
        for (int i = 0; i < per_model; ++i) {
          std::string complaint;
          for (auto const& of_rank : complaints)
            if (!of_rank[static_cast<std::size_t>(i)].empty()) complaint = of_rank[static_cast<std::size_t>(i)];
          table.count((i % 2 == 0 ? "integers, " : "floats, ") + std::string{px::to_string(reduce)} + ", width " +
                          std::to_string(width), complaint);
        }
      }
  table.check(8 * 3 * 3 * per_model);
}

}  // namespace parallax_test::trust_sums
