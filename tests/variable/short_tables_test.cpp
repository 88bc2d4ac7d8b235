// Tables that are kept in 16 bits, against one process that keeps them so by hand: every step computes in float, and rounds.
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/checkpoint/whole.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/interop/safetensors.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

constexpr std::int64_t rows = 13, width = 5;
constexpr int steps = 12;

// What a rank names in a step; one of them twice.
std::vector<int> ids_of(int rank, int step) {
  return {(3 * step + rank) % 13, (step * step) % 13, (5 + rank) % 13, (3 * step + rank) % 13};
}
// The gradient of position i: multiples of 1/64, of which any few are summed exactly, in any order.
float gradient_at(int rank, int step, std::size_t i, std::int64_t column) {
  return static_cast<float>((rank * 31 + step * 7 + static_cast<int>(i) * 5 + static_cast<int>(column) * 3) % 23 - 11) / 64;
}

// By hand, in one process: rows of T; slots in float; the sums of all ranks, over their number.
template <class T>
struct ByHand {
  std::vector<T> table;
  std::vector<float> first, second;

  explicit ByHand(std::vector<T> initial) : table{std::move(initial)}, first(table.size()), second(table.size()) {}

  // update(step, parameter, gradient, first slot, second slot) for the elements of rows that were named, or of all.
  template <class Update>
  void step(int ranks, int step, bool all, Update const& update) {
    std::map<int, std::array<float, width>> sums;
    for (int rank = 0; rank < ranks; ++rank) {
      auto const ids = ids_of(rank, step);
      for (std::size_t i = 0; i < ids.size(); ++i)
        for (std::int64_t c = 0; c < width; ++c) sums[ids[i]][static_cast<std::size_t>(c)] += gradient_at(rank, step, i, c);
    }
    for (int row = 0; row < rows; ++row) {
      if (!all && !sums.count(row)) continue;
      for (std::size_t c = 0; c < width; ++c) {
        std::size_t const at = static_cast<std::size_t>(row) * width + c;
        float parameter = table[at];
        update(step + 1, parameter, sums[row][c] / static_cast<float>(ranks), first[at], second[at]);
        table[at] = static_cast<T>(parameter);
      }
    }
  }
};

template <class T>
bool same(std::vector<T> const& one, std::vector<T> const& other) {
  return one.size() == other.size() && std::memcmp(one.data(), other.data(), one.size() * sizeof(T)) == 0;
}

std::vector<int> all_ids() {
  std::vector<int> ids;
  for (int row = 0; row < rows; ++row) ids.push_back(row);
  return ids;
}
// All rows, as a pull brings them: in float.
template <class S, class V>
std::vector<float> pulled(S& session, V const& table) {
  auto const all = session.pull(table, all_ids());
  std::vector<float> values;
  for (std::size_t i = 0; i < static_cast<std::size_t>(rows); ++i) values.insert(values.end(), all[i].begin(), all[i].end());
  return values;
}
template <class T>
std::vector<T> rounded(std::vector<float> const& values) {
  std::vector<T> narrow;
  for (float const value : values) narrow.push_back(static_cast<T>(value));
  return narrow;
}

px::Table const table_of_all{.rows = rows, .width = width, .initial = px::uniform(-1, 1)};

// The last rows of a training, and what they were made from.
template <class T>
struct Trained {
  std::vector<T> initial, last;
  bool kept_as_pulled = true;
};
template <class T, class Policy, class O>
Trained<T> train(int ranks, O const& optimizer) {
  Trained<T> result;
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    px::Session session{world};
    px::Variable<px::Sparse, Policy, O, T> table{session, "t", table_of_all, optimizer};
    auto const before = pulled(session, table);
    for (int step = 0; step < steps; ++step) {
      auto const ids = ids_of(world.rank(), step);
      auto const handle = session.pull(table, ids);
      std::vector<float> gradient;
      for (std::size_t i = 0; i < ids.size(); ++i)
        for (std::int64_t c = 0; c < width; ++c) gradient.push_back(gradient_at(world.rank(), step, i, c));
      session.step(px::grad(handle, gradient));
    }
    auto const after = pulled(session, table);
    bool right = true;
    px::RowsView<T> const local = table.local();
    for (std::int64_t row = 0; row < local.rows; ++row)
      for (std::int64_t c = 0; c < width; ++c)
        right = right &&
                static_cast<float>(local.row(row)[c]) == after[static_cast<std::size_t>(table.global_row(row) * width + c)];
    session.finish();
    if (world.rank() == 0) result.initial = rounded<T>(before), result.last = rounded<T>(after);
    if (!right) result.kept_as_pulled = false;
  });
  return result;
}

