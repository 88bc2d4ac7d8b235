// Bodies of parallax/detail/launch/mpiexec.hpp.
#pragma once

#include "parallax/detail/launch/mpiexec.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE MpiexecKind starts_library(std::string_view words) {
  return words.find("Open MPI") != words.npos ? MpiexecKind::open_mpi : MpiexecKind::hydra;
}

PARALLAX_INLINE MpiexecKind kind_of_mpiexec(std::string_view words) {
  for (std::string_view const open_mpi : {"OpenRTE", "Open MPI", "PRRTE"})
    if (words.find(open_mpi) != words.npos) return MpiexecKind::open_mpi;
  for (std::string_view const hydra : {"HYDRA", "Intel(R) MPI"})
    if (words.find(hydra) != words.npos) return MpiexecKind::hydra;
  return MpiexecKind::unknown;
}

// Neighbouring ranks with equal variables: all of hosts without devices, or one with its device.
struct RankGroup {
  // List for mpiexec, parted by commas, with the number of ranks on each.
  std::string hosts;
  int ranks = 0;
  // -1: none.
  int device = -1;
};

// Returns a host in mpiexec's spelling. Throws Error (invalid_argument) for settings of ssh alone.
inline std::string host_for_mpiexec(HostResources const& host) {
  if (!host.user.empty() || host.port != 0 || host.name.find(':') != host.name.npos)
    throw Error{Errc::invalid_argument, -1, "launch", "",
                joined({"line ", host.line,
                        " of the hosts: mpiexec is told a name or an address of version 4; a user, a port or an address "
                        "of version 6 stands in the configuration of ssh"})};
  return joined({host.name, ":", host.ranks});
}

// Appends a word to a list of words, with a comma between them.
inline void append_to_list(std::string& list, std::string_view word) {
  if (!list.empty()) list += ',';
  list += word;
}

inline std::vector<RankGroup> groups_of(Resources const& resources) {
  std::vector<RankGroup> groups;
  for (HostResources const& host : resources.hosts) {
    std::string const name = host_for_mpiexec(host);
    for (int const device : host.devices) groups.push_back({name, 1, device});
    if (!host.devices.empty()) continue;
    if (groups.empty() || groups.back().device >= 0) groups.emplace_back();
    append_to_list(groups.back().hosts, name);
    groups.back().ranks += host.ranks;
  }
  return groups;
}

using Words = std::vector<std::string>;

// Adds Hydra's options: one list of hosts for the ranks of all groups.
inline void add_hydra_options(Words& words, Resources const& resources, std::string_view folder,
                              std::span<std::string const> names) {
  std::string hosts, list;
  for (HostResources const& host : resources.hosts) append_to_list(hosts, host_for_mpiexec(host));
  for (std::string const& name : names) append_to_list(list, name);
  words.insert(words.end(), {"-hosts", hosts, "-wdir", std::string{folder}});
  if (list.empty()) words.push_back("-genvnone");
  else words.insert(words.end(), {"-genvlist", list});
}

// Adds Open MPI's options, all anew for each group.
inline void add_open_mpi_options(Words& words, RankGroup const& group, std::string_view folder,
                                 std::span<std::string const> names) {
  words.insert(words.end(), {"--host", group.hosts, "--wdir", std::string{folder}});
  for (std::string const& name : names)
    if (group.device < 0 || name != "CUDA_VISIBLE_DEVICES") words.insert(words.end(), {"-x", name});
}

PARALLAX_INLINE std::vector<std::string> mpiexec_command(MpiexecKind kind, std::string_view mpiexec, Resources const& resources,
                                                         std::span<std::string const> program, std::string_view folder,
                                                         std::span<std::string const> names) {
  bool const hydra = kind != MpiexecKind::open_mpi;
  Words words{std::string{mpiexec}};
  if (hydra) add_hydra_options(words, resources, folder, names);
  bool first = true;
  for (RankGroup const& group : groups_of(resources)) {
    if (!std::exchange(first, false)) words.push_back(":");
    if (!hydra) add_open_mpi_options(words, group, folder, names);
    words.insert(words.end(), {"-n", std::to_string(group.ranks)});
    std::string const device = std::to_string(group.device);
    if (group.device >= 0 && hydra) words.insert(words.end(), {"-env", "CUDA_VISIBLE_DEVICES", device});
    if (group.device >= 0 && !hydra) words.insert(words.end(), {"-x", "CUDA_VISIBLE_DEVICES=" + device});
    words.insert(words.end(), program.begin(), program.end());
  }
  return words;
}

