// Ranks as processes joined by TCP, with nothing but the standard library and POSIX: trainers started by torchrun, Kubernetes,
// mpiexec, srun or a shell make a SocketCommunicator of options, or of the environment.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/launch/entrances.hpp"
#include "parallax/detail/launch/last_words.hpp"
#include "parallax/detail/transport/socket/endpoint.hpp"
#include "parallax/detail/transport/socket/options.hpp"
#include "parallax/memory/shared.hpp"

namespace parallax::inline v0_2 {

// Waits for connections before ranks are made: for a rank 0 with a port chosen by the system, told to the others in a way of
// its own. Owns the socket; move-only.
class SocketListener {
 public:
  // Local. Listens at "host:port", or "[host]:port"; port 0 is any free one. Throws Error: invalid_argument for anything but an
  // address, transport if nobody can listen there.
  explicit SocketListener(std::string_view address = "127.0.0.1:0");

  // Returns the address at which the socket listens, in digits: an address for SocketOptions.
  std::string address() const { return detail::text_of(detail::socket_address(socket_, &::getsockname)); }

 private:
  friend class SocketCommunicator;
  detail::OwnedDescriptor socket_;
};

// One rank's end of a world of processes, or threads, each with a connection to every other. Owns its sockets; move-only, also
// while operations are in flight. Used by one thread at a time. It makes no thread: everything moves inside of its calls, and a
// rank waiting for peers sleeps.
//   constructing   collective. Rank 0 listens at the address of the options, or tells its address by a file or the
//                  launcher; all others call it until the deadline. Ranks of one job know one key, and nobody else joins.
//                  Later traffic is neither encrypted nor signed. The look-up of a name has a thread of its own
//   destroying     local: says goodbye, and waits a second at most until the peers' systems have it. Then the launcher of
//                  the ranks (PMI) hears that this one needs it no more. One that dies without that has crashed: mpiexec
//                  ends the others
//   abort          every rank's pending and next operation throws the reason, and the first one stays
// A peer gone without a goodbye, or with frames other than sent, ends the communicator: Error (transport), with its rank and
// host, on every rank.
class SocketCommunicator {
 public:
  // A move-only token on an operation in flight; does not outlive the communicator. Destroyed before `test` was true, it
  // withdraws: nobody touches the memory of the transfer any more. `test` moves on all operations of this rank in flight, and
  // is true once every block has come, and this rank's are read no more; it throws the reason of an abort, and Error: mismatch,
  // transport. `waiting_for` returns a rank still to deliver, else one not yet given its block.
  using Request = detail::InFlight<detail::SocketEndpoint>;
  // Memory allocated here is within reach of the host's ranks, in place.
  using lent_space = SharedSpace;

  // Collective; waits for all ranks. Throws Error: timeout with the missing ranks, mismatch for ranks in disagreement on the
  // world, invalid_argument for senseless options or an address that needs a key, transport if rank 0 cannot listen, a rank was
  // lost or the launcher does not answer as it should, file for one not writable or not to be trusted.
  explicit SocketCommunicator(SocketOptions const& options)
      : end_{std::make_unique<detail::SocketEndpoint>(options, detail::OwnedDescriptor{})} {
    if (detail::Rendezvous::by_launcher(options)) farewell_.becomes_due();
  }
  // Collective. Joins with a rank 0 already listening, whose socket it takes: at "file:" and "pmi:" rank 0 leaves word of its
  // address; any other address of the options is not looked at. Throws the errors of the other constructor.
  SocketCommunicator(SocketListener listener, SocketOptions const& options)
      : end_{std::make_unique<detail::SocketEndpoint>(options, std::move(listener.socket_))} {
    if (detail::Rendezvous::by_launcher(options)) farewell_.becomes_due();
  }

  // Returns this rank's number, from 0 to size() - 1.
  int rank() const { return end_->options.rank; }
  // Returns the number of ranks of the world.
  int size() const { return end_->options.size; }
  // Returns the longest wait, as the options have it: 60 s by default.
  std::chrono::nanoseconds deadline() const { return end_->options.deadline; }
  // Returns true if this host has more ranks than hardware threads; waiting then sleeps at once.
  bool oversubscribed() const { return end_->oversubscribed; }
  // Returns the host of every rank, by rank; hosts are numbered from 0 in the order of their first rank.
  std::vector<int> const& hosts() const { return end_->hosts; }

  // Returns true if blocks between two ranks go through memory: of one rank, or of one host if memory can be shared there.
  bool shares_memory(int one, int other) const { return end_->shares_memory(one, other); }

  // Collective on a channel. Writes as much as can be written at once; the rank's own block is copied. Blocks from peers of
  // other hosts are kept before they are waited for, however large; to peers of its own host a rank gives large blocks once
  // they wait. Error: invalid_argument for lists of another length than `size` and for channels out of range, misuse for a busy
  // channel, mismatch for sizes in disagreement, transport, and the reason after an abort.
  Request ialltoallv(int channel, Transfer const& transfer);

