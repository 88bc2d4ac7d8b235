// AllGather: every rank holds the whole table; ids and rows of all ranks are gathered and merged by every rank. The way of
// Horovod and DDP. Variables name it, and a step takes its ways.
#pragma once

#include <string_view>

#include "parallax/detail/core/list.hpp"
#include "parallax/policy/all_reduce.hpp"

namespace parallax::inline v0_2 {

// Sparse: each rank gives its rows to all others, which merge and apply them alike. A pull sends nothing. There is no dense
// form.
struct AllGather {
  // It stands among a variable's options for its policy.
  using axis = policy_axis;
  // Its name in messages and in `describe`.
  static constexpr std::string_view name = "AllGather";

  // For Sparse below. For Dense an assertion, and a stand-in for the compiler to go on with.
  template <class Kind>
  struct exchange : AllReduce::exchange<Dense> {
    static_assert(std::same_as<Kind, Sparse>,
                  "parallax: AllGather gathers indexed rows and has no dense form: use AllReduce or PsShard for a Dense "
                  "variable");
  };
};

// The journey of rows to everybody. On two levels they climb to owners on their host, here slots, are gathered by the slots of
// one number and merged, and a slot's merged rows are spread to its host. On a flat topology: one gathering. `RowsWay` calls
// it, phase by phase; W is the rows' wire. Of u distinct rows a rank of N, in a flat topology, sends u (N - 1).
template <class C, class Index, class T, class Space, class W>
class GatherPush : public RowJourney<Index, T, Space> {
  using Base = RowJourney<Index, T, Space>;
  using Base::arrived_, Base::counted_, Base::finished_, Base::own_, Base::plan_, Base::rows_;

 public:
  // Every rank ends with all rows of the sum.
  static constexpr bool gathers = true;

  // Prepares the first leg, local, after `begin`: the gathering, or, on two levels, the climb to it. May throw std::bad_alloc.
  void prepare() {
    leg_ = flat() ? GatherStage::gather : GatherStage::climb;
    gather_leg_.expected.assign(plan_->hops.front().sources.size(), 0);
  }
  // Calls tell(rank, number) for every target: of this rank's rows; on two levels, of its keys for the rank on hop 0.
  template <class Tell>
  void tell(Tell&& tell) const {
    if (!flat()) return Base::tell(tell);
    for (int const rank : plan_->hops.front().targets) tell(rank, plan_->size());
  }
  // Takes the number from each rank that gives to this one by told(rank): of its rows, or, on two levels, of its keys of hop 0.
  template <class Told>
  void hear(Told&& told) {
    if (!flat()) return Base::hear(told);
    auto const& sources = plan_->hops.front().sources;
    for (std::size_t s = 0; s < sources.size(); ++s) gather_leg_.expected[s] = told(sources[s]);
  }

  // Opens the next leg, set by `read`: at most climb, sizes, gathering, sizes, spreading. Returns false after the last.
  bool next(Mails<C>& mail) {
    if (finished_) return false;
    switch (leg_) {
      case GatherStage::climb:
        keys_leg_.open(mail, *plan_, 0);
        rows_leg_.open(mail, *plan_, 0, this->width(), counted_);
        break;
      case GatherStage::gather_sizes:
      case GatherStage::spread_sizes: gather_leg_.open_sizes(mail.of(), takers(), givers()); break;
      case GatherStage::gather:
      case GatherStage::spread: gather_leg_.open(mail, gives(), takers(), givers(), this->width(), counted_); break;
    }
    return true;
  }
  // Fills the leg: with rows summed by key up to the gathering, with a slot's sums as they are in the spreading. Rows for many
  // ranks are written once.
  void write(Mails<C>& mail) {
    switch (leg_) {
      case GatherStage::climb:
        keys_leg_.write(mail, this->ops(), *plan_, 0);
        rows_leg_.write(mail, this->ops(), *plan_, 0, own_, arrived_, counted_);
        break;
      case GatherStage::gather_sizes:
      case GatherStage::spread_sizes: gather_leg_.write_size(mail.of(), gives()); break;
      case GatherStage::gather:
      case GatherStage::spread: {
        auto const rows = [&](T* out) {
          if (spreading()) this->ops().copy_bytes(out, this->reduced_.rows, gives() * this->row_bytes());
          else write_level(this->ops(), *plan_, level(), own_, arrived_, 0, gives(), out);
        };
        auto const counts = [&](std::uint32_t* out) {
          if (spreading()) this->ops().copy_bytes(out, this->reduced_.counts, gives() * sizeof(std::uint32_t));
          else write_level_counts(this->ops(), *plan_, level(), arrived_, 0, gives(), out);
        };
        Groups<Index, Space>& given = spreading() ? groups_ : plan_->level(level());
        gather_leg_.write(mail, {{given.keys_there(this->ops()), gives()}, rows, counts}, counted_);
        break;
      }
    }
  }
  // Takes the leg's arrivals, and sets the next leg. On two levels a slot merges its gathered rows here, to spread them.
  void read(Mails<C>& mail) {
    switch (leg_) {
      case GatherStage::climb:
        rows_leg_.read(mail, *plan_, 0, arrived_, counted_);
        keys_leg_.read(mail, this->ops(), *plan_, 0, rows_);
        break;
      case GatherStage::gather_sizes:
      case GatherStage::spread_sizes: gather_leg_.read_sizes(mail.of(), givers()); break;
      case GatherStage::gather:
      case GatherStage::spread: gather_leg_.read(mail, givers(), arrived_, counted_); break;
    }
    finished_ = leg_ == (flat() ? GatherStage::gather : GatherStage::spread);
    if (finished_) return;
    if (leg_ == GatherStage::gather) merge();
    leg_ = static_cast<GatherStage>(static_cast<int>(leg_) + 1);
  }

