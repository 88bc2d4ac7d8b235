// The file of a job's hosts and of their devices: `--px-hosts FILE`. A launcher parses it; a trainer that starts its ranks by
// itself may call `read_resources`.
//
//   # a comment, up to the end of the line
//   mode = hybrid          at most once: hybrid, all_reduce, parameter_server or async
//   node0: 0,1,2           a rank for each of these devices
//   node1 slots=4          four ranks without a device
//   me@node2 port=2222     one rank; by ssh as another user, at another port
//   [fe80::1] slots=2      an address of version 6 stands in brackets
//   localhost              without ssh
#pragma once

#include <arpa/inet.h>

#include <cerrno>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallax/core/error.hpp"
#include "parallax/detail/comm/owned_descriptor.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/system.hpp"

namespace parallax::inline v0_2 {

// A line of the file: a host with its ranks.
struct HostResources {
  std::string name;          // as ssh takes it, without brackets
  std::string user;          // empty: the user who starts the job
  int port = 0;              // of ssh; 0: ssh's own default
  std::vector<int> devices;  // of each rank; empty: none has one
  int ranks = 1;             // on the host; as many as devices, if these are named
  int line = 0;              // in the file, from 1

  // Returns true for this host, without need of ssh: localhost, 127.0.0.1 or ::1.
  bool here() const { return user.empty() && port == 0 && (name == "localhost" || name == "127.0.0.1" || name == "::1"); }
};

// Content of a file of hosts.
struct Resources {
  std::vector<HostResources> hosts;  // at least one, in the order of the lines, and of the ranks
  std::string mode;                  // hybrid, all_reduce, parameter_server or async; empty if the file says none

  // Returns the number of ranks of all hosts.
  int ranks() const {
    int all = 0;
    for (HostResources const& host : hosts) all += host.ranks;
    return all;
  }
};

inline constexpr int most_ranks_of_host = 4096;                           // slots of a host at most
inline constexpr int most_ranks_of_job = 65536;                           // ranks of all hosts together
inline constexpr int most_device = 4095;                                  // the largest number of a device
inline constexpr std::size_t most_resource_bytes = std::size_t{1} << 20;  // of a file

// Local. Parses the text of such a file. `file`: its name, for errors. Throws Error (invalid_argument) with file, line and
// column, the latter counted in bytes from 1.
Resources parse_resources(std::string_view text, std::string_view file);
// Local. Reads and parses such a file, of at most a MiB. Throws Error: file if it cannot be read, and parse_resources' own.
Resources read_resources(std::string const& path);

}  // namespace parallax

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/launch/resources-inl.hpp"
#endif
