// Bodies of parallax/detail/transport/mpi/mailbox.hpp.
#pragma once

#include "parallax/detail/transport/mpi/mailbox.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE MpiMailbox::~MpiMailbox() { leave(); }

PARALLAX_INLINE void MpiMailbox::join(MPI_Comm comm, int first_tag, MailboxBounds const& bounds) {
  comm_ = comm;
  first_tag_ = first_tag;
  bounds_ = bounds;
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &size_);
  auto const ranks = static_cast<std::size_t>(size_);
  for (auto& letters : under_way_) letters.resize(ranks);
  for (auto& letters : incoming_) letters.resize(ranks);
}

PARALLAX_INLINE bool MpiMailbox::post(LetterLane lane, int to, LetterParts parts) {
  mpi_process.check(rank_, "post");
  check_letter(rank_, size_, to, parts, bounds_.largest);
  if (to == rank_) return own_[lane_index(lane)].post(parts, lane, bounds_.window);
  bool const request = lane == LetterLane::requests;
  Messages& under_way = under_way_[lane_index(lane)][static_cast<std::size_t>(to)];
  MpiErrorsAreReturned const returned;
  settle(under_way);
  if (request && under_way.size() >= static_cast<std::size_t>(bounds_.window)) return false;
  Message message;
  if (!spare_.empty()) {
    message.bytes = std::move(spare_.back());
    spare_.pop_back();
  }
  write_letter(message.bytes, parts);
  under_way.push_back(std::move(message));  // its memory does not move
  Message& sent = under_way.back();
  used_ = true;
  auto const send = request ? MPI_Issend : MPI_Isend;
  int const code = send(sent.bytes.data(), mpi_count(sent.bytes.size()), MPI_BYTE, to, tag(lane), comm_, &sent.request);
  if (code == MPI_SUCCESS) ++sending_;
  else under_way.pop_back();
  mpi_check(code, "post", to);
  return true;
}

PARALLAX_INLINE bool MpiMailbox::take(LetterLane lane, int from, Letter& letter) {
  mpi_process.check(rank_, "take");
  constexpr int looks = 4;
  check_writer(rank_, size_, from);
  if (from == rank_) return take_own(lane, letter);
  MpiErrorsAreReturned const returned;
  for (int look = 0; look < looks; ++look)
    if (from >= 0 ? receive(lane, from, letter) : receive_in_turn(lane, letter)) return true;
  return false;
}

PARALLAX_INLINE void MpiMailbox::send_off(std::chrono::nanoseconds at_most) {
  MpiErrorsAreReturned const returned;
  double const begin = MPI_Wtime();
  for (auto& lane : under_way_)
    for (Messages& to_one : lane)
      while (settle(to_one), !to_one.empty() && MPI_Wtime() - begin < std::chrono::duration<double>{at_most}.count()) rest();
}

PARALLAX_INLINE void MpiMailbox::move_on() {
  MpiErrorsAreReturned const returned;
  MPI_Status status;
  static_cast<void>(probe(LetterLane::requests, MPI_ANY_SOURCE, status));
  if (!sends()) return;
  for (auto& lane : under_way_)
    for (Messages& to_one : lane) settle(to_one);
}

PARALLAX_INLINE bool MpiMailbox::probe(LetterLane lane, int from, MPI_Status& status) const {
  int found = 0;
  mpi_check(MPI_Iprobe(from, tag(lane), comm_, &found, &status), "MPI_Iprobe", from == MPI_ANY_SOURCE ? -1 : from);
  return found != 0;
}

PARALLAX_INLINE bool MpiMailbox::test(Message& message) {
  int complete = 0;
  mpi_check(MPI_Test(&message.request, &complete, MPI_STATUS_IGNORE), "a letter");
  return complete != 0;
}

PARALLAX_INLINE void MpiMailbox::settle(Messages& under_way) {
  std::size_t gone = 0;
  while (gone < under_way.size() && test(under_way[gone])) ++gone;
  for (std::size_t i = 0; i < gone; ++i) spare_.push_back(std::move(under_way[i].bytes));
  sending_ -= gone;
  under_way.drop(0, gone);
}

PARALLAX_INLINE bool MpiMailbox::take_own(LetterLane lane, Letter& letter) {
  if (!own_[lane_index(lane)].take(letter.bytes)) return false;
  letter.from = rank_;
  return true;
}

PARALLAX_INLINE bool MpiMailbox::receive(LetterLane lane, int from, Letter& letter) {
  Message& message = incoming_[lane_index(lane)][static_cast<std::size_t>(from)];
  if (message.request == MPI_REQUEST_NULL) {
    MPI_Status status;
    if (!probe(lane, from, status)) return false;
    used_ = true;
    int bytes = 0;
    MPI_Get_count(&status, MPI_BYTE, &bytes);
    message.bytes.resize(static_cast<std::size_t>(bytes));
    mpi_check(MPI_Irecv(message.bytes.data(), bytes, MPI_BYTE, from, tag(lane), comm_, &message.request), "take", from);
    ++begun_[lane_index(lane)];
  }
  if (!test(message)) return false;
  --begun_[lane_index(lane)];
  message.bytes.swap(letter.bytes);
  letter.from = from;
  return true;
}

