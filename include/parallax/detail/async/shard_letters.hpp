// PsShard's variables by letters: an owner's work on them, and a worker's questions and gradients. An AsyncSession takes it for
// each of its variables by `PsShard::letters<Kind>`; a policy without such a member is refused there.
#pragma once

#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>

#include "parallax/detail/async/keeper.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/kernel/host/finite.hpp"
#include "parallax/detail/policy/journey/legs.hpp"
#include "parallax/detail/session/pull.hpp"
#include "parallax/detail/step/options.hpp"
#include "parallax/policy/ps_shard.hpp"

namespace parallax::inline v0_2 {
namespace detail {

// Returns true if a push may bring these rows; false if they are left out, by NonFinite::skip_step. Throws Error (non_finite).
template <class State, class Rows>
bool is_finite(State const& state, Rows const& rows, NonFinite non_finite, int rank) {
  if (non_finite == NonFinite::propagate) return true;
  auto const found = first_non_finite(rows);
  if (!found) return true;
  if (non_finite == NonFinite::skip_step) return false;
  throw Error{Errc::non_finite, rank, "push", state.name(),
              joined({"the gradient has ", std::to_string(found->value), " at row ", found->row, ", column ", found->column})};
}

// Returns the number of a plan's first distinct key of owner `owner` or a later one. Letters go straight to owners, by whatever
// hops the plan would send its keys.
template <class State, class Plan>
std::size_t first_key_of(State const& state, Plan const& plan, int owner) {
  auto const* const keys = plan.groups.keys.data();
  return static_cast<std::size_t>(std::lower_bound(keys, keys + plan.size(), state.placement().base(owner)) - keys);
}

}  // namespace detail

// Rows: keys, and packed rows behind them. Of a table whose Reduce is mean_by_count the counts lie between.
template <>
struct PsShard::letters<Sparse> {
  // At an owner: the table's rows are the state's own, and nothing is kept beside them.
  template <class State>
  class At final : public KeeperOf<State> {
    using KeeperOf<State>::state_;
    using T = typename State::scalar_type;
    using Index = typename State::index_type;

   public:
    using KeeperOf<State>::KeeperOf;

    void answer(LetterReader& letter, std::uint64_t count, LetterDraft& answer) override {
      auto const keys = keys_of(letter, count);
      state_->touch(keys);
      answer.section(this->number, count);
      state_->gather(keys, answer.own_run<T>(keys.size() * width(), Payload::rows).data());
    }
    PushedPart pushed(LetterReader& letter, std::uint64_t count) override {
      auto const keys = keys_of(letter, count);
      if (state_->counted()) letter.run<std::uint32_t>(count, Payload::counts);
      auto const rows = letter.run<T>(count * width(), Payload::rows);
      auto const* const first = reinterpret_cast<std::byte const*>(keys.data());
      return {count, {first, reinterpret_cast<std::byte const*>(rows.data() + rows.size())}};
    }
    void commit(Slice<PushedPart const> parts, double scale) override {
      state_->reserve_update();
      auto reduced = parts.size() == 1 ? alone(parts[0]) : merged(parts);
      state_->average(reduced, static_cast<int>(parts.size()));
      state_->apply(reduced.keys, reduced.rows, static_cast<T>(scale));
      state_->end_update();
    }

