// How `Auto` chooses: what a step of a table costs under each method, by its measured use and a model of the machine.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "parallax/core/algorithm.hpp"
#include "parallax/core/fields.hpp"
#include "parallax/core/math.hpp"
#include "parallax/policy/costs.hpp"

namespace parallax {

// The ways of a sparse variable, those of the policies of these names.
enum class Method : unsigned char { ps_shard, all_gather, all_reduce };
inline constexpr Method methods[] = {Method::ps_shard, Method::all_gather, Method::all_reduce};
inline constexpr std::size_t method_count = std::size(methods);

constexpr std::string_view to_string(Method method) {
  return method == Method::ps_shard ? "PsShard" : method == Method::all_gather ? "AllGather" : "AllReduce";
}

// Alike on all ranks, which is checked. The first choice is made after `first_step` steps of a variable, then one in every
// `interval` steps. A method is left for one that the model calls `margin` times faster (the first time: faster at all), if
// what that saves in `horizon` steps is more than moving the rows costs. Every rank holds the whole table, with the optimizer's
// state, only where that is at most `replica_bytes`. `costs`, and `device_costs` of tables on a device, not measured: the
// session measures them when it first needs them.
struct AutoOptions {
  int first_step = 2, interval = 20;
  double margin = 1.1, horizon = 1000;
  double replica_bytes = 0x1p30;
  Costs costs = {}, device_costs = {};
};

// Why a variable was moved. `step` is the session's.
struct Decision {
  std::int64_t step;
  std::string variable, text;
};

// How a table is used in a step, in distinct rows: those that a rank pushes and pulls, those that a host pushes, and those
// that all ranks push. Means over ranks or hosts, and over recent steps.
struct TableUse {
  double pushed = 0, pulled = 0, by_host = 0, by_all = 0;
};

// What does not change about a table. `row_bytes`: of the parameters of a row; `state_bytes`: these and the optimizer's state.
struct TableFacts {
  double rows, row_bytes, state_bytes, id_bytes;
};

// What a step of one table is expected to need, without the agreements that all methods share: the bytes that a rank sends to
// other hosts, and seconds.
struct Prediction {
  double bytes = 0, seconds = 0;
};

// The ranks of a topology as the model sees them: `hosts` that exchange, each of `per_host` ranks that are summed first; where
// there is one level every rank is a host.
struct RankShape {
  double hosts, per_host;

  template <Communicator C>
  explicit RankShape(Topology<C> const& topology) : hosts{0} {
    auto const& of_rank = topology.hosts();  // without levels every rank's own
    for (auto host = of_rank.begin(); host != of_rank.end(); ++host) hosts += std::find(of_rank.begin(), host, *host) == host;
    per_host = static_cast<double>(topology.size()) / hosts;
  }
  RankShape(double its_hosts, double its_ranks_per_host) : hosts{its_hosts}, per_host{its_ranks_per_host} {}
  double ranks() const { return hosts * per_host; }
};

namespace detail {

template <class Text = std::string>
Text short_text(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", value);
  return text;
}

// Collects what a step needs. Bytes are those that a rank sends; nothing is sent where a hop has one rank.
class Bill {
 public:
  Bill(Costs const& costs, RankShape const& shape) : costs_{costs}, shape_{shape} {}

  void between_hosts(double rounds, double bytes) {
    if (shape_.hosts <= 1) return;
    sum_.bytes += bytes;
    sum_.seconds += rounds * costs_.round + bytes * costs_.per_byte;
  }
  void within_host(double rounds, double bytes) {
    if (shape_.per_host > 1) sum_.seconds += rounds * costs_.host_round + bytes * costs_.host_per_byte;
  }
  void keys(double count) { sum_.seconds += count * costs_.per_key; }
  void rows(double count, double bytes) { sum_.seconds += count * (costs_.per_row + bytes * costs_.per_row_byte); }
  void streamed(double bytes) { sum_.seconds += bytes * costs_.per_stream_byte; }
  Prediction sum() const { return sum_; }

