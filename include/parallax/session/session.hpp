// A session: the ranks that train together, and the collective operations on their variables.
// The room `session` has an operation a file.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "parallax/comm/any.hpp"
#include "parallax/comm/communicator_checks.hpp"
#include "parallax/comm/self.hpp"
#include "parallax/session/assign.hpp"
#include "parallax/session/bind_step.hpp"
#include "parallax/session/broadcast.hpp"
#include "parallax/session/completion.hpp"
#include "parallax/session/describe.hpp"
#include "parallax/session/finish.hpp"
#include "parallax/session/join.hpp"
#include "parallax/session/pause.hpp"
#include "parallax/session/pull.hpp"
#include "parallax/session/search_pieces.hpp"
#include "parallax/session/start.hpp"
#include "parallax/session/step.hpp"
#include "parallax/session/visit.hpp"
#include "parallax/step/grad.hpp"

namespace parallax {

// Ranks that train together. Everything that communicates is a member function here and is collective: all ranks call the same
// operations, in the same order, on the same variables; only `poll`, `pause` and the construction of variables are local.
//
// Errors. An operation that one rank refuses (a bad id, a gradient of a wrong size, an exception in a transform, memory) or on
// which ranks differ fails on every rank with the same Error, nothing is changed, and the session goes on. What was started
// is dropped with the step that fails, and where ranks called different operations. The session ends where ranks started
// different numbers of updates, the transport fails, a deadline passes or memory fails in the middle of an exchange: every
// rank gets the error, and later calls throw Error (poisoned). A session that is left by an exception aborts its peers; one that
// is left without `finish` says so on stderr.
//
// Refers to the communicator or copies the topology; the communicator must outlive it. Move-only; variables may be made and
// moved freely. One thread at a time.
//
// This one is over a type that is no communicator: it names the member that is missing, and its use is no further error.
template <class C>
class Session : public Session<std::conditional_t<detail::never<C>, C, SelfCommunicator>> {
  static_assert(sizeof(detail::check_communicator<C>) > 0);

 public:
  explicit Session(C&, SessionOptions = {});
};

template <Communicator C>
class Session<C> {
  using Edge = detail::edge_of<C>;

 public:
  explicit Session(C& world, SessionOptions options = {}) : Session{Topology<C>{world}, options} {}
  explicit Session(Topology<C> topology, SessionOptions options = {})
      : world_{make_owned<World>(std::move(topology), options)} {}
  Session(Session&&) noexcept = default;
  Session& operator=(Session&&) = delete;

  ~Session() {
    if (world_) world_->core.leave();
  }

  int rank() const { return world_->core.topology.rank(); }
  int size() const { return world_->core.topology.size(); }
  Topology<C> const& topology() const { return world_->given; }
  SessionOptions& options() { return world_->core.options; }
  Traffic const& traffic() const { return world_->core.traffic; }
  std::int64_t steps() const { return world_->core.steps; }

  // Collective. The rows of the indices of one batch, each distinct row once, as a handle. Several tables (table.at(ids)…)
  // share one exchange, and a tuple of their handles is returned; table.bags(ids, offsets…) pools rows. Errors: bad_id names
  // rank, position and value.
  template <detail::SparseVariable V, class Ids>
  [[nodiscard]] auto pull(V const& variable, Ids const& ids) {
    return detail::unpacked(detail::pull(world_->core, variable.at(ids)));
  }
  template <detail::NamesRows... Indices>
  [[nodiscard]] auto pull(Indices const&... indices) {
    return detail::unpacked(detail::pull(world_->core, indices...));
  }
  // Local, and alike on all ranks. Names the batch after this one while this one is worked on. The next `step` takes its ids
  // along, and sends its rows on their way when the updates are applied: `pull` of what this returns finds them there, without
  // a message of its own. Pulled before that step, or after a later one that changed the table, it is like any other pull.
  // What a rank writes into its rows itself after the step is not in them.
  // Takes what `pull` takes, which may be gone once it returns; what is wrong with it is thrown by its `pull`.
  //   auto next = session.prefetch(words, tokens_of_next);
  //   session.step(grad(rows, gradient));
  //   rows = session.pull(std::move(next));
  template <detail::SparseVariable V, class Ids>
  [[nodiscard]] auto prefetch(V const& variable, Ids const& ids) {
    return detail::prefetch(world_->core, variable.at(ids));
  }
  template <detail::NamesRows... Indices>
  [[nodiscard]] auto prefetch(Indices const&... indices) {
    return detail::prefetch(world_->core, indices...);
  }
  template <class... Handles>
  [[nodiscard]] auto pull(Prefetched<C, Handles...>&& batch) {
    return detail::unpacked(detail::pull(world_->core, std::move(batch)));
  }
  template <class... Others>
  detail::Mistaken prefetch(Others const&...) {
    static_assert(detail::never<std::tuple<Others...>>,
                  "parallax: a prefetch is of a Sparse variable and the next batch's "
                  "indices, or of table.at(ids) and table.bags(ids, offsets)");
    return {};
  }
  template <class... Others>
  detail::Mistaken pull(Others const&...) {
    static_assert((false || ... || std::same_as<Others, detail::Mistaken>),
                  "parallax: a pull is of a Sparse variable and indices, or of table.at(ids) and table.bags(ids, offsets)");
    return {};
  }

