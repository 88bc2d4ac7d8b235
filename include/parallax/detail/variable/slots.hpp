// The optimizer's state beside the parameters: one array per slot, and the rule applied over elements, rows or a tensor; and its
// settings, with the steps taken by them. DenseState and TableRows each have both, for their own elements.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>

#include "parallax/detail/core/checksum.hpp"
#include "parallax/detail/kernel/host.hpp"
#include "parallax/detail/memory/buffer.hpp"
#include "parallax/detail/optimizer/settings_change.hpp"
#include "parallax/detail/variable/extent.hpp"
#include "parallax/detail/variable/resting_rows.hpp"
#include "parallax/optimizer/optimizer.hpp"

namespace parallax::inline v0_2 {

// The arrays of one list of slots, `slot_types<S...>`; the specialisation below is all of it.
template <class T, class Slots, MemorySpace Space = HostSpace>
class SlotArrays;

// Owns. Arrays of `count` entries in memory of the space, one array per slot, each filled with its entry of `initial`, a tuple,
// or with zeros.
template <class T, class... S, MemorySpace Space>
class SlotArrays<T, slot_types<S...>, Space> {
 public:
  // Allocates and fills, by `ops`. An `initial` of another length than the list is as none. Throws std::bad_alloc, or the
  // space's errors.
  template <class Initial>
  SlotArrays([[maybe_unused]] RowOps<Space> const& ops, [[maybe_unused]] Initial const& initial,
             [[maybe_unused]] std::size_t count)
      : arrays_{Buffer<detail::slot_type<S, T>, Space>{count}...} {
    [&]<std::size_t... Nth>(std::index_sequence<Nth...>) {
      if constexpr (std::tuple_size_v<Initial> == sizeof...(S))
        (ops.fill(std::get<Nth>(arrays_).data(), count, static_cast<detail::slot_type<S, T>>(std::get<Nth>(initial))), ...);
      else (ops.fill(std::get<Nth>(arrays_).data(), count, detail::slot_type<S, T>{}), ...);
    }
    (std::index_sequence_for<S...>{});
  }

  // Returns the entries of slot number Nth, in memory of the space. Of use to tests.
  template <std::size_t Nth>
  auto span() const {
    return std::get<Nth>(arrays_).span();
  }

  // Number of slots.
  static constexpr std::size_t number = sizeof...(S);
  // Bytes of one entry of each slot, together.
  static constexpr std::size_t entry_bytes = (0 + ... + sizeof(detail::slot_type<S, T>));

  // Calls f(number of the slot, pointer to its first entry) with every array, in the order of the slots.
  template <class F>
  void each_slot(F&& f) {
    std::size_t number_of = 0;
    std::apply([&](auto&... array) { (f(number_of++, array.data()), ...); }, arrays_);
  }

  // Prefetches `count` entries of every array, from entry `at` on, in memory of the host, for a write.
  [[gnu::always_inline]] void ask_for(std::size_t at, std::int64_t count) {
    [&]<std::size_t... Nth>(std::index_sequence<Nth...>) __attribute__((always_inline)) {
      (detail::prefetch_row<detail::Access::write>(std::get<Nth>(arrays_).data() + at, count), ...);
    }
    (std::index_sequence_for<S...>{});
  }

  // Calls f with a pointer to entry `at` of every array, and returns what f returns.
  template <class F>
  decltype(auto) from(std::size_t at, F&& f) {
    return std::apply([&](auto&... array) -> decltype(auto) { return f(array.data() + at...); }, arrays_);
  }

 private:
  std::tuple<Buffer<detail::slot_type<S, T>, Space>...> arrays_;
};

// Owns all state of an optimizer beside `rows` rows of `width` elements, and applies its rules to them. The steps are the
// holder's to know, who hands the rule in. All functions are local. On a device they put work in the queue of `ops`.
template <class T, Optimizer O, MemorySpace Space = HostSpace>
class OptimizerState {
  using Ops = RowOps<Space>;
  static constexpr bool on_host = Space::host_readable;

