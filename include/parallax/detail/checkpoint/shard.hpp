// A rank's file of a checkpoint, planned and filled: its parts of items, and the checksums of its blocks. Saving makes one of
// each, at once or behind the steps.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallax/core/archive.hpp"
#include "parallax/detail/checkpoint/manifest.hpp"
#include "parallax/detail/transfer/dense.hpp"

namespace parallax::inline v0_2::detail {

// The first look at a save, an archive: the tensors of this rank's file, their rows, and the small items. Of items equal on all
// ranks, each writes a part. Throws Error (mismatch) of an item shown twice.
class SavePlan {
 public:
  static constexpr bool reads = false;

  // An item of this rank's file.
  struct PlannedItem {
    std::string key;
    ElementType type;
    std::int64_t rows, width;   // of the whole item
    std::int64_t first, count;  // of an item equal on all ranks: the part written here; else 0 and all rows here
    bool own;
    RowNumbers numbers;
    std::size_t tensor = 0, list = 0;  // in the file
  };

  SavePlan(int rank, int ranks) : rank_{rank}, ranks_{ranks} {}

  void item(Item const& item, std::span<std::byte const> bytes) {
    bool const own = item.share == Share::own;
    std::string key = key_of(item.variable, item.name, own);
    auto const size = static_cast<std::uint64_t>(item.rows) * static_cast<std::uint64_t>(item.width) * item.type.bytes;
    bool const alike = item.share == Share::any || item.share == Share::world;
    bool const next = key == last_;
    last_ = key;
    // Rows of replicas may be as of another step on each rank: of each row one rank's is kept, in all arrays beside each other.
    if (alike && (item.list || item.rows <= 1) && size <= most_small_bytes) {
      if (!next) small.push_back({std::move(key), item.type, item.rows, item.width, {}});
      small.back().bytes.insert(small.back().bytes.end(), bytes.begin(), bytes.end());
      if (small.back().bytes.size() > size) throw item_error(item.variable, item.name, "it is shown twice");
      return;
    }
    if (!next) {
      PlannedItem part{std::move(key), item.type, item.rows, item.width, 0, 0, own, {}};
      if (alike) {
        auto const rows = static_cast<std::size_t>(item.rows);
        bool const split = rows > 1;  // else it is rank 0's, like the items of the manifest
        part.first = split ? static_cast<std::int64_t>(part_begin(rows, rank_, ranks_)) : 0;
        part.count = split        ? static_cast<std::int64_t>(part_begin(rows, rank_ + 1, ranks_)) - part.first
                     : rank_ == 0 ? item.rows
                                  : 0;
        part.numbers.add_run(part.first, part.count);
      }
      parts.push_back(std::move(part));
    }
    if (alike) return;
    parts.back().count += item.count;
    for (std::int64_t i = 0; i < item.count; ++i) parts.back().numbers.add(item.row(i));
  }

  std::vector<PlannedItem> parts;
  std::vector<SmallItem> small;

 private:
  int rank_, ranks_;
  std::string last_;
};

// A rank's file without its rows: their places, and the number of checksums. Owns the plan; throws FormatError of a vast one.
class ShardDraft {
 public:
  ShardDraft(SavePlan plan, std::uint64_t id, std::int64_t block_bytes)
      : plan_{std::move(plan)}, block_bytes_{block_bytes}, layout_{specs(plan_), metadata(plan_, id), "shard"} {
    auto const text = layout_.header();
    shard_.text.assign(text.begin(), text.end());
    shard_.size = layout_.file_size();
    ShardFile const parsed{shard_.text, shard_.size, block_bytes, "shard"};
    shard_.sums.resize(static_cast<std::size_t>(parsed.first_sum(parsed.header().size())));
    for (SavePlan::PlannedItem const& part : parts())
      first_sums_.push_back(static_cast<std::size_t>(parsed.first_sum(parsed.header().find(part.key))));
  }

