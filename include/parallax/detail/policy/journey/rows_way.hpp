// The way of a sparse gradient with rows travelling as rows: a policy gives it a journey and names it in its
// `exchange<Sparse>`, the step calls its phases.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "parallax/detail/core/list.hpp"
#include "parallax/detail/policy/journey/row_journey.hpp"
#include "parallax/policy/exchange.hpp"

namespace parallax::inline v0_2 {

// Shared parts of the ways of sparse updates: the plan, made here if the update brings indices, and the rows, copied if they
// must outlive the call. RowsWay derives from it, and so does a way that sends a table's rows in another form.
template <Communicator C, class Update>
class RowWayBase : public WayBase<C, Update> {
  using Base = WayBase<C, Update>;

 public:
  // A rank's state of the variable, a SparseState.
  using S = typename Base::State;
  static_assert(TableState<S>);
  // The memory space of the variable's rows and gradients.
  using typename Base::Space;
  // The variable's scalar.
  using typename Base::T;
  // The integer type of a key, the variable's.
  using Index = typename S::index_type;

 protected:
  // The variable's state, held from `prepare` to `close`.
  using Base::state_;

  // Prepares plan and rows. Local, called first in `prepare`. Takes the plan of a pull, or makes one of the update's indices;
  // of a pull whose rows have moved since, it makes the plan anew. `every_occurrence`: kept rows are not summed by index.
  // Throws Error: bad_id for an index outside the table; invalid_argument for rows that do not fit the batch; misuse if a
  // joined rank names indices; timeout if a device that groups them is waited for in vain.
  void prepare_rows(Update const& update, Topology<C> const& topology, Preparing how, int clip, bool every_occurrence = false) {
    this->begin(update, clip);
    bool const usable = update.plan && !update.plan->retired;
    typename S::Plan& plan = usable ? *update.plan : state_->take_plan();
    plan_ = &plan;
    ++plan.users;
    own_ = {update.rows, update.per};
    if (!update.plan) {
      detail::make_plan(topology, IndicesOf{&*state_, update.ids}, plan, "step");
    } else if (!usable) {
      detail::remake_plan(topology, *state_, plan, *update.plan, own_.distinct());
      if (own_.distinct()) own_.per = RowsPer::index;
    }
    count(state_->seen.pushed, pushed_, plan.size());
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
  // Returns the rows as the user gave them, one for each index, distinct index or bag; none on a rank that has joined.
  RowsView<T const> gradient() const { return given_; }
  // Notes that the step was applied: the batch's handle is of no use for a later step.
  void settled() noexcept {
    if (plan_) plan_->stepped = true;
    Base::settled();
  }
  // Takes back this update's count of the table's use, as the step was refused: most often the same rows come again.
  void refused() noexcept {
    if (state_) state_->seen.pushed -= pushed_, state_->seen.merged -= merged_;
    Base::refused();
  }
  // Lets go of the plan, which the variable's pool may give to another batch, and of the state.
  void close() noexcept {
    if (plan_) --plan_->users;
    plan_ = nullptr;
    pushed_ = merged_ = 0;
    Base::close();
  }

 protected:
  // Copies rows that outlive the call to `kept_`: summed by index, or all occurrences if the policy sends them all.
  void keep_rows(bool every_occurrence) {
    std::int64_t const width = state_->width();
    bool const all = own_.distinct() || every_occurrence;
    std::size_t const count = all ? static_cast<std::size_t>(own_.values.rows) : plan_->size();
    kept_.resize_with_slack(count * static_cast<std::size_t>(width));
    if (all) state_->ops().pack_rows(own_.values, 0, count, kept_.data());
    else write_level(state_->ops(), *plan_, 0, own_, ArrivedRows<T, Space>{}, 0, count, kept_.data());
    own_ = {{kept_.data(), static_cast<std::int64_t>(count), width}, every_occurrence ? own_.per : RowsPer::distinct};
  }

  // Adds `rows` to `seen`, a number of the table's use, and notes them in `own` as this update's.
  static void count(double& seen, double& own, std::size_t rows) {
    own = static_cast<double>(rows);
    seen += own;
  }

  // Returns "row r, column c", the name of an element of a gradient or of a sum in messages.
  static std::string place_text(std::int64_t row, NonFiniteElement const& found) {
    return joined({"row ", row, ", column ", found.column});
  }

  // The batch: the owners of its distinct keys, and the route of its rows. Held from `prepare` to `close`.
  typename S::Plan* plan_ = nullptr;
  // This rank's rows on their way: the user's memory, or `kept_`.
  OwnRows<T> own_;
  // The user's rows, as they were given.
  RowsView<T const> given_;
  // Rows that outlive the call; the memory is used again.
  Buffer<T, Space> kept_;
  // This update's addition to the variable's use, from `prepare` to `close`.
  double pushed_ = 0,  // rows pushed by this rank for the update
      merged_ = 0;     // and of those merged by its host
};

// The way of a sparse update with rows travelling as rows, by a policy's Journey: JourneyOf<C, Index, T, Space, W>, with the
// exchange's wire as W. A journey's parameters are unconstrained: clang 14 cannot precompile a header that matches constrained
// ones.
template <Communicator C, class Update, template <class, class, class, class, class> class JourneyOf>
class RowsWay : public RowWayBase<C, Update> {
  using Base = RowWayBase<C, Update>;
  using Base::state_, Base::leader_, Base::function_, Base::plan_, Base::own_;
  using F = typename Base::Function;