 public:
  // Allocates all slots, at their first values by `optimizer`. Throws std::bad_alloc, or the space's errors.
  OptimizerState(Ops const& ops, O const& optimizer, std::size_t rows, std::size_t width)
      : ops_{ops},
        count_{rows},
        width_{width},
        elements_{ops, initial(optimizer), rows * width},
        rows_{ops, row_initial(optimizer), rows} {}

  // Returns element slot number Nth, [rows x width], valid as long as this. Of use to tests.
  template <std::size_t Nth>
  auto span() const {
    return elements_.template span<Nth>();
  }
  // Returns row slot number Nth, one entry a row. Of use to tests.
  template <std::size_t Nth>
  auto row_span() const {
    return rows_.template span<Nth>();
  }

  // Returns the slot of this name, of S in memory of the space, by rows; of row slots the width is 1. Throws Error
  // (invalid_argument), about `variable`, for another name or type.
  template <class S>
  RowsView<S> slot(std::string_view name, std::string const& variable) {
    std::optional<RowsView<S>> found;
    std::string kept, of_type;
    auto const look = [&](std::string const& its_name, auto* memory, std::size_t width) {
      (kept += kept.empty() ? "" : ", ") += its_name;
      if (its_name != name) return;
      using Kept = std::remove_pointer_t<decltype(memory)>;
      if constexpr (std::same_as<Kept, S>)
        found.emplace(memory, static_cast<std::int64_t>(count_), static_cast<std::int64_t>(width));
      else of_type = type_text(element_type<Kept>);
    };
    elements_.each_slot([&](std::size_t i, auto* memory) { look(slot_name<O>(i), memory, width_); });
    rows_.each_slot([&](std::size_t i, auto* memory) { look(row_slot_name<O>(i), memory, 1); });
    if (found) return *found;
    throw Error{
        Errc::invalid_argument, -1, "slot", variable,
        of_type.empty()
            ? optimizer_name<O>() + " has no slot '" + std::string{name} + "'; its slots: " + (kept.empty() ? "none" : kept)
            : "slot '" + std::string{name} + "' is of " + of_type + ", not of " + type_text(element_type<S>)};
  }

  // Shows every slot, with rows that lie as `extent` says. Throws the archive's errors.
  template <class A>
  void visit(Items<A>& items, Extent const& extent) {
    elements_.each_slot([&](std::size_t i, auto* memory) {
      visit_rows(items, ops_, "slot." + slot_name<O>(i), memory, static_cast<std::int64_t>(width_), extent);
    });
    rows_.each_slot(
        [&](std::size_t i, auto* memory) { visit_rows(items, ops_, "slot." + row_slot_name<O>(i), memory, 1, extent); });
  }

  // Returns the bytes of all slots beside a row of `width` parameters.
  static constexpr std::size_t row_bytes(std::size_t width) {
    return width * SlotArrays<T, typename O::element_slots, Space>::entry_bytes +
           SlotArrays<T, row_slots<O>, Space>::entry_bytes;
  }
  // Number of arrays that lie like the table's rows, and of calls by `each_row_array`.
  static constexpr std::size_t arrays =
      SlotArrays<T, typename O::element_slots, Space>::number + SlotArrays<T, row_slots<O>, Space>::number;
  // Calls f(memory, bytes of a row) with every array that lies like the table's rows.
  template <class F>
  void each_row_array(F&& f) {
    elements_.each_slot([&](std::size_t, auto* all) { f(reinterpret_cast<std::byte*>(all), width_ * sizeof(*all)); });
    rows_.each_slot([&](std::size_t, auto* all) { f(reinterpret_cast<std::byte*>(all), sizeof(*all)); });
  }

  // Returns a checksum of `sum`, a given one, and of all slots, in memory of the host.
  std::uint64_t checksum(std::uint64_t sum) {
    Fingerprint all;
    all.fold(sum);
    each_row_array([&](std::byte const* memory, std::size_t bytes) { all.fold(detail::checksum(memory, count_ * bytes)); });
    return all.value();
  }

