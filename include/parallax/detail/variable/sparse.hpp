// A sparse variable: where a table's rows are, what this rank keeps of them, and how they go to other owners between steps.
// `BasicVariable<Sparse, ...>` owns the state; pulls read it, ways update it, and Auto moves it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "parallax/detail/core/kind.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/short_float.hpp"
#include "parallax/detail/core/slice.hpp"
#include "parallax/detail/kernel/padded_batches.hpp"
#include "parallax/detail/partition/placement.hpp"
#include "parallax/detail/partition/search.hpp"
#include "parallax/detail/policy/auto/choice.hpp"
#include "parallax/detail/policy/auto/row_move.hpp"
#include "parallax/detail/policy/journey/row_plan.hpp"
#include "parallax/detail/variable/binding.hpp"
#include "parallax/detail/variable/merging.hpp"
#include "parallax/detail/variable/plan_pool.hpp"
#include "parallax/detail/variable/registration.hpp"
#include "parallax/detail/variable/table.hpp"
#include "parallax/detail/variable/table_rows.hpp"
#include "parallax/policy/exchange.hpp"

namespace parallax::inline v0_2 {

// What a rank holds of a sparse variable: local row l of a shard is global row placement().global_row(owner, l); where the
// policy replicates, local and global rows are the same. Owns its memory unless it was bound. Between steps rows can be moved
// to other owners, or to all ranks and back. T: as what rows are kept. All functions are local.
template <class T, class IndexType, class Policy, Optimizer O, Partitioner P, MemorySpace Space>
class SparseState : public Counted {
  using Ops = RowOps<Space>;
  using Rows = TableRows<T, IndexType, O, Space>;

 public:
  // The type of an element of a gradient, of a slot, and of what a pull brings.
  using scalar_type = computed_type<T>;
  // The type of an element of a row as it is kept: scalar_type, or one of 16 bits.
  using stored_type = T;
  // The type of keys, and of indices as they travel.
  using index_type = IndexType;
  // The policy that the variable was made with.
  using policy = Policy;
  // The optimizer, as a type of its settings.
  using optimizer_type = O;
  // The kind, for what takes states of both.
  using kind = Sparse;
  // Where rows, slots and gradients are.
  using space = Space;
  // What is made of a batch of indices, once for its pull and its update.
  using Plan = RowPlan<IndexType, Space>;
  // All that the policy says of tables.
  using Exchange = typename Policy::template exchange<Sparse>;
  // As what rows travel to those who pull them.
  using PullWire = pull_wire_of<Exchange, T>;
  // Whether the policy in force may change between steps.
  static constexpr bool adaptive = is_adaptive<Exchange>, sharded = Exchange::sharded;  // owners keep shards, at first
  // Whether a device can tell where the rows of a table are.
  static constexpr bool placed_there = requires { requires Placement<IndexType, P>::Layout::on_device; };
  // Whether the batches of the table may be padded.
  static constexpr bool can_pad = placed_there && !Space::host_readable && pads<Exchange>;
  static constexpr bool lazy = untouched<O> == Untouched::lazy;  // the optimizer leaves rows alone that nobody named
  static constexpr bool measures = false;                        // whole tensors: a table's rows are its tensors

  // By the variable's constructor, which then calls `allocate` or `borrow`. Deals the rows and makes the slots of those that
  // are this rank's: `owner` is its number among `owners`, or -1 where it owns nothing. Throws what the partitioner's `layout`
  // throws, and std::bad_alloc.
  SparseState(Ops const& ops, RegistrationPtr registration, std::int64_t rows, std::int64_t width, int owner, int owners,
              O const& optimizer, P const& partitioner, Reduce reduce, BadIds bad_ids)
      : registration_{std::move(registration)},
        owner_{owner},
        reduce_{reduce},
        bad_ids_{bad_ids},
        partitioner_{partitioner},
        placement_{partitioner, rows, owners},
        rows_{ops, directory(), sharded ? placement_.local_rows(owner) : rows, width, optimizer} {
    registration_->attach(*this);
    rows_.tells(registration_->long_work);
  }