PARALLAX_INLINE std::vector<std::string> names_for_mpiexec() {
  std::vector<std::string> names;
  for (char** one = environ; *one; ++one) {
    std::string_view const setting{*one};
    bool known = goes_along(setting);
    for (std::string_view const begin : {"FI_", "MPICH_", "MPIR_", "UCX_"}) known = known || setting.starts_with(begin);
    if (known && can_be_exported(name_in(setting))) names.emplace_back(name_in(setting));
  }
  return names;
}

// Returns an mpiexec's description of itself; empty if it cannot be run.
inline std::string words_of_mpiexec(std::string_view mpiexec) {
  std::string words;
  std::FILE* const pipe = ::popen((shell_word(mpiexec) + " --version 2>/dev/null </dev/null").c_str(), "re");
  if (!pipe) return words;
  std::array<char, 512> part;
  while (std::size_t const count = std::fread(part.data(), 1, part.size(), pipe)) words.append(part.data(), count);
  return ::pclose(pipe) == 0 ? words : std::string{};
}

PARALLAX_INLINE void become_mpiexec(char const* given, std::string_view library, Resources const& resources,
                                    std::span<std::string const> program, bool all_speak) {
  char const* const named = std::getenv("MPIEXEC");
  std::string const mpiexec = given ? given : named && *named ? named : "mpiexec";
  std::string const itself = words_of_mpiexec(mpiexec);
  auto const first_line = [](std::string_view words) { return words.substr(0, words.find('\n')); };
  if (itself.empty())
    throw Error{Errc::file, -1, "launch", "",
                joined({mpiexec, " cannot be run: say --px-mpi=PATH, or MPIEXEC=PATH in the environment"})};
  MpiexecKind const kind = starts_library(library), its_kind = kind_of_mpiexec(itself);
  if (its_kind != MpiexecKind::unknown && its_kind != kind)
    throw Error{Errc::invalid_argument, -1, "launch", "",
                joined({mpiexec, " is that of another MPI (", first_line(itself), ") than the program is linked with (",
                        first_line(library), "): say --px-mpi=PATH, or MPIEXEC=PATH in the environment"})};
  ::setenv("PARALLAX_OUTPUT", all_speak ? "all" : "rank0", 1);
  if (!resources.mode.empty()) ::setenv("PARALLAX_MODE", resources.mode.c_str(), 1);
  char folder[4096];
  if (!::getcwd(folder, sizeof(folder)))
    throw Error{Errc::file, -1, "launch", "", "the system does not tell the working directory"};
  say_what_stays();
  std::vector<std::string> words = mpiexec_command(kind, mpiexec, resources, program, folder, names_for_mpiexec());
  std::vector<char*> pointers;
  for (std::string& word : words) pointers.push_back(word.data());
  pointers.push_back(nullptr);
  std::fflush(nullptr);
  ::execvp(pointers[0], pointers.data());
  throw Error{Errc::file, -1, "launch", "", joined({mpiexec, " cannot be run: ", std::strerror(errno)})};
}

PARALLAX_INLINE void speak_as_rank() {
  char const* const given = std::getenv("PARALLAX_OUTPUT");
  if (!given) return;
  bool const all_speak = std::string_view{given} == "all";
  ::unsetenv("PARALLAX_OUTPUT");
  char const* rank = nullptr;
  for (char const* name : {"PMI_RANK", "OMPI_COMM_WORLD_RANK", "PMIX_RANK"})
    if (!rank) rank = std::getenv(name);
  if (!rank || std::string_view{rank} == "0") return;
  std::fflush(nullptr);
  pass_on_lines(joined({"[", std::string_view{rank}, "] "}), all_speak);
}

}  // namespace parallax::detail
