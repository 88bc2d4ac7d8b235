// A session: the ranks of one training, and the collective operations on their variables. Trainers include it, mostly by
// parallax.hpp; a variable is made with a session, and is updated by its `step`. The room `session` has an operation a file: a
// member here checks the types of its arguments, and calls the function of its name.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "parallax/comm/any.hpp"
#include "parallax/comm/self.hpp"
#include "parallax/detail/comm/communicator_checks.hpp"
#include "parallax/detail/session/assign.hpp"
#include "parallax/detail/session/bind_step.hpp"
#include "parallax/detail/session/broadcast.hpp"
#include "parallax/detail/session/completion.hpp"
#include "parallax/detail/session/describe.hpp"
#include "parallax/detail/session/finish.hpp"
#include "parallax/detail/session/join.hpp"
#include "parallax/detail/session/pause.hpp"
#include "parallax/detail/session/pull.hpp"
#include "parallax/detail/session/search_pieces.hpp"
#include "parallax/detail/session/start.hpp"
#include "parallax/detail/session/step.hpp"
#include "parallax/detail/session/visit.hpp"
#include "parallax/step/grad.hpp"

namespace parallax::inline v0_2 {

struct SaveOptions;
struct RestoreOptions;
struct WholeOptions;

namespace detail {

// The work of save, restore, gather or scatter, by the operation's number: defined in the headers of parallax/checkpoint.
template <Operation operation>
struct CheckpointWork;

// Calls the work of `save` and its like, and returns its result, if its header is included; an assertion asks for the header.
template <Operation operation, class... Arguments>
auto checkpoint(Arguments&... arguments) {
  constexpr bool included = requires { sizeof(CheckpointWork<operation>); };
  static_assert(included, "parallax: who saves, restores, gathers or scatters includes <parallax/checkpoint/checkpoint.hpp>");
  if constexpr (included) return CheckpointWork<operation>::run(arguments...);
  else return Mistaken{};
}

}  // namespace detail

// Stands in if C is no communicator: one assertion names the member missing in C. The base, a session of one rank, keeps the
// trainer's further calls from being errors as well.
template <class C>
class Session : public Session<std::conditional_t<detail::never<C>, C, SelfCommunicator>> {
  static_assert(sizeof(detail::check_communicator<C>) > 0);

 public:
  // Never runs; takes the arguments of a session's constructors.
  explicit Session(C&, SessionOptions = {});
};

// Ranks that train together, with their operations. All ranks call an operation marked collective, in the same order, on the
// same variables. It waits for its peers, under the communicator's deadline, unless its comment says otherwise. The rest, and
// the construction of variables, is local, and waits for no rank. C: a Communicator, deduced from the constructor's argument.
//
// Errors. An operation refused by one rank (a bad id, a gradient of a wrong size, an exception in a transform, memory), or
// differing between ranks, fails on every rank with the same Error, nothing is changed, and the session goes on. Started
// updates are dropped with a failing step, and after calls of different operations. The session ends if ranks started different
// numbers of updates, the transport fails, a deadline passes or memory fails in the middle of an exchange: every rank gets the
// error, and later calls throw Error (poisoned). A session left by an exception aborts its peers; one left without `finish`
// says so on stderr.
//
// Ownership. Refers to the communicator and copies the topology; the communicator must outlive it. Owns the buffers of its
// operations, and uses them again. Move-only, and a moved-from session is only destroyed; variables may be made and moved
// freely. One thread at a time. Sessions in use at once need a communicator each.
template <Communicator C>
class Session<C> {
  using Edge = detail::edge_of<C>;

 public:
  // Local. Makes a session over all ranks of `world` by a flat topology: one hop, and every rank owns a share. Every operation
  // compares topology and options: ranks with different ones get Error (mismatch). May throw std::bad_alloc.
  explicit Session(C& world, SessionOptions options = {}) : Session{Topology<C>{world}, options} {}
  // Local. Makes a session over a topology, as with named hosts or servers, which is copied, but not its communicator.
  explicit Session(Topology<C> topology, SessionOptions options = {})
      : world_{make_owned<World>(std::move(topology), options)} {}
  Session(Session&&) noexcept = default;
  Session& operator=(Session&&) = delete;

