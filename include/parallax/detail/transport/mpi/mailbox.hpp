// Letters between MPI processes: the mailbox of MpiCommunicator, and that by which ranks that wait ask for journals.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <iterator>
#include <utility>
#include <vector>

#include "parallax/detail/comm/letter_queue.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/clock.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/transport/mpi/bodies.hpp"
#include "parallax/detail/transport/mpi/job.hpp"

namespace parallax::detail {

// Letters that were under way when their communicator went: MPI may use their memory until the job ends.
inline List<std::vector<std::byte>> mpi_letters_left;

// Two lanes on two tags of a communicator, which several mailboxes with tags of their own may share. Does not own the
// communicator. A request is sent synchronously: it is complete once its receiver has begun to take it, which is the credit for
// another one; so MPI keeps no letters that nobody wants, at neither end, but for `window` small ones. What a rank writes to
// itself does not pass through MPI.
class MpiMailbox {
 public:
  MpiMailbox() = default;
  MpiMailbox(MpiMailbox const&) = delete;
  MpiMailbox& operator=(MpiMailbox const&) = delete;
  ~MpiMailbox();

  // Called once, before anything else, with the same tags and bounds on all ranks: requests have `first_tag`, and answers the
  // next.
  void join(MPI_Comm comm, int first_tag, MailboxBounds const& bounds);
  // As `join` was given.
  MailboxBounds const& bounds() const { return bounds_; }

  // Whether a letter went out or came in: then one may be under way until the job ends.
  bool used() const { return used_; }

  // As Mailbox has it. Settles what has gone to that rank, so that its memory is used again.
  bool post(LetterLane lane, int to, LetterParts parts);

  // A probe that finds nothing may have just brought a letter in: so it looks again.
  // As Mailbox has it; a letter that has begun to come is waited for by coming again.
  bool take(LetterLane lane, int from, Letter& letter);

  // Whether letters were under way when that was last looked at: then their writer has to be at MPI for them to arrive.
  bool sends() const { return sending_ > 0; }
  // Waits for what was posted to be gone, so long at most.
  void send_off(std::chrono::nanoseconds at_most);

  // Moves MPI on, and with it all that is under way.
  void move_on();

 private:
  // The memory stays where it is when the message is moved.
  // A letter under way, out or in; of none, the request is MPI_REQUEST_NULL.
  struct Message {
    MPI_Request request = MPI_REQUEST_NULL;
    std::vector<std::byte> bytes;
  };
  using Messages = List<Message>;

  // The place of a lane in what is kept by lane.
  static std::size_t lane_index(LetterLane lane) { return static_cast<std::size_t>(lane); }
  int tag(LetterLane lane) const { return first_tag_ + static_cast<int>(lane); }

  // Whether a letter of that rank, or of any, has come that nobody has begun to take. Moves MPI on.
  bool probe(LetterLane lane, int from, MPI_Status& status) const;
  // Whether a message is over, which makes its request null.
  static bool test(Message& message);

  // Takes back the memory of the letters that have gone: to one rank on one lane they go in order.
  void settle(Messages& under_way);

  // What this rank wrote to itself.
  bool take_own(LetterLane lane, Letter& letter);
  // A large letter may take its time, in which the writer must be at MPI as well: it is waited for by coming again.
  bool receive(LetterLane lane, int from, Letter& letter);
  // Looks at a few ranks in turn, then at who came first; where nothing is there, at none.
  bool receive_in_turn(LetterLane lane, Letter& letter);

  // What has begun to come is waited for, within reason: MPI_Finalize of its writer would hang for the rest of it. What has not
  // gone, or not come whole, is MPI's until the job ends.
  // Called by the destructor.
  void leave() noexcept;
  // Whether a letter that has begun to come is not whole.
  bool incomplete() noexcept;
  // All messages, those out and those in.
  template <class Visit>
  void each(Visit const& visit) {
    for (auto& lane : under_way_)
      for (Messages& to_one : lane) std::for_each(to_one.begin(), to_one.end(), visit);
    for (auto& lane : incoming_) std::for_each(lane.begin(), lane.end(), visit);
  }