  // Collective. Begins updates while the backward pass goes on: their agreement is posted now, their exchange as soon as a
  // later `poll`, `start`, `pull` or `step` finds that all ranks agreed. Gradients are copied, so that their memory is free
  // at once. What is wrong with them is thrown by the `step` that completes them.
  template <class... Updates>
  void start(Updates const&... updates) {
    start(Priority{}, updates...);
  }
  template <class... Updates>
  void start(Priority priority, Updates const&... updates) {
    if constexpr (detail::check_updates<Updates...>()) detail::start(world_->core, priority, updates...);
  }

  // Local. Lets what was started progress; call it between layers. Never throws for a refusal.
  void poll() { detail::poll(world_->core); }

  // Collective. Completes what was started, and these updates with it: all ranks agree, exchange, and apply each variable's
  // optimizer once, to the sum of all its updates. An update is grad(…), clip_by_global_norm(max, grad(…)…) or a range of
  // grad(…) of one type. Gradients are read in place until it returns. True when the updates were applied; false, on all ranks,
  // when the step was skipped over a gradient that is not finite (NonFinite::skip_step) or all ranks have joined.
  template <class... Updates>
  bool step(Updates const&... updates) {
    if constexpr (detail::check_updates<Updates...>()) return detail::step(world_->core, updates...);
    else return false;
  }

  // Collective. A step of dense variables that is checked here once and never again: see BoundStep. `updates`: grad(…) of
  // variables under AllReduce whose optimizer works element by element, without a transform. The communicator sums in the
  // vendor's order. Errors: misuse where it does not, invalid_argument for a gradient of another size or of more than INT_MAX
  // elements.
  template <class... Updates>
  auto bind_step(Updates const&... updates) {
    if constexpr (detail::check_bound<C, Updates...>())
      return detail::bind_step(world_->core, world_->given.world(), updates...);
    else return detail::Mistaken{};
  }

  // Collective. For ranks that run out of data before others: called after a rank's last batch, it takes part in the others'
  // operations and contributes nothing to them, until all ranks have called it. `body` is the others' iteration with an empty
  // batch: the same pulls, starts and steps in the same order, the pulls and updates by indices without any; dense gradients
  // are not looked at and count as zeros. Means are over all ranks or over those that have data: SessionOptions::join_divisor.
  // The last call of `body` happens when all ranks have joined: its steps change nothing and return false.
  //   for (Batch const& batch : mine) iteration(batch);
  //   session.join([&] { iteration(Batch{}); });
  template <class Body>
  void join(Body&& body) {
    static_assert(std::is_invocable_v<Body&>,
                  "parallax: join is given an iteration with an empty batch: something to call without arguments");
    if constexpr (std::is_invocable_v<Body&>) detail::join(world_->core, body);
  }

  // Collective. Every rank's replica of these variables becomes that of rank 0 (variables whose policy replicates).
  template <class... Variables>
  void broadcast(Variables const&... variables) {
    static_assert((true && ... && detail::AnyVariable<Variables>), "parallax: broadcast is given variables");
    if constexpr ((true && ... && detail::AnyVariable<Variables>)) (detail::broadcast(world_->core, variables), ...);
  }

  // Collective. Sets rows of a table in the host's memory: `rows` has one for each id, [ids x width]. Who holds a row writes it;
  // the optimizer's slots beside it stay, and so does what handles show that were pulled before. Ranks may name different ids,
  // or none; a row that is named twice is given the same bits. All is set or, with an Error, nothing: bad_id, as the variable's
  // BadIds says; invalid_argument for rows of another shape, or a row that one rank gives twice and not alike; mismatch for one
  // that two ranks give so.
  template <class V, class Ids, class Rows>
  void assign(V const& table, Ids const& ids, Rows const& rows) {
    if constexpr (detail::check_assigned<V, Rows>())
      detail::assign(world_->core, table.at(ids), RowsView<typename V::scalar_type const>{rows_view(rows, table.width())});
  }
  // Collective. Multiplies rows of a table in the host's memory by a factor, the same on all ranks. A row that any rank names is
  // multiplied once, however often it is named; all else, and the errors, are those of `assign`.
  template <class V, class Ids>
  void scale(V const& table, Ids const& ids, double factor) {
    if constexpr (detail::check_rewritten<V>()) detail::scale(world_->core, table.at(ids), factor);
  }