 public:
  // The integer type of a key, the variable's.
  using typename Base::Index;
  // The memory space of the variable's rows and gradients.
  using typename Base::Space;
  // The variable's scalar.
  using typename Base::T;
  // The policy's journey for this variable: a RowJourney with legs and a `reduce`.
  using Journey = JourneyOf<C, Index, T, Space, wire_of<typename Base::S::Exchange>>;

  // Takes plan and rows as `prepare_rows` does, and begins the journey. Local. Throws the errors of `prepare_rows`, and Error
  // if the policy cannot: invalid_argument for rows by distinct index if it sends every occurrence, misuse on a topology with
  // servers if it gathers at every rank.
  void prepare(Update const& update, Topology<C> const& topology, Preparing how, int clip) {
    this->prepare_rows(update, topology, how, clip, Journey::every_occurrence);
    if (Journey::every_occurrence && own_.distinct())
      throw this->refusal(Errc::invalid_argument, topology.rank(),
                          std::string{Base::S::policy::name} + " pushes every occurrence: give one gradient row per index");
    if (Journey::gathers && topology.serves())
      throw this->refusal(
          Errc::misuse, topology.rank(),
          std::string{Base::S::policy::name} + " gathers at every rank, and in this topology only servers own rows");
    bool const in_place = topology.reads_in_place() && static_cast<std::size_t>(topology.size()) <= sum_chunk;
    journey_.begin(state_->ops(), *plan_, own_, state_->placement().bases(), state_->rows(), state_->counted(), in_place);
    journey_.prepare();
  }

  // Returns `of_a_pull` if a pull told all ranks this plan's runs, alike on every rank: it is part of the update's hash. Else,
  // or of a gathering, `by_index`: a gathering asks nothing of a pull, and another pull may be on its way.
  NamedRows named() const { return !gathers && journey_.known() ? NamedRows::of_a_pull : NamedRows::by_index; }
  // Returns 1 if the journey has the agreement carry a number for each rank, else 0: ranks have told each other before.
  std::size_t counts() const { return journey_.asks() ? 1 : 0; }
  // Has the journey tell its numbers, by tell(rank, number), in the agreement that is about to be posted.
  template <class Tell>
  void tell(Topology<C> const&, Tell&& tell) const {
    journey_.tell(tell);
  }
  // Has the journey take the other ranks' numbers, by told(rank), once all have agreed.
  template <class Told>
  void hear(Topology<C> const&, Told&& told) {
    journey_.hear(told);
  }
  // Opens the journey's next leg, and returns true; false if there is none. Rows of all updates of a step share its transfers.
  bool next(Mails<C>& mail) { return journey_.next(mail); }
  // Fills the journey's leg.
  void write(Mails<C>& mail) { journey_.write(mail); }
  // Gives the journey the arrivals of its leg.
  void read(Mails<C>& mail) { journey_.read(mail); }
  // Reduces, local, after the last leg: the journey sums the arrivals. On two levels the variable notes, for `Auto`, the number
  // of distinct rows handed to it by this rank's host.
  void reduce() {
    journey_.reduce();
    if (plan_->hops.size() > 1) Base::count(state_->seen.merged, this->merged_, plan_->level(1).size());
  }