  // Moves elements [0, count) of `parameters`, by `gradients` times `scale`, with slots from number `first` on, by `rule`. A
  // rule that measures rows is given whole ones. `scale`: a T, Unscaled or Averaged. Linear in `count`; each element, gradient
  // and slot is read once, or twice if rows are measured.
  template <class Scale, class Rule>
  void apply(T* parameters, T const* gradients, std::size_t count, std::size_t first, Scale scale,
             Rule const& rule) noexcept(on_host) {
    if constexpr (unit<O> == Unit::element) {
      finish(parameters, gradients, count, first, scale, rule);
    } else if constexpr (!on_host) {
      if (width_ == 0) return;
      auto const rows = static_cast<std::int64_t>(count / width_), width = static_cast<std::int64_t>(width_);
      apply_spaced_rows(static_cast<std::int64_t>(first / width_), RowsView<T const>{gradients, rows, width}, false,
                        RowsView<T>{parameters - first, rows, width}, scale, rule);
    } else if (width_ > 0) {
      for (std::size_t at = 0; at < count; at += width_)
        rows_.from((first + at) / width_, [&](auto*... row_slots) {
          Measures<measure_count<O, T>> sums{};
          measure(parameters + at, gradients + at, width_, first + at, scale, rule, sums.sums);
          finish(parameters + at, gradients + at, width_, first + at, scale,
                 rule.finish(sums, static_cast<std::int64_t>(width_), *row_slots...));
        });
    }
  }
  // Makes the first half of `apply`, for a unit that is measured in parts: writes to `out` the sums of the rule's measures of
  // these elements, a double for each. May move slots.
  template <class Rule>
  void measure(T* parameters, T const* gradients, std::size_t count, std::size_t first, T scale, Rule const& rule,
               double* out) noexcept(on_host) {
    elements_.from(first, [&](auto*... slot) {
      ops_.measure_elements(static_cast<std::int64_t>(count), parameters, gradients, scale, rule, out, slot...);
    });
  }
  // Makes the second half of `apply`: moves the elements by `rule`, made of all sums (RowOps::finish_rule). Of rules by element
  // it is all.
  template <class Scale, class Rule>
  void finish(T* parameters, T const* gradients, std::size_t count, std::size_t first, Scale scale,
              Rule const& rule) noexcept(on_host) {
    elements_.from(first, [&](auto*... slot) {
      ops_.apply_elements(static_cast<std::int64_t>(count), parameters, gradients, scale, rule, slot...);
    });
  }

  // Has the rule adopt elements [0, count) of `parameters`, with slots from number `first` on: see AdoptingRule. On a device
  // they may be of fewer bits.
  template <class E, class Rule>
  PARALLAX_COLD void adopt(E* parameters, std::size_t count, std::size_t first, Rule const& rule) noexcept(on_host) {
    auto const each = [&](E* some, E const* gradients, std::size_t number, auto const& adopting) {
      elements_.from(first + static_cast<std::size_t>(some - parameters), [&](auto*... slot) {
        ops_.apply_elements(static_cast<std::int64_t>(number), some, gradients, Unscaled{}, adopting, slot...);
      });
    };
    if constexpr (on_host) {
      constexpr std::size_t part = 256;
      E const zeros[part] = {};
      for (std::size_t at = 0; at < count; at += part)
        each(parameters + at, zeros, count - at < part ? count - at : part, AdoptingRule<Rule>{rule});
    } else {
      each(parameters, parameters, count,
           typename Ops::template Placed<AdoptingRule<Rule>>{{rule}});  // no gradient is looked at
    }
  }
  // Returns true, on the host and by a rule that is `Resting`, if a row of these parameters rests in a step.
  template <class Rule>
  bool rests(T const* parameters, std::int64_t row, Rule const& rule) noexcept {
    return elements_.from(first_of(row), [&](auto*... slot) { return detail::all_rest(rule, width_, parameters, slot...); });
  }
  // Takes, on the host, the slots of a resting row through `steps` steps by rules that are like this one.
  template <class Rule>
  void fade(std::int64_t row, Rule const& rule, std::int64_t steps) noexcept {
    elements_.each_slot([&](std::size_t i, auto* memory) { detail::fade(rule, i, steps, width_, memory + first_of(row)); });
  }
  // Returns true, on the host, if the slots of a row are all 0.
  bool blank(std::int64_t row) noexcept {
    return elements_.from(first_of(row),
                          [&](auto*... slot) { return (detail::is_blank(slot, width_ * sizeof(*slot)) && ...); });
  }

