// Items of ranks' own in a checkpoint, for ranks that do not see their own files: the first rank that sees a file reads it for
// them. A restore on as many ranks brings it before it shows any item.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "parallax/detail/checkpoint/blocks.hpp"
#include "parallax/detail/checkpoint/common.hpp"
#include "parallax/detail/checkpoint/readers.hpp"

namespace parallax::inline v0_2::detail {

// Own items. Refers to the generation. It has as many files as there are ranks, for all calls but the constructor's.
class OwnItems {
 public:
  OwnItems(ReadableGeneration const& generation, std::size_t ranks, std::size_t rank)
      : manifest_{&generation.manifest}, readers_{&generation.readers}, ranks_{ranks}, rank_{rank} {}

  // Returns true if a rank does not see its own file: the same on all ranks.
  bool any_apart() const {
    for (std::size_t rank = 0; rank < ranks_; ++rank)
      if (!readers_->sees(rank, rank)) return true;
    return false;
  }
  // Not collective. Reads other ranks' items for them, into as much memory. Throws FormatError.
  void collect(BlockReader& blocks) {
    offsets_.assign(ranks_, 0), sizes_ = offsets_;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      if (readers_->sees(rank, rank) || readers_->first_reader(rank) != rank_) continue;
      offsets_[rank] = for_others_.size();
      each(rank, [&](std::size_t tensor, std::size_t bytes) {
        std::size_t const at = for_others_.size();
        for_others_.resize(at + bytes);
        read_file(blocks, rank, tensor, std::span{for_others_}.subspan(at));
      });
      sizes_[rank] = for_others_.size() - offsets_[rank];
    }
  }
  // Collective, after `collect`. Brings the items to their ranks.
  template <Communicator C>
  void exchange(SessionCore<C>& core) {
    std::vector<std::uint64_t> expected(ranks_);
    brought_ = !readers_->sees(rank_, rank_);
    if (brought_) each(rank_, [&](std::size_t, std::size_t bytes) { expected[readers_->first_reader(rank_)] += bytes; });
    swap_bytes(core, "restore", for_others_, offsets_, sizes_, expected, mine_);
    for_others_ = {};
  }
  // Not collective. Fills `bytes` with an own item of this rank's file, as large as it is. Throws FormatError.
  void read(BlockReader& blocks, std::size_t tensor, std::span<std::byte> bytes) const {
    if (!brought_) return read_file(blocks, rank_, tensor, bytes);
    std::size_t begin = 0;
    each(rank_, [&](std::size_t other, std::size_t size) { begin += other < tensor ? size : 0; });
    if (!bytes.empty()) std::memcpy(bytes.data(), mine_.data() + begin, bytes.size());
  }

 private:
  // Calls f(tensor, bytes) for each own item in the file of a rank.
  template <class F>
  void each(std::size_t rank, F&& f) const {
    ShardFile const& shard = manifest_->shards()[rank];
    for (std::size_t tensor = 0; tensor < shard.header().size(); ++tensor)
      if (shard.is_own(tensor))
        f(tensor, static_cast<std::size_t>(shard.rows(tensor)) * static_cast<std::size_t>(shard.row_bytes(tensor)));
  }
  static void read_file(BlockReader& blocks, std::size_t rank, std::size_t tensor, std::span<std::byte> bytes) {
    Slab const slab = blocks.own_slab(rank, tensor);
    for (std::int64_t block = 0; block < slab.blocks; ++block) blocks.read(slab, block, blocks.in(slab, block, bytes));
  }

  Generation const* manifest_;
  Readers const* readers_;
  std::size_t ranks_, rank_;
  bool brought_ = false;
  std::vector<std::byte> for_others_, mine_;
  std::vector<std::uint64_t> offsets_, sizes_;
};

}  // namespace parallax::detail
