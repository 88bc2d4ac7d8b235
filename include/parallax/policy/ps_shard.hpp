// PsShard: a parameter server with shards on the ranks. The default of sparse variables. Variables name it, and a step takes
// its ways.
#pragma once

#include <cstdint>
#include <cstring>
#include <string_view>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/policy/journey/lent.hpp"
#include "parallax/detail/policy/journey/rows_way.hpp"
#include "parallax/policy/all_reduce.hpp"

namespace parallax::inline v0_2 {

// Dense: reduce-scatter, applied by the owner, allgather of the parameters. Sparse: rows pushed to their owners hop by hop,
// merged and applied there, pulled when needed. Optimizer state lives with the owners only, and so do the rows of tables.
struct PsShard {
  // It stands among a variable's options for its policy.
  using axis = policy_axis;
  // The policy's name in messages and `describe`.
  static constexpr std::string_view name = "PsShard";

  // Below, for Dense and for Sparse.
  template <class Kind>
  struct exchange;
  // The way of an AsyncSession's variables: detail/async/shard_letters.hpp.
  template <class Kind>
  struct letters;
};

// The journey of rows to their owners: at every hop summed, then carried. Keys, and the number of them, travel only if the plan
// is not known there yet. `RowsWay` calls it, phase by phase; W is the wire of the rows. Of u distinct rows a rank of N, in a
// flat topology, sends about u (N - 1) / N.
// If ranks read each other's memory, the agreement tells each owner the places of its keys and rows, and nothing travels: it
// sums them there once all have agreed, and the commit tells their ranks of the reads.
template <class C, class Index, class T, class Space, class W>
class ShardPush : public RowJourney<Index, T, Space> {
  using Base = RowJourney<Index, T, Space>;
  using Base::arrived_, Base::counted_, Base::finished_, Base::hop_, Base::own_, Base::plan_, Base::rows_;
  using Run = LentRun<Index, T>;

 public:
  // Returns true if a number for each owner rides in the agreement: the address of its run if rows are lent, read in place by
  // owners; else the length of the run of hop 0, unless a pull has told it.
  bool asks() const { return lends_ || !this->known(); }
  // Prepares the first leg, local, after `begin`. Decides on lending, alike on all ranks, and notes the lent runs: they, and
  // the rows' memory, must stay until the commit. May throw std::bad_alloc.
  void prepare() {
    hop_counted_ = false;
    lends_ = can_lend && this->in_place_ && plan_->hops.size() == 1;
    if (lends_) lend();
  }
  // Calls tell(rank, number) for each owner: the address of its run, 0 for an empty one; if nothing is lent, the run's length.
  template <class Tell>
  void tell(Tell&& tell) const {
    if (!lends_) return Base::tell(tell);
    for (std::size_t t = 0; t < lent_.size(); ++t)
      tell(plan_->hops[0].targets[t], lent_[t].count > 0 ? address_of(&lent_[t]) : 0);
  }
  // Takes, as an owner, the same numbers from each source by told(rank).
  template <class Told>
  void hear(Told&& told) {
    if (!lends_) return Base::hear(told);
    heard_.clear();
    for (int const source : plan_->hops[0].sources) heard_.push_back(record_at<Run>(told(source)));
  }