  ~SparseState() { registration_->detach(); }

  // By the constructor of a stack of tables, before their memory is allocated: the first rows of each, and the end of the last.
  void stack(List<IndexType> firsts) { firsts_ = std::move(firsts); }
  // How batches are padded, where they are, and what was wrong with them.
  PaddedBatches<Space>& padded() { return padded_; }
  // A step is going to be captured, or a graph to be launched: local, whatever is to be put in the stream ahead of it.
  void reserve_launch() {
    if constexpr (Rows::settles_there || Rows::follows) rows_.reserve_launch();
  }
  // An update of the padded table was made by a graph: it counts, and was like those before.
  void replayed() {
    double const more = steps() > 0 ? 1 + 1 / static_cast<double>(steps()) : 1;
    seen.pushed *= more, seen.pulled *= more;
    end_update();
  }
  // The table's memory, owned: each of this rank's rows as `initial_of(row)` says, by the variable's name and the row's number in
  // the table.
  template <class InitialOf>
  void allocate(InitialOf&& initial_of) {
    Fingerprint name_hash;
    name_hash.add(std::string_view{name()});
    bool given = false;  // not of zeros, which slots begin with
    rows_.allocate([&](std::int64_t local, T* out) {
      std::int64_t const row = global_row(local);
      Initializer const& initial = initial_of(row);
      given = given || !(initial == Initializer{});
      for (std::int64_t c = 0; c < width(); ++c)
        out[c] = static_cast<T>(static_cast<scalar_type>(initial.value(name_hash.value(), row, c)));
    });
    if (given) rows_.adopt();
  }
  // The table's memory, the user's: local_rows() x width() elements, row-major, which outlive the state. Their values stay.
  void borrow(T* memory) { rows_.borrow(memory); }

  // Operations on memory of the space, in the order of this rank's queue.
  Ops const& ops() const { return rows_.ops(); }
  // By what the session and the ranks know the variable.
  RegistrationPtr const& registration() const { return registration_; }
  // The name, the same on all ranks.
  std::string const& name() const { return registration_->name; }
  // Rows of the whole table.
  std::int64_t rows() const { return placement_.rows(); }
  // How many tables the rows are of: 1, or those of a stack.
  std::size_t tables() const { return firsts_.empty() ? 1 : firsts_.size() - 1; }
  // The first row of a table, or the end of all for `tables()`.
  std::int64_t first_row(std::size_t table) const {
    if (firsts_.empty()) return table == 0 ? 0 : rows();
    return static_cast<std::int64_t>(firsts_[table]);
  }
  // Elements of a row.
  std::int64_t width() const { return rows_.width(); }
  // Rows that this rank holds.
  std::int64_t local_rows() const { return rows_.rows(); }
  // This rank's number among the owners, or -1.
  int owner() const { return owner_; }
  // Who owns which row, and the key of each; also where every rank has all rows, as plans are made by it.
  Placement<IndexType, P> const& placement() const { return placement_; }
  // The partitioner, with the number of pieces in force.
  P const& partitioner() const { return partitioner_; }
  // Under Auto: the policies that are chosen from.
  static Slice<Choice const> choices() requires adaptive { return Exchange::choices; }
  // The number among `choices` of the policy in force, the same on all ranks; 0 without Auto.
  std::size_t choice() const { return choice_; }
  // Whether this rank holds its shard only, under the policy in force.
  bool shards() const {
    if constexpr (adaptive) return choices()[choice_].sharded;
    else return sharded;
  }
  // The number in the table of this rank's row `local`.
  std::int64_t global_row(std::int64_t local) const { return shards() ? placement_.global_row(owner_, local) : local; }
  // The optimizer's settings, to be changed between steps, alike on all ranks.
  O& optimizer() { return rows_.optimizer(); }
  // The optimizer's settings.
  O const& optimizer() const { return rows_.optimizer(); }
  // How gradients of the ranks become one.
  Reduce reduce() const { return reduce_; }
  // What becomes of indices outside the table.
  BadIds bad_ids() const { return bad_ids_; }
  // How many indices this rank has dropped so far, and was told of: of a padded table by its `padded`.
  std::uint64_t dropped() const { return dropped_; }
  // By what makes a plan that leaves indices out: so many more.
  void count_dropped(std::size_t indices) { dropped_ += indices; }
  // Whether each row is divided by the number of indices that named it, so that counts travel beside sums.
  bool counted() const { return reduce_ == Reduce::mean_by_count; }
  // How many updates there were so far, the same on all ranks.
  std::int64_t steps() const { return rows_.steps(); }
  // Returns how often rows have changed or moved, the same on all ranks: a fetch that notes it knows whether its rows are still
  // right. It grows, also where an archive gives back earlier steps.
  std::int64_t changes() const { return steps() + moves_ + rewritten_; }
  // Returns how often rows went to other ranks, or their policy changed; it grows likewise.
  std::int64_t moves() const { return moves_ + undone_; }
  // The optimizer's slots beside this rank's rows.
  auto const& optimizer_state() const { return rows_.optimizer_state(); }

