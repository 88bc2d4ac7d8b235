// The update of a sparse variable: rows that travel as rows, or in a gradient of the whole table.
#pragma once

#include <cstdint>
#include <numeric>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parallax/policy/row_push.hpp"
#include "parallax/session/batch.hpp"
#include "parallax/session/work.hpp"

namespace parallax::detail {

// What the sparse works share: the plan, made here where the update brings indices, and the rows, kept where they must.
template <Communicator C, class S, class Id, class F>
class RowWorkBase : public WorkBase<C, RowUpdate<S, Id, F>> {
  using Base = WorkBase<C, RowUpdate<S, Id, F>>;

 public:
  using typename Base::Space;
  using typename Base::T;

 protected:
  using Base::state_;
  using Index = typename S::index_type;

  void prepare_rows(RowUpdate<S, Id, F> const& update, Topology<C> const& topology, Preparing how, int group) {
    this->begin(update, group);
    bool const usable = update.plan && !update.plan->retired;
    typename S::Plan& plan = usable ? *update.plan : state_->take_plan();
    plan_ = &plan;
    ++plan.users;
    own_ = {update.rows, update.per};
    if (!update.plan) {
      begin_plan(topology, *state_, plan, update.ids, "step");
      finish_plan(topology, *state_, plan, update.ids, "step");
    } else if (!usable) {
      remake_plan(topology, *state_, plan, *update.plan, own_.distinct());
      if (own_.distinct()) own_.per = RowsPer::index;
    }
    auto const expected = static_cast<std::int64_t>(own_.per == RowsPer::distinct ? plan.size()
                                                    : own_.per == RowsPer::bag    ? plan.bags.count
                                                                                  : plan.indices());
    state_->seen.pushed += static_cast<double>(plan.size());
    if (how.joined && plan.indices() > 0)
      throw this->refusal(Errc::misuse, topology.rank(),
                          "a rank that has joined has no data, but names " + std::to_string(plan.indices()) + " indices");
    if (how.joined) own_ = {{nullptr, 0, state_->width()}, RowsPer::index};
    given_ = own_.values;
    if (how.joined) return;
    if (state_->width() == 0 && own_.values.rows == 0) own_.values.rows = expected;  // empty rows cannot be counted
    if (own_.values.rows != expected || own_.values.width != state_->width())
      throw this->refusal(Errc::invalid_argument, topology.rank(),
                          "gradient rows of " + shape(own_.values.rows, own_.values.width) + " for " +
                              shape(expected, state_->width()) + " pulled or named");
    given_ = own_.values;
    if (how.keep) keep_rows();
  }

 public:
  RowsView<T const> gradient() const { return given_; }
  void close() noexcept {
    if (plan_) --plan_->users;
    plan_ = nullptr;
    Base::close();
  }

 protected:
  static std::string shape(std::int64_t rows, std::int64_t width) {
    return (rows < 0 ? std::string{"?"} : std::to_string(rows)) + " x " + std::to_string(width);
  }

  // Past the call, rows lie in memory of the update: summed by index, or all occurrences where the policy sends them all.
  void keep_rows() {
    std::int64_t const width = state_->width();
    bool const all = own_.distinct() || !S::Exchange::coalesced;
    std::size_t const count = all ? static_cast<std::size_t>(own_.values.rows) : plan_->size();
    kept_.resize_with_slack(count * static_cast<std::size_t>(width));
    if (all) state_->ops().pack_rows(own_.values, 0, count, kept_.data());
    else write_level(state_->ops(), *plan_, 0, own_, ArrivedRows<T, Space>{}, 0, count, kept_.data());
    own_ = {{kept_.data(), static_cast<std::int64_t>(count), width}, S::Exchange::coalesced ? RowsPer::distinct : own_.per};
  }

  static std::string place_text(std::int64_t row, NonFiniteElement const& found) {
    return "row " + std::to_string(row) + ", column " + std::to_string(found.column);
  }

  typename S::Plan* plan_ = nullptr;
  OwnRows<T> own_;
  RowsView<T const> given_;
  Buffer<T, Space> kept_;
};

// A sparse variable whose rows travel as rows: under PsShard, NaivePs and AllGather, whose `Exchange` says how.
template <class Exchange, Communicator C, class S, class Id, class F>
class TravellingRows : public RowWorkBase<C, S, Id, F> {
  using Base = RowWorkBase<C, S, Id, F>;

 public:
  using typename Base::Space;
  using typename Base::T;