PARALLAX_INLINE bool MpiMailbox::receive_in_turn(LetterLane lane, Letter& letter) {
  constexpr int looks = 8;
  auto const at = lane_index(lane);
  MPI_Status status;
  bool const arrived = probe(lane, MPI_ANY_SOURCE, status);
  if (!arrived && begun_[at] == 0 && own_[at].empty()) return false;
  for (int k = 0; k < std::min(looks, size_); ++k) {
    int const from = turns_[at];
    turns_[at] = (from + 1) % size_;
    if (from == rank_ ? take_own(lane, letter) : receive(lane, from, letter)) return true;
  }
  return (arrived && receive(lane, status.MPI_SOURCE, letter)) || take_own(lane, letter);
}

PARALLAX_INLINE void MpiMailbox::leave() noexcept {
  constexpr double patience = 1;  // seconds
  bool const usable = !mpi_job_is_ending && mpi_is_usable();
  if (usable && begun_ != decltype(begun_){}) {
    MpiErrorsAreReturned const returned;
    for (double const begin = MPI_Wtime(); incomplete() && MPI_Wtime() - begin < patience;) rest();
  }
  each([&](Message& message) {
    if (message.request == MPI_REQUEST_NULL) return;
    if (usable) MPI_Request_free(&message.request);
    mpi_letters_left.push_back(std::move(message.bytes));
  });
}

PARALLAX_INLINE bool MpiMailbox::incomplete() noexcept {
  bool any = false;
  for (Messages& lane : incoming_)
    for (Message& message : lane) {
      int complete = 1;
      if (message.request == MPI_REQUEST_NULL) continue;
      any = (MPI_Test(&message.request, &complete, MPI_STATUS_IGNORE) == MPI_SUCCESS && !complete) || any;
    }
  return any;
}

PARALLAX_INLINE MpiJournals::~MpiJournals() { MpiDebts::leave(journal); }

PARALLAX_INLINE void MpiJournals::join(MPI_Comm comm, int first_tag, std::chrono::nanoseconds deadline) {
  constexpr MailboxBounds bounds{.window = 1, .largest = sizeof(RankStatus)};
  mailbox_.join(comm, first_tag, bounds);
  int size = 0;
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &size);
  heard_.resize(static_cast<std::size_t>(size));
  asked_.resize(static_cast<std::size_t>(size));
  answered_.resize(static_cast<std::size_t>(size));
  MpiDebts::enter(journal, rank_, deadline);
}

PARALLAX_INLINE std::optional<RankStatus> MpiJournals::status_of(int other, bool& fresh) {
  if (other == rank_) return journal.status();
  auto const at = static_cast<std::size_t>(other);
  if (!std::exchange(asked_[at], 1)) {
    answered_[at] = 0;
    tell(LetterLane::requests, other);
  }
  fresh = answered_[at];
  return fresh || paused(at) ? heard_[at] : std::nullopt;
}

PARALLAX_INLINE void MpiJournals::answer() {
  while (hear(LetterLane::requests)) tell(LetterLane::answers, letter_.from);
  while (hear(LetterLane::answers)) {}
}

PARALLAX_INLINE void MpiJournals::announce() {
  if (mpi_job_is_ending) return;
  for (std::size_t other = 0; other < heard_.size(); ++other)
    if (static_cast<int>(other) != rank_) tell(LetterLane::answers, static_cast<int>(other));
  mailbox_.send_off(std::chrono::seconds{1});
}

PARALLAX_INLINE std::chrono::nanoseconds MpiJournals::longest_pause() {
  answer();
  std::int64_t longest = 0;
  for (std::size_t other = 0; other < heard_.size(); ++other)
    if (paused(other)) longest = std::max(longest, heard_[other]->pause);
  return std::chrono::nanoseconds{longest};
}

PARALLAX_INLINE void MpiJournals::tell(LetterLane lane, int other) {
  RankStatus const own = journal.status();
  std::span<std::byte const> const part = std::as_bytes(std::span{&own, 1});
  mailbox_.post(lane, other, {&part, 1});
}

PARALLAX_INLINE bool MpiJournals::hear(LetterLane lane) {
  if (!mailbox_.take(lane, -1, letter_)) return false;
  RankStatus told;
  if (letter_.bytes.size() == sizeof told) std::memcpy(&told, letter_.bytes.data(), sizeof told);
  auto const late = static_cast<std::int64_t>(MPI_Wtime() * 1e9) - told.told;  // as if its clock were ours
  for (JournalEntry& entry : told.last) entry.began += late, entry.changed += late;
  told.told += late;
  heard_[static_cast<std::size_t>(letter_.from)] = told;
  answered_[static_cast<std::size_t>(letter_.from)] = 1;
  return true;
}

}  // namespace parallax::detail
