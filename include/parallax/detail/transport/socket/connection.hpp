// One rank's end of a connection to another: messages out, without a copy, and messages in, straight to their places. An
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
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/transport/socket/descriptor.hpp"
#include "parallax/detail/transport/socket/frame.hpp"

namespace parallax::inline v0_2::detail {

// Receiver of messages of connections, called by their `read` and `write`. `from` and `to` are the rank at the other end. A
// message is begun, then its bytes are written to `begin`'s place, which must stay meanwhile, then it has come.
class FrameSink {
 public:
  // Returns the place of the message: room for its first frame, or null: its bytes are dropped.
  virtual std::byte* begin(int from, FrameHeader const& message) = 0;
  // Returns the place of a message's first byte as its next frame begins: `to`, as before, or a new one with the bytes received
  // so far. It has room for the first `bytes` of the message, this frame's included. Null: the rest is dropped.
  virtual std::byte* more(int from, FrameHeader const& message, std::size_t bytes, std::byte* to) = 0;
  // Hears that a message has come: all of it is at its place.
  virtual void come(int from, FrameHeader const& message) = 0;
  // Hears that the bytes read are no frame, or not as sent: `how`, behind the name of the sender. Nothing more is read.
  virtual void garbled(int from, std::string_view how) = 0;
  // Hears that a block of this rank's has gone: its memory is not needed any more.
  virtual void gone(int to, int channel) = 0;

 protected:
  ~FrameSink() = default;
};

// A connection; local, never waits. Owns its socket, but no memory of blocks: it must stay until `gone`, or a `withdraw`.
class Connection {
 public:
  Connection() = default;
  // `socket`: connected, and one that never blocks; none: the connection has ended. `peer`: the rank at the other end.
  Connection(OwnedDescriptor socket, int peer) : socket_{std::move(socket)}, peer_{peer}, ended_{!socket_} {
    if (socket_) staged_.resize(stage_bytes);
  }

  // Returns the socket, for polls; none for the rank itself.
  OwnedDescriptor const& socket() const { return socket_; }
  // Returns true if nothing arrives any more: the peer has closed its end, or the connection has failed, see `reason`.
  bool ended() const { return ended_; }
  std::string reason() const { return error_ ? std::strerror(error_) : "end of the stream"; }
  // Returns true if nobody is there to be told anything: what is sent then is dropped.
  bool deaf() const { return deaf_ || (ended_ && !garbled_); }
  // Returns true if the system has taken all messages, or nobody is there to have them.
  bool idle() const { return out_.empty() || deaf(); }
  // Returns true if the peer's system has all messages, or nobody is there to have them.
  bool delivered() const {
    int left = 0;
    return idle() && (deaf() || ::ioctl(socket_.get(), TIOCOUTQ, &left) != 0 || left == 0);
  }
  // Returns the bytes taken by the system since the beginning, headers and all.
  std::uint64_t written() const { return written_; }
  // Returns the events to poll the socket for: POLLIN, POLLOUT, both or none (0).
  short wants() const { return static_cast<short>((ended_ ? 0 : POLLIN) | (idle() ? 0 : POLLOUT)); }

  // Queues a message in the caller's memory, a block, for `write`. Drops it if nobody is there to have it.
  void send(FrameHeader message, std::byte const* bytes) {
    message.check = message.own_check();
    if (!deaf_) out_.push({message, bytes, {}, 0, false, message.check});
  }
  // Queues a message for `write`, and keeps its bytes until they are gone. Drops it if nobody is there to have it.
  void send(FrameHeader message, std::vector<std::byte> bytes) {
    std::byte const* const data = bytes.data();
    message.total = bytes.size();
    message.check = message.own_check();
    if (!deaf_) out_.push({message, data, std::move(bytes), 0, false, message.check});
  }
  // Writes as much as the system takes now. Returns true if it took anything. `sink` hears of the blocks gone.
  bool write(FrameSink& sink);
  // Sends a message at once, on the stack: the last words of a rank without memory. If messages are queued, or the system does
  // not take this one whole, the peer sees the end of the stream instead.
  void send_last(FrameHeader message, std::byte const* bytes, std::size_t size) noexcept;
  // Forgets all unsent messages, except a copy of the rest of a begun frame. No block's memory is read any more.
  void give_up() noexcept;
  // Forgets one channel's block, except the rest of a begun frame, which it copies. The block's memory is not read any more.
  void withdraw(int channel) noexcept;

  // Reads all bytes there now, but no more than some megabytes, for `sink`. Returns true if there were any.
  bool read(FrameSink& sink);
  // Returns the bytes received so far of the message in arrival. `redirect` sets another place of the message's first byte, for
  // the bytes still to come: null drops these.
  std::uint64_t received() const { return received_; }
  void redirect(std::byte* to) { to_ = to; }
  // Drops the bytes still to come of a block on this channel.
  void drop_block(int channel) {
    if (arriving_ && message_.kind == FrameKind::block && message_.channel == channel) to_ = nullptr;
  }

