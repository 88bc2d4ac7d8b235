// Bodies of parallax/detail/transport/socket/endpoint.hpp.
#pragma once

#include "parallax/detail/transport/socket/endpoint.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE SocketEndpoint::SocketEndpoint(SocketOptions const& given, OwnedDescriptor listener)
    : options{given},
      peers_{std::max(given.size, 1), *this},
      host_meeting_{std::max(given.size, 1)},
      texts_(static_cast<std::size_t>(std::max(given.size, 1))) {
  if (options.size < 1 || options.rank < 0 || options.rank >= options.size)
    throw Error{Errc::invalid_argument, -1, "SocketCommunicator", "",
                joined({"there is no rank ", options.rank, " of ", options.size})};
  check_bounds(options.mailbox, std::numeric_limits<std::size_t>::max(), "SocketCommunicator");
  blocks_.join(options.rank, options.size);
  mailbox_.join(options.rank, options.size, options.mailbox);
  journals.join(options.size);
  try {
    Moment const until = std::chrono::steady_clock::now() + meeting_deadline(options);
    meet(std::move(listener), until);
    if (options.shared_memory) share_memory(until);
  } catch (...) {
    abort(current_error(options.rank, "SocketCommunicator"));
    peers_.linger(std::chrono::milliseconds{250}, &Connection::delivered);
    throw;
  }
}

PARALLAX_INLINE void SocketEndpoint::meet(OwnedDescriptor listener, Moment until) {
  SocketMeeting meeting{options, std::move(listener), until};
  try {
    if (options.rank == 0) {
      meeting.await_all();
      note_hosts(meeting);
      tell_directory(meeting);
    } else {
      meeting.call_first();
      meeting.join(hear_directory(meeting, until), [this] {
        move_on();  // a rank may have failed since it found all together: its word is heard afterwards
        if (failure_ && failure_->operation() == "SocketCommunicator") throw *failure_;
      });
      note_hosts(meeting);
      install(meeting);
    }
  } catch (...) {
    install(meeting);
    fail(current_error(options.rank, "SocketCommunicator"));
    if (meeting.refused().socket) tell_refused(std::move(meeting.refused().socket), *failure_, *this);
    throw;
  }
}

PARALLAX_INLINE void SocketEndpoint::install(SocketMeeting& meeting) {
  for (int rank = 0; rank < options.size; ++rank) {
    RankLink& link = meeting.links()[static_cast<std::size_t>(rank)];
    if (!link.socket) continue;
    peers_.connect(rank, std::move(link.socket), printable(link.facts.name.data()));
    if (failure_) peers_.tell(rank, FrameKind::abort, 0, error_bytes(*failure_));  // to a quicker rank
  }
}

PARALLAX_INLINE void SocketEndpoint::tell_directory(SocketMeeting& meeting) {
  std::vector<std::byte> directory;
  for (RankLink const& link : meeting.links()) {
    SocketAddress const address = link.address.length > 0 ? link.address.at(link.facts.port) : SocketAddress{};
    auto const* const bytes = reinterpret_cast<std::byte const*>(&address);
    directory.insert(directory.end(), bytes, bytes + sizeof address);
  }
  install(meeting);
  for (int rank = 1; rank < options.size; ++rank) peers_.tell(rank, FrameKind::directory, 0, directory);
}

// Waits for rank 0's directory. A rank of rank 0's own host may have reached it at an address for that host alone: others find
// the rank at rank 0's address.
PARALLAX_INLINE std::vector<SocketAddress> SocketEndpoint::hear_directory(SocketMeeting& meeting, Moment until) {
  SocketAddress const first = meeting.links()[0].address;
  install(meeting);
  for (move_on(); directory_.empty(); move_on()) {
    if (failure_) throw *failure_;
    if (std::chrono::steady_clock::now() > until + std::chrono::milliseconds{200})  // rank 0 may be about to name the missing
      throw Error{
          Errc::timeout, 0, "SocketCommunicator", "",
          joined({"rank ", options.rank, " has reached rank 0, and was not told within the deadline where the others are"})};
    sleep(std::chrono::milliseconds{50});
  }
  std::vector<SocketAddress> addresses(static_cast<std::size_t>(options.size));
  if (directory_.size() != addresses.size() * sizeof(SocketAddress)) throw broken(0, "sent a directory of another size");
  std::memcpy(addresses.data(), directory_.data(), directory_.size());
  for (SocketAddress& address : addresses)
    if (address.length > 0 && address.loopback() && !first.loopback()) address = first.at(address.port());
  return addresses;
}

