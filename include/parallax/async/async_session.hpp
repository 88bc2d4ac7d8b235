// Training without rounds: workers pull and push when they like, as far apart as a consistency lets them, and owners update
// with incoming pushes. Trainers include it beside parallax.hpp and make an AsyncSession in place of a Session.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <type_traits>
#include <utility>

#include "parallax/detail/async/consistency.hpp"
#include "parallax/detail/async/core.hpp"
#include "parallax/detail/async/options.hpp"
#include "parallax/detail/async/shard_letters.hpp"
#include "parallax/detail/async/worker.hpp"
#include "parallax/session/session.hpp"

namespace parallax::inline v0_2 {

// Ranks training at their own pace. Variables are made with it as with a Session, under PsShard: owners have the rows of tables
// and the parts of dense variables, and workers ask for them by letters. A variable declared without a Reduce is summed if its
// pushes are updates of their own, and is the mean over the workers of a clock if a clock's pushes are one update together.
//   px::AsyncSession session{world, px::Ssp{3}, px::Servers{2}};   ranks 0 and 1 own; without Servers all own and train
//   session.train([&](auto& worker) { … });       collective; a worker's body, with its pulls and pushes
//   session.together([&](auto& all) { … });       collective; all is quiet, and `all` is a Session of the same variables
//   session.finish();                             collective; as a Session's
// Nothing is agreed on within `train`: a worker's mistake is thrown there alone. A rank that leaves the body by an exception
// takes the others along, with its words. Owners serve while they wait; an owner in training serves in `worker.poll()`, too.
//
// Refers to the communicator, which must have a mailbox and outlive the session. Not moved. One thread at a time.
template <Communicator C>
class AsyncSession {
  using Edge = detail::edge_of<C>;

 public:
  // Local. Every rank owns a share, and trains. Copies `rule`. Error: misuse without a mailbox, invalid_argument by `rule`.
  template <Consistency Rule>
  AsyncSession(C& world, Rule const& rule, AsyncOptions const& options = {})
      : AsyncSession{Topology<C>{world}, rule, options} {}
  // Local. The first ranks own everything, and do not train. Error: misuse without a mailbox, invalid_argument without workers.
  template <Consistency Rule>
  AsyncSession(C& world, Rule const& rule, Servers servers, AsyncOptions const& options = {})
      : AsyncSession{Topology<C>{world, servers}, rule, options} {
    if (servers.count >= world.size())
      throw Error{Errc::invalid_argument, world.rank(), "AsyncSession", "",
                  joined({servers.count, " servers of ", world.size(), " ranks leave no worker"})};
  }
  // Local. Over a topology with dedicated servers, or hosts, a Session's owners are also the owners here. The topology is
  // copied; its communicator is referred to. Letters go straight to owners. Pushes of a clock are summed in the order of ranks.
  template <Consistency Rule>
  AsyncSession(Topology<C> topology, Rule const& rule, AsyncOptions const& options = {})
      : inner_{std::move(topology), options.session},
        core_{inner_.core(), make_owned<detail::ConsistencyOf<Rule>>(rule), options} {}
  AsyncSession(AsyncSession&&) = delete;

  // Local. Returns this rank's number in the communicator, from 0.
  int rank() const { return inner_.rank(); }
  // Local. Returns the number of ranks in the communicator, servers too.
  int size() const { return inner_.size(); }
  // Local. Returns the owners and hosts, valid as long as the session.
  Topology<C> const& topology() const { return inner_.topology(); }
  // Local. Returns the bytes of letters sent and received by this rank, by payload; valid as long as the session, never reset.
  Traffic const& traffic() const { return inner_.traffic(); }
  // Local. Returns the counts of this rank as an owner, a view, never reset; not to be read beside a ProgressThread at work.
  ServiceCounts const& counts() const { return core_.counts(); }

  // Local, on all ranks alike, outside of `train`: from now on an owner calls set(optimizer, update) before each update of the
  // variable, with the number of updates before as `update`, so that a rate follows the owner's updates from all pushes:
  //   session.schedule(words, [=](px::Adagrad& rule, std::int64_t update) { rule.learning_rate = rate(update); });
  // Any setting it changes at all, it sets at each call. Ranks compare schedules at some updates when `train` begins. In
  // `together` the settings are the next update's. Error (misuse): within `train`, or for a variable of another session.
  template <detail::AnyVariable V, class Set>
  void schedule(V& variable, Set set) {
    using State = typename V::State;
    constexpr bool right = std::is_invocable_v<Set&, typename State::optimizer_type&, std::int64_t>;
    static_assert(right,
                  "parallax: a schedule is a function of the variable's optimizer and of the number of updates before: "
                  "[](px::Adagrad& rule, std::int64_t update) { … }");
    if constexpr (right) {
      if (core_.training())
        throw Error{Errc::misuse, rank(), "schedule", variable.name(), "a schedule is given before train, not within it"};
      Keeper& keeper = core_.keeper_of(variable.state().registration(), "schedule");
      static_cast<KeeperOf<State>&>(keeper).schedule(std::move(set));
    }
  }

  // Collective, and waits. Calls body(worker) on each training rank, and returns after the body, once this rank has nothing to
  // serve any more: servers when all workers have left. Worker is Worker<…>&. Its clock goes on from the end of an earlier
  // `train`, on all ranks with the clock of the worker that had come furthest. Errors, on all ranks: mismatch for unequal
  // variables, settings or consistencies. An exception of the body is thrown on, and ends the session on all ranks.
  template <class Body>
  void train(Body&& body) {
    constexpr bool right = std::is_invocable_v<Body&, Worker<Edge>&>;
    static_assert(right, "parallax: train is given a function of a worker: [&](auto& worker) { … }");
    if constexpr (right) train_by(body);
  }

