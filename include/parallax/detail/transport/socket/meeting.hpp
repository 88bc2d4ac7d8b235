// How ranks over sockets find each other: rank 0 listens where everybody looks for it, all others call it, and then those with
// lower numbers. An endpoint (detail/transport/socket/endpoint.hpp) has one until its world is together. Strangers who call are
// heard for some seconds and some hundred bytes, and then dropped.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "parallax/detail/core/function_ref.hpp"
#include "parallax/detail/launch/last_words.hpp"
#include "parallax/detail/transport/socket/greeting.hpp"
#include "parallax/detail/transport/socket/options.hpp"
#include "parallax/detail/transport/socket/rendezvous.hpp"

namespace parallax::detail {

// A connection to a rank that has proved itself.
struct RankLink {
  OwnedDescriptor socket;
  RankFacts facts;
  // Its address as seen from here, with the port of the connection.
  SocketAddress address;
  // Whether it is there; the socket may have been taken since.
  bool there = false;
};

// Refers to the options. Everything has to have happened before `until`. A rank that still waits after three seconds says so, once,
// in a line on stderr.
class SocketMeeting {
 public:
  // `listener`: rank 0's own, or none.
  SocketMeeting(SocketOptions const& options, OwnedDescriptor listener, Moment until);

  // By rank 0: until all others have called. Error: timeout that names who is missing, mismatch where ranks were told of
  // different worlds, transport where it cannot listen, invalid_argument for an address that needs a key, and those of
  // Rendezvous.
  void await_all();
  // By all others, first: until rank 0 was reached. Errors likewise.
  void call_first();
  // Joins all others: `addresses` by rank, where each listens. Returns once all but rank 0 were reached, or have called. `look`
  // throws what rank 0 says meanwhile of a rank that has failed.
  void join(std::vector<SocketAddress> const& addresses, FunctionRef<void()> look);

  // Error (timeout) that names those who are not there.
  Error missing() const;

  // By rank: those that were reached, also after an Error; the rank's own has no socket.
  std::vector<RankLink>& links() { return links_; }
  // By rank, once all are there: its host, numbered from 0 in the order of their first rank.
  std::vector<int> hosts() const;
  // Who has proved itself and must not join, to be told why.
  RankLink& refused() { return refused_; }

 private:
  static constexpr std::chrono::milliseconds retry{20};  // between two calls of a rank that does not answer
  static constexpr std::chrono::seconds patience{5};     // with those who have called and are not known yet
  static constexpr std::chrono::seconds silence{3};      // of a rank that waits

  // A rank to be called, and what has become of it.
  struct Call {
    int rank = 0;
    std::vector<SocketAddress> addresses;
    std::size_t next = 0;  // is called next
    int rounds = 0;        // through all addresses
    std::unique_ptr<Greeting> greeting;
    Moment again{};  // not before
    std::string why = "was not reached";
    bool greeted = false;  // somebody there spoke the protocol

    // What is known of a rank that was heard once is not replaced by that it is silent now.
    void note(std::string_view reason, bool heard = false) {
      if (heard || !greeted) why = reason;
      greeted = greeted || heard;
    }
  };

  bool linked(int rank) const { return links_[static_cast<std::size_t>(rank)].there; }
  // Moves on all greetings and calls, until this number of links is there. Throws Error (timeout), and what `look` throws.
  void run(
      std::size_t links, FunctionRef<void()> look = [] {});
  void wait_a_moment();
  void accept_some();
  void greet_callers();
  void move_on(Call& call);
  // Calls the next address. Error: invalid_argument where it needs a key, and those of Rendezvous.
  void dial(Call& call);
  // How long the next address is waited for: where there are others, or may be soon, not for long at first.
  std::chrono::milliseconds patience_with(Call const& call) const;
  // Listens for ranks with higher numbers, wherever rank 0 is called at this address.
  void listen(SocketAddress const& first);
  // A rank has proved itself. Error (mismatch) where it is none of this world.
  void admit(Greeting& greeting, bool called);
  void check(RankFacts const& theirs);
  // The ranks that are not there, as far as this one has to know of them, and why; `first` is the first of them.
  struct Absent {
    std::string ranks, why;
    int first = -1, count = 0;
  };
  Absent absent() const;
  // Says on stderr who is waited for, and where. Only the first call says anything.
  void say_who_is_missing();
  // Whether a connection is still there, as far as one can see.
  static bool alive(OwnedDescriptor const& socket);
  void need_key(SocketAddress const& address) const;
  // Returns Error (transport): the system has refused a call of this rank's.
  Error lack(std::string_view call) const { return system_error(call, options_->rank); }