PARALLAX_INLINE void SocketEndpoint::note_hosts(SocketMeeting const& meeting) {
  hosts = meeting.hosts();
  auto const here = std::count(hosts.begin(), hosts.end(), hosts[static_cast<std::size_t>(options.rank)]);
  // A launcher may have bound each rank to cores of its own: then the affinity of one says nothing of all.
  oversubscribed = outnumber(static_cast<int>(here), least_cores(cores_of_host(), cores_by_quota()));
}

PARALLAX_INLINE void SocketEndpoint::share_memory(Moment until) {
  auto const await = [&](FunctionRef<int()> missing) {
    for (int rank = missing(); rank >= 0; rank = missing()) {
      check();
      if (std::chrono::steady_clock::now() > until)
        throw Error{Errc::timeout, rank, "SocketCommunicator", "",
                    joined({"rank ", rank, " has come, but did not say within the deadline what memory it finds on its host"})};
      sleep(std::chrono::milliseconds{50});
    }
  };
  std::unique_ptr<HostMemory> memory;
  try {
    memory = host_meeting_.meet(peers_, options.rank, hosts, await);
  } catch (Error const&) {
    if (!failure_ || !host_meeting_.has_answered()) throw;  // else the failed one may have been together with all
  }
  if (!memory) return;
  host_ =
      std::make_unique<SocketHost>(std::move(memory), host_meeting_.here(), host_meeting_.self(), options.rank, options.size);
  lending.join(host_->loans(), host_meeting_.here());
  for (int const rank : host_meeting_.here()) blocks_.leave_out(rank);
}

PARALLAX_INLINE void SocketEndpoint::post(int channel, Transfer const& transfer) {
  birth_.check(options.rank, "ialltoallv");
  if (told_) throw *failure_;
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
  block.summed = options.checksums ? 1 : 0;
  block.number = blocks_.open(channel, transfer);
  try {
    for (int k = 1; k < options.size; ++k) {
      int const other = (options.rank + k) % options.size;
      ByteRange const sent = transfer.to[static_cast<std::size_t>(other)];
      if (near(other)) {
        ByteRange const got = transfer.from[static_cast<std::size_t>(other)];
        if (got.bytes > 0) host_->neighbours().receive(channel, block.number, other, transfer.receive + got.offset, got.bytes);
        if (sent.bytes > 0) host_->neighbours().send(channel, block.number, other, transfer.send + sent.offset, sent.bytes);
        continue;
      }
      blocks_.claim(channel, other, peers_.connection(other));
      block.total = sent.bytes;
      if (sent.bytes > 0) peers_.send(other, block, transfer.send + sent.offset);
    }
    if (host_) host_->move_on(peers_);  // words here already are not told of again
  } catch (...) {
    fail(current_error(options.rank, "ialltoallv"));
    withdraw(channel);
    throw;
  }
}

PARALLAX_INLINE bool SocketEndpoint::progress(int channel) {
  if (!blocks_.busy(channel)) return true;
  move_on();
  if (told_) refuse();
  if (!complete(channel) || given_up(channel)) {
    if (!failure_) look_for_the_departed(channel);
    return false;
  }
  blocks_.close(channel);
  return true;
}

PARALLAX_INLINE void SocketEndpoint::withdraw(int channel) noexcept {
  if (!blocks_.busy(channel) || birth_.in_child()) return;
  peers_.withdraw(channel);
  if (host_) host_->neighbours().give_up(channel);
  blocks_.close(channel);
}

PARALLAX_INLINE void SocketEndpoint::look_for_the_departed(int channel) {
  if (host_ && host_->moved()) return;  // their blocks in memory come bit by bit
  for (int rank = 0; rank < options.size; ++rank)
    if (peers_.left(rank) && needs(channel, rank)) {
      fail(broken(rank, "has ended its communicator, and is waited for"));
      throw *failure_;
    }
}

PARALLAX_INLINE bool SocketEndpoint::hopes() const {
  if (std::chrono::steady_clock::now() - failed_at_ > std::chrono::milliseconds{250}) return false;
  if (host_ && host_->moved()) return true;
  auto const may_be_completed = [&](int channel) {
    if (!blocks_.busy(channel) || given_up(channel)) return false;
    for (int rank = 0; rank < options.size; ++rank)
      if (peers_.silent(rank) && needs(channel, rank)) return false;
    return true;
  };
  int channel = 0;
  while (channel < channels && !may_be_completed(channel)) ++channel;
  return channel < channels;
}

