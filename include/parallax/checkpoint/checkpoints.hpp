// Checkpoints now and then: after so many steps, or so many seconds, or when the process is asked to end. A trainer makes one
// beside its variables, and calls it after each step.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "parallax/detail/checkpoint/background.hpp"
#include "parallax/detail/checkpoint/restore.hpp"
#include "parallax/detail/checkpoint/save.hpp"
#include "parallax/detail/checkpoint/signals.hpp"

namespace parallax::inline v0_2 {

// Interval from the last checkpoint, or the first call, to the next: the shorter of `steps` and `seconds`, alike on all ranks.
struct Every {
  // Applied steps between two checkpoints; 0: any number.
  std::int64_t steps = 0;
  // Seconds between two checkpoints by rank 0's clock; 0: any number. The ranks agree on the clock a few times in an interval,
  // and count steps otherwise; the checkpoint comes with the step expected to reach the time.
  double seconds = 0;
  // Number of generations kept; 0: all.
  int keep = 3;
  // Seconds a generation is kept, as in SaveOptions; 0: for ever.
  double keep_for = 0;
  // True to write behind the steps, as `Session::save_async` does; false to pause training for each checkpoint.
  bool background = true;
  // Signals to save at: sent to any rank, one of them saves after the next step, and `stopping` returns true from then on.
  // `true`: the signals of schedulers; or a list, {SIGUSR1}. Handlers installed before are called as well. A second SIGTERM,
  // SIGINT or SIGHUP, a second later or more, ends the process.
  Signals on_signals = false;
};

namespace detail {

// The type under which a thing given as T&& is kept: a reference for a variable, a copy for a description of a saved value.
template <class T>
using Kept = std::conditional_t<is_saved_value<std::remove_cvref_t<T>>, std::remove_cvref_t<T>, T>;

}  // namespace detail

// The checkpoints of a run in a folder. Refers to the session, the variables and the values: all of them must outlive it.
//   px::Checkpoints every{session, "run", {.steps = 1000, .seconds = 600}, words, softmax, px::shared_value("epoch", epoch)};
//   every.resume();
//   while (session.steps() < last) {
//     …
//     session.step(…);
//     every.step();
//     if (every.stopping()) break;
//   }
template <class S, class... Things>
class Checkpoints final : private detail::Wishful {
 public:
  // Local. `things`: the arguments of Session::save. Throws Error (invalid_argument) unless `steps` or `seconds` is above 0.
  template <class... Given>
  Checkpoints(S& session, std::string directory, Every const& every, Given&&... things)
      : session_{&session}, directory_{std::move(directory)}, every_{every}, things_{std::forward<Given>(things)...} {
    if (every_.steps < 0 || !(every_.seconds >= 0) || (every_.steps == 0 && every_.seconds == 0))
      throw Error{Errc::invalid_argument, session.rank(), "Checkpoints", "", "it is due after steps or seconds above 0"};
    if (every_.on_signals.any()) watch_.emplace(every_.on_signals);
    begin();
    session.core().wishful = this;
  }
  Checkpoints(Checkpoints&&) = delete;
  // Local. Leaves a save behind the steps to the session, its owner: the save goes on.
  ~Checkpoints() {
    auto& core = session_->core();
    if (core.wishful == this) core.wishful = nullptr;
  }

  // Collective, and waits. Restores (Session::restore) the newest complete generation, or the one named by the options. Returns
  // nothing, and restores nothing, if the folder has no generation, as in a first run. Errors: as of Session::restore.
  std::optional<Restored> resume(RestoreOptions const& options = {}) {
    if (!any()) return std::nullopt;
    auto const restored =
        std::apply([&](auto&... things) { return session_->restore(directory_, options, things...); }, things_);
    begin();
    return restored;
  }

  // Collective, after a step; waits if it saves, or asks the time. Saves if a checkpoint is due, or if a signal was sent to any
  // rank. Returns a generation complete by this call: in the background the one before, if any. Errors: as of Session::save;
  // one in the background once all ranks have heard of it, and the next save is due an interval later.
  std::optional<Saved> step() {
    auto& core = session_->core();
    if (core.steps < begun_) go_back();
    if (heard_ != core.steps) {
      unsigned const wished = core.wished;
      heard_ = core.steps;
      if ((wished & core.to_meet) && hear()) {
        auto saved = save();
        stopping_ = true;
        tell();
        return saved;
      }
      // All ranks have told, with a step after the cut, of their finished writing.
      if (!(wished & core.busy) && cut_ != core.steps && core.behind && core.behind->together()) settle();
    }
    tell();
    if (!due()) return arrived();
    if (!every_.background) return save();
    begin();
    auto last = std::exchange(next_, std::nullopt);
    next_ = saved_by([&](auto&... things) { return session_->save_async(directory_, options(), things...); });
    begin();
    cut_ = session_->steps();
    tell();
    return last ? last : arrived();
  }
  // Collective, and waits. Saves now, due or not; returns once all is written, as for a run's end. Errors: as of Session::save.
  Saved save() {
    begin();
    next_.reset();
    auto saved = saved_by([&](auto&... things) { return session_->save(directory_, options(), things...); });
    begin();
    return saved;
  }
  // Local. Returns true, alike on all ranks, once a signal was sent to any rank and the state it met is saved.
  bool stopping() const { return stopping_; }

