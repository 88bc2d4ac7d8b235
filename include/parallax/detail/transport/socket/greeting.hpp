// The proof of two processes that meet over a connection: they are ranks of one job. Each sends a number never used before, and
// proves that it knows the key by a code of both numbers and of its own facts. Meetings (detail/transport/socket/meeting.hpp)
// have one for each unknown connection. Nothing here blocks.
#pragma once

#include <unistd.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "parallax/detail/transport/socket/descriptor.hpp"
#include "parallax/detail/transport/socket/sha256.hpp"

namespace parallax::inline v0_2::detail {

// A rank's facts about itself.
struct RankFacts {
  std::int32_t rank = 0, size = 0;
  std::int32_t window = 0;         // of its mailbox
  std::uint16_t port = 0;          // of its listener
  std::uint8_t shared_memory = 0;  // 1 if it was given this option
  std::uint8_t checksums = 0;      // 1 if it was given this one
  std::uint64_t largest = 0;       // of its mailbox
  std::uint64_t communicator = 0;  // by chance: another one each time
  std::array<char, 64> boot{};     // of its host: since when it runs,
  std::array<char, 64> name{};     // and its name, both to be compared
};
static_assert(std::is_trivially_copyable_v<RankFacts> && sizeof(RankFacts) == 160);

// Fills in bytes that nobody can guess. Throws Error (transport) if the system has none.
void fill_by_chance(void* bytes, std::size_t size);

// Puts a text into an array, cut to fit, with zeros behind it.
void set_text(std::array<char, 64>& to, std::string_view text);

// Fills in the host of this process. Throws Error (transport) if the process lacks descriptors or memory.
void set_host(RankFacts& facts);

// One end of a handshake: the caller's, first to speak, or the called one's, last to prove itself. Owns its socket.
class Greeting {
 public:
  enum class State { pending, done, failed };

  // `key`: copied; may be empty. `mine`: read when sent; outlives this. `until`: fails afterwards. Throws Error (transport).
  Greeting(OwnedDescriptor socket, bool calls, std::string_view key, RankFacts const& mine, Moment until)
      : socket_{std::move(socket)}, calls_{calls}, key_{key}, mine_{&mine}, until_{until} {
    fill_by_chance(my_hello_.number.data(), my_hello_.number.size());
    if (calls_) say(&my_hello_, sizeof my_hello_);
    hear(&their_hello_, sizeof their_hello_);
  }
  Greeting(Greeting&&) = delete;

  // Returns the descriptor, and the events to poll it for.
  int socket() const { return socket_.get(); }
  short wants() const { return static_cast<short>(said_ < to_say_.size() ? POLLOUT : POLLIN); }
  // Says and hears as much as possible now, without waiting. Returns `failed` if the other end is no rank of the job, or late.
  State move_on();
  // Returns true if the other end has said a hello, in whatever protocol.
  bool greeted() const { return greeted_; }
  // Returns the reason of the failure, in words behind the name of the other end.
  std::string const& why() const { return why_; }
  // Returns true if it has failed because the other end speaks another version of the protocol.
  bool is_of_another_version() const { return another_version_; }
  // Returns the other end's facts, once the handshake is done.
  RankFacts const& theirs() const { return their_proof_.facts; }
  // Gives the socket to the caller; nothing moves on afterwards.
  OwnedDescriptor take() { return std::move(socket_); }

 private:
  // The first message of an end: protocol, version, order of bytes, and the number never used before.
  struct Hello {
    std::array<char, 8> protocol{'p', 'a', 'r', 'a', 'l', 'l', 'a', 'x'};
    std::uint32_t version = 3, order = 0x01020304;
    std::array<std::byte, 32> number{};
  };
  struct Proof {
    RankFacts facts;
    Digest code{};
  };
  static_assert(sizeof(Hello) == 48 && sizeof(Proof) == 192);

  void say(void const* bytes, std::size_t size) {
    auto const* const first = static_cast<std::byte const*>(bytes);
    to_say_.assign(first, first + size);
    said_ = 0;
  }
  void hear(void* to, std::size_t size) {
    to_hear_ = {static_cast<std::byte*>(to), size};
    heard_ = 0;
  }
  State fail(std::string_view why) {
    why_ = why;
    return State::failed;
  }
  // Returns the proof of one end's facts for the other. `by_caller`: they are the caller's.
  Digest code_of(RankFacts const& facts, bool by_caller) const {
    Hmac hmac{std::as_bytes(std::span{key_.data(), key_.size()})};
    std::byte const who{static_cast<unsigned char>(by_caller ? 1 : 2)};
    hmac.add({&who, 1});
    hmac.add((calls_ ? my_hello_ : their_hello_).number);  // the caller's first
    hmac.add((calls_ ? their_hello_ : my_hello_).number);
    hmac.add(std::as_bytes(std::span{&facts, 1}));
    return hmac.code();
  }
  void say_proof() {
    Proof const proof{*mine_, code_of(*mine_, calls_)};
    say(&proof, sizeof proof);
  }
  // Understands a whole message, in turn: a hello, then a proof. Returns `failed`, with a reason, or `pending`.
  State understand();

  OwnedDescriptor socket_;
  bool calls_;
  std::string key_;
  RankFacts const* mine_;
  Moment until_;
  Hello my_hello_, their_hello_;
  Proof their_proof_;
  std::vector<std::byte> to_say_;
  std::span<std::byte> to_hear_;
  std::size_t said_ = 0, heard_ = 0;
  bool greeted_ = false, proven_ = false;  // the other end has said hello, and proved itself
  bool another_version_ = false;
  std::string why_;
};

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/socket/greeting-inl.hpp"
#endif