  // Declares the next leg of the hop at hand: rows alone if the plan is known on it; else keys and rows, and before these, from
  // the second hop on, a leg of counts. Returns false after the last; if rows are lent, at once, after summing them in place:
  // then it may throw the reason of an earlier abort.
  bool next(Mails<C>& mail) {
    if (finished_) return false;
    if (lends_) return take_lent(mail.lane());
    bool const unknown = plan_->agreed <= hop_;
    leg_ = !unknown ? PushLoad::rows : hop_ > 0 && !hop_counted_ ? PushLoad::counts : PushLoad::keys_and_rows;
    if (leg_ == PushLoad::counts) {
      counts_leg_.open(mail.of(), *plan_, hop_);
      return true;
    }
    if (leg_ == PushLoad::keys_and_rows) keys_leg_.open(mail, *plan_, hop_);
    rows_leg_.open(mail, *plan_, hop_, this->width(), counted_);
    return true;
  }
  // Fills the leg. Sums own rows, or the arrivals of the hop before, by key as they are written.
  void write(Mails<C>& mail) {
    if (leg_ == PushLoad::counts) return counts_leg_.write(mail.of(), *plan_, hop_);
    if (leg_ == PushLoad::keys_and_rows) keys_leg_.write(mail, this->ops(), *plan_, hop_);
    rows_leg_.write(mail, this->ops(), *plan_, hop_, own_, arrived_, counted_);
  }
  // Takes the leg's arrivals. Merges arrived keys into the plan's next level, cut into runs for the hop behind it.
  void read(Mails<C>& mail) {
    if (leg_ == PushLoad::counts) {
      hop_counted_ = true;
      return counts_leg_.read(mail.of(), *plan_, hop_);
    }
    rows_leg_.read(mail, *plan_, hop_, arrived_, counted_);
    if (leg_ == PushLoad::keys_and_rows) keys_leg_.read(mail, this->ops(), *plan_, hop_, rows_);
    hop_counted_ = false;
    finished_ = ++hop_ == plan_->hops.size();
    if (!finished_ && plan_->agreed <= hop_) plan_->cut(hop_, this->ops(), this->bases_, rows_);
  }

  // Sums this owner's rows over all sources. Local, after arrival. Rows of a single source are the sum as they came. Lent rows,
  // read in place from their senders, have been summed by `next`.
  void reduce() {
    if (lends_) return;
    if (plan_->hops.back().sources.size() == 1) this->keep(plan_->top().named());
    else this->sum_by(plan_->top());
  }

 private:
  // The load of the leg at hand.
  enum class PushLoad : unsigned char { counts, keys_and_rows, rows };

  // True if rows could be read in place: of memory of the host, as they are. Members ask it within and have no constraint:
  // clang 14 instantiates constrained members as well if the class is instantiated explicitly (LLVM issue 44549).
  static constexpr bool can_lend = Space::host_readable && !encodes<W>;

  // Notes the rows that each owner is going to read. Gradients of bags are summed by index before: owners have no bags.
  void lend() {
    if constexpr (can_lend) {
      plan_->lent = true;
      auto const& targets = plan_->hops[0].targets;
      LentRows<T> all{own_.values, nullptr, nullptr};
      if (own_.per == RowsPer::bag) {
        summed_.resize_with_slack(plan_->size() * static_cast<std::size_t>(this->width()));
        write_level(this->ops(), *plan_, 0, own_, arrived_, 0, plan_->size(), summed_.data());
        all.rows = {summed_.data(), static_cast<std::int64_t>(plan_->size()), this->width()};
      } else if (own_.per == RowsPer::index) {
        all.order = plan_->groups.order.data();
      }
      if (counted_) {
        times_.resize_with_slack(plan_->size());
        plan_->times_named(this->ops(), 0, plan_->size(), times_.data());
      }
      lent_.clear();
      for (std::size_t t = 0; t < targets.size(); ++t) {
        std::size_t const begin = plan_->runs[0].sent[t];
        Run run{{plan_->groups.keys.data() + begin, plan_->sent(0, t)}, all, counted_ ? times_.data() + begin : nullptr};
        if (all.order) run.rows.offsets = plan_->groups.offsets.data() + begin;
        else run.rows.rows.data = all.rows.row(static_cast<std::int64_t>(begin));
        lent_.push_back(run);
      }
    }
  }
  // Sums the rows lent to this owner, and counts all reads in place as if sent. Returns false: there are no legs. Throws the
  // reason of an earlier abort.
  bool take_lent(Lane<C>& lane) {
    if constexpr (can_lend) {
      {
        Reading<C> const reading{lane.topology().world()};
        rows_of_.assign(heard_.size(), {});
        for (std::size_t s = 0; s < heard_.size(); ++s)
          if (heard_[s]) rows_of_[s] = heard_[s]->rows;
        if (!this->known()) {
          plan_->copy_received([&](std::size_t s) -> LentKeys<Index> const* { return heard_[s]; });
          plan_->merge_received(this->ops(), 0, rows_);
        }
        if (counted_) take_times();
        this->sum_lent(rows_of_, plan_->runs[0].received, plan_->top());
      }
      count_lent_runs(lane, *plan_, this->row_bytes(), Payload::rows, true);
      if (!this->known()) count_lent_runs(lane, *plan_, sizeof(Index), Payload::ids, true);
      if (counted_) count_lent_runs(lane, *plan_, sizeof(std::uint32_t), Payload::counts, true);
      finished_ = true;
    }
    return false;
  }
  // Copies the number of indices of each lent key, source after source, to `arrived_`.
  void take_times() {
    if constexpr (can_lend) {
      arrived_.counts.resize_with_slack(plan_->runs[0].received.back() * sizeof(std::uint32_t));
      std::byte* out = arrived_.counts.data();
      for (Run const* const run : heard_) {
        if (!run) continue;
        std::memcpy(out, run->times, run->count * sizeof(std::uint32_t));
        out += run->count * sizeof(std::uint32_t);
      }
    }
  }

