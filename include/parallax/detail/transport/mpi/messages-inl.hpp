// Bodies of parallax/detail/transport/mpi/messages.hpp.
#pragma once

#include "parallax/detail/transport/mpi/messages.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE void MpiMessages::join(MPI_Comm comm, std::size_t largest) {
  comm_ = comm;
  largest_ = largest;
  MPI_Comm_rank(comm, &rank_);
  int* limit = nullptr;
  int found = 0;
  mpi_check(MPI_Comm_get_attr(comm, MPI_TAG_UB, static_cast<void*>(&limit), &found), "MPI_Comm_get_attr");
  if (found) tags_per_channel_ = (static_cast<std::uint64_t>(*limit) + 1) / mpi_tags;
}

PARALLAX_INLINE void MpiMessages::send(int channel, std::uint64_t number, int peer, std::byte const* from, std::size_t bytes) {
  each_chunk(channel, number, peer, bytes, false, [&](std::size_t begin, int count, int tag, MPI_Request* request) {
    return MPI_Isend(from + begin, count, MPI_BYTE, peer, tag, comm_, request);
  });
}

PARALLAX_INLINE void MpiMessages::receive(int channel, std::uint64_t number, int peer, std::byte* to, std::size_t bytes) {
  each_chunk(channel, number, peer, bytes, true, [&](std::size_t begin, int count, int tag, MPI_Request* request) {
    return MPI_Irecv(to + begin, count, MPI_BYTE, peer, tag, comm_, request);
  });
}

PARALLAX_INLINE bool MpiMessages::progress(int channel) {
  constexpr int looks = 16;  // also at one message alone: the library moves others as well
  auto& [messages, next] = of(channel);
  MpiErrorsAreReturned const returned;
  for (int missing = 0; !messages.empty();) {
    if (next >= messages.size()) next = 0;
    int complete = 0;
    MPI_Status status;
    int const code = MPI_Test(&messages[next].request, &complete, &status);
    if (code == MPI_SUCCESS && !complete) {
      next = (next + 1) % messages.size();
      if (++missing >= looks) return false;
      continue;
    }
    Message const done = std::exchange(messages[next], messages.back());
    messages.pop_back();
    --in_flight_;
    finish(done, code, status);
  }
  return true;
}

PARALLAX_INLINE int MpiMessages::waiting_for(int channel) const {
  auto const& messages = of(channel).messages;
  if (messages.empty()) return -1;
  for (Message const& message : messages)
    if (message.receive) return message.peer;
  return messages.front().peer;
}

PARALLAX_INLINE void MpiMessages::cancel(int channel) noexcept {
  for (Message& message : of(channel).messages)
    if (message.receive) MPI_Cancel(&message.request);
}

PARALLAX_INLINE int MpiMessages::forget(int channel) noexcept {
  auto& messages = of(channel).messages;
  MpiErrorsAreReturned const returned;
  for (; !messages.empty(); messages.pop_back(), --in_flight_) {
    int complete = 0;
    int const code = MPI_Test(&messages.back().request, &complete, MPI_STATUS_IGNORE);
    if (!complete && code == MPI_SUCCESS) return messages.back().peer;
  }
  return -1;
}

PARALLAX_INLINE void MpiMessages::disagree(int peer, std::string const& sent, std::size_t expected) const {
  mpi_fail({Errc::mismatch, peer, "ialltoallv", "",
            "rank " + std::to_string(peer) + " sent " + sent + " bytes where " + std::to_string(expected) +
                " were expected by rank " + std::to_string(rank_)});
}

PARALLAX_INLINE MPI_Request* MpiMessages::add(int channel, Message const& message) {
  of(channel).messages.push_back(message);
  ++in_flight_;
  return &of(channel).messages.back().request;
}

PARALLAX_INLINE void MpiMessages::finish(Message const& message, int code, MPI_Status const& status) const {
  if (code != MPI_SUCCESS) {
    int kind = MPI_ERR_OTHER;
    MPI_Error_class(code, &kind);
    if (kind == MPI_ERR_TRUNCATE && message.receive)
      disagree(message.peer, "more than " + std::to_string(message.block), message.block);
    mpi_check(code, message.peer < 0 ? "iallreduce" : "ialltoallv", message.peer);
  }
  if (!message.receive) return;
  int bytes = 0;
  MPI_Get_count(&status, MPI_BYTE, &bytes);
  if (bytes != message.bytes)
    disagree(message.peer, std::to_string(message.begin + static_cast<std::size_t>(bytes)), message.block);
}

}  // namespace parallax::detail

namespace parallax::inline v0_2 {

PARALLAX_INLINE MpiBareSums::MpiBareSums(MPI_Comm comm) {
  int code = MPI_Comm_dup(comm, &comm_);
  if (code == MPI_SUCCESS) code = MPI_Comm_set_errhandler(comm_, MPI_ERRORS_ARE_FATAL);
  if (code != MPI_SUCCESS) throw detail::mpi_error(code, -1, "MPI_Comm_dup");
}

PARALLAX_INLINE MpiBareSums::~MpiBareSums() {
  if (comm_ != MPI_COMM_NULL && detail::mpi_is_usable() && !detail::mpi_job_is_ending) MPI_Comm_free(&comm_);
}

PARALLAX_INLINE bool MpiBareSums::test(Request& request) {
  int complete;
  MPI_Test(&request, &complete, MPI_STATUS_IGNORE);
  return complete != 0;
}

}  // namespace parallax
