// A sparse variable: the places of a table's rows, this rank's state of them, and their moves to other owners between steps.
// `BasicVariable<Sparse, ...>` owns the state; pulls read it, ways update it, and Auto moves it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/kind.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/short_float.hpp"
#include "parallax/detail/kernel/row_ops.hpp"
#include "parallax/detail/partition/placement.hpp"
#include "parallax/detail/partition/search.hpp"
#include "parallax/detail/policy/auto/choice.hpp"
#include "parallax/detail/policy/auto/row_move.hpp"
#include "parallax/detail/policy/journey/row_plan.hpp"
#include "parallax/detail/policy/merging.hpp"
#include "parallax/detail/variable/registration.hpp"
#include "parallax/detail/variable/table.hpp"
#include "parallax/detail/variable/table_rows.hpp"
#include "parallax/policy/exchange.hpp"

namespace parallax::inline v0_2 {

// A rank's state of a sparse variable, a TableState (policy/state.hpp) for its ways: local row l of a shard is global row
// placement().global_row(owner, l); if the policy replicates, local and global rows are the same. Owns its memory unless it was
// bound. Between steps rows can be moved to other owners, or to all ranks and back. T: the type of kept rows. All functions are
// local. TableRows has those that concern the rows here alone; keys are the placement's, or, if every rank has all rows, numbers
// of rows (`rows_of`).
template <class T, class IndexType, class Policy, Optimizer O, Partitioner P, MemorySpace Space>
class SparseState : public Counted, public TableRows<T, IndexType, O, Space> {
  using Rows = TableRows<T, IndexType, O, Space>;
  using typename Rows::Ops;

 public:
  // The type of an element of a gradient, of a slot, and of a pulled row.
  using scalar_type = computed_type<T>;
  // The type of an element of a row as it is kept: scalar_type, or one of 16 bits.
  using stored_type = T;
  // The type of keys, and of indices as they travel.
  using index_type = IndexType;
  // The policy of the variable since its construction.
  using policy = Policy;
  // The optimizer, as a type of its settings.
  using optimizer_type = O;
  // The kind, for code over states of both.
  using kind = Sparse;
  // The memory space of rows, slots and gradients.
  using space = Space;
  // A plan of a batch of indices, made once for its pull and its update.
  using Plan = RowPlan<IndexType, Space>;
  // The policy's exchange for tables.
  using Exchange = typename Policy::template exchange<Sparse>;
  // The wire type of rows on their way to pullers.
  using PullWire = pull_wire_of<Exchange, T>;
  // True if the policy in force may change between steps.
  static constexpr bool adaptive = is_adaptive<Exchange>, sharded = Exchange::sharded;  // owners keep shards, at first
  // True if a device can find the rows of a table.
  static constexpr bool placed_there = requires { requires Placement<IndexType, P>::Layout::on_device; };
  // True if the batches of the table may be padded.
  static constexpr bool can_pad = placed_there && !Space::host_readable && pads<Exchange>;
  static constexpr bool lazy = untouched<O> == Untouched::lazy;  // the optimizer leaves rows alone that nobody named
  static constexpr bool measures = false;                        // whole tensors: a table's rows are its tensors

  // Makes, for the variable's constructor, which then calls `allocate` or `borrow`, slots for this rank's rows by `placement`,
  // of `partitioner`. `owner`: the rank's number among owners, or -1 if it owns nothing. May throw std::bad_alloc.
  SparseState(Ops const& ops, RegistrationPtr registration, Placement<IndexType, P> placement, std::int64_t width, int owner,
              O const& optimizer, P const& partitioner, Reduce reduce, BadIds bad_ids)
      : Rows{ops, directory_of(placement, sharded ? owner : -1), sharded ? placement.local_rows(owner) : placement.rows(),
             width, optimizer},
        registration_{std::move(registration)},
        owner_{owner},
        reduce_{reduce},
        bad_ids_{bad_ids},
        partitioner_{partitioner},
        placement_{std::move(placement)} {
    registration_->attach(*this);
    this->tells(registration_->long_work);
  }

