// A sparse variable: this rank's rows of the table (its shard, or all), the optimizer's state, and what one step does to it.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallax/core/algorithm.hpp"
#include "parallax/core/kind.hpp"
#include "parallax/partition/placement.hpp"
#include "parallax/partition/search.hpp"
#include "parallax/policy/choice.hpp"
#include "parallax/policy/policy.hpp"
#include "parallax/policy/row_move.hpp"
#include "parallax/policy/row_push.hpp"
#include "parallax/variable/binding.hpp"
#include "parallax/variable/merging.hpp"
#include "parallax/variable/registration.hpp"
#include "parallax/variable/slots.hpp"
#include "parallax/variable/table.hpp"

namespace parallax {

// Does not own. The reduced gradient of rows that this rank owns: ids[i] is the global row of values row i, ascending by
// owner order, each once.
template <class Index, class T>
struct RowsGradient {
  std::span<Index const> ids;
  RowsView<T> values;
};

// What a rank holds of a sparse variable: local row l of a shard is global row placement().global_row(owner, l); where the
// policy replicates, local and global rows are the same. Owns its memory unless it was bound. Between steps rows can be moved
// to other owners, or to all ranks and back. All functions are local.
template <class T, class IndexType, class Policy, Optimizer O, Partitioner P, MemorySpace Space>
class SparseState : public Counted {
  using Ops = RowOps<Space>;
  using Slots = OptimizerState<T, O, Space>;

 public:
  using scalar_type = T;
  using index_type = IndexType;
  using policy = Policy;
  using optimizer_type = O;
  using kind = Sparse;
  using space = Space;
  using Plan = RowPlan<IndexType, Space>;
  using Exchange = typename Policy::template exchange<Sparse>;
  static constexpr bool adaptive = is_adaptive<Exchange>, sharded = Exchange::sharded;
  static constexpr bool settles = untouched<O> == Untouched::moves;

  SparseState(Ops const& ops, RegistrationPtr registration, std::int64_t rows, std::int64_t width, int owner, int owners,
              O const& optimizer, P const& partitioner, Reduce reduce, BadIds bad_ids)
      : ops_{ops},
        registration_{std::move(registration)},
        width_{width},
        owner_{owner},
        reduce_{reduce},
        bad_ids_{bad_ids},
        partitioner_{partitioner},
        placement_{partitioner, rows, owners},
        local_rows_{sharded ? placement_.local_rows(owner) : rows},
        optimizer_{optimizer},
        slots_{ops, optimizer, static_cast<std::size_t>(local_rows_), static_cast<std::size_t>(width)},
        settled_(settles ? static_cast<std::size_t>(local_rows_) : 0),
        zeros_(settles ? static_cast<std::size_t>(width) : 0) {
    registration_->attach(*this);
    settled_.fill(0);
    ops_.fill(zeros_.data(), zeros_.size(), T{});
    if constexpr (settles) {
      history_.reserve(most_settings);
      history_.push_back({1, optimizer});
    }
  }

  ~SparseState() { registration_->detach(); }

  // The table's memory: owned and initialised, or the user's.
  void allocate(Initializer const& initial) {
    owned_.resize(elements());
    table_ = {owned_.data(), local_rows_, width_};
    Fingerprint name_hash;
    name_hash.add(std::string_view{name()});
    auto const fill = [&](std::int64_t local, T* out) {
      std::int64_t const row = global_row(local);
      for (std::int64_t c = 0; c < width_; ++c) out[c] = static_cast<T>(initial.value(name_hash.value(), row, c));
    };
    if constexpr (Space::host_readable) {
      for (std::int64_t local = 0; local < local_rows_; ++local) fill(local, table_.row(local));
    } else {
      std::int64_t const at_once = std::max<std::int64_t>(1, (std::int64_t{1} << 20) / std::max<std::int64_t>(width_, 1));
      Buffer<T> rows{static_cast<std::size_t>(std::min(at_once, local_rows_) * width_)};
      for (std::int64_t first = 0; first < local_rows_; first += at_once) {
        std::int64_t const count = std::min(at_once, local_rows_ - first);
        for (std::int64_t i = 0; i < count; ++i) fill(first + i, rows.data() + i * width_);
        ops_.from_host(table_.row(first), rows.data(), static_cast<std::size_t>(count * width_));
      }
    }
  }
  void borrow(T* memory) { table_ = {memory, local_rows_, width_}; }

