// Neighbours: ranks of one host. Blocks go through shared memory, copied in by the sender and out by the receiver. Endpoints
// whose ranks are processes (MPI's and the one of sockets) make one if their host has several ranks.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#include "parallax/comm/communicator.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/config.hpp"
#include "parallax/detail/core/list.hpp"

namespace parallax::inline v0_2::detail {

// Exchanges between this rank and the others of its host. Every (channel, sender, receiver) has a box; in it the sender
// announces a block by its operation's number. A small block lies in the box itself. A larger one is streamed through the ring
// of (sender, receiver) once the receiver wants it, so the content of a ring is always being read; a ring carries one block at
// a time. All functions are local, and none waits.
class Neighbours {
 public:
  // `memory`: the same on all ranks of the host, zeros at first, of `memory_bytes` or more; it must outlive this object.
  // `ranks[i]`: the rank, in the communicator, of the host's i-th. `rank` and `size`: this rank's, and the communicator's.
  Neighbours(std::byte* memory, List<int> ranks, int rank, int size);
  // Returns the bytes of memory needed for so many ranks of a host.
  static std::size_t memory_bytes(std::size_t ranks);

  // Returns true if that rank of the communicator is one of this host: its blocks go through shared memory.
  bool has(int rank) const { return place_[static_cast<std::size_t>(rank)] >= 0; }

  // Posts a block of this rank's operation `number` on the channel, for a rank of this host by its number in the communicator.
  // The block's memory must stay until the channel is complete or given up.
  void send(int channel, std::uint64_t number, int rank, std::byte const* data, std::size_t bytes);
  // Posts the receipt of `rank`'s block of operation `number`. Its memory must stay until the channel is complete or withdrawn.
  void receive(int channel, std::uint64_t number, int rank, std::byte* data, std::size_t bytes);

  // Moves on all posted blocks. Calls `fail`, which throws, with Error (mismatch) for a block left out or of another size.
  void progress(void (*fail)(Error const&));
  // Moves on the blocks sent by this rank, and none to it. Throws nothing.
  void progress_sends();
  // Calls `told(index on the host, rank)` for each rank with changes made for it since the last call. True if there was one.
  template <class Told>
  bool tell(Told&& told) {
    if (!any_changed_) return false;
    any_changed_ = false;
    for (std::size_t i = 0; i < changed_.size(); ++i)
      if (std::exchange(changed_[i], 0)) told(i, ranks_[i]);
    return true;
  }
  // Returns a rank that has not delivered a block of the channel, else one that has not taken one, or -1.
  int waiting_for(int channel) const;
  // Returns a rank whose block of the channel is not yet all in the shared memory, where it is taken from; or -1.
  int untaken(int channel) const { return rank_of(sends_, channel); }
  // Returns true if this rank has no posted block of the channel any more: all came, and the memory of all is the caller's.
  bool complete(int channel) const { return waiting_for(channel) < 0; }
  // Returns true if a block of the channel is still posted here, to that rank or from it.
  bool needs(int channel, int rank) const;
  // Ends all receipts of the channel: their memory is not written any more. Sends stay.
  void withdraw(int channel);
  // Ends all receipts and sends of the channel; their memory is neither read nor written any more. A block half way through a
  // ring makes the ring unusable: a later wait for the ring is in vain.
  void give_up(int channel);

  // An unexpected block: its sender, or -1 if there is none, and its channel.
  struct Stray {
    int rank = -1, channel = 0;
  };
  // Returns, when nothing is posted, a block that came and that no operation expected.
  Stray stray() const;
  // Returns the last block, of an operation finished here without it, that a later operation has come upon.
  Stray passed_over() const { return stray_; }

 private:
  // Largest block in a box. The sender's part of a box then fills four lines of the cache.
  static constexpr std::size_t small = 240;  // bytes

