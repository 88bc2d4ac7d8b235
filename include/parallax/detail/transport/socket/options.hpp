// What a SocketCommunicator is made with, given by the program or found in the environment. comm/socket.hpp includes it, and
// all that makes a world of sockets.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/core/checksum.hpp"
#include "parallax/detail/transport/socket/descriptor.hpp"
#include "parallax/detail/transport/socket/pmi.hpp"

namespace parallax {

// The options of a SocketCommunicator. The size, the key, shared_memory, checksums and the mailbox must be the same on all
// ranks.
struct SocketOptions {
  int rank = 0;  // this process's number, from 0
  int size = 1;  // how many processes there are
  // Where rank 0 listens, and all others call it: "host:port", or "[host]:port" of IPv6 in digits. Or how they learn it:
  // "file:PATH" of a file that all can see, which rank 0 writes and takes away; "pmi:" from the launcher that started the
  // processes.
  std::string address = "127.0.0.1:29500";
  // A secret of the job. Ranks prove to each other that they know it, and nobody else joins. Without one they meet on loopback
  // addresses alone, unless rank 0 makes one and leaves it in the file or with the launcher.
  std::string key = {};
  // How long a wait may last before it is an Error (timeout).
  std::chrono::nanoseconds deadline = std::chrono::seconds{60};
  // How long a rank may be late for the construction; 0: as long as the deadline.
  std::chrono::nanoseconds meeting_deadline{0};
  bool shared_memory = true;  // within a host; where it cannot be had, the connections
  // Checksums of the bytes of blocks and letters on connections, like those of the headers before them, which always have one.
  // Blocks and letters through memory of a host need none.
  bool checksums = false;
  // Of the mailbox of every rank.
  MailboxBounds mailbox = {};
};

namespace detail {
// How long ranks may take to come together.
inline std::chrono::nanoseconds meeting_deadline(SocketOptions const& options) {
  return options.meeting_deadline.count() > 0 ? options.meeting_deadline : options.deadline;
}
}  // namespace detail

// Local. The options of a process that was started together with others, none where it was not.
//   - with RANK, or JOB_COMPLETION_INDEX (Kubernetes) where that is missing; WORLD_SIZE; MASTER_ADDR and MASTER_PORT, as
//     torchrun does it. PARALLAX_PORT takes the place of MASTER_PORT, and PARALLAX_RENDEZVOUS, an address as SocketOptions have
//     it, that of both. torchrun's own store listens at MASTER_PORT, as TORCHELASTIC_USE_AGENT_STORE=True tells: then the port
//     is another one, from 20000 to 31999, that all ranks of this start take alike
//   - else by a launcher that speaks PMI-1, as mpiexec of MPICH and srun --mpi=pmi2 do: with PMI_FD, PMI_RANK and PMI_SIZE, or
//     PMI_PORT and PMI_ID. The first SocketCommunicator with these options asks it, and no second one can
// The key is what PARALLAX_JOB_KEY says, or what is in the file that PARALLAX_JOB_KEY_FILE names, which only its owner may
// read. Error: invalid_argument for a variable that is missing or makes no sense, file for a file that others may read or that
// cannot be read, misuse for variables of PMI without its launcher, and transport and timeout where that does not answer at
// PMI_PORT.
std::optional<SocketOptions> socket_options_from_environment();

namespace detail {

// A variable of the environment; empty where it is not set.
inline std::string environment(char const* name) {
  char const* const value = std::getenv(name);
  return value ? value : "";
}

// The same of a number, from `least` on. Error (invalid_argument) where it is missing, or no such number.
inline int number_in_environment(char const* name, int least) {
  std::string const text = environment(name);
  int number = 0;
  auto const [end, failure] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || failure != std::errc{} || end != text.data() + text.size() || number < least)
    throw Error{Errc::invalid_argument, -1, "SocketCommunicator", "",
                joined({"the environment says ", name, "='", text, "', where a number from ", least, " on is expected"})};
  return number;
}

// What the file holds, without spaces and lines' ends behind it. Error (file).
inline std::string key_in_file(std::string const& path) {
  auto const refuse = [&](std::string_view why) {
    throw Error{Errc::file, -1, "SocketCommunicator", "", joined({"the key of the job in '", path, "' ", why})};
  };
  OwnedDescriptor const file{open_descriptor(path.c_str(), O_RDONLY)};
  struct stat facts {};
  if (!file || ::fstat(file.get(), &facts) != 0) refuse(joined({"cannot be read: ", std::strerror(errno)}));
  if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) refuse("can be read by others: its mode must be 0600");
  std::string key(4096, '\0');
  auto const bytes = read_all(file.get(), key.data(), key.size());
  key.resize(bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  key.erase(key.find_last_not_of(" \t\r\n") + 1);
  if (key.empty()) refuse("is empty");
  return key;
}

// Whether there are all variables of a rank that has them all; what it returns is that of the rank, or null.
inline char const* rank_claims(Environment variable) {
  if (!variable("WORLD_SIZE") || !(variable("MASTER_ADDR") || variable("PARALLAX_RENDEZVOUS"))) return nullptr;
  char const* const rank = variable("RANK");
  return rank ? rank : variable("JOB_COMPLETION_INDEX");
}

// The port of rank 0, as the environment has it. Error (invalid_argument).
inline int port_in_environment() {
  if (!environment("PARALLAX_PORT").empty()) return number_in_environment("PARALLAX_PORT", 1);
  int const port = number_in_environment("MASTER_PORT", 1);
  if (environment("TORCHELASTIC_USE_AGENT_STORE") != "True") return port;
  std::string const start =
      joined({environment("TORCHELASTIC_RUN_ID"), "/", environment("TORCHELASTIC_RESTART_COUNT"), "/", port});
  return 20000 + static_cast<int>(checksum(start.data(), start.size()) % 12000);  // below what systems give away
}

// Where rank 0 listens, as the environment has it. Error (invalid_argument).
inline std::string address_in_environment() {
  std::string const told = environment("PARALLAX_RENDEZVOUS"), host = environment("MASTER_ADDR");
  if (!told.empty()) return told;
  int const port = port_in_environment();
  if (host.empty())
    throw Error{Errc::invalid_argument, -1, "SocketCommunicator", "", "the environment says RANK, but not MASTER_ADDR"};
  return joined({host.find(':') == std::string::npos ? host : joined({"[", host, "]"}), ":", port});
}

}  // namespace detail

inline std::optional<SocketOptions> socket_options_from_environment() {
  using detail::environment;
  auto const variable = [](char const* name) -> char const* { return std::getenv(name); };
  SocketOptions options;
  if (!detail::rank_claims(variable) && detail::pmi_claims(variable)) {
    constexpr std::chrono::seconds patience{20};  // with a launcher at a port, which is there before its processes are
    auto const own = detail::OwnLauncher::identity(variable, std::chrono::steady_clock::now() + patience);
    options.rank = own.rank, options.size = own.size, options.address = "pmi:";
  } else {
    if (environment("RANK").empty() && environment("WORLD_SIZE").empty()) return std::nullopt;
    options.size = detail::number_in_environment("WORLD_SIZE", 1);
    bool const indexed = !variable("RANK") && variable("JOB_COMPLETION_INDEX");
    options.rank = detail::number_in_environment(indexed ? "JOB_COMPLETION_INDEX" : "RANK", 0);
    options.address = detail::address_in_environment();
  }
  std::string const file = environment("PARALLAX_JOB_KEY_FILE");
  options.key = environment("PARALLAX_JOB_KEY");
  if (options.key.empty() && !file.empty()) options.key = detail::key_in_file(file);
  return options;
}

}  // namespace parallax
