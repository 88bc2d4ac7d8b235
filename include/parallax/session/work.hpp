// One update on its way through a step: what it checks, what it sends, what it ends with and how it is applied.
#pragma once

#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parallax/core/function_ref.hpp"
#include "parallax/kernel/host_finite.hpp"
#include "parallax/policy/dense_bucket.hpp"
#include "parallax/policy/row_push.hpp"
#include "parallax/session/update.hpp"

namespace parallax::detail {

// The buckets of one flight: dense gradients by scalar type and by what is gathered afterwards.
template <Communicator C>
struct Buckets {
  DenseBucket<float, C> replicated_float, sharded_float;
  DenseBucket<double, C> replicated_double, sharded_double;

  template <class T, bool sharded>
  auto& of() {
    if constexpr (std::same_as<T, float>) {
      if constexpr (sharded) return sharded_float;
      else return replicated_float;
    } else {
      if constexpr (sharded) return sharded_double;
      else return replicated_double;
    }
  }
};

// The key of an id outside the table, by the variable's policy. Nothing else of a plan depends on it.
template <class State, class Id>
typename State::index_type key_outside(State const& state, RowPlan<typename State::index_type>& plan, Id id,
                                       std::size_t position, int rank, char const* operation) {
  if (state.bad_ids() == BadIds::drop_and_count) {
    ++plan.dropped;
    return static_cast<typename State::index_type>(state.rows());
  }
  if (state.bad_ids() == BadIds::error || state.rows() == 0)
    throw Error{Errc::bad_id, rank, operation, state.name(), "index " + std::to_string(id) + " at position " +
                    std::to_string(position) + " is outside [0, " + std::to_string(state.rows()) + ")"};
  Fingerprint hash;
  hash.add(static_cast<std::uint64_t>(id));
  return state.placement().key(static_cast<std::int64_t>(hash.value() % static_cast<std::uint64_t>(state.rows())));
}

template <class State, class Id>
void make_keys(State const& state, RowPlan<typename State::index_type>& plan, std::span<Id const> ids, int rank,
               char const* operation) {
  plan.keys.resize_with_slack(ids.size());
  auto const rows = static_cast<std::uint64_t>(state.rows());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    bool const inside = static_cast<std::uint64_t>(ids[i]) < rows;
    plan.keys[i] = inside ? state.placement().key(static_cast<std::int64_t>(ids[i]))
                          : key_outside(state, plan, ids[i], i, rank, operation);
  }
}

// Local. A plan for a batch of indices: its distinct keys, and which of them go to whom on the first hop.
template <Communicator C, class State, class Id>
void make_plan(Topology<C> const& topology, State& state, RowPlan<typename State::index_type>& plan, std::span<Id const> ids,
               char const* operation) {
  plan.prepare(State::Exchange::coalesced ? topology.hops() : topology.direct());
  make_keys(state, plan, ids, topology.rank(), operation);
  plan.group(ids.size(), state.rows());
  plan.cut(0, state.placement().bases());
  state.count_dropped(plan.dropped);
}