 private:
  using Base::state_, Base::leader_, Base::function_, Base::plan_, Base::own_;
  using typename Base::Index;
  static constexpr bool naive = !Exchange::coalesced, gathers = !Exchange::sharded;
  using Journey =
      std::conditional_t<naive, NaivePush<C, Index, T, Space>,
                         std::conditional_t<gathers, GatherPush<C, Index, T, Space>, ShardPush<C, Index, T, Space>>>;

 public:
  void prepare(RowUpdate<S, Id, F> const& update, Topology<C> const& topology, Preparing how, int group) {
    this->prepare_rows(update, topology, how, group);
    if (naive && own_.distinct())
      throw this->refusal(Errc::invalid_argument, topology.rank(),
                          "NaivePs pushes every occurrence: give one gradient row per index");
    known_ = !gathers && plan_->agreed > 0;  // a gathering asks nothing of a pull, and another one may be on its way
    flat_ = topology.hops().size() == 1;
    journey_.begin(state_->ops(), *plan_, own_, state_->placement().bases(), state_->rows(), state_->counted());
    journey_.prepare();
  }

  // Every rank knows alike whether the plan was agreed by a pull, which is part of the update's hash.
  bool plan_known() const { return known_; }
  std::size_t counts() const { return naive || gathers || !known_ ? 1 : 0; }
  template <class Tell>
  void tell(Topology<C> const& topology, Tell&& tell) const {
    if constexpr (naive) {
      auto const& targets = plan_->hops->front().targets;
      for (std::size_t t = 0; t < targets.size(); ++t) tell(targets[t], journey_.sent(t));
    } else if (gathers && flat_) {
      for (int rank = 0; rank < topology.size(); ++rank) tell(rank, plan_->size());
    } else {
      tell_plan(*plan_, tell);
    }
  }
  template <class Told>
  void hear(Topology<C> const&, Told&& told) {
    auto const& sources = plan_->hops->front().sources;
    if constexpr (naive || gathers) {
      if (naive || flat_) {
        for (std::size_t s = 0; s < sources.size(); ++s) journey_.expect(s, told(sources[s]));
        return;
      }
    }
    hear_plan(*plan_, told);
  }
  template <class Visit>
  void visit_journey(Visit&& visit) { visit(journey_); }
  void reduce() {
    journey_.reduce();
    if (!naive && !flat_) state_->seen.merged += static_cast<double>(plan_->levels[1].size());
  }

  void deposit(int group) {
    if (state_->merging.first) journey_.sum_up();
    this->enter(journey_.reduced(), group);
  }
  // A result that nobody looks at before it is applied is summed as it is, where sums are put off.
  void merge() {
    if (!leader_) return;
    state_->reserve_update();
    auto& [sum, others, group] = state_->merging;
    if (transforms<F> || group >= 0 || !others.empty()) sum_up();
    if (!others.empty()) sum = sum_of(*sum, others);
    if (!journey_.puts_off()) state_->average(*sum, this->divisor());
    state_->seen.owned = static_cast<double>(sum->keys.size());
    rows_ = gathers ? state_->rows_of(sum->keys) : sum->keys;
  }
  void transform() {
    if constexpr (transforms<F>) {
      auto const& result = *state_->merging.first;
      RowsView<T> const values{result.rows, static_cast<std::int64_t>(result.keys.size()), state_->width()};
      (*function_)(RowsGradient<Index, T>{state_->rows_of(result.keys), values});
    }
  }
  RowsView<T const> result() {
    if (journey_.puts_off()) {
      sum_up();
      state_->average(*state_->merging.first, this->divisor());
    }
    auto const& sums = *state_->merging.first;
    return {sums.rows, static_cast<std::int64_t>(sums.keys.size()), state_->width()};
  }
  std::string place_of(NonFiniteElement const& found, bool of_result) const {
    if (!of_result) return this->place_text(found.row, found);
    return this->place_text(state_->placement().row(state_->merging.first->keys[static_cast<std::size_t>(found.row)]), found);
  }
  // Where every rank has all rows, each looks at its share of them.
  RowsView<T const> clipped(Topology<C> const& topology) const {
    auto const& result = *state_->merging.first;
    std::size_t begin = 0, end = result.keys.size();
    if constexpr (gathers) {
      begin = part_begin(end, topology.rank(), topology.size());
      end = part_begin(result.keys.size(), topology.rank() + 1, topology.size());
    }
    auto const width = static_cast<std::size_t>(state_->width());
    return as_row(std::span{result.rows + begin * width, (end - begin) * width});
  }
  void apply(double scale) noexcept(Space::host_readable) {
    auto const& result = *state_->merging.first;
    Index const base = gathers || state_->owner() < 0 ? Index{0} : state_->placement().base(state_->owner());
    if constexpr (!gathers && !Space::host_readable) {
      if (journey_.puts_off()) state_->apply_runs(result, base, journey_.addends(), journey_.groups(), this->divisor());
      else state_->apply(rows_, base, result.rows, static_cast<T>(scale));
    } else {
      state_->apply(rows_, base, result.rows, static_cast<T>(scale));
    }
    state_->end_update();
  }

