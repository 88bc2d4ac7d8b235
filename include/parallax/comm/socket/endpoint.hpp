// What a rank over sockets owns to communicate: its connections, and what comes and goes over them. SocketCommunicator owns one,
// and passes every operation on to it.
#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <ctime>
#include <exception>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/comm/letter_queue.hpp"
#include "parallax/comm/socket/blocks.hpp"
#include "parallax/comm/socket/connection.hpp"
#include "parallax/comm/socket/journals.hpp"
#include "parallax/comm/socket/mailbox.hpp"
#include "parallax/comm/socket/meeting.hpp"
#include "parallax/comm/socket/options.hpp"
#include "parallax/comm/socket/words.hpp"

namespace parallax::detail {

// Its address stays, so that a communicator may move while requests are in flight. Everything moves in `move_on`, which polls
// call; nothing blocks but the construction, `sleep` and the last words.
class SocketEndpoint {
 public:
  // Collective. `listener`: rank 0's own, or none. Error as SocketCommunicator has it.
  SocketEndpoint(SocketOptions const& given, Descriptor listener);
  SocketEndpoint(SocketEndpoint const&) = delete;
  SocketEndpoint& operator=(SocketEndpoint const&) = delete;
  // Says goodbye, or why the communicator has failed, and waits a second at most for that to be heard.
  ~SocketEndpoint();

  SocketOptions options;
  std::vector<int> hosts;       // by rank, numbered from 0 in the order of their first rank
  bool oversubscribed = false;  // more ranks share this host than it has cores
  SocketJournals journals;

  // Local. Posts an operation. Error as SocketCommunicator has it.
  void post(int channel, Transfer const& transfer);
  // Moves on everything; true once the channel's operation is complete, which frees the channel. Throws the reason of a failure.
  bool progress(int channel);
  int waiting_for(int channel) const { return blocks_.waiting_for(channel); }
  // After this nobody touches the memory of the channel's operation.
  void withdraw(int channel) noexcept;

  // As Mailbox has them.
  bool post_letter(LetterLane lane, int to, LetterParts parts);
  bool take_letter(LetterLane lane, int from, Letter& letter);

  // As KeepsJournals and AnnouncesPauses have them.
  std::optional<Status> status_of(int other, bool& fresh);
  void answer();
  void announce();

  // Reads and writes what can be read and written now.
  void move_on();
  // The same, and throws the reason of a failure.
  void check() {
    move_on();
    if (failure_) throw *failure_;
  }
  // Returns when something can be read or written, or after so long; at once, where something came since the last call.
  void sleep(std::chrono::nanoseconds at_most);
  // The first reason stays. Every rank that hears it passes it on: so no connection ends before its peer knows the reason.
  void fail(Error const& reason);
  // The same, and waits a moment until the system has it.
  void abort(Error const& reason);
  // Bytes that the system was given for peers, headers and all; those of the meeting are not counted.
  std::uint64_t written() const;

 private:
  // Takes in what comes from one rank.
  struct Peer final : FrameSink {
    SocketEndpoint* end = nullptr;
    int rank = 0;
    Connection connection;
    std::string host;             // its name
    std::vector<std::byte> text;  // an Error, or a directory, that is coming
    bool left = false;            // it has said goodbye

    std::byte* begin(FrameHeader const& message) override;
    void come(FrameHeader const& message) override;
    void garbled() override;
    void gone(int channel) override { end->blocks_.gone(rank, channel); }
  };
  friend struct Peer;

  Peer& peer(int rank) { return peers_[static_cast<std::size_t>(rank)]; }
  // Brings the world together. Error as SocketCommunicator has it.
  void meet(Descriptor listener);
  void install(SocketMeeting& meeting);
  void tell_refused(Descriptor socket);
  void tell_directory(SocketMeeting& meeting);
  std::vector<SocketAddress> hear_directory(SocketMeeting& meeting, Moment until);
  void number_hosts(std::vector<RankLink> const& links, RankFacts const& mine);

