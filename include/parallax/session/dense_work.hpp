// The update of a dense variable: summed in a bucket, averaged, measured and applied.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parallax/core/algorithm.hpp"
#include "parallax/session/work.hpp"

namespace parallax::detail {

// A dense variable, under AllReduce or PsShard.
template <Communicator C, class S, class F>
class Work<C, DenseUpdate<S, F>> : public WorkBase<C, DenseUpdate<S, F>> {
  using Base = WorkBase<C, DenseUpdate<S, F>>;
  using Base::state_, Base::leader_, Base::function_;

 public:
  using typename Base::T;
  using Space = typename S::space;

  void prepare(DenseUpdate<S, F> const& update, Topology<C> const& topology, Preparing how, int group) {
    this->begin(update, group);
    gradient_ = update.gradient;
    if (gradient_.size() != state_->size() && !how.joined) throw size_refusal(topology.rank());
    if (how.finite && !how.joined) check_finite(topology.rank());
    if (how.keep || how.joined) keep_gradient(how.joined);
  }
  void join(Buckets<C>& buckets) {
    bucket_ = &buckets.template of<T, S::sharded, Space>();
    segment_ = bucket_->add(gradient_.data(), gradient_.size(), state_->values().data(), state_->unit());
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
  std::optional<std::string> non_finite() const {
    return non_finite_element(state_->ops(), std::span<T const>{*state_->merging.first}, bucket_->owned(segment_).first);
  }
  double norm_squared(Topology<C> const& topology) const {
    std::span<T const> values = *state_->merging.first;
    if (bucket_->owns_whole()) values = own_share(values, topology);
    return state_->ops().sum_of_squares(values.data(), static_cast<std::int64_t>(values.size()));
  }
  // What is shared is what owners measured of their parts; where every rank has the whole, each measures it all, in the same
  // parts, so that the sums are the same.
  std::size_t shared_measures() const { return measures && S::sharded ? measure_count : 0; }
  void measure(double scale, std::vector<double>& shared) noexcept(Space::host_readable) {
    if constexpr (measures) {
      sums_ = {};
      if constexpr (S::sharded) {
        auto const part = bucket_->owned(segment_);
        auto const own = state_->measure(part.first, part.values.data(), part.values.size(), static_cast<T>(scale));
        shared.insert(shared.end(), own.begin(), own.end());
      } else {
        bucket_->whole(segment_, [&](std::size_t first, T* values, std::size_t count) {
          if (averages_late()) state_->average({values, count}, this->divisor());
          bucket_->each_part(segment_, [&](std::size_t begin, std::size_t end) {
            if (begin < first || end > first + count) return;
            auto const part = state_->measure(begin, values + (begin - first), end - begin, static_cast<T>(scale));
            for (std::size_t k = 0; k < measure_count; ++k) sums_[k] += part[k];
          });
        });
      }
    }
  }
  void take(double const*& shared) {
    for (std::size_t k = 0; k < shared_measures(); ++k) sums_[k] = *shared++;
  }

  void apply(double given_scale) noexcept(Space::host_readable) {
    auto const scale = static_cast<T>(given_scale);
    auto const rule = [&] {
      if constexpr (measures) return state_->rule().finish(sums_, static_cast<std::int64_t>(state_->size()));
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
  void check_finite(int rank) const {
    if (auto const where = non_finite_element(state_->ops(), gradient_, 0))
      throw this->refusal(Errc::non_finite, rank, "of the gradient, " + *where);
  }
  // In memory of the update; zeros of a rank that has joined.
  void keep_gradient(bool joined) {
    kept_.resize_with_slack(state_->size());
    if (joined) state_->ops().clear(kept_.data(), kept_.size() * sizeof(T));
    else state_->ops().copy_bytes(kept_.data(), gradient_.data(), gradient_.size_bytes());
    gradient_ = kept_.span();
  }

  // Whether `whole` is of sums. Asked after all merging, for one update may make its bucket gather again.
  bool averages_late() const { return left_whole_ || bucket_->holds_sums(); }

  static constexpr bool measures = unit<typename S::optimizer_type> == Unit::tensor;
  static constexpr std::size_t tile_elements = 2048;  // averaged and applied while in cache
  static constexpr auto first_sums() {
    if constexpr (measures) return decltype(std::declval<S&>().measure(0, nullptr, 0, T{})){};
    else return Measures<0>{};
  }
  static constexpr std::size_t measure_count = decltype(first_sums())::count;

  // Where every rank has the whole, each measures its share of it.
  static std::span<T const> own_share(std::span<T const> whole, Topology<C> const& topology) {
    if (topology.owner() < 0) return {};
    std::size_t const begin = part_begin(whole.size(), topology.owner(), topology.owners());
    return whole.subspan(begin, part_begin(whole.size(), topology.owner() + 1, topology.owners()) - begin);
  }

  std::span<T const> gradient_;
  Buffer<T, Space> kept_;
  DenseBucket<T, C, Space>* bucket_ = nullptr;
  std::size_t segment_ = 0;
  bool left_whole_ = false;
  decltype(first_sums()) sums_{};
};

}  // namespace parallax::detail
