// Ranks of one host: blocks go through memory that they share, copied in by the sender and out by the receiver. Endpoints whose
// ranks are processes (detail/transport/mpi/endpoint.hpp, detail/transport/socket/endpoint.hpp) make one where their host has
// several ranks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/core/slice.hpp"

namespace parallax::inline v0_2::detail {

// The exchanges between this rank and those of its host. Every (channel, sender, receiver) has a box, in which the sender
// announces a block by its operation's number. A small block lies in the box itself. A larger one is streamed through the ring
// of (sender, receiver) once the receiver wants it, so that what is in a ring is always being read; a ring carries one block at
// a time.
class Neighbours {
 public:
  // Local. `memory`: the same on all ranks of the host, zeros at first, of `memory_bytes` or more; it must outlive this object.
  // `ranks[i]`: the rank, in the communicator that is served, of the host's i-th.
  Neighbours(std::byte* memory, List<int> ranks, int rank, int size);
  // What so many ranks need.
  static std::size_t memory_bytes(std::size_t ranks);

  // Whether blocks to and from this rank go through shared memory.
  bool has(int rank) const { return place_[static_cast<std::size_t>(rank)] >= 0; }

  // Local. Posts a block of this rank's operation `number` on the channel.
  void send(int channel, std::uint64_t number, int rank, std::byte const* data, std::size_t bytes);
  // The memory must stay until the channel is complete or withdrawn.
  void receive(int channel, std::uint64_t number, int rank, std::byte* data, std::size_t bytes);

  // Local. Moves on all that is posted. Calls `disagree(rank, bytes sent in words, bytes expected)`, which throws, about a
  // block that is not as expected.
  template <class Disagree>
  void progress(Disagree&& disagree) {
    for (std::size_t i = 0; i < receives_.size();) {
      advance(receives_[i], disagree);
      drop_if_done(receives_, i);
    }
    progress_sends();
  }
  // Moves on what this rank sends, and nothing that it receives.
  void progress_sends();
  // Calls `told(place, rank)` of each rank for which something has changed since the last call; true if there was one.
  template <class Told>
  bool tell(Told&& told) {
    if (!any_changed_) return false;
    any_changed_ = false;
    for (std::size_t i = 0; i < changed_.size(); ++i)
      if (std::exchange(changed_[i], 0)) told(i, ranks_[i]);
    return true;
  }
  // A rank that has not delivered or not taken a block of the channel, or -1.
  int waiting_for(int channel) const;
  // A rank that has not taken a block of the channel, or -1.
  int untaken(int channel) const { return rank_of(sends_, channel); }
  // Whether nothing of the channel is on its way to or from this rank.
  bool complete(int channel) const { return waiting_for(channel) < 0; }
  // Whether a block of the channel is on its way to or from that rank.
  bool needs(int channel, int rank) const;
  // Local. Nothing of the channel is received any more.
  void withdraw(int channel);
  // Local. Nothing of it is sent any more either, nor read where it lies. Where a block is half way through a ring, the ring
  // carries nothing any more, and whoever waits for it does so in vain.
  void give_up(int channel);

  // A block that nobody expected: its sender, or -1 where there is none, and its channel.
  struct Stray {
    int rank = -1, channel = 0;
  };
  // A block that came and that no operation expected.
  Stray stray() const;
  // The same of those that a later operation has come upon.
  Stray passed_over() const { return stray_; }

 private:
  // The largest block that lies in its box: so that what the sender writes of a box fills four lines of the cache.
  static constexpr std::size_t small = 240;  // bytes

