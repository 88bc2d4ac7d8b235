// A policy's unsent rest of gradients, kept with a variable from step to step: for policies that send less than they are given
// (error feedback). A way of such a policy calls it in `prepare`, and again when the step ends.
#pragma once

#include <cstddef>
#include <span>
#include <utility>

#include "parallax/core/archive.hpp"
#include "parallax/core/error.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/memory/buffer.hpp"

namespace parallax::inline v0_2 {

PARALLAX_STRICT_ARITHMETIC_BEGIN

// Owns the rest; in the host's memory: two arrays of as many elements as a gradient. Stands as `memory<State>` in a policy's
// exchange: the step tells it of its end, applied or not. Until then the rest before the step is kept, so a refused or skipped
// step gives it back.
template <class T>
class Residual {
 public:
  // Returns the sum of the rest and this gradient, from which the way takes out its sent part. Local, for `prepare`; allocates,
  // O(elements). A second update of one step begins with the rest of the first. The span is this object's, valid until the next
  // `add`. Throws std::bad_alloc; Error (invalid_argument), with no change, for a gradient of another size than the rest.
  std::span<T> add(std::span<T const> gradient) {
    if (kept_.size() != gradient.size() && kept_.size() > 0)
      throw Error{Errc::invalid_argument, -1, "step", "",
                  joined({"what is left to be sent is of ", kept_.size(), " elements, the gradient is of ", gradient.size()})};
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
  // Keeps the rest left in the span of `add`, for the next step. Local: the step was applied. Does nothing without an `add`.
  void settled() noexcept {
    if (std::exchange(taken_, false)) kept_.swap(next_);
  }
  // Keeps the rest before the step, and forgets the sum of `add`. Local: the step was not applied.
  void refused() noexcept { taken_ = false; }

  // Shows an archive each rank's own rest; a reading one gives it the saved length. Throws the archive's errors.
  template <class Items>
  void visit(Items& items) {
    std::uint64_t size = kept_.size();
    items.number("residual.length", size, Share::own);
    auto const rows = static_cast<std::int64_t>(size);
    if constexpr (Items::reads) {
      items.in_calls(size, [&](std::size_t begin, std::size_t end) {
        if (kept_.size() < end) grow(std::min<std::size_t>(size, 2 * end));
        items.rows("residual", kept_.data() + begin, rows, 1, Share::own, static_cast<std::int64_t>(end - begin),
                   [&](std::int64_t i) { return static_cast<std::int64_t>(begin) + i; });
      });
      kept_.resize(static_cast<std::size_t>(size));
    } else {
      items.whole("residual", kept_.data(), rows, 1, Share::own);
    }
  }

  // Returns the rest as of the last applied step, valid until the next `settled`; empty before the first `add`.
  std::span<T const> values() const { return kept_.span(); }

 private:
  // Makes `kept_` `size` elements: its own come first, the new ones have any values.
  void grow(std::size_t size) {
    Buffer<T> larger{size};
    std::copy_n(kept_.data(), kept_.size(), larger.data());
    kept_.swap(larger);
  }

  // As of the last applied step, and as the step at hand would leave it.
  Buffer<T> kept_, next_;
  bool taken_ = false;  // `next_` holds the next rest
};

PARALLAX_STRICT_ARITHMETIC_END

}  // namespace parallax