  // Local. Tells every rank the reason, and waits a quarter of a second at most until the system has taken the message.
  void abort(Error const& reason) { end_->abort(reason); }
  // Local. Makes progress. Throws the reason once any rank has aborted, or was lost.
  void check() { end_->check(); }
  // Local. Waits until a peer has sent something or can be sent more, or after so long.
  void sleep(std::chrono::nanoseconds at_most) const { end_->sleep(at_most); }

  // Returns the most requests from one rank to another not yet taken, as the options say.
  int window() const { return end_->options.mailbox.window; }
  // Returns the most bytes of a letter, as the options say.
  std::size_t largest() const { return end_->options.mailbox.largest; }
  // Local. Posts a letter: see Mailbox. A request counts in the window until its receiver has confirmed the taking. Throws
  // Error: invalid_argument, and the reason after an abort.
  bool post(LetterLane lane, int to, LetterParts parts) { return end_->post_letter(lane, to, parts); }
  // Local. Makes progress, and takes a letter: see Mailbox. Throws the errors of `post`.
  bool take(LetterLane lane, int from, Letter& letter) { return end_->take_letter(lane, from, letter); }

  // Returns this rank's journal, owned by this object; peers ask for it by messages.
  Journal& journal() { return end_->journals.journal; }
  // Local. Asks another rank, once, or nobody after an abort. A later call returns its answer, with `fresh` true, or a pause
  // announced by it; nothing as long as there is neither. Returns this rank's own status at once. Error: misuse after a fork.
  std::optional<RankStatus> status_of(int rank, bool& fresh) { return end_->status_of(rank, fresh); }
  // Local. Makes progress, and answers ranks that asked.
  void answer() { end_->answer(); }
  // Local. Tells every other rank; waits up to a second until the system has taken the messages.
  void announce() { end_->announce(); }
  // Local. Makes progress; returns the longest pause announced by other ranks and not ended, 0 for none.
  std::chrono::nanoseconds longest_pause() const {
    end_->answer();
    return end_->journals.longest_pause();
  }

  // Returns true if both are one, or share memory: memory in SharedSpace is lent in place, to ranks of the host.
  bool lends(int one, int other) const { return end_->shares_memory(one, other); }
  // Local. Returns the place of memory in SharedSpace; one with id 0 for any other.
  Place place_of(void const* memory) const { return end_->lending.place_of(memory); }
  // Local. Returns so many bytes of the channel's own in SharedSpace, until it grows. Throws Error (out_of_memory).
  std::byte* window(int channel, std::size_t bytes) { return end_->lending.window(channel, bytes); }
  // Local. Returns the address here of a peer's memory; maps its block when it is first asked for. Throws Error (transport).
  std::byte* address_of(Place const& place) { return end_->address_of(place); }
  // Local. Opens a loan of the channel, and returns its number: this rank's own, and never used again.
  std::uint64_t lend(int channel) { return end_->lending.lend(channel); }
  // Local. Returns true if this loan is open. If so, its rank waits for `release`, or lets go of the pages if the wait is long.
  bool hold(int channel, int rank, std::uint64_t number) { return end_->lending.hold(channel, rank, number); }
  // Local. Ends a successful `hold`.
  void release(int channel, int rank) noexcept { end_->lending.release(channel, rank); }
  // Local. Closes the loan and waits until nobody holds it, for a tenth of a second at most: then the lent data lies on other
  // pages, at the same address, and remaining holders have the old ones alone.
  void reclaim(int channel) noexcept { end_->reclaim(channel); }

  // Returns the bytes written to connections since ranks know each other: blocks for other hosts, letters, the 24 bytes before
  // every 256 KiB of them or less, and with checksums 4 behind. Within a host, 24 bytes wake a sleeping rank when something in
  // memory has changed.
  std::uint64_t wire_bytes() const { return end_->written(); }

 private:
  detail::LauncherFarewell farewell_;  // after the goodbye of the end
  // On the heap, as requests refer to it and this object may move.
  std::unique_ptr<detail::SocketEndpoint> end_;
};

// ---- below: how it is done ----

namespace detail {

// Returns the value of the variable by which a process was made a rank in the manner of torchrun, by `--px-hosts` among others,
// or by a launcher of PMI-1; null without one.
char const* sockets_claim(Environment variable);

// Joins by the environment, calls the body, and returns the exit code. Tells all ranks of an exception before this one ends.
int join_by_sockets(int&, char**&, RunOptions const& options, FunctionRef<int(JoinedWorld&)> body);

inline constinit Entrance sockets_entrance{
    .name = "sockets", .precedence = 20, .claims = sockets_claim, .join = join_by_sockets};
inline bool const sockets_entrance_is_known = add_entrance(sockets_entrance);

}  // namespace detail

static_assert(AnnouncesPauses<SocketCommunicator> && KnowsOversubscription<SocketCommunicator> && Mailbox<SocketCommunicator> &&
              LendsMemory<SocketCommunicator> && SleepsUntilNews<SocketCommunicator> && TellsOfAborts<SocketCommunicator>);

}  // namespace parallax

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/socket-inl.hpp"
#endif