  // Local, and never throws. Aborts the peers if an exception leaves the unfinished session, or if updates or rows are still in
  // flight; then waits until no peer touches this rank's memory.
  ~Session() {
    if (world_) world_->core.leave();
  }

  // Local. Returns this rank's number in the communicator, from 0.
  int rank() const { return world_->core.topology.rank(); }
  // Local. Returns the number of the communicator's ranks, non-owners included.
  int size() const { return world_->core.topology.size(); }
  // Local. Returns the hosts, hops and owners given to the constructor, over the caller's communicator. Valid as long as the
  // session.
  Topology<C> const& topology() const { return world_->given; }
  // Local. Returns the options of operations yet to come: a trainer may change them between two, alike on all ranks. The next
  // operation compares them, and ranks with different ones get Error (mismatch).
  SessionOptions& options() { return world_->core.options; }
  // Local. Returns this rank's traffic in this session, which owns it: bytes by payload, messages and transfers. Never reset.
  Traffic const& traffic() const { return world_->core.traffic; }
  // Local. Returns the number of applied steps, alike on all ranks; a refused or skipped one does not count. A reading `visit`
  // sets it.
  std::int64_t steps() const { return world_->core.steps; }

  // Collective. Fetches the rows named by a batch of indices. `variable` is a Sparse variable, `ids` any contiguous range of
  // integers, and the result a handle, PulledRows: `values()` is [distinct ids x width], row-major, and `rows[i]` the row of
  // the i-th index. The handle owns its rows, as they were at this call, and may outlive the variable. `ids` may be gone after
  // the return.
  //
  // Traffic: on its way to the owners every rank sends each distinct id once, and gets a row for it; for a table with all rows
  // on every rank nothing but the agreement travels. Errors, on all ranks: bad_id names rank, position and value, if the
  // variable's BadIds is `error`; mismatch, if ranks pull from different tables; misuse, for a variable of another session;
  // out_of_memory.
  template <detail::SparseVariable V, class Ids>
  [[nodiscard]] auto pull(V const& variable, Ids const& ids) {
    return detail::unpacked(detail::pull(world_->core, variable.at(ids)));
  }
  // Collective. Pulls from several tables at once, in one agreement and one exchange: each argument is `table.at(ids)`, or
  // `table.bags(ids, offsets…)` for pooled rows. Returns a handle for each argument, as a tuple in their order; of one argument
  // the handle itself. Errors are those of all tables.
  template <detail::NamesRows... Indices>
  [[nodiscard]] auto pull(Indices const&... indices) {
    return detail::unpacked(detail::pull(world_->core, indices...));
  }
  // Collective. Pulls from a list of tables of one type, however many: each element is `table.at(ids)` or `table.bags(…)`, on
  // all ranks of the same tables in the same order. Returns a list of handles, in the list's order; of an empty list an empty
  // one.
  //   std::vector<decltype(tables[0].bags(ids[0], offsets))> batch;
  //   for (std::size_t t = 0; t < tables.size(); ++t) batch.push_back(tables[t].bags(ids[t], offsets));
  //   auto const bags = session.pull(batch);
  template <detail::NamesRows Indices>
  [[nodiscard]] auto pull(std::vector<Indices> const& list) {
    return detail::unpacked(detail::pull(world_->core, list));
  }
  // Local, and alike on all ranks. Names the next batch during the work on this one. The next `step` takes its ids along, and
  // sends its rows on their way when the updates are applied: `pull` of the returned batch finds them there, without a message
  // of its own. Before that step, or after a later one with changes of the table, it is like any other pull.
  // A rank's own writes into its rows after the step are missing there.
  // Takes the arguments of `pull`, which may be gone after the return; mistakes in them are thrown by its `pull`.
  //   auto next = session.prefetch(words, tokens_of_next);
  //   session.step(grad(rows, gradient));
  //   rows = session.pull(std::move(next));
  template <detail::SparseVariable V, class Ids>
  [[nodiscard]] auto prefetch(V const& variable, Ids const& ids) {
    return detail::prefetch(world_->core, variable.at(ids));
  }
  // Local, and alike on all ranks. Names, as prefetch(variable, ids), a batch of several tables, or bags, pulled together.
  template <detail::NamesRows... Indices>
  [[nodiscard]] auto prefetch(Indices const&... indices) {
    return detail::prefetch(world_->core, indices...);
  }
  // Local, and alike on all ranks. Names, as prefetch(variable, ids), a batch of a list of tables of one type.
  template <detail::NamesRows Indices>
  [[nodiscard]] auto prefetch(std::vector<Indices> const& list) {
    return detail::prefetch(world_->core, list);
  }
  // Collective. Returns the rows of a batch named by `prefetch`, as the handles of a pull of the same indices. Takes the batch,
  // which is empty afterwards. Waits for rows on their way; sends nothing if they are here and the tables have not changed
  // since, else it is like any other pull. Errors: those of `pull`, mistakes in the indices, and misuse for a batch pulled
  // before or named to another session.
  template <class... Handles>
  [[nodiscard]] auto pull(Prefetched<C, Handles...>&& batch) {
    return detail::unpacked(detail::pull(world_->core, std::move(batch)));
  }
  // Refuses arguments of other types at compile time, by an assertion that names those of a prefetch.
  template <class... Others>
  detail::Mistaken prefetch(Others const&...) {
    static_assert(detail::never<std::tuple<Others...>>,
                  "parallax: a prefetch is of a Sparse variable and the next batch's "
                  "indices, or of table.at(ids) and table.bags(ids, offsets)");
    return {};
  }
  // Refuses arguments of other types at compile time, by an assertion that names those of a pull. Says nothing if an argument
  // is a Mistaken, for its own assertion has failed.
  template <class... Others>
  detail::Mistaken pull(Others const&...) {
    static_assert((false || ... || std::same_as<Others, detail::Mistaken>),
                  "parallax: a pull is of a Sparse variable and indices, or of table.at(ids) and table.bags(ids, offsets)");
    return {};
  }