  Ops const& ops() const { return ops_; }
  RegistrationPtr const& registration() const { return registration_; }
  std::string const& name() const { return registration_->name; }
  std::int64_t rows() const { return placement_.rows(); }
  std::int64_t width() const { return width_; }
  std::int64_t local_rows() const { return local_rows_; }
  int owner() const { return owner_; }
  Placement<IndexType, P> const& placement() const { return placement_; }
  P const& partitioner() const { return partitioner_; }
  Method method() const { return method_; }
  // Whether a rank holds its shard only.
  bool shards() const {
    if constexpr (adaptive) return method_ == Method::ps_shard;
    else return sharded;
  }
  std::int64_t global_row(std::int64_t local) const { return shards() ? placement_.global_row(owner_, local) : local; }
  O& optimizer() { return optimizer_; }
  O const& optimizer() const { return optimizer_; }
  Reduce reduce() const { return reduce_; }
  BadIds bad_ids() const { return bad_ids_; }
  std::uint64_t dropped() const { return dropped_; }
  void count_dropped(std::size_t indices) { dropped_ += indices; }
  bool counted() const { return reduce_ == Reduce::mean_by_count; }
  std::int64_t steps() const { return steps_; }
  std::int64_t changes() const { return steps_ + moves_; }  // of rows, by updates and moves; the same on all ranks
  std::int64_t moves() const { return moves_; }
  auto const& slots() const { return slots_; }

  void add_update(Fingerprint& hash) const {
    hash.fold(registration_->hash);
    hash.fold(static_cast<std::uint64_t>(steps_));
    hash.fold(static_cast<std::uint64_t>(moves_));
    fold_fields(optimizer_, hash);
  }
  std::string update_text() const {
    return "update " + std::to_string(steps_ + 1) + " by " + optimizer_name<O>() + fields_text(optimizer_);
  }

  // The rows of this rank as of the last update, all brought up to date. On a device: as of the work put in its queue so far.
  RowsView<T> local() {
    settle(local_rows_, [](std::int64_t i) { return i; });
    return table_;
  }

  // What a pull reads: rows keys[i] - base, up to date.
  void touch(std::span<IndexType const> keys, IndexType base) {
    settle(static_cast<std::int64_t>(keys.size()),
           [&](std::int64_t i) { return static_cast<std::int64_t>(keys[static_cast<std::size_t>(i)] - base); });
  }
  // `keys` as operations in the table's space find them.
  void gather(std::span<IndexType const> keys, IndexType base, T* out) const {
    ops_.gather_rows(RowsView<T const>{table_}, keys, base, out);
  }

  // The table rows that keys stand for where the policy replicates.
  std::span<IndexType const> rows_of(std::span<IndexType const> keys) {
    ids_.resize_with_slack(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) ids_[i] = static_cast<IndexType>(placement_.row(keys[i]));
    return ids_.span();
  }

  // Mean over `ranks`, or by the number of indices that named each row.
  void average(ReducedRows<IndexType, T> const& reduced, int ranks) {
    if (reduce_ == Reduce::mean && ranks > 1)
      ops_.scale_down(reduced.rows, static_cast<std::int64_t>(reduced.keys.size()) * width_, static_cast<T>(ranks));
    if (reduce_ == Reduce::mean_by_count) {
      counts_.renew();
      ops_.scale_rows_down(reduced.rows, width_, counts_.of(ops_, {reduced.counts, reduced.keys.size()}));
    }
  }