  PushLoad leg_ = PushLoad::rows;
  // True if owners read the rows of this update in place.
  bool lends_ = false;
  // By target: this rank's loans. By source: the loans told to it as an owner, and the rows of each.
  List<Run> lent_;
  List<Run const*> heard_;
  List<LentRows<T>> rows_of_;
  // Gradients of bags, summed by index, and how many indices named each: as long as they are lent.
  Buffer<T, Space> summed_;
  Buffer<std::uint32_t> times_;
  // True once the leg of counts of this hop has been read.
  bool hop_counted_ = false;
  CountsLeg<C, RowPlan<Index, Space>> counts_leg_;
  KeysLeg<C, RowPlan<Index, Space>> keys_leg_;
  RowsLeg<C, Index, T, Space, W> rows_leg_;
};

// The exchange of dense variables: every rank has the parameters; owners keep the optimizer's slots, and move their parts.
template <>
struct PsShard::exchange<Dense> {
  // Slots live with the owners of the parts.
  static constexpr bool sharded = true;
  // Through the step's buckets. Parameters are gathered after the optimizer.
  template <Communicator C, class Update>
  using way = DenseWay<C, Update>;

  // Returns the prediction of AllReduce, although an owner applies its part only. A row of `elements` is an element.
  static Prediction predict(TableFacts const& elements, TableUse const& use, RankShape const& shape, Costs const& costs) {
    return AllReduce::exchange<Dense>::predict(elements, use, shape, costs);  // as many bytes, of parameters on the way back
  }
};

// The exchange of tables: each rank keeps its shard of the rows, with the optimizer's slots beside the rows.
template <>
struct PsShard::exchange<Sparse> {
  // A rank holds the rows of its own shard, and no others.
  static constexpr bool sharded = true;
  // Keys, rows and counts go by the runs of the plan.
  static constexpr bool pads = true;
  // Rows travel as rows, by ShardPush.
  template <Communicator C, class Update>
  using way = RowsWay<C, Update, ShardPush>;

  // Returns the bytes and seconds that a step of the table needs, from the means in `use`. Bytes are the closed form of the
  // traffic counters. A pulled table has a pull and a push in the step, any other a push with its own ids.
  static Prediction predict(TableFacts const& table, TableUse const& use, RankShape const& shape, Costs const& costs) {
    double const b = table.row_bytes, up = table.sent_bytes(), down = table.pulled_bytes(), e = table.id_bytes,
                 g = shape.per_host;
    bool const pulls = use.pulled > 0;
    double const slot = use.by_host / g;  // rows merged by a slot for its host
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
