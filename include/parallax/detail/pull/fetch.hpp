// A pull on its way: batches of indices planned, agreed on and fetched. `Session::pull` makes one and awaits it; one of
// `prefetch` is brought by a step. The room `pull` fetches rows of tables, and has the handles by which trainers read them.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "parallax/detail/core/function_ref.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/pointer.hpp"
#include "parallax/detail/policy/journey/pull_journey.hpp"
#include "parallax/detail/pull/handle.hpp"

namespace parallax::inline v0_2 {
namespace detail {

// Local, once the rows of a pull are here. Completes them for a handle: if indices were dropped or the batch is padded, a row
// of zeros is put behind the rows, and `inverse` leads to it. May allocate, and throws for want of memory.
template <class State>
void finish_pull(PulledRows<State> const& handle) {
  if (handle.dropped() > 0 || handle.plan()->padded)
    handle.plan()->append_zeros(handle.state().ops(),
                                static_cast<std::size_t>(handle.width()) * sizeof(typename State::scalar_type));
}
// Completes rows of bags likewise, and sums them in the order of the indices, times weights or divided by the indices kept.
template <class State>
void finish_pull(PulledBags<State> const& handle) {
  using T = typename State::scalar_type;
  finish_pull(handle.rows());
  auto& plan = *handle.plan();
  auto& bags = plan.bags;
  auto const& ops = handle.state().ops();
  bags.pooled.resize_with_slack(bags.count * static_cast<std::size_t>(handle.width()) * sizeof(T));
  T* const out = reinterpret_cast<T*>(bags.pooled.data());
  RowTerms<T> const terms{handle.rows().values(), ops.inverse(plan.groups.there(ops)).data(),
                          bags.mean ? nullptr : bags.template factor_list<T>()};
  ops.sum_term_runs(terms, bags.begins_there(ops), out);
  if (bags.mean) ops.scale_rows_down(out, handle.width(), bags.kept.span());
}

// A pull of one or several tables, without their types: called by a session's `pull` and by Ahead. Its journeys go together.
// All functions are local, and wait for no rank. Counted: pool and trainer share the fetches of `prefetch`.
template <Communicator C>
class FetchBase : public Counted, public Traveller<C> {
 public:
  // Progress of a fetch named ahead: its ids climb to the owners with a step, its rows come after that step.
  enum class Stage : unsigned char { named, climbed, falling, here };

  virtual ~FetchBase() = default;

  virtual std::size_t counts() const = 0;  // returns how many numbers for each rank ride in the agreement
  // Returns, after planning, true, alike on every rank, if ranks can read keys and rows of all its tables in place. Then `tell`
  // gives addresses, and memory there stays as it is until all ranks have read. May throw std::bad_alloc.
  virtual bool lend(Topology<C> const&) = 0;
  // Calls the function with each first-hop rank, a table's number, and a number for this rank: a count of keys, or an address.
  virtual void tell(FunctionRef<void(int rank, std::size_t which, std::uint64_t number)>) const = 0;
  // Takes the numbers of other ranks, by the function: it returns a rank's number about a table, given by its number.
  virtual void hear(FunctionRef<std::uint64_t(int rank, std::size_t which)>) = 0;
  // Lets the ids begin to travel, after `hear`; with `held`, everything after them waits for `release`.
  virtual void begin(Topology<C> const&, bool held) = 0;
  // Reads in place: as an owner the keys of others, unless `taken` by an earlier call, and then the rows asked for. Returns
  // true, without rows, if owners may have changed some for the keys: to be called again once all owners have.
  virtual bool take_lent(bool taken) = 0;
  // Ends the loan, once this rank has read; the lane's traffic counts the bytes.
  virtual void end_lent(Lane<C>&) = 0;
  // Returns true if a table's rows have moved to other owners since its ids were planned: its pull has to `plan_again`.
  virtual bool outdated() const = 0;
  // Lets the rows begin to travel. Returns false, and does nothing, if rows have moved to other owners since `begin`.
  virtual bool release() = 0;
  // Reads the present rows of tables that every rank has in full, and completes all rows for the handles, once they are here.
  virtual void finish() = 0;
  // Returns true if no update has changed a row since `release`.
  virtual bool current() const = 0;
  // Plans the ids anew for tables whose rows have moved (`Auto`) since they were planned; the ids of all tables travel again.
  // May throw.
  virtual void plan_again(Topology<C> const&) = 0;