  // Notes the optimizer's settings if they changed. When many notes have gathered all rows are settled, which changes no
  // bit that is ever read, and the notes are dropped.
  void reserve_update() {
    static_cast<void>(optimizer_.at(steps_ + 1));  // what `at` throws, it throws before the commit
    if constexpr (settles) {
      if (fields_hash(history_.back().optimizer) == fields_hash(optimizer_)) return;
      if (history_.size() == most_settings) {
        local();
        history_.erase(history_.begin(), history_.end() - 1);
      }
      history_.push_back({steps_ + 1, optimizer_});
    }
  }
  void apply(std::span<IndexType const> table_rows, IndexType base, T const* gradients,
             T scale) noexcept(Space::host_readable) {
    touch(table_rows, base);
    applied_.renew();
    slots_.apply_rows(applied_.of(ops_, table_rows), base, table_, gradients, scale, optimizer_.at(steps_ + 1));
    note_settled(table_rows, base);
  }
  // On a device: of sums that are not there yet, of `addends` by `groups`, divided as `average` does.
  template <class Groups>
  void apply_runs(ReducedRows<IndexType, T> const& reduced, IndexType base, RowsView<T const> addends, Groups const& groups,
                  int ranks) {
    touch(reduced.keys, base);
    std::uint32_t const* counts = nullptr;
    if (counted()) {
      counts_.renew();
      counts = counts_.of(ops_, {reduced.counts, reduced.keys.size()}).data();
    }
    T const divisor = reduce_ == Reduce::mean ? static_cast<T>(ranks) : T{1};
    slots_.apply_runs(addends, groups, base, divisor, counts, table_, optimizer_.at(steps_ + 1));
    note_settled(reduced.keys, base);
  }
  // The rows from `first` on of a densified gradient. With `counted` the element behind a row says by how many indices it was
  // named, and rows named by none are left alone by a lazy optimizer.
  void apply_densified(std::int64_t first, RowsView<T const> gradients, bool counted, T scale) noexcept(Space::host_readable) {
    settle(gradients.rows, [&](std::int64_t i) { return first + i; });
    slots_.apply_spaced_rows(first, gradients, counted && untouched<O> == Untouched::lazy, table_, scale,
                             optimizer_.at(steps_ + 1));
    if constexpr (settles)
      std::fill_n(settled_.data() + first, gradients.rows, steps_ + 1);
  }
  void end_update() { ++steps_; }

  // Plans are pooled: a handle or an update takes one and gives it back.
  Plan& take_plan() {
    for (auto& plan : plans_)
      if (plan->users == 0) return *plan;
    return *plans_.emplace_back(make_owned<Plan>());
  }

  // What each row costs and is, for the model of `Auto`.
  TableFacts facts() const {
    auto const width = static_cast<double>(width_) * sizeof(T);
    return {static_cast<double>(rows()), width, width + static_cast<double>(Slots::row_bytes(static_cast<std::size_t>(width_))),
            static_cast<double>(sizeof(IndexType))};
  }

  Description description() const {
    TableUse use = chooser.use();
    if (!adaptive && steps_ > 0) {
      use.pushed = seen.pushed / static_cast<double>(steps_);
      use.pulled = seen.pulled / static_cast<double>(steps_);
      use.by_host = use.by_all = use.pushed;
    }
    return {true, !shards(), Policy::name, adaptive ? to_string(method_) : Policy::name, facts(), width_,
            partitioner_.pieces ? partitioner_.pieces : placement_.owners(), use, !Space::host_readable};
  }