  // Collective. Begins updates during the backward pass: their agreement is posted now, their exchange as soon as a later
  // `poll`, `start`, `pull` or `step` finds all ranks in agreement. Gradients are copied, so that their memory is free at once.
  // Mistakes in them are thrown by the completing `step`.
  // At most 13 starts exchange at once: a further one first waits, in this call, for the holder of its channels. Errors thrown
  // here end the session: transport, timeout.
  template <class... Updates>
  void start(Updates const&... updates) {
    start(Priority{}, updates...);
  }
  // Collective. Begins updates as start(updates…), with a priority, compared by the ranks: during the exchange of a start with
  // a higher one, lower ones wait. Without one it is 0.
  template <class... Updates>
  void start(Priority priority, Updates const&... updates) {
    if constexpr (detail::check_updates<Updates...>()) detail::start(world_->core, priority, updates...);
  }

  // Local. Lets started updates, and rows named ahead, progress; call it between layers. Never waits, and never throws for a
  // refusal; throws errors that end the session.
  void poll() { detail::poll(world_->core); }

  // Collective. Completes the started updates, and these with them: all ranks agree, exchange, and apply each variable's
  // optimizer once, to the sum of all its updates. An update is grad(…), clip_by_global_norm(max, grad(…)…) or a range of
  // grad(…) of one type. Gradients are read in place until the return. Returns true if the updates were applied; false, on all
  // ranks, if the step was skipped over a gradient with a non-finite number (NonFinite::skip_step) or all ranks have joined.
  // Several updates of one variable are summed; they lie in one clip group, or in none. Without arguments completes the started
  // ones.
  //
  // An update's shape is its variable's: `size()` elements of a dense one, a row of `width` for each index of a table. The
  // policy determines kind and amount of traffic; the ranks agree twice, before any exchange and before any change. Errors, on
  // all ranks, after which nothing is changed: invalid_argument for a shape, bad_id, non_finite (NonFinite::error), mismatch if
  // ranks brought different updates, user_exception from a transform, out_of_memory, misuse for an empty handle, a variable of
  // another session, or a destroyed one.
  template <class... Updates>
  bool step(Updates const&... updates) {
    if constexpr (detail::check_updates<Updates...>()) return detail::step(world_->core, updates...);
    else return false;
  }

  // Collective. Binds a step of dense variables, checked here once and never again: see BoundStep. `updates`: grad(…) of
  // variables under AllReduce whose optimizer works element by element, without a transform. The communicator sums in the
  // vendor's order. The BoundStep refers to the gradients' memory. Errors: misuse if it does not sum so, mismatch,
  // invalid_argument for a gradient of another size or of more than INT_MAX elements.
  template <class... Updates>
  auto bind_step(Updates const&... updates) {
    if constexpr (detail::check_bound<C, Updates...>())
      return detail::bind_step(world_->core, world_->given.world(), updates...);
    else return detail::Mistaken{};
  }