  ~SparseState() {
    static_assert(TableState<SparseState>, "the ways of policies ask for these members");
    registration_->detach();
  }

  // Takes the first row of each table of a stack, and behind them the number of rows. By the variable's constructor, before
  // `allocate`.
  void stack(List<IndexType> firsts) { firsts_ = std::move(firsts); }
  // Returns the state of the table's padded batches, and of their mistakes; empty if they are not padded.
  PaddedBatches<Space>& padded() { return padded_; }
  // Ends an update of the padded table made by a graph: it counts, and its use is taken as the mean of the updates before.
  void replayed() {
    double const more = this->steps() > 0 ? 1 + 1 / static_cast<double>(this->steps()) : 1;
    seen.pushed *= more, seen.pulled *= more;
    this->end_update();
  }
  // Allocates the table's own memory: each of this rank's rows as the Initializer initial_of(row) says, by the variable's name
  // and the row's number in the table. May throw std::bad_alloc.
  template <class InitialOf>
  void allocate(InitialOf&& initial_of) {
    Fingerprint name_hash;
    name_hash.add(std::string_view{name()});
    bool given = false;  // not of zeros: slots begin with those
    Rows::allocate([&](std::int64_t local, T* out) {
      std::int64_t const row = global_row(local);
      Initializer const& initial = initial_of(row);
      given = given || !(initial == Initializer{});
      for (std::int64_t c = 0; c < this->width(); ++c)
        out[c] = static_cast<T>(static_cast<scalar_type>(initial.value(name_hash.value(), row, c)));
    });
    if (given) Rows::adopt();
  }

  // Returns the registration: the variable as the session and the ranks know it.
  RegistrationPtr const& registration() const { return registration_; }
  // Returns the name, the same on all ranks.
  std::string const& name() const { return registration_->name; }
  // Returns the number of rows of the whole table.
  std::int64_t rows() const { return placement_.rows(); }
  // Returns the number of tables: 1, or the tables of a stack.
  std::size_t tables() const { return firsts_.empty() ? 1 : firsts_.size() - 1; }
  // Returns the number in the whole of the first row of table number `table`; for `tables()` the number of all rows.
  std::int64_t first_row(std::size_t table) const {
    if (firsts_.empty()) return table == 0 ? 0 : rows();
    return static_cast<std::int64_t>(firsts_[table]);
  }
  // Returns this rank's number among the owners, or -1.
  int owner() const { return owner_; }
  // Returns the placement, the owner and key of each row, valid until rows move; also if every rank has all rows, for plans.
  Placement<IndexType, P> const& placement() const { return placement_; }
  // Returns the partitioner, with the number of pieces in force.
  P const& partitioner() const { return partitioner_; }
  // Returns the policies to choose from under Auto, the same on all ranks.
  static Slice<Choice const> choices() requires adaptive { return Exchange::choices; }
  // Returns the number among `choices` of the policy in force, the same on all ranks; 0 without Auto.
  std::size_t choice() const { return choice_; }
  // Returns true if this rank holds its shard only, under the policy in force.
  bool shards() const {
    if constexpr (adaptive) return choices()[choice_].sharded;
    else return sharded;
  }
  // Returns the number in the table of this rank's row `local`, 0 <= local < local_rows().
  std::int64_t global_row(std::int64_t local) const { return shards() ? placement_.global_row(owner_, local) : local; }
  // Returns the reduction of the ranks' gradients.
  Reduce reduce() const { return reduce_; }
  // Returns the answer to indices outside the table.
  BadIds bad_ids() const { return bad_ids_; }
  // Returns the number of indices dropped by this rank so far; of a padded table those known from the device by now.
  std::uint64_t dropped() const { return dropped_; }
  // Counts so many more dropped indices. Called by makers of plans that leave indices out.
  void count_dropped(std::size_t indices) { dropped_ += indices; }
  // Returns true if each row is divided by the number of indices that named it, so that counts travel beside sums.
  bool counted() const { return reduce_ == Reduce::mean_by_count; }
  // Returns the number of changes and moves of rows, the same on all ranks: a fetch notes it, and knows by it that its rows are
  // still right. It grows, also if an archive gives back earlier steps.
  std::int64_t changes() const { return this->steps() + moves_ + rewritten_; }
  // Returns the number of moves of rows to other ranks and of changes of their policy, the same on all ranks; it only grows.
  std::int64_t moves() const { return moves_ + undone_; }

