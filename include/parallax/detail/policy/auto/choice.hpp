// The choice of `Auto` among policies: the cost of a table's step under each, by its measured use and a model of the machine. A
// step calls it as its last act, for each table under Auto (detail/policy/auto/adaptation.hpp).
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "parallax/core/archive.hpp"
#include "parallax/core/fields.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/math.hpp"
#include "parallax/policy/policy.hpp"

namespace parallax::inline v0_2 {

// Settings of Auto, alike on all ranks: this is checked. The first choice is made after `first_step` steps of a variable, then
// one in every `interval` steps. A policy is left for one that is `margin` times faster by the model (the first time: faster at
// all), if the saving in `horizon` steps exceeds the cost of moving the rows. Every rank holds the whole table, with the
// optimizer's state, only if it is at most `replica_bytes`.
struct AutoOptions {
  // Steps of a variable before its first choice.
  int first_step = 2, interval = 20;  // steps from choice to choice; less than 1 is like 1
  // Least speed of another policy, in times of the present one.
  double margin = 1.1, horizon = 1000;  // steps in which a move must have paid
  // Bytes of a table, with its slots, for a rank that holds it whole.
  double replica_bytes = 0x1p30;
  // Costs of tables in the host's memory; if all are 0, here or for a device, the session measures them at the first use.
  Costs costs = {}, device_costs = {};  // of tables in a device's

  // Compares bit for bit.
  friend bool operator==(AutoOptions const& one, AutoOptions const& other) {
    static_assert(sizeof(AutoOptions) == 2 * sizeof(int) + 3 * sizeof(double) + 2 * sizeof(Costs));  // there is no padding
    return std::memcmp(&one, &other, sizeof one) == 0;
  }
};

// The reason for a variable's move to a policy or number of pieces. `Session::decisions` has all; an archive keeps them.
struct Decision {
  // Number of the session's steps so far, including the one at whose end it was made.
  std::int64_t step;
  // The variable's name.
  std::string variable, text;  // the reason, as a sentence
};

// One of the policies to choose from, without its type.
struct Choice {
  // The policy's name.
  std::string_view name;
  // True if a rank holds its own rows only.
  bool sharded, densified;  // no rank learns of the rows that others touched
  // The prediction of the policy's exchange.
  Prediction (*predict)(TableFacts const&, TableUse const&, RankShape const&, Costs const&);
};
// Returns `Policy`, for variables of a kind, as one of several to choose from.
template <class Policy, class Kind>
constexpr Choice choice_of() {
  using E = typename Policy::template exchange<Kind>;
  return {Policy::name, E::sharded, is_densified<E>, &E::predict};
}

namespace detail {

// Returns a number in three digits, for the reasons of decisions.
template <class Text = std::string>
Text short_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

}  // namespace detail

// Returns the seconds for a move of a table's rows, with the optimizer's state, from one policy's place to another's. From
// shards to every rank: a rank sends its share to all others, and takes in the whole. Among shards it sends and takes in a
// share. From every rank to shards it copies its own, and sends nothing. If every rank keeps the whole, no row moves.
inline double moving_seconds(Choice const& from, Choice const& to, TableFacts const& table, RankShape const& shape,
                             Costs const& costs) {
  double const whole = table.rows * table.state_bytes, ranks = shape.ranks();
  if (!from.sharded) return to.sharded ? whole / ranks * costs.per_stream_byte : 0;
  double const sent = to.sharded ? whole / ranks : whole / ranks * (ranks - 1);
  double const received = to.sharded ? sent : whole;
  return sent * std::max(costs.per_byte, costs.host_per_byte) + received * costs.per_stream_byte;
}

// The use of a table, as all ranks know it, and the decision for a move to another policy. The state of a sparse variable owns
// one. All functions are local. They are told the same on all ranks, and so decide alike. `Number` is double.
template <class Number = double>
class BasicChooser {
 public:
  // A rank's view of one step. `merged`: rows merged for its host; `owned`: rows of the sum that it owns, or, if every rank has
  // all, all of them. Of densified rows neither is known: 0.
  struct Seen {
    Number pushed = 0,  // distinct rows pushed by it, summed over the updates of the step
        pulled = 0,     // distinct rows pulled by it, summed over the pulls
        merged = 0,     // rows merged by it for its host; 0 without levels
        owned = 0;      // rows of the sum
  };
  // Number of the words told by a rank: the members of Seen.
  static constexpr std::size_t words = 4;

  // Takes in a step, after its commit. `current`: the policy in force; `words_of(rank)`: the rank's view, `words` numbers in
  // the order of Seen, the same on all ranks. The means begin as the first step's; a later step weighs a fifth.
  template <class WordsOf>
  void observe(Choice const& current, TableFacts const& table, RankShape const& shape, int ranks, WordsOf&& words_of) {
    TableUse now;
    double merged = 0, owned = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      auto const* const seen = words_of(rank);
      now.pushed += seen[0] / ranks;
      now.pulled += seen[1] / ranks;
      merged += seen[2];
      owned = current.sharded ? owned + seen[3] : std::max(owned, seen[3]);
    }
    double const expected_by_host = expected_union(table.rows, now.pushed, shape.per_host),
                 expected_by_all = expected_union(table.rows, now.pushed, shape.ranks());
    if (current.densified) {  // no rank learns of the rows that others touched: as overlapping as they were
      double const least = std::min(now.pushed, table.rows);  // two updates of a step may name a row twice
      now.by_host = std::clamp(expected_by_host * overlap_host_, least, table.rows);
      now.by_all = std::clamp(expected_by_all * overlap_all_, least, table.rows);
    } else {
      now.by_host = shape.per_host > 1 ? merged / shape.hosts : now.pushed;
      now.by_all = owned;
      if (now.pushed > 0) overlap_host_ = now.by_host / expected_by_host, overlap_all_ = now.by_all / expected_by_all;
    }
    double const weight = steps_++ == 0 ? 1.0 : 0.2;
    auto const blend = [&](double& mean, double value) { mean += weight * (value - mean); };
    blend(use_.pushed, now.pushed);
    blend(use_.pulled, now.pulled);
    blend(use_.by_host, now.by_host);
    blend(use_.by_all, now.by_all);
  }

