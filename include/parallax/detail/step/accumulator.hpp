// Gradient accumulation: the gradients of several micro-batches, summed on this rank, as one update. A trainer adds to an
// Accumulator between steps, and gives `grad()` of it to a step.
#pragma once

#include <concepts>
#include <cstdint>
#include <span>

#include "parallax/detail/core/list.hpp"
#include "parallax/step/grad.hpp"

namespace parallax::inline v0_2 {

// Result of k micro-batches: `mean`, their mean, as if they were one batch, or `sum`, their sum.
enum class Micro : unsigned char { mean, sum };

// Accumulator of one variable. Owns its sums; refers to the variable's state, which must outlive it. All functions are local:
// nothing is sent before the step with `grad()`. Every rank takes it in the same step, after as many micro-batches as it likes.
// The first `add` after `grad()` begins a new sum. Steady use allocates nothing.
//   px::Accumulator sums{hidden};
//   for (Batch const& micro : batch) sums.add(gradient_of(micro));
//   session.step(sums.grad());
template <class V>
class Accumulator {
  static_assert(detail::never<V>, "parallax: an Accumulator is made of a Dense or Sparse variable");

 public:
  // Takes the arguments of an accumulator, after the assertion.
  explicit Accumulator(V const&, Micro = Micro::mean) {}
};

// Accumulator of a dense variable: one sum of the variable's size. `add` costs one pass over it, in the host's memory.
template <detail::DenseVariable V>
class Accumulator<V> {
  static_assert(V::State::space::host_readable,
                "parallax: an Accumulator sums on the host: give a device's updates to `start`");
  using T = typename V::scalar_type;

 public:
  // Local. Makes the accumulator of this variable; nothing is added yet.
  explicit Accumulator(V const& variable, Micro micro = Micro::mean) : state_{&variable.state()}, micro_{micro} {}

  // Adds a gradient of the variable's size, which is copied. Throws Error (invalid_argument) for another size.
  template <class Tensor>
  void add(Tensor const& gradient) {
    if constexpr (!FlatTensor<Tensor const>)
      static_assert(detail::never<Tensor>,
                    "parallax: a Dense variable's gradient is a tensor with contiguous elements (see tensor_traits)");
    else if constexpr (!std::same_as<typename decltype(flat_view(gradient))::value_type, T>)
      static_assert(detail::never<Tensor>, "parallax: the gradient's elements are not of the variable's scalar type");
    else add_values(flat_view(gradient));
  }
  // Returns the number of gradients since the sum began; between `grad()` and the next `add` still of the last sum.
  std::int64_t count() const { return count_; }

  // Returns the update by the sum or mean; zeros if nothing was added. It refers to the sums: valid until the next `add`.
  auto grad() {
    if (count_ == 0) sums_.assign(state_->size(), T{});
    if (!taken_ && micro_ == Micro::mean && count_ > 1)
      RowOps<HostSpace>::scale_down(sums_.data(), static_cast<std::int64_t>(sums_.size()), static_cast<T>(count_));
    taken_ = true;
    return DenseUpdate<typename V::State>{state_, std::span<T const>{sums_.data(), sums_.size()}};
  }

 private:
  // Copies the first gradient of a sum, and adds each further one: the bits are those of a sum in the order of the calls.
  void add_values(std::span<T const> values) {
    if (values.size() != state_->size())
      throw Error{Errc::invalid_argument, -1, "add", state_->name(),
                  joined({"a gradient of ", values.size(), " elements for a variable of ", state_->size()})};
    if (taken_ || count_ == 0) sums_.assign(values.begin(), values.end());
    else RowOps<HostSpace>::add_to(sums_.data(), values.data(), static_cast<std::int64_t>(values.size()));
    count_ = taken_ ? 1 : count_ + 1;
    taken_ = false;
  }

