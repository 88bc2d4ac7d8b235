// The way of a dense gradient, from the user's memory to the optimizer: summed by a step's buckets, as AllReduce and PsShard
// do, or elsewhere by a policy's choice. A policy names it in its `exchange<Dense>`, and the seats of a step call its phases.
#pragma once

#include <cstdint>
#include <span>
#include <string>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/policy/exchange.hpp"

namespace parallax::inline v0_2 {

// A rank's hold on the sum of one dense gradient, in a bucket of the step. Does not own. It travels by the wire of the policy's
// exchange<Dense>. A policy that sums elsewhere writes a class with these functions and the same parameters: see WholeSums.
template <class C, class State>
class BucketSums {
 public:
  // The variable's scalar.
  using T = typename State::scalar_type;
  // The memory space of the variable's values and gradients.
  using Space = typename State::space;
  // The wire of addends, sums and parameters: IdentityWire, unless the exchange names a wire.
  using W = dense_wire_of<T, Space, typename State::Exchange>;

  // Joins the step's bucket of the gradient's kind, as a segment, without a copy: the gradient must stay until the sums are
  // formed. Local; may allocate. `in_place`: null, or its memory, to be overwritten and kept until the step ends.
  [[gnu::always_inline]] void join(Buckets<C>& buckets, std::span<T const> gradient, State& state, T* in_place) {
    bucket_ = &buckets.template of<T, Space, State::sharded, W>();
    segment_ = bucket_->add(gradient.data(), gradient.size(), state.values().data(), state.unit(), in_place);
  }
  // Returns this rank's own part, and its first element; if ranks own the whole alike, the whole. Valid from the bucket's
  // `close` to its next one, and a sum over ranks once the bucket is reduced.
  auto own() const { return bucket_->owned(segment_); }
  // Returns true if every rank owns the whole: the vendor's all-reduce has formed the sums.
  bool owns_whole() const { return bucket_->owns_whole(); }
  bool owns_in_place() const { return bucket_->owns_in_place(); }  // the own part lies in the whole
  // Calls f(first element, values, count) for the whole, run by run.
  template <class F>
  void whole(F&& f) {
    bucket_->whole(segment_, f);
  }
  // Calls f(begin, end), numbers of elements, for each owner's part.
  template <class F>
  void each_part(F&& f) const {
    bucket_->each_part(segment_, f);
  }
  bool whole_is_older() const { return bucket_->holds_sums(); }  // gathered before owned parts were changed
  // Makes `whole` be gathered again after the commit; local, on all ranks alike, by a leader that has merged other updates into
  // its part. This counts for all segments of the bucket.
  void renew_whole() { bucket_->drop_sums(); }
  // Leaves the parameters to the leader's segment, which has the same ones and gathers them. Local, on all ranks alike, by an
  // update that does not lead.
  void leave_parameters() { bucket_->leave_parameters(segment_); }

 private:
  // The flight's; found by `join`, anew in every step.
  DenseBucket<T, C, Space, W>* bucket_ = nullptr;
  std::size_t segment_ = 0;
};

// The sum of one dense gradient formed whole by every rank, alike. Owns it. A policy that sums elsewhere than in buckets gives
// it to DenseWay: its legs fill the result of `open`, and DenseWay does the rest.
template <class C, class State>
class WholeSums {
 public:
  // The variable's scalar.
  using T = typename State::scalar_type;
  // The space of the sum: the space of the variable's values.
  using Space = typename State::space;
  // Result of `own`: all elements of the variable.
  struct Whole {
    // The number of the first element: 0.
    std::size_t first = 0;
    // In memory of this object, until `open` is called again.
    std::span<T> values;
  };

  // The way's own legs form the sum: way_checks.hpp asks for them. Without an exchange, `next` returns false.
  static constexpr bool filled_by_legs = true;

