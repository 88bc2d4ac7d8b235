// The owner's side of a table: a rank's rows and the optimizer's state beside them, read and updated by key. Each SparseState
// has one, and calls all of it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/checksum.hpp"
#include "parallax/detail/core/short_float.hpp"
#include "parallax/detail/core/view.hpp"
#include "parallax/detail/kernel/groups.hpp"
#include "parallax/detail/memory/buffer.hpp"
#include "parallax/detail/variable/passed_steps.hpp"
#include "parallax/detail/variable/replaying.hpp"
#include "parallax/detail/variable/slots.hpp"
#include "parallax/optimizer/optimizer.hpp"

namespace parallax::inline v0_2 {

// `rows` rows of `width` elements in memory of the space, owned or borrowed, and the steps taken with them. The directory maps
// a key to its local row. A step: reserve_update, then apply (or apply_runs, or apply_densified for all parts), then
// end_update. Rows moved by exact semantics without a gradient are settled, step by step, before they are next read or updated.
// Rows of a type of 16 bits are widened to be read or moved, and rounded after every step that moves them: everything else is
// of the wide type. All functions are local. On a device they put work in the queue of `ops`.
template <class T, class Index, Optimizer O, MemorySpace Space>
class TableRows : public OptimizerSteps<computed_type<T>, O> {
  using Steps = OptimizerSteps<computed_type<T>, O>;
  using Steps::optimizer_, Steps::change_, Steps::given_, Steps::steps_;
  // Empty stand-in for PassedSteps, as NeverReplays for Replaying: rows that rest without a gradient are never behind.
  struct NonePassed {
    using Launched = void;
    NonePassed(RowOps<Space> const&, std::size_t, O const&) {}
  };
  struct NeverReplays {};
  using Passed = std::conditional_t<untouched<O> == Untouched::moves, PassedSteps<O, Space>, NonePassed>;
  using Launched = typename Passed::Launched;

 public:
  // The type of gradients, slots, and rows that were read.
  using Wide = computed_type<T>;
  // True if rows are kept in fewer bits than this, and widened here: kernels of a device do so themselves.
  static constexpr bool is_narrow = is_short_float<T> && Space::host_readable;
  // The operations on rows, of the space.
  using Ops = RowOps<Space>;
  // The optimizer's state beside the rows.
  using Slots = OptimizerState<Wide, O, Space>;
  // True if rows are settled at all: the optimizer moves rows without a gradient.
  static constexpr bool settles = untouched<O> == Untouched::moves;
  // A flag: slots follow values from outside.
  static constexpr bool follows = adopts<O, Wide>;
  // True if a device settles them.
  static constexpr bool settles_there = settles && !Space::host_readable;

  // Makes the slots; `allocate` or `borrow` brings the rows' memory. Copies `optimizer`. May throw std::bad_alloc.
  TableRows(Ops const& ops, Directory<Index> directory, std::int64_t rows, std::int64_t width, O const& optimizer)
      : Steps{optimizer, false},
        ops_{ops},
        directory_{directory},
        table_{nullptr, rows, width},
        slots_{ops, optimizer, static_cast<std::size_t>(rows), static_cast<std::size_t>(width)},
        passed_{ops, static_cast<std::size_t>(rows), optimizer},
        zeros_(settles && Space::host_readable ? static_cast<std::size_t>(width) : 0),
        wide_(is_narrow ? static_cast<std::size_t>(width * wide_rows) : 0) {
    zeros_.fill(Wide{});
  }

