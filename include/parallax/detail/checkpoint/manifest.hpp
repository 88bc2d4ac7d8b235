// Content of a generation of a checkpoint: the items of each rank's file, the places of their rows, and checksums of all.
// Saving makes it on rank 0, and restoring parses it on every rank.
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

#include "parallax/core/archive.hpp"
#include "parallax/detail/checkpoint/folder.hpp"
#include "parallax/detail/core/checksum.hpp"
#include "parallax/interop/safetensors.hpp"

namespace parallax::inline v0_2::detail {

// Version of the format in new files, and the highest readable one.
inline constexpr std::int64_t checkpoint_version = 1;
// Most bytes under one checksum, unless a row alone has more.
inline constexpr std::int64_t most_block_bytes = 1 << 20;
// Most bytes of a manifest: it is read into memory as a whole.
inline constexpr std::uint64_t most_manifest_bytes = std::uint64_t{48} << 20;
// Most bytes of a small item: one equal on all ranks, and kept in the manifest.
inline constexpr std::uint64_t most_small_bytes = 4096;

// Error of a manifest written by a later version of the library.
class NewerFormat : public FormatError {
 public:
  using FormatError::FormatError;
};

// Returns the dtype of elements; elements known to C++ alone are bytes, and rows of them as much wider.
safetensors::Dtype dtype_of(ElementType type);
// Returns the shape in a file of `rows` rows, each of `width` such elements: rows, and elements of the file's dtype in a row.
std::vector<std::uint64_t> shape_of(ElementType type, std::int64_t rows, std::int64_t width);
// Returns an item's name in a file: VARIABLE/ITEM, with @rank behind it if the item is one rank's `own`.
std::string key_of(std::string_view variable, std::string_view item, bool own);

// Numbers of an array's rows in a file, in their order: runs of numbers equally far apart, or, instead of many runs, a list in
// the file beside the rows.
class RowNumbers {
 public:
  // The numbers first, first + stride, …: `count` of them.
  struct Run {
    std::int64_t first, stride, count;
  };

  // Adds the next row's number in the array. Many runs become a list.
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
  // Adds the next `count` rows, numbered first, first + 1, ….
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
  // Returns a header's text, `rows` of the array and first, stride and count of each run: «of 1000: 3 4 250»; else «…: listed».
  std::string text(std::int64_t rows) const {
    std::string text = joined({"of ", rows, ":"});
    if (listed()) return text + " listed";
    for (Run const& run : runs_) append(text, {&run == runs_.data() ? " " : ", ", run.first, " ", run.stride, " ", run.count});
    return text;
  }
  // Parses such a text, of a file of `count` rows. Sets `rows`. Returns false for other texts, and numbers outside the array.
  bool parse(std::string_view text, std::int64_t& rows, std::int64_t count) {
    runs_.clear();
    count_ = count;
    auto const take = [&](std::string_view word) {
      if (!text.starts_with(word)) return false;
      text.remove_prefix(word.size());
      return true;
    };
    auto const number = [&](std::int64_t& into) { return take_number(text, into); };
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

  // Returns true if the numbers are a list in the file instead of runs.
  bool listed() const { return listed_ || !list_.empty(); }
  // Returns the list as it was added, valid until the next addition; empty after `parse`.
  std::span<std::int64_t const> list() const { return list_; }
  // Returns the number of rows in the file.
  std::int64_t count() const { return count_; }
  // Writes to `out` the numbers of the file's rows [begin, begin + out.size()); nothing if they are listed.
  void numbers(std::int64_t begin, std::span<std::int64_t> out) const {
    std::size_t filled = 0;
    each_run(begin, static_cast<std::int64_t>(out.size()), [&](Run const& run) {
      for (std::int64_t i = 0; i < run.count; ++i) out[filled++] = run.first + i * run.stride;
    });
  }
  // Calls f(run) for each run in the file's rows [begin, begin + count), cut to these; never if they are listed.
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

// Returns the number of rows under a checksum: as many as fit into `block_bytes`, and one at least.
std::int64_t rows_of_block(std::uint64_t row_bytes, std::int64_t block_bytes);
// Returns the number of checksums of so many rows; 0 for rows without bytes.
std::int64_t blocks_of(std::int64_t rows, std::uint64_t row_bytes, std::int64_t block_bytes);
// Returns the checksum of some rows and of their numbers, if listed.
std::uint64_t block_sum(std::span<std::byte const> rows, std::span<std::int64_t const> listed);

// One rank's file, by its header: parsed alike for writing and for reading. Refers to the given bytes of the header.
class ShardFile {
 public:
  // Parses `text`, the file up to its first tensor, which outlives this. `size`: the file's bytes. FormatError: it is damaged.
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
  // Returns the file's bytes before the first tensor, as given.
  std::span<std::byte const> text() const { return text_; }
  // Returns the number of bytes of the whole file.
  std::uint64_t size() const { return size_; }
  // Returns the number of rows of tensor number `i`, below header().size().
  std::int64_t rows(std::size_t i) const { return static_cast<std::int64_t>(header_.tensor(i).shape[0]); }
  std::uint64_t row_bytes(std::size_t i) const {
    safetensors::Tensor const tensor = header_.tensor(i);
    return tensor.shape[1] * safetensors::size_of(tensor.dtype);
  }
  // Returns true if tensor `i` lists the rows of another one; false for a value of such a name, whose rows the header says.
  bool is_list(std::size_t i) const { return header_.tensor(i).name.ends_with(":rows") && said_[i].empty(); }
  // Returns true if tensor `i` is one rank's own: for others the header says their rows.
  bool is_own(std::size_t i) const { return said_[i].empty() && !is_list(i); }
  // Returns the number of tensor `i`'s first checksum among the file's; of header().size(), the number of all.
  std::int64_t first_sum(std::size_t i) const { return sums_[i]; }
  // Returns the numbers of tensor `i`'s rows, and sets `all`, the array's rows. Throws FormatError if the header has none.
  RowNumbers numbers(std::size_t i, std::int64_t& all, std::string_view path) const {
    RowNumbers numbers;
    if (numbers.parse(said_[i], all, rows(i))) return numbers;
    throw FormatError(path, "tensor " + shown(header_.tensor(i).name) + ": it does not say which rows it has");
  }
  // Returns the name of the tensor that lists the rows of the tensor `name`.
  static std::string list_of(std::string_view name) { return std::string{name} + ":rows"; }

 private:
  static constexpr std::uint64_t most_rows = std::uint64_t{1} << 56;
  static constexpr std::int64_t most_sums = std::int64_t{1}
                                            << 56;  // small enough: two sums, or eight bytes of each, overflow nothing

  std::span<std::byte const> text_;
  safetensors::Header header_;
  std::vector<std::string_view> said_;  // rows of each tensor; empty if nothing is said
  std::vector<std::int64_t> sums_;
  std::uint64_t size_;
};

// A small item, equal on all ranks. Owns its bytes.
struct SmallItem {
  std::string name;
  ElementType type;
  std::int64_t rows, width;
  std::vector<std::byte> bytes;
};

// Facts about a generation as a whole.
struct GenerationFacts {
  std::int64_t number, step, block_bytes;
  std::uint64_t id;          // of all its files
  std::vector<int> hosts{};  // by rank
  std::vector<int> homes{};  // by rank: the folder with its file, of several; empty if there is one folder
};

// The result of a rank's writing: its file up to the first tensor, all checksums in the tensors' order, and the file's bytes.
struct WrittenShard {
  std::vector<std::byte> text;
  std::vector<std::uint64_t> sums;
  std::uint64_t size = 0;
};

// Returns a copy of the values in these bytes, as a file or another rank gave them.
template <class T>
std::vector<T> values_of(std::span<std::byte const> bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!values.empty()) std::memcpy(values.data(), bytes.data(), values.size() * sizeof(T));
  return values;
}

// A generation, by its manifest. Owns the manifest's bytes. Constructor: throws FormatError of a damaged, or newer, manifest.
class Generation {
 public:
  Generation(std::vector<std::byte> bytes, std::string path);
  Generation(Generation&&) = default;