  MPI_Comm comm_ = MPI_COMM_NULL;
  int first_tag_ = 0, rank_ = 0, size_ = 1;
  bool used_ = false;
  std::size_t sending_ = 0;  // letters in `under_way_`
  MailboxBounds bounds_;
  std::array<List<Messages>, 2> under_way_;  // by lane and receiver
  std::array<Messages, 2> incoming_;      // by lane and writer: the letter that has begun to come
  std::array<int, 2> begun_{}, turns_{};  // by lane: how many of those there are; who is looked at first
  std::array<LetterQueue, 2> own_;
  List<std::vector<std::byte>> spare_;  // memory of letters that have gone
};

#if PARALLAX_MPI_BODIES
PARALLAX_MPI_INLINE MpiMailbox::~MpiMailbox() { leave(); }

PARALLAX_MPI_INLINE void MpiMailbox::join(MPI_Comm comm, int first_tag, MailboxBounds const& bounds) {
  comm_ = comm;
  first_tag_ = first_tag;
  bounds_ = bounds;
  MPI_Comm_rank(comm, &rank_);
  MPI_Comm_size(comm, &size_);
  auto const ranks = static_cast<std::size_t>(size_);
  for (auto& letters : under_way_) letters.resize(ranks);
  for (auto& letters : incoming_) letters.resize(ranks);
}

PARALLAX_MPI_INLINE bool MpiMailbox::post(LetterLane lane, int to, LetterParts parts) {
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
  under_way.push_back(std::move(message));  // whose memory stays where it is
  Message& sent = under_way.back();
  used_ = true;
  auto const send = request ? MPI_Issend : MPI_Isend;
  int const code = send(sent.bytes.data(), mpi_count(sent.bytes.size()), MPI_BYTE, to, tag(lane), comm_, &sent.request);
  if (code == MPI_SUCCESS) ++sending_;
  else under_way.pop_back();
  mpi_check(code, "post", to);
  return true;
}

PARALLAX_MPI_INLINE bool MpiMailbox::take(LetterLane lane, int from, Letter& letter) {
  mpi_process.check(rank_, "take");
  constexpr int looks = 4;
  check_writer(rank_, size_, from);
  if (from == rank_) return take_own(lane, letter);
  MpiErrorsAreReturned const returned;
  for (int look = 0; look < looks; ++look)
    if (from >= 0 ? receive(lane, from, letter) : receive_in_turn(lane, letter)) return true;
  return false;
}

PARALLAX_MPI_INLINE void MpiMailbox::send_off(std::chrono::nanoseconds at_most) {
  MpiErrorsAreReturned const returned;
  double const begin = MPI_Wtime();
  for (auto& lane : under_way_)
    for (Messages& to_one : lane)
      while (settle(to_one), !to_one.empty() && MPI_Wtime() - begin < std::chrono::duration<double>{at_most}.count()) rest();
}

PARALLAX_MPI_INLINE void MpiMailbox::move_on() {
  MpiErrorsAreReturned const returned;
  MPI_Status status;
  static_cast<void>(probe(LetterLane::requests, MPI_ANY_SOURCE, status));
  if (!sends()) return;
  for (auto& lane : under_way_)
    for (Messages& to_one : lane) settle(to_one);
}

PARALLAX_MPI_INLINE bool MpiMailbox::probe(LetterLane lane, int from, MPI_Status& status) const {
  int found = 0;
  mpi_check(MPI_Iprobe(from, tag(lane), comm_, &found, &status), "MPI_Iprobe", from == MPI_ANY_SOURCE ? -1 : from);
  return found != 0;
}

PARALLAX_MPI_INLINE bool MpiMailbox::test(Message& message) {
  int complete = 0;
  mpi_check(MPI_Test(&message.request, &complete, MPI_STATUS_IGNORE), "a letter");
  return complete != 0;
}

PARALLAX_MPI_INLINE void MpiMailbox::settle(Messages& under_way) {
  std::size_t gone = 0;
  while (gone < under_way.size() && test(under_way[gone])) ++gone;
  for (std::size_t i = 0; i < gone; ++i) spare_.push_back(std::move(under_way[i].bytes));
  sending_ -= gone;
  under_way.drop(0, gone);
}

PARALLAX_MPI_INLINE bool MpiMailbox::take_own(LetterLane lane, Letter& letter) {
  if (!own_[lane_index(lane)].take(letter.bytes)) return false;
  letter.from = rank_;
  return true;
}

PARALLAX_MPI_INLINE bool MpiMailbox::receive(LetterLane lane, int from, Letter& letter) {
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

PARALLAX_MPI_INLINE bool MpiMailbox::receive_in_turn(LetterLane lane, Letter& letter) {
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

PARALLAX_MPI_INLINE void MpiMailbox::leave() noexcept {
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

PARALLAX_MPI_INLINE bool MpiMailbox::incomplete() noexcept {
  bool any = false;
  for (Messages& lane : incoming_)
    for (Message& message : lane) {
      int complete = 1;
      if (message.request == MPI_REQUEST_NULL) continue;
      any = (MPI_Test(&message.request, &complete, MPI_STATUS_IGNORE) == MPI_SUCCESS && !complete) || any;
    }
  return any;
}
#endif

}  // namespace parallax::detail
