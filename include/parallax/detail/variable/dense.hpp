// A dense variable: the user's memory, the optimizer's state, and the work of one step on both. `BasicVariable<Dense, ...>`
// owns the state; the ways of policies and the bound step update it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/checksum.hpp"
#include "parallax/detail/core/kind.hpp"
#include "parallax/detail/policy/merging.hpp"
#include "parallax/detail/variable/registration.hpp"
#include "parallax/detail/variable/slots.hpp"
#include "parallax/policy/exchange.hpp"

namespace parallax::inline v0_2 {

// A rank's state of a dense variable: its ways' DenseVariableState (policy/state.hpp). Refers to the user's memory; owns the
// optimizer's slots: of all elements or, if the policy shards, of the owner's part. All is local; views last as long as it.
template <class T, class Policy, Optimizer O, MemorySpace Space>
class DenseState : public Counted, public OptimizerSteps<T, O> {
  using Ops = RowOps<Space>;
  using Steps = OptimizerSteps<T, O>;
  using Steps::optimizer_, Steps::given_, Steps::steps_;

 public:
  // The type of an element.
  using scalar_type = T;
  // Also the type of an element: parameters of dense variables are kept as they are computed with.
  using stored_type = T;
  // The kind, for code over states of both.
  using kind = Dense;
  // The optimizer, as a type of its settings.
  using optimizer_type = O;
  // The memory space of parameters, slots and gradients.
  using space = Space;
  // The policy of the variable since its construction.
  using policy = Policy;
  // The policy's exchange for dense variables.
  using Exchange = typename Policy::template exchange<Dense>;
  // True if a rank updates its part alone, so that slots belong to this part only.
  static constexpr bool sharded = Exchange::sharded;
  // The unit of the optimizer's rule: its view before it moves an element.
  static constexpr bool by_element = parallax::unit<O> == Unit::element,  // nothing but the element
      measures = parallax::unit<O> == Unit::tensor;                       // sums over the whole tensor
  // Number of these sums; 0 by element.
  static constexpr std::size_t measured_sums = measure_count<O, T>;

  // Borrows `values`, which outlive the state, for the variable's constructor, and attaches the state to the registration until
  // its end. `row`: elements of a row; it divides the variable. `owner`: this rank's number among `owners`, or -1 if it owns
  // nothing. Makes the slots, of its part or of all; may throw std::bad_alloc.
  DenseState(Ops const& ops, RegistrationPtr registration, std::span<T> values, std::size_t row, int owner, int owners,
             O const& optimizer, Reduce reduce)
      : Steps{optimizer, true},
        ops_{ops},
        registration_{std::move(registration)},
        values_{values},
        unit_{parallax::unit<O> == Unit::row ? std::max<std::size_t>(row, 1) : 1},
        owners_{owners},
        begin_{sharded && owner >= 0 ? begin_of(owner) : 0},
        end_{sharded ? (owner >= 0 ? begin_of(owner + 1) : 0) : size()},
        reduce_{reduce},
        slots_{ops, optimizer, (end_ - begin_) / unit_, unit_} {
    registration_->attach(*this);
  }
  ~DenseState() {
    static_assert(DenseVariableState<DenseState>, "the ways of policies ask for these members");
    registration_->detach();
  }

  // Returns the operations on memory of the space, in the order of this rank's queue.
  Ops const& ops() const { return ops_; }
  // Returns the registration: the variable as the session and the ranks know it.
  RegistrationPtr const& registration() const { return registration_; }
  // Returns the name, the same on all ranks.
  std::string const& name() const { return registration_->name; }
  // Returns all parameters, in the user's memory.
  std::span<T> values() const { return values_; }
  // Returns the number of the variable's elements, on every rank.
  std::size_t size() const { return values_.size(); }
  // Returns the number of elements that belong together: of a row if the optimizer measures rows, else 1. Parts of the variable
  // are whole multiples of this unit.
  std::size_t unit() const { return unit_; }
  // Returns the reduction of the ranks' gradients.
  Reduce reduce() const { return reduce_; }
  // Returns the optimizer's slots, of this rank's elements.
  auto const& optimizer_state() const { return slots_; }