  // Sets the place, which outlives this, of the listener to long work: the one that stands there by then, or null for nobody.
  void tells([[maybe_unused]] LongWork* const& whom) {
    if constexpr (settles && !settles_there) replaying_.tells(whom);
  }
  // Allocates the rows' own memory. `fill(row, T* out)` writes the first values of local row `row` to memory of the host, and
  // is called once for each. May throw std::bad_alloc.
  template <class Fill>
  void allocate(Fill const& fill) {
    owned_.resize(elements(local_rows()));
    table_.data = owned_.data();
    if constexpr (Space::host_readable) {
      for (std::int64_t row = 0; row < local_rows(); ++row) fill(row, table_.row(row));
    } else {
      std::int64_t const at_once = std::max<std::int64_t>(1, (std::int64_t{1} << 20) / std::max<std::int64_t>(width(), 1));
      Buffer<T> filled{elements(std::min(at_once, local_rows()))};
      for (std::int64_t first = 0; first < local_rows(); first += at_once) {
        std::int64_t const count = std::min(at_once, local_rows() - first);
        for (std::int64_t i = 0; i < count; ++i) fill(first + i, filled.data() + i * width());
        ops_.from_host(table_.row(first), filled.data(), elements(count));
      }
    }
  }
  // Takes the user's memory for the rows: local_rows() x width() elements, row-major, with values in it. It outlives the state.
  void borrow(T* memory) {
    table_.data = memory;
    given_ = true;
  }

  // Returns the operations on rows, as given to the constructor.
  Ops const& ops() const { return ops_; }
  // Returns the directory from keys to local rows.
  Directory<Index> directory() const { return directory_; }
  // Returns the number of rows here.
  std::int64_t local_rows() const { return table_.rows; }
  // Returns the elements of a row.
  std::int64_t width() const { return table_.width; }
  // Returns the rule of the next update; if a device settles rows, with a graph's other arguments. Throws the errors of the
  // optimizer's `at`.
  auto next_rule() const {
    if constexpr (settles_there) return passed_.launched(steps_ + 1, Steps::next_rule());
    else return Steps::next_rule();
  }
  // Returns the slots beside the rows as they lie, some perhaps of rows that are not settled. Valid as long as this.
  Slots const& optimizer_state() const { return slots_; }

  // Returns all rows as of the last update; on a device for work put in the queue from now on. Valid until `enter`.
  RowsView<T> settled() {
    if constexpr (settles_there) settle_all(steps_, next_there());
    else if constexpr (settles) settle_up_to(steps_);
    return table_;
  }

  // Returns the checksum of all rows, up to date, and, once there was an update, of the slots; in memory of the host.
  std::uint64_t checksum() {
    RowsView<T> const all = steps_ > 0 ? settled() : table_;
    std::uint64_t const values = detail::checksum(all.data, elements(all.rows) * sizeof(T));
    return steps_ > 0 ? slots_.checksum(values) : values;
  }
  // Returns all rows as they lie, some perhaps as of an earlier update. Ranks that share memory read them there, once they are
  // touched, while no update or move is under way.
  RowsView<T const> stored() const { return table_; }

  // Brings the rows of `keys` up to date, as of the last update; keys may repeat. Costs the steps that passed each of them by.
  // Here and below keys are a span in the host's memory, or, but for `gather` and `rewrite`, the Keys of groups.
  template <class Keys>
  void touch([[maybe_unused]] Keys const& keys) {
    if constexpr (settles_there) {
      settle_there(keys, shown(keys), false);
    } else if constexpr (settles) {
      std::span<Index const> const here = keys_here(keys);
      settle(static_cast<std::int64_t>(here.size()),
             [&](std::int64_t i) { return directory_(here[static_cast<std::size_t>(i)]); });
    }
  }
  // Writes the row of keys[i], which was touched, to row i of `out`, packed: widened, or as it is kept. `keys` as operations in
  // the space find them.
  template <class E>
  void gather(std::span<Index const> keys, E* out) const {
    if constexpr (std::same_as<E, T>) ops_.gather_rows(RowsView<T const>{table_}, keys, directory_, out);
    else ops_.widen_rows(RowsView<T const>{table_}, keys, directory_, out);
  }

