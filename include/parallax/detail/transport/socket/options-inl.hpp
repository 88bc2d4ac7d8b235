// Bodies of parallax/detail/transport/socket/options.hpp.
#pragma once

#include "parallax/detail/transport/socket/options.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE std::chrono::nanoseconds meeting_deadline(SocketOptions const& options) {
  return options.meeting_deadline.count() > 0 ? options.meeting_deadline : options.deadline;
}

// Returns a variable of the environment; empty if it is not set.
inline std::string environment(char const* name) {
  char const* const value = std::getenv(name);
  return value ? value : "";
}

// Returns the number in a variable. Throws Error (invalid_argument) if it is missing, no number, or less than `least`.
inline int number_in_environment(char const* name, int least) {
  std::string const text = environment(name);
  auto const number = whole_number(text);
  if (!number || *number < least)
    throw Error{Errc::invalid_argument, -1, "SocketCommunicator", "",
                joined({"the environment says ", name, "='", text, "', where a number from ", least, " on is expected"})};
  return *number;
}

PARALLAX_INLINE std::string key_in_file(std::string const& path) {
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

PARALLAX_INLINE char const* rank_claims(Environment variable) {
  if (!variable("WORLD_SIZE") || !(variable("MASTER_ADDR") || variable("PARALLAX_RENDEZVOUS"))) return nullptr;
  char const* const rank = variable("RANK");
  return rank ? rank : variable("JOB_COMPLETION_INDEX");
}

// Returns the port of rank 0, as the environment has it. Throws Error (invalid_argument) if it has none, or no number from 1.
inline int port_in_environment() {
  if (!environment("PARALLAX_PORT").empty()) return number_in_environment("PARALLAX_PORT", 1);
  int const port = number_in_environment("MASTER_PORT", 1);
  if (environment("TORCHELASTIC_USE_AGENT_STORE") != "True") return port;
  std::string const start =
      joined({environment("TORCHELASTIC_RUN_ID"), "/", environment("TORCHELASTIC_RESTART_COUNT"), "/", port});
  return 20000 + static_cast<int>(checksum(start.data(), start.size()) % 12000);  // below the ports given away by systems
}

// Returns the address of rank 0, as the environment has it. Throws Error (invalid_argument) if host or port are missing.
inline std::string address_in_environment() {
  std::string const told = environment("PARALLAX_RENDEZVOUS"), host = environment("MASTER_ADDR");
  if (!told.empty()) return told;
  int const port = port_in_environment();
  if (host.empty())
    throw Error{Errc::invalid_argument, -1, "SocketCommunicator", "", "the environment says RANK, but not MASTER_ADDR"};
  return joined({host.find(':') == std::string::npos ? host : joined({"[", host, "]"}), ":", port});
}

}  // namespace parallax::detail

namespace parallax::inline v0_2 {

PARALLAX_INLINE std::optional<SocketOptions> socket_options_from_environment() {
  using detail::environment;
  auto const variable = [](char const* name) -> char const* { return std::getenv(name); };
  SocketOptions options;
  if (!detail::rank_claims(variable) && detail::pmi_claims(variable)) {
    constexpr std::chrono::seconds patience{20};  // with a launcher at a port: it is there before its processes
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
