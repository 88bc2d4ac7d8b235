// The meeting of ranks over sockets: rank 0 listens at a known place, all others call it, and then ranks with lower numbers. An
// endpoint (detail/transport/socket/endpoint.hpp) has one until its world is together. Strangers' calls are heard for some
// seconds and some hundred bytes, and then dropped.
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

namespace parallax::inline v0_2::detail {

// A connection to a rank that has proved itself. Owns its socket.
struct RankLink {
  OwnedDescriptor socket;
  RankFacts facts;
  // Address of the rank as seen from here, with the port of the connection.
  SocketAddress address;
  // True if the rank is there; the socket may have been taken since.
  bool there = false;
};

// A meeting of ranks. Refers to the options, which outlive it; owns all sockets. Everything has to have happened before
// `until`. A rank that still waits after three seconds says so, once, in a line on stderr.
class SocketMeeting {
 public:
  // `listener`: rank 0's own, or none. Throws Error: transport, and invalid_argument for a wrong address.
  SocketMeeting(SocketOptions const& options, OwnedDescriptor listener, Moment until);

  // Waits, at rank 0, until all others have called. Throws Error: timeout with the names of the missing, mismatch if worlds
  // differ, transport if it cannot listen, invalid_argument for an address that needs a key, and those of Rendezvous.
  void await_all();
  // Calls, at all other ranks, and waits until rank 0 was reached; before `join`. Throws the errors of `await_all`.
  void call_first();
  // Waits until this rank has reached all ranks below it, and all above have called. `addresses`: of their listeners, by rank.
  // `look`, called meanwhile, throws rank 0's words of a failed rank. Throws the errors of `await_all`, too.
  void join(std::vector<SocketAddress> const& addresses, FunctionRef<void()> look);

  // Returns Error (timeout) with the names of the missing.
  Error missing() const;

  // Returns the links of the reached ranks, by rank, also after an Error; the rank's own has no socket.
  std::vector<RankLink>& links() { return links_; }
  // Returns each rank's host, by rank, once all are there. Hosts are numbered from 0 in the order of their first rank.
  std::vector<int> hosts() const;
  // Returns the link of a rank that has proved itself and must not join, to be told the reason.
  RankLink& refused() { return refused_; }

 private:
  static constexpr std::chrono::milliseconds retry{20};  // between two calls of a silent rank
  static constexpr std::chrono::seconds patience{5};     // with callers not known yet
  static constexpr std::chrono::seconds silence{3};      // of a waiting rank

  // A rank to be called, and the state of the call.
  struct Call {
    int rank = 0;
    std::vector<SocketAddress> addresses;
    std::size_t next = 0;  // is called next
    int rounds = 0;        // through all addresses
    std::unique_ptr<Greeting> greeting;
    Moment again{};  // not before
    std::string why = "was not reached";
    bool greeted = false;  // somebody there spoke the protocol

    // Notes a reason. A rank heard once keeps its own, though silent now.
    void note(std::string_view reason, bool heard = false) {
      if (heard || !greeted) why = reason;
      greeted = greeted || heard;
    }
  };

  bool linked(int rank) const { return links_[static_cast<std::size_t>(rank)].there; }
  // Waits, moving on greetings and calls, until so many links are there. Throws Error (timeout), and those of `look`, `dial`.
  void run(
      std::size_t links, FunctionRef<void()> look = [] {});
  void wait_a_moment();
  void accept_some();
  void greet_callers();
  void move_on(Call& call);
  // Calls the next address. Throws Error: invalid_argument if it needs a key, transport for a lack, and Rendezvous' errors.
  void dial(Call& call);
  // Returns the time for an answer at the present address: short at first if there are other addresses, or may be soon.
  std::chrono::milliseconds patience_with(Call const& call) const;
  // Listens for ranks with higher numbers where they can call this one, if rank 0 is at `first`. Throws Error (transport).
  void listen(SocketAddress const& first);
  // Admits a rank that has proved itself, with its socket; `called`: by this one. Throws Error (mismatch) if the worlds differ.
  void admit(Greeting& greeting, bool called);
  void check(RankFacts const& theirs);
  // The missing ranks, as far as this one has to know of them, in words, and the reason; the first one, and their number.
  struct Absent {
    std::string ranks, why;
    int first = -1, count = 0;
  };
  Absent absent() const;
  // Says on stderr the missing ranks, and their addresses. Only the first call says anything.
  void say_who_is_missing();
  // Returns true if the other end has not closed a connection, as far as one can see without waiting.
  static bool alive(OwnedDescriptor const& socket);
  void need_key(SocketAddress const& address) const;
  // Returns Error (transport): the system has just refused this rank a call, for errno's reason.
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

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/socket/meeting-inl.hpp"
#endif
