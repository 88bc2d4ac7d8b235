// Questions of a process to its launcher, by PMI-1's protocol of lines and without a library: over an inherited socket (PMI_FD:
// mpiexec of MPICH and its relatives, srun --mpi=pmi2, flux run), or at a port (PMI_PORT: mpiexec -pmi-port). Ranks over
// sockets find rank 0 so (detail/transport/socket/rendezvous.hpp).
#pragma once

#include <poll.h>
#include <sys/stat.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "parallax/detail/core/birth.hpp"
#include "parallax/detail/core/system.hpp"
#include "parallax/detail/launch/guard.hpp"
#include "parallax/detail/transport/socket/descriptor.hpp"

namespace parallax::inline v0_2::detail {

// Most bytes of a line from a launcher.
inline constexpr std::size_t most_pmi_line = std::size_t{1} << 14;
// Most bytes of a request, with its end: launchers read so much at once.
inline constexpr std::size_t most_pmi_request = 1000;

// Returns the whole number that a text has in decimal digits; nothing for any other text.
std::optional<int> whole_number(std::string_view text);

// Returns a key's value, as a view of a line of the protocol: "cmd=get_result rc=0 value=x"; nothing, if the key is not there.
std::optional<std::string_view> pmi_value(std::string_view line, std::string_view key);

// Returns a line as shown to people: with a question mark for each invisible character, and cut behind 120 characters.
std::string shown_line(std::string_view line);

// The conversation of a process with its launcher. Each call waits for the answer until a moment. Throws Error: timeout after
// it, transport if the launcher hangs up, refuses, or sends no answer; the words name the rank, the request and the answer.
class PmiClient {
 public:
  // `socket`: to the launcher, and owned. It is closed by `finalize` alone, and otherwise by the end of the process: by the
  // difference launchers know a crashed rank. `rank`: this one, for errors; -1 if not known yet.
  PmiClient(OwnedDescriptor socket, int rank) : socket_{std::move(socket)}, rank_{rank} {}

  // This process's number, and how many there are.
  struct Identity {
    int rank = 0, size = 1;
  };
  // Asks at a port for this process's number, before all other questions. `id`: the value of PMI_ID.
  Identity identify(std::string_view id, Moment until);
  // Begins, after `identify` at a port, and learns the launcher's limits and the name of its store.
  void begin(Moment until);
  // Returns the most bytes of a value; known once it has begun.
  std::size_t largest_value() const { return largest_; }
  // Leaves a word, without spaces, under a key, for any rank's `get` after the next barrier.
  void put(std::string_view key, std::string_view word, Moment until);
  // Waits until all ranks of the launcher have called it.
  void barrier(Moment until) { ask("barrier_in", "barrier_out", "", until); }
  // Returns a word that a rank has `put`, before the last barrier, under this key.
  std::string get(std::string_view key, Moment until);
  // Ends the questions: this rank may then end as it likes.
  void finalize(Moment until) {
    ask("finalize", "finalize_ack", "", until);
    socket_.close();
  }
  // Does as `finalize` without memory of the heap: waits a second at most for an answer, of any kind. Throws nothing.
  void finalize_last() noexcept {
    constexpr std::string_view request = "cmd=finalize\n";
    auto const said = uninterrupted([&] { return ::send(socket_.get(), request.data(), request.size(), MSG_NOSIGNAL); });
    if (said != static_cast<::ssize_t>(request.size())) return;
    pollfd polled{socket_.get(), POLLIN, 0};
    char answer[256];
    if (uninterrupted([&] { return ::poll(&polled, 1, 1000); }) > 0)
      static_cast<void>(::recv(socket_.get(), answer, sizeof answer, MSG_DONTWAIT));
    socket_.close();
  }

 private:
  // Says a request (`more`: behind its name), and returns its answer, a line. Throws the class's errors.
  std::string ask(std::string_view command, std::string_view answer, std::string_view more, Moment until) {
    say(command, more, until);
    return hear(command, answer, until);
  }
  void say(std::string_view command, std::string_view more, Moment until);
  std::string hear(std::string_view command, std::string_view answer, Moment until);
  // Returns the next line, without its end. Throws Error: timeout, transport.
  std::string line(std::string_view command, Moment until);
  // Waits until the socket is ready for `event`, POLLIN or POLLOUT. Throws Error (timeout) after `until`.
  void wait(std::string_view command, short event, Moment until);
  // Returns a value in an answer. Throws Error (transport) if it is missing, or if a number is none, or less than `least`.
  std::string_view value(std::string_view command, std::string_view line, std::string_view key) const;
  int number(std::string_view command, std::string_view line, std::string_view key, int least) const;
  [[noreturn]] void fail(std::string_view command, std::string_view what, Errc code = Errc::transport) const {
    throw Error{code, rank_, "SocketCommunicator", "",
                joined({rank_ < 0 ? std::string{"a process"} : joined({"rank ", rank_}), " asked its launcher by PMI for '",
                        command, "', which ", what})};
  }