   private:
    std::size_t width() const { return static_cast<std::size_t>(state_->width()); }
    std::span<Index const> keys_of(LetterReader& letter, std::uint64_t count) const {
      auto const keys = letter.run<Index>(count, Payload::ids);
      auto const& placement = state_->placement();
      Index const begin = placement.base(state_->owner()), end = placement.base(state_->owner() + 1);
      for (Index const key : keys)
        if (key < begin || key >= end) letter.broken(joined({"a row of '", state_->name(), "' is not this owner's"}));
      return keys;
    }
    // The runs of a checked part.
    struct Runs {
      Index const* keys;
      std::uint32_t const* counts;
      T const* rows;
    };
    Runs runs_of(PushedPart const& part) const {
      auto const count = static_cast<std::size_t>(part.count);
      std::byte const* const keys = part.runs.data();
      std::byte const* const counts = keys + detail::letter_padded(count * sizeof(Index));
      std::byte const* const rows = counts + (state_->counted() ? detail::letter_padded(count * sizeof(std::uint32_t)) : 0);
      return {reinterpret_cast<Index const*>(keys), reinterpret_cast<std::uint32_t const*>(counts),
              reinterpret_cast<T const*>(rows)};
    }
    // Returns one worker's rows as their sum, a view: they are copied into this, for averaging changes them.
    ReducedRows<Index, T> alone(PushedPart const& part) {
      Runs const runs = runs_of(part);
      auto const count = static_cast<std::size_t>(part.count);
      sums_.resize_with_slack(count * width());
      std::copy_n(runs.rows, count * width(), sums_.data());
      counts_.resize_with_slack(count);
      if (state_->counted()) std::copy_n(runs.counts, count, counts_.data());
      return {{runs.keys, count}, sums_.data(), state_->counted() ? counts_.data() : nullptr};
    }
    // Returns the sums by key of the workers' rows, in their order, a view into this: like ShardPush for arrived rows.
    ReducedRows<Index, T> merged(Slice<PushedPart const> parts) {
      std::size_t count = 0;
      for (auto const& part : parts) count += static_cast<std::size_t>(part.count);
      keys_.resize_with_slack(count);
      rows_.resize_with_slack(count * width());
      arrived_counts_.resize_with_slack(state_->counted() ? count : 0);
      std::size_t at = 0;
      for (auto const& part : parts) {
        Runs const runs = runs_of(part);
        auto const n = static_cast<std::size_t>(part.count);
        std::copy_n(runs.keys, n, keys_.data() + at);
        std::copy_n(runs.rows, n * width(), rows_.data() + at * width());
        if (state_->counted()) std::copy_n(runs.counts, n, arrived_counts_.data() + at);
        at += n;
      }
      using Ops = RowOps<HostSpace>;
      Ops::unique_with_inverse(std::span<Index const>{keys_.data(), count}, state_->rows(), groups_, sort_);
      std::size_t const u = groups_.size();
      sums_.resize_with_slack(u * width());
      Ops::coalesce(RowsView<T const>{rows_.data(), static_cast<std::int64_t>(count), state_->width()}, groups_, 0, u,
                    sums_.data());
      if (state_->counted()) {
        counts_.resize_with_slack(u);
        Ops::sum_counts(arrived_counts_.span(), groups_, 0, u, counts_.data());
      }
      return {groups_.keys.span(), sums_.data(), state_->counted() ? counts_.data() : nullptr};
    }

    // Scratch of commits.
    Buffer<Index> keys_;
    Buffer<T> rows_, sums_;
    Buffer<std::uint32_t> arrived_counts_, counts_;
    Grouping<Index> groups_;
    SortScratch<Index> sort_;
  };

  // At a worker: rows of a pull, by a handle to be filled.
  template <Communicator C, class Indices>
  class Asks final : public Asked {
    using State = typename Indices::state_type;
    using T = typename State::scalar_type;

   public:
    // Result of the pull.
    using Handle = typename detail::HandleOf<Indices>::type;

    // Plans the rows. Throws Error (bad_id), and all errors of planning. Refers to the table's state.
    Asks(Topology<C> const& topology, Indices const& indices) : handle_{*indices.state, indices.state->take_plan()} {
      auto& state = *indices.state;
      auto& plan = *handle_.plan();
      detail::make_plan(topology, indices, plan, "pull");
      state.seen.pulled += static_cast<double>(plan.size());
      plan.values.resize_with_slack(plan.size() * row_bytes());
    }
    void write(int owner, LetterDraft& letter) const override {
      auto const keys = keys_of(owner);
      letter.section(this->variable, keys.size());
      letter.run(keys, Payload::ids);
    }
    void take(int owner, LetterReader& letter, std::uint64_t count) override {
      if (count != keys_of(owner).size()) letter.broken("it answers for other rows");
      auto const rows = letter.take(keys_of(owner).size() * row_bytes(), Payload::rows);
      if (!rows.empty()) std::memcpy(handle_.plan()->values.data() + begin_of(owner) * row_bytes(), rows.data(), rows.size());
    }
    // Ends the pull, once all owners have answered. Returns the handle, which owns plan and rows; called once.
    Handle finish() {
      detail::finish_pull(handle_);
      return std::move(handle_);
    }

