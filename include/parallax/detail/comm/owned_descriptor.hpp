// A file descriptor that closes itself, for the headers of the room that call the system: sockets
// (detail/transport/socket/descriptor.hpp) and pipes (detail/launch/launcher.hpp).
#pragma once

#include <unistd.h>

#include <utility>

namespace parallax::inline v0_2::detail {

// Owns a file descriptor, or none.
class OwnedDescriptor {
 public:
  OwnedDescriptor() = default;
  explicit OwnedDescriptor(int number) : number_{number} {}
  OwnedDescriptor(OwnedDescriptor&& other) noexcept : number_{std::exchange(other.number_, -1)} {}
  OwnedDescriptor& operator=(OwnedDescriptor other) noexcept {
    std::swap(number_, other.number_);
    return *this;
  }
  ~OwnedDescriptor() { close(); }

  // Returns the system's number; -1 without a descriptor.
  int get() const { return number_; }
  // Returns true if there is one.
  explicit operator bool() const { return number_ >= 0; }
  // Gives the descriptor back to the system, if there is one.
  void close() {
    if (number_ >= 0) ::close(std::exchange(number_, -1));
  }

 private:
  int number_ = -1;
};

}  // namespace parallax::detail
