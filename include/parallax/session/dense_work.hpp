// The update of a dense variable: summed in a bucket, averaged, measured and applied.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parallax/core/algorithm.hpp"
#include "parallax/session/overwritten.hpp"
#include "parallax/session/work.hpp"

namespace parallax::detail {

// A dense variable, under AllReduce or PsShard.
template <Communicator C, class S, class F>
class Work<C, DenseUpdate<S, F>> : public WorkBase<C, DenseUpdate<S, F>> {
  using Base = WorkBase<C, DenseUpdate<S, F>>;
  using Base::state_, Base::leader_, Base::function_;

 public:
  using typename Base::Space;
  using typename Base::T;

  void prepare(DenseUpdate<S, F> const& update, Topology<C> const& topology, Preparing how, int group) {
    this->begin(update, group);
    moved_ = update.gradient.data() != given_.data() || update.gradient.size() != given_.size() ||
             (update.in_place != nullptr) != given_in_place_;
    given_ = update.gradient;
    given_in_place_ = update.in_place;
    gradient_ = update.gradient;
    in_place_ = update.in_place;
    if (gradient_.size() != state_->size() && !how.joined) throw size_refusal(topology.rank());
    if (how.keep || how.joined) keep_gradient(how.joined);
  }
  RowsView<T const> gradient() const { return as_row(gradient_); }
  GradientMemory memory() const {
    auto const bytes = std::as_bytes(gradient_);
    return {bytes.data(), bytes.data() + bytes.size(), in_place_ != nullptr, state_->name()};
  }
  bool moved() const { return moved_; }  // since this work's last update
  void join(Buckets<C>& buckets) {
    bucket_ = &buckets.template of<Space>().template of<T, S::sharded>();
    segment_ = bucket_->add(gradient_.data(), gradient_.size(), state_->values().data(), state_->unit(), in_place_);
  }

  bool gathers_early() const { return S::sharded || !transforms<F>; }

  void deposit(int group) {
    this->enter(bucket_->owned(segment_).values, group);
    if (!leader_) bucket_->leave_parameters(segment_);
  }
  void merge() {
    if (!leader_) return;
    static_cast<void>(state_->rule());  // what `at` throws, it throws before the commit
    auto const& [sum, others, group] = state_->merging;
    if (!others.empty()) bucket_->drop_sums();
    for (auto const& other : others) state_->ops().add_to(sum->data(), other.data(), static_cast<std::int64_t>(sum->size()));
    // Where what this rank owns lies in the whole and nobody looks at it before, it is averaged as it is applied.
    left_whole_ = bucket_->owns_in_place() && !transforms<F> && group < 0;
    if (!left_whole_) state_->average(*sum, this->divisor());
  }
  void transform() {
    if constexpr (transforms<F>)
      (*function_)(DenseGradient<T>{bucket_->owned(segment_).first, *state_->merging.first});
  }
  RowsView<T const> result() const { return as_row(*state_->merging.first); }
  RowsView<T const> clipped(Topology<C> const& topology) const {
    std::span<T> const values = *state_->merging.first;
    return as_row(bucket_->owns_whole() ? own_share(values, topology) : values);
  }
  std::string place_of(NonFiniteElement const& found, bool of_result) const {
    std::size_t const first = of_result ? bucket_->owned(segment_).first : 0;
    return "element " + std::to_string(first + static_cast<std::size_t>(found.column));
  }

  // Owners measure their parts; where every rank has the whole, each measures all parts of it, so that the sums are the same.
  void enrol(MeasuredSums<C>& sums) {
    if constexpr (measures) {
      sums_.of_parts = &sums.template of<Space>().template of<S::sharded>();
      sums_.first = sums_.of_parts->add(measure_count<typename S::optimizer_type, T>);
    }
  }
  void measure(double given_scale) noexcept(Space::host_readable) {
    if constexpr (measures) {
      auto const scale = static_cast<T>(given_scale);
      if constexpr (S::sharded) {
        auto const part = bucket_->owned(segment_);
        if (double* const out = sums_.of_parts->own(sums_.first))
          state_->measure(part.first, part.values.data(), part.values.size(), scale, out);
      } else {
        bucket_->whole(segment_, [&](std::size_t first, T* values, std::size_t count) {
          if (averages_late()) state_->average({values, count}, this->divisor());
          std::size_t owner = 0;
          bucket_->each_part(segment_, [&](std::size_t begin, std::size_t end) {
            double* const out = sums_.of_parts->at(owner++, sums_.first);
            if (begin >= first && end <= first + count)
              state_->measure(begin, values + (begin - first), end - begin, scale, out);
          });
        });
      }
    }
  }

