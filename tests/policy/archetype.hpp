// States of variables with the members that the concepts of policy/state.hpp name, and no others; what they keep is in Kept, for the
// test to look at. A way that asks for more does not compile with them.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "parallax/detail/policy/auto.hpp"

namespace parallax_test::archetype {

namespace px = parallax;

// What a test gives a state, and finds in it. `values`: all elements, or all rows of a table, of which only the owned ones count
// where owners keep shards.
struct Kept {
  std::vector<float> values;
  std::size_t unit = 1;  // elements of a row, or of a table's row
  float rate = 1;        // of the rule: p -= rate · g
  px::Reduce reduce = px::Reduce::sum;
  px::BadIds bad_ids = px::BadIds::error;
  std::vector<std::int64_t> firsts = {};  // of a stack's tables, and the end
  int reserved = 0, begun = 0, updates = 0, settled = 0, refused = 0, placements = 0;
  std::size_t dropped = 0;
};

// What a policy keeps, which its ways tell of the end of a step.
struct Told {
  Kept* kept = nullptr;
  void settled() { ++kept->settled; }
  void refused() { ++kept->refused; }
};

// What both kinds have.
template <class E, class Result>
class State : public px::Counted {
 public:
  using scalar_type = float;
  using space = px::HostSpace;
  using Exchange = E;

  explicit State(Kept& kept) : policy_state{&kept}, kept_{&kept} {}

  std::string const& name() const { return name_; }
  px::RowOps<px::HostSpace> const& ops() const { return ops_; }
  px::Reduce reduce() const { return kept_->reduce; }
  void reserve_update() { ++kept_->reserved; }
  void end_update() { ++kept_->updates; }

  px::Merging<Result> merging;
  Told policy_state;

 protected:
  Kept& kept() const { return *kept_; }

 private:
  Kept* kept_;
  std::string name_ = "archetype";
  px::RowOps<px::HostSpace> ops_{};
};

struct Rule {
  float rate;
  Rule finish(px::Measures<1> const& squares, std::int64_t elements) const {
    return {rate / (1 + static_cast<float>(squares[0]) / static_cast<float>(elements))};
  }
};

// Of dense variables, but for the rule.
template <class E>
class Dense : public State<E, std::span<float>> {
 public:
  using State<E, std::span<float>>::State;
  static constexpr bool sharded = E::sharded;

  std::span<float> values() const { return this->kept().values; }
  std::size_t size() const { return this->kept().values.size(); }
  std::size_t unit() const { return this->kept().unit; }
  Rule rule() const { return {this->kept().rate}; }
  void average(std::span<float> sum, int ranks) const {
    for (float& value : sum) value /= by(ranks);
  }
  void begin_update() { ++this->kept().begun; }

