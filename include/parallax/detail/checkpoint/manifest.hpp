// What a generation of a checkpoint consists of: the items of each rank's file, where their rows belong, and checksums of all. Saving
// makes it on rank 0, and restoring parses it on every rank.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallax/core/archive.hpp"
#include "parallax/detail/checkpoint/folder.hpp"
#include "parallax/detail/core/checksum.hpp"
#include "parallax/interop/safetensors.hpp"

namespace parallax::inline v0_2::detail {

// The version of the format that is written, and the highest that is read.
inline constexpr std::int64_t checkpoint_version = 1;
// The most bytes that a checksum is of, unless a row alone has more.
inline constexpr std::int64_t most_block_bytes = 1 << 20;
// The most bytes that a manifest has: it is read into memory as a whole.
inline constexpr std::uint64_t most_manifest_bytes = std::uint64_t{48} << 20;
// Items of at most so many bytes, which all ranks have alike, are in the manifest.
inline constexpr std::uint64_t most_small_bytes = 4096;

// Thrown of a manifest that a later version of the library has written.
class NewerFormat : public FormatError {
 public:
  using FormatError::FormatError;
};

// The dtype of elements; those that C++ alone knows are bytes, and rows of them as much wider.
safetensors::Dtype dtype_of(ElementType type);
// The shape of rows of such elements in a file.
std::vector<std::uint64_t> shape_of(ElementType type, std::int64_t rows, std::int64_t width);
// How a file calls an item. `own`: it is one rank's own.
std::string key_of(std::string_view variable, std::string_view item, bool own);

// Which rows of an array a file has, in their order: runs of numbers that lie equally far apart, or, where these would be many, a
// list that the file has beside the rows.
class RowNumbers {
 public:
  // first, first + stride, …
  struct Run {
    std::int64_t first, stride, count;
  };

  // The next row's number. Of many runs a list is made.
  void add(std::int64_t row) {
    ++count_;
    if (!list_.empty()) return list_.push_back(row);
    if (!runs_.empty()) {
      Run& last = runs_.back();
      if (last.count == 1) last.stride = row - last.first;
      if (last.stride > 0 && row == last.first + last.count * last.stride) return static_cast<void>(++last.count);
      if (last.count == 1) last.stride = 1;
    }
    runs_.push_back({row, 1, 1});
    if (runs_.size() <= most_runs) return;
    for (Run const& run : runs_)
      for (std::int64_t i = 0; i < run.count; ++i) list_.push_back(run.first + i * run.stride);
    runs_.clear();
  }
  // The next `count` rows, one after the other.
  void add_run(std::int64_t first, std::int64_t count) {
    if (count == 0) return;
    add(first);
    if (count == 1) return;
    add(first + 1);
    if (listed()) {
      for (std::int64_t i = 2; i < count; ++i) list_.push_back(first + i);
    } else {
      runs_.back().count += count - 2;
    }
    count_ += count - 2;
  }
  // As a header says it: «of 1000: 3 4 250», first, stride and count of each run; «of 1000: listed».
  std::string text(std::int64_t rows) const {
    std::string text = joined({"of ", rows, ":"});
    if (listed()) return text + " listed";
    for (Run const& run : runs_) append(text, {&run == runs_.data() ? " " : ", ", run.first, " ", run.stride, " ", run.count});
    return text;
  }
  // From that text, of a file that has so many of the rows. Returns false of any other text, and of numbers outside the array.
  bool parse(std::string_view text, std::int64_t& rows, std::int64_t count) {
    runs_.clear();
    count_ = count;
    auto const take = [&](std::string_view word) {
      if (!text.starts_with(word)) return false;
      text.remove_prefix(word.size());
      return true;
    };
    auto const number = [&](std::int64_t& into) {
      std::size_t digits = 0;
      for (into = 0; digits < text.size() && digits < 18 && text[digits] >= '0' && text[digits] <= '9'; ++digits)
        into = 10 * into + (text[digits] - '0');
      text.remove_prefix(digits);
      return digits > 0;
    };
    if (!take("of ") || !number(rows) || !take(":") || count > rows) return false;
    if (listed_ = text == " listed"; listed_) return true;
    std::int64_t found = 0;
    while (!text.empty()) {
      Run run{};
      if (!take(runs_.empty() ? " " : ", ") || !number(run.first) || !take(" ") || !number(run.stride) || !take(" ") ||
          !number(run.count) || run.count < 1 || run.count > count - found || run.first >= rows || run.stride < 1 ||
          (run.count > 1 && run.stride > (rows - 1 - run.first) / (run.count - 1)))
        return false;
      found += run.count;
      runs_.push_back(run);
    }
    return found == count;
  }