  // Sends a small message, and what waits before it.
  void tell(int to, FrameKind kind, std::uint64_t number = 0, std::vector<std::byte> bytes = {});
  void tell_status(int to, FrameKind kind);
  // A connection that ends without a goodbye ends the communicator.
  void look_for_losses();
  Error loss(Peer const& peer) const;
  // An operation that needs a rank that has left in peace will never be complete.
  void look_for_the_departed(int channel);
  // Fills in what is polled.
  int poll(timespec const& at_most);
  // Moves on until all connections are done, so long at most.
  template <class Done>
  void linger(std::chrono::milliseconds at_most, Done const& done) noexcept;

  int exceptions_ = std::uncaught_exceptions();
  std::vector<Peer> peers_;     // by rank; the rank's own has no connection
  std::vector<pollfd> polled_;  // of each peer
  SocketBlocks blocks_;
  SocketMailbox mailbox_;
  bool news_ = false;  // something came since the last `sleep`
  std::optional<Error> failure_;
  std::vector<std::byte> directory_;
};

// ---- the meeting ----

inline SocketEndpoint::SocketEndpoint(SocketOptions const& given, Descriptor listener)
    : options{given}, peers_(static_cast<std::size_t>(std::max(given.size, 1))), polled_(peers_.size()) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size)
    throw Error{Errc::invalid_argument, -1, "SocketCommunicator", "",
                joined({"there is no rank ", options.rank, " of ", options.size})};
  check_bounds(options.mailbox, std::numeric_limits<std::size_t>::max(), "SocketCommunicator");
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) peers_[rank].end = this, peers_[rank].rank = static_cast<int>(rank);
  blocks_.join(options.rank, options.size);
  mailbox_.join(options.rank, options.size, options.mailbox);
  journals.join(options.size);
  try {
    meet(std::move(listener));
  } catch (...) {
    abort(current_error(options.rank, "SocketCommunicator"));
    linger(std::chrono::milliseconds{250}, [](Connection const& connection) { return connection.delivered(); });
    throw;
  }
}

inline void SocketEndpoint::meet(Descriptor listener) {
  Moment const until = std::chrono::steady_clock::now() + meeting_deadline(options);
  SocketMeeting meeting{options, std::move(listener), until};
  try {
    if (options.rank == 0) {
      meeting.await_all();
      number_hosts(meeting.links(), meeting.facts());
      tell_directory(meeting);
    } else {
      meeting.call_first();
      meeting.join(hear_directory(meeting, until));
      number_hosts(meeting.links(), meeting.facts());
      install(meeting);
    }
  } catch (...) {
    install(meeting);
    if (meeting.refused().socket) tell_refused(std::move(meeting.refused().socket));
    throw;
  }
}

// Called inside a catch block: whoever must not join is told why.
inline void SocketEndpoint::tell_refused(Descriptor socket) {
  Connection connection{std::move(socket)};
  FrameHeader message;
  message.kind = FrameKind::abort;
  connection.send(message, bytes_of(current_error(options.rank, "SocketCommunicator")));
  auto const until = std::chrono::steady_clock::now() + std::chrono::milliseconds{250};
  while (!connection.delivered() && std::chrono::steady_clock::now() < until) {
    connection.write(peer(options.rank));
    std::this_thread::sleep_for(std::chrono::milliseconds{1});
  }
}

inline void SocketEndpoint::install(SocketMeeting& meeting) {
  for (Peer& peer : peers_) {
    RankLink& link = meeting.links()[static_cast<std::size_t>(peer.rank)];
    if (!link.socket) continue;
    peer.connection = Connection{std::move(link.socket)};
    peer.host = link.facts.name.data();
    if (failure_) tell(peer.rank, FrameKind::abort, 0, bytes_of(*failure_));  // of a rank that was quicker
  }
}

inline void SocketEndpoint::tell_directory(SocketMeeting& meeting) {
  std::vector<std::byte> directory;
  for (RankLink const& link : meeting.links()) {
    SocketAddress const address = link.address.length > 0 ? link.address.at(link.facts.port) : SocketAddress{};
    auto const* const bytes = reinterpret_cast<std::byte const*>(&address);
    directory.insert(directory.end(), bytes, bytes + sizeof address);
  }
  install(meeting);
  for (int rank = 1; rank < options.size; ++rank) tell(rank, FrameKind::directory, 0, directory);
}

