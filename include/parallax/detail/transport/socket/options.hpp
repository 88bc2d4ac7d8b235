// The options of a SocketCommunicator, given by the program or found in the environment. comm/socket.hpp includes it, and all
// parts of a world of sockets.
#pragma once

#include <fcntl.h>
#include <sys/stat.h>

#include <cerrno>
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

// The options of a SocketCommunicator. Size, key, shared_memory, checksums and mailbox must be the same on all ranks.
struct SocketOptions {
  int rank = 0;  // this process's number, from 0
  int size = 1;  // number of processes
  // Address of rank 0, called by all others: "host:port", or "[host]:port" of IPv6 in digits. Or the means to learn it:
  // "file:PATH" of a file that all can see, written and taken away by rank 0; "pmi:" from the launcher of the processes.
  std::string address = "127.0.0.1:29500";
  // A secret of the job. Ranks prove to each other that they know it, and nobody else joins. Without one they meet on loopback
  // addresses alone, unless rank 0 makes one and leaves it in the file or with the launcher.
  std::string key = {};
  // Longest wait; a longer one is an Error (timeout).
  std::chrono::nanoseconds deadline = std::chrono::seconds{60};
  // Longest delay of a rank at the construction; 0: the deadline.
  std::chrono::nanoseconds meeting_deadline{0};
  bool shared_memory = true;  // within a host; if there is none, the connections
  // Checksums of the bytes of blocks and letters on connections, beside those of the headers before them, always there. Blocks
  // and letters through memory of a host need none.
  bool checksums = false;
  // Bounds of the mailbox of every rank.
  MailboxBounds mailbox = {};
};

namespace detail {
// Returns the time for the ranks to come together: the option of that name, or, if it is 0, the deadline.
std::chrono::nanoseconds meeting_deadline(SocketOptions const& options);
}  // namespace detail

// Local. Returns the options of a process started together with others, none for another process.
//   - with RANK, or JOB_COMPLETION_INDEX (Kubernetes) without it; WORLD_SIZE; MASTER_ADDR and MASTER_PORT, as torchrun sets
//     them. PARALLAX_PORT takes the place of MASTER_PORT, and PARALLAX_RENDEZVOUS, an address in the form of SocketOptions, the
//     place of both. torchrun's own store listens at MASTER_PORT, if TORCHELASTIC_USE_AGENT_STORE=True: then the port is
//     another one, from 20000 to 31999, the same for all ranks of this start
//   - else by a launcher that speaks PMI-1, as mpiexec of MPICH and srun --mpi=pmi2 do: with PMI_FD, PMI_RANK and PMI_SIZE, or
//     PMI_PORT and PMI_ID. The first SocketCommunicator with these options asks it, and no second one can
// The key is the value of PARALLAX_JOB_KEY, or the content of the file in PARALLAX_JOB_KEY_FILE, for its owner's eyes alone.
// Throws Error: invalid_argument for a variable that is missing or makes no sense, file for a file readable by others or not at
// all, misuse for variables of PMI without its launcher, and transport and timeout if it does not answer at PMI_PORT.
std::optional<SocketOptions> socket_options_from_environment();

namespace detail {

// Returns a file's content, without spaces and lines' ends behind. Throws Error (file) if it is unreadable, empty or public.
std::string key_in_file(std::string const& path);

// Returns the value of the rank's variable (of the environment, not owned) if all of a rank's variables are there, else null.
char const* rank_claims(Environment variable);

}  // namespace detail

}  // namespace parallax

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/socket/options-inl.hpp"
#endif
