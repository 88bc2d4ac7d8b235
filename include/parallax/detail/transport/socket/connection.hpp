// One rank's end of a connection to another: messages out, without a copy, and messages in, straight to where they belong. An
// endpoint (detail/transport/socket/endpoint.hpp) owns one for each peer, and a meeting uses them for its last words.
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
#include <string_view>
#include <utility>
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/transport/socket/descriptor.hpp"
#include "parallax/detail/transport/socket/frame.hpp"

namespace parallax::detail {

// Who takes in what a connection reads. A message is begun, then its bytes are written to where `begin` says, then it has come.
class FrameSink {
 public:
  // Returns the place of the message: room for its first frame, or null: its bytes are dropped.
  virtual std::byte* begin(FrameHeader const& message) = 0;
  // Returns the present place of a message that goes on, with room for so many of its bytes. Its first byte was at `to`. Null
  // likewise.
  virtual std::byte* more(FrameHeader const& message, std::size_t bytes, std::byte* to) = 0;
  // All of it is there.
  virtual void come(FrameHeader const& message) = 0;
  // Hears that the bytes read are no frame, or not as they were sent: `how`, behind the name of the sender. Nothing more is
  // read.
  virtual void garbled(std::string_view how) = 0;
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
  // Returns whether nobody is there to be told anything.
  bool deaf() const { return deaf_ || (ended_ && !garbled_); }
  // Whether the system was given all that was sent, or nobody is there to have it.
  bool idle() const { return out_.empty() || deaf(); }
  // Whether the peer's system has all of it.
  bool delivered() const {
    int left = 0;
    return idle() && (deaf() || ::ioctl(socket_.get(), TIOCOUTQ, &left) != 0 || left == 0);
  }
  // Bytes that the system has taken since the beginning, headers and all.
  std::uint64_t written() const { return written_; }
  // What to ask of a poll.
  short wants() const { return static_cast<short>((ended_ ? 0 : POLLIN) | (idle() ? 0 : POLLOUT)); }

  // Sends a message that lies in the caller's memory: a block.
  void send(FrameHeader message, std::byte const* bytes) {
    message.check = message.own_check();
    if (!deaf_) out_.push({message, bytes, {}, 0, false, message.check});
  }
  // Sends a message that the connection keeps until it is gone.
  void send(FrameHeader message, std::vector<std::byte> bytes) {
    std::byte const* const data = bytes.data();
    message.total = bytes.size();
    message.check = message.own_check();
    if (!deaf_) out_.push({message, data, std::move(bytes), 0, false, message.check});
  }
  // Writes as much as the system takes now. True if that was anything.
  bool write(FrameSink& sink);
  // Sends a message that the system takes now, on the stack: the last words of a rank without memory. If others are before it,
  // or it is not taken whole, the peer sees the end of the stream instead.
  void send_last(FrameHeader message, std::byte const* bytes, std::size_t size) noexcept;
  // Forgets all that was to be sent, but for the rest of a frame that has begun.
  void give_up() noexcept;
  // The same of one channel's block, after which the block's memory is not read any more.
  void withdraw(int channel) noexcept;

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
    FrameSum sum = 0;  // of the header and the first `summed` bytes
    std::uint64_t summed = 0;

    // Bytes of all of its frames.
    std::uint64_t size() const { return bare ? kept.size() : bytes_of_frames(message.total, message.summed != 0); }
    // Returns the bytes of its sum in every frame.
    std::size_t tail() const { return message.summed != 0 && message.total > 0 ? sizeof(FrameSum) : 0; }
    // Returns the bytes from the beginning of one frame to that of the next.
    std::size_t stride() const { return sizeof(FrameHeader) + frame_bytes + tail(); }
    // Takes the sum of its first bytes, so many, of which all but a frame's were summed already.
    void sum_up(std::uint64_t bytes) {
      if (summed < bytes) sum = crc32c(sum, data + summed, static_cast<std::size_t>(bytes - summed));
      summed = std::max(summed, bytes);
    }
  };

  // The memory for one call.
  struct Gathered {
    std::array<iovec, most_buffers> buffers;
    std::size_t count = 0, bytes = 0;

