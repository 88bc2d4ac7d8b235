// Bodies of parallax/detail/transport/socket/pmi.hpp.
#pragma once

#include "parallax/detail/transport/socket/pmi.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE std::optional<int> whole_number(std::string_view text) {
  int number = 0;
  auto const [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return number;
}

PARALLAX_INLINE std::optional<std::string_view> pmi_value(std::string_view line, std::string_view key) {
  while (!line.empty()) {
    std::size_t const length = std::min(line.find(' '), line.size());
    std::string_view const pair = line.substr(0, length);
    if (pair.size() > key.size() && pair.starts_with(key) && pair[key.size()] == '=') return pair.substr(key.size() + 1);
    line.remove_prefix(std::min(length + 1, line.size()));
  }
  return std::nullopt;
}

PARALLAX_INLINE std::string shown_line(std::string_view line) {
  constexpr std::size_t most = 120;
  std::string shown{line.substr(0, most)};
  for (char& c : shown)
    if (c < ' ' || c > '~') c = '?';
  return line.size() > most ? shown + "..." : shown;
}

PARALLAX_INLINE void PmiClient::wait(std::string_view command, short event, Moment until) {
  std::vector<pollfd> polled{{socket_.get(), event, 0}};
  while (polled[0].revents == 0) {
    if (std::chrono::steady_clock::now() >= until)
      fail(command,
           command == "barrier_in" ? "was not answered within the deadline: another rank has not come"
                                   : "was not answered within the deadline",
           Errc::timeout);
    poll_until(polled, until);
  }
}

PARALLAX_INLINE void PmiClient::say(std::string_view command, std::string_view more, Moment until) {
  std::string const text = joined({"cmd=", command, more.empty() ? "" : " ", more, "\n"});
  if (text.size() > most_pmi_request)
    fail(command, joined({"would take ", text.size(), " bytes; ", most_pmi_request, " are the most"}));
  for (std::string_view rest = text; !rest.empty();) {
    wait(command, POLLOUT, until);
    auto const count = ::send(socket_.get(), rest.data(), rest.size(), MSG_NOSIGNAL | MSG_DONTWAIT);
    if (count < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) continue;
    if (count < 0) fail(command, joined({"cannot be said: ", std::strerror(errno)}));
    rest.remove_prefix(static_cast<std::size_t>(count));
  }
}

PARALLAX_INLINE std::string PmiClient::line(std::string_view command, Moment until) {
  for (;;) {
    if (std::size_t const end = heard_.find('\n'); end != heard_.npos) {
      std::string one = heard_.substr(0, end);
      heard_.erase(0, end + 1);
      return one;
    }
    if (heard_.size() > most_pmi_line)
      fail(command, joined({"was answered by a line without an end: '", shown_line(heard_), "'"}));
    wait(command, POLLIN, until);
    std::array<char, 1024> bytes;
    auto const count = ::recv(socket_.get(), bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (count < 0 && (errno == EINTR || errno == EAGAIN || errno == EWOULDBLOCK)) continue;
    if (count < 0) fail(command, joined({"was not answered: ", std::strerror(errno)}));
    if (count == 0)
      fail(command, heard_.empty() ? "hangs up" : joined({"hangs up in the middle of its answer: '", shown_line(heard_), "'"}));
    heard_.append(bytes.data(), static_cast<std::size_t>(count));
  }
}

PARALLAX_INLINE std::string PmiClient::hear(std::string_view command, std::string_view answer, Moment until) {
  std::string one = line(command, until);
  auto const refuse = [&](std::string_view how) { fail(command, joined({how, ": '", shown_line(one), "'"})); };
  if (!one.starts_with("cmd=") || pmi_value(one, "cmd") != answer) refuse("was answered by something else");
  auto const rc = pmi_value(one, "rc");
  if (rc && !whole_number(*rc)) refuse("was answered without a number");
  if (rc && *whole_number(*rc) != 0) refuse("refused it");
  return one;
}

PARALLAX_INLINE std::string_view PmiClient::value(std::string_view command, std::string_view line, std::string_view key) const {
  auto const found = pmi_value(line, key);
  if (!found || found->empty()) fail(command, joined({"was answered without '", key, "': '", shown_line(line), "'"}));
  return *found;
}

PARALLAX_INLINE int PmiClient::number(std::string_view command, std::string_view line, std::string_view key, int least) const {
  auto const found = whole_number(value(command, line, key));
  if (!found || *found < least)
    fail(command, joined({"was answered without a number from ", least, " on as '", key, "': '", shown_line(line), "'"}));
  return *found;
}

PARALLAX_INLINE PmiClient::Identity PmiClient::identify(std::string_view id, Moment until) {
  ask("initack", "initack", joined({"pmiid=", id}), until);
  Identity own;
  bool sized = false, ranked = false;
  for (int k = 0; k < 3; ++k) {  // size, rank, and a flag to debug
    std::string const one = hear("initack", "set", until);
    if (pmi_value(one, "size")) own.size = number("initack", one, "size", 1), sized = true;
    if (pmi_value(one, "rank")) own.rank = number("initack", one, "rank", 0), ranked = true;
  }
  if (!sized || !ranked || own.rank >= own.size) fail("initack", "said no rank of its processes");
  rank_ = own.rank;
  return own;
}

PARALLAX_INLINE void PmiClient::begin(Moment until) {
  ask("init", "response_to_init", "pmi_version=1 pmi_subversion=1", until);
  std::string const most = ask("get_maxes", "maxes", "", until);
  largest_ = static_cast<std::size_t>(number("get_maxes", most, "vallen_max", 1));
  std::string const own = ask("get_my_kvsname", "my_kvsname", "", until);
  store_ = value("get_my_kvsname", own, "kvsname");
}

PARALLAX_INLINE void PmiClient::put(std::string_view key, std::string_view word, Moment until) {
  ask("put", "put_result", joined({"kvsname=", store_, " key=", key, " value=", word}), until);
}

PARALLAX_INLINE std::string PmiClient::get(std::string_view key, Moment until) {
  std::string const found = ask("get", "get_result", joined({"kvsname=", store_, " key=", key}), until);
  return std::string{value("get", found, "value")};
}

PARALLAX_INLINE char const* pmi_claims(Environment variable) {
  if (char const* const socket = variable("PMI_FD"); socket && variable("PMI_RANK") && variable("PMI_SIZE")) return socket;
  return variable("PMI_ID") ? variable("PMI_PORT") : nullptr;
}

}  // namespace parallax::detail