template <class T, class Policy, class O, class Update>
void check(O const& optimizer, bool all, Update const& update) {
  for (int ranks = 1; ranks <= 3; ++ranks) {
    CAPTURE(ranks, Policy::name);
    auto const trained = train<T, Policy>(ranks, optimizer);
    ByHand<T> expected{trained.initial};
    for (int step = 0; step < steps; ++step) expected.step(ranks, step, all, update);
    CHECK(same(trained.last, expected.table));
    CHECK(trained.kept_as_pulled);
  }
}
template <class T, class O, class Update>
void check_policies(O const& optimizer, bool all, Update const& update) {
  check<T, px::PsShard>(optimizer, all, update);
  check<T, px::AllReduce>(optimizer, all, update);
  check<T, px::AllGather>(optimizer, all, update);
}

}  // namespace

TEST_CASE("a table of 16 bits is computed with in float and rounded after every step", "[variable][short]") {
  check_policies<px::BFloat16>(px::Sgd{.learning_rate = 0.1}, false,
                               [](int, float& p, float g, float&, float&) { p -= 0.1f * g; });
  px::Adagrad const adagrad{.learning_rate = 0.1};
  auto const by_adagrad = [&](int step, float& p, float g, float& a, float&) { adagrad.at(step)(p, g, a); };
  check_policies<px::BFloat16>(adagrad, false, by_adagrad);
  check<px::Float16, px::PsShard>(adagrad, false, by_adagrad);
}

TEST_CASE("what an exact optimizer moves without a gradient is rounded after every step that passed it by",
          "[variable][short]") {
  px::Adam const adam{.learning_rate = 0.05};
  auto const by_adam = [&](int step, float& p, float g, float& m, float& v) { adam.at(step)(p, g, m, v); };
  check_policies<px::BFloat16>(adam, true, by_adam);
  check<px::Float16, px::AllReduce>(adam, true, by_adam);
}

TEST_CASE("a pull of rows of 16 bits moves two bytes for an element, and a push four", "[variable][short]") {
  constexpr int ranks = 3;
  std::array<std::uint64_t, ranks> sent{}, expected{};
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    int const rank = world.rank();
    px::Session session{world};
    px::Variable<px::Sparse, px::PsShard, px::Adagrad, px::BFloat16> table{session, "t", table_of_all};
    auto const owner = [&](int id) { return table.state().placement().layout().locate(id).owner; };
    for (int step = 0; step < steps; ++step) {
      auto const ids = ids_of(rank, step);
      session.step(px::grad(session.pull(table, ids), std::vector<float>(ids.size() * width, 1)));
      for (int other = 0; other < ranks; ++other) {
        auto const named = ids_of(other, step);
        std::set<int> const distinct(named.begin(), named.end());
        for (int const id : distinct)
          if (other == rank && owner(id) != rank) expected[static_cast<std::size_t>(rank)] += 4 * width;       // pushed
          else if (other != rank && owner(id) == rank) expected[static_cast<std::size_t>(rank)] += 2 * width;  // answered
      }
    }
    sent[static_cast<std::size_t>(rank)] = session.traffic().sent_of(px::Payload::rows).all;
    session.finish();
  });
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    CAPTURE(rank);
    CHECK(sent[rank] == expected[rank]);
  }
}

TEST_CASE("the model of a step counts pulled rows by what they are kept as", "[variable][short]") {
  px::TableFacts const wide{.rows = 100, .row_bytes = 40, .state_bytes = 80, .id_bytes = 8};
  px::TableFacts const halved{.rows = 100, .row_bytes = 40, .state_bytes = 60, .id_bytes = 8, .wire = 1, .pull_wire = 0.5};
  px::TableUse use;
  use.pushed = use.by_host = use.by_all = 10;
  use.pulled = 20;
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    px::RankShape const shape{px::Topology{world}};
    auto const predict = &px::PsShard::exchange<px::Sparse>::predict;
    double const more = predict(wide, use, shape, {}).bytes - predict(halved, use, shape, {}).bytes;
    if (more != 20 * 0.5 * 20) throw std::runtime_error{std::to_string(more)};  // half of the rows, each by 20 bytes less
  });
}