  // Reduces after arrival, local. On a flat topology rows of all ranks are merged; spread rows are the result, slot after slot.
  // On a device they are grouped, too, for there keys are the keys of groups.
  void reduce() {
    if constexpr (Space::host_readable)
      if (leg_ == GatherStage::spread) return this->keep(gather_leg_.arrived_keys());  // slots ascend, so their keys do
    merge();
  }

 private:
  // The leg at hand, in the order of travel. Sizes go before their rows; on a flat topology the agreement has them.
  enum class GatherStage : unsigned char { climb, gather_sizes, gather, spread_sizes, spread };

  bool flat() const { return plan_->hops.size() == 1; }
  bool spreading() const { return leg_ == GatherStage::spread_sizes || leg_ == GatherStage::spread; }
  std::size_t level() const { return plan_->hops.size() - 1; }  // the climbed rows so far
  // Returns the number of this rank's rows for the gathering, or for the spreading.
  std::size_t gives() const { return spreading() ? this->reduced_.keys.size() : plan_->level(level()).size(); }
  // Returns the ranks that give to this one: in the gathering the sources of the last hop, in the spreading the ranks that
  // stand for the slots of its host. Owned by the plan. `takers`: the ranks given to.
  List<int> const& givers() const { return spreading() ? plan_->hops.front().targets : plan_->hops.back().sources; }
  List<int> const& takers() const {
    static List<int> const nobody;
    Hop const &within = plan_->hops.front(), &last = plan_->hops.back();
    return spreading() ? (within.self >= 0 ? within.sources : nobody) : (last.self >= 0 ? last.targets : nobody);
  }

  // Groups the gathered rows by key, and sums them, on a device too: the spreading needs the rows.
  void merge() {
    auto const keys = gather_leg_.arrived_keys();
    groups_.group(this->ops(), keys.data(), keys.size(), rows_, plan_->sort);
    this->sum_by(groups_);
    this->sum_up();
  }

  GatherStage leg_ = GatherStage::gather;
  KeysLeg<C, RowPlan<Index, Space>> keys_leg_;
  RowsLeg<C, Index, T, Space, W> rows_leg_;
  GatherLeg<C, Index, T, Space, W> gather_leg_;
  // Groups of the gathered keys.
  Groups<Index, Space> groups_;
};

// The exchange of tables.
template <>
struct AllGather::exchange<Sparse> {
  // Every rank has all rows and slots.
  static constexpr bool sharded = false;
  // Rows travel as rows, by GatherPush.
  template <Communicator C, class Update>
  using way = RowsWay<C, Update, GatherPush>;

  // Returns the bytes and seconds of a step of the table: the closed form of the traffic counters, with the means of `use`.
  static Prediction predict(TableFacts const& table, TableUse const& use, RankShape const& shape, Costs const& costs) {
    double const b = table.row_bytes, h = shape.hosts, g = shape.per_host, pair = table.sent_bytes() + table.id_bytes;
    double const slot = use.by_host / g;  // rows merged by a slot for its host
    Bill bill{costs, shape};
    bill.keys(std::max(use.pushed, use.pulled));
    bill.rows(use.pushed, b);  // occurrences of a row summed
    if (g > 1) {
      bill.within_host(1, shape.out_within() * use.pushed * pair);
      bill.keys(use.pushed);
      bill.within_host(2, (g - 1) * use.by_all / g * pair);
      bill.rows(use.pushed + use.by_all, b);
    }
    bill.between_hosts(g > 1 ? 2 : 1, (h - 1) * slot * pair);
    bill.keys(h * slot);
    bill.streamed(h * slot * b);
    bill.rows(h * slot + use.pulled, b);
    bill.rows(use.by_all, 2 * table.state_bytes);
    return bill.sum();
  }
};

}  // namespace parallax