  // Adds to a hash what the ranks compare before an update: which variable, at which of its steps and moves, with which
  // settings; and the values of a replica, if they are compared.
  void add_update(Fingerprint& hash) const {
    hash.fold(registration_->hash);
    hash.fold(static_cast<std::uint64_t>(steps()));
    hash.fold(static_cast<std::uint64_t>(moves_));
    fold_fields(optimizer(), hash);
    if (registration_->compares_after(steps())) registration_->add_replica(hash);
  }
  // Returns as Registration::replica has it. False where owners hold rows, or a device all; and, but where it `settles`, where
  // rows are behind, for they are behind on each rank as it has read them.
  bool replica(std::uint64_t& sum, bool settles) {
    if constexpr (Space::host_readable) {
      if (shards() || (Rows::settles && !settles)) return false;
      sum = rows_.checksum();
      return true;
    } else {
      return false;
    }
  }
  // One line about the next update, for ranks that differ in something: its number, the optimizer and its settings.
  std::string update_text() const {
    return joined({"update ", steps() + 1, " by ", optimizer_name<O>(), settings_text(optimizer())});
  }

  // This rank's rows, all up to date. Here and below: the functions of TableRows, with the variable's own way to average. Keys
  // are those of the placement, or, where every rank has all rows, numbers of rows (`rows_of`).
  RowsView<T> local() {
    rows_.may_be_given();
    return rows_.settled();
  }
  // Whether steps pass rows by that are to be brought up to date before they are read.
  static constexpr bool touches = Rows::settles;
  // Returns how many steps this rank's rows have taken so far that had passed them by, if they are in memory of the host.
  Replays replays() const { return rows_.replays(); }
  // Brings rows up to date that a pull or an update is about to read.
  template <class Keys>
  void touch(Keys const& keys) {
    rows_.touch(keys);
  }
  // Writes the rows of `keys`, which were touched, to `out`, packed: what the owner sends to those who pull them.
  // Of scalar_type, or as they are kept.
  template <class E>
  void gather(std::span<IndexType const> keys, E* out) const {
    rows_.gather(keys, out);
  }
  // Where ranks that share memory read the rows themselves. Valid while no update or move is under way.
  auto lent() const { return rows_.lent(); }
  // Divides sums of rows in place: by `ranks` for the mean, or each by the number of indices that named its row. Called once,
  // by the leader of the update.
  void average(ReducedRows<IndexType, scalar_type, Space> const& reduced, int ranks) {
    if (reduce_ == Reduce::mean && ranks > 1)
      rows_.divide(reduced.rows, most_of(reduced.keys), static_cast<scalar_type>(ranks));
    if (counted()) rows_.divide_each(reduced.rows, {reduced.counts, most_of(reduced.keys)});
  }
  // By what `apply` may scale sums in place of `average`, to the same bits: 1 / ranks, where that is exact; 0 where it must not.
  double average_by_scale(int ranks) const {
    if (!Space::host_readable || counted()) return 0;
    if (reduce_ != Reduce::mean || ranks < 2) return 1;
    return (ranks & (ranks - 1)) == 0 ? 1.0 / ranks : 0;
  }
  // The last that may throw before an update is committed: notes the optimizer's settings.
  void reserve_update() { rows_.reserve_update(); }
  // Moves the rows of `keys`, each once, by averaged gradients, packed, times `scale`.
  template <class Keys>
  void apply(Keys const& keys, scalar_type const* gradients, scalar_type scale) noexcept(Space::host_readable) {
    rows_.apply(keys, gradients, scale);
  }
  // On a device: moves rows by sums that are not there yet, of `addends` by `groups`, averaged on the way. `reduced` has the
  // counts.
  void apply_runs(ReducedRows<IndexType, scalar_type, Space> const& reduced, RowsView<scalar_type const> addends,
                  Groups<IndexType, Space>& groups, int ranks) {
    rows_.apply_runs(addends, groups, reduce_ == Reduce::mean ? static_cast<scalar_type>(ranks) : scalar_type{1},
                     counted() ? reduced.counts : nullptr);
  }
  // Moves the rows from number `first` on by gradients of all of them. `counted`: the element behind each says how many indices
  // named it.
  void apply_densified(std::int64_t first, RowsView<scalar_type const> gradients, bool counted,
                       scalar_type scale) noexcept(Space::host_readable) {
    rows_.apply_densified(first, gradients, counted, scale);
  }
  // Called last, once all rows were applied: the step counts.
  void end_update() { rows_.end_update(); }
  // On a rank that owns nothing: so many updates there were.
  void catch_up(std::int64_t steps) { rows_.catch_up(steps); }
  // Prepares for rows that will be given from outside: throws what the optimizer's `at` throws.
  void reserve_adoption() const { rows_.reserve_adoption(); }
  // Has slots follow rows that were given from outside, on all ranks. Throws likewise.
  void adopt() {
    rows_.adopt();
    ++rewritten_;
  }
  // Notes that settings are going to change between updates.
  void expect_change() { rows_.expect_change(); }
  // Calls f(i, row) with this rank's row of keys[i], of the placement, to be changed. Called on all ranks, by `assign` and its
  // kin.
  template <class F>
  void rewrite(std::span<IndexType const> keys, F&& f) {
    rows_.rewrite(shards() ? keys : rows_of(keys), f);
    ++rewritten_;
  }