  std::vector<SavePlan::PlannedItem> const& parts() const { return plan_.parts; }
  // Returns the number of the file's bytes.
  std::uint64_t size() const { return shard_.size; }
  // Returns the manifest's part about the file, owned by this, once all checksums are taken.
  WrittenShard& shard() { return shard_; }

  // Returns the byte of the file at which the rows of part number `part` begin; `list_begin`: the list of their numbers.
  std::uint64_t begin(std::size_t part) const { return layout_.begin(parts()[part].tensor); }
  std::uint64_t list_begin(std::size_t part) const { return layout_.begin(parts()[part].list); }
  // Returns the number of rows of a part under a checksum; `blocks`: the number of checksums.
  std::int64_t rows_of(std::size_t part) const { return rows_of_block(row_bytes(part), block_bytes_); }
  std::int64_t blocks(std::size_t part) const { return blocks_of(parts()[part].count, row_bytes(part), block_bytes_); }
  std::uint64_t row_bytes(std::size_t part) const {
    return static_cast<std::uint64_t>(parts()[part].width) * parts()[part].type.bytes;
  }
  // Takes the checksum of a part's block number `block`, whole in `rows`.
  void take_sum(std::size_t part, std::int64_t block, std::span<std::byte const> rows) {
    auto listed = parts()[part].numbers.list();
    if (!listed.empty()) {
      auto const first = static_cast<std::size_t>(block * rows_of(part));
      listed = listed.subspan(first, rows.size() / static_cast<std::size_t>(row_bytes(part)));
    }
    shard_.sums[first_sums_[part] + static_cast<std::size_t>(block)] = block_sum(rows, listed);
  }
  // Calls put(place in the file, bytes) for all bytes already known.
  template <class Put>
  void put_known(Put&& put) const {
    put(std::uint64_t{0}, std::span<std::byte const>{shard_.text});
    for (std::size_t part = 0; part < parts().size(); ++part)
      if (parts()[part].numbers.listed()) put(list_begin(part), std::as_bytes(parts()[part].numbers.list()));
  }

 private:
  static std::vector<safetensors::Spec> specs(SavePlan& plan) {
    std::vector<safetensors::Spec> specs;
    for (SavePlan::PlannedItem& part : plan.parts) {
      part.tensor = specs.size();
      specs.push_back({part.key, dtype_of(part.type), shape_of(part.type, part.count, part.width)});
      if (!part.numbers.listed()) continue;
      part.list = specs.size();
      specs.push_back({ShardFile::list_of(part.key), safetensors::Dtype::i64, {static_cast<std::uint64_t>(part.count), 1}});
    }
    return specs;
  }
  static safetensors::Metadata metadata(SavePlan const& plan, std::uint64_t id) {
    safetensors::Metadata metadata{{"format", "parallax shard"}, {"id", std::to_string(id)}};
    for (SavePlan::PlannedItem const& part : plan.parts)
      if (!part.own) metadata.emplace_back(part.key, part.numbers.text(part.rows));
    return metadata;
  }

  SavePlan plan_;
  std::int64_t block_bytes_;
  safetensors::Layout layout_;
  WrittenShard shard_;
  std::vector<std::size_t> first_sums_;  // by part
};

// The second look at a save, an archive as well: hands `Sink::rows(part, place, bytes)` the rows of each part, as they come.
// `place`: the number of the first of them in the part. Refers to draft and sink. Throws the sink's errors.
template <class Sink>
class ShardRows {
 public:
  static constexpr bool reads = false;

  ShardRows(ShardDraft const& draft, Sink& sink) : draft_{&draft}, sink_{&sink} {}