  // Of one channel, sender and receiver, in shared memory; zeros at first. Operations count from 1, as on the channel.
  struct Box {
    // By the sender: the operation whose block this is, and, once it is in the ring, where there it begins.
    alignas(64) std::atomic<std::uint64_t> posted;
    std::uint64_t bytes;
    std::byte content[small];
    alignas(64) std::atomic<std::uint64_t> streamed;  // the operation whose block is or was in the ring
    std::uint64_t begin;
    // By the receiver: the operation whose block it wants, and the last that it has.
    alignas(64) std::atomic<std::uint64_t> wanted;
    std::atomic<std::uint64_t> taken;
  };
  // Of one sender and receiver, in shared memory: bytes [read, written) are in it, at their number modulo its size.
  struct Ring {  // bytes that ever went through it
    alignas(64) std::atomic<std::uint64_t> written;
    alignas(64) std::atomic<std::uint64_t> read;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  // Of a block: not begun, in the ring or in part, given up there, or over.
  enum class Stage : unsigned char { waiting, streaming, stuck, done };
  // A block that this rank sends, in the order of posting. `posted`: its box says so.
  struct Outgoing {
    int channel, rank;
    std::uint64_t number;
    std::byte const* data;
    std::size_t bytes, moved = 0;
    Stage stage = Stage::waiting;
    bool posted = false;
  };
  // A block that this rank expects.
  struct Incoming {
    int channel, rank;
    std::uint64_t number;
    std::byte* data;
    std::size_t bytes, moved = 0;
    Stage stage = Stage::waiting;
  };

  // Small enough to stay in the caches, and in what a container gives to shared memory by default, 64 MB.
  static std::size_t ring_size(std::size_t ranks);

  // Places are those in `ranks_`.
  Box& box_of(int channel, std::size_t from, std::size_t to) const;
  // Behind all boxes.
  Ring& ring_of(std::size_t from, std::size_t to) const;
  // Behind all rings.
  std::byte* memory_of(std::size_t from, std::size_t to) const;
  // The place of a rank of this host.
  std::size_t at(int rank) const { return static_cast<std::size_t>(place_[static_cast<std::size_t>(rank)]); }

  // Something in memory is not as that rank has seen it.
  void change(std::size_t place) { changed_[place] = any_changed_ = true; }

  // The rank of the first block of a channel that is not done, or -1.
  template <class Blocks>
  static int rank_of(Blocks const& blocks, int channel) {
    for (auto const& block : blocks)
      if (block.channel == channel) return block.rank;
    return -1;
  }
  // Takes block i out, or goes on to the next.
  template <class Blocks>
  static void drop_if_done(Blocks& blocks, std::size_t& i) {
    if (blocks[i].stage != Stage::done) return void(++i);
    blocks.drop(i);  // in order: a ring serves who came first
  }

  // Copies the next run of a block that has come to `position` of a ring: not beyond `limit`, nor beyond the ring's end.
  template <class Copy>
  std::size_t move(std::uint64_t position, std::uint64_t limit, std::size_t left, Copy&& copy) const {
    std::size_t const offset = static_cast<std::size_t>(position % ring_bytes_);
    std::size_t const run = std::min({left, static_cast<std::size_t>(limit - position), ring_bytes_ - offset, run_bytes()});
    if (run > 0) copy(offset, run);
    return run;
  }
  // At most so much is copied before the other side hears of it.
  std::size_t run_bytes() const { return ring_bytes_ / 4; }  // the other side need not wait for a whole ring

  // Takes a block as far as the receiver and the ring allow: into its box, or run by run through the ring.
  void advance(Outgoing& block);
  // Whether another block is on its way through the ring to this rank.
  bool busy(int rank) const;

  // The same at the receiver. A small block of an operation that is over is taken as a stray one, so that its sender can go on.
  template <class Disagree>
  void advance(Incoming& block, Disagree&& disagree) {
    std::size_t const source = at(block.rank);
    Box& box = box_of(block.channel, source, self_);
    if (block.stage == Stage::waiting) {
      std::uint64_t const posted = box.posted.load(std::memory_order_acquire);
      if (posted <= box.taken.load(std::memory_order_relaxed)) return;
      if (posted > block.number) disagree(block.rank, "nothing", block.bytes);
      if (posted < block.number) {  // of an operation that is over here, and expected nothing
        stray_ = {block.rank, block.channel};
        if (box.bytes > small) return;
        box.taken.store(posted, std::memory_order_release);
        return change(source);
      }
      if (box.bytes != block.bytes) disagree(block.rank, std::to_string(box.bytes), block.bytes);
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

  List<int> ranks_;  // of this host
  std::size_t ring_bytes_;
  std::byte* memory_;
  List<int> place_;  // in `ranks_`, by rank; -1: elsewhere
  std::size_t self_ = 0;
  List<Outgoing> sends_;
  List<Incoming> receives_;
  Stray stray_;
  List<char> changed_;  // by place: since the last `tell`
  bool any_changed_ = false;
};

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/transport/host/neighbours-inl.hpp"
#endif