  // The numbers of the rows that keys of the placement stand for. Valid until the next call.
  std::span<IndexType const> rows_of(std::span<IndexType const> keys) {
    ids_.resize_with_slack(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) ids_[i] = row_of(keys[i]);
    return ids_.span();
  }

  // The numbers of the rows that the keys of groups stand for, on a device, as `touch` and `apply` take them.
  class RowNumbers {
   public:
    // By `rows_named`, which has just written them.
    template <class Keys>
    RowNumbers(SparseState& state, Keys const& keys) : state_{&state}, keys_{keys} {}
    // In the host's memory, where the keys are brought for them.
    std::span<IndexType const> here() const { return state_->rows_of(keys_here(keys_)); }
    // In device memory, with room for as many as there may be: the first `count` are some.
    std::span<IndexType const> there(Ops const&) const { return {state_->numbers_.data(), most_of(keys_)}; }
    // How many there are, in device memory.
    std::uint32_t const* count(Ops const& ops) const { return keys_.count(ops); }

   private:
    SparseState* state_;
    typename Groups<IndexType, Space>::Keys keys_;
  };
  // The same of keys of groups, for rows of which every rank has all: in the host's memory a span, on a device RowNumbers, unless
  // only the host can tell. Valid until the next call.
  template <class Keys>
  auto rows_named(Keys const& keys) {
    if constexpr (Space::host_readable || !placed_there) {
      return rows_of(keys_here(keys));
    } else {
      numbers_.resize_with_slack(most_of(keys));
      ops().rows_of_keys(keys.there(ops()).data(), most_of(keys), keys.count(ops()), placement_.layout(), bases_there().data(),
                         numbers_.data());
      return RowNumbers{*this, keys};
    }
  }