  // Returns the variable's entry in the session's report: its policy, the policy's prediction, and the bytes of an element and
  // of its slots.
  Description description() const {
    auto const elements = static_cast<double>(size());
    double const row = static_cast<double>(OptimizerState<T, O, Space>::row_bytes(unit_)) / static_cast<double>(unit_);
    TableFacts const facts{elements, sizeof(T), sizeof(T) + row, 0, wire_share<Exchange, T>};
    return {false, !sharded, Policy::name, Policy::name, &Exchange::predict, facts, 1, 0, {}, !Space::host_readable};
  }

  // Adds to the ranks' comparison before an update: the variable, its step, the optimizer settings, a replica if due.
  void add_update(Fingerprint& hash) const {
    hash.fold(registration_->hash);
    hash.fold(static_cast<std::uint64_t>(steps_));
    fold_fields(optimizer_, hash);
    if (registration_->compares_after(steps_)) registration_->add_replica(hash);
  }
  // Returns true, with a replica's checksum in `sum`, as Registration::replica; false if owners hold parts, or a device all.
  bool replica(std::uint64_t& sum, bool) {
    if (sharded || !Space::host_readable) return false;
    sum = detail::checksum(values_.data(), values_.size_bytes());
    if (steps_ > 0) sum = slots_.checksum(sum);
    return true;
  }

  // Returns the divisor of a sum over `ranks`. Every rank names a dense gradient once, so mean_by_count is the mean.
  T divisor(int ranks) const { return reduce_ == Reduce::sum ? T{1} : static_cast<T>(ranks); }
  // Divides `sum`, some elements of a sum over `ranks`, in place by this divisor. Called by the way, before a transform or as
  // the update is applied.
  void average(std::span<T> sum, int ranks) const {
    if (T const by = divisor(ranks); by != T{1}) ops_.scale_down(sum.data(), static_cast<std::int64_t>(sum.size()), by);
  }

  // Returns the rule of the next update, for `apply` and its kin; a captured step finds it elsewhere. Throws as `next_rule`.
  auto rule() const { return ops_.placed(this->next_rule(), *this); }
  // Prepares an update just before it is applied: the slots follow all values given until then, first ones and others. `own`:
  // this rank's part.
  void begin_update(T* own) noexcept(Space::host_readable) {
    if constexpr (adopts<O, T>)
      if (std::exchange(given_, false)) slots_.adopt(own, owned(), 0, this->next_rule());
  }
  // Prepares an update as begin_update(own), of the part in the variable's own memory.
  void begin_update() noexcept(Space::host_readable) { begin_update(values_.data() + begin_); }
  // Prepares a captured step, or the launch of a graph, just before it.
  void reserve_launch() { begin_update(); }
  // Has the slots of this rank's part follow parameters from outside: at once or, before the first update, with it. Throws the
  // errors of `reserve_adoption`.
  void adopt() {
    this->reserve_adoption();
    given_ = true;
    if (steps_ > 0) begin_update();
  }

  // Makes the last preparation of an update that may throw. Throws the errors of the optimizer's `at`, and an Error for a
  // setting that is not finite.
  void reserve_update() const {
    static_cast<void>(rule());
    detail::check_settings(optimizer_);
  }

