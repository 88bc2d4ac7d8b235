// Any bytes as what a rank over sockets is told by others before it has met anyone: the word that rank 0 leaves, or what a
// launcher says by PMI-1. They are read within bounds, or refused by one short line. The first byte says which: 'w' a word, 'p'
// a launcher at a port, all others a launcher.
#include <sys/socket.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "parallax/comm/socket.hpp"

namespace px = parallax;
namespace detail = parallax::detail;

namespace {

void demand(bool condition, char const* sentence) {
  if (condition) return;
  std::fprintf(stderr, "meeting_fuzz: not so: %s\n", sentence);
  std::abort();
}

void read_word(std::string_view word) {
  auto const place = detail::place_in(word);
  if (!place) return;
  demand(place->port > 0 && !place->addresses.empty(), "a place has a port and an address");
  demand(place->key.empty() || place->key.size() >= 32, "a key is none, or long");
  for (std::string const& address : place->addresses) {
    demand(!address.empty() && address.size() <= 253, "an address has a length");
    demand(address.find_first_of(" /,\n") == address.npos, "an address is one word");
  }
  auto const again = detail::place_in(detail::word_of(*place, detail::most_place_bytes));
  demand(again && again->addresses == place->addresses && again->port == place->port && again->key == place->key &&
             again->host == place->host,
         "what was read is written alike");
}

void converse(std::string_view said, bool at_port) {
  int ends[2];
  demand(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) == 0, "there is a pair of sockets");
  detail::OwnedDescriptor const launcher{ends[0]};
  detail::PmiClient client{detail::OwnedDescriptor{ends[1]}, at_port ? -1 : 3};
  demand(::send(launcher.get(), said.data(), said.size(), MSG_NOSIGNAL) == static_cast<::ssize_t>(said.size()), "all is said");
  demand(::shutdown(launcher.get(), SHUT_WR) == 0, "nothing more is said");
  auto const until = std::chrono::steady_clock::now() + std::chrono::seconds{20};
  try {
    if (at_port) {
      auto const own = client.identify("3", until);
      demand(own.rank >= 0 && own.rank < own.size, "a rank is one of its world");
    }
    client.begin(until);
    demand(client.largest_value() > 0, "values have a length");
    client.put("parallax-rank-0", "px1/1/-/0/a", until);
    client.barrier(until);
    demand(!client.get("parallax-rank-0", until).empty(), "what was left is there");
    client.finalize(until);
  } catch (px::Error const& error) {
    demand(error.code() == px::Errc::transport, "it is refused, and nobody waits");
    demand(error.detail().size() < 400, "a message is short, whatever lines are long");
    for (char const c : error.detail()) demand(c >= ' ' && c < 127, "a message is one visible line");
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(std::uint8_t const* data, std::size_t size) {
  if (size == 0 || size > 60'000) return 0;
  std::string_view const bytes{reinterpret_cast<char const*>(data) + 1, size - 1};
  if (data[0] == 'w') read_word(bytes);
  else converse(bytes, data[0] == 'p');
  return 0;
}
