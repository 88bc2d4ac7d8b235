// One rank's end of a connection to another: messages out, without a copy, and messages in, straight to where they belong. An
// endpoint (comm/socket/endpoint.hpp) owns one for each peer, and a meeting uses them for its last words.
#pragma once

#include <sys/ioctl.h>
#include <sys/uio.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/comm/socket/descriptor.hpp"
#include "parallax/comm/socket/frame.hpp"

namespace parallax::detail {

// Who takes in what a connection reads. A message is begun, then its bytes are written to where `begin` says, then it has come.
class FrameSink {
 public:
  // Where the message goes: room for its total, or null: its bytes are dropped.
  virtual std::byte* begin(FrameHeader const& message) = 0;
  // All of it is there.
  virtual void come(FrameHeader const& message) = 0;
  // What came is no frame. Nothing more is read.
  virtual void garbled() = 0;
  // A block of this rank's has gone: its memory is not needed any more.
  virtual void gone(int channel) = 0;

 protected:
  ~FrameSink() = default;
};

// Does not block. Of the memory of blocks it owns nothing: it must stay until the sink is told that they are gone.
class Connection {
 public:
  Connection() = default;
  explicit Connection(OwnedDescriptor socket) : socket_{std::move(socket)}, ended_{!socket_} {
    if (socket_) staged_.resize(stage_bytes);
  }

  // The socket, for those who poll; none for the rank itself.
  OwnedDescriptor const& socket() const { return socket_; }
  // Whether nothing arrives any more: the peer has closed its end, or the connection has failed, as `reason` says.
  bool ended() const { return ended_; }
  std::string reason() const { return error_ ? std::strerror(error_) : "end of the stream"; }
  // Whether the system was given all that was sent, or nobody is there to have it.
  bool idle() const { return out_.empty() || ended_; }
  // Whether the peer's system has all of it.
  bool delivered() const {
    int left = 0;
    return idle() && (ended_ || ::ioctl(socket_.get(), TIOCOUTQ, &left) != 0 || left == 0);
  }
  // Bytes that the system has taken since the beginning, headers and all.
  std::uint64_t written() const { return written_; }
  // What to ask of a poll.
  short wants() const { return static_cast<short>((ended_ ? 0 : POLLIN) | (idle() ? 0 : POLLOUT)); }

  // Sends a message that lies in the caller's memory: a block.
  void send(FrameHeader message, std::byte const* bytes) {
    if (!deaf_) out_.push({message, bytes, {}, 0, false});
  }
  // Sends a message that the connection keeps until it is gone.
  void send(FrameHeader message, std::vector<std::byte> bytes) {
    std::byte const* const data = bytes.data();
    message.total = bytes.size();
    if (!deaf_) out_.push({message, data, std::move(bytes), 0, false});
  }
  // Writes as much as the system takes now. True if that was anything.
  bool write(FrameSink& sink);
  // Forgets all that was to be sent, but for the rest of a frame that has begun.
  void give_up() {
    if (!out_.empty()) out_.cut(finish_frame(out_.front()) ? 1 : 0);
  }
  // The same of one channel's block, after which the block's memory is not read any more.
  void withdraw(int channel);

  // Reads what is there now, but no more than some megabytes. True if that was anything.
  bool read(FrameSink& sink);
  // Bytes of the message in arrival that are there, and where the others go: null drops them.
  std::uint64_t received() const { return received_; }
  void redirect(std::byte* to) { to_ = to; }
  // Drops what is still to come of a block on this channel.
  void drop_block(int channel) {
    if (arriving_ && message_.kind == FrameKind::block && message_.channel == channel) to_ = nullptr;
  }

 private:
  static constexpr std::size_t stage_bytes = 4096;                   // a header and what is small
  static constexpr std::size_t read_at_once = std::size_t{4} << 20;  // then other connections have their turn
  static constexpr std::size_t most_buffers = 32;                    // of memory in one call of the system

  // A message on its way out. `position`: bytes of its frames, headers and all, that are gone. `bare`: `kept` is sent as it is.
  struct Outgoing {
    FrameHeader message;
    std::byte const* data = nullptr;
    std::vector<std::byte> kept;
    std::uint64_t position = 0;
    bool bare = false;

    // Bytes of all of its frames.
    std::uint64_t size() const {
      std::uint64_t const frames = std::max<std::uint64_t>(1, (message.total + frame_bytes - 1) / frame_bytes);
      return bare ? kept.size() : message.total + frames * sizeof(FrameHeader);
    }
    // The frame in which a position lies.
    FrameHeader frame_at(std::uint64_t at) const {
      FrameHeader frame = message;
      std::uint64_t const begin = at / (sizeof frame + frame_bytes) * frame_bytes;
      frame.bytes = static_cast<std::uint32_t>(std::min<std::uint64_t>(frame_bytes, message.total - begin));
      return frame;
    }
  };

