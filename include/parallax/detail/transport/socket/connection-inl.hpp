// Bodies of parallax/detail/transport/socket/connection.hpp.
#pragma once

#include "parallax/detail/transport/socket/connection.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE std::uint64_t Connection::gather_frame(Gathered& gathered, Outgoing& out, std::uint64_t at) {
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

PARALLAX_INLINE bool Connection::gather(Gathered& gathered, Outgoing& out) {
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

PARALLAX_INLINE bool Connection::write(FrameSink& sink) {
  bool wrote = false;
  for (;;) {
    while (!out_.empty() && out_.front().size() == 0) out_.pop();  // withdrawn ones
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
    deaf_ = count < 0;  // the peer is gone; its words before are still to be read
    if (deaf_) break;
    wrote = true;
    written_ += static_cast<std::uint64_t>(count);
    settle(static_cast<std::size_t>(count), sink);
    if (static_cast<std::size_t>(count) < gathered.bytes) return true;
  }
  if (deaf_) out_.clear();
  return wrote;
}

PARALLAX_INLINE void Connection::settle(std::size_t bytes, FrameSink& sink) {
  while (bytes > 0) {
    Outgoing& out = out_.front();
    std::uint64_t const left = out.size() - out.position;
    if (bytes < left) {
      out.position += bytes;
      return;
    }
    bytes -= static_cast<std::size_t>(left);
    Outgoing const gone = out_.pop();
    if (gone.message.kind == FrameKind::block && !gone.bare) sink.gone(peer_, gone.message.channel);
  }
}

PARALLAX_INLINE bool Connection::finish_frame(Outgoing& out) {
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

PARALLAX_INLINE void Connection::send_last(FrameHeader message, std::byte const* bytes, std::size_t size) noexcept {
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

PARALLAX_INLINE void Connection::give_up() noexcept try {
  if (!out_.empty()) out_.cut(finish_frame(out_.front()) ? 1 : 0);
} catch (...) {  // no memory
  end_sending();
}

PARALLAX_INLINE void Connection::withdraw(int channel) noexcept try {
  for (std::size_t i = 0; i < out_.size(); ++i) {
    Outgoing& out = out_[i];
    if (out.bare || out.message.kind != FrameKind::block || out.message.channel != channel) continue;
    if (!finish_frame(out)) out = Outgoing{{}, nullptr, {}, 0, true};  // without bytes
  }
} catch (...) {  // no memory
  end_sending();
}

PARALLAX_INLINE bool Connection::read(FrameSink& sink) {
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

PARALLAX_INLINE void Connection::parse(FrameSink& sink) {
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

PARALLAX_INLINE void Connection::open(FrameHeader const& frame, FrameSink& sink) {
  if (FrameSum const sum = frame.own_check(); sum != frame.check)
    return refuse(
        joined({"sent a frame that was changed on its way: the checksum of its header is ", in_digits(sum),
                ", which it says is ", in_digits(frame.check), " (if the rest is right, it is ", name_of(frame.kind), ")"}),
        sink);
  if (frame.kind == FrameKind::abort)
    arriving_ = arriving_ && message_.kind == FrameKind::abort;  // no other message is continued
  bool const is_frame = frame.kind <= last_frame_kind && frame.channel < channels && frame.summed <= 1 && frame.unused == 0;
  if (!is_frame || (arriving_ && std::memcmp(&frame, &message_, sizeof frame) != 0))
    return refuse("sent what is no frame", sink);
  if (arriving_) {
    frame_left_ = frame.bytes_behind(received_);
    if (to_) to_ = sink.more(peer_, frame, static_cast<std::size_t>(received_) + frame_left_, std::exchange(to_, nullptr));
  } else {
    arriving_ = true;
    message_ = frame;
    received_ = 0;
    frame_left_ = frame.bytes_behind(0);
    sum_ = frame.check;
    to_ = nullptr;
    to_ = sink.begin(peer_, frame);
  }
  if (frame_left_ == 0) close(sink);
}

PARALLAX_INLINE void Connection::advance(std::byte const* from, std::size_t bytes, FrameSink& sink) {
  if (message_.summed != 0) sum_ = crc32c(sum_, from, bytes);
  received_ += bytes;
  frame_left_ -= bytes;
  if (frame_left_ > 0) return;
  sum_due_ = message_.summed != 0;
  if (!sum_due_) close(sink);
}

PARALLAX_INLINE void Connection::compare(FrameSum told, FrameSink& sink) {
  if (told == sum_) {
    sum_due_ = false;
    return close(sink);
  }
  refuse(joined({"sent ", name_of(message_.kind), " of ", message_.total, " bytes that was changed on its way: up to byte ",
                 received_, " its checksum is ", in_digits(sum_), ", and ", in_digits(told), " where it was sent"}),
         sink);
}

PARALLAX_INLINE void Connection::close(FrameSink& sink) {
  if (received_ < message_.total) return;
  arriving_ = false;
  to_ = nullptr;
  sink.come(peer_, message_);
}

}  // namespace parallax::detail