  // Collective. Takes part, after this rank's last batch, in the operations of ranks that have more data, and contributes
  // nothing to them, until all ranks have called it. `body` is the iteration of those ranks with an empty batch: the same
  // pulls, starts and steps in the same order, the pulls and updates by indices without any; dense gradients are not looked at
  // and count as zeros. Means are over all ranks or over those with data: SessionOptions::join_divisor. The last call of `body`
  // happens after all ranks have joined: its steps change nothing and return false. Errors: those of calls in `body`, and
  // misuse for a `body` without operations.
  //   for (Batch const& batch : mine) iteration(batch);
  //   session.join([&] { iteration(Batch{}); });
  template <class Body>
  void join(Body&& body) {
    static_assert(std::is_invocable_v<Body&>,
                  "parallax: join is given an iteration with an empty batch: something to call without arguments");
    if constexpr (std::is_invocable_v<Body&>) detail::join(world_->core, body);
  }

  // Collective. Gives every rank the replica of rank 0 of these variables, and ranges of variables (whose policy replicates).
  // For w bytes and N ranks of a flat topology, the busiest rank sends 2 w (N - 1) / N bytes. Each variable is an operation of
  // its own, in the order of the arguments. Errors: mismatch, misuse. A sharded table has one copy of each row, and is refused
  // by an assertion.
  template <class... Variables>
  void broadcast(Variables const&... variables) {
    constexpr bool right = (true && ... && detail::VariableOrRange<Variables const>);
    static_assert(right, "parallax: broadcast is given variables, and ranges of variables");
    auto const one = [&](auto const& variable) { detail::broadcast(world_->core, variable); };
    if constexpr (right) (detail::each_of(variables, one), ...);
  }

  // Collective. Sets rows of a table, which lies in the host's memory (asserted): `rows` has one for each id, [ids x width].
  // The holder of a row writes it. The optimizer's slots beside it stay, unless it adopts values (Ftrl), and so do the values
  // of earlier pulls' handles. Ranks may name different ids, or none; a row named twice is given the same bits. All is set or,
  // with an Error, nothing: bad_id, if the variable has BadIds::error; invalid_argument for rows of another shape, or a row
  // that one rank gives twice and not alike; mismatch for one that two ranks give so.
  template <class V, class Ids, class Rows>
  void assign(V const& table, Ids const& ids, Rows const& rows) {
    if constexpr (detail::check_assigned<V, Rows>())
      detail::assign(world_->core, table.at(ids), RowsView<typename V::scalar_type const>{rows_view(rows, table.width())});
  }
  // Collective. Multiplies rows of a table, which lies in the host's memory, by a factor, the same on all ranks. A row named by
  // any rank is multiplied once, however often it is named; all else, and the errors, are those of `assign`. Only ids travel.
  template <class V, class Ids>
  void scale(V const& table, Ids const& ids, double factor) {
    if constexpr (detail::check_rewritten<V>()) detail::scale(world_->core, table.at(ids), factor);
  }

  // Collective. Searches, during the training, the number of pieces with the fastest steps: see PieceSearch. The next steps
  // with updates of `variable`, one under Auto, are timed, and after some of them its rows are dealt anew. Waits for the
  // agreement only; `decisions()` has the results. Meanwhile the policy stays; nothing is searched if every rank holds all
  // rows. Errors: mismatch, if ranks search differently; misuse for a variable of another session.
  template <class V>
  void search_pieces(V const& variable, SearchOptions const& search = {}) {
    constexpr bool right = requires { requires V::State::adaptive; };
    static_assert(right, "parallax: pieces are searched for a variable under Auto: Variable<Sparse, Auto>");
    if constexpr (right) detail::search_pieces(world_->core, variable, search);
  }

  // Local. Announces that this rank will be busy with `what` (15 letters of it are kept), an evaluation for one, and takes part
  // in nothing for `at_most` so long. Until the Pause is destroyed, the waits of other ranks last as much longer than the
  // deadline, and their reports say so. Errors: misuse during another pause or if the communicator cannot announce one,
  // invalid_argument.
  //   auto const pause = session.pause("evaluation", std::chrono::minutes{10});
  [[nodiscard]] Pause pause(std::string_view what, std::chrono::nanoseconds at_most) { return {world_->edge, what, at_most}; }