  // Adds to the ranks' comparison before an update: the variable, the number of its step and moves, and the settings; and the
  // values of a replica, if they are compared.
  void add_update(Fingerprint& hash) const {
    hash.fold(registration_->hash);
    hash.fold(static_cast<std::uint64_t>(this->steps()));
    hash.fold(static_cast<std::uint64_t>(moves_));
    fold_fields(this->optimizer(), hash);
    if (registration_->compares_after(this->steps())) registration_->add_replica(hash);
  }
  // Returns true, with a replica's checksum in `sum`, as Registration::replica. False if owners hold rows, or a device all;
  // and, unless `settling`, if rows may be behind: each rank's are behind by its own reads.
  bool replica(std::uint64_t& sum, bool settling) {
    if constexpr (Space::host_readable) {
      if (shards() || (Rows::settles && !settling)) return false;
      sum = this->checksum();
      return true;
    } else {
      return false;
    }
  }

  // Returns this rank's rows, all up to date, to a possible writer. Valid until rows move (`end_move`).
  RowsView<T> local() {
    this->may_be_given();
    return this->settled();
  }
  // Divides sums of rows in place, as `reduce` says: by `ranks`, each by the number of indices that named its row, or not.
  // Called once, by the leader of the update.
  void average(ReducedRows<IndexType, scalar_type, Space> const& reduced, int ranks) {
    std::size_t const count = most_of(reduced.keys);
    if (reduce_ == Reduce::mean && ranks > 1)
      this->ops().scale_down(reduced.rows, static_cast<std::int64_t>(count) * this->width(), static_cast<scalar_type>(ranks));
    if (counted()) this->ops().scale_rows_down(reduced.rows, this->width(), {reduced.counts, count});
  }
  // Returns the scale for `apply` in place of `average`, to the same bits: 1 / ranks if exact, 1 for sums; 0 if none does it.
  double average_by_scale(int ranks) const {
    if (!Space::host_readable || counted()) return 0;
    if (reduce_ != Reduce::mean || ranks < 2) return 1;
    return (ranks & (ranks - 1)) == 0 ? 1.0 / ranks : 0;
  }
  // Moves rows, on a device, by sums of `addends` by `groups` that are not there yet, averaged over `ranks` on the way.
  // `reduced` has the counts, for a mean by count.
  void apply_runs(ReducedRows<IndexType, scalar_type, Space> const& reduced, RowsView<scalar_type const> addends,
                  Groups<IndexType, Space>& groups, int ranks) {
    Rows::apply_runs(addends, groups, reduce_ == Reduce::mean ? static_cast<scalar_type>(ranks) : scalar_type{1},
                     counted() ? reduced.counts : nullptr);
  }
  // Has slots follow rows written from outside; called on all ranks. Throws the errors of `reserve_adoption`.
  void adopt() {
    Rows::adopt();
    ++rewritten_;
  }
  // Calls f(i, row) with this rank's row of keys[i], a key of the placement, to be changed. Called on all ranks, by `assign`
  // and its kin.
  template <class F>
  void rewrite(std::span<IndexType const> keys, F&& f) {
    Rows::rewrite(shards() ? keys : rows_of(keys), f);
    ++rewritten_;
  }

