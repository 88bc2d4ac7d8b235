// The phases of one update on its way through a step, and the common part of the ways of all policies. Policies derive their
// ways from the classes here; the step calls the phases, which way_checks.hpp asks for.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <type_traits>
#include <utility>

#include "parallax/core/archive.hpp"
#include "parallax/core/error.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/pointer.hpp"
#include "parallax/detail/kernel/findings.hpp"
#include "parallax/detail/policy/bucket/buckets.hpp"
#include "parallax/detail/transfer/mail.hpp"
#include "parallax/policy/state.hpp"

namespace parallax::inline v0_2 {

// The divisors of sums over ranks. A flight knows them once the ranks have agreed, and its seats hand them to each way by
// `divide_by`. Both are alike on all ranks.
struct Divisors {
  // For Reduce::mean: all ranks, or the ones not yet joined, as the session's JoinDivisor says.
  int mean = 1, named = 1;  // ranks that named a dense gradient, all but the joined ones, for Reduce::mean_by_count
};

// A flight's orders to the ways of its updates, passed to their `prepare`.
struct Preparing {
  // True if the updates outlive the call, as in `start`: a way copies everything that it still needs of the user's memory.
  bool keep;
  // True if this rank has no data any more, and contributes nothing: zeros, or no rows.
  bool joined;
  // True if non-finite gradients are refused. Seats look at them once `prepare` has returned.
  bool finite;
};

// The kind of an update's names of rows, compared by the ranks. `none`: it is dense. `of_a_pull`: by the plan of a pull, whose
// runs the ranks have told each other, so no keys travel. `by_index`: otherwise.
enum class NamedRows : unsigned char { none, by_index, of_a_pull };

// The place of a dense gradient on this rank; does not own it. If a gradient was given in_place, its flight asks each way for
// the place of its gradient. The flight refuses a gradient given in_place that shares memory with another one.
struct GradientMemory {
  // The first byte; null if there is nothing to compare.
  std::byte const *begin = nullptr, *end = nullptr;  // behind the last byte
  // True if the user lets the step overwrite it.
  bool in_place = false;
  // The variable's name, for messages; valid as long as the variable.
  std::string_view variable;
};

// The places in a flight's findings (detail/kernel/findings.hpp) of a seat's searches for one update.
struct SoughtOf {
  // Stands for a place where nothing is sought.
  static constexpr std::uint32_t none = ~0u;
  std::uint32_t squares = none,  // the sum of the squares of `clipped`, for the norm of a clip group
      in_gradient = none,        // non-finite numbers in `gradient`; on a device only, a host looks at once
      in_sums = none;            // non-finite numbers in `result`
};

// True if the user has given an update a function by `transform`: F is the function's type.
template <class F>
inline constexpr bool transforms = !std::same_as<F, NoTransform>;

// Returns elements as one row, [1 x size], of the same memory, not owned. Ways show dense gradients and sums so.
template <class T>
RowsView<T const> as_row(std::span<T> values) {
  return {values.data(), 1, static_cast<std::int64_t>(values.size())};
}

// The common part of all ways, and the phases of an update in the order in which a step calls each of them on all its updates.
// Phases without a mark have a default here and may be left out. `leader`: the first update of a variable in a step leads; the
// others are merged into it. Phases not told to be local are so, too: transfers go between `write` and `read`, and are the
// flight's.
//   prepare      must   local, may throw    takes (update, topology, how, clip): checks, and copies everything needed later
//   gradient     must   local               the gradient as the user has given it: to be looked at before the call returns
//   join                local, may throw    enters the step's buckets, the sums of dense gradients
//   counts, tell, hear  local               numbers in the ranks' agreement: their count, those to each rank, those from each
//   next, write, read   may throw           the legs of a journey through the step's mails (see `carry`), after the agreement;
//                                           must, of a way over WholeSums
//   reduce              local, may throw    turns arrivals into the part of this update that this rank owns
//   divide_by           local               the number of ranks for a mean
//   deposit      must   local, may throw    the result enters the variable, by `enter`; the first update of it leads
//   merge        must   local, may throw    by the leader: sum of all updates of the variable, mean
//   transform           local, may throw    the user's function on the variable's result
//   clipped      must   local               by the leader: this rank's summand in the norm of its clip group
//   result       must   local, may throw    by the leader: this rank's whole share of the result, to be looked at
//   place_of     must   local, may throw    the name of an element of `gradient` or of `result`
//   enrol               local               by the leader, if the optimizer measures the whole tensor: the place of its sums
//   measure             local, noexcept unless on a device    by the leader: sums of this rank's own part
//   apply        must   local               by the leader; noexcept unless on a device: the optimizer
//   settled             local, noexcept     the step was applied on all ranks
//   refused             local, noexcept     the step was refused or skipped on all ranks, at whatever phase, or `prepare`
//                                           threw: gives back everything that `prepare` has taken from the policy's memory
//   close               local, noexcept     gives everything else back, after either of these
template <Communicator C, class Update>
class WayBase {
 public:
  // This rank's share of the variable: a DenseState or a SparseState. Ways ask it for nothing but the members of the concepts.
  using State = typename Update::State;
  static_assert(VariableState<State>);
  // The variable's scalar type.
  using T = typename State::scalar_type;
  // The memory space of the variable, its gradients and their sums.
  using Space = typename State::space;