    void add(void const* from, std::size_t size) {
      if (size > 0) buffers[count++] = {const_cast<void*>(from), size};
      bytes += size;
    }
    bool full() const { return count + 3 > most_buffers; }
  };
  // Adds what is left of the frame in which a position lies. Returns where the next begins.
  static std::uint64_t gather_frame(Gathered& gathered, Outgoing& out, std::uint64_t at);
  // Adds the rest of a message, frame by frame, as far as there is room. Of a summed message it adds a frame at most: that is
  // in the cache when the system copies it. True if that was all of it.
  static bool gather(Gathered& gathered, Outgoing& out);
  // Counts bytes as gone, and tells the sink of the blocks that are.
  void settle(std::size_t bytes, FrameSink& sink);
  // Makes the message end with the frame that it is in, whose rest is copied. False where it is between two frames.
  static bool finish_frame(Outgoing& out);
  // Ends the sending: a begun frame stays a piece, behind which the peer sees the end of the stream.
  void end_sending() noexcept {
    deaf_ = true;
    out_.clear();
    ::shutdown(socket_.get(), SHUT_WR);
  }

  // Moves on through what is staged: payload to its place, headers to the sink.
  void parse(FrameSink& sink);
  // A header has come: of a message that begins, or of the next part of one.
  void open(FrameHeader const& frame, FrameSink& sink);
  // Goes on behind so many bytes of the frame that have been put in their place, or dropped. They are still at `from`.
  void advance(std::byte const* from, std::size_t bytes, FrameSink& sink);
  // Compares the sum that came behind a frame's bytes.
  void compare(FrameSum told, FrameSink& sink);
  // Closes a frame of which all is there.
  void close(FrameSink& sink);
  // Reads nothing more.
  PARALLAX_COLD void refuse(std::string_view how, FrameSink& sink) {
    ended_ = garbled_ = true;
    sink.garbled(how);
  }

  OwnedDescriptor socket_;
  // deaf_: written bytes go nowhere; garbled_: coming bytes are not read any more, but their sender hears why
  bool ended_ = true, deaf_ = false, garbled_ = false;
  int error_ = 0;
  std::uint64_t written_ = 0;
  Fifo<Outgoing> out_;

  std::vector<std::byte> staged_;
  std::size_t begin_ = 0, end_ = 0;  // of what is staged and not parsed
  FrameHeader message_;              // in arrival, as its first frame has it
  bool arriving_ = false;
  std::uint64_t received_ = 0;  // bytes of it
  std::size_t frame_left_ = 0;  // bytes of the frame at hand
  bool sum_due_ = false;        // which come behind it
  FrameSum sum_ = 0;            // of the header and what is there
  std::byte* to_ = nullptr;     // where the first byte of the message goes
};

inline std::uint64_t Connection::gather_frame(Gathered& gathered, Outgoing& out, std::uint64_t at) {
  std::uint64_t const number = at / out.stride(), before = number * frame_bytes;
  auto const gone = static_cast<std::size_t>(at % out.stride());
  std::size_t const bytes = out.message.bytes_behind(before), header = sizeof(FrameHeader);
  auto const add = [&](void const* from, std::size_t begin, std::size_t size) {  // a part of the frame
    std::size_t const skipped = std::min(size, gone > begin ? gone - begin : 0);
    gathered.add(static_cast<std::byte const*>(from) + skipped, size - skipped);
  };
  add(&out.message, 0, header);
  if (bytes > 0) add(out.data + before, header, bytes);
  if (out.tail() > 0) {
    out.sum_up(before + bytes);
    add(&out.sum, header + bytes, sizeof out.sum);
  }
  return number * out.stride() + header + bytes + out.tail();
}

inline bool Connection::gather(Gathered& gathered, Outgoing& out) {
  if (out.bare) {
    gathered.add(out.kept.data() + out.position, out.kept.size() - out.position);
    return true;
  }
  std::uint64_t at = out.position;
  while (at < out.size() && !gathered.full()) {
    at = gather_frame(gathered, out, at);
    if (out.tail() > 0) break;
  }
  return at == out.size();
}

