// Bodies of parallax/detail/transport/socket/meeting.hpp.
#pragma once

#include "parallax/detail/transport/socket/meeting.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE SocketMeeting::SocketMeeting(SocketOptions const& options, OwnedDescriptor listener, Moment until)
    : options_{&options},
      listener_{std::move(listener)},
      until_{until},
      rendezvous_{options, mine_, until},
      links_(static_cast<std::size_t>(options.size)) {
  mine_.rank = options.rank;
  mine_.size = options.size;
  mine_.window = options.mailbox.window;
  mine_.largest = options.mailbox.largest;
  mine_.shared_memory = options.shared_memory;
  mine_.checksums = options.checksums;
  fill_by_chance(&mine_.communicator, sizeof mine_.communicator);
  set_host(mine_);
}

PARALLAX_INLINE void SocketMeeting::need_key(SocketAddress const& address) const {
  if (!rendezvous_.key().empty() || address.loopback()) return;
  throw Error{Errc::invalid_argument, options_->rank, "SocketCommunicator", "",
              joined({"without a key of the job (PARALLAX_JOB_KEY) ranks meet on loopback addresses only, and ",
                      text_of(address), " is none"})};
}

PARALLAX_INLINE void SocketMeeting::await_all() {
  if (options_->size == 1) return;
  check_descriptors(0, options_->size);
  if (rendezvous_.leaves_word()) {
    if (!listener_) listener_ = listening_everywhere(0);
    rendezvous_.leave_word(socket_address(listener_, &::getsockname));
  } else if (!listener_ && !rendezvous_.key().empty()) {
    listener_ = listening_everywhere(static_cast<std::uint16_t>(std::stoi(split_address(options_->address).port)));
  }
  while (!listener_) {
    auto const addresses = rendezvous_.look();
    if (addresses.empty() && std::chrono::steady_clock::now() > until_)
      throw Error{Errc::timeout, 0, "SocketCommunicator", "", joined({"nobody knows the address '", options_->address, "'"})};
    if (addresses.empty()) {
      std::this_thread::sleep_for(retry);
    } else {
      need_key(addresses[0]);
      listener_ = listening_socket(addresses[0]);
    }
  }
  need_key(socket_address(listener_, &::getsockname));
  run(links_.size() - 1);
  rendezvous_.close();
}

PARALLAX_INLINE void SocketMeeting::call_first() {
  calls_.emplace_back();
  run(1);
  check_descriptors(options_->rank, options_->size);  // now that rank 0 can tell all others
}

PARALLAX_INLINE void SocketMeeting::join(std::vector<SocketAddress> const& addresses, FunctionRef<void()> look) {
  for (int rank = 1; rank < options_->rank; ++rank) {
    Call& call = calls_.emplace_back();
    call.rank = rank;
    call.addresses = {addresses[static_cast<std::size_t>(rank)]};
  }
  run(links_.size() - 1, look);
  rendezvous_.close();
}

PARALLAX_INLINE void SocketMeeting::run(std::size_t links, FunctionRef<void()> look) {
  while (there_ < links) {
    look();
    accept_some();
    greet_callers();
    for (Call& call : calls_) move_on(call);
    std::erase_if(calls_, [&](Call const& call) { return linked(call.rank); });
    if (there_ >= links) break;
    Moment const now = std::chrono::steady_clock::now();
    if (now > until_) throw missing();
    if (now > speaks_) say_who_is_missing();
    wait_a_moment();
  }
}

PARALLAX_INLINE void SocketMeeting::wait_a_moment() {
  std::vector<pollfd> sockets;
  if (listener_) sockets.push_back({listener_.get(), POLLIN, 0});
  for (auto const& greeting : callers_) sockets.push_back({greeting->socket(), greeting->wants(), 0});
  for (Call const& call : calls_)
    if (call.greeting) sockets.push_back({call.greeting->socket(), call.greeting->wants(), 0});
  poll_until(sockets, std::min<Moment>(until_, std::chrono::steady_clock::now() + retry));
}

