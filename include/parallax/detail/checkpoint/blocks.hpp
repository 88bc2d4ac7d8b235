// The blocks of a generation's files, each read and compared with its checksum. Restoring reads its arrays by them, and so does
// the tool parallax-checkpoint.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallax/detail/checkpoint/manifest.hpp"

namespace parallax::inline v0_2::detail {

// A slab: one file's rows of an array. `shard`: the file's rank; `tensor`: its number there; `rows`, `blocks`: their counts.
struct Slab {
  std::size_t shard, tensor;
  RowNumbers numbers;
  std::int64_t rows, blocks;
  std::int64_t first_block;  // its number among those of all slabs
};

// The rows of an array that are here already: a bit for each.
class RowsSeen {
 public:
  void begin(std::size_t rows) {
    words_.assign((rows + 63) / 64, 0);
    count_ = 0;
  }
  // Marks rows [first, first + count) of the array. Returns false if one of them was marked before.
  bool take(std::size_t first, std::size_t count) {
    count_ += count;
    bool fresh = true;
    while (count > 0) {
      std::size_t const bit = first % 64, here = std::min(count, 64 - bit);
      std::uint64_t const mask = (here == 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << here) - 1) << bit;
      fresh = fresh && (words_[first / 64] & mask) == 0;
      words_[first / 64] |= mask;
      first += here, count -= here;
    }
    return fresh;
  }
  std::size_t count() const { return count_; }

 private:
  std::vector<std::uint64_t> words_;
  std::size_t count_ = 0;
};

// Reader of a generation's files in `folder`; opens each when it is needed. Refers to the manifest, which outlives it.
class BlockReader {
 public:
  BlockReader(Generation const& manifest, std::string folder)
      : manifest_{&manifest}, folder_{std::move(folder)}, files_(manifest.shards().size()), right_(files_.size()) {}

  // Returns the slabs of the array `key`, in the order of the files. Sets `together`, the number of their rows, and `all`, the
  // number of the array's rows, -1 if no file has it. Throws FormatError if files disagree about it or about a row's size.
  std::vector<Slab> slabs(std::string_view key, std::int64_t& all, std::int64_t& together) const {
    std::vector<Slab> slabs;
    std::int64_t blocks = 0;
    all = -1, together = 0;
    for (std::size_t shard = 0; shard < manifest_->shards().size(); ++shard) {
      ShardFile const& file = manifest_->shards()[shard];
      std::size_t const at = file.header().find(key);
      if (at == file.header().size()) continue;
      std::int64_t rows = 0;
      RowNumbers numbers = file.numbers(at, rows, manifest_->path());
      bool const first = slabs.empty();
      if (!first && (rows != all || file.row_bytes(at) != row_bytes(slabs[0])))
        throw FormatError(manifest_->path(), joined({"the files have ", shown(key), " in several shapes"}));
      all = rows;
      Slab& slab = slabs.emplace_back(own_slab(shard, at));
      slab.numbers = std::move(numbers), slab.first_block = blocks;
      blocks += slab.blocks, together += slab.rows;
    }
    return slabs;
  }
  std::uint64_t row_bytes(Slab const& slab) const { return manifest_->shards()[slab.shard].row_bytes(slab.tensor); }
  // Returns the number of rows in each block of the slab; the last may have fewer.
  std::int64_t rows_of(Slab const& slab) const { return rows_of_block(row_bytes(slab), manifest_->facts().block_bytes); }
  // Returns the number of bytes in block number `block` of the slab.
  std::size_t bytes(Slab const& slab, std::int64_t block) const {
    return static_cast<std::size_t>(rows_in(slab, block).second) * static_cast<std::size_t>(row_bytes(slab));
  }
  // Returns the part of block number `block` in `all`, the bytes of the whole slab: a view.
  std::span<std::byte> in(Slab const& slab, std::int64_t block, std::span<std::byte> all) const {
    auto const first = static_cast<std::size_t>(rows_in(slab, block).first) * static_cast<std::size_t>(row_bytes(slab));
    return all.subspan(first, bytes(slab, block));
  }
  // Returns tensor number `tensor` of rank `shard`'s file, an item of the rank's own, as its only slab.
  Slab own_slab(std::size_t shard, std::size_t tensor) const {
    ShardFile const& file = manifest_->shards()[shard];
    std::int64_t const rows = file.rows(tensor);
    return {shard, tensor, {}, rows, blocks_of(rows, file.row_bytes(tensor), manifest_->facts().block_bytes), 0};
  }
  // Returns tensor number `tensor` of a file, any but a list of rows, as a slab. Throws FormatError if the header says no rows.
  Slab slab(std::size_t shard, std::size_t tensor) const {
    Slab slab = own_slab(shard, tensor);
    std::int64_t all = 0;
    ShardFile const& file = manifest_->shards()[shard];
    if (!file.is_own(tensor)) slab.numbers = file.numbers(tensor, all, manifest_->path());
    return slab;
  }
  // Returns the rows of the slab in its block number `block`: the first one, and their number.
  std::pair<std::int64_t, std::int64_t> rows_in(Slab const& slab, std::int64_t block) const {
    std::int64_t const in_block = rows_of(slab), first = block * in_block;
    return {first, std::min(in_block, slab.rows - first)};
  }

