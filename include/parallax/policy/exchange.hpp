// The phases of one update on its way through a step, and what the ways of all policies share. Policies derive their ways from
// what is here; the step calls the phases, which way_checks.hpp asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "parallax/comm/mail.hpp"
#include "parallax/core/archive.hpp"
#include "parallax/core/error.hpp"
#include "parallax/core/pointer.hpp"
#include "parallax/kernel/findings.hpp"
#include "parallax/policy/bucket/buckets.hpp"
#include "parallax/policy/update.hpp"

namespace parallax {

// Over how many ranks a mean is, and how many named a dense gradient: all, or those that have not joined.
struct Divisors {
  int mean = 1, named = 1;
};

// What a step tells the updates that it prepares.
struct Preparing {
  bool keep;    // they outlive the call
  bool joined;  // this rank has no data any more and contributes nothing
  bool finite;  // refuse what is not finite
};

// How an update names its rows, which the ranks compare.
enum class NamedRows : unsigned char { none, by_index, of_a_pull };

// Where a gradient lies, and whether it was given in_place.
struct GradientMemory {
  std::byte const *begin = nullptr, *end = nullptr;
  bool in_place = false;
  std::string_view variable;
};

// Places in a step's findings, by update; none where nothing is sought.
struct SoughtOf {
  static constexpr std::uint32_t none = ~0u;
  std::uint32_t squares = none, in_gradient = none, in_sums = none;
};

template <class F>
inline constexpr bool transforms = !std::same_as<F, NoTransform>;

// Elements one after the other, as a row.
template <class T>
RowsView<T const> as_row(std::span<T> values) {
  return {values.data(), 1, static_cast<std::int64_t>(values.size())};
}

// What all ways share, and the phases of an update in the order in which a step calls each of them on all its updates. Those
// without a mark have a default here and may be left out. `leader`: the first update of a variable in a step leads; the others
// are merged into it.
//   prepare      must   local, may throw    takes (update, topology, how, group): checks, and copies what must outlive the call
//   gradient     must   local               the gradient as the user has given it: to be looked at before the call returns
//   join                local, may throw    enters the step's buckets, where dense gradients are summed
//   counts, tell, hear  local               numbers that ride in the ranks' agreement: how many, to whom which, from whom which
//   next, write, read   may throw           the legs of a journey through the step's mails (see `carry`), after the agreement;
//                                           must, of a way over WholeSums
//   reduce              local, may throw    what arrived becomes what this rank owns of this update
//   divide_by           local               how many ranks a mean is over
//   deposit      must   local, may throw    the result enters the variable, by `enter`; the first update of it leads
//   merge        must   local, may throw    by the leader: sum of all updates of the variable, mean
//   transform           local, may throw    the user's function on the variable's result
//   clipped      must   local               by the leader: what this rank adds to the norm of its clip group
//   result       must   local, may throw    by the leader: all that this rank has of the result, to be looked at
//   place_of     must   local, may throw    what an element of `gradient` or of `result` is called
//   enrol               local               by the leader, where the optimizer measures the whole tensor: the place of its sums
//   measure             local, noexcept unless on a device    by the leader: sums of what this rank owns
//   apply        must   local               by the leader; noexcept unless on a device: the optimizer
//   settled             local, noexcept     the step was applied on all ranks
//   refused             local, noexcept     the step was refused or skipped on all ranks, at whatever phase, or `prepare` threw:
//                                           what `prepare` has taken from the policy's memory is given back
//   close               local, noexcept     gives everything else back, after either of these
template <Communicator C, class Update>
class WayBase {
 public:
  using State = typename Update::State;
  using T = typename State::scalar_type;
  using Space = typename State::space;

  SoughtOf sought;          // the step's
  bool travelling = false;  // the mail's

  State& state() const { return *state_; }
  int group() const { return group_; }
  bool leader() const { return leader_; }

  NamedRows named() const { return NamedRows::none; }
  GradientMemory memory() const { return {}; }  // of a dense gradient
  bool moved() const { return false; }          // the gradient's memory, since this way's last update
  bool gathers_early() const { return true; }   // whether sums may reach all ranks before the step completes the update
  void join(Buckets<C>&) const {}
  std::size_t counts() const { return 0; }
  template <class Tell>
  void tell(Topology<C> const&, Tell&&) const {}
  template <class Told>
  void hear(Topology<C> const&, Told&&) const {}
  bool next(Mails<C>&) const { return false; }
  void write(Mails<C>&) const {}
  void read(Mails<C>&) const {}
  void reduce() const {}
  void divide_by(Divisors divisors) { divisors_ = divisors; }
  void transform() const {}
  void enrol(MeasuredSums<C>&) const {}
  void measure(double) const {}
  // What the policy keeps with the variable is told.
  void settled() const noexcept {
    if constexpr (requires { state_->policy_state.settled(); })
      if (state_) state_->policy_state.settled();
  }
  void refused() const noexcept {
    if constexpr (requires { state_->policy_state.refused(); })
      if (state_) state_->policy_state.refused();
  }
  void close() noexcept {
    if (state_) state_->merging.clear();
    state_.reset();
  }

 protected:
  // Called first in `prepare`.
  void begin(Update const& update, int group) {
    leader_ = false;
    state_ = Shared{update.state};
    function_.emplace(update.function);
    group_ = group;
  }
  // Called in `deposit`, with what this rank has of the update's sum.
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

namespace detail {

// Calls f with the way itself, where one stands for several.
template <class W, class F>
decltype(auto) with_way(W& way, F&& f) {
  if constexpr (requires { way.active(f); }) return way.active(f);
  else return f(way);
}

// One of its assertions fails where an archive would be shown nothing of what a policy keeps.
template <class Memory>
struct check_memory {
  struct AnyArchive {
    static constexpr bool reads = false;
    void item(Item const&, std::span<std::byte>) {}
  };
  static_assert(std::is_empty_v<Memory> || requires(Memory& memory, Items<AnyArchive>& items) { memory.visit(items); },
                "parallax: the memory<State> of this update policy lacks template <class Items> void visit(Items&), which "
                "shows an archive what it keeps, and may show nothing (see policy/residual.hpp)");
};

// What the policy keeps with a variable, if it does.
struct NoMemory {};
template <class E, class State>
struct memory_of {
  using type = NoMemory;
};
template <class E, class State>
  requires requires { typename E::template memory<State>; }
struct memory_of<E, State> {
  using type = typename E::template memory<State>;
  static_assert(sizeof(check_memory<type>) > 0);
};

}  // namespace detail
}  // namespace parallax