 private:
  // Local. Sets this rank's wishes, told to all ranks in the next step's commit.
  void tell() { session_->core().wish = wishes(); }
  unsigned wishes() override {
    auto& core = session_->core();
    bool const meet = !stopping_ && ((watch_ && watch_->seen()) || (core.behind && core.behind->failed()));
    return (meet ? core.to_meet : 0u) | (core.behind && core.behind->busy() ? core.busy : 0u);
  }
  // Collective, and waits. Returns body(core), run as an operation of all ranks; `purpose` says it in messages.
  template <class Body>
  auto meet(char const* purpose, Body&& body) {
    auto& core = session_->core();
    return core.waiting.guarded("save", [&] {
      detail::begin_checkpoint(core, Operation::save, purpose, [] {});
      return body(core);
    });
  }
  // Collective, and waits. Ends a save in the background by all ranks together: ours, or the trainer's own. Throws its failure.
  void settle() {
    auto next = std::exchange(next_, std::nullopt);
    meet("what was written behind the steps", [](auto& core) { core.settle_behind("save"); });
    arrived_ = std::move(next);
  }
  // Returns the generation completed since the last call, if any.
  std::optional<Saved> arrived() { return std::exchange(arrived_, std::nullopt); }
  template <class Save>
  auto saved_by(Save&& save) {
    return std::apply(save, things_);
  }
  SaveOptions options() const { return {.keep = every_.keep, .keep_for = every_.keep_for}; }
  // Begins an interval, at the present step and time.
  void begin() {
    begun_ = session_->steps();
    look_ = begun_ + 1;
    began_ = session_->core().waiting.seconds();
  }
  // Moves the beginning of the interval back, after a restore by other means: by as many intervals as the session went back.
  void go_back() {
    std::int64_t const was = begun_, steps = every_.steps;
    begin();
    if (steps > 0) begun_ = was - (was - begun_ + steps - 1) / steps * steps;
  }
  // Returns true, alike on all ranks, if a checkpoint is due. Collective, and waits, when the ranks agree on the time.
  bool due() {
    std::int64_t const steps = session_->steps() - begun_;
    if (steps <= 0) return false;
    if (every_.steps > 0 && steps >= every_.steps) return true;
    if (every_.seconds == 0 || session_->steps() < look_) return false;
    double const passed = told(session_->core().waiting.seconds() - began_);
    if (passed >= every_.seconds) return true;
    double const left = (every_.seconds - passed) * static_cast<double>(steps) / std::max(passed, 1e-9);
    look_ =
        session_->steps() + std::max<std::int64_t>(1, static_cast<std::int64_t>(std::min(left, static_cast<double>(steps))));
    return false;
  }
  // Collective, and waits, after a step with a rank's wish for it. Throws the failure of a save behind the steps; otherwise
  // returns true if a signal was sent to any rank.
  bool hear() {
    return meet("what a rank wishes", [&](auto& core) {
      bool seen = false;
      for (double const word : detail::told_by_all(core, "save", {watch_ && watch_->seen() ? 1.0 : 0.0}))
        seen = seen || word != 0;
      if (!seen) next_.reset(), core.settle_behind("save");
      return seen;
    });
  }
  // Collective, and waits. Returns rank 0's number, or the greatest.
  double told(double mine, bool greatest = false) {
    return meet("the time until the next checkpoint", [&](auto& core) {
      auto const& all = detail::told_by_all(core, "save", {mine});
      return greatest ? *std::max_element(all.begin(), all.end()) : all[0];
    });
  }
  // Collective, and waits. Returns true if any rank sees a generation in the folder.
  bool any() {
    bool found = false;
    try {
      found = !detail::generations_in(directory_).empty();
    } catch (FormatError const&) {  // restore says why
      found = true;
    }
    return told(found ? 1 : 0, true) != 0;
  }

  S* session_;
  std::string directory_;
  Every every_;
  std::tuple<Things...> things_;  // variables by reference, values as they are
  std::int64_t begun_ = 0, look_ = 0;
  double began_ = 0;  // by the communicator's clock, in seconds
  bool stopping_ = false;
  std::int64_t heard_ = 0;               // the last step after which this looked at the ranks' wishes
  std::int64_t cut_ = 0;                 // of the save in the background
  std::optional<Saved> next_, arrived_;  // in the background; since the last call
  std::optional<detail::SignalWatch> watch_;
};

// A Checkpoints with references to its variables.
template <class S, class... Things>
Checkpoints(S&, std::string, Every, Things&&...) -> Checkpoints<S, detail::Kept<Things>...>;

}  // namespace parallax