  // The places of the seat's searches, written by the seat as it looks at the gradient and at the result, and reset by it.
  SoughtOf sought;
  // Written by the seat: true if `next` has declared a leg in the mail at hand.
  bool travelling = false;

  // Returns the variable's state, held from `prepare` to `close`.
  State& state() const { return *state_; }
  // Returns the clip group of this update in its flight; -1 for none.
  int clip() const { return clip_; }
  // Returns true for the variable's first update in the step. Valid from `deposit` on.
  bool leader() const { return leader_; }

  // Returns the kind of the update's names of rows; asked right after `prepare`. Here: the update is dense.
  NamedRows named() const { return NamedRows::none; }
  // Returns the memory of a dense gradient. Here: nothing to compare.
  GradientMemory memory() const { return {}; }
  // Returns true if the gradient has another place or size than at this way's last update. Asked after `prepare`.
  bool moved() const { return false; }
  // Returns true if sums may reach all ranks before the step completes the update. Asked after `join`; a denial by one way
  // holds for the flight.
  bool gathers_early() const { return true; }
  // Enters no bucket: right for a way over WholeSums or a journey of rows.
  void join(Buckets<C>&) const {}
  // Returns the count of numbers for `tell` and `hear` in the agreement: 1, or 0, and then neither is called.
  std::size_t counts() const { return 0; }
  // Leaves numbers for other ranks in the agreement, each by `tell(rank, number)`. Here: none.
  template <class Tell>
  void tell(Topology<C> const&, Tell&&) const {}
  // Takes the numbers left by other ranks: `told(rank)` returns the one for this rank. Called once the ranks have agreed.
  template <class Told>
  void hear(Topology<C> const&, Told&&) const {}
  // Declares the next leg's slips and returns true; false, and again false, when all has arrived. Here: there is no leg.
  bool next(Mails<C>&) const { return false; }
  // Fills the slips of the leg declared by `next`; called once the mail is laid out.
  void write(Mails<C>&) const {}
  // Takes the arrivals of the leg.
  void read(Mails<C>&) const {}
  // Turns arrivals into a sum. Does nothing here: they are a sum already.
  void reduce() const {}
  // Keeps the divisors for `divisor` to choose from.
  void divide_by(Divisors divisors) { divisors_ = divisors; }
  // Calls the user's function on the variable's result. Here there is no function.
  void transform() const {}
  // Takes places for the optimizer's sums over the whole tensor. Here there are no such sums.
  void enrol(MeasuredSums<C>&) const {}
  // Writes these sums; the argument is the factor of the clip group, 1 without one. Here: none.
  void measure(double) const {}
  // Calls `settled()` of the policy's memory of the variable, its `memory<State>`, if that has it: the step was applied.
  void settled() const noexcept {
    if constexpr (requires { state_->policy_state.settled(); })
      if (state_) state_->policy_state.settled();
  }
  // Calls `refused()` of the policy's memory, if that has it; also after a `prepare` that threw, unless it threw before `begin`
  // had taken the state.
  void refused() const noexcept {
    if constexpr (requires { state_->policy_state.refused(); })
      if (state_) state_->policy_state.refused();
  }
  // Forgets the results of the variable's updates, and lets go of its state.
  void close() noexcept {
    if (state_) state_->merging.clear();
    state_.reset();
  }