  // Notes the outcome of a change. After false, for want of memory, no change to whole tables is proposed any more.
  void moved(bool done) { room_for_replicas_ = room_for_replicas_ && done; }

  // Shows an archive every number of the decision (core/archive.hpp).
  template <class Items>
  void visit(Items& items) {
    items.fields("auto.use", use_, Share::world);
    items.number("auto.steps", steps_, Share::world);
    items.number("auto.overlap_host", overlap_host_, Share::world);
    items.number("auto.overlap_all", overlap_all_, Share::world);
    items.number("auto.chosen", chosen_, Share::world);
    items.number("auto.room_for_replicas", room_for_replicas_, Share::world);
  }

  // Returns the means of the observed steps, the last of which weighs a fifth; zeros before the first.
  TableUse const& use() const { return use_; }
  // Returns the number of observed steps.
  std::int64_t steps() const { return steps_; }
  // Returns true if `choose` is to be asked now, after the last step.
  bool due(AutoOptions const& options) const {
    return steps_ >= options.first_step && (steps_ - options.first_step) % std::max(options.interval, 1) == 0;
  }

  // The number of the policy to go over to, and the reason as a sentence; nothing if `current` stays.
  struct Change {
    // Index into the choices.
    std::size_t to;
    // Names, use, and predicted milliseconds: the text of a Decision.
    std::string reason;
  };
  // Asks all policies for their seconds; returns the change to the fastest, or nothing if `current`, the number of the one in
  // force, stays. Every call but the first goes by the margin. `options.costs` are measured, and of the table's space.
  std::optional<Change> choose(Slice<Choice const> choices, std::size_t current, TableFacts const& table,
                               RankShape const& shape, AutoOptions const& options) {
    if (shape.ranks() == 1) return std::nullopt;  // it has all rows in place
    seconds_.assign(choices.size(), 0.0);
    for (std::size_t i = 0; i < choices.size(); ++i)
      seconds_[i] = choices[i].predict(table, use_, shape, options.costs).seconds;
    bool const replicas_fit = room_for_replicas_ && table.rows * table.state_bytes <= options.replica_bytes;
    std::size_t best = current;
    for (std::size_t i = 0; i < choices.size(); ++i)
      if ((choices[i].sharded || replicas_fit) && seconds_[i] < seconds_[best]) best = i;
    double const margin = chosen_ ? options.margin : 1.0;
    chosen_ = true;
    if (best == current) return std::nullopt;
    double const now = seconds_[current], then = seconds_[best];
    double const moving = moving_seconds(choices[current], choices[best], table, shape, options.costs);
    if (now < margin * then || (now - then) * options.horizon < moving) return std::nullopt;
    return Change{best, reason(choices, current, best, moving, table, shape)};
  }

 private:
  // Returns the number of distinct rows named by k draws of n different rows of a table, if they were independent. Rows seen
  // over rows expected are the overlap.
  static double expected_union(double rows, double n, double k) {
    return rows > 0 ? rows * (1 - detail::pow(1 - std::min(n / rows, 1.0), k)) : 0;
  }
  // Returns the text of a Change, by the seconds of the last `choose`.
  template <class Text = std::string>
  Text reason(Slice<Choice const> choices, std::size_t from, std::size_t to, double moving, TableFacts const& table,
              RankShape const& shape) const {
    Text text = std::string{choices[from].name} + " to " + std::string{choices[to].name} + ": of " +
                detail::short_text(table.rows) + " rows a rank touches " + detail::short_text(use_.pushed) + ", a host " +
                detail::short_text(use_.by_host) + ", all " + detail::short_text(use_.by_all) + "; on " +
                detail::short_text(shape.hosts) + " hosts of " + detail::short_text(shape.per_host) + " ranks a step takes";
    for (std::size_t i = 0; i < choices.size(); ++i)
      ((text += i == 0 ? " " : ", ") += detail::short_text(1e3 * seconds_[i]) + " ms by ") += choices[i].name;
    return text + "; moving takes " + detail::short_text(1e3 * moving) + " ms";
  }

  // Means, as all ranks know them.
  TableUse use_;
  std::int64_t steps_ = 0;
  // Rows seen over rows expected, of a host and of all ranks, as of the last step with known ones.
  double overlap_host_ = 1, overlap_all_ = 1;
  // True if `choose` was asked before; and true if no move has failed for want of memory.
  bool chosen_ = false, room_for_replicas_ = true;
  List<double> seconds_;  // scratch: of a step, by choice
};
// The chooser of a sparse variable.
using Chooser = BasicChooser<>;

}  // namespace parallax