  void apply(double given_scale) noexcept(Space::host_readable) {
    auto const scale = static_cast<T>(given_scale);
    auto const rule = [&] {
      if constexpr (measures)
        return state_->ops().finish_rule(
            state_->rule(), sums_.of_parts->template parts<measure_count<typename S::optimizer_type, T>>(sums_.first),
            static_cast<std::int64_t>(state_->size()));
      else return state_->rule();
    }();
    auto const update = [&](std::size_t first, T const* values, std::size_t count) {
      if constexpr (measures) state_->finish(first, values, count, scale, rule);
      else state_->apply(first, values, count, scale, rule);
    };
    if constexpr (S::sharded) {
      auto const part = bucket_->owned(segment_);
      update(part.first, part.values.data(), part.values.size());
    } else if (measures || !averages_late()) {
      bucket_->whole(segment_, update);
    } else if constexpr (unit<typename S::optimizer_type> == Unit::element) {
      T const divisor = state_->divisor(this->divisor());
      bucket_->whole(segment_, [&](std::size_t first, T* values, std::size_t count) {
        state_->apply_sums(first, values, count, divisor, scale, rule);
      });
    } else {
      std::size_t const tile = std::max(tile_elements / state_->unit(), std::size_t{1}) * state_->unit();
      bucket_->whole(segment_, [&](std::size_t first, T* values, std::size_t count) {
        for (std::size_t at = 0; at < count; at += std::min(tile, count - at)) {
          std::span<T> const sums{values + at, std::min(tile, count - at)};
          state_->average(sums, this->divisor());
          update(first + at, sums.data(), sums.size());
        }
      });
    }
    state_->end_update();
  }

 private:
  Error size_refusal(int rank) const {
    return this->refusal(Errc::invalid_argument, rank, "a gradient of " + std::to_string(gradient_.size()) +
                                                           " elements for a variable of " + std::to_string(state_->size()));
  }
  // In memory of the update; zeros of a rank that has joined.
  void keep_gradient(bool joined) {
    kept_.resize_with_slack(state_->size());
    if (joined) state_->ops().clear(kept_.data(), kept_.size() * sizeof(T));
    else state_->ops().copy_bytes(kept_.data(), gradient_.data(), gradient_.size_bytes());
    gradient_ = kept_.span();
    in_place_ = nullptr;
  }

  // Whether `whole` is of sums. Asked after all merging, for one update may make its bucket gather again.
  bool averages_late() const { return left_whole_ || bucket_->holds_sums(); }

  static constexpr bool measures = unit<typename S::optimizer_type> == Unit::tensor;
  static constexpr std::size_t tile_elements = 2048;  // averaged and applied while in cache

  // Where every rank has the whole, each looks at its share of it.
  static std::span<T> own_share(std::span<T> whole, Topology<C> const& topology) {
    if (topology.owner() < 0) return {};
    std::size_t const begin = part_begin(whole.size(), topology.owner(), topology.owners());
    return whole.subspan(begin, part_begin(whole.size(), topology.owner() + 1, topology.owners()) - begin);
  }

  std::span<T const> gradient_;
  T* in_place_ = nullptr;
  std::span<T const> given_;
  bool given_in_place_ = false, moved_ = false;
  Buffer<T, Space> kept_;
  DenseBucket<T, C, Space>* bucket_ = nullptr;
  std::size_t segment_ = 0;
  bool left_whole_ = false;
  struct Nothing {};
  struct Sums {
    SumsOfParts<C, Space>* of_parts = nullptr;
    std::size_t first = 0;
  };
  [[no_unique_address]] std::conditional_t<measures, Sums, Nothing> sums_;
};

}  // namespace parallax::detail