// A rank of rank 0's own host may have reached it at an address that means something to that host alone: others find that rank
// where they have found rank 0.
inline std::vector<SocketAddress> SocketEndpoint::hear_directory(SocketMeeting& meeting, Moment until) {
  SocketAddress const first = meeting.links()[0].address;
  install(meeting);
  for (move_on(); directory_.empty(); move_on()) {
    if (failure_) throw *failure_;
    if (std::chrono::steady_clock::now() > until + std::chrono::milliseconds{200})  // rank 0 may be about to say who is missing
      throw Error{
          Errc::timeout, 0, "SocketCommunicator", "",
          joined({"rank ", options.rank, " has reached rank 0, which did not say within the deadline where the others are"})};
    sleep(std::chrono::milliseconds{50});
  }
  std::vector<SocketAddress> addresses(static_cast<std::size_t>(options.size));
  if (directory_.size() != addresses.size() * sizeof(SocketAddress)) {
    peer(0).garbled();
    check();
  }
  std::memcpy(addresses.data(), directory_.data(), directory_.size());
  for (SocketAddress& address : addresses)
    if (address.length > 0 && address.loopback() && !first.loopback()) address = first.at(address.port());
  return addresses;
}

inline void SocketEndpoint::number_hosts(std::vector<RankLink> const& links, RankFacts const& mine) {
  int next = 0, here = 0;
  auto const facts_of = [&](std::size_t rank) -> RankFacts const& {
    return static_cast<int>(rank) == options.rank ? mine : links[rank].facts;
  };
  auto const same = [](RankFacts const& one, RankFacts const& other) {
    return one.boot == other.boot && one.name == other.name;
  };
  for (std::size_t rank = 0; rank < links.size(); ++rank) {
    std::size_t first = 0;
    while (!same(facts_of(first), facts_of(rank))) ++first;
    hosts.push_back(first < rank ? hosts[first] : next++);
    here += same(mine, facts_of(rank));
  }
  unsigned const cores = std::thread::hardware_concurrency();
  oversubscribed = cores > 0 && static_cast<unsigned>(here) > cores;
}

// ---- operations ----

inline void SocketEndpoint::post(int channel, Transfer const& transfer) {
  if (failure_) throw *failure_;
  check_channel(options.rank, "ialltoallv", channel);
  check_lists(options.rank, options.size, "ialltoallv", transfer);
  if (blocks_.busy(channel)) throw busy_channel(options.rank, "ialltoallv", channel);
  auto const self = static_cast<std::size_t>(options.rank);
  ByteRange const out = transfer.to[self], in = transfer.from[self];
  if (out.bytes != in.bytes)
    throw Error{Errc::mismatch, options.rank, "ialltoallv", "",
                joined({"rank ", options.rank, " sends ", out.bytes, " bytes to itself but expects ", in.bytes})};
  if (out.bytes > 0) std::memmove(transfer.receive + in.offset, transfer.send + out.offset, out.bytes);
  FrameHeader block;
  block.channel = static_cast<std::uint8_t>(channel);
  block.number = blocks_.open(channel, transfer);
  try {
    for (int k = 1; k < options.size; ++k) {
      Peer& to = peer((options.rank + k) % options.size);
      ByteRange const sent = transfer.to[static_cast<std::size_t>(to.rank)];
      blocks_.claim(channel, to.rank, to.connection);
      if (sent.bytes == 0) continue;
      block.total = sent.bytes;
      to.connection.send(block, transfer.send + sent.offset);
      to.connection.write(to);
    }
  } catch (...) {
    fail(current_error(options.rank, "ialltoallv"));
    withdraw(channel);
    throw;
  }
}

inline bool SocketEndpoint::progress(int channel) {
  if (!blocks_.busy(channel)) return true;
  check();
  if (!blocks_.complete(channel)) {
    look_for_the_departed(channel);
    return false;
  }
  blocks_.close(channel);
  return true;
}

inline void SocketEndpoint::withdraw(int channel) noexcept {
  if (!blocks_.busy(channel)) return;
  for (Peer& peer : peers_) {
    peer.connection.withdraw(channel);
    peer.connection.drop_block(channel);
  }
  blocks_.close(channel);
}