// Local. Notes for each index of a plan which bag it lies in, and its factor; an index that was dropped lies in none.
template <class Bags, class Plan>
void make_bags(Bags const& given, Plan& plan, int rank) {
  using T = typename Bags::state_type::scalar_type;
  auto const refuse = [&](std::string const& why) {
    throw Error{Errc::invalid_argument, rank, "pull", given.state->name(), why};
  };
  auto const& offsets = given.offsets;
  std::size_t const n = given.ids.size();
  if (offsets.empty() || offsets.front() != 0 || static_cast<std::uint64_t>(offsets.back()) != n)
    refuse("offsets of bags begin with 0 and end with the number of indices, " + std::to_string(n));
  if (given.weighted && given.weights.size() != n)
    refuse(std::to_string(given.weights.size()) + " weights for " + std::to_string(n) + " indices");
  if (offsets.size() > std::numeric_limits<std::uint32_t>::max()) refuse(std::to_string(offsets.size() - 1) + " bags");
  plan.bags = offsets.size() - 1;
  plan.mean = given.pool == Pool::mean;
  plan.factored = given.weighted || plan.mean;
  plan.bag_of.resize_with_slack(n);
  plan.factors.resize_with_slack(plan.factored ? n * sizeof(T) : 0);
  T* const factors = reinterpret_cast<T*>(plan.factors.data());
  auto const& inverse = plan.levels[0].inverse;
  for (std::size_t bag = 0; bag < plan.bags; ++bag) {
    if (offsets[bag] > offsets[bag + 1])
      refuse("the offsets of bags descend from " + std::to_string(offsets[bag]) + " to " + std::to_string(offsets[bag + 1]) +
             " at bag " + std::to_string(bag));
    auto const begin = static_cast<std::size_t>(offsets[bag]), end = static_cast<std::size_t>(offsets[bag + 1]);
    std::size_t kept = 0;
    for (std::size_t i = begin; i < end; ++i) {
      plan.bag_of[i] = static_cast<std::uint32_t>(bag);
      kept += inverse[i] < plan.size();
    }
    for (std::size_t i = begin; i < end && plan.factored; ++i)
      factors[i] = given.weighted ? given.weights[i] : T{1} / static_cast<T>(kept ? kept : 1);
  }
}

// Local, once the rows of a pull are here: what a handle shows of them.
template <class State>
void finish_pull(PulledRows<State> const& handle) {
  if (handle.dropped() > 0)
    handle.plan()->append_zeros(static_cast<std::size_t>(handle.width()) * sizeof(typename State::scalar_type));
}
template <class State>
void finish_pull(PulledBags<State> const& handle) {
  using T = typename State::scalar_type;
  finish_pull(handle.rows());
  auto& plan = *handle.plan();
  auto const width = static_cast<std::size_t>(handle.width());
  plan.pooled.resize_with_slack(plan.bags * width * sizeof(T));
  auto const& inverse = plan.levels[0].inverse;
  bool const weighted = plan.factored && !plan.mean;
  RowTerms<T> const terms{handle.rows().values(), inverse.data(),
                          weighted ? reinterpret_cast<T const*>(plan.factors.data()) : nullptr};
  T* out = reinterpret_cast<T*>(plan.pooled.data());
  std::size_t begin = 0;
  for (std::size_t bag = 0; bag < plan.bags; ++bag, out += width) {
    std::size_t end = begin, kept = 0;
    for (; end < plan.indices() && plan.bag_of[end] == bag; ++end) kept += inverse[end] < plan.size();
    sum_terms(terms, begin, end, [](std::size_t i) { return i; }, out);
    if (plan.mean && kept > 1) RowOps<HostSpace>::scale_down(out, handle.width(), static_cast<T>(kept));
    begin = end;
  }
}

// The counts of hop 0 that ride in an agreement: how many keys of the plan go to each rank.
template <class Index, class Tell>
void tell_plan(RowPlan<Index> const& plan, Tell&& tell) {
  auto const& targets = plan.hops->front().targets;
  for (std::size_t t = 0; t < targets.size(); ++t) tell(targets[t], plan.sent(0, t));
}
template <class Index, class Told>
void hear_plan(RowPlan<Index>& plan, Told&& told) {
  auto const& sources = plan.hops->front().sources;
  for (std::size_t s = 0; s < sources.size(); ++s) plan.expect(0, s, told(sources[s]));
}

// Over how many ranks a mean is, and how many named a dense gradient: all, or those that have not joined.
struct Divisors {
  int mean = 1, named = 1;
};

// What a flight tells the updates that it prepares.
struct Preparing {
  bool keep;    // they outlive the call
  bool joined;  // this rank has no data any more and contributes nothing
  bool finite;  // refuse what is not finite
};

