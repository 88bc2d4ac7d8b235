// Bodies of parallax/detail/transport/socket/place.hpp.
#pragma once

#include "parallax/detail/transport/socket/place.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE std::uint64_t host_mark(RankFacts const& facts) {
  std::array<char, sizeof facts.boot + sizeof facts.name> both;
  std::copy(facts.name.begin(), facts.name.end(), std::copy(facts.boot.begin(), facts.boot.end(), both.begin()));
  return checksum(both.data(), both.size());
}

PARALLAX_INLINE std::string hexadecimal(std::span<std::byte const> bytes) {
  std::string text;
  for (std::byte const byte : bytes)
    for (int const shift : {4, 0}) text += "0123456789abcdef"[(std::to_integer<unsigned>(byte) >> shift) & 15];
  return text;
}

PARALLAX_INLINE std::string new_key() {
  std::array<std::byte, 16> bytes{};
  fill_by_chance(bytes.data(), bytes.size());
  return hexadecimal(bytes);
}

PARALLAX_INLINE bool is_address_word(std::string_view word) {
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

}  // namespace parallax::detail