inline bool Connection::write(FrameSink& sink) {
  bool wrote = false;
  for (;;) {
    while (!out_.empty() && out_.front().size() == 0) out_.pop();  // what was withdrawn
    if (out_.empty() || deaf_) break;
    Gathered gathered;
    for (std::size_t i = 0; i < out_.size() && !gathered.full(); ++i)
      if (!gather(gathered, out_[i])) break;
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
  if (out.position % out.stride() == 0) return false;
  Gathered rest;
  gather_frame(rest, out, out.position);
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

inline void Connection::send_last(FrameHeader message, std::byte const* bytes, std::size_t size) noexcept {
  if (ended_ || deaf_) return;
  if (!out_.empty()) return end_sending();
  message.total = size;
  message.check = message.own_check();
  Outgoing out{message, bytes, {}, 0, false, message.check};
  Gathered gathered;
  gather(gathered, out);
  msghdr words{};
  words.msg_iov = gathered.buffers.data();
  words.msg_iovlen = gathered.count;
  auto const sent = uninterrupted([&] { return ::sendmsg(socket_.get(), &words, MSG_NOSIGNAL | MSG_DONTWAIT); });
  if (sent != static_cast<::ssize_t>(gathered.bytes)) end_sending();
}

inline void Connection::give_up() noexcept try {
  if (!out_.empty()) out_.cut(finish_frame(out_.front()) ? 1 : 0);
} catch (...) {  // no memory
  end_sending();
}

inline void Connection::withdraw(int channel) noexcept try {
  for (std::size_t i = 0; i < out_.size(); ++i) {
    Outgoing& out = out_[i];
    if (out.bare || out.message.kind != FrameKind::block || out.message.channel != channel) continue;
    if (!finish_frame(out)) out = Outgoing{{}, nullptr, {}, 0, true};  // which has no bytes
  }
} catch (...) {  // no memory
  end_sending();
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
    if (straight > 0) advance(to_ + received_, straight, sink);
    parse(sink);
    if (bytes < room) break;
  }
  return all > 0;
}

inline void Connection::parse(FrameSink& sink) {
  while (!ended_) {
    std::size_t const here = end_ - begin_;
    std::byte const* const at = staged_.data() + begin_;
    if (frame_left_ > 0) {
      std::size_t const bytes = std::min(here, frame_left_);
      if (bytes == 0) break;
      if (to_) std::memcpy(to_ + received_, at, bytes);
      begin_ += bytes;
      advance(at, bytes, sink);
    } else if (sum_due_) {
      FrameSum told;
      if (here < sizeof told) break;
      std::memcpy(&told, at, sizeof told);
      begin_ += sizeof told;
      compare(told, sink);
    } else {
      FrameHeader frame;
      if (here < sizeof frame) break;
      std::memcpy(&frame, at, sizeof frame);
      begin_ += sizeof frame;
      open(frame, sink);
    }
  }
  std::memmove(staged_.data(), staged_.data() + begin_, end_ - begin_);
  end_ -= std::exchange(begin_, 0);
}

inline void Connection::open(FrameHeader const& frame, FrameSink& sink) {
  if (FrameSum const sum = frame.own_check(); sum != frame.check)
    return refuse(
        joined({"sent a frame that was changed on its way: the checksum of its header is ", in_digits(sum),
                ", which it says is ", in_digits(frame.check), " (if the rest is right, it is ", name_of(frame.kind), ")"}),
        sink);
  if (frame.kind == FrameKind::abort)
    arriving_ = arriving_ && message_.kind == FrameKind::abort;  // of all else there is no rest
  bool const is_frame = frame.kind <= last_frame_kind && frame.channel < channels && frame.summed <= 1 && frame.unused == 0;
  if (!is_frame || (arriving_ && std::memcmp(&frame, &message_, sizeof frame) != 0))
    return refuse("sent what is no frame", sink);
  if (arriving_) {
    frame_left_ = frame.bytes_behind(received_);
    if (to_) to_ = sink.more(frame, static_cast<std::size_t>(received_) + frame_left_, std::exchange(to_, nullptr));
  } else {
    arriving_ = true;
    message_ = frame;
    received_ = 0;
    frame_left_ = frame.bytes_behind(0);
    sum_ = frame.check;
    to_ = nullptr;
    to_ = sink.begin(frame);
  }
  if (frame_left_ == 0) close(sink);
}

inline void Connection::advance(std::byte const* from, std::size_t bytes, FrameSink& sink) {
  if (message_.summed != 0) sum_ = crc32c(sum_, from, bytes);
  received_ += bytes;
  frame_left_ -= bytes;
  if (frame_left_ > 0) return;
  sum_due_ = message_.summed != 0;
  if (!sum_due_) close(sink);
}

inline void Connection::compare(FrameSum told, FrameSink& sink) {
  if (told == sum_) {
    sum_due_ = false;
    return close(sink);
  }
  refuse(joined({"sent ", name_of(message_.kind), " of ", message_.total, " bytes that was changed on its way: up to byte ",
                 received_, " its checksum is ", in_digits(sum_), ", and ", in_digits(told), " where it was sent"}),
         sink);
}

inline void Connection::close(FrameSink& sink) {
  if (received_ < message_.total) return;
  arriving_ = false;
  to_ = nullptr;
  sink.come(message_);
}

}  // namespace parallax::detail
