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
#include "parallax/detail/transport/mpi/job.hpp"

namespace parallax::inline v0_2::detail {

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

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED_MPI)
#include "parallax/detail/transport/mpi/mailbox-inl.hpp"
#endif