  // Returns the numbers in the table of the rows of these keys of the placement, in their order, valid until the next call.
  std::span<IndexType const> rows_of(std::span<IndexType const> keys) {
    ids_.resize_with_slack(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) ids_[i] = row_of(keys[i]);
    return ids_.span();
  }

  // The numbers of the rows of the keys of groups, on a device, as `touch` and `apply` take them.
  class RowNumbers {
   public:
    // Refers to the state, and to numbers just written by `rows_named`.
    template <class Keys>
    RowNumbers(SparseState& state, Keys const& keys) : state_{&state}, keys_{keys} {}
    // Returns the numbers in the host's memory; brings the keys there, and waits for them.
    std::span<IndexType const> here() const { return state_->rows_of(keys_here(keys_)); }
    // Returns the numbers in device memory, with room for the most there may be: the first `count` are numbers.
    std::span<IndexType const> there(Ops const&) const { return {state_->numbers_.data(), most_of(keys_)}; }
    // Returns the place of their count, in device memory, valid as long as the keys.
    std::uint32_t const* count(Ops const& ops) const { return keys_.count(ops); }

   private:
    SparseState* state_;
    typename Groups<IndexType, Space>::Keys keys_;
  };
  // Returns the numbers of the rows of keys of groups as `touch` and `apply` take them, if every rank has all rows: in the
  // host's memory a span, on a device RowNumbers, unless only the host can tell. Valid until the next call.
  template <class Keys>
  auto rows_named(Keys const& keys) {
    if constexpr (Space::host_readable || !placed_there) {
      return rows_of(keys_here(keys));
    } else {
      numbers_.resize_with_slack(most_of(keys));
      this->ops().rows_of_keys(keys.there(this->ops()).data(), most_of(keys), keys.count(this->ops()), placement_.layout(),
                               bases_there().data(), numbers_.data());
      return RowNumbers{*this, keys};
    }
  }

  // Returns the first rows of a stack's tables in memory of the space, sent there once.
  std::span<IndexType const> firsts_there() { return firsts_there_.of(this->ops(), firsts_); }
  // Returns the first keys of owners in memory of the space, sent there once for each placement.
  std::span<IndexType const> bases_there() { return bases_there_.of(this->ops(), placement_.bases()); }

  // Returns a plan without users, from an earlier batch or new, for a handle or an update, which counts itself among its users
  // and gives it back. The state owns plans, which stay in their place and keep memory: as many as are ever held at once.
  Plan& take_plan() {
    auto const free = std::find_if(plans_.begin(), plans_.end(), [](auto const& known) { return known->users == 0; });
    Plan& plan = free == plans_.end() ? *plans_.emplace_back(make_owned<Plan>()) : **free;
    if constexpr (can_pad) padded_.keep(*this, plan);
    return plan;
  }

  // Returns the optimizer's slot of this name beside the rows of `local`, up to date, valid as long. Throws Error
  // (invalid_argument) if it is not there or not of S.
  template <class S>
  RowsView<S> slot(std::string_view slot_name) {
    return Rows::template slot<S>(slot_name, name());
  }

  // Shows an archive all state that outlives a step (core/archive.hpp). Under Auto an archive that reads deals the rows first,
  // by its policy and pieces. No pull or update may be under way. Throws the archive's errors; items read before one stay: read
  // the variable again, or give it up. A session's clock is its own: if a search goes on, set `step_began`.
  template <Archive A>
  void visit(A& archive) {
    Items<A> items{archive, name()};
    items.same("optimizer.name", optimizer_name<O>());
    std::uint64_t choice = choice_;
    P partitioner = partitioner_;
    std::int64_t const changed = changes(), moved = this->moves();
    std::int64_t moves = moves_;
    items.number("choice", choice, Share::world);
    items.number("pieces", partitioner.pieces, Share::world);
    items.number("moves", moves, Share::world);
    if constexpr (A::reads && adaptive) deal(static_cast<std::size_t>(choice), partitioner);
    moves_ = moves;
    if constexpr (A::reads) undone_ = moved + 1 - moves_;
    auto const row = [&](std::int64_t local) { return global_row(local); };
    auto const where = [&](std::int64_t number) {
      auto const at = placement_.layout().locate(number);
      return RowPlace{at.owner, at.local};
    };
    Rows::visit(items, {rows(), shards() ? Share::part : Share::any, this->local_rows(), row, where});
    items.number("dropped", dropped_, Share::own);
    items.fields("seen", seen, Share::own);
    if constexpr (A::reads) rewritten_ = changed + 1 - this->steps() - moves_;
    if constexpr (adaptive) visit_choice(items);
    visit_policy_state(items, *this);
  }