  // Prefetches the entries of a row to be moved soon, in memory of the host. Inlined by force, see prefetch_row.
  [[gnu::always_inline]] void ask_for(std::size_t row) { elements_.ask_for(row * width_, static_cast<std::int64_t>(width_)); }

  // Moves rows directory(keys[i]) of the table by row i of `gradients`, packed, times `scale`; the state lies like the table.
  // Keys may not repeat. On a device the table may be of fewer bits, and only the first *count entries be keys.
  template <class Index, class E, class Rule>
  void apply_rows(std::span<Index const> keys, Directory<Index> directory, RowsView<E> table, T const* gradients, T scale,
                  Rule const& rule, [[maybe_unused]] std::uint32_t const* count = nullptr) noexcept(on_host) {
    if constexpr (!on_host) {
      with_slots(0, table.rows, [&](auto const&... places) {
        ops_.apply_rows(keys, count, directory, table, gradients, scale, rule, places...);
      });
    } else if constexpr (unit<O> == Unit::element) {
      elements_.from(0, [&](auto*... slot) {
        ops_.apply_rows(keys, directory, table, gradients, scale, rule, RowsView{slot, table.rows, table.width}...);
      });
    } else {
      for (std::size_t i = 0; i < keys.size(); ++i) {
        auto const row = directory(keys[i]);
        apply(table.row(row), gradients + i * width_, width_, static_cast<std::size_t>(row) * width_, scale, rule);
      }
    }
  }

  // Moves rows of the table, on a device, by the sums of the rows of `values` by `groups`, which are never stored, divided by
  // `counts`, of device memory, one a key, or, if those are null, by `divisor`.
  template <class Groups, class Index, class E, class Rule>
  void apply_runs(RowsView<T const> values, Groups const& groups, Directory<Index> directory, T divisor,
                  std::uint32_t const* counts, RowsView<E> table, Rule const& rule) {
    with_slots(0, table.rows, [&](auto const&... places) {
      ops_.apply_runs(values, groups, directory, divisor, counts, table, rule, places...);
    });
  }
  // Moves rows first, first + 1, … of the table by gradients that lie gradients.stride apart. With `skips` the element behind a
  // gradient is the number of indices that named its row: at 0 the row is left alone.
  template <class E, class Rule>
  void apply_spaced_rows(std::int64_t first, RowsView<T const> gradients, bool skips, RowsView<E> table, T scale,
                         Rule const& rule) noexcept(on_host) {
    if constexpr (!on_host) {
      RowsView<E> const part{table.data + first * table.width, gradients.rows, table.width};
      with_slots(first, gradients.rows,
                 [&](auto const&... places) { ops_.apply_spaced_rows(part, gradients, skips, scale, rule, places...); });
    } else {
      for (std::int64_t i = 0; i < gradients.rows; ++i) {
        T const* const gradient = gradients.row(i);
        if (skips && gradient[width_] == T{0}) continue;
        apply(table.row(first + i), gradient, width_, static_cast<std::size_t>(first + i) * width_, scale, rule);
      }
    }
  }

  // Takes rows directory(keys[i]) of the table, on a device, through the steps that have passed them by, see RowOps<CudaSpace>.
  // Only the first *count entries are keys, if it is not null.
  template <class Index, class Ages, class E>
  void settle_rows(std::span<Index const> keys, std::uint32_t const* count, Directory<Index> directory, Ages const& ages,
                   RowsView<E> table) {
    with_slots(0, table.rows, [&](auto const&... places) { ops_.settle_rows(keys, count, directory, ages, table, places...); });
  }
  // Takes rows first, first + 1, … of the table, all in `part`, through their steps as `settle_rows`; `ages` are theirs.
  template <class Ages, class E>
  void settle_all_rows(std::int64_t first, Ages const& ages, RowsView<E> part) {
    with_slots(first, part.rows, [&](auto const&... places) { ops_.settle_all_rows(ages, part, places...); });
  }

