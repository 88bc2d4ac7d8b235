// What a policy has not sent of gradients yet, kept with a variable from step to step: for policies that send less than they are
// given (error feedback).
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "parallax/core/algorithm.hpp"
#include "parallax/core/archive.hpp"
#include "parallax/memory/buffer.hpp"

namespace parallax {

// Owns it; in the host's memory. Stands as `memory<State>` in a policy's exchange: the step tells it whether it was applied. Until
// then what was left before the step is kept, so that a step that is refused or skipped gives it back.
template <class T>
class Residual {
 public:
  // Local, may throw. By a way's `prepare`: the sum of what is left and this gradient, as many elements, from which the way takes
  // out what it sends. Of two updates of one step the second begins with what the first has left.
  std::span<T> add(std::span<T const> gradient) {
    if (kept_.size() != gradient.size()) {
      kept_.resize(gradient.size());
      std::fill_n(kept_.data(), kept_.size(), T{0});
    }
    next_.resize(gradient.size());
    if (!taken_) std::copy_n(kept_.data(), kept_.size(), next_.data());
    taken_ = true;
    for (std::size_t i = 0; i < gradient.size(); ++i) next_[i] += gradient[i];
    return next_.span();
  }
  // Local, noexcept: the step was applied, or was not.
  void settled() noexcept {
    if (std::exchange(taken_, false)) kept_.swap(next_);
  }
  void refused() noexcept { taken_ = false; }

  // Shown to an archive, each rank's own (core/archive.hpp).
  template <class Items>
  void visit(Items& items) {
    std::uint64_t size = kept_.size();
    items.number("residual.length", size, Share::own);
    if constexpr (Items::reads) kept_.resize(static_cast<std::size_t>(size));
    items.whole("residual", kept_.data(), static_cast<std::int64_t>(size), 1, Share::own);
  }

  // As of the last step that was applied; empty before the first.
  std::span<T const> values() const { return kept_.span(); }

 private:
  Buffer<T> kept_, next_;
  bool taken_ = false;  // `next_` holds what will be left
};

}  // namespace parallax