// Where the first value that is no number stands, as the end of a sentence; nothing if there is none.
template <class T>
std::optional<std::string> non_finite_row(RowsView<T> rows, FunctionRef<std::string(std::int64_t)> name_row) {
  for (std::int64_t row = 0; row < rows.rows; ++row) {
    std::int64_t const column = first_non_finite<std::remove_const_t<T>>(rows.row(row), rows.width);
    if (column == rows.width) continue;
    return name_row(row) + ", column " + std::to_string(column) + " is " + number_text(rows.row(row)[column]);
  }
  return std::nullopt;
}
template <class T>
std::optional<std::string> non_finite_element(std::span<T const> values, std::size_t first) {
  auto const at = static_cast<std::size_t>(first_non_finite(values.data(), static_cast<std::int64_t>(values.size())));
  if (at == values.size()) return std::nullopt;
  return "element " + std::to_string(first + at) + " is " + number_text(values[at]);
}

PARALLAX_STRICT_ARITHMETIC_BEGIN

// A rule on sums over ranks: each is divided and scaled on its way, and never written back.
template <class T, class Rule>
struct AveragedRule {
  Rule rule;
  T divisor, scale;

  template <class... S>
  void operator()(T& p, T sum, S&... slots) const noexcept {
    PARALLAX_NO_CONTRACT
    T const average = sum / divisor;
    rule(p, static_cast<T>(average * scale), slots...);
  }
};

PARALLAX_STRICT_ARITHMETIC_END

template <class F>
inline constexpr bool transforms = !std::same_as<F, NoTransform>;

// Phases of one update, in the order in which a step calls them on all its updates. Those between `begin` and `close` are
//   prepare      local, may throw      checks, and copies what must outlive the call (`keep`)
//   join         local, may throw      enters the flight's buckets
//   tell/hear    local                 the counts that ride in the agreement
//   visit_journey                      what the flight carries, where rows travel
//   reduce       local, may throw      what this rank owns of this update
//   divide_by    local                 how many ranks a mean is over
//   deposit      local, may throw      entered into the variable; the first update of a variable leads
//   merge        local, may throw      by the leader: sum of all updates, mean
//   transform    local, may throw      the user's function on the variable's result
//   non_finite   local, may throw      by the leader: where its result is no number, if anywhere
//   norm_squared local                 by the leader
//   measure/take local, noexcept       by the leader, where the optimizer measures the whole tensor: sums of what this rank
//                                      owns, and of what all do
//   apply        local, noexcept       by the leader
//   close        local, noexcept       gives everything back, also after a failure
template <Communicator C, class Update>
class WorkBase {
 public:
  using State = typename Update::State;
  using T = typename State::scalar_type;

  State& state() const { return *state_; }
  int group() const { return group_; }
  bool leader() const { return leader_; }

  std::size_t counts() const { return 0; }
  template <class Tell>
  void tell(Topology<C> const&, Tell&&) const {}
  template <class Told>
  void hear(Topology<C> const&, Told&&) const {}
  void join(Buckets<C>&) const {}
  // Whether the ranks may gather what the owners of its buckets have summed before the step completes it.
  bool gathers_early() const { return true; }
  template <class Visit>
  void visit_journey(Visit&&) const {}
  void reduce() const {}
  void divide_by(Divisors divisors) { divisors_ = divisors; }
  std::size_t shared_measures() const { return 0; }
  void measure(double, std::vector<double>&) const {}
  void take(double const*&) const {}

  void close() noexcept {
    if (state_) state_->merging.clear();
    state_.reset();
  }

 protected:
  void begin(Update const& update, int group) {
    leader_ = false;
    state_ = Shared{update.state};
    function_.emplace(update.function);
    group_ = group;
  }
  template <class Result>
  void enter(Result result, int group) {
    auto& merging = state_->merging;
    leader_ = merging.results.empty();
    if (leader_) merging.group = group;
    if (merging.group != group)
      throw Error{Errc::misuse, -1, "step", state_->name(), "updates of one variable lie in different clip groups"};
    merging.results.push_back(result);
  }
  Error refusal(Errc code, int rank, std::string detail) const {
    return {code, rank, "step", state_->name(), std::move(detail)};
  }
  int divisor() const { return state_->reduce() == Reduce::mean ? divisors_.mean : divisors_.named; }

  using Function = decltype(Update::function);