 protected:
  float by(int ranks) const { return this->reduce() == px::Reduce::sum ? 1.0f : static_cast<float>(ranks); }
  void move(std::size_t first, float const* gradients, std::size_t count, float divisor, float scale, float rate) {
    for (std::size_t i = 0; i < count; ++i) this->kept().values[first + i] -= rate * (gradients[i] / divisor * scale);
  }
};
template <class E>
class ByElement : public Dense<E> {
 public:
  using Dense<E>::Dense;
  static constexpr bool by_element = true, measures = false;
  float divisor(int ranks) const { return this->by(ranks); }
  void apply(std::size_t first, float const* gradients, std::size_t count, float scale, Rule rule) {
    this->move(first, gradients, count, 1, scale, rule.rate);
  }
  void apply_sums(std::size_t first, float const* sums, std::size_t count, float divisor, float scale, Rule rule) {
    this->move(first, sums, count, divisor, scale, rule.rate);
  }
};
template <class E>
class ByRow : public Dense<E> {
 public:
  using Dense<E>::Dense;
  static constexpr bool by_element = false, measures = false;
  void apply(std::size_t first, float const* gradients, std::size_t count, float scale, Rule rule) {
    this->move(first, gradients, count, 1, scale, rule.rate);
  }
};
template <class E>
class ByTensor : public Dense<E> {
 public:
  using Dense<E>::Dense;
  static constexpr bool by_element = false, measures = true;
  static constexpr std::size_t measured_sums = 1;
  void measure(std::size_t, float const* gradients, std::size_t count, float scale, double* out) {
    for (std::size_t i = 0; i < count; ++i) *out += gradients[i] * scale * gradients[i] * scale;
  }
  void finish(std::size_t first, float const* gradients, std::size_t count, float scale, Rule rule) {
    this->move(first, gradients, count, 1, scale, rule.rate);
  }
};

// Rows in turn to two owners.
class Halves {
 public:
  explicit Halves(std::int64_t rows) : bases_{0, (rows + 1) / 2, rows} {}
  std::int64_t key(std::int64_t row) const { return bases_[static_cast<std::size_t>(row % 2)] + row / 2; }
  std::int64_t row(std::int64_t key) const { return key < bases_[1] ? 2 * key : 2 * (key - bases_[1]) + 1; }
  std::span<std::int64_t const> bases() const { return bases_; }

 private:
  std::vector<std::int64_t> bases_;
};

struct Uses {
  double pushed = 0, merged = 0, owned = 0;
};

// Of tables. `P`: for the name of a policy.
template <class P, bool is_lazy = false, class Use = Uses>
class Table : public State<typename P::template exchange<px::Sparse>, px::ReducedRows<std::int64_t, float>> {
 public:
  using Base = State<typename P::template exchange<px::Sparse>, px::ReducedRows<std::int64_t, float>>;
  using index_type = std::int64_t;
  using Plan = px::RowPlan<std::int64_t>;
  using policy = P;
  static constexpr bool lazy = is_lazy, placed_there = false;

  explicit Table(Kept& kept) : Base{kept}, placement_{static_cast<std::int64_t>(kept.values.size() / kept.unit)} {}

  std::int64_t rows() const { return placement_.bases().back(); }
  std::int64_t width() const { return static_cast<std::int64_t>(this->kept().unit); }
  std::size_t tables() const { return this->kept().firsts.empty() ? 1 : this->kept().firsts.size() - 1; }
  std::int64_t first_row(std::size_t table) const { return this->kept().firsts[table]; }
  bool counted() const { return this->reduce() == px::Reduce::mean_by_count; }
  px::BadIds bad_ids() const { return this->kept().bad_ids; }
  void count_dropped(std::size_t indices) { this->kept().dropped += indices; }
  px::PaddedBatches<px::HostSpace>& padded() { return padded_; }
  Halves const& placement() const { return placement_; }
  Plan& take_plan() {
    for (auto const& plan : plans_)
      if (plan->users == 0) return *plan;
    return *plans_.emplace_back(px::make_owned<Plan>());
  }
  std::span<std::int64_t const> rows_of(std::span<std::int64_t const> keys) {
    rows_of_.clear();
    for (auto const key : keys) rows_of_.push_back(placement_.row(key));
    return rows_of_;
  }
  std::span<std::int64_t const> rows_named(std::span<std::int64_t const> keys) { return rows_of(keys); }
  void average(px::ReducedRows<std::int64_t, float> const& reduced, int ranks) {
    for (std::size_t i = 0; i < reduced.keys.size(); ++i)
      for (std::size_t c = 0; c < this->kept().unit; ++c) {
        float& value = reduced.rows[i * this->kept().unit + c];
        if (counted()) value /= static_cast<float>(reduced.counts[i]);
        else if (this->reduce() == px::Reduce::mean) value /= static_cast<float>(ranks);
      }
  }
  double average_by_scale(int ranks) const { return counted() ? 0 : this->reduce() == px::Reduce::sum ? 1 : 1.0 / ranks; }
  void apply(std::span<std::int64_t const> keys, float const* gradients, float scale) {
    for (std::size_t i = 0; i < keys.size(); ++i)
      move(holds_all() ? keys[i] : placement_.row(keys[i]), gradients + i * this->kept().unit, scale);
  }
  void apply_densified(std::int64_t first, px::RowsView<float const> gradients, bool counted, float scale) {
    for (std::int64_t i = 0; i < gradients.rows; ++i)
      if (float const* const row = gradients.row(i); !counted || row[gradients.width] > 0) move(first + i, row, scale);
  }