  // Gives back its holds on the tables and its handles.
  virtual void clear() = 0;

  // Returns a hash of the tables, for all ranks to have in common.
  virtual std::uint64_t hash() const = 0;
  // Returns the tables' names, for errors and reports.
  virtual std::string names() const = 0;
  // Returns the first table's name, a view of its own, for the journal; empty without tables.
  virtual std::string_view first_name() const = 0;
  // Returns a line for each table, for the error of ranks that differ.
  virtual std::string describe() const = 0;

  std::optional<Error> error;  // this rank's refusal
  Stage stage = Stage::named;
  bool dropped = false;  // nobody is going to pull it
};

// One table of a fetch: its state, held until the fetch is cleared, the handle to be returned, and the journey of ids and rows.
template <Communicator C, class Handle, class State = typename Handle::state_type>
struct FetchSlot final
    : RowSource<typename State::index_type, typename State::scalar_type, typename State::stored_type, typename State::space> {
  // Integer of a key, and place of the rows.
  using Index = typename State::index_type;
  using Space = typename State::space;
  // Journey by the table's integers, its scalar, computed and stored, and its wire.
  using Journey =
      PullJourney<C, Index, typename State::scalar_type, typename State::stored_type, Space, typename State::PullWire>;

  // Things of the table on this rank.
  Shared<State> state;
  Handle handle;
  Journey journey;

  // Functions of RowSource, by the state.
  void touch(typename Groups<Index, Space>::Keys const& keys) override { state->touch(keys); }
  bool touches() const override { return State::settles; }
  void gather(std::span<Index const> keys, void* out) const override {
    state->gather(keys, static_cast<typename Journey::Gathered*>(out));
  }
  typename FetchSlot::LentTable lent() const override { return {state->stored().data, state->directory()}; }
};

// Tables of a fetch in their order: of several types, with their handles returned as a tuple. Owns the slots.
template <Communicator C, class... Handles>
class FetchSlots {
 public:
  // Takes hold of the named tables.
  template <class... Indices>
  void hold(Indices const&... indices) {
    each([](auto& slot, auto const& named) { slot.state = Shared{named.state}; }, indices...);
  }
  // Calls f(slot) for each table, or f(slot, its argument of `more`).
  template <class F>
  void each(F&& f) {
    [&]<std::size_t... Nth>(std::index_sequence<Nth...>) { (f(std::get<Nth>(slots_)), ...); }
    (std::index_sequence_for<Handles...>{});
  }
  template <class F, class... More>
  void each(F&& f, More&... more) {
    [&]<std::size_t... Nth>(std::index_sequence<Nth...>) { (f(std::get<Nth>(slots_), more), ...); }
    (std::index_sequence_for<Handles...>{});
  }
  // Returns the number of tables.
  std::size_t size() const { return sizeof...(Handles); }
  // Returns the handles, taken out of their slots.
  std::tuple<Handles...> take() {
    return std::apply([](auto&... slot) { return std::tuple<Handles...>{std::move(slot.handle)...}; }, slots_);
  }
  // Lets go of all tables; memory of journeys stays.
  void clear() {
    each([](auto& slot) { slot.state = {}, slot.handle = {}; });
  }

 private:
  std::tuple<FetchSlot<C, Handles>...> slots_;
};

// Tables of one type in a list of any length, with their handles returned as a list.
template <Communicator C, class Handle>
class FetchSlots<C, std::vector<Handle>> {
 public:
  // Takes hold of the named tables.
  template <class List>
  void hold(List const& list) {
    slots_.resize(list.size());
    each([](auto& slot, auto const& named) { slot.state = Shared{named.state}; }, list);
  }
  // Calls f(slot) for each table, or f(slot, its element of `list`).
  template <class F>
  void each(F&& f) {
    for (auto& slot : slots_) f(slot);
  }
  template <class F, class List>
  void each(F&& f, List& list) {
    for (std::size_t i = 0; i < slots_.size(); ++i) f(slots_[i], list[i]);
  }
  // Returns the number of tables.
  std::size_t size() const { return slots_.size(); }
  // Returns the handles, taken out of their slots, in a list. May throw std::bad_alloc.
  std::vector<Handle> take() {
    std::vector<Handle> handles;
    handles.reserve(slots_.size());
    for (auto& slot : slots_) handles.push_back(std::move(slot.handle));
    return handles;
  }
  // Lets go of all tables; memory of journeys and of the list stays.
  void clear() {
    for (auto& slot : slots_) slot.state = {}, slot.handle = {};
  }