  OwnedDescriptor socket_;
  int rank_;
  std::string heard_, store_;
  std::size_t largest_ = 0;
};

// Returns the value of the variable by which a launcher of PMI-1 says where it is to be asked, PMI_FD or PMI_PORT, or null.
char const* pmi_claims(Environment variable);

// The launcher of this process, common to all of its code. It is asked once: for the ranks of one SocketCommunicator.
class OwnLauncher {
 public:
  // Returns this process's rank and size, as its variables tell, or, at a port, the launcher, waited for. Throws Error:
  // invalid_argument for variables that make no sense, misuse if PMI_FD is no socket or taken; and those of PmiClient.
  static PmiClient::Identity identity(Environment variable, Moment until) {
    auto const number = [&](char const* name) {
      char const* const text = variable(name);
      auto const found = whole_number(text ? text : "");
      if (!found || *found < 0) refuse(name, text);
      return *found;
    };
    if (!variable("PMI_FD")) return by_port(variable, until);
    PmiClient::Identity const own{number("PMI_RANK"), number("PMI_SIZE")};
    if (own.rank >= own.size) refuse("PMI_RANK", variable("PMI_RANK"));
    if (own.size > 1 && !client_) {
      int const descriptor = number("PMI_FD");
      struct stat facts {};
      if (::fstat(descriptor, &facts) != 0 || !S_ISSOCK(facts.st_mode))
        throw Error{Errc::misuse, own.rank, "SocketCommunicator", "",
                    joined({"PMI_FD=", descriptor,
                            " is no socket of a launcher here: was this program started by a rank, as its tool?"})};
      if ((::fcntl(descriptor, F_GETFD) & FD_CLOEXEC) != 0)  // a launcher leaves it off
        throw Error{Errc::misuse, own.rank, "SocketCommunicator", "",
                    joined({"the launcher's socket, PMI_FD=", descriptor,
                            ", is taken: the first parallax of a process joins by it, and no other version after that"})};
      ::fcntl(descriptor, F_SETFD, FD_CLOEXEC);  // programs started by this rank are no ranks
      client_.emplace(OwnedDescriptor{descriptor}, own.rank);
    }
    return own;
  }
  // Returns the launcher, kept here, after `identity`. Throws Error (misuse) if there is none, and at every further call.
  static PmiClient& client() {
    if (!client_ || std::exchange(spent_, true))
      throw Error{
          Errc::misuse, -1, "SocketCommunicator", "",
          "the address 'pmi:' is for a process that a launcher of PMI has started, and for its first SocketCommunicator"};
    return *client_;
  }
  // Ends this rank's questions, if there is a launcher, and waits for its answer. Throws the errors of PmiClient.
  static void finalize(Moment until) {
    if (!client_) return;
    try {
      client_->finalize(until);
    } catch (std::bad_alloc const&) {
      client_->finalize_last();
    }
  }

 private:
  [[noreturn]] static void refuse(char const* name, char const* text) {
    throw Error{Errc::invalid_argument, -1, "SocketCommunicator", "",
                joined({"the launcher's variable ", name, "='", text ? text : "", "' makes no sense"})};
  }
  static PmiClient::Identity by_port(Environment variable, Moment until) {
    if (client_) return identity_;
    HostAndPort const place = split_address(variable("PMI_PORT"));
    auto const addresses = addresses_of(place);
    if (addresses.empty())
      throw Error{Errc::transport, -1, "SocketCommunicator", "",
                  joined({"the launcher is to be asked at PMI_PORT='", variable("PMI_PORT"),
                          "', and nobody here knows the name '", place.host, "': /etc/hosts lacks the name of its machine"})};
    OwnedDescriptor socket = new_socket(addresses[0].storage.ss_family);
    if (!begin_connecting(socket, addresses[0]))
      throw system_error(joined({"connect to the launcher at PMI_PORT=", variable("PMI_PORT")}));
    client_.emplace(std::move(socket), -1);
    try {
      return identity_ = client_->identify(variable("PMI_ID"), until);
    } catch (...) {
      client_.reset();  // asked anew
      throw;
    }
  }

  static inline std::optional<PmiClient> client_;
  static inline PmiClient::Identity identity_;
  static inline bool spent_ = false;
};

// A farewell to the launcher that has joined the ranks, said by the destructor, which waits five seconds at most: this rank
// needs the launcher no more. A rank that dies without a farewell has crashed, and mpiexec ends the others. A rank that ends by
// an exception says it, too: its peers know the reason. A forked child says no farewell. Move-only.
class LauncherFarewell {
 public:
  LauncherFarewell() = default;
  LauncherFarewell(LauncherFarewell&& other) noexcept : due_{std::exchange(other.due_, false)}, birth_{other.birth_} {}
  LauncherFarewell& operator=(LauncherFarewell&& other) noexcept {
    std::swap(due_, other.due_);
    std::swap(birth_, other.birth_);
    return *this;
  }
  ~LauncherFarewell() {
    try {
      if (due_ && !birth_.in_child()) OwnLauncher::finalize(std::chrono::steady_clock::now() + std::chrono::seconds{5});
    } catch (...) {  // the launcher has gone, and will not miss this rank
    }
  }

  // Notes that the launcher has brought the ranks together: from now on the farewell is due.
  void becomes_due() { due_ = true; }

 private:
  bool due_ = false;
  Birth birth_;
};

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/socket/pmi-inl.hpp"
#endif