  // Returns the elements and bytes of each row and its costs, for the model of `Auto` and for predictions.
  TableFacts facts() const {
    auto const kept = static_cast<double>(this->width()) * sizeof(T),
               bytes = static_cast<double>(this->width()) * sizeof(scalar_type);
    auto const state = static_cast<double>(Rows::Slots::row_bytes(static_cast<std::size_t>(this->width())));
    return {static_cast<double>(rows()),
            bytes,
            kept + state,
            static_cast<double>(sizeof(IndexType)),
            wire_share<Exchange, scalar_type>,
            detail::wire_share_of<PullWire, scalar_type>()};
  }

  // Returns the variable's entry in the session's report, with its use as known to this rank, or under Auto to all ranks.
  Description description() const {
    TableUse use = chooser.use();
    if (!adaptive && this->steps() > 0) {
      use.pushed = seen.pushed / static_cast<double>(this->steps());
      use.pulled = seen.pulled / static_cast<double>(this->steps());
      use.by_host = use.by_all = use.pushed;
    }
    std::string_view in_force = Policy::name;
    auto predict = &Exchange::predict;
    if constexpr (adaptive) in_force = choices()[choice_].name, predict = choices()[choice_].predict;
    return {true,          !shards(),
            Policy::name,  in_force,
            predict,       facts(),
            this->width(), partitioner_.pieces ? partitioner_.pieces : placement_.owners(),
            use,           !Space::host_readable};
  }

  // The coming places of the rows: another policy's, or other pieces.
  struct Moved {
    // The number of the coming policy.
    std::size_t choice;
    // With the coming number of pieces.
    P partitioner;
    // The coming owners of rows.
    Placement<IndexType, P> placement;
    // Memory for this rank's coming rows, and their slots.
    typename Rows::Room room;
    // The route of each row.
    MoveRoute<IndexType> route;
    // The arrays copied by this route: the rows, and each slot beside them.
    List<MovingArray> arrays;
  };
  // Begins a move from or to shards, and returns room and route for it; rows stay in place, all up to date. Called by Auto on
  // all ranks alike. May throw std::bad_alloc. The table must be the library's own, and no update of it under way.
  template <Communicator C>
  Moved begin_move(Topology<C> const& topology, std::size_t choice, P const& partitioner) {
    Placement<IndexType, P> placement{partitioner, rows(), placement_.owners()};
    bool const to_shards = choices()[choice].sharded;
    std::int64_t const there = to_shards ? placement.local_rows(owner_) : rows();
    Moved moved{choice, partitioner, std::move(placement), this->room_for(there), {}, {}};
    moved.route = !shards()   ? route_to_own(topology, moved.placement)
                  : to_shards ? route_between(topology, placement_, moved.placement)
                              : route_to_all<C, IndexType, P>(topology, placement_);
    this->each_array(moved.room, [&](std::byte const* from, std::byte* to, std::size_t row_bytes) {
      moved.arrays.push_back({from, to, row_bytes});
    });
    return moved;
  }
  // Ends a move, after every row has arrived in the new room, which it takes. With `other_placement` keys change: plans of
  // earlier pulls stay usable, and name their rows by number from here on.
  void end_move(Moved&& moved, bool other_placement) {
    for (auto& plan : plans_)
      if (other_placement && plan->users > 0) plan->retire([&](IndexType key) { return row_of(key); });
    choice_ = moved.choice;
    partitioner_ = moved.partitioner;
    placement_ = std::move(moved.placement);
    bases_there_.renew();
    this->enter(std::move(moved.room), directory_of(placement_, shards() ? owner_ : -1));
    ++moves_;
  }
  // Changes to another policy, by number, among those that keep all rows on every rank; no row moves.
  void change_choice(std::size_t choice) {
    choice_ = choice;
    ++moves_;
  }

