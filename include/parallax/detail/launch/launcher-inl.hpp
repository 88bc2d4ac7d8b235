// Bodies of parallax/detail/launch/launcher.hpp.
#pragma once

#include "parallax/detail/launch/launcher.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE std::string shell_word(std::string_view word) {
  std::string text = "'";
  for (char const c : word) {
    if (c == '\'') text += "'\\''";
    else text += c;
  }
  return text + "'";
}

PARALLAX_INLINE std::string_view name_in(std::string_view setting) {
  std::size_t const end = setting.find('=');
  return setting.substr(0, end == setting.npos ? 0 : end);
}

PARALLAX_INLINE bool goes_along(std::string_view setting) {
  for (std::string_view const begin : {"PARALLAX_", "OMP_", "NCCL_", "CUDA_", "LD_LIBRARY_PATH="})
    if (setting.starts_with(begin)) return setting.find('=') != setting.npos;
  return false;
}

PARALLAX_INLINE bool can_be_exported(std::string_view name) {
  for (char const c : name)
    if (!((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_')) return false;
  return !name.empty() && !(name[0] >= '0' && name[0] <= '9');
}

PARALLAX_INLINE void say_what_stays() {
  for (char** one = environ; *one; ++one) {
    std::string_view const name = name_in(*one);
    if (!goes_along(*one) || can_be_exported(name)) continue;
    std::string shown{name.substr(0, 100)};
    for (char& c : shown)
      if (c < ' ' || c > '~') c = '?';
    std::fprintf(stderr, "parallax: the variable '%s' does not go to other hosts: no shell can export that name\n",
                 shown.c_str());
  }
}

PARALLAX_INLINE void forget_launchers() {
  std::vector<std::string> names;
  for (char** one = environ; *one; ++one)
    for (std::string_view const begin : {"PMI_", "PMIX_", "OMPI_"})
      if (std::string_view const setting{*one}; setting.starts_with(begin)) names.emplace_back(name_in(setting));
  for (std::string const& name : names) ::unsetenv(name.c_str());
}

PARALLAX_INLINE int port_for_rank_0(bool here) {
  if (here) {
    ::sockaddr_in any{};
    any.sin_family = AF_INET;
    ::socklen_t size = sizeof(any);
    int const socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool const found = socket >= 0 && ::bind(socket, reinterpret_cast<::sockaddr*>(&any), size) == 0 &&
                       ::getsockname(socket, reinterpret_cast<::sockaddr*>(&any), &size) == 0;
    if (socket >= 0) ::close(socket);
    if (found) return ntohs(any.sin_port);
  }
  std::uint16_t number = 0;
  static_cast<void>(::getentropy(&number, sizeof(number)));
  return 20000 + number % 12000;
}

PARALLAX_INLINE std::string new_job_key() {
  std::array<unsigned char, 32> bytes{};
  if (::getentropy(bytes.data(), bytes.size()) != 0)
    throw Error{Errc::transport, -1, "launch", "", "the system gives no random numbers for the job's key"};
  std::string key;
  for (unsigned char const byte : bytes) key += "0123456789abcdef"[byte >> 4], key += "0123456789abcdef"[byte & 15];
  return key;
}

}  // namespace parallax::detail

namespace parallax::inline v0_2 {

PARALLAX_INLINE int launch(Resources const& resources, std::span<std::string const> command, LaunchOptions const& options) {
  detail::SignalsNoted const noted;
  return detail::LaunchedJob{resources, command, options}.run();
}

}  // namespace parallax