 private:
  void sum_up() {
    journey_.sum_up();
    *state_->merging.first = journey_.reduced();
  }
  // The results of all updates of the variable as one: keys grouped again, rows summed in the order of the updates.
  ReducedRows<Index, T> sum_of(ReducedRows<Index, T> const& first, std::vector<ReducedRows<Index, T>> const& others) {
    std::size_t n = first.keys.size();
    auto const width = static_cast<std::size_t>(state_->width());
    for (auto const& other : others) n += other.keys.size();
    all_keys_.resize_with_slack(n);
    all_rows_.resize_with_slack(n * width);
    all_counts_.resize_with_slack(n);
    std::size_t at = 0;
    auto const append = [&](ReducedRows<Index, T> const& result) {
      std::size_t const u = result.keys.size();
      std::copy_n(result.keys.data(), u, all_keys_.data() + at);
      state_->ops().copy_from(all_rows_.data() + at * width, result.rows, static_cast<std::int64_t>(u * width));
      if (result.counts) std::copy_n(result.counts, u, all_counts_.data() + at);
      at += u;
    };
    append(first);
    std::for_each(others.begin(), others.end(), append);
    RowOps<HostSpace>::unique_with_inverse(std::span<Index const>{all_keys_.span()}, state_->rows(), groups_, plan_->sort);
    merged_rows_.resize_with_slack(groups_.size() * width);
    merged_counts_.resize_with_slack(groups_.size());
    RowsView<T const> const rows{all_rows_.data(), static_cast<std::int64_t>(n), state_->width()};
    shown_.renew();
    state_->ops().coalesce(rows, shown_.of(state_->ops(), groups_), 0, groups_.size(), merged_rows_.data());
    if (state_->counted())
      RowOps<HostSpace>::sum_counts(all_counts_.span(), groups_, 0, groups_.size(), merged_counts_.data());
    return {groups_.keys.span(), merged_rows_.data(), state_->counted() ? merged_counts_.data() : nullptr};
  }

  Journey journey_;
  bool known_ = false, flat_ = true;
  std::span<Index const> rows_;
  Grouping<Index> groups_;
  Shown<Grouping<Index>, Space> shown_;
  Buffer<Index> all_keys_;
  Buffer<T, Space> all_rows_, merged_rows_;
  Buffer<std::uint32_t> all_counts_, merged_counts_;
};

// A sparse variable under AllReduce: its rows are scattered into a gradient of the whole table, with a count behind every row
// where the mean goes by counts or a lazy optimizer must know which rows were touched.
template <Communicator C, class S, class Id, class F>
class DensifiedRows : public RowWorkBase<C, S, Id, F> {
  using Base = RowWorkBase<C, S, Id, F>;

 public:
  using typename Base::Space;
  using typename Base::T;

 private:
  using Base::state_, Base::leader_, Base::function_, Base::plan_, Base::own_;
  using typename Base::Index;

 public:
  void prepare(RowUpdate<S, Id, F> const& update, Topology<C> const& topology, Preparing how, int group) {
    this->prepare_rows(update, topology, {false, how.joined, how.finite}, group);
    counted_ = state_->counted() || untouched<typename S::optimizer_type> == Untouched::lazy;
    stride_ = static_cast<std::size_t>(state_->width()) + (counted_ ? 1 : 0);
    densify();
  }
  bool plan_known() const { return false; }
  bool gathers_early() const { return false; }