 protected:
  // Holds the variable's state until `close`, and copies the user's function; throws its errors. Local, first in `prepare`.
  void begin(Update const& update, int clip) {
    leader_ = false;
    state_ = Shared{update.state};
    function_.emplace(update.function);
    clip_ = clip;
  }
  // Called in `deposit`, with this rank's part of the update's sum. The first result of a variable in a step makes its update
  // the leader; others wait in the state's `merging` until the leader's `merge` adds them. Throws Error (misuse) if updates of
  // one variable lie in different clip groups. `result` is a view: its memory must stay until `close`.
  template <class Result>
  void enter(Result result, int clip) {
    auto& merging = state_->merging;
    leader_ = !merging.first;
    if (leader_) {
      merging.first = result;
      merging.clip = clip;
      return;
    }
    if (merging.clip != clip)
      throw Error{Errc::misuse, -1, "step", state_->name(), "updates of one variable lie in different clip groups"};
    merging.others.push_back(result);
  }
  // Returns an Error of the operation `step` with the variable's name, for the caller to throw. `rank`: the rank that caused
  // it, or -1 without a single cause.
  PARALLAX_COLD Error refusal(Errc code, int rank, std::string detail) const {
    return {code, rank, "step", state_->name(), std::move(detail)};
  }
  // Returns the divisor of the variable's Reduce, a number of ranks. Under Reduce::sum nobody divides by it.
  int divisor() const { return state_->reduce() == Reduce::mean ? divisors_.mean : divisors_.named; }

  // The type of the user's function, or NoTransform.
  using Function = decltype(Update::function);

  // Null before the first `begin` and after `close`.
  Shared<State> state_;
  // This update's own copy of the user's function.
  std::optional<Function> function_;
  // The step's divisors, as `divide_by` has left them.
  Divisors divisors_;
  // The update's clip group in its flight; -1 for none.
  int clip_ = -1;
  // True if this update leads those of its variable; false until `enter`.
  bool leader_ = false;
};

namespace detail {

// Calls f with the way in use if `way` stands for several, as under Auto; else with `way`. Returns f's result. Seats call it
// for each phase but `prepare`, which chooses.
template <class W, class F>
decltype(auto) with_way(W& way, F&& f) {
  if constexpr (requires { way.active(f); }) return way.active(f);
  else return f(way);
}

// Fails in one of its assertions if an archive would be shown nothing of a policy's memory.
template <class Memory>
struct check_memory {
  // Stands for all archives: a `visit` that takes this one is assumed to take any.
  struct AnyArchive {
    static constexpr bool reads = false;
    void item(Item const&, std::span<std::byte>) {}
  };
  static_assert(std::is_empty_v<Memory> || requires(Memory& memory, Items<AnyArchive>& items) { memory.visit(items); },
                "parallax: the memory<State> of this update policy lacks template <class Items> void visit(Items&): it "
                "shows an archive the items kept, and may show none (see policy/residual.hpp)");
};

// The memory of a policy that keeps nothing of a variable.
struct NoMemory {};
// An exchange's memory of a variable from step to step: its `memory<State>`, or NoMemory. A variable's state owns one as its
// `policy_state`.
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