  // Opens the sum. Local; called by the policy's `prepare`, in every step. Returns `size` elements, of any values at first,
  // valid until the next `open`; the policy fills them before `reduce`. May throw `std::bad_alloc`.
  std::span<T> open(std::size_t size) {
    sums_.resize_with_slack(size);
    return sums_.span();
  }
  // Enters no bucket: the policy's own legs travel.
  void join(Buckets<C>&, std::span<T const>, State&, T*) {}
  // Returns all elements made by `open`: every rank owns them.
  Whole own() const { return {0, {const_cast<T*>(sums_.data()), sums_.size()}}; }
  // Returns true: of a norm each rank adds the squares of a share only.
  bool owns_whole() const { return true; }
  // Returns true: a rank's own part is the whole, which may be averaged as it is applied.
  bool owns_in_place() const { return true; }
  // Calls f(0, elements, count), once; not for a variable without elements.
  template <class F>
  void whole(F&& f) {
    if (sums_.size() > 0) f(std::size_t{0}, sums_.data(), sums_.size());
  }
  // Calls f(0, count), once: there is one part, measured alike by every rank.
  template <class F>
  void each_part(F&& f) const {
    f(std::size_t{0}, sums_.size());
  }
  // Returns false: there is no second copy for a merge to leave behind.
  bool whole_is_older() const { return false; }
  // Does nothing: nothing is gathered, and so nothing again.
  void renew_whole() {}
  // Does nothing: every rank applies the sum to all of its parameters, so no gathering is left to the leader's update.
  void leave_parameters() {}

 private:
  Buffer<T, Space> sums_;
};

// A dense variable's update, with sums formed by `Sums`: averaged, transformed, measured and applied. A seat keeps it from step
// to step; the table in policy/exchange.hpp has the order of its phases. AllReduce and PsShard name it as it is.
template <Communicator C, class Update, template <class, class> class Sums = BucketSums>
class DenseWay : public WayBase<C, Update> {
  using Base = WayBase<C, Update>;

 protected:
  // Of WayBase: the variable's state, from `prepare` to `close`; true if this update leads those of its variable; the user's
  // transform.
  using Base::state_, Base::leader_, Base::function_;

 public:
  // A rank's state of the variable, a DenseState; sums ask it for no more members either.
  using S = typename Base::State;
  static_assert(DenseVariableState<S>);
  // The memory space of the variable's values and gradients.
  using typename Base::Space;
  // The variable's scalar.
  using typename Base::T;
  // The user's transform; NoTransform without one.
  using F = typename Base::Function;
  // True if a policy must write the legs that form the sums: over WholeSums. way_checks.hpp asks for them.
  static constexpr bool needs_legs = requires { requires Sums<C, S>::filled_by_legs; };

  // Local. Takes the user's gradient, without a copy unless the update outlives the call (`how.keep`). Of a rank that has
  // joined it takes zeros. Throws Error (invalid_argument) if its number of elements is not the variable's.
  void prepare(Update const& update, Topology<C> const& topology, Preparing how, int clip) {
    this->begin(update, clip);
    gradient_ = update.gradient;
    in_place_ = update.in_place;
    Given const given{gradient_.data(), gradient_.size(), in_place_ != nullptr};
    moved_ = given != given_;
    if (moved_) given_ = given;
    if (gradient_.size() != state_->size() && !how.joined) throw size_refusal(topology.rank());
    if (how.keep || how.joined) keep_gradient(how.joined);
  }
  // Returns the gradient as one row of all elements, as it was given or copied.
  RowsView<T const> gradient() const { return as_row(gradient_); }
  // Returns its bytes, by which a step finds gradients that share memory with one given in_place.
  GradientMemory memory() const {
    auto const* const bytes = reinterpret_cast<std::byte const*>(gradient_.data());
    return {bytes, bytes + gradient_.size_bytes(), in_place_ != nullptr, state_->name()};
  }
  // Returns true if the gradient has another address or length than in this way's last update, or only one of them is in_place.
  bool moved() const { return moved_; }
  // Enters the step's buckets, local, may allocate; over WholeSums does nothing.
  [[gnu::always_inline]] void join(Buckets<C>& buckets) { sums_.join(buckets, gradient_, *state_, in_place_); }
  // Returns true if sums may spread before the commit: unless a transform is to change them first. Sums of a sharded variable
  // never spread.
  bool gathers_early() const { return S::sharded || !transforms<F>; }

