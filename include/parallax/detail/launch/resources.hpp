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
  // As ssh takes it, without brackets.
  std::string name;
  // Empty: the user who starts the job.
  std::string user;
  // Of ssh; 0: ssh's own default.
  int port = 0;
  // Of each rank; empty: none has one.
  std::vector<int> devices;
  // Number of ranks on the host; as many as devices, if these are named.
  int ranks = 1;
  // In the file, from 1.
  int line = 0;

  // Returns true for this host, without need of ssh: localhost, 127.0.0.1 or ::1.
  bool here() const { return user.empty() && port == 0 && (name == "localhost" || name == "127.0.0.1" || name == "::1"); }
};

// Content of such a file.
struct Resources {
  // At least one, in the order of the lines, and of the ranks.
  std::vector<HostResources> hosts;
  // hybrid, all_reduce or parameter_server; empty if the file says none.
  std::string mode;

  // Returns the ranks of all hosts.
  int ranks() const {
    int all = 0;
    for (HostResources const& host : hosts) all += host.ranks;
    return all;
  }
};

// Most slots of a host.
inline constexpr int most_ranks_of_host = 4096;
// The most ranks of all hosts together.
inline constexpr int most_ranks_of_job = 65536;
// The largest number of a device.
inline constexpr int most_device = 4095;
// Most bytes of a file.
inline constexpr std::size_t most_resource_bytes = std::size_t{1} << 20;

// Local. Parses the text of such a file. `file`: its name, for errors. Throws Error (invalid_argument) with file, line and
// column, the latter counted in bytes from 1.
Resources parse_resources(std::string_view text, std::string_view file);
// Local. Reads and parses such a file, of at most a MiB. Throws Error (file) if it cannot be read.
Resources read_resources(std::string const& path);

namespace detail {

// Goes through one line from left to right. Refers to the text and to the file's name.
class ResourceLine {
 public:
  ResourceLine(std::string_view text, std::string_view file, int number) : text_{text}, file_{file}, number_{number} {}

  // Passes spaces by. Returns true at the end of the line, or at a comment.
  bool ends() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    return at_ == text_.size() || text_[at_] == '#';
  }
  // Passes `c` by if it is next.
  bool passes(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  // Returns as many characters as `is` holds for.
  template <class Is>
  std::string_view word(Is is) {
    std::size_t const begin = at_;
    while (at_ < text_.size() && is(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  std::size_t at() const { return at_; }

  // Reads a number in decimal digits from `least` to `most`. `what`: its meaning, for errors.
  int number(char const* what, int least, int most) {
    std::size_t const begin = at_;
    std::string_view const digits = word([](char c) { return c >= '0' && c <= '9'; });
    long value = 0;
    for (char const digit : digits) value = std::min(value * 10 + (digit - '0'), 1'000'000L);
    if (digits.empty()) refuse(begin, {what, " is a number from ", least, " to ", most, ", not ", shown_rest(begin)});
    if (value < least || value > most) refuse(begin, {what, " is from ", least, " to ", most, ", not ", digits.substr(0, 20)});
    return static_cast<int>(value);
  }
  // Throws unless a space, or the line's end, comes next.
  void space_before_next() {
    std::size_t const begin = at_;
    if (!ends() && at_ == begin) refuse(begin, {"a space is missing before ", shown_rest(begin)});
  }

  [[noreturn]] void refuse(std::size_t at, std::initializer_list<TextFragment> sentence) const {
    throw Error{Errc::invalid_argument, -1, "launch", "", joined({file_, ":", number_, ":", at + 1, ": ", joined(sentence)})};
  }
  // Returns the text from `at` up to a space, in quotation marks, with a question mark for each invisible character.
  std::string shown_rest(std::size_t at) const {
    std::string shown = "'";
    for (; at < text_.size() && text_[at] != ' ' && shown.size() < 40; ++at)
      shown += text_[at] > ' ' && text_[at] < 127 ? text_[at] : '?';
    return shown == "'" ? "the end of the line" : shown + "'";
  }

 private:
  std::string_view text_, file_;
  int number_;
  std::size_t at_ = 0;
};

// Returns true if a name of a host or user may have this character: it means nothing else to a shell or to ssh.
bool is_name_character(char c);

// Reads the host at the beginning of a line.
HostResources host_of(ResourceLine& line);

// Takes the devices behind "host:", a rank for each.
void take_devices(ResourceLine& line, HostResources& host);

// Reads the settings behind a host: slots=N and port=N, each at most once.
void take_settings(ResourceLine& line, HostResources& host);

// Returns the mode behind "mode =".
std::string mode_of(ResourceLine& line);

}  // namespace detail

}  // namespace parallax

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/launch/resources-inl.hpp"
#endif