  // Collective. Searches, while training goes on, the number of pieces under which steps take least time: see PieceSearch. The
  // next steps that update `variable`, one under Auto, are timed, and after some of them its rows are dealt anew. Returns at
  // once; `decisions()` tells how it went. Meanwhile the method stays; where every rank holds all rows nothing is searched.
  template <class V>
  void search_pieces(V const& variable, SearchOptions const& search = {}) {
    constexpr bool right = requires { requires V::State::adaptive; };
    static_assert(right, "parallax: pieces are searched for a variable under Auto: Variable<Sparse, Auto>");
    if constexpr (right) detail::search_pieces(world_->core, variable, search);
  }

  // Local. This rank will be busy with `what` (of which 15 letters are kept), an evaluation for one, and takes part in nothing
  // for `at_most` so long. Until the Pause is destroyed, the waits of other ranks last as much longer than the deadline, and
  // what they report says so. Errors: misuse where a pause is under way or the communicator cannot announce one,
  // invalid_argument.
  //   auto const pause = session.pause("evaluation", std::chrono::minutes{10});
  [[nodiscard]] Pause pause(std::string_view what, std::chrono::nanoseconds at_most) { return {world_->edge, what, at_most}; }

  // Local. Shows an archive (core/archive.hpp) all that outlives a step: what the session remembers, then each variable's
  // parameters, optimizer, policy and choices. One that reads gives them to a fresh session of as many ranks whose variables were
  // made alike, and training goes on bit for bit. Name all variables of the session. Nothing may have been started or be on its
  // way. Errors:
  // misuse; mismatch, which names variable and item, and after which the session is to be given up.
  template <class A, class... Variables>
  void visit(A&& archive, Variables&... variables) {
    static_assert((true && ... && detail::AnyVariable<Variables>), "parallax: visit is given an archive and variables");
    if constexpr ((true && ... && detail::AnyVariable<Variables>)) detail::visit(world_->core, archive, variables...);
  }

  // Local. How variables under Auto were moved, and why: the same on all ranks.
  std::vector<Decision> const& decisions() const { return world_->core.decisions; }
  // Local. The model of the machine for variables in the space's memory: as the options have it, or as it was measured for
  // variables under Auto.
  template <MemorySpace Space = HostSpace>
  Costs costs() const {
    return world_->core.costs_of(!Space::host_readable);
  }
  // Local. A line per variable: policy, owners, pieces, the fraction of rows that a host touches in a step, and what the step
  // is expected to send from this rank to other hosts (MB, 10^6 bytes) and to take, where costs are known: agreements apart.
  // What is not known is «-», and a line below says why.
  std::string describe() const {
    auto const& core = world_->core;
    return detail::described(core.topology, core.registry.variables(), core.costs_of(false), core.costs_of(true));
  }

  // Collective. The normal end: every rank has completed every step, and says so. A rank that leaves without it has failed, and
  // no rank gets a Completion.
  Completion finish() { return detail::finish(world_->core); }

  // For a Trace. Local.
  void record(TraceRoom* room) { world_->core.waiting.journal().record(room); }
  // For a ProgressThread. Local. begin_help: for its thread, which like any new one has device 0, whatever the queue's is.
  void take_turns(bool on) { world_->core.waiting.take_turns(on); }
  void begin_help() const noexcept {
    auto const& world = world_->core.topology.world();
    if constexpr (requires { make_current(world.queue()); }) make_current(world.queue());
  }
  void help() noexcept { world_->core.waiting.help(); }
  // For variables: makes this one known. Local. Throws Error (invalid_argument) for a name that the session already holds. The
  // variable's type is seen here: an engine that has no way for its policy says so.
  template <class State>
  void enter(State& state) {
    static_assert(
        requires { State::Exchange::sharded; },
        "parallax: a Session updates variables by their policy's exchange<Kind>, and this one has none");
    world_->core.registry.enter(state.registration(), rank());
    state.registration()->compares_values = options().compare_replicas && size() > 1;
  }

 private:
  // The engine works on the edge to the communicator: it is compiled once for all of them.
  struct World {
    World(Topology<C> of, SessionOptions const& options)
        : given{std::move(of)}, edge{reach(given.world())}, core{Topology<Edge>{edge, given}, options} {}

    Topology<C> given;
    detail::edge_to<C> edge;
    detail::SessionCore<Edge> core;
  };
  static detail::edge_to<C> reach(C& world) {
    if constexpr (std::same_as<C, Edge>) return world;
    else return Edge{std::ref(world)};
  }

  Owned<World> world_;
};

template <class C>
Session(C&) -> Session<C>;
template <class C>
Session(C&, SessionOptions) -> Session<C>;
template <Communicator C>
Session(Topology<C>) -> Session<C>;
template <Communicator C>
Session(Topology<C>, SessionOptions) -> Session<C>;

}  // namespace parallax