  // Local. Shows an archive (core/archive.hpp) everything that outlives a step: the session's own state, then each variable's
  // parameters, optimizer, policy and choices. A reading one gives them to a fresh session of as many ranks, with variables
  // made alike, and training goes on bit for bit. Name all variables of the session, each once, or in a range. Nothing may have
  // been started or be on its way. Each rank shows its own share. Errors: misuse, if it is not so; mismatch, which names
  // variable and item; the archive's exceptions pass. After either of these in reading the session is to be given up.
  template <class A, class... Variables>
  void visit(A&& archive, Variables&... variables) {
    constexpr bool right = (true && ... && detail::VariableOrRange<Variables>);
    static_assert(right, "parallax: visit is given an archive, variables, and ranges of variables");
    if constexpr (right) detail::visit(world_->core, archive, variables...);
  }

  // Collective. Saves a checkpoint below `directory`, which all ranks name alike, and may see as one folder or as one on each
  // host: the session's own state, these variables and ranges of variables, which are all that it has, and values of the
  // trainer: shared_value("name", value), own_value("name", value). Every rank writes its share, as safetensors; the new
  // generation is there once all of it is on the disk, and by one rename in each folder, so that readers find old generations
  // and complete ones. Returns a Saved, the same on all ranks. Include <parallax/checkpoint/checkpoint.hpp>.
  // Errors, on all ranks, after which training goes on and older generations are as they were: file, out_of_memory, misuse,
  // mismatch.
  //   session.save("run", {.keep = 3}, words, softmax, px::shared_value("epoch", epoch));
  template <class... Things>
  auto save(std::string const& directory, SaveOptions const& options, Things&&... things) {
    return detail::checkpoint<Operation::save>(*this, directory, options, things...);
  }
  // Collective. Saves behind the steps what `save` would: copies this rank's share, and returns the Saved of the generation to
  // come; a thread of each rank writes it. The copies are of one step on all ranks. Their memory is kept for the next ones. The
  // next save or restore waits for the end, as `finish` does, and throws an error of the writing on all ranks alike: older
  // generations are as they were. A session that ends otherwise gives it up. Other errors: those of `save`.
  template <class... Things>
  auto save_async(std::string const& directory, SaveOptions const& options, Things&&... things) {
    return detail::checkpoint<Operation::save_async>(*this, directory, options, things...);
  }
  // Collective. Gives variables and values the contents of the newest complete generation below `directory`, or of the
  // requested one. In a world alike (as many ranks, the same hosts, variables made alike) training goes on bit for bit. In any
  // other one values, slots, steps and settings of the optimizers are the saved ones, and knowledge of the old world alone is
  // left out: decisions of Auto, and the things in `Restored::lost`. Returns a Restored. Reads each row once, on a rank that
  // sees its file, and sends it to its present holders.
  // Errors, on all ranks: file, if there is no such generation or it is damaged; mismatch, if a variable's shape, scalar or
  // optimizer is another one. Then nothing has changed. A file damaged within ends the session.
  //   session.restore("run", {}, words, softmax, px::shared_value("epoch", epoch));
  template <class... Things>
  auto restore(std::string const& directory, RestoreOptions const& options, Things&&... things) {
    return detail::checkpoint<Operation::restore>(*this, directory, options, things...);
  }