  // Where the rows are going to be: another method's place for them, or other pieces.
  struct Moved {
    Method method;
    P partitioner;
    Placement<IndexType, P> placement;
    std::int64_t local_rows;
    Buffer<T, Space> table;
    Slots slots;
    MoveRoute<IndexType> route;
    std::vector<MovingArray> arrays;
  };
  // From or to shards. May throw std::bad_alloc, and then nothing has changed. The table must be the library's own, and no
  // update of it under way.
  template <Communicator C>
  Moved begin_move(Topology<C> const& topology, Method method, P const& partitioner) {
    local();  // settles all rows
    Placement<IndexType, P> placement{partitioner, rows(), placement_.owners()};
    bool const to_shards = method == Method::ps_shard;
    std::int64_t const there = to_shards ? placement.local_rows(owner_) : rows();
    auto const row_count = static_cast<std::size_t>(there), width = static_cast<std::size_t>(width_);
    Moved moved{method, partitioner, std::move(placement), there, Buffer<T, Space>{row_count * width},
                Slots{ops_, optimizer_, row_count, width}, {}, {}};
    moved.route = !shards()   ? route_to_own(topology, moved.placement)
                  : to_shards ? route_between(topology, placement_, moved.placement)
                              : route_to_all<C, IndexType, P>(topology, placement_);
    moved.arrays.push_back({reinterpret_cast<std::byte const*>(owned_.data()), reinterpret_cast<std::byte*>(moved.table.data()),
                            width * sizeof(T)});
    slots_.each_row_array([&](std::byte* memory, std::size_t bytes) { moved.arrays.push_back({memory, nullptr, bytes}); });
    std::size_t array = 1;
    moved.slots.each_row_array([&](std::byte* memory, std::size_t) { moved.arrays[array++].to = memory; });
    if constexpr (settles) moved_settled_.resize(row_count);
    return moved;
  }
  // After every row has arrived. Plans of earlier pulls stay usable: they name their rows by number from here on.
  void end_move(Moved&& moved, bool other_placement) {
    if (other_placement)
      for (auto& plan : plans_)
        if (plan->users > 0) plan->retire([&](IndexType key) { return static_cast<IndexType>(placement_.row(key)); });
    method_ = moved.method;
    partitioner_ = moved.partitioner;
    placement_ = std::move(moved.placement);
    local_rows_ = moved.local_rows;
    owned_ = std::move(moved.table);
    table_ = {owned_.data(), local_rows_, width_};
    slots_ = std::move(moved.slots);
    if constexpr (settles) {
      settled_.swap(moved_settled_);
      settled_.fill(steps_);
    }
    ++moves_;
  }
  // Among methods that keep all rows on every rank.
  void change_method(Method method) {
    method_ = method;
    ++moves_;
  }

  Merging<ReducedRows<IndexType, T>> merging;  // of a densified gradient only `rows` is set: the part of this rank
  Chooser chooser;
  Chooser::Seen seen;  // by this rank since the last step of the variable
  std::optional<PieceSearch> search;  // while one is on
  double step_began = 0;              // when the last step of the variable ended, seconds of the session's clock

 private:
  std::size_t elements() const { return static_cast<std::size_t>(local_rows_) * static_cast<std::size_t>(width_); }

  struct Settings {
    std::int64_t from;  // the first step with this optimizer
    O optimizer;
  };
  static constexpr std::size_t most_settings = 256;