 private:
  List<FetchSlot<C, Handle>> slots_;
};

// A fetch that knows its tables, by the types of their handles: of a list of tables std::vector<Handle>. `plan` begins it, and
// `take` ends it; in between the session calls it by FetchBase. Holds the tables' states until it is cleared.
template <Communicator C, class... Handles>
class Fetch final : public FetchBase<C> {
 public:
  // Local. Plans the batches; `indices` may be gone afterwards. Keeps an error, of `check(state)` too, for the agreement.
  // `current` is set to the name of the table at hand, for errors.
  template <class Check, class... Indices>
  void plan(Topology<C> const& topology, Check&& check, std::string_view& current, Indices const&... indices) {
    this->error.reset();
    this->stage = FetchBase<C>::Stage::named;
    this->dropped = false;
    lends_ = false;
    slots_.hold(indices...);
    try {
      // All tables first: a device then sorts the ids of one table while the next begins.
      slots_.each([&](auto& slot, auto const& named) { begin_one(topology, check, current, named, slot.handle); }, indices...);
      slots_.each([&](auto& slot, auto const& named) { finish_one(topology, current, named, slot.handle); }, indices...);
    } catch (...) {
      this->error = current_error(topology.rank(), "pull", current);
    }
  }
  // Returns the handles, as FetchSlots does, with the plans held by them; the fetch may be used again.
  auto take() {
    auto taken = slots_.take();
    clear();
    return taken;
  }
  void clear() override { slots_.clear(); }

  std::size_t counts() const override { return slots_.size(); }
  bool lend(Topology<C> const& topology) override {
    lends_ = topology.reads_in_place() && topology.hops().size() == 1;
    slots_.each([&]<class Slot>(Slot& slot) { lends_ = lends_ && (Slot::Journey::can_lend || !slot.state->shards()); });
    if (!this->error) lent([&](auto& slot) { slot.journey.lend(*slot.handle.plan(), slot, topology.size()); });
    return lends_;
  }
  void tell(FunctionRef<void(int, std::size_t, std::uint64_t)> tell) const override {
    if (this->error) return;
    std::size_t which = 0;
    slots_.each([&](auto& slot) {
      auto const one = [&](int rank, std::uint64_t number) { tell(rank, which, number); };
      if (is_lent(slot)) slot.journey.tell_lent(one);
      else tell_plan(*slot.handle.plan(), one);
      ++which;
    });
  }
  void hear(FunctionRef<std::uint64_t(int, std::size_t)> told) override {
    std::size_t which = 0;
    slots_.each([&](auto& slot) {
      auto const one = [&](int rank) { return told(rank, which); };
      if (is_lent(slot)) slot.journey.hear_lent(one);
      else hear_plan(*slot.handle.plan(), one);
      ++which;
    });
  }
  void begin(Topology<C> const& topology, bool held) override {
    slots_.each([&](auto& slot) {
      auto& state = *slot.state;
      if (!state.shards()) return slot.journey.stop();
      slot.journey.start(*slot.handle.plan(), slot, state.ops(), state.placement().bases(), state.rows(), state.width(),
                         topology.owner(), held);
    });
    moves_ = moves();
  }
  bool take_lent(bool taken) override {
    bool changed = false;
    if (!taken) lent([&](auto& slot) { changed |= slot.journey.take_keys(); });
    if (!changed) lent([](auto& slot) { slot.journey.take_rows(); });
    return changed;
  }
  void end_lent(Lane<C>& lane) override {
    lent([&](auto& slot) { slot.journey.end_lent(lane); });
  }
  bool outdated() const override {
    bool any = false;
    slots_.each([&](auto& slot) { any = any || slot.handle.plan()->retired; });
    return any;
  }
  bool release() override {
    if (moves_ != moves()) return false;
    changes_ = changes();
    slots_.each([](auto& slot) { slot.journey.release(); });
    return true;
  }
  void finish() override {
    slots_.each([]<class Handle>(FetchSlot<C, Handle>& slot) {
      if (!slot.state->shards()) read_replica(slot);
      finish_pull(slot.handle);
    });
  }
  bool current() const override { return changes_ == changes(); }
  void plan_again(Topology<C> const& topology) override {
    slots_.each([&](auto& slot) {
      auto& state = *slot.state;
      auto& plan = *slot.handle.plan();
      plan.agreed = 0;
      if (!plan.retired) return;
      auto& fresh = state.take_plan();
      remake_plan(topology, state, fresh, plan, false);
      slot.handle = {state, fresh};
    });
  }

