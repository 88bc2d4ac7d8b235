// Bodies of parallax/detail/transport/host/neighbours.hpp.
#pragma once

#include "parallax/detail/transport/host/neighbours.hpp"

namespace parallax::inline v0_2::detail {

PARALLAX_INLINE Neighbours::Neighbours(std::byte* memory, List<int> ranks, int rank, int size)
    : ranks_{std::move(ranks)},
      ring_bytes_{ring_size(ranks_.size())},
      memory_{memory},
      place_(static_cast<std::size_t>(size), -1),
      changed_(ranks_.size()) {
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (ranks_[i] == rank) self_ = i;
    place_[static_cast<std::size_t>(ranks_[i])] = static_cast<int>(i);
  }
}

PARALLAX_INLINE std::size_t Neighbours::memory_bytes(std::size_t ranks) {
  return ranks * ranks * (channels * sizeof(Box) + sizeof(Ring) + ring_size(ranks));
}

PARALLAX_INLINE void Neighbours::send(int channel, std::uint64_t number, int rank, std::byte const* data, std::size_t bytes) {
  sends_.push_back({channel, rank, number, data, bytes});
  advance(sends_.back());
  if (sends_.back().stage == Stage::done) sends_.pop_back();
}

PARALLAX_INLINE void Neighbours::receive(int channel, std::uint64_t number, int rank, std::byte* data, std::size_t bytes) {
  receives_.push_back({channel, rank, number, data, bytes});
}

PARALLAX_INLINE void Neighbours::progress(void (*fail)(Error const&)) {
  for (std::size_t i = 0; i < receives_.size();) {
    advance(receives_[i], fail);
    drop_if_done(receives_, i);
  }
  progress_sends();
}

PARALLAX_INLINE void Neighbours::progress_sends() {
  for (std::size_t i = 0; i < sends_.size();) {
    advance(sends_[i]);
    drop_if_done(sends_, i);
  }
}

PARALLAX_INLINE int Neighbours::waiting_for(int channel) const {
  int const source = rank_of(receives_, channel);
  return source >= 0 ? source : untaken(channel);
}

PARALLAX_INLINE void Neighbours::withdraw(int channel) {
  detail::drop_if(receives_, [&](Incoming const& block) { return block.channel == channel; });
}

PARALLAX_INLINE void Neighbours::give_up(int channel) {
  withdraw(channel);
  for (Outgoing& block : sends_)
    if (block.channel == channel && block.stage == Stage::streaming) block.stage = Stage::stuck;
  detail::drop_if(sends_, [&](Outgoing const& block) { return block.channel == channel && block.stage != Stage::stuck; });
}

PARALLAX_INLINE bool Neighbours::needs(int channel, int rank) const {
  auto const is = [&](auto const& block) { return block.channel == channel && block.rank == rank; };
  return detail::any_of(receives_, is) || detail::any_of(sends_, is);
}

PARALLAX_INLINE Neighbours::Stray Neighbours::stray() const {
  Stray found = stray_;
  for (std::size_t i = 0; i < ranks_.size(); ++i)
    for (int channel = 0; channel < channels && i != self_; ++channel) {
      Box const& box = box_of(channel, i, self_);
      if (box.posted.load(std::memory_order_acquire) > box.taken.load(std::memory_order_relaxed)) found = {ranks_[i], channel};
    }
  return found;
}

PARALLAX_INLINE std::size_t Neighbours::ring_size(std::size_t ranks) {
  std::size_t const share = (std::size_t{32} << 20) / std::max<std::size_t>(ranks * ranks, 1);
  return std::clamp(share / 64 * 64, std::size_t{4} << 10, std::size_t{256} << 10);
}

PARALLAX_INLINE Neighbours::Box& Neighbours::box_of(int channel, std::size_t from, std::size_t to) const {
  std::size_t const at = (static_cast<std::size_t>(channel) * ranks_.size() + from) * ranks_.size() + to;
  return reinterpret_cast<Box*>(memory_)[at];
}

PARALLAX_INLINE Neighbours::Ring& Neighbours::ring_of(std::size_t from, std::size_t to) const {
  std::byte* const rings = memory_ + channels * ranks_.size() * ranks_.size() * sizeof(Box);
  return reinterpret_cast<Ring*>(rings)[from * ranks_.size() + to];
}