 private:
  Costs const& costs_;
  RankShape const& shape_;
  Prediction sum_;
};

}  // namespace detail

// The closed form of each method's bytes is that of the counters, the means of `use` put in; where every rank of a hop sends
// to every other, (n - 1) / n of what it handles goes out.
inline Prediction predict(Method method, TableFacts const& table, TableUse const& use, RankShape const& shape,
                          Costs const& costs) {
  double const b = table.row_bytes, e = table.id_bytes, h = shape.hosts, g = shape.per_host;
  double const out = (h - 1) / h, out_within = (g - 1) / g;  // the share that leaves
  bool const pulls = use.pulled > 0;
  double const slot = use.by_host / g;  // rows that a slot has merged for its host
  double const named = std::max(use.pushed, use.pulled);
  detail::Bill bill{costs, shape};
  bill.keys(named);
  bill.rows(use.pushed, b);  // occurrences of a row summed
  switch (method) {
    case Method::ps_shard: {
      double const pulled = use.pushed > 0 ? slot * use.pulled / use.pushed : use.pulled;
      bill.within_host(pulls ? 3 : 1, out_within * ((use.pulled + use.pushed) * b + named * e));
      bill.between_hosts((pulls ? 3 : 1) + (g > 1 ? 1 : 0), out * ((pulled + slot) * b + std::max(slot, pulled) * e));
      bill.keys((g > 1 ? named : 0) + std::max(slot, pulled));
      bill.rows((g > 1 ? use.pushed + use.pulled : 0) + slot + pulled, b);
      bill.rows(use.by_all / shape.ranks(), 2 * table.state_bytes);
      break;
    }
    case Method::all_gather: {
      double const pair = b + e;
      if (g > 1) {
        bill.within_host(1, out_within * use.pushed * pair);
        bill.keys(use.pushed);
        bill.within_host(2, (g - 1) * use.by_all / g * pair);
        bill.rows(use.pushed + use.by_all, b);
      }
      bill.between_hosts(g > 1 ? 2 : 1, (h - 1) * slot * pair);
      bill.keys(h * slot);
      bill.streamed(h * slot * b);
      bill.rows(h * slot + use.pulled, b);
      bill.rows(use.by_all, 2 * table.state_bytes);
      break;
    }
    case Method::all_reduce: {
      double const whole = table.rows * b;
      bill.within_host(2, 2 * out_within * whole);
      bill.between_hosts(2, 2 * out * whole / g);
      bill.streamed((1 + out + out_within) * whole);
      bill.rows(use.pushed + use.pulled, b);
      bill.rows(table.rows, 0);
      bill.streamed(2 * table.rows * table.state_bytes);
      break;
    }
  }
  return bill.sum();
}

// What moving a table's rows to their new owners costs: from or to every rank the whole, among owners a share.
inline double moving_seconds(Method from, Method to, TableFacts const& table, RankShape const& shape, Costs const& costs) {
  double const whole = table.rows * table.state_bytes, ranks = shape.ranks();
  if (from != Method::ps_shard) return to == Method::ps_shard ? whole / ranks * costs.per_stream_byte : 0;
  double const sent = to == Method::ps_shard ? whole / ranks : whole / ranks * (ranks - 1);
  double const received = to == Method::ps_shard ? sent : whole;
  return sent * std::max(costs.per_byte, costs.host_per_byte) + received * costs.per_stream_byte;
}

// Keeps the use of a table, as all ranks know it, and says when another method is worth a move.
template <class Number = double>
class BasicChooser {
 public:
  // What a rank saw of one step. `merged`: rows that it merged for its host; `owned`: rows of the sum that it owns, or, where
  // every rank has all, all of them. Under AllReduce neither is known: 0.
  struct Seen {
    Number pushed = 0, pulled = 0, merged = 0, owned = 0;
  };
  static constexpr std::size_t words = 4;