  // The policy's own state of the variable, from step to step; empty for most.
  [[no_unique_address]] typename detail::memory_of<Exchange, SparseState>::type policy_state;
  // The rows of this step's updates: collected and merged by the ways, empty between steps. Of a densified gradient only `rows`
  // is set: the part of this rank.
  Merging<ReducedRows<IndexType, scalar_type, Space>> merging;
  // Under Auto: the use of the table, and the choice of a policy by it.
  Chooser chooser;
  // This rank's use of the table since the last step of the variable.
  Chooser::Seen seen;
  // The search for a number of pieces; null without one.
  Owned<PieceSearch> search;
  // Words told by this table in the step at hand, until its last update has read them: a search may end in between.
  std::size_t told_words = 0;
  // Time of the commit of the variable's last step, applied or not, in seconds of the session's clock; for the search.
  double step_began = 0;

 private:
  // Returns the directory from keys as `touch` takes them to a rank's rows: under shards the owner's first key is row 0; else,
  // for an owner of -1, keys are rows already.
  static Directory<IndexType> directory_of(Placement<IndexType, P> const& placement, int owner) {
    return owner >= 0 ? Directory<IndexType>{placement.base(owner)} : Directory<IndexType>{};
  }
  // Makes empty room for the rows as another policy or number of pieces has it. Throws Error (mismatch) for no such policy.
  void deal(std::size_t choice, P const& partitioner) {
    if (choice == choice_ && partitioner.pieces == partitioner_.pieces) return;
    if (choice >= choices().size())
      throw item_error(name(), "choice", joined({"there is no policy number ", choice, " to choose"}));
    Placement<IndexType, P> placement{partitioner, rows(), placement_.owners()};
    auto room = this->room_for(choices()[choice].sharded ? placement.local_rows(owner_) : rows());
    end_move({choice, partitioner, std::move(placement), std::move(room), {}, {}}, true);
  }
  // Shows Auto's knowledge of the table, and the search, if one is on. Throws the archive's errors.
  template <class A>
  void visit_choice(Items<A>& items) {
    chooser.visit(items);
    bool searching = static_cast<bool>(search);
    items.number("search", searching, Share::world);
    if constexpr (A::reads) search = {};
    if (searching) {
      if (!search) search = make_owned<PieceSearch>(1, SearchOptions{});
      search->visit(items);
    }
  }

  // Returns the number in the table of the row of a key.
  IndexType row_of(IndexType key) const { return static_cast<IndexType>(placement_.row(key)); }

  RegistrationPtr registration_;
  int owner_;
  Reduce reduce_;
  BadIds bad_ids_;
  std::uint64_t dropped_ = 0;
  std::size_t choice_ = 0;                   // under Auto: among the policies to choose from
  std::int64_t moves_ = 0;                   // archives keep it, and give an earlier one back
  std::int64_t rewritten_ = 0, undone_ = 0;  // the rest of `changes` and `moves`, so that they grow
  P partitioner_;
  Placement<IndexType, P> placement_;
  List<Owned<Plan>> plans_;
  // The result of `rows_of`, and of `rows_named` on a device, which is shown the first keys of owners.
  Buffer<IndexType> ids_;
  Buffer<IndexType, Space> numbers_;
  Shown<IndexType, Space> bases_there_, firsts_there_;
  [[no_unique_address]] PaddedBatches<Space> padded_;
  List<IndexType> firsts_;  // of a stack's tables; empty for one table
};

}  // namespace parallax
