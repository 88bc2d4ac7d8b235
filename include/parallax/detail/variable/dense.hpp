// A dense variable: the user's memory, the optimizer's state, and what one step does to it. `BasicVariable<Dense, ...>` owns
// the state; the ways of policies and the bound step update it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/checksum.hpp"
#include "parallax/detail/core/kind.hpp"
#include "parallax/detail/optimizer/settings_change.hpp"
#include "parallax/detail/variable/binding.hpp"
#include "parallax/detail/variable/merging.hpp"
#include "parallax/detail/variable/registration.hpp"
#include "parallax/detail/variable/slots.hpp"
#include "parallax/policy/exchange.hpp"

namespace parallax::inline v0_2 {

// What a rank holds of a dense variable. Refers to the user's memory; owns the optimizer's slots, of all elements where the
// policy replicates, of the owner's part where it shards. All functions are local.
template <class T, class Policy, Optimizer O, MemorySpace Space>
class DenseState : public Counted {
  using Ops = RowOps<Space>;

 public:
  // The type of an element.
  using scalar_type = T;
  // The same: parameters of dense variables are kept as they are computed with.
  using stored_type = T;
  // The kind, for what takes states of both.
  using kind = Dense;
  // The optimizer, as a type of its settings.
  using optimizer_type = O;
  // Where parameters, slots and gradients are.
  using space = Space;
  // The policy that the variable was made with.
  using policy = Policy;
  // All that the policy says of dense variables.
  using Exchange = typename Policy::template exchange<Dense>;
  // Whether a rank updates its part alone, so that slots are of that part.
  static constexpr bool sharded = Exchange::sharded;
  // What the optimizer's rule looks at before it moves an element.
  static constexpr bool by_element = parallax::unit<O> == Unit::element,  // nothing but the element
      measures = parallax::unit<O> == Unit::tensor;                       // sums over the whole tensor
  // How many sums that are; 0 by element.
  static constexpr std::size_t measured_sums = measure_count<O, T>;

  // By the variable's constructor. Borrows `values`, which outlive the state, and attaches itself to the registration. `row`:
  // elements of a row, which divide the variable. `owner`: this rank's number among `owners`, or -1 where it owns nothing.
  // Makes the slots, of its part or of all.
  DenseState(Ops const& ops, RegistrationPtr registration, std::span<T> values, std::size_t row, int owner, int owners,
             O const& optimizer, Reduce reduce)
      : ops_{ops},
        registration_{std::move(registration)},
        values_{values},
        unit_{parallax::unit<O> == Unit::row ? std::max<std::size_t>(row, 1) : 1},
        begin_{sharded && owner >= 0 ? part_begin(values.size() / unit_, owner, owners) * unit_ : 0},
        owners_{owners},
        end_{sharded ? (owner >= 0 ? part_begin(values.size() / unit_, owner + 1, owners) * unit_ : 0) : values.size()},
        reduce_{reduce},
        optimizer_{optimizer},
        slots_{ops, optimizer, (end_ - begin_) / unit_, unit_} {
    registration_->attach(*this);
  }
  ~DenseState() { registration_->detach(); }

  // Operations on memory of the space, in the order of this rank's queue.
  Ops const& ops() const { return ops_; }
  // By what the session and the ranks know the variable.
  RegistrationPtr const& registration() const { return registration_; }
  // The name, the same on all ranks.
  std::string const& name() const { return registration_->name; }
  // All parameters, in the user's memory.
  std::span<T> values() const { return values_; }
  // How many elements the variable has, on every rank.
  std::size_t size() const { return values_.size(); }
  // Elements that belong together: a row where the optimizer measures rows, else 1. Parts of the variable are whole multiples
  // of it.
  std::size_t unit() const { return unit_; }
  // The optimizer's settings, to be changed between steps, alike on all ranks.
  O& optimizer() { return optimizer_; }
  // The optimizer's settings.
  O const& optimizer() const { return optimizer_; }
  // How gradients of the ranks become one.
  Reduce reduce() const { return reduce_; }
  // How many updates there were so far, the same on all ranks.
  std::int64_t steps() const { return steps_; }
  // The optimizer's slots, of what this rank updates.
  auto const& optimizer_state() const { return slots_; }

  // What the session's report says of the variable: its policy, what that predicts, and the bytes of an element and of its
  // slots.
  Description description() const {
    auto const elements = static_cast<double>(size());
    double const row = static_cast<double>(OptimizerState<T, O, Space>::row_bytes(unit_)) / static_cast<double>(unit_);
    TableFacts const facts{elements, sizeof(T), sizeof(T) + row, 0, wire_share<Exchange, T>};
    return {false, !sharded, Policy::name, Policy::name, &Exchange::predict, facts, 1, 0, {}, !Space::host_readable};
  }