  typename V::State* state_;
  Micro micro_;
  List<T> sums_;
  std::int64_t count_ = 0;
  bool taken_ = false;
};

// Accumulator of a table: the rows of all micro-batches, with ids for the step to coalesce. Rows of a pull are first summed by
// row.
template <detail::SparseVariable V>
class Accumulator<V> {
  static_assert(V::State::space::host_readable,
                "parallax: an Accumulator sums on the host: give a device's updates to `start`");
  using State = typename V::State;
  using T = typename V::scalar_type;
  using Update = RowUpdate<State, std::int64_t>;
  using Id = std::remove_const_t<typename decltype(Update::ids)::element_type>;

 public:
  // Local. Makes the accumulator of this table; nothing is added yet.
  explicit Accumulator(V const& variable, Micro micro = Micro::mean) : state_{&variable.state()}, micro_{micro} {}

  // Adds an update by grad(handle, …) or grad(variable, ids, rows), which is copied: sums.add(grad(rows, gradient)). Throws
  // Error: invalid_argument for another number of rows than of indices, misuse for an update of another table or of an empty
  // handle.
  template <class Given>
  void add(RowUpdate<State, Given> const& update) {
    if (update.state != state_)
      throw Error{Errc::misuse, -1, "add", state_->name(),
                  update.state ? "the update is of another table" : "a handle is empty: nothing was pulled, or it was moved"};
    if (taken_) clear();
    auto const width = static_cast<std::size_t>(state_->width());
    std::size_t const ids = update.plan ? update.plan->size() : update.ids.size();
    BatchSize const size{update.plan ? update.plan->indices() : ids, ids, update.plan ? update.plan->bags.count : 0};
    OwnRows<T> own{update.rows, update.per};
    if (!size.fits(own.values, own.per, state_->width()))
      throw Error{Errc::invalid_argument, -1, "add", state_->name(),
                  size.misfit(own.values.rows, own.values.width, own.per, state_->width())};
    std::size_t const at = ids_.size();
    ids_.resize(at + ids);
    rows_.resize((at + ids) * width);
    if (update.plan) {
      for (std::size_t i = 0; i < ids; ++i) ids_[at + i] = state_->placement().row(update.plan->groups.keys_here()[i]);
      write_level(state_->ops(), *update.plan, 0, own, ArrivedRows<T, HostSpace>{}, 0, ids, rows_.data() + at * width);
    } else {
      for (std::size_t i = 0; i < ids; ++i) {
        ids_[at + i] = static_cast<Id>(update.ids[i]);
        RowOps<HostSpace>::copy_from(rows_.data() + (at + i) * width, own.values.row(static_cast<std::int64_t>(i)),
                                     state_->width());
      }
    }
    ++count_;
  }
  // Refuses anything else, by an assertion with the form of accumulated rows.
  template <class Other>
  void add(Other const&) {
    static_assert(std::same_as<Other, detail::Mistaken>,
                  "parallax: rows are accumulated as updates of the variable: grad(handle, rows) or grad(variable, ids, rows)");
  }
  // Returns the number of updates since the sum began; between `grad()` and the next `add` still of the last sum.
  std::int64_t count() const { return count_; }

  // Returns the update by the rows added; no rows if none were. It refers to them: valid until the next `add`.
  auto grad() {
    if (!taken_ && micro_ == Micro::mean && count_ > 1)
      RowOps<HostSpace>::scale_down(rows_.data(), static_cast<std::int64_t>(rows_.size()), static_cast<T>(count_));
    taken_ = true;
    RowsView<T const> const rows{rows_.data(), static_cast<std::int64_t>(ids_.size()), state_->width()};
    return Update{state_, nullptr, {ids_.data(), ids_.size()}, rows};
  }

 private:
  // Begins a new sum; the memory stays.
  void clear() {
    ids_.clear();
    rows_.clear();
    count_ = 0;
    taken_ = false;
  }

  State* state_;
  Micro micro_;
  List<Id> ids_;
  List<T> rows_;
  std::int64_t count_ = 0;
  bool taken_ = false;
};

// Accumulator of the given variable.
template <class V>
Accumulator(V const&, Micro = Micro::mean) -> Accumulator<V>;

}  // namespace parallax
