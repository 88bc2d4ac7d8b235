// The update of a sparse variable under Auto, and what moves a table's rows between steps.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parallax/policy/row_move.hpp"
#include "parallax/session/row_work.hpp"

namespace parallax::detail {

// What variables need of the session when a step has ended: all ranks' words, and the means to move rows.
template <Communicator C>
struct Adapting {
  Topology<C> const& topology;
  AutoOptions const& options;
  FunctionRef<Costs(bool on_device)> costs;               // of the options, else measured
  std::int64_t step;
  Lane<C>& lane;
  FunctionRef<void(std::string const&, FunctionRef<bool()>)> drive;  // variable, poll
  FunctionRef<bool(std::string const&, bool)> all;        // whether it is so on every rank
  std::vector<Decision>& decisions;

  void note(std::string const& variable, std::string text) { decisions.push_back({step, variable, std::move(text)}); }
};

// Where the rows of a table are going to be, as a step's last act.
template <class P>
struct PlannedMove {
  Method method;
  P partitioner;
  std::string reason;
};

// Collective. Moves the rows, or, where a rank cannot prepare it, for want of memory, leaves them on all ranks; true if they
// were moved.
template <Communicator C, class S, class P>
bool move_rows(S& state, PlannedMove<P> const& plan, Adapting<C>& by) {
  if (!state.shards() && plan.method != Method::ps_shard) {  // every rank has all rows already
    state.change_method(plan.method);
    by.note(state.name(), plan.reason);
    return true;
  }
  std::optional<typename S::Moved> moved;
  try {
    moved.emplace(state.begin_move(by.topology, plan.method, plan.partitioner));
  } catch (std::exception const&) {  // of the heap, or an Error of another space; the others are told
  }
  if (!by.all(state.name(), moved.has_value())) {
    by.note(state.name(), plan.reason + "; not done, for want of memory");
    return false;
  }
  {
    RowMove<C, typename S::index_type, typename S::space> exchange{state.ops(), moved->route, moved->arrays};
    by.drive(state.name(), [&] { return exchange.poll(by.lane); });
    state.end_move(std::move(*moved), plan.partitioner.pieces != state.partitioner().pieces);
    moved.reset();
  }
  // A device's memory is given back when all that the device was given is done, which may be what waits for another rank.
  if constexpr (!S::space::host_readable) static_cast<void>(by.all(state.name(), true));
  by.note(state.name(), plan.reason);
  return true;
}

// A sparse variable under Auto: the works of the three methods, of which the variable's present one is used.
template <Communicator C, class S, class Id, class F>
  requires(S::adaptive)
class Work<C, RowUpdate<S, Id, F>> {
 public:
  using State = S;
  using T = typename S::scalar_type;

  void prepare(RowUpdate<S, Id, F> const& update, Topology<C> const& topology, Preparing how, int group) {
    method_ = update.state->method();
    active([&](auto& work) { work.prepare(update, topology, how, group); });
  }

  State& state() { return active([](auto& work) -> State& { return work.state(); }); }
  int group() { return active([](auto& work) { return work.group(); }); }
  bool leader() { return active([](auto& work) { return work.leader(); }); }
  bool plan_known() { return active([](auto& work) { return work.plan_known(); }); }
  bool gathers_early() { return active([](auto& work) { return work.gathers_early(); }); }
  std::size_t counts() { return active([](auto& work) { return work.counts(); }); }
  template <class Tell>
  void tell(Topology<C> const& topology, Tell&& tell) {
    active([&](auto& work) { work.tell(topology, tell); });
  }
  template <class Told>
  void hear(Topology<C> const& topology, Told&& told) {
    active([&](auto& work) { work.hear(topology, told); });
  }
  template <class Visit>
  void visit_journey(Visit&& visit) {
    active([&](auto& work) { work.visit_journey(visit); });
  }
  void join(Buckets<C>& buckets) {
    active([&](auto& work) { work.join(buckets); });
  }
  void reduce() { active([](auto& work) { work.reduce(); }); }
  void divide_by(Divisors divisors) {
    active([&](auto& work) { work.divide_by(divisors); });
  }
  void deposit(int group) {
    active([&](auto& work) { work.deposit(group); });
  }
  void merge() { active([](auto& work) { work.merge(); }); }
  void transform() { active([](auto& work) { work.transform(); }); }
  void enrol(MeasuredSums<C>&) const {}
  void measure(double) const {}
  void apply(double scale) noexcept(S::space::host_readable) {
    active([&](auto& work) { work.apply(scale); });
  }
  void close() noexcept { active([](auto& work) { work.close(); }); }

