// Letters between MPI processes: the mailbox of MpiCommunicator, and the journals of waiting ranks, told by letters to all who
// ask. An MpiEndpoint owns one of each, and MpiCommunicator answers for Mailbox, KeepsJournals and AnnouncesPauses by them.
#pragma once

#include <mpi.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <utility>
#include <vector>

#include "parallax/detail/comm/journal.hpp"
#include "parallax/detail/comm/letter_queue.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/clock.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/transport/mpi/job.hpp"

namespace parallax::inline v0_2::detail {

// Letters under way at the end of their communicator: MPI may use their memory until the job ends.
inline List<std::vector<std::byte>> mpi_letters_left;

// Two lanes on two tags of a communicator. Several mailboxes with tags of their own may share the communicator; none owns it. A
// request is sent synchronously: it is complete once its receiver has begun to take it, the credit for another one; so MPI
// keeps no unwanted letters, at neither end, but for `window` small ones. A rank's letters to itself do not pass through MPI.
class MpiMailbox {
 public:
  MpiMailbox() = default;
  MpiMailbox(MpiMailbox&&) = delete;
  ~MpiMailbox();

  // Called once, before anything else, with the same tags and bounds on all ranks: requests have `first_tag`, answers the next.
  void join(MPI_Comm comm, int first_tag, MailboxBounds const& bounds);
  // Returns the bounds given to `join`.
  MailboxBounds const& bounds() const { return bounds_; }

  // Returns true if a letter went out or came in: then one may be under way until the job ends.
  bool used() const { return used_; }

  // Posts like Mailbox. Settles the letters gone to that rank, so their memory is used again.
  bool post(LetterLane lane, int to, LetterParts parts);

  // Takes like Mailbox. A probe that finds nothing may have just brought a letter in: so it looks again. For the rest of a
  // letter the caller comes again.
  bool take(LetterLane lane, int from, Letter& letter);

  // Returns true if letters were under way at the last look: then their writer has to be at MPI for them to arrive.
  bool sends() const { return sending_ > 0; }
  // Waits for posted letters to be gone, so long at most.
  void send_off(std::chrono::nanoseconds at_most);

  // Moves MPI on, and with it all letters under way.
  void move_on();

 private:
  // A letter under way, out or in; of none, the request is MPI_REQUEST_NULL. Its memory stays in place when it is moved.
  struct Message {
    MPI_Request request = MPI_REQUEST_NULL;
    std::vector<std::byte> bytes;
  };
  using Messages = List<Message>;

  // Returns the index of a lane in arrays by lane.
  static std::size_t lane_index(LetterLane lane) { return static_cast<std::size_t>(lane); }
  int tag(LetterLane lane) const { return first_tag_ + static_cast<int>(lane); }

  // Returns true if a letter of that rank, or of any, has come and nobody has begun to take it. Moves MPI on.
  bool probe(LetterLane lane, int from, MPI_Status& status) const;
  // Returns true if a message is over; its request is then null.
  static bool test(Message& message);

  // Takes back the memory of the letters that have gone: to one rank on one lane they go in order.
  void settle(Messages& under_way);

  // Takes a letter of this rank to itself.
  bool take_own(LetterLane lane, Letter& letter);
  // Receives a letter. A large one may take its time, with the writer at MPI as well: the caller comes again.
  bool receive(LetterLane lane, int from, Letter& letter);
  // Looks at a few ranks in turn, then at the first to come; without letters, at none.
  bool receive_in_turn(LetterLane lane, Letter& letter);

  // Waits, within reason, for the rest of begun letters: MPI_Finalize of their writers would hang for it. Letters that have not
  // gone, or not come whole, are MPI's until the job ends. Called by the destructor.
  void leave() noexcept;
  // Returns true if a letter has begun to come and is not whole.
  bool incomplete() noexcept;
  // Visits all messages, those out and those in.
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
  std::array<Messages, 2> incoming_;         // by lane and writer: the letter in arrival
  std::array<int, 2> begun_{}, turns_{};     // by lane: letters in arrival; the rank to look at first
  std::array<LetterQueue, 2> own_;
  List<std::vector<std::byte>> spare_;  // memory of letters already gone
};

// This rank's journal, and the others' as told by them. A rank tells its own as it asks; only a rank about to give up asks, so
// the letters of a job are few.
class MpiJournals {
 public:
  MpiJournals() = default;
  MpiJournals(MpiJournals&&) = delete;
  ~MpiJournals();

  // This rank's own. While it is open, the process owes its peers a `finish`: see MpiDebts.
  Journal journal;

  // Local. Called once, before anything else, with the same tag on all ranks, and the communicator's deadline. Uses two tags.
  void join(MPI_Comm comm, int first_tag, std::chrono::nanoseconds deadline);
  // Returns true if letters were written or read, like MpiMailbox.
  bool used() const { return mailbox_.used(); }

  // Asks another rank once; returns its answer so far, or its announcement. `fresh`: set if this is its answer to the question.
  // Local. Times are of this rank's clock. For this rank itself `fresh` is left alone.
  std::optional<RankStatus> status_of(int other, bool& fresh);
  // Takes in all that has come, and answers.
  void answer();

  // Announces a pause, and waits a moment for the letters to go: the rank may be away from MPI afterwards.
  void announce();
  // Takes in all that has come, and answers; returns the longest of the announced pauses.
  std::chrono::nanoseconds longest_pause();

 private:
  // Returns true if that rank has last announced a pause.
  bool paused(std::size_t other) const { return heard_[other] && heard_[other]->pause > 0; }
  // Writes this rank's status. One request to a rank may be under way; a further one is left out.
  void tell(LetterLane lane, int other);
  // Takes in one letter of any rank; false if none has come. A letter counts as written when read here.
  bool hear(LetterLane lane);

  // A window of one letter, of the size of a RankStatus.
  MpiMailbox mailbox_;
  Letter letter_;
  int rank_ = 0;
  List<std::optional<RankStatus>> heard_;  // by rank
  List<char> asked_, answered_;            // by rank; answered_: since this rank asked
};

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED_MPI)
#include "parallax/detail/transport/mpi/mailbox-inl.hpp"
#endif
