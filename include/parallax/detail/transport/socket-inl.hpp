// Bodies of parallax/comm/socket.hpp.
#pragma once

#include "parallax/comm/socket.hpp"

namespace parallax::inline v0_2 {

PARALLAX_INLINE SocketListener::SocketListener(std::string_view address) {
  auto const addresses = detail::addresses_of(detail::split_address(address));
  if (addresses.empty())
    throw Error{Errc::invalid_argument, -1, "SocketListener", "", joined({"nobody knows the address '", address, "'"})};
  socket_ = detail::listening_socket(addresses[0]);
}

PARALLAX_INLINE SocketCommunicator::Request SocketCommunicator::ialltoallv(int channel, Transfer const& transfer) {
  end_->post(channel, transfer);
  return {end_.get(), channel};
}

}  // namespace parallax

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE char const* sockets_claim(Environment variable) {
  char const* const rank = rank_claims(variable);
  return rank ? rank : pmi_claims(variable);
}

PARALLAX_INLINE int join_by_sockets(int&, char**&, RunOptions const& options, FunctionRef<int(JoinedWorld&)> body) {
  SocketOptions chosen;
  try {
    chosen = socket_options_from_environment().value();
    chosen.deadline = options.deadline;
    SocketCommunicator own{chosen};
    ::unsetenv("PARALLAX_JOB_KEY");  // children of the body need not know it
    try {
      JoinedWorld world{own};
      return body(world);
    } catch (...) {
      own.abort(current_error(chosen.rank, "the training of a rank"));
      throw;
    }
  } catch (...) {
    return end_by(chosen.rank, current_error(chosen.rank, "the training of a rank"));
  }
}

}  // namespace parallax::detail