inline void SocketEndpoint::look_for_the_departed(int channel) {
  for (Peer const& peer : peers_)
    if (peer.left && blocks_.needs(channel, peer.rank)) {
      fail({Errc::transport, peer.rank, "ialltoallv", "",
            joined({"rank ", peer.rank, " on ", peer.host, " has ended its communicator, and rank ", options.rank,
                    " waits for it"})});
      throw *failure_;
    }
}

// ---- letters and journals ----

inline bool SocketEndpoint::post_letter(LetterLane lane, int to, LetterParts parts) {
  if (failure_) throw *failure_;
  check_letter(options.rank, options.size, to, parts, mailbox_.bounds.largest);
  if (to == options.rank) return mailbox_.post_own(lane, parts);
  bool const request = lane == LetterLane::requests;
  if (request && mailbox_.full(to)) check();
  if (request && mailbox_.full(to)) return false;
  std::vector<std::byte> bytes;
  write_letter(bytes, parts);
  if (request) mailbox_.posted(to);
  tell(to, request ? FrameKind::request : FrameKind::answer, 0, std::move(bytes));
  return true;
}

inline bool SocketEndpoint::take_letter(LetterLane lane, int from, Letter& letter) {
  check_writer(options.rank, options.size, from);
  check();
  if (!mailbox_.take(lane, from, letter)) return false;
  if (lane == LetterLane::requests && letter.from != options.rank)
    tell(letter.from, FrameKind::credit, mailbox_.taken(letter.from));
  return true;
}

inline std::optional<Status> SocketEndpoint::status_of(int other, bool& fresh) {
  if (other == options.rank) return journals.journal.status();
  if (!failure_ && journals.asks(other)) tell_status(other, FrameKind::question);
  return journals.status_of(other, fresh);
}

inline void SocketEndpoint::answer() {
  move_on();
  for (Peer const& peer : peers_)
    if (journals.owes(peer.rank) && !failure_) tell_status(peer.rank, FrameKind::status);
}

inline void SocketEndpoint::announce() {
  if (failure_) return;
  for (Peer const& peer : peers_) tell_status(peer.rank, FrameKind::status);
  linger(std::chrono::seconds{1}, [](Connection const& connection) { return connection.idle(); });
}

inline void SocketEndpoint::tell_status(int to, FrameKind kind) {
  Status const own = journals.journal.status();
  auto const* const bytes = reinterpret_cast<std::byte const*>(&own);
  tell(to, kind, 0, {bytes, bytes + sizeof own});
}

inline void SocketEndpoint::tell(int to, FrameKind kind, std::uint64_t number, std::vector<std::byte> bytes) {
  Peer& its = peer(to);
  if (its.connection.ended()) return;
  FrameHeader message;
  message.kind = kind;
  message.number = number;
  its.connection.send(message, std::move(bytes));
  its.connection.write(its);
}

// ---- what moves ----

inline int SocketEndpoint::poll(timespec const& at_most) {
  for (std::size_t rank = 0; rank < peers_.size(); ++rank) {
    short const wants = peers_[rank].connection.wants();
    polled_[rank] = {wants != 0 ? peers_[rank].connection.socket().get() : -1, wants, 0};
  }
  return ::ppoll(polled_.data(), static_cast<nfds_t>(polled_.size()), &at_most, nullptr);
}

inline void SocketEndpoint::move_on() {
  if (poll({0, 0}) <= 0) return;
  for (std::size_t rank = 0; rank < peers_.size(); ++rank)
    if ((polled_[rank].revents & ~POLLOUT) != 0 && peers_[rank].connection.read(peers_[rank])) news_ = true;
  for (std::size_t rank = 0; rank < peers_.size(); ++rank)
    if ((polled_[rank].revents & POLLOUT) != 0 && peers_[rank].connection.write(peers_[rank])) news_ = true;
  if (!failure_) look_for_losses();
}

inline void SocketEndpoint::look_for_losses() {
  for (Peer const& peer : peers_)
    if (peer.connection.socket() && peer.connection.ended() && !peer.left && !failure_) fail(loss(peer));
}

