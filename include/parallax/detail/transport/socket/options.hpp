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

namespace parallax::inline v0_2 {

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
std::chrono::nanoseconds meeting_deadline(SocketOptions const& options);
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
std::string environment(char const* name);

// The same of a number, from `least` on. Error (invalid_argument) where it is missing, or no such number.
int number_in_environment(char const* name, int least);

// What the file holds, without spaces and lines' ends behind it. Error (file).
std::string key_in_file(std::string const& path);

// Whether there are all variables of a rank that has them all; what it returns is that of the rank, or null.
char const* rank_claims(Environment variable);

// The port of rank 0, as the environment has it. Error (invalid_argument).
int port_in_environment();

// Where rank 0 listens, as the environment has it. Error (invalid_argument).
std::string address_in_environment();

}  // namespace detail

}  // namespace parallax

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/socket/options-inl.hpp"
#endif