  bool next(Mails<C>& mail) override {
    bool any = false;
    slots_.each([&](auto& slot) { any |= slot.journey.travelling = slot.journey.next(mail); });
    return any;
  }
  void write(Mails<C>& mail) override {
    slots_.each([&](auto& slot) {
      if (slot.journey.travelling) slot.journey.write(mail);
    });
  }
  void read(Mails<C>& mail) override {
    slots_.each([&](auto& slot) {
      if (slot.journey.travelling) slot.journey.read(mail);
    });
  }

  std::uint64_t hash() const override {
    Fingerprint hash;
    each_state([&](auto const& state) { hash.add(state.registration()->hash); });
    return hash.value();
  }
  std::string names() const override {
    std::string list;
    each_state([&](auto const& state) { (list += list.empty() ? "" : ", ") += state.name(); });
    return list;
  }
  std::string_view first_name() const override {
    std::string_view first;
    each_state([&](auto const& state) { first = first.empty() ? std::string_view{state.name()} : first; });
    return first;
  }
  std::string describe() const override {
    std::string lines;
    each_state([&](auto const& state) { ((lines += state.name() + "\t") += state.registration()->signature) += '\n'; });
    return lines;
  }

 private:
  // Local, by `plan`. Takes a plan of the table's pool and begins it. Throws the errors of `check` and `begin_plan`.
  template <class Check, class Indices, class Handle>
  static void begin_one(Topology<C> const& topology, Check&& check, std::string_view& current, Indices const& indices,
                        Handle& handle) {
    current = indices.state->name();
    check(*indices.state);
    handle = {*indices.state, indices.state->take_plan()};
    begin_plan(topology, indices, *handle.plan(), "pull");
  }
  // Local, by `plan`. Finishes the plan, with its bags, and counts its use. Throws the errors of `finish_plan`.
  template <class Indices, class Handle>
  static void finish_one(Topology<C> const& topology, std::string_view& current, Indices const& indices, Handle& handle) {
    current = indices.state->name();
    finish_plan(topology, indices, *handle.plan(), "pull");
    indices.state->seen.pulled += static_cast<double>(handle.plan()->size());
  }
  // Reads the named rows of a table that every rank has in full, up to date, into the plan. May throw std::bad_alloc.
  template <class Handle>
  static void read_replica(FetchSlot<C, Handle>& slot) {
    auto& state = *slot.state;
    auto& plan = *slot.handle.plan();
    using T = typename Handle::T;
    plan.values.resize_with_slack(plan.size() * static_cast<std::size_t>(state.width()) * sizeof(T));
    auto const rows = state.rows_named(plan.groups.named());
    state.touch(rows);
    state.gather(plan.shown_keys(state.ops(), rows).first(plan.size()), reinterpret_cast<T*>(plan.values.data()));
  }
  // Returns true if the agreement says the addresses of this table's keys and rows.
  template <class Slot>
  bool is_lent(Slot const& slot) const {
    return Slot::Journey::can_lend && lends_ && slot.state->shards();
  }
  // Calls f with the slot of each table for which `is_lent` is true.
  template <class F>
  void lent(F&& f) const {
    slots_.each([&]<class Slot>(Slot& slot) {
      if constexpr (Slot::Journey::can_lend)
        if (is_lent(slot)) f(slot);
    });
  }
  // Calls f with each table's state, also after planning has failed.
  template <class F>
  void each_state(F&& f) const {
    slots_.each([&](auto& slot) { f(*slot.state); });
  }
  // Returns a number that grows with every change of a row of the tables, alike on all ranks.
  std::int64_t changes() const {
    std::int64_t sum = 0;
    each_state([&](auto const& state) { sum += state.changes(); });
    return sum;
  }
  // Returns a number that grows with every move of rows to other owners, alike on all ranks.
  std::int64_t moves() const {
    std::int64_t sum = 0;
    each_state([&](auto const& state) { sum += state.moves(); });
    return sum;
  }

  mutable FetchSlots<C, Handles...> slots_;  // questions to a fetch leave them unchanged
  std::int64_t changes_ = -1;                // of the tables, when the rows began to travel
  std::int64_t moves_ = -1;                  // when the ids did
  bool lends_ = false;                       // ranks may read in place the memory told by this fetch
};

}  // namespace detail
}  // namespace parallax
