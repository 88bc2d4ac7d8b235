// The way of a sparse gradient whose rows travel as rows: a policy gives it a journey, the step calls its phases.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parallax/policy/exchange.hpp"
#include "parallax/policy/journey/row_journey.hpp"

namespace parallax {

// What the ways of sparse updates share: the plan, made here where the update brings indices, and the rows, kept where they must.
template <Communicator C, class Update>
class RowWayBase : public WayBase<C, Update> {
  using Base = WayBase<C, Update>;

 public:
  using S = typename Base::State;
  using typename Base::Space;
  using typename Base::T;
  using Index = typename S::index_type;

 protected:
  using Base::state_;

  // Called first in `prepare`. `every_occurrence`: rows that are kept are not summed by index.
  void prepare_rows(Update const& update, Topology<C> const& topology, Preparing how, int group,
                    bool every_occurrence = false) {
    this->begin(update, group);
    bool const usable = update.plan && !update.plan->retired;
    typename S::Plan& plan = usable ? *update.plan : state_->take_plan();
    plan_ = &plan;
    ++plan.users;
    own_ = {update.rows, update.per};
    if (!update.plan) {
      detail::begin_plan(topology, *state_, plan, update.ids, "step");
      detail::finish_plan(topology, *state_, plan, update.ids, "step");
    } else if (!usable) {
      detail::remake_plan(topology, *state_, plan, *update.plan, own_.distinct());
      if (own_.distinct()) own_.per = RowsPer::index;
    }
    state_->seen.pushed += static_cast<double>(plan.size());
    if (how.joined && plan.indices() > 0)
      throw this->refusal(Errc::misuse, topology.rank(),
                          joined({"a rank that has joined has no data, but names ", plan.indices(), " indices"}));
    if (how.joined) own_ = {{nullptr, 0, state_->width()}, RowsPer::index};
    given_ = own_.values;
    if (how.joined) return;
    BatchSize const size{plan.indices(), plan.size(), plan.bags.count};
    if (!size.fits(own_.values, own_.per, state_->width()))
      throw this->refusal(Errc::invalid_argument, topology.rank(),
                          size.misfit(own_.values.rows, own_.values.width, own_.per, state_->width()));
    given_ = own_.values;
    if (how.keep) keep_rows(every_occurrence);
  }

 public:
  RowsView<T const> gradient() const { return given_; }
  void close() noexcept {
    if (plan_) --plan_->users;
    plan_ = nullptr;
    Base::close();
  }

 protected:
  // Past the call, rows lie in memory of the update: summed by index, or all occurrences where the policy sends them all.
  void keep_rows(bool every_occurrence) {
    std::int64_t const width = state_->width();
    bool const all = own_.distinct() || every_occurrence;
    std::size_t const count = all ? static_cast<std::size_t>(own_.values.rows) : plan_->size();
    kept_.resize_with_slack(count * static_cast<std::size_t>(width));
    if (all) state_->ops().pack_rows(own_.values, 0, count, kept_.data());
    else write_level(state_->ops(), *plan_, 0, own_, ArrivedRows<T, Space>{}, 0, count, kept_.data());
    own_ = {{kept_.data(), static_cast<std::int64_t>(count), width}, every_occurrence ? own_.per : RowsPer::distinct};
  }

  static std::string place_text(std::int64_t row, NonFiniteElement const& found) {
    return joined({"row ", row, ", column ", found.column});
  }

  typename S::Plan* plan_ = nullptr;
  OwnRows<T> own_;
  RowsView<T const> given_;
  Buffer<T, Space> kept_;
};

// The way of a sparse update whose rows travel as rows, by a policy's Journey: JourneyOf<C, Index, T, Space, W>, of which W is the
// exchange's wire. A journey's parameters are unconstrained: clang 14 cannot precompile a header that matches constrained ones.
template <Communicator C, class Update, template <class, class, class, class, class> class JourneyOf>
class RowsWay : public RowWayBase<C, Update> {
  using Base = RowWayBase<C, Update>;
  using Base::state_, Base::leader_, Base::function_, Base::plan_, Base::own_;
  using F = typename Base::Function;

 public:
  using typename Base::Index;
  using typename Base::Space;
  using typename Base::T;
  using Journey = JourneyOf<C, Index, T, Space, wire_of<typename Base::S::Exchange>>;

  void prepare(Update const& update, Topology<C> const& topology, Preparing how, int group) {
    this->prepare_rows(update, topology, how, group, Journey::every_occurrence);
    if (Journey::every_occurrence && own_.distinct())
      throw this->refusal(Errc::invalid_argument, topology.rank(),
                          std::string{Base::S::policy::name} + " pushes every occurrence: give one gradient row per index");
    if (Journey::gathers && topology.serves())
      throw this->refusal(
          Errc::misuse, topology.rank(),
          std::string{Base::S::policy::name} + " gathers at every rank, and in this topology only servers own rows");
    journey_.begin(state_->ops(), *plan_, own_, state_->placement().bases(), state_->rows(), state_->counted());
    journey_.prepare();
  }

  // Every rank knows alike whether the plan was agreed by a pull, which is part of the update's hash. A gathering asks nothing of
  // a pull, and another one may be on its way.
  NamedRows named() const { return !gathers && journey_.known() ? NamedRows::of_a_pull : NamedRows::by_index; }
  std::size_t counts() const { return journey_.asks() ? 1 : 0; }
  template <class Tell>
  void tell(Topology<C> const&, Tell&& tell) const {
    journey_.tell(tell);
  }
  template <class Told>
  void hear(Topology<C> const&, Told&& told) {
    journey_.hear(told);
  }
  bool next(Mails<C>& mail) { return journey_.next(mail); }
  void write(Mails<C>& mail) { journey_.write(mail); }
  void read(Mails<C>& mail) { journey_.read(mail); }
  void reduce() {
    journey_.reduce();
    if (plan_->hops.size() > 1) state_->seen.merged += static_cast<double>(plan_->level(1).size());
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
    if constexpr (!gathers && !Space::host_readable) {
      if (journey_.puts_off()) state_->apply_runs(result, journey_.addends(), journey_.groups(), this->divisor());
      else state_->apply(rows_, result.rows, static_cast<T>(scale));
    } else {
      state_->apply(rows_, result.rows, static_cast<T>(scale));
    }
    state_->end_update();
  }

 private:
  static constexpr bool gathers = Journey::gathers;

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
    if (state_->counted()) RowOps<HostSpace>::sum_counts(all_counts_.span(), groups_, 0, groups_.size(), merged_counts_.data());
    return {groups_.keys.span(), merged_rows_.data(), state_->counted() ? merged_counts_.data() : nullptr};
  }

  Journey journey_;
  std::span<Index const> rows_;
  Grouping<Index> groups_;
  Shown<Grouping<Index>, Space> shown_;
  Buffer<Index> all_keys_;
  Buffer<T, Space> all_rows_, merged_rows_;
  Buffer<std::uint32_t> all_counts_, merged_counts_;
};

}  // namespace parallax