  Use seen;

 protected:
  bool all_ = !Base::Exchange::sharded;  // whether this rank holds all rows

 private:
  bool holds_all() const { return all_; }
  void move(std::int64_t row, float const* gradient, float scale) {
    for (std::size_t c = 0; c < this->kept().unit; ++c)
      this->kept().values[static_cast<std::size_t>(row) * this->kept().unit + c] -= this->kept().rate * (gradient[c] * scale);
  }

  Halves placement_;
  std::vector<px::Owned<Plan>> plans_;
  std::vector<std::int64_t> rows_of_;
  px::PaddedBatches<px::HostSpace> padded_;
};

struct Pieces {
  std::int64_t pieces = 2;
};

// Of tables under Choose. Rows that a rank does not hold are zeros after a move to shards.
template <class P>
class AdaptiveTable : public Table<P, false, px::Chooser::Seen> {
 public:
  using Base = Table<P, false, px::Chooser::Seen>;
  struct Moved {
    std::size_t choice;
    Pieces partitioner;
    std::vector<float> room;
    px::MoveRoute<std::int64_t> route;
    px::List<px::MovingArray> arrays;
  };

  using Base::Base;

  static px::Slice<px::Choice const> choices() { return Base::Exchange::choices; }
  std::size_t choice() const { return choice_; }
  bool shards() const { return choices()[choice_].sharded; }
  Pieces const& partitioner() const { return partitioner_; }
  px::TableFacts facts() const { return {static_cast<double>(this->rows()), 8, 8, 8}; }
  void change_choice(std::size_t choice) { choice_ = choice; }
  template <class C>
  Moved begin_move(px::Topology<C> const& topology, std::size_t choice, Pieces const& partitioner) {
    Kept& kept = this->kept();
    Moved moved{choice, partitioner, std::vector<float>(kept.values.size()), {}, {}};
    std::size_t const bytes = kept.unit * sizeof(float);
    moved.arrays.push_back(
        {reinterpret_cast<std::byte const*>(kept.values.data()), reinterpret_cast<std::byte*>(moved.room.data()), bytes});
    bool const spreads = shards() && !choices()[choice].sharded;
    auto& route = moved.route;
    for (int rank = 0; rank < topology.size(); ++rank) {
      route.in_begin.push_back(route.in.size());
      if (!spreads) route.out_begin.push_back(route.out.size());
      if (!spreads && rank != topology.rank()) continue;
      for (std::int64_t row = rank; row < this->rows(); row += 2) {
        route.in.push_back(row);
        if (rank == topology.rank()) route.out.push_back(row);
      }
    }
    route.in_begin.push_back(route.in.size());
    if (!spreads) route.out_begin.push_back(route.out.size());
    if (spreads) route.longest = static_cast<std::size_t>((this->rows() + 1) / 2);
    return moved;
  }
  void end_move(Moved&& moved, bool other_placement) {
    this->kept().values = std::move(moved.room);
    choice_ = moved.choice;
    partitioner_ = moved.partitioner;
    this->all_ = !shards();
    this->kept().placements += other_placement;
  }

  px::Chooser chooser;
  px::Owned<px::PieceSearch> search;
  std::size_t told_words = 0;
  double step_began = 0;

 private:
  std::size_t choice_ = 0;
  Pieces partitioner_;
};

}  // namespace parallax_test::archetype
