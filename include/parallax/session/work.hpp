// One update on its way through a step: its phases, and what updates of all kinds share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parallax/core/function_ref.hpp"
#include "parallax/kernel/host_finite.hpp"
#include "parallax/policy/dense_bucket.hpp"
#include "parallax/session/update.hpp"

namespace parallax::detail {

// The buckets of one flight: dense gradients by memory space, scalar type, and what is gathered afterwards.
template <Communicator C, MemorySpace Space>
struct BucketsIn {
  DenseBucket<float, C, Space> replicated_float, sharded_float;
  DenseBucket<double, C, Space> replicated_double, sharded_double;

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
  // Calls f with every bucket, and whether it is sharded.
  template <class F>
  void each(F& f) {
    f(replicated_float, false);
    f(sharded_float, true);
    f(replicated_double, false);
    f(sharded_double, true);
  }
};
template <Communicator C>
struct Buckets : BucketsIn<C, HostSpace> {
  template <class T, bool sharded, class>
  auto& of() {
    return BucketsIn<C, HostSpace>::template of<T, sharded>();
  }
};
template <CarriesDevice C>
struct Buckets<C> {
  BucketsIn<C, HostSpace> host;
  BucketsIn<C, typename C::device_space> device;

  template <class T, bool sharded, class Space>
  auto& of() {
    if constexpr (std::same_as<Space, HostSpace>) return host.template of<T, sharded>();
    else return device.template of<T, sharded>();
  }
  template <class F>
  void each(F& f) {
    host.each(f);
    device.each(f);
  }
};

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
template <class Ops, class T>
std::optional<std::string> non_finite_row(Ops const& ops, RowsView<T> rows, FunctionRef<std::string(std::int64_t)> name_row) {
  std::int64_t const rows_at_once = rows.contiguous() ? rows.rows : 1;
  for (std::int64_t first = 0; first < rows.rows; first += rows_at_once) {
    std::int64_t const n = rows_at_once * rows.width;
    std::int64_t const at = ops.template first_non_finite<std::remove_const_t<T>>(rows.row(first), n);
    if (at == n) continue;
    return name_row(first + at / rows.width) + ", column " + std::to_string(at % rows.width) + " is " +
           number_text(ops.read(rows.row(first) + at));
  }
  return std::nullopt;
}
template <class Ops, class T>
std::optional<std::string> non_finite_element(Ops const& ops, std::span<T const> values, std::size_t first) {
  auto const at = static_cast<std::size_t>(ops.first_non_finite(values.data(), static_cast<std::int64_t>(values.size())));
  if (at == values.size()) return std::nullopt;
  return "element " + std::to_string(first + at) + " is " + number_text(ops.read(values.data() + at));
}

template <class F>
inline constexpr bool transforms = !std::same_as<F, NoTransform>;

// Which phases an argument of `step` takes part in at all; the others are not compiled for it.
template <class Argument>
struct Takes;
template <class S, class F>
struct Takes<DenseUpdate<S, F>> {
  static constexpr bool journeys = false, transform = transforms<F>, adapting = false;
  static constexpr bool measures = unit<typename S::optimizer_type> == Unit::tensor;
};
template <class S, class Id, class F>
struct Takes<RowUpdate<S, Id, F>> {
  static constexpr bool journeys = S::adaptive || !S::Exchange::densified, transform = transforms<F>, measures = false,
                        adapting = S::adaptive;
};
template <UpdateRange Range>
struct Takes<Range> : Takes<update_of<Range>> {};
template <class... Updates>
struct TakesAny {
  static constexpr bool journeys = (false || ... || Takes<Updates>::journeys),
                        transform = (false || ... || Takes<Updates>::transform),
                        measures = (false || ... || Takes<Updates>::measures),
                        adapting = (false || ... || Takes<Updates>::adapting);
};
template <class... Updates>
struct Takes<ClipGroup<Updates...>> : TakesAny<std::remove_cvref_t<Updates>...> {};

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
//   apply        local                 by the leader; noexcept unless on a device
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
    leader_ = !merging.first;
    if (leader_) {
      merging.first = result;
      merging.group = group;
      return;
    }
    if (merging.group != group)
      throw Error{Errc::misuse, -1, "step", state_->name(), "updates of one variable lie in different clip groups"};
    merging.others.push_back(result);
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

}  // namespace parallax::detail