  Shared<State> state_;
  std::optional<Function> function_;
  Divisors divisors_;
  int group_ = -1;
  bool leader_ = false;
};

template <Communicator C, class Update>
class Work;

// A dense variable, under AllReduce or PsShard.
template <Communicator C, class S, class F>
class Work<C, DenseUpdate<S, F>> : public WorkBase<C, DenseUpdate<S, F>> {
  using Base = WorkBase<C, DenseUpdate<S, F>>;
  using Base::state_, Base::leader_, Base::function_;

 public:
  using typename Base::T;

  void prepare(DenseUpdate<S, F> const& update, Topology<C> const& topology, Preparing how, int group) {
    this->begin(update, group);
    gradient_ = update.gradient;
    if (gradient_.size() != state_->size() && !how.joined)
      throw this->refusal(Errc::invalid_argument, topology.rank(),
                          "a gradient of " + std::to_string(gradient_.size()) + " elements for a variable of " +
                              std::to_string(state_->size()));
    if (how.finite && !how.joined)
      if (auto const where = non_finite_element(gradient_, 0))
        throw this->refusal(Errc::non_finite, topology.rank(), "of the gradient, " + *where);
    if (!how.keep && !how.joined) return;
    kept_.resize_with_slack(state_->size());
    if (how.joined) kept_.fill(T{});
    else if (!gradient_.empty()) std::memcpy(kept_.data(), gradient_.data(), gradient_.size_bytes());
    gradient_ = kept_.span();
  }
  void join(Buckets<C>& buckets) {
    bucket_ = &buckets.template of<T, S::sharded>();
    segment_ = bucket_->add(gradient_.data(), gradient_.size(), state_->values().data(), state_->unit());
  }

  bool gathers_early() const { return S::sharded || !transforms<F>; }

  void deposit(int group) {
    this->enter(bucket_->owned(segment_).values, group);
    if (!leader_) bucket_->leave_parameters(segment_);
  }
  void merge() {
    if (!leader_) return;
    static_cast<void>(state_->rule());  // what `at` throws, it throws before the commit
    auto const& results = state_->merging.results;
    if (results.size() > 1) bucket_->drop_sums();
    for (std::size_t i = 1; i < results.size(); ++i)
      RowOps<HostSpace>::add_to(results[0].data(), results[i].data(), static_cast<std::int64_t>(results[0].size()));
    // Where every rank has the whole sum and nobody looks at it before, it is averaged as it is applied.
    left_whole_ = bucket_->owns_whole() && !transforms<F> && this->group() < 0;
    if (!left_whole_) state_->average(results[0], this->divisor());
  }
  void transform() {
    if constexpr (transforms<F>)
      (*function_)(DenseGradient<T>{bucket_->owned(segment_).first, state_->merging.results[0]});
  }
  std::optional<std::string> non_finite() const {
    return non_finite_element<T>(state_->merging.results[0], bucket_->owned(segment_).first);
  }
  double norm_squared(Topology<C> const& topology) const {
    std::span<T const> values = state_->merging.results[0];
    if (bucket_->owns_whole()) values = own_share(values, topology);
    return RowOps<HostSpace>::sum_of_squares(values.data(), static_cast<std::int64_t>(values.size()));
  }
  // What is shared is what owners measured of their parts; where every rank has the whole, each measures it all, in the same
  // parts, so that the sums are the same.
  std::size_t shared_measures() const { return measures && S::sharded ? measure_count : 0; }
  void measure(double scale, std::vector<double>& shared) noexcept {
    if constexpr (measures) {
      sums_ = {};
      if constexpr (S::sharded) {
        auto const part = bucket_->owned(segment_);
        auto const own = state_->measure(part.first, part.values.data(), part.values.size(), static_cast<T>(scale));
        shared.insert(shared.end(), own.begin(), own.end());
      } else {
        bucket_->whole(segment_, [&](std::size_t first, T* values, std::size_t count) {
          if (averages_late()) state_->average({values, count}, this->divisor());
          bucket_->each_part(segment_, [&](std::size_t begin, std::size_t end) {
            if (begin < first || end > first + count) return;
            auto const part = state_->measure(begin, values + (begin - first), end - begin, static_cast<T>(scale));
            for (std::size_t k = 0; k < measure_count; ++k) sums_[k] += part[k];
          });
        });
      }
    }
  }
  void take(double const*& shared) {
    for (std::size_t k = 0; k < shared_measures(); ++k) sums_[k] = *shared++;
  }

