// Tables whose rows are assigned, scaled and trained in random order, beside a map in which every row is moved by hand.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "parallax/parallax.hpp"

namespace parallax_test::assigning {

namespace px = parallax;

inline constexpr std::int64_t rows = 17, width = 3;

// All rows, with their velocities: multiples of small powers of 2, so that no operation rounds.
class ByHand {
 public:
  using Row = std::vector<double>;
  ByHand() {
    for (std::int64_t id = 0; id < rows; ++id) values_[id] = velocities_[id] = Row(width, 0.0);
    for (auto& [id, row] : values_) row.assign(width, 1.0);
  }
  // v = v / 2 + g, p = p - v / 4: every row, touched or not.
  void step(std::map<std::int64_t, Row> const& sums) {
    for (auto& [id, row] : values_)
      for (std::size_t c = 0; c < width; ++c) {
        auto const sum = sums.find(id);
        double& v = velocities_[id][c];
        v = v / 2 + (sum == sums.end() ? 0 : sum->second[c]);
        row[c] -= v / 4;
      }
  }
  void set(std::int64_t id, Row const& row) { values_[id] = row; }
  void multiply(std::int64_t id, double by) {
    for (double& value : values_[id]) value *= by;
  }
  Row const& operator[](std::int64_t id) const { return values_.at(id); }

 private:
  std::map<std::int64_t, Row> values_, velocities_;
};

// What a rank names in an operation; every rank can tell it of all. Some name none, and some a row twice.
inline std::vector<std::int64_t> ids_of(std::uint64_t seed, int number, int rank) {
  std::mt19937_64 random{seed * 1'000 + static_cast<std::uint64_t>(number * 10 + rank)};
  std::vector<std::int64_t> ids(random() % 5);
  for (auto& id : ids) id = static_cast<std::int64_t>(random() % rows);
  return ids;
}
// A row's value in an operation, whoever names it.
inline std::vector<double> row_of(std::uint64_t seed, int number, std::int64_t id) {
  std::mt19937_64 random{seed + static_cast<std::uint64_t>(number * 100 + id)};
  std::vector<double> row(width);
  for (double& value : row) value = static_cast<double>(random() % 33) / 8 - 2;
  return row;
}

template <class Policy, class C>
class Training {
 public:
  explicit Training(px::Session<C>& session, std::uint64_t seed)
      : session_{&session},
        seed_{seed},
        table_{session, std::string{Policy::name}, {rows, width, px::constant(1)},
               px::Momentum{.learning_rate = 0.25, .momentum = 0.5}, px::Reduce::sum} {}

  // Empty, or what differs on this rank.
  std::string run(int number) {
    std::mt19937_64 random{seed_ + static_cast<std::uint64_t>(number)};
    auto const rows_for = [&](std::vector<std::int64_t> const& ids) {
      std::vector<double> all;
      for (auto const id : ids)
        for (double const value : row_of(seed_, number, id)) all.push_back(value);
      return all;
    };
    auto const pushed = ids_of(seed_, number, session_->rank());
    auto const ids = ids_of(seed_, 50 + number, session_->rank());  // others, which the step has passed by
    auto next = session_->prefetch(table_, ids_of(seed_, number + 1, session_->rank()));
    int const operation = static_cast<int>(random() % 3);
    std::set<std::int64_t> named;
    std::map<std::int64_t, ByHand::Row> sums;
    for (int rank = 0; rank < session_->size(); ++rank) {
      for (auto const id : ids_of(seed_, 50 + number, rank)) named.insert(id);
      for (auto const id : ids_of(seed_, number, rank)) {
        auto& sum = sums.try_emplace(id, ByHand::Row(width, 0.0)).first->second;
        for (std::size_t c = 0; c < width; ++c) sum[c] += row_of(seed_, number, id)[c];
      }
    }
    session_->step(px::grad(table_, pushed, rows_for(pushed)));  // after which the rows of `next` are on their way
    by_hand_.step(sums);
    if (operation == 0) {
      session_->assign(table_, ids, rows_for(ids));
      for (auto const id : named) by_hand_.set(id, row_of(seed_, number, id));
    } else if (operation == 1) {
      double const factor = number % 2 == 0 ? 0.5 : -2;
      session_->scale(table_, ids, factor);
      for (auto const id : named) by_hand_.multiply(id, factor);
    }
    auto const pulled = session_->pull(std::move(next));
    auto const pulled_ids = ids_of(seed_, number + 1, session_->rank());
    for (std::size_t i = 0; i < pulled_ids.size(); ++i)
      if (auto const found = compare(pulled_ids[i], pulled[i].data()); !found.empty())
        return "operation " + std::to_string(number) + " pulls " + found;
    return {};
  }
  std::string end() {
    auto const local = table_.local();
    for (std::int64_t row = 0; row < local.rows; ++row)
      if (auto const found = compare(table_.global_row(row), local.row(row)); !found.empty()) return "at the end " + found;
    return {};
  }

 private:
  std::string compare(std::int64_t id, double const* row) const {
    for (std::size_t c = 0; c < width; ++c)
      if (row[c] != by_hand_[id][c])
        return "row " + std::to_string(id) + ": " + std::to_string(row[c]) + " for " + std::to_string(by_hand_[id][c]);
    return {};
  }

  px::Session<C>* session_;
  std::uint64_t seed_;
  px::Variable<px::Sparse, Policy, px::Momentum, double> table_;
  ByHand by_hand_;
};

// Collective. What differs on this rank from the rows by hand, under any policy.
template <class C>
std::string complaint(px::Topology<C> const& topology, std::uint64_t seed) {
  px::Costs costs;
  costs.round = 1;  // the table under Auto goes over to AllGather
  px::Session session{topology, {.choice = {.first_step = 4, .interval = 100, .costs = costs}}};
  Training<px::PsShard, C> sharded{session, seed};
  Training<px::AllGather, C> gathered{session, seed + 1};
  Training<px::AllReduce, C> densified{session, seed + 2};
  Training<px::Auto, C> moving{session, seed + 3};
  std::string said;
  auto const each = [&](auto const& what) {
    for (auto const& found : {what(sharded), what(gathered), what(densified), what(moving)})
      if (!found.empty() && said.empty()) said = found + ", seed " + std::to_string(seed);
  };
  for (int number = 0; number < 12; ++number) each([&](auto& training) { return training.run(number); });
  each([](auto& training) { return training.end(); });
  session.finish();
  return said;
}

}  // namespace parallax_test::assigning
