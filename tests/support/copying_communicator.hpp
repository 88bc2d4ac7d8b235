// A communicator that passes everything on but does not lend: what goes through its ranks' memory is copied.
#pragma once

#include <chrono>

#include "parallax/comm/communicator.hpp"

namespace parallax_test {

// One rank's end. Refers to the communicator inside, which must outlive it.
template <parallax::Communicator C>
class CopyingCommunicator {
 public:
  explicit CopyingCommunicator(C& inside) : inside_{&inside} {}

  int rank() const { return inside_->rank(); }
  int size() const { return inside_->size(); }
  std::chrono::nanoseconds deadline() const { return inside_->deadline(); }
  bool shares_memory(int one, int other) const { return inside_->shares_memory(one, other); }
  auto ialltoallv(int channel, parallax::Transfer const& transfer) { return inside_->ialltoallv(channel, transfer); }
  void abort(parallax::Error const& reason) { inside_->abort(reason); }

 private:
  C* inside_;
};

}  // namespace parallax_test
