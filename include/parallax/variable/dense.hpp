// A dense variable: the user's memory, the optimizer's state, and what one step does to it.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "parallax/core/algorithm.hpp"
#include "parallax/core/checksum.hpp"
#include "parallax/core/kind.hpp"
#include "parallax/policy/exchange.hpp"
#include "parallax/variable/binding.hpp"
#include "parallax/variable/merging.hpp"
#include "parallax/variable/registration.hpp"
#include "parallax/variable/slots.hpp"

namespace parallax {

// What a rank holds of a dense variable. Refers to the user's memory; owns the optimizer's slots, of all elements where the
// policy replicates, of the owner's part where it shards. All functions are local.
template <class T, class Policy, Optimizer O, MemorySpace Space>
class DenseState : public Counted {
  using Ops = RowOps<Space>;

 public:
  using scalar_type = T;
  using kind = Dense;
  using optimizer_type = O;
  using space = Space;
  using policy = Policy;
  using Exchange = typename Policy::template exchange<Dense>;
  static constexpr bool sharded = Exchange::sharded;
  // What the optimizer's rule looks at before it moves: nothing but the element, or sums over the whole tensor, so many.
  static constexpr bool by_element = parallax::unit<O> == Unit::element, measures = parallax::unit<O> == Unit::tensor;
  static constexpr std::size_t measured_sums = measure_count<O, T>;

  // `row`: elements of a row, which divide the variable.
  DenseState(Ops const& ops, RegistrationPtr registration, std::span<T> values, std::size_t row, int owner, int owners,
             O const& optimizer, Reduce reduce)
      : ops_{ops},
        registration_{std::move(registration)},
        values_{values},
        unit_{parallax::unit<O> == Unit::row ? std::max<std::size_t>(row, 1) : 1},
        begin_{sharded && owner >= 0 ? part_begin(values.size() / unit_, owner, owners) * unit_ : 0},
        end_{sharded ? (owner >= 0 ? part_begin(values.size() / unit_, owner + 1, owners) * unit_ : 0) : values.size()},
        reduce_{reduce},
        optimizer_{optimizer},
        slots_{ops, optimizer, (end_ - begin_) / unit_, unit_} {
    registration_->attach(*this);
  }
  ~DenseState() { registration_->detach(); }

  Ops const& ops() const { return ops_; }
  RegistrationPtr const& registration() const { return registration_; }
  std::string const& name() const { return registration_->name; }
  std::span<T> values() const { return values_; }
  std::size_t size() const { return values_.size(); }
  std::size_t unit() const { return unit_; }  // parts of it are whole multiples of this many elements
  O& optimizer() { return optimizer_; }
  O const& optimizer() const { return optimizer_; }
  Reduce reduce() const { return reduce_; }
  std::int64_t steps() const { return steps_; }
  auto const& slots() const { return slots_; }

  Description description() const {
    auto const elements = static_cast<double>(size());
    double const row = static_cast<double>(OptimizerState<T, O, Space>::row_bytes(unit_)) / static_cast<double>(unit_);
    return {false, !sharded, Policy::name, Policy::name,         &Exchange::predict, {elements, sizeof(T), sizeof(T) + row, 0},
            1,     0,        {},           !Space::host_readable};
  }

  // What the ranks compare before an update: which variable, at which of its steps, with which optimizer settings.
  void add_update(Fingerprint& hash) const {
    hash.fold(registration_->hash);
    hash.fold(static_cast<std::uint64_t>(steps_));
    fold_fields(optimizer_, hash);
    if (steps_ == 0)
      if (std::uint64_t sum; first_values(sum)) hash.fold(sum);
  }
  // The checksum of a replica in memory of the host that was never updated, where its session compares replicas.
  bool first_values(std::uint64_t& sum) const {
    if (sharded || !Space::host_readable || steps_ > 0 || !registration_->replica_is_compared()) return false;
    sum = detail::checksum(values_.data(), values_.size_bytes());
    return true;
  }
  std::string update_text() const {
    return joined({"update ", steps_ + 1, " by ", optimizer_name<O>(), settings_text(optimizer_)});
  }