PARALLAX_INLINE void SocketMeeting::accept_some() {
  constexpr int at_once = 64;  // then callers already here have their turn
  for (int k = 0; listener_ && k < at_once; ++k) {
    OwnedDescriptor socket{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (!socket && is_lack()) {
      if (callers_.empty()) throw lack("accept");
      callers_.erase(callers_.begin());  // perhaps a stranger; a rank calls again
      continue;
    }
    if (!socket) return;
    if (rendezvous_.key().empty() && !socket_address(socket).loopback()) continue;
    if (callers_.size() >= 2 * links_.size() + 64) callers_.erase(callers_.begin());  // a stranger, silent
    auto const until = std::min<Moment>(until_, std::chrono::steady_clock::now() + patience);
    callers_.push_back(std::make_unique<Greeting>(std::move(socket), false, rendezvous_.key(), mine_, until));
  }
}

PARALLAX_INLINE void SocketMeeting::greet_callers() {
  for (auto& caller : callers_) {
    auto const state = caller->move_on();
    if (state == Greeting::State::done) admit(*caller, false);
    if (state == Greeting::State::failed && caller->is_of_another_version()) caller_ = caller->why();
    if (state != Greeting::State::pending) caller.reset();
  }
  std::erase(callers_, nullptr);
}

PARALLAX_INLINE void SocketMeeting::move_on(Call& call) {
  if (linked(call.rank)) return;
  if (!call.greeting) {
    if (std::chrono::steady_clock::now() >= call.again) dial(call);
    if (!call.greeting) return;
  }
  auto const state = call.greeting->move_on();
  if (state == Greeting::State::pending) return;
  if (state == Greeting::State::failed) call.note(call.greeting->why(), call.greeting->greeted());
  else if (int const rank = call.greeting->theirs().rank; rank != call.rank) call.note(joined({"is rank ", rank}), true);
  else admit(*call.greeting, true);
  call.greeting.reset();
  call.again = std::chrono::steady_clock::now() + retry;
}

PARALLAX_INLINE std::chrono::milliseconds SocketMeeting::patience_with(Call const& call) const {
  if (call.addresses.size() == 1 && !rendezvous_.leaves_word()) return patience;
  return std::min<std::chrono::milliseconds>(patience, std::chrono::milliseconds{250} * (1 << std::min(call.rounds, 5)));
}

PARALLAX_INLINE void SocketMeeting::listen(SocketAddress const& first) {
  if (rendezvous_.key().empty()) listener_ = listening_socket(first.at(0));
  else if (!listener_) listener_ = listening_everywhere(0);
  mine_.port = socket_address(listener_, &::getsockname).port();
}

PARALLAX_INLINE void SocketMeeting::dial(Call& call) {
  if (call.rank == 0 && call.next >= call.addresses.size()) {
    call.rounds += !call.addresses.empty();
    call.addresses = rendezvous_.look();
    call.next = 0;
    if (call.addresses.empty()) call.note(rendezvous_.why());
  }
  call.again = std::chrono::steady_clock::now() + (call.addresses.empty() ? 5 * retry : retry);
  if (call.addresses.empty()) return;
  SocketAddress const& address = call.addresses[call.rank == 0 ? call.next++ : 0];
  need_key(address);
  if (call.rank == 0) listen(address);
  OwnedDescriptor socket{::socket(address.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)};
  if (!socket && is_lack()) throw lack("socket");
  if (!socket || !begin_connecting(socket, address)) {
    call.note(std::strerror(errno));  // perhaps this host has no IPv6
    return;
  }
  call.greeting = std::make_unique<Greeting>(std::move(socket), true, rendezvous_.key(), mine_,
                                             std::min<Moment>(until_, std::chrono::steady_clock::now() + patience_with(call)));
}

PARALLAX_INLINE bool SocketMeeting::alive(OwnedDescriptor const& socket) {
  char byte;
  auto const count = uninterrupted([&] { return ::recv(socket.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT); });
  return count > 0 || (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK));
}

