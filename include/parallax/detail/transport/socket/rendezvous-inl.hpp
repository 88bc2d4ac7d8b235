// Bodies of parallax/detail/transport/socket/rendezvous.hpp.
#pragma once

#include "parallax/detail/transport/socket/rendezvous.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE Error place_file_error(std::string const& path, std::string_view what) {
  return {Errc::file, -1, "SocketCommunicator", "", joined({"the file '", path, "' with the address of rank 0 ", what})};
}

PARALLAX_INLINE std::optional<std::string> word_in_file(std::string const& path) {
  OwnedDescriptor const file{open_descriptor(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK)};
  if (!file && (errno == ENOENT || errno == ESTALE)) return std::nullopt;
  struct stat facts {};
  if (!file || ::fstat(file.get(), &facts) != 0)
    throw place_file_error(path, joined({"cannot be read: ", std::strerror(errno)}));
  if (!S_ISREG(facts.st_mode)) throw place_file_error(path, "is no file");
  if (facts.st_uid != ::geteuid()) throw place_file_error(path, "belongs to another user");
  if ((facts.st_mode & (S_IRWXG | S_IRWXO)) != 0) throw place_file_error(path, "can be read by others: its mode must be 0600");
  std::string word(most_place_bytes + 2, '\0');
  auto const bytes = read_all(file.get(), word.data(), word.size());
  word.resize(bytes > 0 ? static_cast<std::size_t>(bytes) : 0);
  if (word.ends_with('\n')) word.pop_back();
  return word;
}

PARALLAX_INLINE void Rendezvous::leave_word(SocketAddress const& listener) {
  MeetingPlace place;
  place.port = listener.port();
  place.host = host_mark(*mine_);
  if (key_.empty()) key_ = place.key = new_key();
  if (!listener.anywhere()) {
    place.addresses = {host_of(listener)};
  } else {
    for (SocketAddress const& address : own_addresses())
      if (address.storage.ss_family == AF_INET || listener.storage.ss_family == AF_INET6)
        place.addresses.push_back(host_of(address));
    std::array<char, 256> name{};
    if (::gethostname(name.data(), name.size() - 1) == 0) place.addresses.emplace_back(name.data());
  }
  if (means_ == Means::file) {
    file_.emplace(path_, word_of(place, most_place_bytes));
  } else {
    constexpr std::size_t around = 400;  // of a request to put, names and all
    launcher().put(key_of_word, word_of(place, std::min(launcher().largest_value(), most_pmi_request - around)), until_);
    launcher().barrier(until_);
  }
}

PARALLAX_INLINE std::optional<MeetingPlace> Rendezvous::find_place() {
  if (means_ == Means::launcher && word_.empty()) {
    launcher().barrier(until_);
    word_ = launcher().get(key_of_word, until_);
    if (!place_in(word_))
      throw Error{Errc::transport, 0, "SocketCommunicator", "",
                  joined({"the launcher has, as what rank 0 says of its address: '", shown_line(word_), "'"})};
  } else if (means_ == Means::file) {
    auto const found = word_in_file(path_);
    why_ = "is not there yet";
    if (!found) return std::nullopt;
    if (word_ != *found) name_.reset();
    word_ = *found;
    why_ = "says no address";
  }
  return place_in(word_);
}

PARALLAX_INLINE std::vector<SocketAddress> Rendezvous::look() {
  if (means_ == Means::address) return name_->look();
  auto const place = find_place();
  if (!place) return {};
  key_ = options_->key.empty() ? place->key : options_->key;
  return in_order(*place);
}

// Returns rank 0's addresses in order. On its own host the loopback device comes first. Elsewhere an address of this host's own
// is none of rank 0's, as containers' networks have the same on each host. The name is looked up last: often nobody needs it.
PARALLAX_INLINE std::vector<SocketAddress> Rendezvous::in_order(MeetingPlace const& place) {
  std::vector<SocketAddress> found;
  bool const here = place.host == host_mark(*mine_);
  std::string const port = std::to_string(place.port);
  if (here) found = addresses_in_digits({"127.0.0.1", port});
  auto const own = own_addresses();
  auto const is_own = [&](SocketAddress const& address) {
    return std::any_of(own.begin(), own.end(), [&](SocketAddress const& one) { return host_of(one) == host_of(address); });
  };
  for (std::string const& word : place.addresses) {
    auto const digits = addresses_in_digits({word, port});
    if (digits.empty()) {
      if (!name_) name_.emplace(HostAndPort{word, port});  // in the next round
      else
        for (SocketAddress const& address : name_->look()) found.push_back(address);
    } else if (here || !is_own(digits[0])) {
      found.push_back(digits[0]);
    }
  }
  return found;
}

}  // namespace parallax::detail