  // Applies the rule to elements [first, first + count) of this rank's part: whole rows if the optimizer measures rows.
  // `gradients`: averaged, `count` of them, times `scale` each. Called by the way, once for each part that has arrived, after
  // the commit.
  template <class Rule>
  void apply(std::size_t first, T const* gradients, std::size_t count, T scale,
             Rule const& rule) noexcept(Space::host_readable) {
    slots_.apply(values_.data() + first, gradients, count, first - begin_, scale, rule);
  }
  // Applies, as `apply`, a rule by element to undivided sums: each is divided by `divisor` and then multiplied by `scale`.
  template <class Rule>
  void apply_sums(std::size_t first, T const* sums, std::size_t count, T divisor, T scale,
                  Rule const& rule) noexcept(Space::host_readable) {
    slots_.apply(values_.data() + first, sums, count, first - begin_, Averaged<T>{divisor, scale}, rule);
  }
  // Makes the first of two passes, for an optimizer that measures the tensor: writes measured_sums sums, of the rule's measures
  // of elements [first, first + count), to `out`. All of the tensor is measured, part by part, before `finish` is called.
  void measure(std::size_t first, T const* gradients, std::size_t count, T scale, double* out) noexcept(Space::host_readable) {
    slots_.measure(values_.data() + first, gradients, count, first - begin_, scale, rule(), out);
  }
  // Makes the second pass: moves elements [first, first + count) by `rule`, made of the sums of all parts, `gradients` times
  // `scale`.
  template <class Rule>
  void finish(std::size_t first, T const* gradients, std::size_t count, T scale,
              Rule const& rule) noexcept(Space::host_readable) {
    slots_.finish(values_.data() + first, gradients, count, first - begin_, scale, rule);
  }
  // Applies the rule as `apply`, but to `values`, the elements [first, first + count) of an owner that keeps its part beside
  // the variable's memory.
  template <class Rule>
  void apply_to(T* values, std::size_t first, T const* gradients, std::size_t count, T scale,
                Rule const& rule) noexcept(Space::host_readable) {
    slots_.apply(values, gradients, count, first - begin_, scale, rule);
  }
  // Ends an update made by a graph.
  void replayed() { this->end_update(); }

  // Returns a slot for the owned elements, or, a row slot, for their rows. Error (invalid_argument) for another name or type.
  template <class S>
  std::span<S> slot(std::string_view slot_name) {
    RowsView<S> const rows = slots_.template slot<S>(slot_name, name());
    return {rows.data, static_cast<std::size_t>(rows.rows * rows.width)};
  }
  // Returns this rank's first element to update: 0 unless the policy shards.
  std::size_t first_owned() const { return begin_; }
  // Returns the number of this rank's elements to update.
  std::size_t owned() const { return end_ - begin_; }
  // Returns the first element of an owner's part, if the policy shards; for the number of owners, the end.
  std::size_t begin_of(int owner) const { return part_begin(values_.size() / unit_, owner, owners_) * unit_; }

  // Shows an archive all state that outlives a step (core/archive.hpp). No update may be under way. Throws the archive's
  // errors; items read before one stay: read the variable again, or give it up.
  template <Archive A>
  void visit(A& archive) {
    Items<A> items{archive, name()};
    items.same("optimizer.name", optimizer_name<O>());
    this->visit_steps(items);
    auto const rows = static_cast<std::int64_t>(size() / unit_), width = static_cast<std::int64_t>(unit_);
    auto const first = static_cast<std::int64_t>(begin_ / unit_), count = static_cast<std::int64_t>((end_ - begin_) / unit_);
    visit_rows(items, ops_, "values", values_.data(), width, {rows, Share::any, rows, [](std::int64_t i) { return i; }});
    auto const row = [&](std::int64_t i) { return first + i; };
    auto const where = [&](std::int64_t number) {
      auto const begin = [&](int owner) { return static_cast<std::int64_t>(begin_of(owner) / unit_); };
      int owner = 0;
      for (int end = owners_; end - owner > 1;) (begin((owner + end) / 2) <= number ? owner : end) = (owner + end) / 2;
      return RowPlace{owner, number - begin(owner)};
    };
    slots_.visit(items, {rows, sharded ? Share::part : Share::any, count, row, where});
    visit_policy_state(items, *this);
  }

  // The sums of this step's updates, of this rank's parts: collected and merged by the ways, empty between steps.
  Merging<std::span<T>> merging;
  // The policy's own state from step to step, such as a residual of its wire; empty for most.
  [[no_unique_address]] typename detail::memory_of<Exchange, DenseState>::type policy_state;

 private:
  [[no_unique_address]] Ops ops_;
  // Shared with the session.
  RegistrationPtr registration_;
  std::span<T> values_;
  // Elements of a row, if rows are measured.
  std::size_t unit_;
  int owners_;
  // The first element of this rank's part, and its end.
  std::size_t begin_, end_;
  Reduce reduce_;
  // Of elements [begin_, end_).
  OptimizerState<T, O, Space> slots_;
};

}  // namespace parallax
