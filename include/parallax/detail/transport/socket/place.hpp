// Rank 0's address, as one word left for the others: in a file, or with the launcher (detail/transport/socket/rendezvous.hpp).
// Such a word may come from a stranger: it is read within bounds.
#pragma once

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "parallax/detail/core/checksum.hpp"
#include "parallax/detail/transport/socket/greeting.hpp"

namespace parallax::inline v0_2::detail {

// Content of rank 0's word for the others.
struct MeetingPlace {
  std::uint16_t port = 0;
  // Of this job alone, by chance, in hexadecimal digits; empty: the ranks have one already.
  std::string key;
  // Of rank 0's host, by host_mark.
  std::uint64_t host = 0;
  // At least one, to be called in this order: addresses in digits, then perhaps a name.
  std::vector<std::string> addresses;
};

// The most bytes of such a word.
inline constexpr std::size_t most_place_bytes = 4096;

// Returns a mark of the host, equal for two processes on one host.
std::uint64_t host_mark(RankFacts const& facts);

// Bytes in hexadecimal digits.
std::string hexadecimal(std::span<std::byte const> bytes);

// Returns a key that nobody can guess. Error (transport).
std::string new_key();

// Returns true if a word may hold this as an address or a name.
bool is_address_word(std::string_view word);

// Returns "px1/PORT/KEY/HOST/ADDRESS,ADDRESS", with "-" for no key: letters, digits and "/.,:-_" alone, fit for any launcher.
// As many addresses as fit into so many bytes. Error (transport) if not even one does.
std::string word_of(MeetingPlace const& place, std::size_t most);

// Returns the place in such a word; nothing, if it is none.
std::optional<MeetingPlace> place_in(std::string_view word);

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/socket/place-inl.hpp"
#endif