  void apply(double given_scale) noexcept {
    auto const scale = static_cast<T>(given_scale);
    auto const rule = [&] {
      if constexpr (measures) return state_->rule().finish(sums_, static_cast<std::int64_t>(state_->size()));
      else return state_->rule();
    }();
    auto const update = [&](std::size_t first, T const* values, std::size_t count) {
      if constexpr (measures) state_->finish(first, values, count, scale, rule);
      else state_->apply(first, values, count, scale, rule);
    };
    if constexpr (S::sharded) {
      auto const part = bucket_->owned(segment_);
      update(part.first, part.values.data(), part.values.size());
    } else if (measures || !averages_late()) {
      bucket_->whole(segment_, update);
    } else if constexpr (unit<typename S::optimizer_type> == Unit::element) {
      AveragedRule<T, decltype(rule)> const averaged{
          rule, state_->reduce() == Reduce::sum ? T{1} : static_cast<T>(this->divisor()), scale};
      bucket_->whole(segment_, [&](std::size_t first, T const* values, std::size_t count) {
        state_->apply(first, values, count, T{1}, averaged);
      });
    } else {
      std::size_t const tile = std::max(tile_elements / state_->unit(), std::size_t{1}) * state_->unit();
      bucket_->whole(segment_, [&](std::size_t first, T* values, std::size_t count) {
        for (std::size_t at = 0; at < count; at += std::min(tile, count - at)) {
          std::span<T> const sums{values + at, std::min(tile, count - at)};
          state_->average(sums, this->divisor());
          update(first + at, sums.data(), sums.size());
        }
      });
    }
    state_->end_update();
  }

 private:
  // Whether `whole` is of sums. Asked after all merging, for one update may make its bucket gather again.
  bool averages_late() const { return left_whole_ || bucket_->holds_sums(); }

  static constexpr bool measures = unit<typename S::optimizer_type> == Unit::tensor;
  static constexpr std::size_t tile_elements = 2048;  // averaged and applied while in cache
  static constexpr auto first_sums() {
    if constexpr (measures) return decltype(std::declval<S&>().measure(0, nullptr, 0, T{})){};
    else return Measures<0>{};
  }
  static constexpr std::size_t measure_count = std::tuple_size_v<decltype(first_sums())>;

  // Where every rank has the whole, each measures its share of it.
  static std::span<T const> own_share(std::span<T const> whole, Topology<C> const& topology) {
    if (topology.owner() < 0) return {};
    std::size_t const begin = part_begin(whole.size(), topology.owner(), topology.owners());
    return whole.subspan(begin, part_begin(whole.size(), topology.owner() + 1, topology.owners()) - begin);
  }

  std::span<T const> gradient_;
  Buffer<T> kept_;
  DenseBucket<T, C>* bucket_ = nullptr;
  std::size_t segment_ = 0;
  bool left_whole_ = false;
  decltype(first_sums()) sums_{};
};

// What the sparse works share: the plan, made here where the update brings indices, and the rows, kept where they must.
template <Communicator C, class S, class Id, class F>
class RowWorkBase : public WorkBase<C, RowUpdate<S, Id, F>> {
  using Base = WorkBase<C, RowUpdate<S, Id, F>>;

 protected:
  using Base::state_;
  using typename Base::T;
  using Index = typename S::index_type;

