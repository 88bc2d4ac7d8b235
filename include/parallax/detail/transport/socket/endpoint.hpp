// A rank's means of communication over sockets: its connections, and all traffic on them. SocketCommunicator owns one, and
// passes every operation on to it.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/comm/letter_queue.hpp"
#include "parallax/detail/core/birth.hpp"
#include "parallax/detail/core/cores.hpp"
#include "parallax/detail/transport/socket/blocks.hpp"
#include "parallax/detail/transport/socket/host.hpp"
#include "parallax/detail/transport/socket/journals.hpp"
#include "parallax/detail/transport/socket/mailbox.hpp"
#include "parallax/detail/transport/socket/meeting.hpp"
#include "parallax/detail/transport/socket/options.hpp"
#include "parallax/detail/transport/socket/peers.hpp"

namespace parallax::inline v0_2::detail {

// Endpoint of a rank; owns its connections. Its address stays, so a communicator may move while requests are in flight. All
// moves in `move_on`, called by polls; nothing waits for long except the construction, `sleep` and the last words.
class SocketEndpoint final : private FrameSink {
 public:
  // Collective; waits for all ranks. `listener`: rank 0's own, or none. Throws Error: timeout if ranks are missing, mismatch if
  // they disagree, invalid_argument for senseless options, transport if a rank is lost, file or misuse by the address.
  SocketEndpoint(SocketOptions const& given, OwnedDescriptor listener);
  SocketEndpoint(SocketEndpoint&&) = delete;
  // Says goodbye, or the reason of the communicator's failure, and waits a second at most for it to be heard. A forked child
  // says nothing, here and in `abort`: the connections are its parent's.
  ~SocketEndpoint();

  SocketOptions options;
  std::vector<int> hosts;       // by rank: its host, numbered from 0 in the order of the hosts' first ranks
  bool oversubscribed = false;  // more ranks share this host than it has cores
  SocketJournals journals;
  SocketLending lending;

  // Local. Posts an operation; its memory must stay until it is complete or withdrawn. Throws Error: misuse for a busy channel
  // or in a forked child, invalid_argument for channel or lists, mismatch for sizes in disagreement, or a failure's reason.
  void post(int channel, Transfer const& transfer);
  // Moves on everything. Returns true once the channel's operation is complete, which frees the channel: also after a failure,
  // for operations that can still be completed. Else throws the reason of the failure.
  bool progress(int channel);
  int waiting_for(int channel) const {
    int const near = host_ && blocks_.busy(channel) ? host_->neighbours().waiting_for(channel) : -1;
    return near >= 0 ? near : blocks_.waiting_for(channel);
  }
  // Withdraws the channel's operation, if there is one, without waiting: afterwards nobody touches its memory.
  void withdraw(int channel) noexcept;

  // Posts and takes letters, as Mailbox has it. Throws Error: invalid_argument, misuse in a forked child, a failure's reason.
  bool post_letter(LetterLane lane, int to, LetterParts parts);
  bool take_letter(LetterLane lane, int from, Letter& letter);

  // Local. Does as KeepsJournals and AnnouncesPauses say; `announce` waits a second at most until the system has taken all.
  std::optional<RankStatus> status_of(int other, bool& fresh);
  void answer();
  void announce();

  // Moves on everything, and throws the reason of a failure, or Error (misuse) in a forked child.
  void check() {
    move_on();
    if (failure_) refuse();
  }
  // Returns when peers have news, or after so long; at once after a failure that all know, and in a forked child.
  void sleep(std::chrono::nanoseconds at_most) {
    if (told_ || birth_.in_child()) return;
    if (!host_ || host_->lie_down()) peers_.sleep(at_most);
    if (host_) host_->get_up();
  }
  // Ends the communicator with a reason; the first one stays. Every rank passes it on once none of its operations can be
  // completed any more: so no connection ends before its peer knows the reason, and no rank misses a block on its way. Waits a
  // quarter of a second at most until the system has it, but not for a rank already waited for too long.
  void abort(Error const& reason);
  // Returns the address of lent memory, as LendsMemory has it. Throws Error (transport) a quarter of a second after a miss.
  std::byte* address_of(Place const& place);
  void reclaim(int channel) noexcept { lending.reclaim(channel, peers_); }
  // Returns true if blocks between two ranks go through memory, and they lend to each other: the same on every rank.
  bool shares_memory(int one, int other) const { return one == other || host_meeting_.share(one, other); }
  // Returns the bytes given to the system for peers, headers and all, without the meeting's.
  std::uint64_t written() const { return peers_.written(); }