  // `words_of(rank)`: what that rank saw, so many numbers in the order of Seen. The same on all ranks.
  template <class WordsOf>
  void observe(Method method, TableFacts const& table, RankShape const& shape, int ranks, WordsOf&& words_of) {
    TableUse now;
    double merged = 0, owned = 0;
    for (int rank = 0; rank < ranks; ++rank) {
      auto const* const seen = words_of(rank);
      now.pushed += seen[0] / ranks;
      now.pulled += seen[1] / ranks;
      merged += seen[2];
      owned = method == Method::ps_shard ? owned + seen[3] : std::max(owned, seen[3]);
    }
    double const expected_by_host = expected_union(table.rows, now.pushed, shape.per_host),
                 expected_by_all = expected_union(table.rows, now.pushed, shape.ranks());
    if (method == Method::all_reduce) {  // no rank learns which rows others touched: as overlapping as they were
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

  // Whether the change came about. One that did not, for want of memory, is not proposed again.
  void moved(bool done) { room_for_replicas_ = room_for_replicas_ && done; }

  TableUse const& use() const { return use_; }
  std::int64_t steps() const { return steps_; }
  bool due(AutoOptions const& options) const {
    return steps_ >= options.first_step && (steps_ - options.first_step) % std::max(options.interval, 1) == 0;
  }

  // The method to go over to, and the reason as a sentence; nothing where `current` stays.
  struct Change {
    Method to;
    std::string reason;
  };
  std::optional<Change> choose(Method current, TableFacts const& table, RankShape const& shape, AutoOptions const& options) {
    if (shape.ranks() == 1) return std::nullopt;  // it has all rows where they are
    double seconds[method_count];
    for (Method const method : methods)
      seconds[static_cast<std::size_t>(method)] = predict(method, table, use_, shape, options.costs).seconds;
    bool const replicas_fit = room_for_replicas_ && table.rows * table.state_bytes <= options.replica_bytes;
    Method best = current;
    for (Method const method : methods)
      if ((method == Method::ps_shard || replicas_fit) &&
          seconds[static_cast<std::size_t>(method)] < seconds[static_cast<std::size_t>(best)])
        best = method;
    double const margin = chosen_ ? options.margin : 1.0;
    chosen_ = true;
    if (best == current) return std::nullopt;
    double const now = seconds[static_cast<std::size_t>(current)], then = seconds[static_cast<std::size_t>(best)];
    double const moving = moving_seconds(current, best, table, shape, options.costs);
    if (now < margin * then || (now - then) * options.horizon < moving) return std::nullopt;
    return Change{best, reason(current, best, seconds, moving, table, shape)};
  }

 private:
  // Distinct rows named by k draws of n different rows of a table, if they were independent.
  static double expected_union(double rows, double n, double k) {
    return rows > 0 ? rows * (1 - detail::pow(1 - std::min(n / rows, 1.0), k)) : 0;
  }
  template <class Text = std::string>
  Text reason(Method from, Method to, double const* seconds, double moving, TableFacts const& table,
              RankShape const& shape) const {
    Text text = std::string{to_string(from)} + " to " + std::string{to_string(to)} + ": of " + detail::short_text(table.rows) +
                " rows a rank touches " + detail::short_text(use_.pushed) + ", a host " + detail::short_text(use_.by_host) +
                ", all " + detail::short_text(use_.by_all) + "; on " + detail::short_text(shape.hosts) + " hosts of " +
                detail::short_text(shape.per_host) + " ranks a step takes";
    for (Method const method : methods)
      ((text += method == Method::ps_shard ? " " : ", ") +=
       detail::short_text(1e3 * seconds[static_cast<std::size_t>(method)]) + " ms by ") += to_string(method);
    return text + "; moving takes " + detail::short_text(1e3 * moving) + " ms";
  }

  TableUse use_;
  std::int64_t steps_ = 0;
  double overlap_host_ = 1, overlap_all_ = 1;
  bool chosen_ = false, room_for_replicas_ = true;
};
using Chooser = BasicChooser<>;

}  // namespace parallax
