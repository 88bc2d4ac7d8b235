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

#include "parallax/core/archive.hpp"
#include "parallax/core/error.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/pointer.hpp"
#include "parallax/detail/kernel/findings.hpp"
#include "parallax/detail/policy/bucket/buckets.hpp"
#include "parallax/detail/policy/update.hpp"
#include "parallax/detail/transfer/mail.hpp"

namespace parallax {

// By what sums over ranks are divided. A flight knows it once the ranks have agreed, and its seats hand it to each way by
// `divide_by`. Both are alike on all ranks.
struct Divisors {
  // For Reduce::mean: all ranks, or those that have not joined, as the session's JoinDivisor says.
  int mean = 1, named = 1;  // how many ranks named a dense gradient, for Reduce::mean_by_count: those that have not joined
};

// What a flight tells the ways of its updates, by their `prepare`.
struct Preparing {
  // The updates outlive the call, as in `start`: a way copies what it still needs of the user's memory.
  bool keep;
  // This rank has no data any more, and contributes nothing: zeros, or no rows.
  bool joined;
  // Gradients that are not finite are refused. Seats look at them once `prepare` has returned.
  bool finite;
};

// How an update names its rows, which the ranks compare. `none`: it is dense. `of_a_pull`: by the plan of a pull, whose runs
// the ranks have told each other, so that no keys travel. `by_index`: otherwise.
enum class NamedRows : unsigned char { none, by_index, of_a_pull };

// Where a dense gradient lies on this rank. A flight in which one was given in_place asks all ways for it. It refuses memory
// that such a gradient shares with another.
struct GradientMemory {
  // The first byte; null where there is nothing to compare.
  std::byte const *begin = nullptr, *end = nullptr;  // behind the last byte
  // Whether the user lets the step overwrite it.
  bool in_place = false;
  // The variable's name, for messages; valid as long as the variable.
  std::string_view variable;
};

// Where in a flight's findings (detail/kernel/findings.hpp) a seat finds what it has sought for one update.
struct SoughtOf {
  // Nothing is sought.
  static constexpr std::uint32_t none = ~0u;
  std::uint32_t squares = none,  // the sum of the squares of `clipped`, for the norm of a clip group
      in_gradient = none,        // what is not finite in `gradient`; on a device only, a host looks at once
      in_sums = none;            // what is not finite in `result`
};

// Whether the user has given an update a function by `transform`: F is the function's type.
template <class F>
inline constexpr bool transforms = !std::same_as<F, NoTransform>;

// Elements one after the other, as a row: [1 x size]. Does not own. Ways show dense gradients and sums so.
template <class T>
RowsView<T const> as_row(std::span<T> values) {
  return {values.data(), 1, static_cast<std::int64_t>(values.size())};
}

// What all ways share, and the phases of an update in the order in which a step calls each of them on all its updates. Those
// without a mark have a default here and may be left out. `leader`: the first update of a variable in a step leads; the others
// are merged into it. What is not told to be local is so, too: transfers go between `write` and `read`, and are the flight's.
//   prepare      must   local, may throw    takes (update, topology, how, clip): checks, and copies what must outlive the call
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
//   refused             local, noexcept     the step was refused or skipped on all ranks, at whatever phase, or `prepare`
//                                           threw: what `prepare` has taken from the policy's memory is given back
//   close               local, noexcept     gives everything else back, after either of these
template <Communicator C, class Update>
class WayBase {
 public:
  // What this rank keeps of the variable: a DenseState or a SparseState.
  using State = typename Update::State;
  // The variable's scalar type.
  using T = typename State::scalar_type;
  // Where the variable, its gradients and their sums lie.
  using Space = typename State::space;

  // The seat's: set as it looks at the gradient and at the result, reset as it is vacated.
  SoughtOf sought;
  // The seat's: whether `next` has declared a leg in the mail at hand.
  bool travelling = false;

  // The variable's state, from `prepare` to `close`.
  State& state() const { return *state_; }
  // The clip group of this update in its flight; -1 for none.
  int clip() const { return clip_; }
  // Whether it is the variable's first update in the step. Valid from `deposit` on.
  bool leader() const { return leader_; }

