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
// All functions are local, and only `send_off` and the destructor wait. Errors of MPI are an Error (transport).
class MpiMailbox {
 public:
  MpiMailbox() = default;
  MpiMailbox(MpiMailbox&&) = delete;
  ~MpiMailbox();

  // Joins `comm`, once, at first, with the same tags and bounds on all ranks: requests have `first_tag`, answers the next.
  void join(MPI_Comm comm, int first_tag, MailboxBounds const& bounds);
  // Returns the bounds given to `join`.
  MailboxBounds const& bounds() const { return bounds_; }

  // Returns true if a letter went out or came in: then one may be under way until the job ends.
  bool used() const { return used_; }

  // Posts a copy of a letter. Returns false, and posts nothing, while `window` requests to that rank lie untaken. Throws Error:
  // invalid_argument for no such rank or too large a letter, misuse in a forked child, transport.
  bool post(LetterLane lane, int to, LetterParts parts);

  // Takes a letter of rank `from`, or of any (-1). Returns false if none is whole yet. Throws the errors of `post`.
  bool take(LetterLane lane, int from, Letter& letter);

  // Returns true if letters of this rank were under way at the last look: for them to arrive, this rank has to call MPI.
  bool sends() const { return sending_ > 0; }
  // Waits for posted letters to be gone, so long at most. Throws Error (transport).
  void send_off(std::chrono::nanoseconds at_most);

  // Moves MPI on, and with it all letters under way. Throws Error (transport).
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

  // Returns true, with its `status`, if a letter of that rank, or of MPI_ANY_SOURCE, has come and was not begun. Moves MPI on.
  bool probe(LetterLane lane, int from, MPI_Status& status) const;
  // Returns true if a message is over, or is none; its request is then MPI_REQUEST_NULL. Throws Error (transport).
  static bool test(Message& message);

  // Takes back the memory of the letters that have gone, of those to one rank on one lane: they go in order.
  void settle(Messages& under_way);

  // Takes a letter of this rank to itself. Returns false if there is none.
  bool take_own(LetterLane lane, Letter& letter);
  // Takes a letter of rank `from`. Returns false if none is all there: a large one takes its time, with its writer at MPI, too.
  bool receive(LetterLane lane, int from, Letter& letter);
  // Takes a letter of any rank, like `receive`: looks at a few in turn, then at the first to come; without letters, at none.
  bool receive_in_turn(LetterLane lane, Letter& letter);

  // Waits a second at most for the rest of begun letters: MPI_Finalize of their writers would hang for it. Leaves letters that
  // are still under way to MPI, until the job ends. Called by the destructor.
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

// This rank's journal, and the statuses that other ranks have sent. A question carries the asker's own; only a rank about to
// give up asks, so the letters of a job are few. Does not own its communicator. Errors of MPI are an Error (transport).
class MpiJournals {
 public:
  MpiJournals() = default;
  MpiJournals(MpiJournals&&) = delete;
  ~MpiJournals();

  // This rank's own journal. While it is open, the process owes its peers a `finish`: see MpiDebts.
  Journal journal;

  // Local. Called once, before anything else, with the same tag on all ranks, and the communicator's deadline. Uses two tags.
  void join(MPI_Comm comm, int first_tag, std::chrono::nanoseconds deadline);
  // Returns true if letters were written or read, as MpiMailbox::used does.
  bool used() const { return mailbox_.used(); }

  // Local. Asks another rank, once. Returns its answer, with `fresh` true, or its announced pause; nothing as long as there is
  // neither. Times are of this rank's clock. For this rank itself it is the present status, and `fresh` is left alone.
  std::optional<RankStatus> status_of(int other, bool& fresh);
  // Local. Takes in all letters that have come, and answers the questions among them.
  void answer();

  // Tells all others this rank's pause, and waits a second at most for the letters to go: it may be away from MPI afterwards.
  void announce();
  // Does as `answer`, and returns the longest pause announced by another rank and not ended; 0 if there is none. Local.
  std::chrono::nanoseconds longest_pause();

 private:
  // Returns true if the last status of that rank has a pause.
  bool paused(std::size_t other) const { return heard_[other] && heard_[other]->pause > 0; }
  // Posts this rank's status to another. One request to a rank may be under way; a further one is left out.
  void tell(LetterLane lane, int other);
  // Takes in one letter of any rank. Returns false if none has come. A letter counts as written when read here.
  bool hear(LetterLane lane);

  MpiMailbox mailbox_;  // a window of one letter, of the size of a RankStatus
  Letter letter_;
  int rank_ = 0;
  List<std::optional<RankStatus>> heard_;  // by rank
  List<char> asked_, answered_;            // by rank; answered_: since this rank asked
};

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED_MPI)
#include "parallax/detail/transport/mpi/mailbox-inl.hpp"
#endif