  // Memory for one call, and the headers among them.
  struct Gathered {
    std::array<iovec, most_buffers> buffers;
    std::array<FrameHeader, most_buffers> header;
    std::size_t count = 0, bytes = 0;

    void add(void const* from, std::size_t size) {
      buffers[count++] = {const_cast<void*>(from), size};
      bytes += size;
    }
    bool full() const { return count + 2 > most_buffers; }
  };
  // Adds what is left of a message, frame by frame, as far as there is room.
  static void gather(Gathered& gathered, Outgoing const& out);
  // Counts bytes as gone, and tells the sink of the blocks that are.
  void settle(std::size_t bytes, FrameSink& sink);
  // Makes the message end with the frame that it is in, whose rest is copied. False where it is between two frames.
  static bool finish_frame(Outgoing& out);

  // Moves on through what is staged: payload to its place, headers to the sink.
  void parse(FrameSink& sink);
  // A header has come: of a message that begins, or of the next part of one.
  void open(FrameHeader const& frame, FrameSink& sink);
  bool fits(FrameHeader const& frame) const;
  // So many bytes of the frame have been put in their place, or dropped.
  void advance(std::size_t bytes, FrameSink& sink);

  OwnedDescriptor socket_;
  bool ended_ = true, deaf_ = false;  // deaf_: what is written goes nowhere
  int error_ = 0;
  std::uint64_t written_ = 0;
  Fifo<Outgoing> out_;

  std::vector<std::byte> staged_;
  std::size_t begin_ = 0, end_ = 0;  // of what is staged and not parsed
  FrameHeader message_;              // in arrival, as its first frame has it
  bool arriving_ = false;
  std::uint64_t received_ = 0;  // bytes of it
  std::size_t frame_left_ = 0;  // bytes of the frame at hand
  std::byte* to_ = nullptr;     // where the first byte of the message goes
};

inline void Connection::gather(Gathered& gathered, Outgoing const& out) {
  if (out.bare) return gathered.add(out.kept.data() + out.position, out.kept.size() - out.position);
  for (std::uint64_t at = out.position; at < out.size() && !gathered.full();) {
    FrameHeader& frame = gathered.header[gathered.count] = out.frame_at(at);
    std::uint64_t const number = at / (sizeof frame + frame_bytes);
    std::size_t in_frame = static_cast<std::size_t>(at % (sizeof frame + frame_bytes));
    if (in_frame < sizeof frame) {
      gathered.add(reinterpret_cast<std::byte const*>(&frame) + in_frame, sizeof frame - in_frame);
      at += sizeof frame - in_frame;
      in_frame = sizeof frame;
    }
    std::size_t const done = in_frame - sizeof frame;
    if (done < frame.bytes) gathered.add(out.data + number * frame_bytes + done, frame.bytes - done);
    at += frame.bytes - done;
  }
}

inline bool Connection::write(FrameSink& sink) {
  bool wrote = false;
  for (;;) {
    while (!out_.empty() && out_.front().size() == 0) out_.pop();  // what was withdrawn
    if (out_.empty() || deaf_) break;
    Gathered gathered;
    for (std::size_t i = 0; i < out_.size() && !gathered.full(); ++i) gather(gathered, out_[i]);
    msghdr message{};
    message.msg_iov = gathered.buffers.data();
    message.msg_iovlen = gathered.count;
    auto const count = ::sendmsg(socket_.get(), &message, MSG_NOSIGNAL);
    if (count < 0 && errno == EINTR) continue;
    if (count < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) return wrote;
    deaf_ = count < 0;  // the peer is gone; what it said before is still to be read
    if (deaf_) break;
    wrote = true;
    written_ += static_cast<std::uint64_t>(count);
    settle(static_cast<std::size_t>(count), sink);
    if (static_cast<std::size_t>(count) < gathered.bytes) return true;
  }
  if (deaf_) out_.clear();
  return wrote;
}

inline void Connection::settle(std::size_t bytes, FrameSink& sink) {
  while (bytes > 0) {
    Outgoing& out = out_.front();
    std::uint64_t const left = out.size() - out.position;
    if (bytes < left) {
      out.position += bytes;
      return;
    }
    bytes -= static_cast<std::size_t>(left);
    Outgoing const gone = out_.pop();
    if (gone.message.kind == FrameKind::block && !gone.bare) sink.gone(gone.message.channel);
  }
}

inline bool Connection::finish_frame(Outgoing& out) {
  if (out.bare) return true;
  if (out.position % (sizeof(FrameHeader) + frame_bytes) == 0) return false;
  Gathered rest;
  Outgoing frame{out.frame_at(out.position), nullptr, {}, out.position % (sizeof(FrameHeader) + frame_bytes), false};
  frame.data = out.data + out.position / (sizeof(FrameHeader) + frame_bytes) * frame_bytes;
  std::uint64_t const total = std::exchange(frame.message.total, frame.message.bytes);
  gather(rest, frame);
  rest.header[0].total = total;
  std::vector<std::byte> kept;
  for (std::size_t i = 0; i < rest.count; ++i) {
    auto const* const from = static_cast<std::byte const*>(rest.buffers[i].iov_base);
    kept.insert(kept.end(), from, from + rest.buffers[i].iov_len);
  }
  out.kept = std::move(kept);
  out.position = 0;
  out.bare = true;
  return true;
}

inline void Connection::withdraw(int channel) {
  for (std::size_t i = 0; i < out_.size(); ++i) {
    Outgoing& out = out_[i];
    if (out.bare || out.message.kind != FrameKind::block || out.message.channel != channel) continue;
    if (!finish_frame(out)) out = Outgoing{{}, nullptr, {}, 0, true};  // which has no bytes
  }
}

inline bool Connection::read(FrameSink& sink) {
  std::size_t all = 0;
  while (!ended_ && all < read_at_once) {
    std::array<iovec, 2> buffers;
    std::size_t count = 0;
    std::size_t const direct = to_ ? frame_left_ : 0;
    if (direct > 0) buffers[count++] = {to_ + received_, direct};
    buffers[count++] = {staged_.data() + end_, staged_.size() - end_};
    auto const got = ::readv(socket_.get(), buffers.data(), static_cast<int>(count));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0 && (errno == EAGAIN || errno == EWOULDBLOCK)) break;
    if (got <= 0) {
      ended_ = true;
      error_ = got < 0 ? errno : 0;
      break;
    }
    auto const bytes = static_cast<std::size_t>(got);
    std::size_t const room = direct + staged_.size() - end_;
    all += bytes;
    std::size_t const straight = std::min(direct, bytes);
    end_ += bytes - straight;
    if (straight > 0) advance(straight, sink);
    parse(sink);
    if (bytes < room) break;
  }
  return all > 0;
}