  // Enters this rank's sum in the variable, local, after `reduce`; the first one leads. Throws Error (misuse): over WholeSums,
  // of another size than the variable's; and for updates of one variable in different clip groups.
  void deposit(int clip) {
    if constexpr (needs_legs) {
      if (sums_.own().values.size() != state_->size()) throw open_refusal();
    }
    this->enter(sums_.own().values, clip);
    if (!leader_) sums_.leave_parameters();
  }
  // Merges, by the leader: adds the sums of the other updates to its own, in their order, and averages the sum, unless this can
  // wait for `apply`. Local. Throws the errors of the optimizer's `at`, and an Error for a setting that is not finite.
  void merge() {
    if (!leader_) return;
    state_->reserve_update();
    auto const& [sum, others, clip] = state_->merging;
    if (!others.empty()) sums_.renew_whole();
    for (auto const& other : others) state_->ops().add_to(sum->data(), other.data(), static_cast<std::int64_t>(sum->size()));
    // If this rank's part lies in the whole and nobody looks at it before, it is averaged as it is applied.
    left_whole_ = sums_.owns_in_place() && !transforms<F> && clip < 0;
    if (!left_whole_) state_->average(*sum, this->divisor());
  }
  // Calls the user's function, if there is one, with this rank's averaged part, which it may change; throws its errors.
  void transform() {
    if constexpr (transforms<F>) (*function_)(DenseGradient<T>{sums_.own().first, *state_->merging.first});
  }
  // Returns this rank's part, as one row; still a sum if it is averaged as it is applied. The step seeks elements in it that
  // are not finite.
  RowsView<T const> result() const { return as_row(*state_->merging.first); }
  // Returns the elements whose squares this rank adds to the norm of its clip group: its part, or its share if all ranks have
  // the whole. Over all ranks every element is in it once.
  RowsView<T const> clipped(Topology<C> const& topology) const {
    std::span<T> const values = *state_->merging.first;
    if (!sums_.owns_whole()) return as_row(values);
    if (topology.owner() < 0) return as_row(std::span<T>{});
    std::size_t const begin = part_begin(values.size(), topology.owner(), topology.owners());
    std::size_t const end = part_begin(values.size(), topology.owner() + 1, topology.owners());
    return as_row(values.subspan(begin, end - begin));
  }
  // Returns "element i", with i from the variable's first element on: of the gradient, or of the part of the result.
  std::string place_of(NonFiniteElement const& found, bool of_result) const {
    std::size_t const first = of_result ? sums_.own().first : 0;
    return joined({"element ", first + static_cast<std::size_t>(found.column)});
  }

  // Takes places in `sums` before the commit, if the optimizer measures the whole tensor; local. Owners measure their parts; if
  // every rank has the whole, each measures all parts of it, so that the sums are the same.
  void enrol(MeasuredSums<C>& sums) {
    if constexpr (measures) {
      measured_.of_parts = &sums.template of<Space, S::sharded>();
      measured_.first = measured_.of_parts->add(S::measured_sums);
    }
  }
  // Measures after the commit, when the sums are in their places to be applied. Writes the optimizer's measures of each part,
  // of the gradient times `given_scale`, to the places from `enrol`. Averages first, if `merge` has left it.
  void measure(double given_scale) noexcept(Space::host_readable) {
    if constexpr (measures) {
      auto const scale = static_cast<T>(given_scale);
      if constexpr (S::sharded) {
        auto const part = sums_.own();
        if (double* const out = measured_.of_parts->own(measured_.first))
          state_->measure(part.first, part.values.data(), part.values.size(), scale, out);
      } else {
        sums_.whole([&](std::size_t first, T* values, std::size_t count) {
          if (averages_late()) state_->average({values, count}, this->divisor());
          std::size_t owner = 0;
          sums_.each_part([&](std::size_t begin, std::size_t end) {
            double* const out = measured_.of_parts->at(owner++, measured_.first);
            if (begin >= first && end <= first + count)
              state_->measure(begin, values + (begin - first), end - begin, scale, out);
          });
        });
      }
    }
  }