  // Whether the file has a list of them.
  bool listed() const { return listed_ || !list_.empty(); }
  // That list, as it was added.
  std::span<std::int64_t const> list() const { return list_; }
  // How many rows there are.
  std::int64_t count() const { return count_; }
  // The numbers of rows [begin, begin + out.size()), where they are in runs.
  void numbers(std::int64_t begin, std::span<std::int64_t> out) const {
    std::size_t filled = 0;
    each_run(begin, static_cast<std::int64_t>(out.size()), [&](Run const& run) {
      for (std::int64_t i = 0; i < run.count; ++i) out[filled++] = run.first + i * run.stride;
    });
  }
  // f(run) of rows [begin, begin + count), where they are in runs.
  template <class F>
  void each_run(std::int64_t begin, std::int64_t count, F&& f) const {
    for (Run const& run : runs_) {
      std::int64_t const here = std::min(run.count - begin, count);
      if (here > 0) f(Run{run.first + begin * run.stride, run.stride, here}), count -= here;
      begin = std::max<std::int64_t>(0, begin - run.count);
    }
  }

 private:
  static constexpr std::size_t most_runs = 16;

  std::vector<Run> runs_;
  std::vector<std::int64_t> list_;
  std::int64_t count_ = 0;
  bool listed_ = false;
};

// How many rows a checksum is of: as many as `block_bytes` have, and one at least.
std::int64_t rows_of_block(std::uint64_t row_bytes, std::int64_t block_bytes);
// How many checksums there are of so many rows.
std::int64_t blocks_of(std::int64_t rows, std::uint64_t row_bytes, std::int64_t block_bytes);
// The checksum of some rows and of their numbers, where those are listed.
std::uint64_t block_sum(std::span<std::byte const> rows, std::span<std::int64_t const> listed);

// One rank's file, as its header says: parsed alike by who writes it and by who reads it.
class ShardFile {
 public:
  // `text`: the file from its beginning to the first tensor, which outlives this; `size`: of the file. Throws FormatError.
  ShardFile(std::span<std::byte const> text, std::uint64_t size, std::int64_t block_bytes, std::string_view path)
      : text_{text}, header_{safetensors::parse_header(text, size, path)}, size_{size} {
    sums_.reserve(header_.size() + 1);
    said_.resize(header_.size());
    for (auto const& [key, said] : header_.metadata())
      if (std::size_t const at = header_.find(key); at < header_.size()) said_[at] = said;
    std::int64_t sums = 0;
    for (std::size_t i = 0; i < header_.size(); ++i) {
      sums_.push_back(sums);
      safetensors::Tensor const tensor = header_.tensor(i);
      if (tensor.shape.size() != 2 || tensor.shape[0] > most_rows)
        throw FormatError(path, "tensor " + shown(tensor.name) + " has no rows");
      if (!is_list(i)) sums += blocks_of(rows(i), row_bytes(i), block_bytes);
      if (sums > most_sums) throw FormatError(path, "there are no checksums of so many blocks");
    }
    sums_.push_back(sums);
  }

  safetensors::Header const& header() const { return header_; }
  // The bytes before the first tensor.
  std::span<std::byte const> text() const { return text_; }
  // Of the whole file.
  std::uint64_t size() const { return size_; }
  // Of tensor number `i`.
  std::int64_t rows(std::size_t i) const { return static_cast<std::int64_t>(header_.tensor(i).shape[0]); }
  std::uint64_t row_bytes(std::size_t i) const {
    safetensors::Tensor const tensor = header_.tensor(i);
    return tensor.shape[1] * safetensors::size_of(tensor.dtype);
  }
  // Whether it lists the rows of another tensor. Of other tensors with such a name, a value's perhaps, the header says which rows they
  // are.
  bool is_list(std::size_t i) const { return header_.tensor(i).name.ends_with(":rows") && said_[i].empty(); }
  // Whether it is one rank's own: of others the header says which rows they are.
  bool is_own(std::size_t i) const { return said_[i].empty() && !is_list(i); }
  // The number of its first checksum; of header().size(), how many there are.
  std::int64_t first_sum(std::size_t i) const { return sums_[i]; }
  // The numbers of its rows. Throws FormatError.
  RowNumbers numbers(std::size_t i, std::int64_t& all, std::string_view path) const {
    RowNumbers numbers;
    if (numbers.parse(said_[i], all, rows(i))) return numbers;
    throw FormatError(path, "tensor " + shown(header_.tensor(i).name) + ": it does not say which rows it has");
  }
  // The tensor that lists them.
  static std::string list_of(std::string_view name) { return std::string{name} + ":rows"; }