  // What the ranks compare before an update: which variable, at which of its steps, with which optimizer settings.
  void add_update(Fingerprint& hash) const {
    hash.fold(registration_->hash);
    hash.fold(static_cast<std::uint64_t>(steps_));
    fold_fields(optimizer_, hash);
    if (registration_->compares_after(steps_)) registration_->add_replica(hash);
  }
  // Returns as Registration::replica has it: false where owners hold parts, or a device all.
  bool replica(std::uint64_t& sum, bool) {
    if (sharded || !Space::host_readable) return false;
    sum = detail::checksum(values_.data(), values_.size_bytes());
    if (steps_ > 0) sum = slots_.checksum(sum);
    return true;
  }
  // One line about the next update, for ranks that differ in something: its number, the optimizer and its settings.
  std::string update_text() const {
    return joined({"update ", steps_ + 1, " by ", optimizer_name<O>(), settings_text(optimizer_)});
  }

  // What a sum over `ranks` is divided by. A dense gradient is named once by every rank, so that mean_by_count is the mean.
  T divisor(int ranks) const { return reduce_ == Reduce::sum ? T{1} : static_cast<T>(ranks); }
  // Divides `sum`, some elements of a sum over `ranks`, by that. Called by the way, before a transform or as the update is
  // applied.
  void average(std::span<T> sum, int ranks) const {
    if (T const by = divisor(ranks); by != T{1}) ops_.scale_down(sum.data(), static_cast<std::int64_t>(sum.size()), by);
  }

  // The rule of the next update. Throws what the optimizer's `at` throws.
  auto next_rule() const { return change_.of(optimizer_, steps_).at(steps_ + 1); }
  // The same as `apply` and its like take it, which a step that is captured finds elsewhere whenever it is launched.
  auto rule() const { return ops_.placed(next_rule(), *this); }
  // Prepares an update that is about to be applied: the slots follow all values given until then, first ones and others. `own`:
  // this rank's part.
  void begin_update(T* own) noexcept(Space::host_readable) {
    if constexpr (adopts<O, T>)
      if (std::exchange(given_, false)) slots_.adopt(own, owned(), 0, next_rule());
  }
  // Prepares an update of a part in the variable's own memory.
  void begin_update() noexcept(Space::host_readable) { begin_update(values_.data() + begin_); }
  // Local. Prepares a captured step, or the launch of a graph, before it.
  void reserve_launch() { begin_update(); }
  // Prepares for parameters that will be given from outside. Throws what the optimizer's `at` throws.
  void reserve_adoption() const {
    if constexpr (adopts<O, T>)
      if (steps_ > 0) static_cast<void>(next_rule()), detail::check_settings(optimizer_);
  }
  // Has the slots of this rank's part follow parameters that were given from outside: at once or, before the first update, with
  // that. Throws as above.
  void adopt() {
    reserve_adoption();
    given_ = true;
    if (steps_ > 0) begin_update();
  }
  // Notes that settings are going to change between updates.
  void expect_change() { change_.expect(); }

  // Makes the last preparation of an update that may throw. Throws what the optimizer's `at` throws, and for a setting that is
  // not finite.
  void reserve_update() const {
    static_cast<void>(rule());
    detail::check_settings(optimizer_);
  }