  // Calls f with the work of the present method.
  template <class Call>
  decltype(auto) active(Call&& call) {
    if (method_ == Method::all_gather) return call(gathered_);
    if (method_ == Method::all_reduce) return call(densified_);
    return call(sharded_);
  }

 private:
  Method method_ = Method::ps_shard;
  TravellingRows<PsShard::exchange<Sparse>, C, S, Id, F> sharded_;
  TravellingRows<AllGather::exchange<Sparse>, C, S, Id, F> gathered_;
  DensifiedRows<C, S, Id, F> densified_;
};

// What the ranks tell each other of a table under Auto at the end of a step, as so many words: its use, and how long the step
// took while a search is on.
template <class S>
struct Adaptation {
  static std::size_t words(S const& state) { return Chooser::words + state.search.has_value(); }

  static void tell(S& state, std::vector<double>& words, double now) {
    words.insert(words.end(), {state.seen.pushed, state.seen.pulled, state.seen.merged, state.seen.owned});
    if (state.search) words.push_back(now - std::exchange(state.step_began, now));
  }

  // Collective. `words_of(rank)`: what that rank told of this table. All ranks come to the same conclusion.
  template <Communicator C>
  static void conclude(S& state, Adapting<C>& by, FunctionRef<double const*(int)> words_of) {
    choose(state, by, words_of);
    if (state.search) go_on(state, by, words_of);
    state.seen = {};
  }

 private:
  using P = std::remove_cvref_t<decltype(std::declval<S&>().partitioner())>;

  template <Communicator C>
  static void choose(S& state, Adapting<C>& by, FunctionRef<double const*(int)> words_of) {
    RankShape const shape{by.topology};
    state.chooser.observe(state.method(), state.facts(), shape, by.topology.size(), words_of);
    if (state.search || !state.chooser.due(by.options)) return;
    AutoOptions options = by.options;
    options.costs = by.costs(!S::space::host_readable);
    if (auto change = state.chooser.choose(state.method(), state.facts(), shape, options))
      state.chooser.moved(move_rows(state, PlannedMove<P>{change->to, state.partitioner(), std::move(change->reason)}, by));
  }

  template <Communicator C>
  static void go_on(S& state, Adapting<C>& by, FunctionRef<double const*(int)> words_of) {
    double seconds = 0;
    for (int rank = 0; rank < by.topology.size(); ++rank)
      seconds = std::max(seconds, words_of(rank)[Chooser::words]);
    PieceSearch& search = *state.search;
    std::int64_t const before = search.pieces();
    std::size_t const probes = search.probes().size();
    search.add(seconds);
    if (search.probes().size() == probes) return;
    std::string reason = std::to_string(before) + " pieces took " + short_text(1e3 * search.probes().back().seconds) +
                         " ms a step; the search " + (search.done() ? "ends with " : "tries ") +
                         std::to_string(search.pieces());
    P partitioner = state.partitioner();
    partitioner.pieces = search.pieces();
    bool const moved = search.pieces() == before;
    if (moved) by.note(state.name(), std::move(reason));
    else if (!move_rows(state, PlannedMove<P>{state.method(), partitioner, std::move(reason)}, by)) state.search.reset();
    if (state.search && search.done()) state.search.reset();
  }
};

}  // namespace parallax::detail
