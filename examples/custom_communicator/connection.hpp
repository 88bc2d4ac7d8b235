// A connection that carries frames: a header {channel, operation, bytes} and the bytes. Nothing here blocks.
#pragma once

#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <parallax/core/error.hpp>

#include "sockets.hpp"

namespace example {

struct Frame {
  std::int32_t channel;
  std::uint32_t operation;
  std::vector<std::byte> bytes;
};

class Connection {
 public:
  explicit Connection(Socket socket = Socket{}) : socket_{std::move(socket)}, ended_{socket_.get() < 0} {}

  // Whether the peer has closed its end: nothing arrives any more, but for the frames that `next` still has.
  bool ended() const { return ended_; }
  // Whether the system, or a peer that is gone, has been given all that was sent.
  bool idle() const { return out_.empty(); }
  // Bytes since the beginning: put here by `send`, and taken by the system.
  std::uint64_t queued() const { return queued_; }
  std::uint64_t taken() const { return taken_; }

  // What `poll` is asked: whether there is something to read, and to write if something waits to be written.
  pollfd question() const {
    if (ended_ && idle()) return {-1, 0, 0};
    return {socket_.get(), static_cast<short>((ended_ ? 0 : POLLIN) | (idle() ? 0 : POLLOUT)), 0};
  }

  // Copies the bytes, and writes what the system takes at once.
  void send(std::int32_t channel, std::uint32_t operation, std::byte const* bytes, std::size_t size) {
    Header const header{channel, operation, size};
    auto const* const head = reinterpret_cast<std::byte const*>(&header);
    queued_ += sizeof header + size;
    if (deaf_) return;
    out_.insert(out_.end(), head, head + sizeof header);
    out_.insert(out_.end(), bytes, bytes + size);
    write();
  }

  void write() {
    while (written_ < out_.size()) {
      auto const count = ::send(socket_.get(), out_.data() + written_, out_.size() - written_, MSG_NOSIGNAL);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (count < 0) {
        deaf_ = true;  // the peer is gone; what it said before is still to be read
        break;
      }
      written_ += static_cast<std::size_t>(count);
      taken_ += static_cast<std::uint64_t>(count);
    }
    out_.clear();
    written_ = 0;
  }

  void read() {
    while (!ended_) {
      std::byte bytes[1 << 16];
      auto const count = ::recv(socket_.get(), bytes, sizeof bytes, 0);
      if (count < 0 && (errno == EAGAIN || errno == EINTR)) return;
      if (count > 0) in_.insert(in_.end(), bytes, bytes + count);
      else ended_ = true;
    }
  }

  // The next frame that is here as a whole.
  std::optional<Frame> next() {
    Header header;
    std::size_t const here = in_.size() - cut_;
    if (here >= sizeof header) std::memcpy(&header, in_.data() + cut_, sizeof header);
    if (here < sizeof header || here - sizeof header < header.bytes) {
      in_.erase(in_.begin(), in_.begin() + static_cast<std::ptrdiff_t>(std::exchange(cut_, 0)));
      return std::nullopt;
    }
    auto const* const bytes = in_.data() + cut_ + sizeof header;
    cut_ += sizeof header + header.bytes;
    return Frame{header.channel, header.operation, {bytes, bytes + header.bytes}};
  }

  // Says that nothing more will be sent.
  void end() { ::shutdown(socket_.get(), SHUT_WR); }

 private:
  struct Header {
    std::int32_t channel;
    std::uint32_t operation;
    std::uint64_t bytes;
  };

  Socket socket_;
  bool ended_, deaf_ = false;
  std::vector<std::byte> out_, in_;        // of `out_` the first `written_` bytes are gone, of `in_` the first `cut_`
  std::size_t written_ = 0, cut_ = 0;
  std::uint64_t queued_ = 0, taken_ = 0;
};

// An Error as the bytes of a frame, and back.
inline std::string text_of(parallax::Error const& error) {
  std::string text = std::to_string(static_cast<int>(error.code())) + '\0' + std::to_string(error.rank());
  for (std::string const& part : {error.operation(), error.variable(), error.detail(), error.report()}) (text += '\0') += part;
  return text;
}
inline parallax::Error error_of(std::vector<std::byte> const& text) {
  std::array<std::string, 6> parts;
  std::size_t part = 0;
  for (std::byte const byte : text)
    if (byte == std::byte{0} && part + 1 < parts.size()) ++part;
    else parts[part] += static_cast<char>(byte);
  return {static_cast<parallax::Errc>(std::stoi(parts[0])), std::stoi(parts[1]), parts[2], parts[3], parts[4], parts[5]};
}

}  // namespace example