// Waits a moment for a missing place: if its process has ended, the connection says so, soon.
PARALLAX_INLINE std::byte* SocketEndpoint::address_of(Place const& place) {
  if (std::byte* const memory = lending.address_of(place, options.rank)) return memory;
  auto const until = std::chrono::steady_clock::now() + std::chrono::milliseconds{250};
  for (check(); std::chrono::steady_clock::now() < until; check()) sleep(std::chrono::milliseconds{5});
  throw broken(host_meeting_.owner_of(place), joined({"lends ", place.bytes, " bytes that cannot be mapped"}));
}

// Moves on memory behind the connections: so this rank sees all blocks there of a rank after its goodbye.
PARALLAX_INLINE void SocketEndpoint::move_on() {
  birth_.check(options.rank, "SocketCommunicator");
  if (host_) host_->look();
  peers_.move_on();
  if (told_) return;
  if (int const rank = failure_ ? -1 : peers_.lost(); rank >= 0)
    return fail(broken(rank, joined({"has gone without a goodbye: ", peers_.connection(rank).reason()})));
  try {
    if (host_) host_->move_on(peers_);
  } catch (Error const& error) {
    fail(error);
  }
  if (failure_ && !hopes()) give_up();
}

// Returns the reason against a message as announced by a rank, in a world of so many; empty if it is well: no rank waits for more
// bytes than its kind may have. A block is well here: its operation, when posted, says its number of bytes.
inline std::string objection(int from, FrameHeader const& message, int size, SocketMailbox const& mailbox) {
  std::uint64_t least = 0, most = 0;
  switch (message.kind) {
    case FrameKind::block: return {};
    case FrameKind::request:
    case FrameKind::answer: most = mailbox.bounds.largest; break;
    case FrameKind::abort: most = most_error_bytes; break;
    case FrameKind::directory:
      if (from == 0) least = most = static_cast<std::uint64_t>(size) * sizeof(SocketAddress);
      break;
    case FrameKind::question:
    case FrameKind::status: least = most = sizeof(RankStatus); break;
    case FrameKind::place: least = most = sizeof(Place); break;
    case FrameKind::credit:
    case FrameKind::found:
    case FrameKind::bell:
    case FrameKind::goodbye: break;
  }
  if (message.total < least || message.total > most)
    return joined({"announces ", name_of(message.kind), " of ", message.total, " bytes, where ", most,
                   least == most ? " are expected" : " are the most"});
  if (message.kind == FrameKind::request && !mailbox.expects_request(from))
    return joined({"sends more requests than the ", mailbox.bounds.window, " that may wait"});
  return {};
}

PARALLAX_INLINE std::byte* SocketEndpoint::begin(int from, FrameHeader const& message) {
  if (told_) return nullptr;
  try {
    if (auto const why = objection(from, message, options.size, mailbox_); !why.empty()) throw broken(from, why);
    if (message.kind == FrameKind::block) return blocks_.begin(from, message);
  } catch (Error const& error) {
    fail(error);
  }
  return more(from, message, message.bytes_behind(0), nullptr);
}

PARALLAX_INLINE std::byte* SocketEndpoint::more(int from, FrameHeader const& message, std::size_t bytes, std::byte* to) {
  if (told_) return nullptr;
  switch (message.kind) {
    case FrameKind::block: return blocks_.more(from, message, bytes, to);
    case FrameKind::request:
    case FrameKind::answer: return mailbox_.grow(from, bytes, message.total);
    case FrameKind::abort:
    case FrameKind::directory: return grow(texts_[static_cast<std::size_t>(from)], bytes, message.total);
    case FrameKind::question:
    case FrameKind::status: return journals.begin(from);
    case FrameKind::place: return host_meeting_.begin(from);
    default: return nullptr;
  }
}

PARALLAX_INLINE void SocketEndpoint::come(int from, FrameHeader const& message) {
  if (message.kind == FrameKind::goodbye || message.kind == FrameKind::abort)
    peers_.part(from, message.kind == FrameKind::goodbye);
  if (told_) return;
  switch (message.kind) {
    case FrameKind::block: return blocks_.come(from, message);
    case FrameKind::request: return mailbox_.come(from, LetterLane::requests);
    case FrameKind::answer: return mailbox_.come(from, LetterLane::answers);
    case FrameKind::credit:
      if (mailbox_.credit(from, message.number)) return;
      return fail(broken(from, joined({"claims to have taken ", message.number, " requests, which were not sent"})));
    case FrameKind::question: return journals.come(from, true);
    case FrameKind::status: return journals.come(from, false);
    case FrameKind::directory: return directory_.swap(texts_[static_cast<std::size_t>(from)]);
    case FrameKind::abort: return hear(error_from(texts_[static_cast<std::size_t>(from)], options.size), message.number);
    case FrameKind::place: return host_meeting_.come(from);
    case FrameKind::found: return host_meeting_.answer(from, message.number == 1);
    case FrameKind::bell:
    case FrameKind::goodbye: return;
  }
}

