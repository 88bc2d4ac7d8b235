// Bodies of parallax/comm/communicator.hpp.
#pragma once

#include "parallax/comm/communicator.hpp"

namespace parallax::inline v0_2 {

PARALLAX_INLINE Error busy_channel(int rank, std::string_view operation, int channel) {
  return {Errc::misuse, rank, operation, "",
          joined({"an operation is in flight on channel ", channel,
                  ": two sessions, or two threads, use this communicator at once; each needs one of its own"})};
}

PARALLAX_INLINE void check_channel(int rank, std::string_view operation, int channel) {
  if (channel < 0 || channel >= channels)
    throw Error{Errc::invalid_argument, rank, operation, "", joined({"there is no channel ", channel})};
}
PARALLAX_INLINE void check_lists(int rank, int size, std::string_view operation, Transfer const& transfer) {
  auto const ranks = static_cast<std::size_t>(size);
  if (transfer.to.size() != ranks || transfer.from.size() != ranks)
    throw Error{Errc::invalid_argument, rank, operation, "", "the lists of blocks need one entry per rank"};
}

}  // namespace parallax