  // Applies the optimizer's rule, by the leader, last: over this rank's part of a sharded variable, else over all elements.
  // `given_scale` is the factor of the clip group, 1 without one. Sums left by `merge` are averaged on the way, with the same
  // bits.
  [[gnu::always_inline]] void apply(double given_scale) noexcept(Space::host_readable) {
    state_->begin_update();
    auto const scale = static_cast<T>(given_scale);
    auto const rule = [&] {
      if constexpr (measures)
        return state_->ops().finish_rule(state_->rule(), measured_.of_parts->template parts<S::measured_sums>(measured_.first),
                                         static_cast<std::int64_t>(state_->size()));
      else return state_->rule();
    }();
    auto const update = [&](std::size_t first, T const* values, std::size_t count) {
      if constexpr (measures) state_->finish(first, values, count, scale, rule);
      else state_->apply(first, values, count, scale, rule);
    };
    if constexpr (S::sharded) {
      auto const part = sums_.own();
      update(part.first, part.values.data(), part.values.size());
    } else if (measures || !averages_late()) {
      sums_.whole(update);
    } else if constexpr (S::by_element) {
      T const divisor = state_->divisor(this->divisor());
      sums_.whole([&](std::size_t first, T* values, std::size_t count) {
        state_->apply_sums(first, values, count, divisor, scale, rule);
      });
    } else {
      std::size_t const of_host = std::max(tile_elements / state_->unit(), std::size_t{1}) * state_->unit();
      sums_.whole([&](std::size_t first, T* values, std::size_t count) {
        std::size_t const tile = Space::host_readable ? of_host : count;
        for (std::size_t at = 0; at < count; at += std::min(tile, count - at)) {
          std::span<T> const sums{values + at, std::min(tile, count - at)};
          state_->average(sums, this->divisor());
          update(first + at, sums.data(), sums.size());
        }
      });
    }
    state_->end_update();
  }

 protected:
  // This rank's gradient: the user's memory, or the way's own.
  std::span<T const> gradient_;
  // The place of the sum over ranks. A policy's legs fill it by `sums_.own().values`, if it is a WholeSums.
  Sums<C, S> sums_;

 private:
  // Returns the error of `prepare`: the user gave a gradient of another length.
  PARALLAX_COLD Error size_refusal(int rank) const {
    return this->refusal(Errc::invalid_argument, rank,
                         joined({"a gradient of ", gradient_.size(), " elements for a variable of ", state_->size()}));
  }
  // Returns the error of `deposit`: a policy has not opened its WholeSums for the gradient at hand.
  PARALLAX_COLD Error open_refusal() const {
    return this->refusal(Errc::misuse, -1,
                         joined({"the way of its policy has sums of ", sums_.own().values.size(), " elements, not of ",
                                 state_->size(), ": `prepare` must call sums_.open(gradient_.size())"}));
  }
  // Copies the gradient to `kept_`; zeros on a rank that has joined. From then on nothing is in place.
  void keep_gradient(bool joined) {
    kept_.resize_with_slack(state_->size());
    if (joined) state_->ops().clear(kept_.data(), kept_.size() * sizeof(T));
    else state_->ops().copy_bytes(kept_.data(), gradient_.data(), gradient_.size_bytes());
    gradient_ = kept_.span();
    in_place_ = nullptr;
  }

  // Returns true if `apply` averages: `merge` left it, or the whole is older than the average. Asked after all merging.
  bool averages_late() const { return left_whole_ || sums_.whole_is_older(); }

  static constexpr bool measures = S::measures;
  static constexpr std::size_t tile_elements = 2048;  // averaged and applied while in a host's cache

  T* in_place_ = nullptr;
  struct Given {  // the gradient of the last update
    T const* data = nullptr;
    std::size_t size = 0;
    bool in_place = false;
    bool operator==(Given const&) const = default;
  };
  Given given_;
  bool moved_ = false, left_whole_ = false;  // against the last update's; true if merge has left the averaging to apply
  // The copy of a gradient that outlives its call; its memory is used again.
  Buffer<T, Space> kept_;
  // The place of this tensor's sums among the flight's, if the optimizer measures the whole tensor.
  struct {
    detail::SumsOfParts<C, Space>* of_parts = nullptr;
    std::size_t first = 0;
  } measured_;
};

}  // namespace parallax
