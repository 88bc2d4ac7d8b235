// One update on its way through a step: its phases, and what updates of all kinds share.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parallax/core/function_ref.hpp"
#include "parallax/kernel/findings.hpp"
#include "parallax/policy/dense_bucket.hpp"
#include "parallax/session/measured.hpp"
#include "parallax/session/update.hpp"

namespace parallax::detail {

// Something that a flight has for each memory space in which its updates may be: Of<C, Space>, whose parameters
// are a Communicator and a MemorySpace.
template <Communicator C, template <class, class> class Of>
struct BySpace {
  template <MemorySpace>
  Of<C, HostSpace>& of() { return host; }
  template <class F>
  void each(F&& f) { f(host); }

  Of<C, HostSpace> host;
};
template <CarriesDevice C, template <class, class> class Of>
struct BySpace<C, Of> {
  template <MemorySpace Space>
  auto& of() {
    if constexpr (std::same_as<Space, HostSpace>) return host;
    else return device;
  }
  template <class F>
  void each(F&& f) {
    f(host);
    f(device);
  }

  Of<C, HostSpace> host;
  Of<C, typename C::device_space> device;
};

// The buckets of one flight in one memory space: dense gradients by scalar type, and by what is gathered afterwards.
template <class C, class Space>
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
using Buckets = BySpace<C, BucketsIn>;

template <Communicator C>
using MeasuredSums = BySpace<C, MeasuredIn>;

template <class, class Space>
struct FindingsIn {
  using space = Space;

  Findings<Space> of_gradients, of_sums;  // as they were brought, and summed over ranks
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

// Elements one after the other, as a row.
template <class T>
RowsView<T const> as_row(std::span<T> values) {
  return {values.data(), 1, static_cast<std::int64_t>(values.size())};
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

// Places in a flight's findings, by update; none where nothing is sought.
struct SoughtOf {
  static constexpr std::uint32_t none = ~0u;
  std::uint32_t squares = none, in_gradient = none, in_sums = none;
};

// Phases of one update, in the order in which a step calls them on all its updates. Those between `begin` and `close` are
//   prepare      local, may throw      checks, and copies what must outlive the call (`keep`)
//   gradient     local                 its gradient, as the user has given it: to be looked at before the call returns
//   join         local, may throw      enters the flight's buckets
//   tell/hear    local                 the counts that ride in the agreement
//   visit_journey                      what the flight carries, where rows travel
//   reduce       local, may throw      what this rank owns of this update
//   divide_by    local                 how many ranks a mean is over
//   deposit      local, may throw      entered into the variable; the first update of a variable leads
//   merge        local, may throw      by the leader: sum of all updates, mean
//   transform    local, may throw      the user's function on the variable's result
//   clipped      local                 by the leader: what this rank adds to the norm of its clip group, to be looked at
//   result       local, may throw      by the leader: all that this rank has of the result, to be looked at
//   place_of     local, may throw      what an element of `gradient` or of `result` is called
//   enrol        local                 by the leader, where the optimizer measures the whole tensor: the place of its sums
//   measure      local, noexcept unless on a device    by the leader: sums of what this rank owns
//   apply        local                 by the leader; noexcept unless on a device
//   close        local, noexcept       gives everything back, also after a failure
template <Communicator C, class Update>
class WorkBase {
 public:
  using State = typename Update::State;
  using T = typename State::scalar_type;
  using Space = typename State::space;

  SoughtOf sought;

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
  void enrol(MeasuredSums<C>&) const {}
  void measure(double) const {}

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

// Calls f with the work itself, where one stands for several.
template <class W, class F>
decltype(auto) with_work(W& work, F&& f) {
  if constexpr (requires { work.active(f); }) return work.active(f);
  else return f(work);
}

}  // namespace parallax::detail