  // Returns a new manifest's bytes. `shards`: by rank; `signatures`: by variable. Throws FormatError above most_manifest_bytes.
  static std::vector<std::byte> encoded(GenerationFacts const& facts, std::span<SmallItem const> items,
                                        std::vector<std::pair<std::string, std::string>> const& signatures,
                                        std::span<WrittenShard const> shards);

  GenerationFacts const& facts() const { return facts_; }
  std::string const& path() const { return path_; }
  std::vector<std::byte> const& bytes() const { return bytes_; }
  std::vector<ShardFile> const& shards() const { return shards_; }
  // Returns checksum number `number` of rank `shard`'s file.
  std::uint64_t sum(std::size_t shard, std::int64_t number) const {
    std::uint64_t sum;
    std::memcpy(&sum, sums_[shard].data() + 8 * number, 8);
    return sum;
  }
  // Returns the bytes of the small item `key`, valid as long as this, and sets `tensor`, its place; nothing if there is none.
  std::optional<std::span<std::byte const>> small(std::string_view key, safetensors::Tensor& tensor) const;
  // Returns the manifest as a file of tensors: "item NAME" is the small item NAME.
  safetensors::Header const& header() const { return header_; }
  // Returns a variable's signature in the checkpoint, valid as long as this; empty if it was not there.
  std::string_view signature(std::string_view variable) const { return said(joined({"signature of ", variable})); }

 private:
  std::string_view said(std::string_view key) const {
    for (auto const& [name, text] : header_.metadata())
      if (name == key) return text;
    return {};
  }
  std::int64_t number_of(std::string_view key) const {
    std::string_view digits = said(key);
    std::int64_t number = 0;
    if (take_number(digits, number) && digits.empty()) return number;
    throw FormatError(path_, joined({"its ", key, " is ", shown(said(key))}));
  }
  std::span<std::byte const> tensor_bytes(std::string_view name) const {
    std::size_t const at = header_.find(name);
    if (at == header_.size()) throw FormatError(path_, "there is no tensor " + shown(name));
    return bytes_of(header_.tensor(at));
  }
  std::span<std::byte const> bytes_of(safetensors::Tensor const& tensor) const {
    return std::span{bytes_}.subspan(static_cast<std::size_t>(tensor.begin),
                                     static_cast<std::size_t>(tensor.end - tensor.begin));
  }
  // Returns the checksum of `bytes` with zeros for the eight bytes at `at`, the place of the checksum itself.
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
};

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/checkpoint/manifest-inl.hpp"
#endif