  // Of one channel, sender and receiver, in shared memory; zeros at first. Operations count from 1, as on the channel.
  struct Box {
    // By the sender: the operation of this block, and, once it is in the ring, its beginning there.
    alignas(64) std::atomic<std::uint64_t> posted;
    std::uint64_t bytes;
    std::byte content[small];
    alignas(64) std::atomic<std::uint64_t> streamed;  // the operation of the block in the ring, or once there
    std::uint64_t begin;
    // By the receiver: the operation whose block is wanted, and the last one taken.
    alignas(64) std::atomic<std::uint64_t> wanted;
    std::atomic<std::uint64_t> taken;
  };
  // Of one sender and receiver, in shared memory: bytes [read, written) are in it, at their number modulo its size.
  struct Ring {  // bytes that ever went through it
    alignas(64) std::atomic<std::uint64_t> written;
    alignas(64) std::atomic<std::uint64_t> read;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free);

  // Progress of a block: not begun in a ring, part of it in the ring or through, given up there, or over.
  enum class Stage : unsigned char { waiting, streaming, stuck, done };
  // A block in the order of posting: one that this rank sends, or one that it expects.
  template <class Byte>
  struct Block {
    int channel, rank;
    std::uint64_t number;
    Byte* data;
    std::size_t bytes, moved = 0;
    Stage stage = Stage::waiting;
    bool posted = false;  // of an outgoing one: its box says so
  };
  using Outgoing = Block<std::byte const>;
  using Incoming = Block<std::byte>;

  // Returns the bytes of a ring: small enough for the caches, and for a container's default of shared memory, 64 MB.
  static std::size_t ring_size(std::size_t ranks);

  // Returns the box of a channel, for a sender and a receiver by their indices in `ranks_`.
  Box& box_of(int channel, std::size_t from, std::size_t to) const;
  // Returns the ring of a sender and a receiver, by index. All rings lie behind the boxes.
  Ring& ring_of(std::size_t from, std::size_t to) const;
  // Returns the `ring_bytes_` of content of the ring of a sender and a receiver. All contents lie behind the rings.
  std::byte* memory_of(std::size_t from, std::size_t to) const;
  // Returns the index in `ranks_` of a rank of this host.
  std::size_t at(int rank) const { return static_cast<std::size_t>(place_[static_cast<std::size_t>(rank)]); }

  // Notes for `tell` a change of memory, unknown to the rank with that index.
  void change(std::size_t place) { changed_[place] = any_changed_ = true; }

  // Returns the rank of the first of these blocks on a channel, or -1.
  template <class Blocks>
  static int rank_of(Blocks const& blocks, int channel) {
    for (auto const& block : blocks)
      if (block.channel == channel) return block.rank;
    return -1;
  }
  // Takes block i out if it is done, else increments i.
  template <class Blocks>
  static void drop_if_done(Blocks& blocks, std::size_t& i) {
    if (blocks[i].stage != Stage::done) return void(++i);
    blocks.drop(i);  // in order: a ring serves the first to come
  }

  // Calls copy(offset, bytes), once, for the next of `left` bytes at `position` of a ring: as far as `limit`, the ring's end
  // and run_bytes() allow. Returns their number, or 0 without a call.
  template <class Copy>
  std::size_t move(std::uint64_t position, std::uint64_t limit, std::size_t left, Copy&& copy) const {
    std::size_t const offset = static_cast<std::size_t>(position % ring_bytes_);
    std::size_t const run = std::min({left, static_cast<std::size_t>(limit - position), ring_bytes_ - offset, run_bytes()});
    if (run > 0) copy(offset, run);
    return run;
  }
  // Returns the most bytes for one copy before the other side hears of them.
  std::size_t run_bytes() const { return ring_bytes_ / 4; }  // the other side need not wait for a whole ring

  // Takes a block as far as the receiver and the ring allow: into its box, or run by run through the ring.
  void advance(Outgoing& block);
  // Returns true if a block is passing through the ring to that rank, or was given up there.
  bool busy(int rank) const;

  // Takes a block in as far as it has come. A small one of a finished operation is noted as a stray, so its sender can go on.
  void advance(Incoming& block, void (*fail)(Error const&));

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