inline Error SocketEndpoint::loss(Peer const& peer) const {
  return {Errc::transport, peer.rank, "", "",
          joined({"rank ", peer.rank, " on ", peer.host, " has gone without a goodbye to rank ", options.rank, ": ",
                  peer.connection.reason()})};
}

inline void SocketEndpoint::sleep(std::chrono::nanoseconds at_most) {
  if (std::exchange(news_, false) || failure_) return;
  auto const seconds = std::chrono::floor<std::chrono::seconds>(at_most);
  poll({static_cast<std::time_t>(seconds.count()), static_cast<long>((at_most - seconds).count())});
}

inline std::uint64_t SocketEndpoint::written() const {
  std::uint64_t all = 0;
  for (Peer const& peer : peers_) all += peer.connection.written();
  return all;
}

inline std::byte* SocketEndpoint::Peer::begin(FrameHeader const& message) {
  auto const bytes = static_cast<std::size_t>(message.total);
  if (message.kind == FrameKind::abort || message.kind == FrameKind::directory) {
    text.resize(bytes);
    return text.data();
  }
  if (end->failure_) return nullptr;
  try {
    if (message.kind == FrameKind::block) return end->blocks_.begin(rank, message);
  } catch (Error const& error) {
    end->fail(error);
    return nullptr;
  }
  if (message.kind == FrameKind::question || message.kind == FrameKind::status) return end->journals.begin(rank, bytes);
  if (message.kind == FrameKind::request || message.kind == FrameKind::answer) return end->mailbox_.begin(rank, bytes);
  return nullptr;
}

inline void SocketEndpoint::Peer::come(FrameHeader const& message) {
  if (message.kind == FrameKind::goodbye) left = true;
  if (end->failure_) return;
  switch (message.kind) {
    case FrameKind::block: return end->blocks_.come(rank, message);
    case FrameKind::request: return end->mailbox_.come(rank, LetterLane::requests);
    case FrameKind::answer: return end->mailbox_.come(rank, LetterLane::answers);
    case FrameKind::credit: return end->mailbox_.credit(rank, message.number);
    case FrameKind::question: return end->journals.come(rank, true);
    case FrameKind::status: return end->journals.come(rank, false);
    case FrameKind::directory: end->directory_.swap(text); return;
    case FrameKind::abort: return end->fail(error_of(text));
    case FrameKind::goodbye: return;
  }
}

inline void SocketEndpoint::Peer::garbled() {
  end->fail({Errc::transport, rank, "", "",
             joined({"rank ", rank, " on ", host, " sent to rank ", end->options.rank, " what is no frame"})});
}

// ---- how it ends ----

inline void SocketEndpoint::fail(Error const& reason) {
  if (failure_) return;
  failure_ = reason;
  std::vector<std::byte> const text = bytes_of(reason);
  for (Peer& peer : peers_) {
    peer.connection.give_up();
    peer.connection.redirect(nullptr);
    tell(peer.rank, FrameKind::abort, 0, text);
  }
}

inline void SocketEndpoint::abort(Error const& reason) {
  fail(reason);
  linger(std::chrono::milliseconds{250}, [](Connection const& connection) { return connection.idle(); });
}

template <class Done>
void SocketEndpoint::linger(std::chrono::milliseconds at_most, Done const& done) noexcept try {
  auto const until = std::chrono::steady_clock::now() + at_most;
  auto const all = [&] {
    return std::all_of(peers_.begin(), peers_.end(), [&](Peer const& peer) { return done(peer.connection); });
  };
  while (!all() && std::chrono::steady_clock::now() < until) {
    poll({0, 1'000'000});
    move_on();
  }
} catch (...) {  // no memory: the peers will see that the connection ends
}

inline SocketEndpoint::~SocketEndpoint() {
  try {
    if (std::uncaught_exceptions() > exceptions_)
      fail({Errc::aborted, options.rank, "", "", joined({"rank ", options.rank, " left by an exception"})});
    if (!failure_)
      for (Peer const& peer : peers_) tell(peer.rank, FrameKind::goodbye);
  } catch (...) {  // as above
  }
  linger(std::chrono::seconds{1}, [](Connection const& connection) { return connection.delivered(); });
}

}  // namespace parallax::detail