   private:
    std::size_t row_bytes() const { return static_cast<std::size_t>(handle_.width()) * sizeof(T); }
    std::size_t begin_of(int owner) const { return detail::first_key_of(handle_.state(), *handle_.plan(), owner); }
    std::span<typename State::index_type const> keys_of(int owner) const {
      return {handle_.plan()->groups.keys.data() + begin_of(owner), begin_of(owner + 1) - begin_of(owner)};
    }
    Handle handle_;
  };

  // At a worker: rows of a push, summed by key. Holds their plan until it is gone.
  template <Communicator C, class Update>
  class Brings final : public Brought {
    using State = typename Update::State;
    using T = typename State::scalar_type;
    using Index = typename State::index_type;

   public:
    // Sums the rows. Throws Error: misuse for an empty handle, bad_id, invalid_argument for rows of a wrong shape, non_finite.
    Brings(Topology<C> const& topology, Update const& update, NonFinite non_finite) : state_{update.state} {
      bool const planned = update.plan && !update.plan->retired;
      plan_ = planned ? update.plan : &state_->take_plan();
      ++plan_->users;
      try {
        if (!planned) detail::make_plan(topology, IndicesOf{&*state_, update.ids}, *plan_, "push");
        OwnRows<T> own{update.rows, update.per};
        BatchSize const size{plan_->indices(), plan_->size(), plan_->bags.count};
        if (!size.fits(own.values, own.per, state_->width()))
          throw Error{Errc::invalid_argument, topology.rank(), "push", state_->name(),
                      size.misfit(own.values.rows, own.values.width, own.per, state_->width())};
        finite = detail::is_finite(*state_, own.values, non_finite, topology.rank());
        sums_.resize_with_slack(plan_->size() * width());
        write_level(state_->ops(), *plan_, 0, own, ArrivedRows<T, HostSpace>{}, 0, plan_->size(), sums_.data());
        counts_.resize_with_slack(state_->counted() ? plan_->size() : 0);
        if (state_->counted()) plan_->times_named(state_->ops(), 0, plan_->size(), counts_.data());
        state_->seen.pushed += static_cast<double>(plan_->size());
      } catch (...) {
        --plan_->users;
        throw;
      }
    }
    Brings(Brings const&) = delete;
    Brings& operator=(Brings const&) = delete;
    ~Brings() { --plan_->users; }

    void write(int owner, LetterDraft& letter) const override {
      std::size_t const begin = detail::first_key_of(*state_, *plan_, owner),
                        count = detail::first_key_of(*state_, *plan_, owner + 1) - begin;
      letter.section(this->variable, count);
      letter.run(std::span<Index const>{plan_->groups.keys.data() + begin, count}, Payload::ids);
      if (state_->counted()) letter.run(std::span<std::uint32_t const>{counts_.data() + begin, count}, Payload::counts);
      letter.run(std::span<T const>{sums_.data() + begin * width(), count * width()}, Payload::rows);
    }

    // True if the gradient may be sent; false: it is left out.
    bool finite = true;

   private:
    std::size_t width() const { return static_cast<std::size_t>(state_->width()); }

    State* state_;
    typename State::Plan* plan_;
    Buffer<T> sums_;
    Buffer<std::uint32_t> counts_;
  };
};

// Elements: of each owner its part of the variable.
template <>
struct PsShard::letters<Dense> {
  // At an owner: its part, beside the variable's memory, for the memory has the last pull of the worker on the same rank.
  template <class State>
  class At final : public KeeperOf<State> {
    using KeeperOf<State>::state_;
    using T = typename State::scalar_type;