  // Applies the rule to elements [first, first + count), which this rank updates: whole rows where the optimizer measures rows.
  // `gradients`: averaged, `count` of them, times `scale` each. Called by the way, once for each part that has arrived, after
  // the commit.
  template <class Rule>
  void apply(std::size_t first, T const* gradients, std::size_t count, T scale,
             Rule const& rule) noexcept(Space::host_readable) {
    slots_.apply(values_.data() + first, gradients, count, first - begin_, scale, rule);
  }
  // The same of sums that nobody has divided yet: each is divided by `divisor` and then multiplied by `scale`. Only of rules by
  // element.
  template <class Rule>
  void apply_sums(std::size_t first, T const* sums, std::size_t count, T divisor, T scale,
                  Rule const& rule) noexcept(Space::host_readable) {
    slots_.apply(values_.data() + first, sums, count, first - begin_, Averaged<T>{divisor, scale}, rule);
  }
  // Where the optimizer measures the tensor, the first of two passes: adds up what the rule measures of these elements and
  // writes measured_sums numbers to `out`. All of the tensor is measured, part by part, before `finish` is called.
  void measure(std::size_t first, T const* gradients, std::size_t count, T scale, double* out) noexcept(Space::host_readable) {
    slots_.measure(values_.data() + first, gradients, count, first - begin_, scale, rule(), out);
  }
  // The second pass: moves these elements by `rule`, which was made of the sums of all parts.
  template <class Rule>
  void finish(std::size_t first, T const* gradients, std::size_t count, T scale,
              Rule const& rule) noexcept(Space::host_readable) {
    slots_.finish(values_.data() + first, gradients, count, first - begin_, scale, rule);
  }
  // Where an owner keeps its part beside the variable's memory: applies the rule to `values`, which are elements
  // [first, first + count).
  template <class Rule>
  void apply_to(T* values, std::size_t first, T const* gradients, std::size_t count, T scale,
                Rule const& rule) noexcept(Space::host_readable) {
    slots_.apply(values, gradients, count, first - begin_, scale, rule);
  }
  // Called last, once all parts were applied: the step counts.
  void end_update() {
    change_.updated(optimizer_);
    ++steps_;
  }
  // An update was made by a graph.
  void replayed() { end_update(); }
  // On a rank that had no part in them: so many updates there were.
  void catch_up(std::int64_t steps) {
    if (steps > steps_) change_.updated(optimizer_);
    steps_ = steps;
  }

  // The optimizer's slot of this name, of elements [first_owned(), …), or of the rows there.
  template <class S>
  std::span<S> slot(std::string_view slot_name) {
    RowsView<S> const rows = slots_.template slot<S>(slot_name, name());
    return {rows.data, static_cast<std::size_t>(rows.rows * rows.width)};
  }
  // The first element that this rank updates: 0 unless the policy shards.
  std::size_t first_owned() const { return begin_; }
  // How many elements it updates.
  std::size_t owned() const { return end_ - begin_; }
  // Where the policy shards, the first element of an owner's part; of the number of owners, the end.
  std::size_t begin_of(int owner) const { return part_begin(values_.size() / unit_, owner, owners_) * unit_; }

  // Shows an archive all that outlives a step (core/archive.hpp). No update may be under way. What was read before an error
  // stays: read the variable again, or give it up.
  template <Archive A>
  void visit(A& archive) {
    Items<A> items{archive, name()};
    items.same("optimizer.name", optimizer_name<O>());
    items.number("steps", steps_);
    items.fields("optimizer", optimizer_);
    change_.visit(items, optimizer_, steps_);
    if (A::reads && steps_ > 0) given_ = false;
    auto const rows = static_cast<std::int64_t>(size() / unit_), width = static_cast<std::int64_t>(unit_);
    auto const first = static_cast<std::int64_t>(begin_ / unit_), count = static_cast<std::int64_t>((end_ - begin_) / unit_);
    visit_rows(items, ops_, "values", values_.data(), width, {rows, Share::any, rows, [](std::int64_t i) { return i; }});
    auto const row = [&](std::int64_t i) { return first + i; };
    auto const where = [&](std::int64_t number) {
      auto const begin = [&](int owner) {
        return static_cast<std::int64_t>(part_begin(static_cast<std::size_t>(rows), owner, owners_));
      };
      int owner = 0;
      for (int end = owners_; end - owner > 1;) (begin((owner + end) / 2) <= number ? owner : end) = (owner + end) / 2;
      return RowPlace{owner, number - begin(owner)};
    };
    slots_.visit(items, {rows, sharded ? Share::part : Share::any, count, row, where});
    visit_policy_state(items, *this);
  }

  // The sums of this step's updates, of this rank's parts: collected and merged by the ways, empty between steps.
  Merging<std::span<T>> merging;
  // What the policy keeps from step to step, as a residual of its wire; empty for most.
  [[no_unique_address]] typename detail::memory_of<Exchange, DenseState>::type policy_state;

 private:
  [[no_unique_address]] Ops ops_;
  // Shared with the session.
  RegistrationPtr registration_;
  std::span<T> values_;
  // Elements of a row where rows are measured; and the first element of this rank's part, and the end of it.
  std::size_t unit_, begin_;
  int owners_;
  std::size_t end_;
  Reduce reduce_;
  O optimizer_;
  [[no_unique_address]] SettingsChange<O> change_;
  // True if there are values that the slots do not follow yet.
  bool given_ = true;
  std::int64_t steps_ = 0;
  // Of elements [begin_, end_).
  OptimizerState<T, O, Space> slots_;
};

}  // namespace parallax