  // Calls f(i, row) with the row of keys[i], up to date, for each i: f may change the row, and its slots follow.
  template <class F>
  void rewrite(std::span<Index const> keys, F&& f) {
    touch(keys);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      std::int64_t const row = directory_(keys[i]);
      change_row(row, [&](Wide* values) { f(i, values); });
      if constexpr (follows)
        if (steps_ > 0) adopt_rows(row, 1, Steps::next_rule());
    }
    if (steps_ == 0) given_ = true;
  }
  // Has slots follow rows from outside: at once or, before the first update, with it. Throws the errors of `reserve_adoption`.
  // On a device: in the order of the queue.
  void adopt() {
    this->reserve_adoption();
    given_ = true;
    if (steps_ > 0) begin_update();
  }
  // Notes that rows are shown to a possible writer: the first update then has the slots follow the rows' values of its time.
  void may_be_given() {
    if (steps_ == 0) given_ = true;
  }
  // Prepares an update just before it is applied: the slots of all rows follow all values given until then.
  void begin_update() noexcept(Space::host_readable) {
    if constexpr (follows)
      if (std::exchange(given_, false)) {
        settled();
        adopt_rows(0, local_rows(), Steps::next_rule());
      }
  }

  // Returns the numbers of passed steps taken so far by rows in memory of the host; zeros if rows are never settled there.
  Replays replays() const {
    if constexpr (settles && !settles_there) return replaying_.replays();
    else return {};
  }

  // Makes the last preparation of an update that may throw: errors of the optimizer's `at` and of settings that are not finite,
  // std::bad_alloc. Notes changed settings. When many notes have gathered, settles old rows, some in each step, and drops
  // notes. No bit of any read changes by this.
  void reserve_update() {
    auto const rule = Steps::next_rule();  // errors of `at` are thrown before the commit
    detail::check_settings(optimizer_);
    if constexpr (settles) note_settings(rule);
  }
  // Prepares, as `reserve_update`, a graph with an update for capture or launch: kernels find all they want to settle rows by.
  void reserve_launch() {
    begin_update();
    if constexpr (settles_there) {
      note_settings(Steps::next_rule());
      passed_.know(ops_, steps_);
    }
  }
  // Moves the row of each keys[i], no key twice, by row i of `gradients`, packed, times `scale`.
  template <class Keys>
  void apply(Keys const& keys, Wide const* gradients, Wide scale) noexcept(Space::host_readable) {
    begin_update();
    if constexpr (Space::host_readable) touch(keys);
    if constexpr (is_narrow) {
      apply_wide(static_cast<std::int64_t>(keys.size()), scale, [&](std::int64_t i) {
        return std::pair{directory_(keys[static_cast<std::size_t>(i)]), gradients + i * width()};
      });
    } else {
      std::span<Index const> const there = shown(keys);
      if constexpr (settles_there) settle_there(keys, there, true);
      slots_.apply_rows(there, directory_, table_, gradients, scale, rule(), count_of(keys));
    }
    note_settled(keys);
  }
  // Moves the rows of `groups`, on a device, by sums of `addends` that are not there yet: each is divided by its entry of
  // `counts`, in memory of the space, or, if this is null, by `divisor`.
  void apply_runs(RowsView<Wide const> addends, Groups<Index, Space>& groups, Wide divisor, std::uint32_t const* counts) {
    begin_update();
    if constexpr (settles_there) settle_there(groups.named(), shown(groups.named()), true);
    slots_.apply_runs(addends, groups.there(ops_), directory_, divisor, counts, table_, rule());
  }
  // Moves local rows first, first + 1, … by a gradient row for each, times `scale`. With `counted` the element behind a
  // gradient row is the number of indices that named it, and rows named by none are left alone by a lazy optimizer.
  void apply_densified(std::int64_t first, RowsView<Wide const> gradients, bool counted,
                       Wide scale) noexcept(Space::host_readable) {
    begin_update();
    if constexpr (settles_there) settle_part(first, gradients.rows, steps_, next_there(), true);
    else settle(gradients.rows, [&](std::int64_t i) { return first + i; });
    bool const skips = counted && untouched<O> == Untouched::lazy;
    if constexpr (is_narrow) {
      apply_wide(gradients.rows, scale, [&](std::int64_t i) {
        Wide const* const gradient = gradients.row(i);
        return std::pair{first + i, !skips || gradient[width()] != Wide{0} ? gradient : nullptr};
      });
    } else {
      slots_.apply_spaced_rows(first, gradients, skips, table_, scale, rule());
    }
    if constexpr (settles && !settles_there)
      for (std::int64_t i = 0; i < gradients.rows; ++i) passed_.of(first + i) = steps_ + 1;
  }