  // The first rows of a stack's tables in memory of the space, sent there once.
  std::span<IndexType const> firsts_there() { return firsts_there_.of(ops(), firsts_); }
  // The first keys of owners in memory of the space, sent there once for each placement.
  std::span<IndexType const> bases_there() { return bases_there_.of(ops(), placement_.bases()); }

  // A plan for a handle or an update, which counts itself among the plan's users and gives it back.
  Plan& take_plan() {
    Plan& plan = plans_.take();
    if constexpr (can_pad) padded_.keep(*this, plan);
    return plan;
  }

  // The optimizer's slot of this name beside the rows of `local`, up to date. Throws Error (invalid_argument) for one that is
  // not there or not of S.
  template <class S>
  RowsView<S> slot(std::string_view slot_name) {
    return rows_.template slot<S>(slot_name, name());
  }

  // Shows an archive all that outlives a step (core/archive.hpp). Under Auto one that reads deals the rows first, as its policy
  // and pieces say. No pull or update may be under way. What was read before an error stays: read the variable again, or give
  // it up. A session's clock is its own: where a search goes on, set `step_began`.
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
    rows_.visit(items, {rows(), shards() ? Share::part : Share::any, local_rows(), row, where});
    items.number("dropped", dropped_, Share::own);
    items.fields("seen", seen, Share::own);
    if constexpr (A::reads) rewritten_ = changed + 1 - steps() - moves_;
    if constexpr (adaptive) visit_choice(items);
    visit_policy_state(items, *this);
  }

  // What each row costs and is, in elements and bytes, for the model of `Auto` and for predictions.
  TableFacts facts() const {
    auto const kept = static_cast<double>(width()) * sizeof(T), bytes = static_cast<double>(width()) * sizeof(scalar_type);
    auto const state = static_cast<double>(Rows::Slots::row_bytes(static_cast<std::size_t>(width())));
    return {static_cast<double>(rows()),
            bytes,
            kept + state,
            static_cast<double>(sizeof(IndexType)),
            wire_share<Exchange, scalar_type>,
            detail::wire_share_of<PullWire, scalar_type>()};
  }

  // What the session's report says of the variable, with the use of it that this rank, or under Auto all ranks, know.
  Description description() const {
    TableUse use = chooser.use();
    if (!adaptive && steps() > 0) {
      use.pushed = seen.pushed / static_cast<double>(steps());
      use.pulled = seen.pulled / static_cast<double>(steps());
      use.by_host = use.by_all = use.pushed;
    }
    std::string_view in_force = Policy::name;
    auto predict = &Exchange::predict;
    if constexpr (adaptive) in_force = choices()[choice_].name, predict = choices()[choice_].predict;
    return {true,         !shards(),
            Policy::name, in_force,
            predict,      facts(),
            width(),      partitioner_.pieces ? partitioner_.pieces : placement_.owners(),
            use,          !Space::host_readable};
  }

  // Where the rows are going to be: another policy's place for them, or other pieces.
  struct Moved {
    // The number of the policy that will be in force.
    std::size_t choice;
    // With the number of pieces that will be in force.
    P partitioner;
    // The owners of rows by then.
    Placement<IndexType, P> placement;
    // Memory for this rank's rows by then, and their slots.
    typename Rows::Room room;
    // Which rows go where.
    MoveRoute<IndexType> route;
    // What is copied by that route: the rows, and each slot beside them.
    List<MovingArray> arrays;
  };
  // The beginning of a move from or to shards: makes room and a route for it; rows stay where they are, all up to date. Local,
  // called by Auto on all ranks alike. May throw std::bad_alloc. The table must be the library's own, and no update of it under
  // way.
  template <Communicator C>
  Moved begin_move(Topology<C> const& topology, std::size_t choice, P const& partitioner) {
    Placement<IndexType, P> placement{partitioner, rows(), placement_.owners()};
    bool const to_shards = choices()[choice].sharded;
    std::int64_t const there = to_shards ? placement.local_rows(owner_) : rows();
    Moved moved{choice, partitioner, std::move(placement), rows_.room_for(there), {}, {}};
    moved.route = !shards()   ? route_to_own(topology, moved.placement)
                  : to_shards ? route_between(topology, placement_, moved.placement)
                              : route_to_all<C, IndexType, P>(topology, placement_);
    rows_.each_array(moved.room, [&](std::byte const* from, std::byte* to, std::size_t row_bytes) {
      moved.arrays.push_back({from, to, row_bytes});
    });
    return moved;
  }
  // The end of a move, after every row has arrived in the new room. Plans of earlier pulls stay usable: they name their rows by
  // number from here on.
  void end_move(Moved&& moved, bool other_placement) {
    if (other_placement) plans_.retire([&](IndexType key) { return row_of(key); });
    choice_ = moved.choice;
    partitioner_ = moved.partitioner;
    placement_ = std::move(moved.placement);
    bases_there_.renew();
    rows_.enter(std::move(moved.room), directory());
    ++moves_;
  }
  // A change among policies that keep all rows on every rank, for which no row moves.
  void change_choice(std::size_t choice) {
    choice_ = choice;
    ++moves_;
  }

