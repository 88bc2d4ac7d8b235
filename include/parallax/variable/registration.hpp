// How a variable is known to its session: a signature that the ranks compare, and no way back to the variable.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "parallax/core/error.hpp"
#include "parallax/core/fields.hpp"

namespace parallax {

// Shared by a variable and its session; a registration that only the session holds belongs to a variable that is gone.
struct Registration {
  std::string name;
  std::string signature;  // kind, shape, types, policy, partitioner, reduction
  void const* session = nullptr;
  int rank = 0;
  int flights = 0;  // updates and handles that still refer to the variable

  std::uint64_t hash() const {
    Fingerprint h;
    h.add(std::string_view{name});
    h.add(std::string_view{signature});
    return h.value();
  }
};

using RegistrationPtr = std::shared_ptr<Registration>;

// A claim on a variable by an operation in flight or a handle; the variable must not be destroyed before it.
class Claim {
 public:
  Claim() = default;
  explicit Claim(RegistrationPtr registration) : registration_{std::move(registration)} { ++registration_->flights; }
  Claim(Claim&& other) noexcept = default;
  Claim& operator=(Claim&& other) noexcept {
    release();
    registration_ = std::move(other.registration_);
    return *this;
  }
  ~Claim() { release(); }
  void release() noexcept {
    if (registration_) --registration_->flights;
    registration_.reset();
  }

 private:
  RegistrationPtr registration_;
};

}  // namespace parallax