  void prepare_rows(RowUpdate<S, Id, F> const& update, Topology<C> const& topology, Preparing how, int group) {
    this->begin(update, group);
    RowPlan<Index>& plan = update.plan ? *update.plan : state_->take_plan();
    plan_ = &plan;
    ++plan.users;
    if (!update.plan) make_plan(topology, *state_, plan, update.ids, "step");
    own_ = {update.rows, update.per};
    auto const expected = static_cast<std::int64_t>(update.per == RowsPer::distinct ? plan.size()
                                                    : update.per == RowsPer::bag    ? plan.bags
                                                                                    : plan.indices());
    if (how.joined && plan.indices() > 0)
      throw this->refusal(Errc::misuse, topology.rank(),
                          "a rank that has joined has no data, but names " + std::to_string(plan.indices()) + " indices");
    if (how.joined) {
      own_ = {{nullptr, 0, state_->width()}, RowsPer::index};
      return;
    }
    if (state_->width() == 0 && own_.values.rows == 0) own_.values.rows = expected;  // empty rows cannot be counted
    if (own_.values.rows != expected || own_.values.width != state_->width())
      throw this->refusal(Errc::invalid_argument, topology.rank(),
                          "gradient rows of " + shape(own_.values.rows, own_.values.width) + " for " +
                              shape(expected, state_->width()) + " pulled or named");
    if (how.finite)
      if (auto const where = non_finite_row(own_.values, [](std::int64_t row) { return "row " + std::to_string(row); }))
        throw this->refusal(Errc::non_finite, topology.rank(), "of the gradient, " + *where);
    if (how.keep) keep_rows();
  }

 public:
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
    if (all)
      for (std::size_t i = 0; i < count; ++i)
        RowOps<HostSpace>::copy_from(kept_.data() + i * static_cast<std::size_t>(width),
                                     own_.values.row(static_cast<std::int64_t>(i)), width);
    else write_level(*plan_, 0, own_, ArrivedRows<T>{}, 0, count, kept_.data());
    own_ = {{kept_.data(), static_cast<std::int64_t>(count), width}, S::Exchange::coalesced ? RowsPer::distinct : own_.per};
  }

  RowPlan<Index>* plan_ = nullptr;
  OwnRows<T> own_;
  Buffer<T> kept_;
};

// A sparse variable whose rows travel as rows: under PsShard, NaivePs and AllGather.
template <Communicator C, class S, class Id, class F>
  requires(!S::Exchange::densified)
class Work<C, RowUpdate<S, Id, F>> : public RowWorkBase<C, S, Id, F> {
  using Base = RowWorkBase<C, S, Id, F>;
  using Base::state_, Base::leader_, Base::function_, Base::plan_, Base::own_;
  using typename Base::Index;
  using typename Base::T;
  static constexpr bool naive = !S::Exchange::coalesced, gathers = !S::sharded;
  using Journey = std::conditional_t<naive, NaivePush<C, Index, T>,
                                     std::conditional_t<gathers, GatherPush<C, Index, T>, ShardPush<C, Index, T>>>;