  void item(Item const& item, std::span<std::byte> bytes) {
    auto const& parts = draft_->parts();
    bool const own = item.share == Share::own;
    auto const is = [&](SavePlan::PlannedItem const& part) {
      return part.own == own && part.key == key_of(item.variable, item.name, own);
    };
    if (at_ < parts.size() && started_ && !is(parts[at_])) ++at_, started_ = false, rows_seen_ = 0;
    if (at_ == parts.size() || !is(parts[at_])) return;  // a small one
    started_ = true;
    SavePlan::PlannedItem const& part = parts[at_];
    auto const row_bytes = static_cast<std::size_t>(draft_->row_bytes(at_));
    std::int64_t const from = std::clamp<std::int64_t>(part.first - rows_seen_, 0, item.count);
    std::int64_t const to = std::clamp<std::int64_t>(part.first + part.count - rows_seen_, from, item.count);
    std::int64_t const place = std::max<std::int64_t>(rows_seen_ - part.first, 0);
    rows_seen_ += item.count;
    bytes = bytes.subspan(static_cast<std::size_t>(from) * row_bytes, static_cast<std::size_t>(to - from) * row_bytes);
    if (!bytes.empty()) sink_->rows(at_, place, bytes);
  }

 private:
  ShardDraft const* draft_;
  Sink* sink_;
  std::size_t at_ = 0;  // the part of the shown item
  bool started_ = false;
  std::int64_t rows_seen_ = 0;
};

// A file written from the items' own memory, with checksums taken on the way. Owns the file. Refers to the draft.
class ShardWriter {
 public:
  // Creates the file as PATH.part. Throws FileError, and FormatError if PATH is something else than a regular file.
  ShardWriter(std::string path, ShardDraft& draft) : draft_{&draft}, file_{std::move(path), draft.size(), true} {
    draft.put_known([&](std::uint64_t at, std::span<std::byte const> bytes) { file_.write(at, bytes); });
  }

  // Writes rows `bytes` of a part, from row `place` on, and takes checksums. All come in order, part by part. Throws FileError.
  void rows(std::size_t part, std::int64_t place, std::span<std::byte const> bytes) {
    auto const row_bytes = static_cast<std::size_t>(draft_->row_bytes(part));
    std::uint64_t at = draft_->begin(part) + static_cast<std::uint64_t>(place) * row_bytes;
    std::int64_t const in_block = draft_->rows_of(part), count = draft_->parts()[part].count;
    if (place == 0) rest_.clear();
    while (!bytes.empty()) {  // a block at a time, still in the processor's memory when written
      std::int64_t const block = place / in_block;
      std::int64_t const here = std::min(in_block, count - block * in_block);
      std::size_t const wanted = static_cast<std::size_t>(here) * row_bytes - rest_.size();
      std::span<std::byte const> const taken = bytes.first(std::min(wanted, bytes.size()));
      bool const whole = taken.size() == wanted;
      if (whole && rest_.empty()) {
        draft_->take_sum(part, block, taken);
      } else {
        rest_.insert(rest_.end(), taken.begin(), taken.end());
        if (whole) draft_->take_sum(part, block, rest_), rest_.clear();
      }
      write(at, taken);
      place += static_cast<std::int64_t>(taken.size() / row_bytes);
      at += taken.size();
      bytes = bytes.subspan(taken.size());
    }
  }
  // Brings the file to the disk, and waits for it, under its name. Throws FileError, and FormatError if bytes are missing.
  void finish() {
    flush();
    file_.finish();
  }

 private:
  static constexpr std::size_t most_buffered = std::size_t{1} << 18;

  // Writes `bytes` at byte `at`. Small writes behind each other are written together.
  void write(std::uint64_t at, std::span<std::byte const> bytes) {
    if (at != buffered_at_ + buffer_.size() || buffer_.size() + bytes.size() > most_buffered) flush();
    if (bytes.size() > most_buffered / 4) return file_.write(at, bytes);
    if (buffer_.empty()) buffered_at_ = at;
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
  }
  void flush() {
    if (!buffer_.empty()) file_.write(buffered_at_, buffer_);
    buffer_.clear();
  }

  ShardDraft* draft_;
  NewFile file_;
  std::vector<std::byte> rest_, buffer_;  // rest_: of a block in arrival
  std::uint64_t buffered_at_ = 0;
};

}  // namespace parallax::detail