inline void Connection::parse(FrameSink& sink) {
  while (!ended_) {
    std::size_t const here = end_ - begin_;
    if (frame_left_ > 0) {
      std::size_t const bytes = std::min(here, frame_left_);
      if (bytes == 0) break;
      if (to_) std::memcpy(to_ + received_, staged_.data() + begin_, bytes);
      begin_ += bytes;
      advance(bytes, sink);
    } else {
      if (here < sizeof(FrameHeader)) break;
      FrameHeader frame;
      std::memcpy(&frame, staged_.data() + begin_, sizeof frame);
      begin_ += sizeof frame;
      open(frame, sink);
    }
  }
  std::memmove(staged_.data(), staged_.data() + begin_, end_ - begin_);
  end_ -= std::exchange(begin_, 0);
}

inline bool Connection::fits(FrameHeader const& frame) const {
  if (frame.kind > last_frame_kind || frame.channel >= channels || frame.unused != 0) return false;
  std::uint64_t const before = arriving_ ? received_ : 0;
  return frame.total >= before && frame.bytes == std::min<std::uint64_t>(frame_bytes, frame.total - before);
}

inline void Connection::open(FrameHeader const& frame, FrameSink& sink) {
  if (frame.kind == FrameKind::abort)
    arriving_ = arriving_ && message_.kind == FrameKind::abort;  // of all else there is no rest
  bool const goes_on = arriving_ && frame.kind == message_.kind && frame.channel == message_.channel &&
                       frame.number == message_.number && frame.total == message_.total;
  if (!fits(frame) || (arriving_ && !goes_on)) {
    ended_ = deaf_ = true;
    out_.clear();
    return sink.garbled();
  }
  frame_left_ = frame.bytes;
  if (!arriving_) {
    arriving_ = true;
    message_ = frame;
    received_ = 0;
    to_ = nullptr;
    to_ = sink.begin(frame);
  }
  if (frame_left_ == 0) advance(0, sink);
}

inline void Connection::advance(std::size_t bytes, FrameSink& sink) {
  received_ += bytes;
  frame_left_ -= bytes;
  if (frame_left_ > 0 || received_ < message_.total) return;
  arriving_ = false;
  to_ = nullptr;
  sink.come(message_);
}

}  // namespace parallax::detail