  // Enters the journey's result in the variable, local; the first one leads. Of a later one the sums are made at once. Throws
  // Error (misuse) for updates of one variable in different clip groups.
  void deposit(int clip) {
    if (state_->merging.first) journey_.sum_up();
    this->enter(journey_.reduced(), clip);
  }
  // Merges, by the leader: the results of all its variable's updates become one, which is averaged. A result not looked at
  // before it is applied is summed then, if sums are put off, or averaged then. Throws the errors of `reserve_update`.
  void merge() {
    if (!leader_) return;
    state_->reserve_update();
    auto& [sum, others, clip] = state_->merging;
    bool const looked_at = transforms<F> || clip >= 0;
    if (looked_at || !others.empty()) sum_up();
    if (!others.empty()) sum = sum_of(*sum, others);
    put_off_ = looked_at ? 0 : state_->average_by_scale(this->divisor());
    if (!journey_.puts_off() && put_off_ == 0) state_->average(*sum, this->divisor());
    if constexpr (is_adaptive<typename Base::S::Exchange> || Space::host_readable)
      state_->seen.owned = static_cast<double>(sum->keys.size());
    if constexpr (gathers && Space::host_readable) rows_ = state_->rows_named(sum->keys);  // before the commit: it may throw
  }
  // Calls the user's function, if any, with this rank's averaged rows and their numbers in the table; throws its errors.
  void transform() {
    if constexpr (transforms<F>) {
      auto const& result = *state_->merging.first;
      RowsView<T> const values{result.rows, static_cast<std::int64_t>(result.keys.size()), state_->width()};
      (*function_)(RowsGradient<Index, T>{state_->rows_of(keys_here(result.keys)), values});
    }
  }
  // Returns this rank's rows of the result, for the step to look at; sums put off are made and averaged for it. On a device
  // rows of zeros may follow.
  RowsView<T const> result() {
    auto const& sums = *state_->merging.first;
    bool const averages = journey_.puts_off() || std::exchange(put_off_, 0) != 0;
    if (journey_.puts_off()) sum_up();
    if (averages) state_->average(sums, this->divisor());
    return {sums.rows, static_cast<std::int64_t>(most_of(sums.keys)), state_->width()};
  }
  // Names an element of a gradient by its row in the given rows, and one of a sum by its row in the table.
  std::string place_of(NonFiniteElement const& found, bool of_result) const {
    if (!of_result) return this->place_text(found.row, found);
    return this->place_text(
        state_->placement().row(keys_here(state_->merging.first->keys)[static_cast<std::size_t>(found.row)]), found);
  }
  // Returns the rows whose squares this rank adds to the norm of its clip group: its own, or its share if every rank has all
  // rows. Over all ranks every row is counted once.
  RowsView<T const> clipped(Topology<C> const& topology) const {
    auto const& result = *state_->merging.first;
    std::size_t begin = 0, end = most_of(result.keys);
    if constexpr (gathers) {
      end = result.keys.size();
      begin = part_begin(end, topology.rank(), topology.size());
      end = part_begin(result.keys.size(), topology.rank() + 1, topology.size());
    }
    auto const width = static_cast<std::size_t>(state_->width());
    return as_row(std::span{result.rows + begin * width, (end - begin) * width});
  }
  // Applies the optimizer's rule, by the leader, last: over the rows of the result, each times `scale`. On a device, rows with
  // sums put off are summed, averaged and applied in one.
  void apply(double scale) noexcept(Space::host_readable) {
    auto const& result = *state_->merging.first;
    if (put_off_ != 0) scale *= put_off_;
    if constexpr (gathers && Space::host_readable) {
      state_->apply(rows_, result.rows, static_cast<T>(scale));
    } else if constexpr (gathers) {
      state_->apply(state_->rows_named(result.keys), result.rows, static_cast<T>(scale));
    } else if constexpr (Space::host_readable) {
      state_->apply(result.keys, result.rows, static_cast<T>(scale));
    } else {
      if (journey_.puts_off()) state_->apply_runs(result, journey_.addends(), journey_.groups(), this->divisor());
      else state_->apply(result.keys, result.rows, static_cast<T>(scale));
    }
    state_->end_update();
  }

