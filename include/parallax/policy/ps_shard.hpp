// PsShard: a parameter server whose shards live on the ranks. The default of sparse variables. Variables name it, and a step
// takes its ways.
#pragma once

#include <string_view>
#include "parallax/core/algorithm.hpp"

#include "parallax/policy/all_reduce.hpp"
#include "parallax/policy/journey/rows_way.hpp"

namespace parallax {

// Dense: reduce-scatter, applied by the owner, allgather of the parameters. Sparse: rows pushed to their owners hop by hop,
// merged and applied there, pulled when needed. Optimizer state lives with the owners only, and so do the rows of tables.
struct PsShard {
  // It stands among a variable's options for its policy.
  using axis = policy_axis;
  // What messages and `describe` call it.
  static constexpr std::string_view name = "PsShard";

  // Below, for Dense and for Sparse.
  template <class Kind>
  struct exchange;
  // How the variables of an AsyncSession go: async/shard_letters.hpp.
  template <class Kind>
  struct letters;
};

// The journey of rows to their owners: at every hop summed, then carried. Keys, and how many follow, travel only where the plan
// is not known there yet. `RowsWay` calls it, phase by phase; W is the wire of the rows. Of u distinct rows a rank of N, in a
// flat topology, sends about u (N - 1) / N.
template <class C, class Index, class T, class Space, class W>
class ShardPush : public RowJourney<Index, T, Space> {
  using Base = RowJourney<Index, T, Space>;
  using Base::arrived_, Base::counted_, Base::finished_, Base::hop_, Base::own_, Base::plan_, Base::rows_;

 public:
  // Whether the lengths of the runs of hop 0 ride in the agreement: not where a pull has told them.
  bool asks() const { return !this->known(); }
  // Local, after `begin`: no hop has been counted.
  void prepare() { hop_counted_ = false; }

  // The next leg of the hop at hand: rows alone where the plan is known on it; else keys and rows, and before these, from the
  // second hop on, a leg of counts.
  bool next(Mails<C>& mail) {
    if (finished_) return false;
    bool const unknown = plan_->agreed <= hop_;
    leg_ = !unknown ? Leg::rows : hop_ > 0 && !hop_counted_ ? Leg::counts : Leg::keys_and_rows;
    if (leg_ == Leg::counts) {
      counts_leg_.open(mail.of(), *plan_, hop_);
      return true;
    }
    if (leg_ == Leg::keys_and_rows) keys_leg_.open(mail, *plan_, hop_);
    rows_leg_.open(mail, *plan_, hop_, this->width(), counted_, lends(mail));
    return true;
  }
  // Own rows, or those that came over the hop before, are summed by key as they are written. Where rows are lent, only where
  // they lie.
  void write(Mails<C>& mail) {
    if (leg_ == Leg::counts) return counts_leg_.write(mail.of(), *plan_, hop_);
    if (leg_ == Leg::keys_and_rows) keys_leg_.write(mail, this->ops(), *plan_, hop_);
    rows_leg_.write(mail, this->ops(), *plan_, hop_, own_, arrived_, counted_);
  }
  // Keys that came are merged into the plan's next level, and cut into runs for the hop behind it. Lent rows are summed at
  // once: who lends them goes on when they were read.
  void read(Mails<C>& mail) {
    if (leg_ == Leg::counts) {
      hop_counted_ = true;
      return counts_leg_.read(mail.of(), *plan_, hop_);
    }
    rows_leg_.read(mail, *plan_, hop_, arrived_, counted_);
    if (leg_ == Leg::keys_and_rows) keys_leg_.read(mail, this->ops(), *plan_, hop_, rows_);
    if constexpr (Rows::can_lend)
      if (rows_leg_.lends) this->sum_lent(rows_leg_.lent, plan_->runs[0].received, plan_->top());
    hop_counted_ = false;
    finished_ = ++hop_ == plan_->hops.size();
    if (!finished_ && plan_->agreed <= hop_) plan_->cut(hop_, this->ops(), this->bases_, rows_);
  }