 private:
  static constexpr std::size_t stage_bytes = 4096;                   // a header and small messages
  static constexpr std::size_t read_at_once = std::size_t{4} << 20;  // then other connections have their turn
  static constexpr std::size_t most_buffers = 32;                    // of memory in one call of the system

  // A message on its way out. `position`: bytes of its frames already gone, headers and all. `bare`: `kept` is sent as it is.
  struct Outgoing {
    FrameHeader message;
    std::byte const* data = nullptr;
    std::vector<std::byte> kept;
    std::uint64_t position = 0;
    bool bare = false;
    FrameSum sum = 0;  // of the header and the first `summed` bytes
    std::uint64_t summed = 0;

    // Returns the bytes of all of its frames, headers and sums as well.
    std::uint64_t size() const { return bare ? kept.size() : bytes_of_frames(message.total, message.summed != 0); }
    // Returns the bytes of the sum behind every frame; 0: there is none.
    std::size_t tail() const { return message.summed != 0 && message.total > 0 ? sizeof(FrameSum) : 0; }
    // Returns the bytes from the beginning of one frame to the next one's.
    std::size_t stride() const { return sizeof(FrameHeader) + frame_bytes + tail(); }
    // Takes the message's first `bytes` into the sum. All but a frame's are in it already.
    void sum_up(std::uint64_t bytes) {
      if (summed < bytes) sum = crc32c(sum, data + summed, static_cast<std::size_t>(bytes - summed));
      summed = std::max(summed, bytes);
    }
  };

  // The runs of memory for one call of the system.
  struct Gathered {
    std::array<iovec, most_buffers> buffers;
    std::size_t count = 0, bytes = 0;

    void add(void const* from, std::size_t size) {
      if (size > 0) buffers[count++] = {const_cast<void*>(from), size};
      bytes += size;
    }
    bool full() const { return count + 3 > most_buffers; }
  };
  // Adds the rest of the frame around position `at`. Returns the beginning of the next frame, counted like `position`.
  static std::uint64_t gather_frame(Gathered& gathered, Outgoing& out, std::uint64_t at);
  // Adds the rest of a message, frame by frame, as far as there is room. Of a summed message it adds a frame at most: a frame
  // is in the cache when the system copies it. Returns true if nothing of the message is left.
  static bool gather(Gathered& gathered, Outgoing& out);
  // Counts bytes as gone, and tells the sink of the blocks gone with them.
  void settle(std::size_t bytes, FrameSink& sink);
  // Makes the message end with its present frame, whose rest is copied. Returns false, and changes nothing, between two frames.
  static bool finish_frame(Outgoing& out);
  // Ends the sending: a begun frame stays a piece, and the peer sees the end of the stream behind it.
  void end_sending() noexcept {
    deaf_ = true;
    out_.clear();
    ::shutdown(socket_.get(), SHUT_WR);
  }

  // Moves on through the staged bytes: payload to its place, headers to the sink.
  void parse(FrameSink& sink);
  // Takes in a header, of a new message or of the next part of one. Refuses it if it is none, or was changed on its way.
  void open(FrameHeader const& frame, FrameSink& sink);
  // Goes on behind so many bytes of the frame, put in their place or dropped. They are still at `from`.
  void advance(std::byte const* from, std::size_t bytes, FrameSink& sink);
  // Compares the sum behind a frame's bytes with the sum of those here: closes the frame, or refuses it.
  void compare(FrameSum told, FrameSink& sink);
  // Closes a complete frame. The sink hears if it was the message's last one.
  void close(FrameSink& sink);
  // Ends the reading: the sink hears `how` the bytes are garbled.
  PARALLAX_COLD void refuse(std::string_view how, FrameSink& sink) {
    ended_ = garbled_ = true;
    sink.garbled(peer_, how);
  }

  OwnedDescriptor socket_;
  int peer_ = 0;
  // deaf_: written bytes go nowhere; garbled_: coming bytes are not read any more, but their sender hears why
  bool ended_ = true, deaf_ = false, garbled_ = false;
  int error_ = 0;
  std::uint64_t written_ = 0;
  Fifo<Outgoing> out_;

  std::vector<std::byte> staged_;
  std::size_t begin_ = 0, end_ = 0;  // of staged bytes not parsed
  FrameHeader message_;              // in arrival, as its first frame has it
  bool arriving_ = false;
  std::uint64_t received_ = 0;  // bytes of it
  std::size_t frame_left_ = 0;  // bytes of the frame at hand
  bool sum_due_ = false;        // behind the frame's bytes
  FrameSum sum_ = 0;            // of the header and the bytes here
  std::byte* to_ = nullptr;     // the place of the message's first byte
};

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/socket/connection-inl.hpp"
#endif
