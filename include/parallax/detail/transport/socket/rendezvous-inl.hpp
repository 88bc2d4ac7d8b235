// Bodies of parallax/detail/transport/socket/rendezvous.hpp.
#pragma once

#include "parallax/detail/transport/socket/rendezvous.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE std::vector<SocketAddress> own_addresses() {
  std::vector<SocketAddress> found;
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return found;
  for (int const family : {AF_INET, AF_INET6})
    for (ifaddrs const* one = all; one; one = one->ifa_next) {
      if (!one->ifa_addr || one->ifa_addr->sa_family != family || (one->ifa_flags & IFF_UP) == 0) continue;
      SocketAddress address;
      address.length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      std::memcpy(&address.storage, one->ifa_addr, address.length);
      if (!address.loopback() && !address.of_one_link()) found.push_back(address.at(0));
    }
  ::freeifaddrs(all);
  return found;
}

PARALLAX_INLINE std::uint64_t host_mark(RankFacts const& facts) {
  std::array<char, sizeof facts.boot + sizeof facts.name> both;
  std::copy(facts.name.begin(), facts.name.end(), std::copy(facts.boot.begin(), facts.boot.end(), both.begin()));
  return checksum(both.data(), both.size());
}

PARALLAX_INLINE std::string new_key() {
  std::array<unsigned char, 16> bytes{};
  fill_by_chance(bytes.data(), bytes.size());
  std::string key;
  for (unsigned char const byte : bytes)
    for (int const shift : {4, 0}) key += "0123456789abcdef"[(byte >> shift) & 15];
  return key;
}

// Returns true if a word may hold this as an address or a name.
inline bool is_address_word(std::string_view word) {
  constexpr std::string_view known = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.:-_";
  return !word.empty() && word.size() <= 253 && word.find_first_not_of(known) == word.npos;
}

PARALLAX_INLINE std::string word_of(MeetingPlace const& place, std::size_t most) {
  std::array<char, 16> mark{};
  auto const end = std::to_chars(mark.data(), mark.data() + mark.size(), place.host, 16).ptr;
  std::string const begin = joined({"px1/", int{place.port}, "/", place.key.empty() ? "-" : place.key, "/",
                                    std::string_view{mark.data(), static_cast<std::size_t>(end - mark.data())}, "/"});
  std::string word = begin;
  for (std::string const& address : place.addresses) {
    if (!is_address_word(address)) continue;
    std::string_view const comma = word.size() > begin.size() ? "," : "";
    if (word.size() + comma.size() + address.size() <= most) append(word, {comma, address});
  }
  if (word.size() == begin.size())
    throw Error{Errc::transport, 0, "SocketCommunicator", "",
                joined({"rank 0 has no address that it can tell the others in ", most, " bytes"})};
  return word;
}

PARALLAX_INLINE std::optional<MeetingPlace> place_in(std::string_view word) {
  if (word.size() > most_place_bytes) return std::nullopt;
  auto const next = [&word](char stop) {
    std::size_t const length = std::min(word.find(stop), word.size());
    std::string_view const part = word.substr(0, length);
    word.remove_prefix(std::min(length + 1, word.size()));
    return part;
  };
  auto const is_number = [](std::string_view digits, auto& number, int base) {
    char const* const last = digits.data() + digits.size();
    auto const [end, error] = std::from_chars(digits.data(), last, number, base);
    return error == std::errc{} && end == last;
  };
  MeetingPlace place;
  std::string_view const kind = next('/'), port = next('/'), key = next('/'), host = next('/');
  bool const keyed = key.size() >= 32 && key.size() <= 128 && key.find_first_not_of("0123456789abcdef") == key.npos;
  if (kind != "px1" || !is_number(port, place.port, 10) || place.port == 0 || !is_number(host, place.host, 16) ||
      !(keyed || key == "-"))
    return std::nullopt;
  if (keyed) place.key = key;
  for (bool more = true; more;) {
    more = word.find(',') != word.npos;
    std::string_view const address = next(',');
    if (!is_address_word(address)) return std::nullopt;
    place.addresses.emplace_back(address);
  }
  return place;
}

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