 public:
  void prepare(RowUpdate<S, Id, F> const& update, Topology<C> const& topology, Preparing how, int group) {
    this->prepare_rows(update, topology, how, group);
    if (naive && own_.distinct())
      throw this->refusal(Errc::invalid_argument, topology.rank(),
                          "NaivePs pushes every occurrence: give one gradient row per index");
    known_ = !gathers && plan_->agreed > 0;  // a gathering asks nothing of a pull, and another one may be on its way
    flat_ = topology.hops().size() == 1;
    journey_.begin(*plan_, own_, state_->placement().bases(), state_->rows(), state_->counted());
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
  void reduce() { journey_.reduce(); }

  void deposit(int group) { this->enter(journey_.reduced(), group); }
  void merge() {
    if (!leader_) return;
    state_->reserve_update();
    auto& results = state_->merging.results;
    if (results.size() > 1) results[0] = sum_of(results);
    state_->average(results[0], this->divisor());
    rows_ = gathers ? state_->rows_of(results[0].keys) : results[0].keys;
  }
  void transform() {
    if constexpr (transforms<F>) {
      auto const& result = state_->merging.results[0];
      RowsView<T> const values{result.rows, static_cast<std::int64_t>(result.keys.size()), state_->width()};
      (*function_)(RowsGradient<Index, T>{state_->rows_of(result.keys), values});
    }
  }
  std::optional<std::string> non_finite() {
    auto const& result = state_->merging.results[0];
    RowsView<T> const values{result.rows, static_cast<std::int64_t>(result.keys.size()), state_->width()};
    return non_finite_row(values, [&](std::int64_t i) {
      return "row " + std::to_string(state_->placement().row(result.keys[static_cast<std::size_t>(i)]));
    });
  }
  // Where every rank has all rows, each measures its share of them.
  double norm_squared(Topology<C> const& topology) const {
    auto const& result = state_->merging.results[0];
    std::size_t begin = 0, end = result.keys.size();
    if constexpr (gathers) {
      begin = part_begin(end, topology.rank(), topology.size());
      end = part_begin(result.keys.size(), topology.rank() + 1, topology.size());
    }
    auto const width = static_cast<std::size_t>(state_->width());
    return RowOps<HostSpace>::sum_of_squares(static_cast<T const*>(result.rows + begin * width),
                                             static_cast<std::int64_t>((end - begin) * width));
  }
  void apply(double scale) noexcept {
    auto const& result = state_->merging.results[0];
    Index const base = gathers || state_->owner() < 0 ? Index{0} : state_->placement().base(state_->owner());
    state_->apply(rows_, base, result.rows, static_cast<T>(scale));
    state_->end_update();
  }

 private:
  // The results of all updates of the variable as one: keys grouped again, rows summed in the order of the updates.
  ReducedRows<Index, T> sum_of(std::vector<ReducedRows<Index, T>> const& results) {
    std::size_t n = 0;
    auto const width = static_cast<std::size_t>(state_->width());
    for (auto const& result : results) n += result.keys.size();
    all_keys_.resize_with_slack(n);
    all_rows_.resize_with_slack(n * width);
    all_counts_.resize_with_slack(n);
    std::size_t at = 0;
    for (auto const& result : results) {
      std::size_t const u = result.keys.size();
      std::copy_n(result.keys.data(), u, all_keys_.data() + at);
      std::copy_n(result.rows, u * width, all_rows_.data() + at * width);
      if (result.counts) std::copy_n(result.counts, u, all_counts_.data() + at);
      at += u;
    }
    RowOps<HostSpace>::unique_with_inverse(std::span<Index const>{all_keys_.span()}, state_->rows(), groups_, plan_->sort);
    merged_rows_.resize_with_slack(groups_.size() * width);
    merged_counts_.resize_with_slack(groups_.size());
    RowsView<T const> const rows{all_rows_.data(), static_cast<std::int64_t>(n), state_->width()};
    RowOps<HostSpace>::coalesce(rows, groups_, 0, groups_.size(), merged_rows_.data());
    if (state_->counted())
      RowOps<HostSpace>::sum_counts(all_counts_.span(), groups_, 0, groups_.size(), merged_counts_.data());
    return {groups_.keys.span(), merged_rows_.data(), state_->counted() ? merged_counts_.data() : nullptr};
  }

  Journey journey_;
  bool known_ = false, flat_ = true;
  std::span<Index const> rows_;
  Grouping<Index> groups_;
  Buffer<Index> all_keys_;
  Buffer<T> all_rows_, merged_rows_;
  Buffer<std::uint32_t> all_counts_, merged_counts_;
};

// A sparse variable under AllReduce: its rows are scattered into a gradient of the whole table, with a count behind every row
// where the mean goes by counts or a lazy optimizer must know which rows were touched.
template <Communicator C, class S, class Id, class F>
  requires(S::Exchange::densified)
class Work<C, RowUpdate<S, Id, F>> : public RowWorkBase<C, S, Id, F> {
  using Base = RowWorkBase<C, S, Id, F>;
  using Base::state_, Base::leader_, Base::function_, Base::plan_, Base::own_;
  using typename Base::Index;
  using typename Base::T;

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
    bucket_ = &buckets.template of<T, false>();
    segment_ = bucket_->add(table_.data(), table_.size(), nullptr, stride_);
  }
  void deposit(int group) { this->enter(bucket_->owned(segment_).values, group); }
  void merge() {
    if (!leader_) return;
    state_->reserve_update();
    auto const& results = state_->merging.results;
    for (std::size_t i = 1; i < results.size(); ++i)
      RowOps<HostSpace>::add_to(results[0].data(), results[i].data(), static_cast<std::int64_t>(results[0].size()));
    auto const width = static_cast<std::int64_t>(state_->width());
    for_each_row(results[0], [&](T* row) {
      T const divisor = state_->reduce() == Reduce::mean ? static_cast<T>(this->divisor()) : counted_ ? row[width] : T{1};
      if (state_->reduce() != Reduce::sum && divisor > T{1}) RowOps<HostSpace>::scale_down(row, width, divisor);
    });
  }
  // The transform sees every row of the part, those that nobody touched included.
  void transform() {
    if constexpr (transforms<F>) {
      auto const part = bucket_->owned(segment_);
      auto const values = state_->merging.results[0];
      std::size_t const rows = stride_ ? values.size() / stride_ : 0;
      ids_.resize_with_slack(rows);
      for (std::size_t i = 0; i < rows; ++i) ids_[i] = static_cast<Index>(part.first / stride_ + i);
      (*function_)(RowsGradient<Index, T>{ids_.span(), RowsView<T>{values.data(), static_cast<std::int64_t>(rows),
                                                                  state_->width(), static_cast<std::int64_t>(stride_)}});
    }
  }
  std::optional<std::string> non_finite() const {
    auto const part = bucket_->owned(segment_);
    auto const values = state_->merging.results[0];
    RowsView<T> const rows{values.data(), static_cast<std::int64_t>(stride_ ? values.size() / stride_ : 0), state_->width(),
                           static_cast<std::int64_t>(stride_)};
    return non_finite_row(rows, [&](std::int64_t i) {
      return "row " + std::to_string(part.first / stride_ + static_cast<std::size_t>(i));
    });
  }
  double norm_squared(Topology<C> const& topology) const {
    double sum = 0;
    if (bucket_->owns_whole() && topology.rank() != 0) return 0;
    for_each_row(state_->merging.results[0], [&](T const* row) {
      sum += RowOps<HostSpace>::sum_of_squares(row, static_cast<std::int64_t>(state_->width()));
    });
    return sum;
  }
  void apply(double scale) noexcept {
    bucket_->whole(segment_, [&](std::size_t first, T const* values, std::size_t count) {
      state_->apply_densified(static_cast<std::int64_t>(first / stride_), values, static_cast<std::int64_t>(count / stride_),
                              static_cast<std::int64_t>(stride_), counted_, static_cast<T>(scale));
    });
    state_->end_update();
  }