 private:
  static constexpr std::uint64_t most_rows = std::uint64_t{1} << 56;
  static constexpr std::int64_t most_sums = std::int64_t{1}
                                            << 56;  // so that two sums, or eight bytes of each, overflow nothing

  std::span<std::byte const> text_;
  safetensors::Header header_;
  std::vector<std::string_view> said_;  // of which rows each tensor is; empty where nothing is said
  std::vector<std::int64_t> sums_;
  std::uint64_t size_;
};

// An item that all ranks have alike and that is small.
struct SmallItem {
  std::string name;
  ElementType type;
  std::int64_t rows, width;
  std::vector<std::byte> bytes;
};

// What there is to say of a generation as a whole.
struct GenerationFacts {
  std::int64_t number, step, block_bytes;
  std::uint64_t id;        // of all its files
  std::vector<int> hosts;  // by rank
  std::vector<int> homes;  // by rank: in which of several folders its file lies; empty where there is one folder
};

// What a rank has written: the beginning of its file, the checksums in it, and its size.
struct WrittenShard {
  std::vector<std::byte> text;
  std::vector<std::uint64_t> sums;
  std::uint64_t size = 0;
};

// A generation: what its manifest says. Owns the manifest's bytes. Throws FormatError of a manifest that is damaged, or newer.
class Generation {
 public:
  Generation(std::vector<std::byte> bytes, std::string path);
  Generation(Generation&&) = default;

  // The bytes of the manifest of such a generation. `shards`: by rank; `signatures`: by variable.
  static std::vector<std::byte> encoded(GenerationFacts const& facts, std::span<SmallItem const> items,
                                        std::vector<std::pair<std::string, std::string>> const& signatures,
                                        std::span<WrittenShard const> shards);

  GenerationFacts const& facts() const { return facts_; }
  std::string const& path() const { return path_; }
  std::vector<std::byte> const& bytes() const { return bytes_; }
  std::vector<ShardFile> const& shards() const { return shards_; }
  // The checksum of rank `shard`'s file of this number.
  std::uint64_t sum(std::size_t shard, std::int64_t number) const {
    std::uint64_t sum;
    std::memcpy(&sum, sums_[shard].data() + 8 * number, 8);
    return sum;
  }
  // The small item of this name, as a tensor of the manifest; null where there is none.
  std::span<std::byte const> const* small(std::string_view key, safetensors::Tensor& tensor) const;
  // The manifest as a file of tensors: "item NAME" is a small item.
  safetensors::Header const& header() const { return header_; }
  // The signature that a variable had; empty where it was not there.
  std::string_view signature(std::string_view variable) const { return said(joined({"signature of ", variable})); }

 private:
  std::string_view said(std::string_view key) const {
    for (auto const& [name, text] : header_.metadata())
      if (name == key) return text;
    return {};
  }
  std::int64_t number_of(std::string_view key) const {
    std::string_view const text = said(key);
    std::int64_t number = 0;
    bool right = !text.empty() && text.size() < 19;
    for (char const c : text)
      if (right = right && c >= '0' && c <= '9'; right) number = 10 * number + (c - '0');
    if (!right) throw FormatError(path_, joined({"its ", key, " is ", shown(text)}));
    return number;
  }
  std::span<std::byte const> tensor_bytes(std::string_view name) const {
    std::size_t const at = header_.find(name);
    if (at == header_.size()) throw FormatError(path_, "there is no tensor " + shown(name));
    safetensors::Tensor const tensor = header_.tensor(at);
    return std::span{bytes_}.subspan(static_cast<std::size_t>(tensor.begin),
                                     static_cast<std::size_t>(tensor.end - tensor.begin));
  }
  // The checksum of the whole, but for the eight bytes that hold it.
  static std::uint64_t sum_of(std::span<std::byte> bytes, std::size_t at) {
    std::uint64_t held;
    std::memcpy(&held, bytes.data() + at, 8);
    std::memset(bytes.data() + at, 0, 8);
    std::uint64_t const sum = checksum(bytes.data(), bytes.size());
    std::memcpy(bytes.data() + at, &held, 8);
    return sum;
  }

  std::string path_;
  std::vector<std::byte> bytes_;
  safetensors::Header header_;
  GenerationFacts facts_{};
  std::vector<ShardFile> shards_;
  std::vector<std::span<std::byte const>> sums_;
  mutable std::span<std::byte const> found_;
};

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/checkpoint/manifest-inl.hpp"
#endif