 private:
  // Calls f, on a device, with the slots of `rows` rows, from `first` on, as kernels take them: of elements, and of rows.
  template <class F>
  void with_slots(std::int64_t first, std::int64_t rows, F&& f) {
    auto const part = [&]<class Entry>(Entry* memory, std::size_t width) {
      auto const entries = static_cast<std::int64_t>(width);
      return RowsView<Entry>{memory + first * entries, rows, entries};
    };
    elements_.from(0, [&](auto*... slot) {
      rows_.from(
          0, [&](auto*... row_slots) { f(ops_.slot_tables(part(slot, width_)...), ops_.slot_tables(part(row_slots, 1)...)); });
    });
  }
  // Returns the number of a row's first entry.
  std::size_t first_of(std::int64_t row) const { return static_cast<std::size_t>(row) * width_; }
  // Returns the first values of element slots, or none if the optimizer names none.
  static auto initial(O const& optimizer) {
    if constexpr (requires { optimizer.initial(); }) return optimizer.initial();
    else return std::tuple{};
  }
  // Returns the first values of row slots, or none if the optimizer names none.
  static auto row_initial(O const& optimizer) {
    if constexpr (requires { optimizer.row_initial(); }) return optimizer.row_initial();
    else return std::tuple{};
  }

  [[no_unique_address]] Ops ops_;
  std::size_t count_, width_;
  SlotArrays<T, typename O::element_slots, Space> elements_;
  SlotArrays<T, row_slots<O>, Space> rows_;
};

// Owns. The settings of an optimizer of elements of T, and the steps taken by them: the base of a variable's state. All functions
// are local.
template <class T, Optimizer O>
class OptimizerSteps {
 public:
  // Copies the settings of the first update. `given`: slots do not follow the first values yet.
  OptimizerSteps(O const& optimizer, bool given) : optimizer_{optimizer}, given_{given} {}

  // Returns the settings, to be changed between updates, alike on all ranks: `reserve_update` notes them.
  O& optimizer() { return optimizer_; }
  // Returns the settings of the next update.
  O const& optimizer() const { return optimizer_; }
  // Returns the number of ended updates, the same on all ranks.
  std::int64_t steps() const { return steps_; }
  // Returns one line about the next update, for ranks that differ in something: its number, the optimizer and its settings.
  std::string update_text() const {
    return joined({"update ", steps_ + 1, " by ", optimizer_name<O>(), settings_text(optimizer_)});
  }
  // Returns the rule of the next update. Throws the errors of the optimizer's `at`.
  auto next_rule() const { return change_.of(optimizer_, steps_).at(steps_ + 1); }

  // Prepares for parameters from outside, before they are written. Throws the errors of the optimizer's `at`, and an Error for
  // a setting that is not finite.
  void reserve_adoption() const {
    if constexpr (adopts<O, T>)
      if (steps_ > 0) static_cast<void>(next_rule()), detail::check_settings(optimizer_);
  }
  // Notes that settings are going to change between updates.
  void expect_change() { change_.expect(); }
  // Ends the update, once all parts were applied: `steps()` grows by one.
  void end_update() {
    change_.updated(optimizer_);
    ++steps_;
  }
  // Sets `steps()`, the number of updates so far, on a rank without a part in them.
  void catch_up(std::int64_t steps) {
    if (steps > steps_) change_.updated(optimizer_);
    steps_ = steps;
  }

 protected:
  // Shows an archive the number of steps, the settings and their changes. Throws the archive's errors.
  template <class A>
  void visit_steps(Items<A>& items) {
    items.number("steps", steps_);
    items.fields("optimizer", optimizer_);
    change_.visit(items, optimizer_, steps_);
    if (A::reads && steps_ > 0) given_ = false;
  }

  // The settings, and their changes.
  O optimizer_;
  [[no_unique_address]] SettingsChange<O> change_;  // for an optimizer that asks for them
  // True if the slots do not follow some values yet.
  bool given_;
  // Number of ended updates.
  std::int64_t steps_ = 0;
};

}  // namespace parallax