  // Room for a move's other rows: the memory of TableRows, of as many rows as will be here.
  struct Room {
    // Number of these rows.
    std::int64_t rows;
    // Their elements, without values.
    Buffer<T, Space> table;
    // Their slots.
    Slots optimizer_slots;
    // The step of each row, if rows are settled.
    Buffer<std::int64_t, Space> settled;
  };
  // Settles all rows, as a move brings them as of the last update, and makes room for `rows` others. May throw std::bad_alloc,
  // and then no bit of any read has changed.
  Room room_for(std::int64_t rows) {
    settled();
    return {rows, Buffer<T, Space>{elements(rows)},
            Slots{ops_, optimizer_, static_cast<std::size_t>(rows), static_cast<std::size_t>(width())},
            Buffer<std::int64_t, Space>{settles ? static_cast<std::size_t>(rows) : 0}};
  }
  // Calls f(from, to, bytes of a row) for every array of rows to be brought, from here to `room`. The table must be owned.
  template <class F>
  void each_array(Room& room, F&& f) {
    f(reinterpret_cast<std::byte*>(owned_.data()), reinterpret_cast<std::byte*>(room.table.data()), elements(1) * sizeof(T));
    std::byte* there[std::remove_cvref_t<decltype(slots_)>::arrays + 1];
    std::byte** to = there;
    room.optimizer_slots.each_row_array([&](std::byte* memory, std::size_t) { *to++ = memory; });
    to = there;
    slots_.each_row_array([&](std::byte* memory, std::size_t bytes) { f(memory, *to++, bytes); });
  }
  // Enters the rows of `room`, with its memory, after all have been brought to the places known to `directory`.
  void enter(Room&& room, Directory<Index> directory) {
    directory_ = directory;
    owned_ = std::move(room.table);
    table_ = {owned_.data(), room.rows, width()};
    slots_ = std::move(room.optimizer_slots);
    if constexpr (settles) replaying_.begin_again(), passed_.enter(ops_, std::move(room.settled), steps_);
  }

  // Returns the slot of this name beside all rows, up to date; throws as OptimizerState::slot. Valid until `enter`.
  template <class S>
  RowsView<S> slot(std::string_view name, std::string const& variable) {
    settled();
    return slots_.template slot<S>(name, variable);
  }

  // Shows all state that outlives a step, unsettled rows as they are. `extent`: the rows' places. Throws the archive's errors.
  template <class A>
  void visit(Items<A>& items, Extent const& extent) {
    if constexpr (settles && !A::reads)  // notes needed by rows here may be gone, if many rows are old
      if (auto const from = passed_.history().shown_from(); from > passed_.history().oldest()) settle_up_to(from);
    this->visit_steps(items);
    visit_rows(items, ops_, "values", table_.data, width(), extent);
    slots_.visit(items, extent);
    if constexpr (settles) passed_.visit(items, ops_, extent, steps_);
    if constexpr (settles && A::reads) replaying_.begin_again();
  }

 private:
  // Has the slots of `count` rows, from `first` on, follow them.
  template <class Rule>
  void adopt_rows(std::int64_t first, std::int64_t count, Rule const& rule) noexcept(Space::host_readable) {
    if constexpr (is_narrow)
      for (std::int64_t row = first; row < first + count; ++row)
        change_row(row,
                   [&](Wide* values) { slots_.adopt(values, elements(1), static_cast<std::size_t>(row) * elements(1), rule); });
    else slots_.adopt(table_.row(first), elements(count), elements(first), rule);
  }
  // Returns the rule of the next update as operations take it; a captured step finds it elsewhere. Throws as `next_rule`.
  auto rule() const {
    if constexpr (settles_there) {
      auto const* const there = next_there();
      return typename Ops::template Placed<decltype(optimizer_.at(1))>{Steps::next_rule(), there ? &there->own.rule : nullptr};
    } else {
      return ops_.placed(next_rule(), *this);
    }
  }
  // Returns the place of a captured step's rule, or null without one. Only if settles_there.
  Launched const* next_there() const { return ops_.template place<Launched>(*this); }
  // Returns the elements of so many rows.
  std::size_t elements(std::int64_t rows) const { return static_cast<std::size_t>(rows) * static_cast<std::size_t>(width()); }