// Throws about ranks that disagree. Both ends of a connection come to the same words, about the higher one.
PARALLAX_INLINE void SocketMeeting::check(RankFacts const& theirs) {
  auto const refuse = [](int rank, std::string const& why) {
    throw Error{Errc::mismatch, rank, "SocketCommunicator", "", why};
  };
  RankFacts const& low = theirs.rank < mine_.rank ? theirs : mine_;
  RankFacts const& high = theirs.rank < mine_.rank ? mine_ : theirs;
  if (low.size != high.size)
    refuse(high.rank,
           joined({"rank ", high.rank, " was told of ", high.size, " ranks, and rank ", low.rank, " of ", low.size}));
  if (theirs.rank < 0 || theirs.rank >= mine_.size)
    refuse(theirs.rank, joined({"there is no rank ", theirs.rank, " in a world of ", mine_.size}));
  if (low.window != high.window || low.largest != high.largest)
    refuse(high.rank, joined({"rank ", high.rank, " was given another mailbox than rank ", low.rank}));
  if (low.shared_memory != high.shared_memory)
    refuse(high.rank, joined({"rank ", high.rank, " was given another shared_memory than rank ", low.rank}));
  if (low.checksums != high.checksums)
    refuse(high.rank, joined({"rank ", (low.checksums ? low : high).rank, " was given checksums, and rank ",
                              (low.checksums ? high : low).rank, " was not"}));
  RankLink const& before = links_[static_cast<std::size_t>(theirs.rank)];
  bool const twice =
      before.there && before.facts.communicator != theirs.communicator && (!before.socket || alive(before.socket));
  if (twice || theirs.rank == mine_.rank) refuse(theirs.rank, joined({"two processes call themselves rank ", theirs.rank}));
}

PARALLAX_INLINE void SocketMeeting::admit(Greeting& greeting, bool called) {
  RankFacts const theirs = greeting.theirs();
  RankLink link{greeting.take(), theirs, {}, true};
  link.address = unmapped(socket_address(link.socket));
  tune(link.socket, options_->deadline);
  try {
    check(theirs);
  } catch (...) {
    refused_ = std::move(link);
    throw;
  }
  if (!called && theirs.rank < mine_.rank) return;
  there_ += !linked(theirs.rank);
  links_[static_cast<std::size_t>(theirs.rank)] = std::move(link);
}

PARALLAX_INLINE std::vector<int> SocketMeeting::hosts() const {
  std::vector<int> hosts;
  int next = 0;
  auto const facts_of = [&](std::size_t rank) -> RankFacts const& {
    return static_cast<int>(rank) == mine_.rank ? mine_ : links_[rank].facts;
  };
  auto const same = [](RankFacts const& one, RankFacts const& other) {
    return one.boot == other.boot && one.name == other.name;
  };
  for (std::size_t rank = 0; rank < links_.size(); ++rank) {
    std::size_t first = 0;
    while (!same(facts_of(first), facts_of(rank))) ++first;
    hosts.push_back(first < rank ? hosts[first] : next++);
  }
  return hosts;
}

PARALLAX_INLINE SocketMeeting::Absent SocketMeeting::absent() const {
  Absent found;
  for (int rank = 0; rank < options_->size; ++rank) {
    if (rank == options_->rank || linked(rank)) continue;
    if (options_->rank > 0 && there_ == 0 && rank > 0) break;  // only rank 0 knows of them
    if (found.count++ == 0) found.first = rank;
    append(found.ranks, {found.count > 1 ? ", " : "", rank});
  }
  for (Call const& call : calls_) {
    if (call.rank != found.first) continue;
    std::string where = call.addresses.empty() ? options_->address : text_of(call.addresses[0]);
    if (!call.addresses.empty() && rendezvous_.leaves_word()) where = joined({options_->address, ", ", where});
    found.why = joined({": ", where, ": ", call.why});
  }
  if (found.why.empty() && !caller_.empty()) found.why = joined({"; a process that called ", caller_});
  return found;
}

PARALLAX_INLINE void SocketMeeting::say_who_is_missing() {
  speaks_ = Moment::max();
  Absent const found = absent();
  std::string where;
  if (options_->rank == 0) {
    SocketAddress const own = socket_address(listener_, &::getsockname);
    where = joined({" to ", own.anywhere() ? options_->address : text_of(own)});
  }
  say(joined({"parallax: rank ", options_->rank, " waits: rank", found.count > 1 ? "s " : " ", found.ranks,
              found.count > 1 ? " have not come" : " has not come", where, " yet", found.why, "\n"}));
}

PARALLAX_INLINE Error SocketMeeting::missing() const {
  Absent const found = absent();
  return {Errc::timeout, found.first, "SocketCommunicator", "",
          joined({"rank ", options_->rank, " waited longer than the deadline of ",
                  std::to_string(std::chrono::duration<double>{meeting_deadline(*options_)}.count()), " s for ",
                  found.count > 1 ? "ranks " : "rank ", found.ranks, found.why})};
}

}  // namespace parallax::detail