  void join(Buckets<C>& buckets) {
    bucket_ = &buckets.template of<Space>().template of<T, false>();
    segment_ = bucket_->add(table_.data(), table_.size(), nullptr, stride_);
  }
  void deposit(int group) { this->enter(ReducedRows<Index, T>{{}, bucket_->owned(segment_).values.data(), nullptr}, group); }
  void merge() {
    if (!leader_) return;
    state_->reserve_update();
    T* const sums = state_->merging.first->rows;
    auto const n = static_cast<std::int64_t>(part().size());
    for (auto const& other : state_->merging.others) state_->ops().add_to(sums, other.rows, n);
    if (state_->reduce() == Reduce::mean && this->divisor() > 1)  // a count stays what it is: none, or not none
      state_->ops().scale_down(sums, n, static_cast<T>(this->divisor()));
    if (state_->counted()) state_->ops().scale_counted_rows_down(sums, rows().rows, state_->width());
  }
  // The transform sees every row of the part, those that nobody touched included.
  void transform() {
    if constexpr (transforms<F>) {
      ids_.resize_with_slack(static_cast<std::size_t>(rows().rows));
      std::iota(ids_.data(), ids_.data() + ids_.size(), static_cast<Index>(first_row()));
      (*function_)(RowsGradient<Index, T>{ids_.span(), rows()});
    }
  }
  RowsView<T const> result() const {
    return {part().data(), rows().rows, static_cast<std::int64_t>(stride_)};  // counts are finite
  }
  std::string place_of(NonFiniteElement const& found, bool of_result) const {
    return this->place_text(of_result ? first_row() + found.row : found.row, found);
  }
  RowsView<T const> clipped(Topology<C> const& topology) const {
    if (bucket_->owns_whole() && topology.rank() != 0) return {nullptr, 0, state_->width()};
    return rows();
  }
  void apply(double scale) noexcept(Space::host_readable) {
    bucket_->whole(segment_, [&](std::size_t first, T const* values, std::size_t count) {
      state_->apply_densified(static_cast<std::int64_t>(first / stride_), spaced(values, count), counted_,
                              static_cast<T>(scale));
    });
    state_->end_update();
  }

 private:
  // The variable's result: what this rank holds of the summed table, and the rows in it.
  std::span<T> part() const { return {state_->merging.first->rows, bucket_->owned(segment_).values.size()}; }
  RowsView<T> rows() const { return spaced(part().data(), part().size()); }
  std::int64_t first_row() const { return stride_ ? static_cast<std::int64_t>(bucket_->owned(segment_).first / stride_) : 0; }
  template <class E>
  RowsView<E> spaced(E* values, std::size_t count) const {
    return {values, stride_ ? static_cast<std::int64_t>(count / stride_) : 0, state_->width(),
            static_cast<std::int64_t>(stride_)};
  }

  void densify() {
    std::int64_t const width = state_->width();
    std::size_t const distinct = plan_->size();
    table_.resize(static_cast<std::size_t>(state_->rows()) * stride_);
    state_->ops().clear(table_.data(), table_.size() * sizeof(T));
    sums_.resize_with_slack(distinct * static_cast<std::size_t>(width));
    write_level(state_->ops(), *plan_, 0, own_, ArrivedRows<T, Space>{}, 0, distinct, sums_.data());
    auto const& groups = plan_->levels[0];
    shown_rows_.renew();
    auto const named = shown_rows_.of(state_->ops(), state_->rows_of(groups.keys.span()));
    auto const put = [&](std::int64_t column, std::int64_t columns, T const* values) {
      RowsView<T> const into{table_.data() + column, state_->rows(), columns, static_cast<std::int64_t>(stride_)};
      state_->ops().scatter_rows(into, named, Index{0}, values);
    };
    put(0, width, sums_.data());
    if (!counted_) return;
    counts_.resize_with_slack(distinct);
    for (std::size_t i = 0; i < distinct; ++i) counts_[i] = static_cast<T>(groups.offsets[i + 1] - groups.offsets[i]);
    shown_counts_.renew();
    put(width, 1, shown_counts_.of(state_->ops(), counts_.span()).data());
  }

  bool counted_ = false;
  std::size_t stride_ = 1, segment_ = 0;
  Buffer<T, Space> table_, sums_;
  Buffer<T> counts_;
  Shown<Index, Space> shown_rows_;
  Shown<T, Space> shown_counts_;
  Buffer<Index> ids_;
  DenseBucket<T, C, Space>* bucket_ = nullptr;
};

// The policy's way, known when the program is compiled.
template <Communicator C, class S, class Id, class F>
  requires(!S::adaptive && !S::Exchange::densified)
class Work<C, RowUpdate<S, Id, F>> : public TravellingRows<typename S::Exchange, C, S, Id, F> {};
template <Communicator C, class S, class Id, class F>
  requires(!S::adaptive && S::Exchange::densified)
class Work<C, RowUpdate<S, Id, F>> : public DensifiedRows<C, S, Id, F> {};

}  // namespace parallax::detail