  // Calls f with a row of the wide type in the host's memory; its values become the values of row number `row`.
  template <class F>
  void change_row(std::int64_t row, F&& f) {
    if constexpr (is_narrow) {
      parallax::widen(table_.row(row), elements(1), wide_.data());
      f(wide_.data());
      parallax::narrow(wide_.data(), elements(1), table_.row(row));
    } else {
      f(table_.row(row));
    }
  }
  // Moves a row of the host's memory by a gradient, times `scale`.
  template <class Rule>
  void apply_row(std::int64_t row, Wide const* gradient, Wide scale, Rule const& rule) noexcept {
    change_row(row, [&](Wide* values) {
      slots_.apply(values, gradient, elements(1), static_cast<std::size_t>(row) * elements(1), scale, rule);
    });
  }

  // Moves n rows of 16 bits by the rule of the next step. `at(i)`: the row, and its gradient, or null to leave it alone. Some
  // are widened, then moved and rounded: a processor waits if words just written narrowly are read in wide vectors.
  template <class At>
  void apply_wide(std::int64_t n, Wide scale, At const& at) noexcept {
    auto const rule = next_rule();
    std::size_t const length = elements(1);
    for (std::int64_t begin = 0; begin < n; begin += wide_rows) {
      std::int64_t const end = std::min(n, begin + wide_rows), after = std::min(n, end + wide_rows);
      for (std::int64_t i = end; i < after; ++i) {
        detail::prefetch_row<detail::Access::write>(table_.row(at(i).first), width());
        slots_.ask_for(static_cast<std::size_t>(at(i).first));
      }
      for (std::int64_t i = begin; i < end; ++i) widen(table_.row(at(i).first), length, wide_row(i - begin));
      for (std::int64_t i = begin; i < end; ++i)
        if (auto const [row, gradient] = at(i); gradient) {
          slots_.apply(wide_row(i - begin), gradient, length, static_cast<std::size_t>(row) * length, scale, rule);
          narrow(wide_row(i - begin), length, table_.row(row));
        }
    }
  }
  Wide* wide_row(std::int64_t i) { return wide_.data() + i * width(); }

  // Returns keys as operations in the space find them, valid until the next call.
  template <class Keys>
  std::span<Index const> shown(Keys const& keys) {
    applied_.renew();
    if constexpr (std::convertible_to<Keys, std::span<Index const>>) return applied_.of(ops_, keys);
    else return keys.there(ops_);
  }

  template <class Rule>
  void note_settings(Rule const& rule) {
    passed_.note(steps_ + 1, change_.of(optimizer_, steps_), rule);
    if (passed_.history().oldest() < passed_.goal()) {
      if constexpr (settles_there) sweep_there();
      else replaying_.sweep(*this, steps_);
    }
  }

  // Returns the number of valid keys, if a device tells; else null.
  template <class Keys>
  std::uint32_t const* count_of([[maybe_unused]] Keys const& keys) {
    if constexpr (requires { keys.count(ops_); }) return keys.count(ops_);
    else return nullptr;
  }

