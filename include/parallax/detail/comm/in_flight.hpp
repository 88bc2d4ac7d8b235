// The token of an operation in flight, as communicators return it that know their operations by channel.
#pragma once

#include <utility>

namespace parallax::inline v0_2::detail {

// A move-only token on an operation of `End`, which it does not outlive. Models Request by the end's `progress(channel)`, true
// once the operation is complete, `waiting_for(channel)`, and `withdraw(channel)`.
template <class End>
class InFlight {
 public:
  // Complete, and of no end.
  InFlight() = default;
  // Refers to the end, which has posted an operation on the channel.
  InFlight(End* end, int channel) : end_{end}, channel_{channel} {}
  // `other` is complete afterwards, and withdraws nothing.
  InFlight(InFlight&& other) noexcept : end_{std::exchange(other.end_, nullptr)}, channel_{other.channel_} {}
  // Withdraws its former operation, unless complete.
  InFlight& operator=(InFlight&& other) noexcept {
    if (this != &other) {
      drop();
      end_ = std::exchange(other.end_, nullptr);
      channel_ = other.channel_;
    }
    return *this;
  }
  ~InFlight() { drop(); }

  // Moves the operation on; true once it is complete. Throws the errors of the end.
  bool test() {
    if (end_ && end_->progress(channel_)) end_ = nullptr;
    return !end_;
  }
  // Returns the rank that it waits for; -1 once complete.
  int waiting_for() const { return end_ ? end_->waiting_for(channel_) : -1; }

 private:
  // Withdraws the operation unless complete.
  void drop() noexcept {
    if (end_) end_->withdraw(channel_);
    end_ = nullptr;
  }

  End* end_ = nullptr;
  int channel_ = 0;
};

}  // namespace parallax::detail