  // What the policy keeps of the variable, from step to step; empty for most.
  [[no_unique_address]] typename detail::memory_of<Exchange, SparseState>::type policy_state;
  // The rows of this step's updates: collected and merged by the ways, empty between steps. Of a densified gradient only `rows` is
  // set: the part of this rank.
  Merging<ReducedRows<IndexType, scalar_type, Space>> merging;
  // Under Auto: knows how the table is used, and which policy that calls for.
  Chooser chooser;
  // How this rank has used the table since the last step of the variable.
  Chooser::Seen seen;
  // The search for a number of pieces; null while none is on.
  Owned<PieceSearch> search;
  // How many words this table has told in the step at hand, until its last update has read them: a search may end in between.
  std::size_t told_words = 0;
  // When the last step of the variable came to its commit, applied or not, in seconds of the session's clock; for the search.
  double step_began = 0;

 private:
  // From keys as `touch` takes them to this rank's rows: under shards the owner's first key is row 0; else keys are rows
  // already.
  Directory<IndexType> directory() const {
    return shards() && owner_ >= 0 ? Directory<IndexType>{placement_.base(owner_)} : Directory<IndexType>{};
  }
  // The rows' memory as another policy or number of pieces has it, with nothing in it yet.
  void deal(std::size_t choice, P const& partitioner) {
    if (choice == choice_ && partitioner.pieces == partitioner_.pieces) return;
    if (choice >= choices().size())
      throw item_error(name(), "choice", joined({"there is no policy number ", choice, " to choose"}));
    Placement<IndexType, P> placement{partitioner, rows(), placement_.owners()};
    auto room = rows_.room_for(choices()[choice].sharded ? placement.local_rows(owner_) : rows());
    end_move({choice, partitioner, std::move(placement), std::move(room), {}, {}}, true);
  }
  // Shows what Auto knows of the table, and the search, where one is on.
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

  // The number in the table of the row of a key.
  IndexType row_of(IndexType key) const { return static_cast<IndexType>(placement_.row(key)); }

  RegistrationPtr registration_;
  int owner_;
  Reduce reduce_;
  BadIds bad_ids_;
  std::uint64_t dropped_ = 0;
  std::size_t choice_ = 0;                   // under Auto: of the policies that are chosen from
  std::int64_t moves_ = 0;                   // archives keep it, and give an earlier one back
  std::int64_t rewritten_ = 0, undone_ = 0;  // the rest of `changes` and `moves`, so that they grow
  P partitioner_;
  Placement<IndexType, P> placement_;
  Rows rows_;
  PlanPool<Plan> plans_;
  // The result of `rows_of`, and of `rows_named` on a device, which is shown where owners begin.
  Buffer<IndexType> ids_;
  Buffer<IndexType, Space> numbers_;
  Shown<IndexType, Space> bases_there_, firsts_there_;
  [[no_unique_address]] PaddedBatches<Space> padded_;
  List<IndexType> firsts_;  // of a stack's tables; empty for one table
};

}  // namespace parallax