 private:
  // Brings the world together, and waits for it. Throws the errors of the constructor, once the ranks reached have been told.
  void meet(OwnedDescriptor listener, Moment until);
  // Takes over the connections of the meeting, and tells their ranks of a failure.
  void install(SocketMeeting& meeting);
  void tell_directory(SocketMeeting& meeting);
  std::vector<SocketAddress> hear_directory(SocketMeeting& meeting, Moment until);
  void note_hosts(SocketMeeting const& meeting);
  void share_memory(Moment until);

  // Takes in messages of a rank, as FrameSink has it. An error in them becomes the failure.
  std::byte* begin(int from, FrameHeader const& message) override;
  std::byte* more(int from, FrameHeader const& message, std::size_t bytes, std::byte* to) override;
  void come(int from, FrameHeader const& message) override;
  void garbled(int from, std::string_view how) override { fail(broken(from, how)); }
  void gone(int to, int channel) override { blocks_.gone(to, channel); }

  // Reads and writes all it can. A connection's end without goodbye is a failure. Throws Error (misuse) in a forked child.
  void move_on();
  // Fails, and throws Error (transport), if the channel's operation needs a rank that has left in peace: it is in vain.
  void look_for_the_departed(int channel);
  // Fails with a reason, without throwing it: the first reason stays, and is sent to all ranks.
  void fail(Error const& reason) {
    if (!failure_) failure_ = reason;
    give_up();
  }
  // Hears that a peer has failed, and has given up the operations in flight on these channels, a bit for each. Operations that
  // the peer has completed or is not needed for go on for a quarter of a second at most: then `move_on` gives up.
  void hear(Error const& reason, std::uint64_t given_up);
  // Gives up after the failure, once: forgets all operations in flight, and tells all ranks the reason.
  void give_up();
  // Gives up, and throws the reason of the failure, which must be there.
  [[noreturn]] PARALLAX_COLD void refuse();
  // Returns true if all blocks of the channel's operation have come, and this rank's have gone.
  bool complete(int channel) const { return blocks_.complete(channel) && !(host_ && !host_->neighbours().complete(channel)); }
  // Returns true if a failed rank has given up the operation in flight on the channel: then no rank completes it.
  bool given_up(int channel) const { return ((given_up_ >> channel) & 1) != 0; }
  // Returns true if the channel's operation needs a block from that rank, or has to give it one.
  bool needs(int channel, int rank) const {
    return near(rank) ? host_->neighbours().needs(channel, rank) : blocks_.needs(channel, rank);
  }
  // Returns true if, after a failure, an operation in flight may be completed all the same, without the ranks that are gone.
  PARALLAX_COLD bool hopes() const;
  // Returns Error (transport) about a rank. `what`: the words for its deed.
  Error broken(int rank, std::string_view what) const {
    return {Errc::transport, rank, "", "",
            joined({"rank ", rank, " on ", peers_.host(rank), " ", what, " (seen by rank ", options.rank, ")"})};
  }
  void tell_status(int to, FrameKind kind);
  // Returns true if blocks to and from another rank go through memory.
  bool near(int rank) const { return host_ && host_->neighbours().has(rank); }

  Birth birth_;
  int exceptions_ = std::uncaught_exceptions();
  SocketPeers peers_;
  SocketBlocks blocks_;
  SocketMailbox mailbox_;
  SocketHostMeeting host_meeting_;
  std::unique_ptr<SocketHost> host_;  // null if no other rank shares memory with this one
  std::optional<Error> failure_;
  std::chrono::steady_clock::time_point failed_at_{};
  std::uint64_t given_up_ = 0;                 // by failed peers
  bool told_ = false;                          // all know of the failure: nothing is sent or received any more
  std::vector<std::vector<std::byte>> texts_;  // by rank: an Error, or a directory, in arrival
  std::vector<std::byte> directory_;
};

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/socket/endpoint-inl.hpp"
#endif