PARALLAX_INLINE bool SocketEndpoint::post_letter(LetterLane lane, int to, LetterParts parts) {
  birth_.check(options.rank, "post");
  if (failure_) refuse();
  check_letter(options.rank, options.size, to, parts, mailbox_.bounds.largest);
  if (to == options.rank) return mailbox_.post_own(lane, parts);
  bool const request = lane == LetterLane::requests;
  if (request && mailbox_.full(to)) check();
  if (request && mailbox_.full(to)) return false;
  std::vector<std::byte> bytes;
  write_letter(bytes, parts);
  if (request) mailbox_.posted(to);
  peers_.tell(to, request ? FrameKind::request : FrameKind::answer, 0, std::move(bytes), options.checksums);
  return true;
}

PARALLAX_INLINE bool SocketEndpoint::take_letter(LetterLane lane, int from, Letter& letter) {
  check_writer(options.rank, options.size, from);
  check();
  if (!mailbox_.take(lane, from, letter)) return false;
  if (lane == LetterLane::requests && letter.from != options.rank)
    peers_.tell(letter.from, FrameKind::credit, mailbox_.taken(letter.from), {});
  return true;
}

PARALLAX_INLINE std::optional<RankStatus> SocketEndpoint::status_of(int other, bool& fresh) {
  if (other == options.rank) return journals.journal.status();
  if (!failure_ && journals.asks(other)) tell_status(other, FrameKind::question);
  return journals.status_of(other, fresh);
}

PARALLAX_INLINE void SocketEndpoint::answer() {
  move_on();
  for (int rank = 0; rank < options.size; ++rank)
    if (journals.owes(rank) && !failure_) tell_status(rank, FrameKind::status);
}

PARALLAX_INLINE void SocketEndpoint::announce() {
  if (failure_) return;
  for (int rank = 0; rank < options.size; ++rank) tell_status(rank, FrameKind::status);
  peers_.linger(std::chrono::seconds{1}, &Connection::idle);
}

PARALLAX_INLINE void SocketEndpoint::tell_status(int to, FrameKind kind) {
  birth_.check(options.rank, "SocketCommunicator");
  RankStatus const own = journals.journal.status();
  auto const* const bytes = reinterpret_cast<std::byte const*>(&own);
  peers_.tell(to, kind, 0, {bytes, bytes + sizeof own});
}

PARALLAX_INLINE void SocketEndpoint::hear(Error const& reason, std::uint64_t given_up) {
  given_up_ |= given_up;
  if (failure_) return;
  failure_ = reason;
  failed_at_ = std::chrono::steady_clock::now();
}

PARALLAX_INLINE void SocketEndpoint::refuse() {
  give_up();
  throw *failure_;
}

PARALLAX_INLINE void SocketEndpoint::give_up() {
  if (std::exchange(told_, true)) return;
  std::uint64_t in_flight = 0;
  for (int channel = 0; channel < channels; ++channel) in_flight |= std::uint64_t{blocks_.busy(channel)} << channel;
  peers_.fail(*failure_, in_flight);
}

PARALLAX_INLINE void SocketEndpoint::abort(Error const& reason) {
  if (birth_.in_child()) return;
  fail(reason);
  int const silent = reason.code() == Errc::timeout ? reason.rank() : -1;
  peers_.linger(std::chrono::milliseconds{250}, &Connection::idle, silent);
}

PARALLAX_INLINE SocketEndpoint::~SocketEndpoint() {
  if (birth_.in_child()) return;
  try {
    if (std::uncaught_exceptions() > exceptions_)
      fail({Errc::aborted, options.rank, "", "", joined({"rank ", options.rank, " left by an exception"})});
    if (failure_) give_up();
    for (int rank = 0; rank < options.size && !failure_; ++rank) peers_.tell(rank, FrameKind::goodbye, 0, {});
  } catch (...) {  // no memory: the peers will see the end of the connection
  }
  peers_.linger(std::chrono::seconds{1}, &Connection::delivered);
}

}  // namespace parallax::detail