  // Local, after arrival: this owner's rows summed over all sources. Of one source they are the sum as they came, and lent ones
  // were summed by `read`.
  void reduce() {
    if (rows_leg_.lends) return;
    if (plan_->hops.back().sources.size() == 1) this->keep(plan_->top().named());
    else this->sum_by(plan_->top());
  }

 private:
  // What the leg at hand carries.
  enum class Leg : unsigned char { counts, keys_and_rows, rows };
  using Rows = RowsLeg<C, Index, T, Space, W>;

  // Whether owners sum rows where their ranks have them. Only where all ranks are in one chunk of a sum, so that the bits are
  // those of rows that arrived. The same on all ranks.
  bool lends(Mails<C>& mail) const {
    return Rows::can_lend && mail.reads_in_place() && plan_->hops.size() == 1 &&
           static_cast<std::size_t>(mail.of().topology().size()) <= sum_chunk;
  }

  Leg leg_ = Leg::rows;
  // Whether the leg of counts of this hop has been read.
  bool hop_counted_ = false;
  CountsLeg<C, RowPlan<Index, Space>> counts_leg_;
  KeysLeg<C, RowPlan<Index, Space>> keys_leg_;
  Rows rows_leg_;
};

// Of dense variables: every rank has the parameters; owners keep the optimizer's slots, and move their parts.
template <>
struct PsShard::exchange<Dense> {
  // Slots live with the owners of the parts.
  static constexpr bool sharded = true;
  // Through the step's buckets. Parameters are gathered after the optimizer.
  template <Communicator C, class Update>
  using way = DenseWay<C, Update>;

  // What AllReduce is expected to need; that an owner applies its part only is not counted. A row of `elements` is an element.
  static Prediction predict(TableFacts const& elements, TableUse const& use, RankShape const& shape, Costs const& costs) {
    return AllReduce::exchange<Dense>::predict(elements, use, shape, costs);  // as many bytes, of parameters on the way back
  }
};

// Of tables: each rank keeps its shard of the rows, with the optimizer's slots beside them.
template <>
struct PsShard::exchange<Sparse> {
  // A rank holds the rows that it owns, and no others.
  static constexpr bool sharded = true;
  // Keys, rows and counts go by the runs of the plan.
  static constexpr bool pads = true;
  // Rows travel as rows, by ShardPush.
  template <Communicator C, class Update>
  using way = RowsWay<C, Update, ShardPush>;

  // The closed form of the bytes is that of the counters, the means of `use` put in. Where the table is pulled, of a pull and a
  // push; else of a push that brings its own ids.
  static Prediction predict(TableFacts const& table, TableUse const& use, RankShape const& shape, Costs const& costs) {
    double const b = table.row_bytes, up = table.sent_bytes(), down = table.pulled_bytes(), e = table.id_bytes,
                 g = shape.per_host;
    bool const pulls = use.pulled > 0;
    double const slot = use.by_host / g;  // rows that a slot has merged for its host
    double const named = std::max(use.pushed, use.pulled);
    double const pulled = use.pushed > 0 ? slot * use.pulled / use.pushed : use.pulled;
    Bill bill{costs, shape};
    bill.keys(named);
    bill.rows(use.pushed, b);  // occurrences of a row summed
    bill.within_host(pulls ? 3 : 1, shape.out_within() * (use.pulled * down + use.pushed * up + named * e));
    bill.between_hosts((pulls ? 3 : 1) + (g > 1 ? 1 : 0),
                       shape.out() * (pulled * down + slot * up + std::max(slot, pulled) * e));
    bill.keys((g > 1 ? named : 0) + std::max(slot, pulled));
    bill.rows((g > 1 ? use.pushed + use.pulled : 0) + slot + pulled, b);
    bill.rows(use.by_all / shape.ranks(), 2 * table.state_bytes);
    return bill.sum();
  }
};

}  // namespace parallax