  // Collective. Shows a whole table, layer or slot, a piece at a time, to the ranks named by `options.at`: take(numbers, rows),
  // with std::span<std::int64_t const> and RowsView<T const> in the host's memory, see WholeOptions. All ranks bring a `take`;
  // it is called on ranks that take rows, and does not use the session. A row travels once to each taking rank not holding it,
  // as its `width` elements alone; memory is for a few pieces. Include <parallax/checkpoint/whole.hpp>.
  // Errors, on all ranks, after which the session goes on: an exception from a `take` (user_exception, file, or its own Error);
  // invalid_argument for a missing slot or one unfit for `take`; mismatch, if ranks want different things; misuse, if updates
  // were started; out_of_memory.
  //   session.gather(words, {.slot = "m", .at = px::WholeAt::every_rank}, [&](auto numbers, auto rows) { … });
  template <class V, class Take>
  void gather(V& variable, WholeOptions const& options, Take&& take) {
    detail::checkpoint<Operation::gather>(*this, variable, options, take);
  }
  // Collective. Gives a whole table, layer or slot other rows, a piece at a time, from the ranks named by `options.at`:
  // give(numbers, rows) fills the rows of these numbers, std::span<std::int64_t const> and RowsView<T>, see WholeOptions. All
  // else beside the item stays: the slots of a table with new parameters, and the rows shown by handles of earlier pulls.
  // Holders of a replica set it alike; if each rank gives its own, they compare checksums first. Include
  // <parallax/checkpoint/whole.hpp>.
  // Errors are those of `gather`, and mismatch if replicas are given different rows. The session goes on; rows of earlier
  // pieces have been set then, on all their holders.
  template <class V, class Give>
  void scatter(V& variable, WholeOptions const& options, Give&& give) {
    detail::checkpoint<Operation::scatter>(*this, variable, options, give);
  }

  // Local. Returns the moves of variables under Auto, with reasons, in the order of steps: the same on all ranks. The reference
  // is valid as long as the session, and the list grows.
  std::vector<Decision> const& decisions() const { return world_->core.decisions; }
  // Local. Returns the model of the machine for variables in the space's memory: as the options have it, or as it was measured
  // for variables under Auto.
  template <MemorySpace Space = HostSpace>
  Costs costs() const {
    return world_->core.costs_of(!Space::host_readable);
  }
  // Local. Returns a line per variable: policy, owners, pieces, the fraction of rows touched by a host in a step, and the
  // expected traffic of the step from this rank to other hosts (MB, 10^6 bytes) and its time, if costs are known: agreements
  // apart. An unknown figure is «-», and a line below has the reason.
  std::string describe() const {
    auto const& core = world_->core;
    return detail::described(core.topology, core.registry.variables(), core.costs_of(false), core.costs_of(true));
  }

  // Collective. Ends the session normally: every rank has completed every step, and says so. Returns what each rank did, alike
  // on all ranks. A rank that leaves without it has failed, and no rank gets a Completion. A later operation opens the session
  // again. Errors: misuse, if started updates were not completed; those of a save behind the steps and of padded tables.
  Completion finish() { return detail::finish(world_->core); }

  // Local. Lets, for a Trace, the journal record events in this room, which the Trace owns, until a call with null.
  void record(TraceRoom* room) { world_->core.waiting.journal().record(room); }
  // Local. Lets, for a ProgressThread, operations take a lock that `help` tries, or none. Called while its thread does not run.
  // Throws Error (misuse) if the communicator may be used by one thread only.
  void take_turns(bool on) { world_->core.waiting.take_turns(on); }
  // Local. Gives a ProgressThread's thread, as its first call, the device of the session's queue.
  void begin_help() const noexcept {
    auto const& world = world_->core.topology.world();
    if constexpr (requires { make_current(world.queue()); }) make_current(world.queue());
  }
  // Local. Lets, for a ProgressThread's thread, again and again, work in flight progress, unless the session is at work itself.
  // A failure ends the session.
  void help() noexcept { world_->core.waiting.help(); }
  // Returns the session's core, for operations of the library outside of this class. Valid as long as the session.
  auto& core() { return world_->core; }
  // Local. Makes a variable known to the session, as the last call of its constructor. Throws Error (invalid_argument) for the
  // name of another living variable of the session. The variable's type is seen here: an engine without a way for its policy
  // says so.
  template <class State>
  void enter(State& state) {
    static_assert(
        requires { State::Exchange::sharded; },
        "parallax: a Session updates variables by their policy's exchange<Kind>, and this one has none");
    world_->core.registry.enter(state.registration(), rank());
    state.registration()->compares_values = options().compare_replicas && size() > 1;
    state.registration()->compares_every = size() > 1 ? options().compare_replicas_every : 0;
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

// A session over the given communicator.
template <class C>
Session(C&, SessionOptions = {}) -> Session<C>;
// A session by the given topology, over the topology's communicator.
template <Communicator C>
Session(Topology<C>, SessionOptions = {}) -> Session<C>;

}  // namespace parallax
