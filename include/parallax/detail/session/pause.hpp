// `Session::pause`: a rank announces that others will wait for it. The session makes a Pause, and the trainer holds it.
#pragma once

#include <cstdint>
#include <string_view>
#include <utility>

#include "parallax/comm/any.hpp"

namespace parallax::inline v0_2 {

// Result of `Session::pause`. While it lives, other ranks know that this one is busy. The session must outlive the Pause.
class Pause {
 public:
  // Takes the pause over: the source of the move ends nothing.
  Pause(Pause&& other) noexcept : world_{std::exchange(other.world_, nullptr)} {}
  Pause& operator=(Pause&&) = delete;
  // Local. Tells the other ranks that the pause is over. Drops the communicator's exceptions.
  ~Pause() {
    if (!world_) return;
    try {
      tell({}, 0);
    } catch (...) {  // waiting ranks hear of it from the end of the communicator
    }
  }

 private:
  template <class>
  friend class Session;

  // Local; by `Session::pause`. Writes the pause into this rank's journal, and announces it to other ranks. `what`: cut to 15
  // letters. Throws Error: invalid_argument for a time that is not positive, misuse if this rank is in a pause already.
  Pause(AnyCommunicator& world, std::string_view what, std::chrono::nanoseconds at_most) : world_{&world} {
    auto const refuse = [&](Errc code, char const* why) { throw Error{code, world.rank(), "pause", "", why}; };
    if (at_most.count() <= 0) refuse(Errc::invalid_argument, "a pause lasts longer than nothing");
    if (world.journal().status().pause > 0) refuse(Errc::misuse, "this rank is in a pause already");
    try {
      tell(what, at_most.count());
    } catch (...) {  // nobody was told
      world.journal().pause({}, 0, world.now().count());
      throw;
    }
  }
  void tell(std::string_view what, std::int64_t at_most) {
    world_->journal().pause(what, at_most, world_->now().count());
    if (world_->size() > 1) world_->announce();
  }

  AnyCommunicator* world_;
};

}  // namespace parallax