namespace {

// An empty folder, which goes with the object.
struct Folder {
  std::filesystem::path const path = std::filesystem::temp_directory_path() / ("parallax_short_" + std::to_string(::getpid()));
  Folder() { std::filesystem::remove_all(path); }
  ~Folder() { std::filesystem::remove_all(path); }
};

// Bags, assigned and scaled rows, a slot, replicas: what else reads or writes rows.
template <class T>
void use_otherwise(px::ThreadCommunicator& world, Folder const& folder) {
  px::Session session{world};
  px::Variable<px::Sparse, px::Adagrad, T> table{session, "t", table_of_all};
  px::Variable<px::Sparse, px::AllReduce, px::Sgd, T> replicated{session, "r", table_of_all};
  auto const all = all_ids();
  std::vector<float> given;
  for (std::size_t i = 0; i < all.size() * width; ++i) given.push_back(static_cast<float>(i) / 7);
  session.assign(table, all, given);
  auto expected = given;
  for (float& value : expected) value = static_cast<T>(value);
  if (pulled(session, table) != expected) throw std::runtime_error{"assigned rows are not the rounded ones"};
  session.scale(table, all, 0.3);
  for (float& value : expected) value = static_cast<T>(value * 0.3f);
  if (pulled(session, table) != expected) throw std::runtime_error{"scaled rows are not the rounded ones"};
  std::vector<int> const bag{1, 4, 1}, offsets{0, 3};
  auto const bags = session.pull(table.bags(bag, offsets));
  for (std::size_t c = 0; c < width; ++c)
    if (bags[0][c] != expected[width + c] + expected[4 * width + c] + expected[width + c]) throw std::runtime_error{"a bag"};
  if (table.template slot<float>("sum").rows != table.local_rows()) throw std::runtime_error{"a slot of Adagrad"};
  replicated.local().row(2)[3] = static_cast<T>(static_cast<float>(world.rank() + 40));
  session.broadcast(replicated);
  if (static_cast<float>(replicated.local().row(2)[3]) != 40) throw std::runtime_error{"a replica is not that of rank 0"};
  std::vector<float> whole;
  session.gather(table, {.at = px::WholeAt::every_rank}, [&](auto, px::RowsView<T const> part) {
    for (std::int64_t row = 0; row < part.rows; ++row)
      for (std::int64_t c = 0; c < width; ++c) whole.push_back(part.row(row)[c]);
  });
  if (whole != expected) throw std::runtime_error{"the whole table"};
  session.save(folder.path.string(), {}, table, replicated);
  session.finish();
}
template <class T>
std::vector<float> restored(px::ThreadCommunicator& world, Folder const& folder) {
  px::Session session{world};
  px::Variable<px::Sparse, px::Adagrad, T> table{session, "t", table_of_all};
  px::Variable<px::Sparse, px::AllReduce, px::Sgd, T> replicated{session, "r", table_of_all};
  session.restore(folder.path.string(), {}, table, replicated);
  auto values = pulled(session, table);
  session.finish();
  return values;
}

template <class T>
void check_otherwise(char const* dtype) {
  Folder const folder;
  px::run_threads(2, [&](px::ThreadCommunicator& world) { use_otherwise<T>(world, folder); });
  std::vector<float> expected;
  for (std::size_t i = 0; i < static_cast<std::size_t>(rows * width); ++i)
    expected.push_back(static_cast<T>(static_cast<float>(static_cast<T>(static_cast<float>(i) / 7)) * 0.3f));
  px::run_threads(3, [&](px::ThreadCommunicator& world) {  // of another size
    if (restored<T>(world, folder) != expected) throw std::runtime_error{"restored rows"};
  });
  int of_table = 0;
  for (auto const& entry : std::filesystem::recursive_directory_iterator{folder.path})
    if (entry.path().extension() == ".safetensors") {
      px::safetensors::Reader const file{entry.path().string()};
      for (std::size_t i = 0; i < file.size(); ++i)
        if (file.tensor(i).name == "t/values" && to_string(file.tensor(i).dtype) == dtype)
          of_table += static_cast<int>(file.values<T>(i).size() / width);
    }
  CHECK(of_table == rows);
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    px::Session session{world};
    px::Variable<px::Sparse, px::Adagrad> wide{session, "t", table_of_all};
    px::Variable<px::Sparse, px::AllReduce, px::Sgd, T> replicated{session, "r", table_of_all};
    std::string words;
    try {
      session.restore(folder.path.string(), {}, wide, replicated);
    } catch (px::Error const& error) {
      words = error.what();
    }
    std::string const sentence = std::string{"'values': it is 13 x 5 of "} + dtype + ", not 13 x 5 of F32";
    if (words.find(sentence) == words.npos) throw std::runtime_error{words};
    session.finish();
  });
}

}  // namespace

TEST_CASE("rows of 16 bits are assigned, scaled, pooled, broadcast, gathered whole and saved as they are",
          "[variable][short]") {
  check_otherwise<px::BFloat16>("BF16");
  check_otherwise<px::Float16>("F16");
}