PARALLAX_INLINE std::byte* Neighbours::memory_of(std::size_t from, std::size_t to) const {
  std::size_t const pairs = ranks_.size() * ranks_.size();
  return memory_ + pairs * (channels * sizeof(Box) + sizeof(Ring)) + (from * ranks_.size() + to) * ring_bytes_;
}

PARALLAX_INLINE void Neighbours::advance(Outgoing& block) {
  std::size_t const target = at(block.rank);
  Box& box = box_of(block.channel, self_, target);
  if (!block.posted) {
    if (box.taken.load(std::memory_order_acquire) < box.posted.load(std::memory_order_relaxed)) return;
    box.bytes = block.bytes;
    if (block.bytes <= small) std::memcpy(box.content, block.data, block.bytes);
    box.posted.store(block.number, std::memory_order_release);
    block.posted = true;
    change(target);
    if (block.bytes <= small) block.stage = Stage::done;
  }
  if (block.stage == Stage::waiting) {
    if (busy(block.rank) || box.wanted.load(std::memory_order_acquire) != block.number) return;
    box.begin = ring_of(self_, target).written.load(std::memory_order_relaxed);
    box.streamed.store(block.number, std::memory_order_release);
    block.stage = Stage::streaming;
    change(target);
  }
  if (block.stage != Stage::streaming) return;
  Ring& ring = ring_of(self_, target);
  std::byte* const memory = memory_of(self_, target);
  std::uint64_t const written = ring.written.load(std::memory_order_relaxed);
  std::size_t const moved =
      move(written, ring.read.load(std::memory_order_acquire) + ring_bytes_, block.bytes - block.moved,
           [&](std::size_t offset, std::size_t run) { std::memcpy(memory + offset, block.data + block.moved, run); });
  if (moved == 0) return;
  block.moved += moved;
  ring.written.store(written + moved, std::memory_order_release);
  change(target);
  if (block.moved == block.bytes) block.stage = Stage::done;
}

PARALLAX_INLINE void Neighbours::advance(Incoming& block, void (*fail)(Error const&)) {
  auto const disagree = [&](std::string_view sent) {
    fail({Errc::mismatch, block.rank, "ialltoallv", "",
          joined(
              {"rank ", block.rank, " sent ", sent, " bytes where ", block.bytes, " were expected by rank ", ranks_[self_]})});
  };
  std::size_t const source = at(block.rank);
  Box& box = box_of(block.channel, source, self_);
  if (block.stage == Stage::waiting) {
    std::uint64_t const posted = box.posted.load(std::memory_order_acquire);
    if (posted <= box.taken.load(std::memory_order_relaxed)) return;
    if (posted > block.number) disagree("nothing");
    if (posted < block.number) {  // of an operation finished here, with nothing expected
      stray_ = {block.rank, block.channel};
      if (box.bytes > small) return;
      box.taken.store(posted, std::memory_order_release);
      return change(source);
    }
    if (box.bytes != block.bytes) disagree(std::to_string(box.bytes));
    if (block.bytes <= small) {
      std::memcpy(block.data, box.content, block.bytes);
      box.taken.store(posted, std::memory_order_release);
      block.stage = Stage::done;
      return change(source);
    }
    if (box.wanted.load(std::memory_order_relaxed) != block.number) {
      box.wanted.store(block.number, std::memory_order_release);
      change(source);
    }
    if (box.streamed.load(std::memory_order_acquire) != block.number) return;
    block.stage = Stage::streaming;
  }
  Ring& ring = ring_of(source, self_);
  std::byte const* const memory = memory_of(source, self_);
  std::uint64_t const read = box.begin + block.moved;
  if (ring.read.load(std::memory_order_relaxed) != read) return;  // the end of the block before it is still in the ring
  std::size_t const moved =
      move(read, ring.written.load(std::memory_order_acquire), block.bytes - block.moved,
           [&](std::size_t offset, std::size_t run) { std::memcpy(block.data + block.moved, memory + offset, run); });
  if (moved == 0) return;
  block.moved += moved;
  ring.read.store(read + moved, std::memory_order_release);
  change(source);
  if (block.moved < block.bytes) return;
  box.taken.store(block.number, std::memory_order_release);
  block.stage = Stage::done;
}

PARALLAX_INLINE bool Neighbours::busy(int rank) const {
  return detail::any_of(sends_, [&](Outgoing const& other) {
    return other.rank == rank && (other.stage == Stage::streaming || other.stage == Stage::stuck);
  });
}

}  // namespace parallax::detail
