// Any bytes as a file of hosts: they are refused by one short line that names line and column, or what is read of them keeps the bounds,
// and is nothing that a shell takes for a command.
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <string>
#include <string_view>

#include "parallax/detail/launch/resources.hpp"

namespace px = parallax;

namespace {

void demand(bool condition, char const* sentence) {
  if (condition) return;
  std::fprintf(stderr, "resources_fuzz: not so: %s\n", sentence);
  std::abort();
}

void check(px::Resources const& resources) {
  demand(!resources.hosts.empty(), "there is a host");
  demand(resources.ranks() >= 1 && resources.ranks() <= px::most_ranks_of_job, "ranks are within bounds");
  std::set<std::string> names;
  for (px::HostResources const& host : resources.hosts) {
    demand(names.insert(host.name).second, "no host is named twice");
    demand(!host.name.empty() && host.name[0] != '-' && (host.user.empty() || host.user[0] != '-'), "a name is no option");
    for (std::string_view const name : {std::string_view{host.name}, std::string_view{host.user}})
      demand(name.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-:%") == name.npos,
             "a name has nothing that a shell knows");
    demand(host.ranks >= 1 && host.ranks <= px::most_ranks_of_host, "ranks of a host are within bounds");
    demand(host.port >= 0 && host.port <= 65535, "a port is one");
    std::set<int> const devices{host.devices.begin(), host.devices.end()};
    demand(devices.size() == host.devices.size(), "no device is named twice");
    demand(devices.empty() || (*devices.begin() >= 0 && *devices.rbegin() <= px::most_device &&
                               devices.size() == static_cast<std::size_t>(host.ranks)),
           "each device is a rank's");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  try {
    check(px::parse_resources({reinterpret_cast<char const*>(data), size}, "fuzz"));
  } catch (px::Error const& error) {
    std::string const& sentence = error.detail();
    demand(error.code() == px::Errc::invalid_argument && sentence.starts_with("fuzz:"),
           "what is refused is told as it should be");
    demand(sentence.size() < 600, "a message is short, whatever names are long");
    for (char const c : sentence) demand(c >= ' ' && c < 127, "a message is one visible line");
  }
  return 0;
}