  // Collective, and waits. Makes all quiet: every push is in the parameters, and every rank's dense variables have the owners'
  // values. Calls body(session) with a Session of the same ranks, topology and variables, for evaluations, checkpoints and the
  // like. Its steps() are the clocks of the foremost worker, counted on from a restored step. Error (misuse) within `train`.
  template <class Body>
  void together(Body&& body) {
    core_.meet();
    body(inner_);
  }

  // Collective, and waits. Ends as Session::finish does, with its result and errors. The records' steps are clocks. Error
  // (mismatch): a log to follow goes on; (misuse): within `train`.
  Completion finish() {
    core_.meet(true);
    return inner_.finish();
  }

  // Fails to compile, for callers used to a Session, by an assertion that names the call to make.
  template <class... Updates>
  detail::Mistaken step(Updates const&...) {
    static_assert(detail::never<std::tuple<Updates...>>,
                  "parallax: an AsyncSession has no step: a worker of its train(...) pushes");
    return {};
  }
  // Fails to compile, by an assertion that names the call to make.
  template <class... Updates>
  detail::Mistaken start(Updates const&...) {
    static_assert(detail::never<std::tuple<Updates...>>,
                  "parallax: an AsyncSession has no start: a worker's push returns as soon as its letters are written");
    return {};
  }
  // Fails to compile, by an assertion that names the call to make.
  template <class... Arguments>
  detail::Mistaken pull(Arguments const&...) {
    static_assert(detail::never<std::tuple<Arguments...>>,
                  "parallax: an AsyncSession has no pull: a worker of its train(...) pulls, and the Session of together(...)");
    return {};
  }
  // Fails to compile, by an assertion that names the call to make.
  template <class Body>
  detail::Mistaken join(Body const&) {
    static_assert(detail::never<Body>, "parallax: an AsyncSession has no join: a worker that returns is waited for no longer");
    return {};
  }
  // Fails to compile, by an assertion that names the call to make.
  template <class... Variables>
  detail::Mistaken broadcast(Variables const&...) {
    static_assert(detail::never<std::tuple<Variables...>>,
                  "parallax: an AsyncSession has no broadcast: a worker's first pull brings what the owners have");
    return {};
  }

  // Fails to compile, by an assertion that names the call to make.
  template <class... Things>
  detail::Mistaken save(std::string const&, SaveOptions const&, Things const&...) {
    static_assert(detail::never<std::tuple<Things...>>,
                  "parallax: an AsyncSession saves where all is quiet: together([&](auto& session) { session.save(...); })");
    return {};
  }
  // Fails to compile, by an assertion that names the call to make.
  template <class... Things>
  detail::Mistaken restore(std::string const&, RestoreOptions const&, Things const&...) {
    static_assert(
        detail::never<std::tuple<Things...>>,
        "parallax: an AsyncSession restores where all is quiet: together([&](auto& session) { session.restore(...); })");
    return {};
  }

  // Local. For a ProgressThread, as of a Session: on an owner its share serves while the body computes.
  void take_turns(bool on) { inner_.take_turns(on); }
  // Local. Called by the ProgressThread's thread, first.
  void begin_help() const noexcept { inner_.begin_help(); }
  // Local. Called by the ProgressThread's thread, again and again: serves the letters that have come.
  void help() noexcept {
    inner_.core().waiting.help([&] { core_.serve(); });
  }

  // Local. Enters a variable, by its constructor, as in a Session. Error (misuse): a mean where each push is an update.
  template <class State>
  void enter(State& state) {
    constexpr bool has_letters = requires { sizeof(typename State::policy::template letters<typename State::kind>); };
    static_assert(
        has_letters,
        "parallax: an AsyncSession takes variables whose policy has letters<Kind>: Variable<Dense, PsShard>, and tables "
        "under PsShard");
    static_assert(State::space::host_readable, "parallax: the variables of an AsyncSession are in the host's memory");
    static_assert(!State::measures,
                  "parallax: this optimizer measures the whole tensor, and in an AsyncSession no owner sees the whole of it");
    if constexpr (has_letters && !State::measures) {
      if (!core_.by_clock() && state.reduce() != Reduce::sum)
        throw Error{
            Errc::misuse, rank(), "Variable", state.name(),
            "a mean is over workers whose pushes are one update: here each is one, and px::Reduce::sum is what they are"};
      using At = typename State::policy::template letters<typename State::kind>::template At<State>;
      inner_.enter(state);
      core_.enter(make_owned<At>(Shared<State>{&state}));
    }
  }
  // Returns the Reduce of a variable made without one.
  Reduce default_reduce() const { return core_.by_clock() ? Reduce::mean : Reduce::sum; }

 private:
  // Runs `train`. An exception of the body ends the session on all ranks.
  template <class Body>
  void train_by(Body& body) {
    core_.begin_training();
    if (core_.works()) {
      Worker<Edge> worker{core_};
      try {
        body(worker);
      } catch (...) {
        auto& waiting = inner_.core().waiting;
        if (!waiting.ended()) waiting.end(current_error(rank(), "train"));
        throw;
      }
    }
    core_.end_training();
  }

  Session<C> inner_;
  detail::AsyncCore<Edge> core_;
};

}  // namespace parallax