  // What a sum over `ranks` is divided by. A dense gradient is named once by every rank, so that mean_by_count is the mean.
  T divisor(int ranks) const { return reduce_ == Reduce::sum ? T{1} : static_cast<T>(ranks); }
  void average(std::span<T> sum, int ranks) const {
    if (T const by = divisor(ranks); by != T{1}) ops_.scale_down(sum.data(), static_cast<std::int64_t>(sum.size()), by);
  }

  // The rule of this update, and it applied to elements [first, first + count): whole rows where the optimizer measures rows.
  // Where it measures the tensor, all of it is measured first, part by part, and `finish` takes the rule made of all sums.
  auto rule() const { return optimizer_.at(steps_ + 1); }
  template <class Rule>
  void apply(std::size_t first, T const* gradients, std::size_t count, T scale,
             Rule const& rule) noexcept(Space::host_readable) {
    slots_.apply(values_.data() + first, gradients, count, first - begin_, scale, rule);
  }
  // The same of sums that nobody has divided yet.
  template <class Rule>
  void apply_sums(std::size_t first, T const* sums, std::size_t count, T divisor, T scale,
                  Rule const& rule) noexcept(Space::host_readable) {
    slots_.apply(values_.data() + first, sums, count, first - begin_, Averaged<T>{divisor, scale}, rule);
  }
  void measure(std::size_t first, T const* gradients, std::size_t count, T scale, double* out) noexcept(Space::host_readable) {
    slots_.measure(values_.data() + first, gradients, count, first - begin_, scale, rule(), out);
  }
  template <class Rule>
  void finish(std::size_t first, T const* gradients, std::size_t count, T scale,
              Rule const& rule) noexcept(Space::host_readable) {
    slots_.finish(values_.data() + first, gradients, count, first - begin_, scale, rule);
  }
  void end_update() { ++steps_; }

  // The optimizer's slot of this name, of elements [first_owned(), …), or of the rows there.
  template <class S>
  std::span<S> slot(std::string_view slot_name) {
    RowsView<S> const rows = slots_.template slot<S>(slot_name, name());
    return {rows.data, static_cast<std::size_t>(rows.rows * rows.width)};
  }
  std::size_t first_owned() const { return begin_; }

  // Shows an archive all that outlives a step (core/archive.hpp). No update may be under way. What was read before an error
  // stays: read the variable again, or give it up.
  template <Archive A>
  void visit(A& archive) {
    Items<A> items{archive, name()};
    items.same("optimizer.name", optimizer_name<O>());
    items.number("steps", steps_);
    items.fields("optimizer", optimizer_);
    auto const rows = static_cast<std::int64_t>(size() / unit_), width = static_cast<std::int64_t>(unit_);
    auto const first = static_cast<std::int64_t>(begin_ / unit_), count = static_cast<std::int64_t>((end_ - begin_) / unit_);
    visit_rows(items, ops_, "values", values_.data(), width, {rows, Share::any, rows, [](std::int64_t i) { return i; }});
    auto const row = [&](std::int64_t i) { return first + i; };
    slots_.visit(items, {rows, sharded ? Share::part : Share::any, count, row});
    visit_policy_state(items, *this);
  }

  Merging<std::span<T>> merging;                                                              // owned parts of this step's sums
  [[no_unique_address]] typename detail::memory_of<Exchange, DenseState>::type policy_state;  // the policy's, from step to step

 private:
  [[no_unique_address]] Ops ops_;
  RegistrationPtr registration_;
  std::span<T> values_;
  std::size_t unit_, begin_, end_;
  Reduce reduce_;
  O optimizer_;
  std::int64_t steps_ = 0;
  OptimizerState<T, O, Space> slots_;
};

}  // namespace parallax