  // Asked right after `prepare`. Here: the update is dense.
  NamedRows named() const { return NamedRows::none; }
  // The memory of a dense gradient. Here: nothing to compare.
  GradientMemory memory() const { return {}; }
  // Whether the gradient lies elsewhere, or is of another size, than that of this way's last update. Asked after `prepare`.
  bool moved() const { return false; }
  // Whether sums may reach all ranks before the step completes the update. Asked after `join`; one way that denies it denies it
  // for the flight.
  bool gathers_early() const { return true; }
  // Enters no bucket: what a way over WholeSums or a journey of rows needs.
  void join(Buckets<C>&) const {}
  // How many numbers `tell` and `hear` take in the agreement: 1, or 0, and then neither is called.
  std::size_t counts() const { return 0; }
  // Is given `tell(rank, count)`, by which the way leaves a number for that rank. Here: for none.
  template <class Tell>
  void tell(Topology<C> const&, Tell&&) const {}
  // Is given `told(rank)`, the number that this rank has left for us. Called where the ranks have agreed.
  template <class Told>
  void hear(Topology<C> const&, Told&&) const {}
  // Declares the slips of the next leg and returns true; false, and again false, when all has arrived. Here: there is no leg.
  bool next(Mails<C>&) const { return false; }
  // Fills the slips of the leg that `next` has declared; called once the mail is laid out.
  void write(Mails<C>&) const {}
  // Takes what came in by that leg.
  void read(Mails<C>&) const {}
  // Here: what arrived is a sum already.
  void reduce() const {}
  // Keeps what `divisor` chooses from.
  void divide_by(Divisors divisors) { divisors_ = divisors; }
  // Here: the user gave no function.
  void transform() const {}
  // Here: the optimizer measures no whole tensor.
  void enrol(MeasuredSums<C>&) const {}
  // Is given the factor of the clip group, 1 without one. Here: nothing is measured.
  void measure(double) const {}
  // Tells what the policy keeps with the variable, its `memory<State>`, if that has `settled()`.
  void settled() const noexcept {
    if constexpr (requires { state_->policy_state.settled(); })
      if (state_) state_->policy_state.settled();
  }
  // Tells it likewise, if it has `refused()`. Also after a `prepare` that threw before `begin`: then there is no state to tell.
  void refused() const noexcept {
    if constexpr (requires { state_->policy_state.refused(); })
      if (state_) state_->policy_state.refused();
  }
  // Forgets what the updates of the variable ended with, and lets go of its state.
  void close() noexcept {
    if (state_) state_->merging.clear();
    state_.reset();
  }

 protected:
  // Called first in `prepare`. Local. Holds the variable's state until `close`, and copies the user's function.
  void begin(Update const& update, int clip) {
    leader_ = false;
    state_ = Shared{update.state};
    function_.emplace(update.function);
    clip_ = clip;
  }
  // Called in `deposit`, with what this rank has of the update's sum. The first result of a variable in a step makes its update
  // the leader; others wait in the state's `merging` until the leader's `merge` adds them. Throws Error (misuse) where updates
  // of one variable lie in different clip groups.
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
  // An Error of `step` that names the variable, to be thrown. `rank`: the one that caused it, or -1 where no single one did.
  PARALLAX_COLD Error refusal(Errc code, int rank, std::string detail) const {
    return {code, rank, "step", state_->name(), std::move(detail)};
  }
  // The number of ranks that the variable's Reduce divides by. Under Reduce::sum nobody divides by it.
  int divisor() const { return state_->reduce() == Reduce::mean ? divisors_.mean : divisors_.named; }

  // The type of the user's function, or NoTransform.
  using Function = decltype(Update::function);

  // Null before the first `begin` and after `close`.
  Shared<State> state_;
  // This update's own copy of the user's function.
  std::optional<Function> function_;
  // As `divide_by` has left them.
  Divisors divisors_;
  // What `clip` returns.
  int clip_ = -1;
  // What `leader` returns; false until `enter`.
  bool leader_ = false;
};

namespace detail {

// Calls f with the way that is in use where `way` stands for several, as under Auto; else with `way`. Seats call it for each
// phase but `prepare`, which chooses.
template <class W, class F>
decltype(auto) with_way(W& way, F&& f) {
  if constexpr (requires { way.active(f); }) return way.active(f);
  else return f(way);
}

// One of its assertions fails where an archive would be shown nothing of what a policy keeps.
template <class Memory>
struct check_memory {
  // Stands for all archives: a `visit` that takes this one is taken to take any.
  struct AnyArchive {
    static constexpr bool reads = false;
    void item(Item const&, std::span<std::byte>) {}
  };
  static_assert(std::is_empty_v<Memory> || requires(Memory& memory, Items<AnyArchive>& items) { memory.visit(items); },
                "parallax: the memory<State> of this update policy lacks template <class Items> void visit(Items&), which "
                "shows an archive what it keeps, and may show nothing (see policy/residual.hpp)");
};

// Of a policy that keeps nothing with a variable.
struct NoMemory {};
// What an exchange keeps with a variable from step to step: its `memory<State>`, or NoMemory. A variable's state owns one as
// its `policy_state`.
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