   public:
    using KeeperOf<State>::KeeperOf;
    void begin() override {
      if (this->registration().gone) return;
      auto const part = shown();
      part_.resize(part.size());
      std::copy(part.begin(), part.end(), part_.data());
    }
    void end() override {
      if (!this->registration().gone) std::copy_n(part_.data(), part_.size(), shown().data());
    }
    // Returns the variable's memory, also if the rank owns nothing; empty once the variable is gone.
    Keeper::Parts parts() override {
      if (this->registration().gone) return {};
      auto const values = state_->values();
      return {std::as_writable_bytes(values), sizeof(T)};
    }
    // Returns the number of a part's first element: by whole rows, if the optimizer measures rows.
    std::size_t begin_of(int owner) const override { return state_->begin_of(owner); }

    void answer(LetterReader& letter, std::uint64_t count, LetterDraft& answer) override {
      if (count != 0) letter.broken("it asks for rows of a dense variable");
      answer.section(this->number, part_.size());
      auto const out = answer.own_run<T>(part_.size(), Payload::dense);
      std::copy_n(part_.data(), part_.size(), out.data());
    }
    PushedPart pushed(LetterReader& letter, std::uint64_t count) override {
      if (count != part_.size()) letter.broken(joined({"it brings another number of elements of '", state_->name(), "'"}));
      return {count, std::as_bytes(letter.run<T>(count, Payload::dense))};
    }
    void commit(Slice<PushedPart const> parts, double scale) override {
      auto const of = [](PushedPart const& part) { return reinterpret_cast<T const*>(part.runs.data()); };
      auto const n = static_cast<std::int64_t>(part_.size());
      sums_.resize_with_slack(part_.size());
      state_->ops().copy_from(sums_.data(), of(parts[0]), n);
      for (std::size_t i = 1; i < parts.size(); ++i) state_->ops().add_to(sums_.data(), of(parts[i]), n);
      state_->average(sums_.span(), static_cast<int>(parts.size()));
      state_->reserve_update();
      state_->begin_update(part_.data());
      state_->apply_to(part_.data(), state_->first_owned(), sums_.data(), part_.size(), static_cast<T>(scale), state_->rule());
      state_->end_update();
    }

   private:
    std::span<T> shown() const {
      auto const values = state_->values();
      return values.subspan(state_->first_owned(), state_->owned());
    }
    Buffer<T> part_, sums_;
  };

  // At a worker: the parts of all owners, into the variable's memory.
  template <Communicator C, class V>
  class Asks final : public Asked {
    using State = typename V::State;

   public:
    // Refers to the variable's state.
    Asks(Topology<C> const&, V const& of) : state_{&of.state()} {}
    void write(int, LetterDraft& letter) const override { letter.section(this->variable, 0); }
    void take(int owner, LetterReader& letter, std::uint64_t count) override {
      auto const begin = state_->begin_of(owner), end = state_->begin_of(owner + 1);
      if (count != end - begin) letter.broken("it answers for another part");
      auto const part = letter.run<typename State::scalar_type>(count, Payload::dense);
      std::copy(part.begin(), part.end(), state_->values().data() + begin);
    }

   private:
    State* state_;
  };

  // At a worker: a gradient. Each owner is brought its part.
  template <Communicator C, class Update>
  class Brings final : public Brought {
    using State = typename Update::State;
    using T = typename State::scalar_type;

   public:
    // Refers to the gradient, until it is sent. Throws Error: invalid_argument for another number of elements, non_finite.
    Brings(Topology<C> const& topology, Update const& update, NonFinite non_finite)
        : state_{update.state}, gradient_{update.gradient} {
      if (gradient_.size() != state_->size())
        throw Error{Errc::invalid_argument, topology.rank(), "push", state_->name(),
                    joined({"a gradient of ", gradient_.size(), " elements for ", state_->size()})};
      finite = detail::is_finite(*state_, as_row(gradient_), non_finite, topology.rank());
    }
    void write(int owner, LetterDraft& letter) const override {
      auto const begin = state_->begin_of(owner), end = state_->begin_of(owner + 1);
      letter.section(this->variable, end - begin);
      letter.run(std::span<T const>{gradient_.data() + begin, end - begin}, Payload::dense);
    }

    // True if the gradient may be sent; false: it is left out.
    bool finite = true;

   private:
    State* state_;
    std::span<T const> gradient_;
  };
};

}  // namespace parallax