  SocketOptions const* options_;
  OwnedDescriptor listener_;
  Moment until_, speaks_ = std::chrono::steady_clock::now() + silence;
  RankFacts mine_;
  Rendezvous rendezvous_;
  std::vector<RankLink> links_;
  std::size_t there_ = 0;                           // of them
  std::vector<std::unique_ptr<Greeting>> callers_;  // not known yet, the oldest first
  std::vector<Call> calls_;
  RankLink refused_;
  std::string caller_;  // why the last caller of another version of the protocol was turned away
};

inline SocketMeeting::SocketMeeting(SocketOptions const& options, OwnedDescriptor listener, Moment until)
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

inline void SocketMeeting::need_key(SocketAddress const& address) const {
  if (!rendezvous_.key().empty() || address.loopback()) return;
  throw Error{Errc::invalid_argument, options_->rank, "SocketCommunicator", "",
              joined({"without a key of the job (PARALLAX_JOB_KEY) ranks meet on loopback addresses only, and ",
                      text_of(address), " is none"})};
}

inline void SocketMeeting::await_all() {
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

inline void SocketMeeting::call_first() {
  calls_.emplace_back();
  run(1);
  check_descriptors(options_->rank, options_->size);  // now that rank 0 can tell all others
}

inline void SocketMeeting::join(std::vector<SocketAddress> const& addresses, FunctionRef<void()> look) {
  for (int rank = 1; rank < options_->rank; ++rank) {
    Call& call = calls_.emplace_back();
    call.rank = rank;
    call.addresses = {addresses[static_cast<std::size_t>(rank)]};
  }
  run(links_.size() - 1, look);
  rendezvous_.close();
}

inline void SocketMeeting::run(std::size_t links, FunctionRef<void()> look) {
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

inline void SocketMeeting::wait_a_moment() {
  std::vector<pollfd> sockets;
  if (listener_) sockets.push_back({listener_.get(), POLLIN, 0});
  for (auto const& greeting : callers_) sockets.push_back({greeting->socket(), greeting->wants(), 0});
  for (Call const& call : calls_)
    if (call.greeting) sockets.push_back({call.greeting->socket(), call.greeting->wants(), 0});
  poll_until(sockets, std::min<Moment>(until_, std::chrono::steady_clock::now() + retry));
}

inline void SocketMeeting::accept_some() {
  constexpr int at_once = 64;  // then those who are here have their turn
  for (int k = 0; listener_ && k < at_once; ++k) {
    OwnedDescriptor socket{::accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)};
    if (!socket && is_lack()) {
      if (callers_.empty()) throw lack("accept");
      callers_.erase(callers_.begin());  // perhaps a stranger; a rank calls again
      continue;
    }
    if (!socket) return;
    if (rendezvous_.key().empty() && !socket_address(socket).loopback()) continue;
    if (callers_.size() >= 2 * links_.size() + 64) callers_.erase(callers_.begin());  // a stranger, who keeps silent
    auto const until = std::min<Moment>(until_, std::chrono::steady_clock::now() + patience);
    callers_.push_back(std::make_unique<Greeting>(std::move(socket), false, rendezvous_.key(), mine_, until));
  }
}

inline void SocketMeeting::greet_callers() {
  for (auto& caller : callers_) {
    auto const state = caller->move_on();
    if (state == Greeting::State::done) admit(*caller, false);
    if (state == Greeting::State::failed && caller->is_of_another_version()) caller_ = caller->why();
    if (state != Greeting::State::pending) caller.reset();
  }
  std::erase(callers_, nullptr);
}

inline void SocketMeeting::move_on(Call& call) {
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

inline std::chrono::milliseconds SocketMeeting::patience_with(Call const& call) const {
  if (call.addresses.size() == 1 && !rendezvous_.leaves_word()) return patience;
  return std::min<std::chrono::milliseconds>(patience, std::chrono::milliseconds{250} * (1 << std::min(call.rounds, 5)));
}

inline void SocketMeeting::listen(SocketAddress const& first) {
  if (rendezvous_.key().empty()) listener_ = listening_socket(first.at(0));
  else if (!listener_) listener_ = listening_everywhere(0);
  mine_.port = socket_address(listener_, &::getsockname).port();
}

inline void SocketMeeting::dial(Call& call) {
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

inline bool SocketMeeting::alive(OwnedDescriptor const& socket) {
  char byte;
  auto const count = uninterrupted([&] { return ::recv(socket.get(), &byte, 1, MSG_PEEK | MSG_DONTWAIT); });
  return count > 0 || (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK));
}

// Both ends of a connection come to the same words: of two ranks that disagree it is the higher one.
inline void SocketMeeting::check(RankFacts const& theirs) {
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

inline void SocketMeeting::admit(Greeting& greeting, bool called) {
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

inline std::vector<int> SocketMeeting::hosts() const {
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

inline SocketMeeting::Absent SocketMeeting::absent() const {
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

inline void SocketMeeting::say_who_is_missing() {
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

inline Error SocketMeeting::missing() const {
  Absent const found = absent();
  return {Errc::timeout, found.first, "SocketCommunicator", "",
          joined({"rank ", options_->rank, " waited longer than the deadline of ",
                  std::to_string(std::chrono::duration<double>{meeting_deadline(*options_)}.count()), " s for ",
                  found.count > 1 ? "ranks " : "rank ", found.ranks, found.why})};
}

}  // namespace parallax::detail