  // Replays the steps that passed rows by, with a gradient of zero: of rows row_at(0) … row_at(n - 1), which may repeat. The
  // host takes one row after the other, all its steps; a device one step after the other, all rows that it passed by.
  template <class RowAt>
  void settle([[maybe_unused]] std::int64_t n, [[maybe_unused]] RowAt&& row_at) noexcept(Space::host_readable) {
    if constexpr (!settles) return;
    stale_.clear();
    for (std::int64_t i = 0; settles && i < n; ++i) {
      std::int64_t const row = row_at(i);
      std::int64_t& settled = settled_[static_cast<std::size_t>(row)];
      if (settled == steps_) continue;
      if constexpr (!Space::host_readable) {
        stale_.push_back({settled, static_cast<IndexType>(row)});
      } else {
        auto const width = static_cast<std::size_t>(width_);
        replay(settled, [&](std::int64_t, auto const& rule) {
          slots_.apply(table_.row(row), zeros_.data(), width, static_cast<std::size_t>(row) * width, T{1}, rule);
        });
      }
      settled = steps_;
    }
    if constexpr (!Space::host_readable) settle_stale();
  }
  void note_settled([[maybe_unused]] std::span<IndexType const> keys, [[maybe_unused]] IndexType base) noexcept {
    if constexpr (settles)
      for (IndexType const key : keys) settled_[static_cast<std::size_t>(key - base)] = steps_ + 1;
  }
  // Calls f(step, rule) for every step after `settled`, with the rule of the optimizer that was in force.
  template <class F>
  void replay(std::int64_t settled, F&& f) {
    auto const later = [](std::int64_t step, Settings const& setting) { return step < setting.from; };
    auto setting = std::upper_bound(history_.begin(), history_.end(), settled + 1, later) - 1;
    for (std::int64_t step = settled + 1; step <= steps_; ++step) {
      while (setting + 1 != history_.end() && setting[1].from <= step) ++setting;
      f(step, setting->optimizer.at(step));
    }
  }
  void settle_stale() {
    std::sort(stale_.begin(), stale_.end(), [](Stale const& a, Stale const& b) { return a.settled < b.settled; });
    auto const width = static_cast<std::size_t>(width_);
    std::size_t const at_once = std::max<std::size_t>(1, (std::size_t{1} << 20) / std::max<std::size_t>(width, 1));
    for (std::size_t begin = 0; begin < stale_.size(); begin += at_once) {
      std::span<Stale const> const stale{stale_.data() + begin, std::min(at_once, stale_.size() - begin)};
      if (zeros_.size() < stale.size() * width) {
        zeros_.resize_with_slack(stale.size() * width);
        ops_.clear(zeros_.data(), zeros_.size() * sizeof(T));
      }
      stale_ids_.resize_with_slack(stale.size());
      std::transform(stale.begin(), stale.end(), stale_ids_.data(), [](Stale const& s) { return s.row; });
      stale_rows_.renew();
      std::span<IndexType const> const rows = stale_rows_.of(ops_, stale_ids_.span());
      std::size_t passed = 0;
      replay(stale.front().settled, [&](std::int64_t step, auto const& rule) {
        while (passed < stale.size() && stale[passed].settled < step) ++passed;
        slots_.apply_rows(rows.first(passed), IndexType{0}, table_, zeros_.data(), T{1}, rule);
      });
    }
  }

  [[no_unique_address]] Ops ops_;
  RegistrationPtr registration_;
  std::int64_t width_;
  int owner_;
  Reduce reduce_;
  BadIds bad_ids_;
  std::uint64_t dropped_ = 0;
  Method method_ = Exchange::sharded ? Method::ps_shard : Exchange::densified ? Method::all_reduce : Method::all_gather;
  std::int64_t moves_ = 0;
  P partitioner_;
  Placement<IndexType, P> placement_;
  std::int64_t local_rows_;
  O optimizer_;
  std::int64_t steps_ = 0;
  Buffer<T, Space> owned_;
  RowsView<T> table_;
  Slots slots_;
  Buffer<std::int64_t> settled_, moved_settled_;  // the step up to which a row has been moved
  Buffer<T, Space> zeros_;
  std::vector<Settings> history_;
  struct Stale {
    std::int64_t settled;
    IndexType row;
  };
  std::vector<Stale> stale_;  // on a device
  Buffer<IndexType> stale_ids_;
  Shown<IndexType, Space> stale_rows_;
  Buffer<IndexType> ids_;
  Shown<IndexType, Space> applied_;
  Shown<std::uint32_t, Space> counts_;
  std::vector<Owned<Plan>> plans_;
};

}  // namespace parallax