 private:
  // True if the result has all rows named by any rank, not this rank's own only.
  static constexpr bool gathers = Journey::gathers;

  // Makes sums that were put off, and lets the variable's result refer to them.
  void sum_up() {
    journey_.sum_up();
    *state_->merging.first = journey_.reduced();
  }
  // Returns the results of all updates of the variable as one: keys grouped again, rows summed in the order of the updates. A
  // device takes the most rows there may be of each; rows without a key are of no key of the sum.
  ReducedRows<Index, T, Space> sum_of(ReducedRows<Index, T, Space> const& first,
                                      List<ReducedRows<Index, T, Space>> const& others) {
    std::size_t n = most_of(first.keys);
    auto const width = static_cast<std::size_t>(state_->width());
    for (auto const& other : others) n += most_of(other.keys);
    all_keys_.resize_with_slack(n);
    all_rows_.resize_with_slack(n * width);
    all_counts_.resize_with_slack(n);
    std::size_t at = 0;
    auto const& ops = state_->ops();
    auto const append = [&](ReducedRows<Index, T, Space> const& result) {
      std::size_t const u = most_of(result.keys);
      auto const keys = keys_there(ops, result.keys);
      if constexpr (Space::host_readable) ops.copy_bytes(all_keys_.data() + at, keys.data(), u * sizeof(Index));
      else ops.take_keys(keys.data(), u, result.keys.count(ops), static_cast<Index>(state_->rows()), all_keys_.data() + at);
      ops.copy_from(all_rows_.data() + at * width, result.rows, static_cast<std::int64_t>(u * width));
      if (result.counts) ops.copy_bytes(all_counts_.data() + at, result.counts, u * sizeof(std::uint32_t));
      at += u;
    };
    append(first);
    std::for_each(others.begin(), others.end(), append);
    groups_.group(ops, all_keys_.data(), n, state_->rows() + !Space::host_readable, plan_->sort);
    if constexpr (!Space::host_readable)
      if (n > 0) groups_.drop_padding(state_->rows());
    std::size_t const u = most_of(groups_.named());
    merged_rows_.resize_with_slack(u * width);
    merged_counts_.resize_with_slack(u);
    RowsView<T const> const rows{all_rows_.data(), static_cast<std::int64_t>(n), state_->width()};
    ops.coalesce(rows, groups_.there(ops), 0, u, merged_rows_.data());
    if (state_->counted()) ops.sum_counts(all_counts_.span(), groups_.there(ops), 0, u, merged_counts_.data());
    return {groups_.named(), merged_rows_.data(), state_->counted() ? merged_counts_.data() : nullptr};
  }

  // Kept from step to step, with its memory.
  Journey journey_;
  // The scale in place of an average that was put off; 0 if it is made.
  double put_off_ = 0;
  // Numbers of the rows that `apply` updates in the host's memory, if every rank has all rows.
  std::span<Index const> rows_;
  // Below: memory for merging several updates of one variable.
  Groups<Index, Space> groups_;
  Buffer<Index, Space> all_keys_;
  Buffer<T, Space> all_rows_, merged_rows_;
  Buffer<std::uint32_t, Space> all_counts_, merged_counts_;
};

}  // namespace parallax
