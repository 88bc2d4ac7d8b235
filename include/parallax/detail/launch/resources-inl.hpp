// Bodies of parallax/detail/launch/resources.hpp.
#pragma once

#include "parallax/detail/launch/resources.hpp"

namespace parallax::inline v0_2::detail {

// Goes through one line from left to right. Refers to the text and to the file's name.
class ResourceLine {
 public:
  ResourceLine(std::string_view text, std::string_view file, int number) : text_{text}, file_{file}, number_{number} {}

  // Passes spaces by. Returns true at the end of the line, or at a comment.
  bool ends() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
    return at_ == text_.size() || text_[at_] == '#';
  }
  // Passes `c` by if it is next, and returns true then.
  bool passes(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  // Passes by, and returns, as many characters as `is` holds for.
  template <class Is>
  std::string_view word(Is is) {
    std::size_t const begin = at_;
    while (at_ < text_.size() && is(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  std::size_t at() const { return at_; }

  // Reads a number in decimal digits from `least` to `most`, else throws Error (invalid_argument). `what`: its meaning.
  int number(char const* what, int least, int most) {
    std::size_t const begin = at_;
    std::string_view const digits = word([](char c) { return c >= '0' && c <= '9'; });
    long value = 0;
    for (char const digit : digits) value = std::min(value * 10 + (digit - '0'), 1'000'000L);
    if (digits.empty()) refuse(begin, {what, " is a number from ", least, " to ", most, ", not ", shown_rest(begin)});
    if (value < least || value > most) refuse(begin, {what, " is from ", least, " to ", most, ", not ", digits.substr(0, 20)});
    return static_cast<int>(value);
  }
  // Throws Error (invalid_argument) unless a space, or the line's end, comes next.
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
inline bool is_name_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}

// Reads and returns the host at the beginning of a line. Throws Error (invalid_argument), as the readers below.
inline HostResources host_of(ResourceLine& line) {
  HostResources host;
  std::size_t begin = line.at();
  std::string_view name = line.word(is_name_character);
  auto const check = [&](char const* what) {
    if (name.empty()) line.refuse(line.at(), {what, " is missing before ", line.shown_rest(line.at())});
    if (name[0] == '-') line.refuse(begin, {what, " begins with '-': ", line.shown_rest(begin)});
    if (name.size() > 253) line.refuse(begin, {what, " has ", name.size(), " characters; 253 are the most"});
  };
  if (line.passes('@')) {
    check("the user's name");
    host.user = name;
    begin = line.at();
    name = line.word(is_name_character);
  }
  if (name.empty() && line.passes('[')) {
    host.name = line.word([](char c) { return is_name_character(c) || c == ':' || c == '%'; });
    unsigned char address[16];
    std::string const plain = host.name.substr(0, host.name.find('%'));  // the rest names an interface
    std::string const interface = plain.size() == host.name.size() ? "x" : host.name.substr(plain.size() + 1);
    bool const named =
        !interface.empty() && interface[0] != '-' && std::all_of(interface.begin(), interface.end(), is_name_character);
    if (!named || ::inet_pton(AF_INET6, plain.c_str(), address) != 1)
      line.refuse(begin + 1, {"in brackets stands an address of version 6, not ", line.shown_rest(begin + 1)});
    if (!line.passes(']')) line.refuse(line.at(), {"']' is missing behind the address"});
    return host;
  }
  check("a host's name");
  host.name = name;
  return host;
}

// Takes the devices behind "host:", a rank for each.
inline void take_devices(ResourceLine& line, HostResources& host) {
  do {
    if (line.ends()) line.refuse(line.at(), {"a device is missing"});
    std::size_t const begin = line.at();
    int const device = line.number("a device", 0, most_device);
    if (std::find(host.devices.begin(), host.devices.end(), device) != host.devices.end())
      line.refuse(begin, {"device ", device, " is named twice"});
    host.devices.push_back(device);
    std::size_t const behind = line.at();
    if (line.ends()) break;
    if (!line.passes(',')) {
      if (line.at() == behind) line.refuse(behind, {"devices are parted by ',', not by ", line.shown_rest(behind)});
      break;
    }
  } while (true);
  host.ranks = static_cast<int>(host.devices.size());
}

// Reads the settings behind a host: slots=N and port=N, each at most once.
inline void take_settings(ResourceLine& line, HostResources& host) {
  bool has_slots = false;
  while (!line.ends()) {
    std::size_t const begin = line.at();
    std::string_view const key = line.word([](char c) { return c >= 'a' && c <= 'z'; });
    bool const of_slots = key == "slots";
    if ((!of_slots && key != "port") || !line.passes('='))
      line.refuse(begin, {"behind a host stands slots=N or port=N, not ", line.shown_rest(begin)});
    if (of_slots && !host.devices.empty()) line.refuse(begin, {"a host has devices or slots, not both"});
    if (of_slots ? std::exchange(has_slots, true) : host.port != 0) line.refuse(begin, {key, " is given twice"});
    int& setting = of_slots ? host.ranks : host.port;
    setting = of_slots ? line.number("slots", 1, most_ranks_of_host) : line.number("a port", 1, 65535);
    line.space_before_next();
  }
}

// Returns the mode behind "mode =".
inline std::string mode_of(ResourceLine& line) {
  if (line.ends()) line.refuse(line.at(), {"a mode is missing: hybrid, all_reduce, parameter_server or async"});
  std::size_t const begin = line.at();
  std::string_view const mode = line.word([](char c) { return c > ' ' && c != '#'; });
  if (mode != "hybrid" && mode != "all_reduce" && mode != "parameter_server" && mode != "async")
    line.refuse(begin, {"a mode is hybrid, all_reduce, parameter_server or async, not ", line.shown_rest(begin)});
  if (!line.ends()) line.refuse(line.at(), {"behind the mode stands ", line.shown_rest(line.at())});
  return std::string{mode};
}

}  // namespace parallax::detail

namespace parallax::inline v0_2 {

PARALLAX_INLINE Resources parse_resources(std::string_view text, std::string_view file) {
  Resources resources;
  int number = 0, mode_line = 0;
  if (text.size() > most_resource_bytes)
    throw Error{Errc::invalid_argument, -1, "launch", "",
                joined({file, ": it has ", text.size(), " bytes; a MiB is the most"})};
  while (!text.empty()) {
    std::size_t const length = std::min(text.find('\n'), text.size());
    std::string_view one = text.substr(0, length);
    text.remove_prefix(std::min(length + 1, text.size()));
    if (one.ends_with('\r')) one.remove_suffix(1);
    detail::ResourceLine line{one, file, ++number};
    if (line.ends()) continue;
    std::size_t const begin = line.at();
    detail::ResourceLine ahead = line;  // "mode =" is no host
    if (ahead.word(detail::is_name_character) == "mode" && !ahead.ends() && ahead.passes('=')) {
      if (mode_line != 0) line.refuse(begin, {"the mode is given twice, in line ", mode_line, " first"});
      mode_line = number;
      resources.mode = detail::mode_of(ahead);
      continue;
    }
    HostResources host = detail::host_of(line);
    host.line = number;
    for (HostResources const& other : resources.hosts)
      if (other.name == host.name) line.refuse(begin, {"host ", host.name, " is named twice, in line ", other.line, " first"});
    if (line.passes(':')) detail::take_devices(line, host);
    else line.space_before_next();
    detail::take_settings(line, host);
    if (resources.ranks() + host.ranks > most_ranks_of_job)
      line.refuse(
          begin, {"with this host there are ", resources.ranks() + host.ranks, " ranks; ", most_ranks_of_job, " are the most"});
    resources.hosts.push_back(std::move(host));
  }
  if (resources.hosts.empty()) throw Error{Errc::invalid_argument, -1, "launch", "", joined({file, ": it names no host"})};
  return resources;
}

PARALLAX_INLINE Resources read_resources(std::string const& path) {
  detail::OwnedDescriptor const file{detail::open_descriptor(path.c_str(), O_RDONLY)};
  if (!file) throw Error{Errc::file, -1, "launch", "", joined({path, ": it cannot be opened (errno ", errno, ")"})};
  std::string text(most_resource_bytes + 1, '\0');
  auto const bytes = detail::read_all(file.get(), text.data(), text.size());
  if (bytes < 0) throw Error{Errc::file, -1, "launch", "", joined({path, ": it cannot be read (errno ", errno, ")"})};
  text.resize(static_cast<std::size_t>(bytes));
  return parse_resources(text, path);
}

}  // namespace parallax