 private:
  template <class Span, class G>
  void for_each_row(Span values, G&& g) const {
    for (std::size_t at = 0; stride_ && at < values.size(); at += stride_) g(values.data() + at);
  }

  void densify() {
    std::int64_t const width = state_->width();
    std::size_t const distinct = plan_->size();
    table_.resize(static_cast<std::size_t>(state_->rows()) * stride_);
    table_.fill(T{});
    sums_.resize_with_slack(distinct * static_cast<std::size_t>(width));
    write_level(*plan_, 0, own_, ArrivedRows<T>{}, 0, distinct, sums_.data());
    auto const& groups = plan_->levels[0];
    for (std::size_t i = 0; i < distinct; ++i) {
      T* const row = table_.data() + static_cast<std::size_t>(state_->placement().row(groups.keys[i])) * stride_;
      RowOps<HostSpace>::copy_from(row, sums_.data() + i * static_cast<std::size_t>(width), width);
      if (counted_) row[width] = static_cast<T>(groups.offsets[i + 1] - groups.offsets[i]);
    }
  }

  bool counted_ = false;
  std::size_t stride_ = 1, segment_ = 0;
  Buffer<T> table_, sums_;
  Buffer<Index> ids_;
  DenseBucket<T, C>* bucket_ = nullptr;
};

}  // namespace parallax::detail