  // Replays the steps that passed rows by, with a gradient of zero: of rows row_at(0) … row_at(n - 1), which may repeat, one
  // row after the other, all its steps up to the last update.
  template <class RowAt>
  void settle([[maybe_unused]] std::int64_t n, [[maybe_unused]] RowAt&& row_at) noexcept(Space::host_readable) {
    if constexpr (settles) replaying_.settle(*this, steps_, n, row_at);
  }
  // Settles all rows, up to a step, while no step is captured.
  void settle_up_to(std::int64_t last) noexcept(Space::host_readable) {
    if constexpr (settles_there) settle_all(last, nullptr);
    else replaying_.settle_all(*this, last);
  }
  // Takes a row of the host through a step that has passed it by. Called by `replaying_`.
  template <class Rule>
  void pass(std::int64_t row, Rule const& rule) noexcept {
    apply_row(row, zeros_.data(), Wide{1}, rule);
  }
  // Returns true if a row rests in a step by this rule. Called by `replaying_`.
  template <class Rule>
  bool rests(std::int64_t row, Rule const& rule) noexcept {
    if constexpr (is_narrow) {
      parallax::widen(table_.row(row), elements(1), wide_.data());
      return slots_.rests(wide_.data(), row, rule);
    } else {
      return slots_.rests(table_.row(row), row, rule);
    }
  }
  // Notes that the rows of `keys` are as of the update under way; on a device `settle_there` has done so.
  template <class Keys>
  void note_settled([[maybe_unused]] Keys const& keys) noexcept(Space::host_readable) {
    if constexpr (settles && !settles_there)
      for (Index const key : keys_here(keys)) passed_.of(directory_(key)) = steps_ + 1;
  }

  // Settles the rows of `keys` on a device; `there`: the keys in its memory. `updates`: the update under way moves them next.
  template <class Keys>
  void settle_there(Keys const& keys, std::span<Index const> there, bool updates) {
    slots_.settle_rows(there, count_of(keys), directory_, passed_.ages(ops_, 0, steps_, next_there(), updates), table_);
  }
  // Sweeps on a device. As nobody but the device knows the age of a row, each counts as one of the oldest. Not in a captured
  // step: `reserve_launch` has done it then.
  PARALLAX_COLD void sweep_there() {
    if (next_there()) return;
    std::int64_t const oldest = passed_.history().oldest(), end = replaying_.end(oldest, passed_.goal());
    std::int64_t const count =
        std::min(local_rows() - replaying_.row, std::max<std::int64_t>(Sweep::most_swept / (end - oldest), 1));
    settle_part(replaying_.row, count, end, nullptr, false);
    if ((replaying_.row += count) < local_rows()) return;
    replaying_.begin_again();
    passed_.settled_to(end);
  }
  // Settles `count` rows, from `first` on, up to step `last`; or, of a captured step, up to the one before `next`.
  void settle_part(std::int64_t first, std::int64_t count, std::int64_t last, Launched const* next, bool updates) {
    slots_.settle_all_rows(first, passed_.ages(ops_, first, last, next, updates),
                           RowsView<T>{table_.row(first), count, width()});
  }
  // Settles all rows up to step `last`, or, of a captured step, up to the one before `next`.
  void settle_all(std::int64_t last, Launched const* next) {
    settle_part(0, local_rows(), last, next, false);
    if (!next) passed_.settled_to(last);
  }

  [[no_unique_address]] Ops ops_;
  Directory<Index> directory_;
  // The library's own memory; empty if the rows are the user's.
  Buffer<T, Space> owned_;
  RowsView<T> table_;
  Slots slots_;
  // Used if rows are settled.
  [[no_unique_address]] Passed passed_;
  // The gradient of a row without one, in memory of the host.
  Buffer<Wide> zeros_;
  // Of 16 bits: the rows at hand.
  static constexpr std::int64_t wide_rows = 8;
  Buffer<Wide> wide_;
  // Keys of an update that are the host's, for a device.
  Shown<Index, Space> applied_;
  // The friend that settles rows of the host.
  friend Replaying;
  // On a device: the place of the next sweep. An empty one has an address of its own: nvcc 13 lays out no class derived from one
  // that ends in a member without.
  std::conditional_t<settles_there, Sweep, std::conditional_t<settles, Replaying, NeverReplays>> replaying_;
};

}  // namespace parallax
