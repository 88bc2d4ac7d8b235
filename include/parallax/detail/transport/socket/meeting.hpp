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

// A connection to a rank that has proved itself.
struct RankLink {
  OwnedDescriptor socket;
  RankFacts facts;
  // Its address as seen from here, with the port of the connection.
  SocketAddress address;
  // True if the rank is there; the socket may have been taken since.
  bool there = false;
};

// A meeting of ranks. Refers to the options. Everything has to have happened before `until`. A rank that still waits after
// three seconds says so, once, in a line on stderr.
class SocketMeeting {
 public:
  // `listener`: rank 0's own, or none.
  SocketMeeting(SocketOptions const& options, OwnedDescriptor listener, Moment until);

  // By rank 0: waits until all others have called. Error: timeout with the names of the missing, mismatch if ranks were told of
  // different worlds, transport if it cannot listen, invalid_argument for an address that needs a key, and Rendezvous' errors.
  void await_all();
  // By all others, first: calls until rank 0 was reached. Errors likewise.
  void call_first();
  // Joins all others. `addresses`: of their listeners, by rank. Returns once all but rank 0 were reached, or have called.
  // `look` throws rank 0's words meanwhile of a failed rank.
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
  // Moves on all greetings and calls, until this number of links is there. Throws Error (timeout), and all errors of `look`.
  void run(
      std::size_t links, FunctionRef<void()> look = [] {});
  void wait_a_moment();
  void accept_some();
  void greet_callers();
  void move_on(Call& call);
  // Calls the next address. Error: invalid_argument if it needs a key, and Rendezvous' errors.
  void dial(Call& call);
  // Returns the patience with the present address: if there are others, or may be soon, it is short at first.
  std::chrono::milliseconds patience_with(Call const& call) const;
  // Listens for ranks with higher numbers, wherever rank 0 is called at this address.
  void listen(SocketAddress const& first);
  // Admits a rank that has proved itself. Error (mismatch) if it is none of this world.
  void admit(Greeting& greeting, bool called);
  void check(RankFacts const& theirs);
  // The missing ranks, as far as this one has to know of them, and the reasons; `first` is the first of them.
  struct Absent {
    std::string ranks, why;
    int first = -1, count = 0;
  };
  Absent absent() const;
  // Says on stderr the missing ranks, and their addresses. Only the first call says anything.
  void say_who_is_missing();
  // Returns true if a connection is still there, as far as one can see.
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

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/socket/meeting-inl.hpp"
#endif