  // Reads block number `block` of a slab into `rows`, of the block's bytes, and the rows' numbers if the file lists them.
  // Returns the numbers, valid until the next call; none if they are in runs. Throws FormatError of damage, and FileError.
  std::span<std::int64_t const> read(Slab const& slab, std::int64_t block, std::span<std::byte> rows) {
    ShardFile const& shard = manifest_->shards()[slab.shard];
    safetensors::Tensor const tensor = shard.header().tensor(slab.tensor);
    ReadFile const& file = opened(slab.shard);
    auto const [first, count] = rows_in(slab, block);
    std::uint64_t const at = tensor.begin + static_cast<std::uint64_t>(first) * row_bytes(slab);
    file.read(at, rows);
    numbers_.clear();
    if (slab.numbers.listed()) {
      std::size_t const list = shard.header().find(ShardFile::list_of(tensor.name));
      if (list == shard.header().size() || shard.rows(list) != slab.rows || shard.row_bytes(list) != 8)
        throw FormatError(file.path(), "tensor " + shown(tensor.name) + ": there is no list of its rows");
      numbers_.resize(static_cast<std::size_t>(count));
      file.read(shard.header().tensor(list).begin + static_cast<std::uint64_t>(first) * 8,
                std::as_writable_bytes(std::span{numbers_}));
    }
    if (block_sum(rows, numbers_) != manifest_->sum(slab.shard, shard.first_sum(slab.tensor) + block))
      throw FormatError(file.path(), joined({"tensor ", shown(tensor.name), ": the checksum of ", rows.size(),
                                             " bytes from byte ", at, " on is wrong: they are damaged"}));
    return numbers_;
  }

 private:
  static constexpr std::size_t most_open = 64;

  // Returns a rank's file, valid until the next call. Throws FormatError if its header is not the manifest's, looked at once.
  ReadFile const& opened(std::size_t shard) {
    if (files_[shard]) return *files_[shard];
    if (open_++ == most_open) {
      for (auto& file : files_) file.reset();
      open_ = 1;
    }
    auto& file = files_[shard].emplace(folder_ + "/" + shard_name(static_cast<int>(shard)));
    if (right_[shard]) return file;
    auto const text = manifest_->shards()[shard].text();
    std::vector<std::byte> there(text.size());
    file.read(0, there);
    if (std::memcmp(there.data(), text.data(), text.size()) != 0)
      throw FormatError(file.path(), "its header is not the one written with this generation");
    right_[shard] = true;
    return file;
  }

  Generation const* manifest_;
  std::string folder_;
  std::vector<std::optional<ReadFile>> files_;  // by rank, and so is the next
  std::vector<bool> right_;                     // headers already compared
  std::size_t open_ = 0;
  std::vector<std::int64_t> numbers_;
};

}  // namespace parallax::detail
