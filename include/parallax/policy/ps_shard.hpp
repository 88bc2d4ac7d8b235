// PsShard: a parameter server whose shards live on the ranks. The default of sparse variables.
#pragma once

#include "parallax/core/algorithm.hpp"
#include <string_view>

#include "parallax/policy/all_reduce.hpp"
#include "parallax/policy/journey/rows_way.hpp"

namespace parallax {

// Dense: reduce-scatter, applied by the owner, allgather of the parameters. Sparse: rows pushed to their owners hop by hop, merged
// and applied there, pulled when needed.
struct PsShard {
  using axis = policy_axis;
  static constexpr std::string_view name = "PsShard";

  template <class Kind>
  struct exchange;
};

// The journey of rows to their owners: at every hop summed, then carried. Keys, and how many follow, travel only where the plan is
// not known there yet.
template <class C, class Index, class T, class Space, class W>
class ShardPush : public RowJourney<Index, T, Space> {
  using Base = RowJourney<Index, T, Space>;
  using Base::arrived_, Base::counted_, Base::finished_, Base::hop_, Base::own_, Base::plan_, Base::rows_;

 public:
  bool asks() const { return !this->known(); }
  void prepare() { hop_counted_ = false; }

  bool next(Mails<C>& mail) {
    if (finished_) return false;
    bool const unknown = plan_->agreed <= hop_;
    leg_ = !unknown ? Leg::rows : hop_ > 0 && !hop_counted_ ? Leg::counts : Leg::keys_and_rows;
    if (leg_ == Leg::counts) {
      counts_leg_.open(mail.of(), *plan_, hop_);
      return true;
    }
    if (leg_ == Leg::keys_and_rows) keys_leg_.open(mail.of(), *plan_, hop_);
    rows_leg_.open(mail, *plan_, hop_, this->width(), counted_, lends(mail));
    return true;
  }
  void write(Mails<C>& mail) {
    if (leg_ == Leg::counts) return counts_leg_.write(mail.of(), *plan_, hop_);
    if (leg_ == Leg::keys_and_rows) keys_leg_.write(mail.of(), *plan_, hop_);
    rows_leg_.write(mail, this->ops(), *plan_, hop_, own_, arrived_, counted_);
  }
  void read(Mails<C>& mail) {
    if (leg_ == Leg::counts) {
      hop_counted_ = true;
      return counts_leg_.read(mail.of(), *plan_, hop_);
    }
    rows_leg_.read(mail, *plan_, hop_, arrived_, counted_);
    if (leg_ == Leg::keys_and_rows) keys_leg_.read(mail.of(), *plan_, hop_, rows_);
    if constexpr (Rows::can_lend)
      if (rows_leg_.lends) this->sum_lent(rows_leg_.lent, plan_->runs[0].received, plan_->top());
    hop_counted_ = false;
    finished_ = ++hop_ == plan_->hops.size();
    if (!finished_ && plan_->agreed <= hop_) plan_->cut(hop_, this->bases_);
  }

  // Local, after arrival: this owner's rows summed over all sources.
  void reduce() {
    if (rows_leg_.lends) return;
    if (plan_->hops.back().sources.size() == 1) this->keep(plan_->top().keys.span());
    else this->sum_by(plan_->top(), plan_->shown(plan_->hops.size(), this->ops()));
  }

 private:
  enum class Leg : unsigned char { counts, keys_and_rows, rows };
  using Rows = RowsLeg<C, Index, T, Space, W>;

  // Whether owners sum rows where their ranks have them: of all ranks in one chunk, as the sums of rows that arrived.
  bool lends(Mails<C>& mail) const {
    return Rows::can_lend && mail.reads_in_place() && plan_->hops.size() == 1 &&
           static_cast<std::size_t>(mail.of().topology().size()) <= sum_chunk;
  }

  Leg leg_ = Leg::rows;
  bool hop_counted_ = false;
  CountsLeg<C, RowPlan<Index, Space>> counts_leg_;
  KeysLeg<C, RowPlan<Index, Space>> keys_leg_;
  Rows rows_leg_;
};

template <>
struct PsShard::exchange<Dense> {
  static constexpr bool sharded = true;
  template <Communicator C, class Update>
  using way = DenseWay<C, Update>;

  static Prediction predict(TableFacts const& elements, TableUse const& use, RankShape const& shape, Costs const& costs) {
    return AllReduce::exchange<Dense>::predict(elements, use, shape, costs);  // as many bytes, of parameters on the way back
  }
};

template <>
struct PsShard::exchange<Sparse> {
  static constexpr bool sharded = true;
  template <Communicator C, class Update>
  using way = RowsWay<C, Update, ShardPush>;

  // The closed form of the bytes is that of the counters, the means of `use` put in.
  static Prediction predict(TableFacts const& table, TableUse const& use, RankShape const& shape, Costs const& costs) {
    double const b = table.row_bytes, e = table.id_bytes, g = shape.per_host;
    bool const pulls = use.pulled > 0;
    double const slot = use.by_host / g;  // rows that a slot has merged for its host
    double const named = std::max(use.pushed, use.pulled);
    double const pulled = use.pushed > 0 ? slot * use.pulled / use.pushed : use.pulled;
    Bill bill{costs, shape};
    bill.keys(named);
    bill.rows(use.pushed, b);  // occurrences of a row summed
    bill.within_host(pulls ? 3 : 1, shape.out_within() * ((use.pulled + use.pushed) * b + named * e));
    bill.between_hosts((pulls ? 3 : 1) + (g > 1 ? 1 : 0), shape.out() * ((pulled + slot) * b + std::max(slot, pulled) * e));
    bill.keys((g > 1 ? named : 0) + std::max(slot, pulled));
    bill.rows((g > 1 ? use.pushed + use.pulled : 0) + slot + pulled, b);
    bill.rows(use.by_all / shape.ranks(), 2 * table.state_bytes);
    return bill.sum();
  }
};

}  // namespace parallax
