// The commands of parallax-checkpoint, each a function that prints and returns the exit code. `main` calls one.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "parallax/detail/checkpoint/blocks.hpp"
#include "parallax/detail/checkpoint/find_generation.hpp"
#include "parallax/interop/safetensors.hpp"

namespace checkpoint_tool {

namespace px = parallax;
namespace st = parallax::safetensors;
using px::detail::Generation;
using px::detail::Slab;

// An array of a generation, all ranks together, or one rank's own.
struct Array {
  std::string key;  // as the files call it
  st::Dtype dtype;
  std::int64_t rows;
  std::uint64_t width;  // elements of a row
  bool small = false;   // in the manifest
  int rank = -1;        // of a rank's own

  std::uint64_t row_bytes() const { return width * st::size_of(dtype); }
  // As it is shown: without what says that it is of no variable, or of one rank.
  std::string name() const {
    std::string shown = key.starts_with('/') ? key.substr(1) : key;
    if (rank >= 0)
      shown = shown.substr(0, shown.size() - std::string_view{"@rank"}.size()) + " of rank " + std::to_string(rank);
    return shown;
  }
  std::string shape() const {
    return std::to_string(rows) + " x " + std::to_string(width) + " of " + std::string{st::to_string(dtype)};
  }
};

// A generation, and what reads it.
class Opened {
 public:
  // The generation of this number; 0: the newest that is complete. Throws px::FormatError.
  Opened(std::string const& folder, std::int64_t number)
      : generation_{px::detail::find_generation(folder, number)},
        folder_{folder + "/" + px::detail::generation_name(generation_.facts().number)},
        blocks_{generation_, folder_} {
    std::set<std::string> known;
    for (std::size_t rank = 0; rank < generation_.shards().size(); ++rank) {
      auto const& shard = generation_.shards()[rank];
      for (std::size_t i = 0; i < shard.header().size(); ++i) {
        if (shard.is_list(i)) continue;
        st::Tensor const tensor = shard.header().tensor(i);
        Array array{std::string{tensor.name}, tensor.dtype, shard.rows(i), tensor.shape[1]};
        if (shard.is_own(i)) array.rank = static_cast<int>(rank);
        else if (!known.insert(array.key).second) continue;
        else shard.numbers(i, array.rows, generation_.path());
        arrays_.push_back(std::move(array));
      }
    }
    st::Header const& header = generation_.header();
    for (std::size_t i = 0; i < header.size(); ++i) {
      st::Tensor const tensor = header.tensor(i);
      if (!tensor.name.starts_with("item ")) continue;
      arrays_.push_back({std::string{tensor.name.substr(5)}, tensor.dtype, static_cast<std::int64_t>(tensor.shape[0]),
                         tensor.shape[1], true});
    }
    std::sort(arrays_.begin(), arrays_.end(), [](Array const& a, Array const& b) {
      return std::pair{a.key, a.rank} < std::pair{b.key, b.rank};
    });
  }
  Opened(Opened&&) = delete;

  Generation const& generation() const { return generation_; }
  std::string const& folder() const { return folder_; }
  // By their names.
  std::vector<Array> const& arrays() const { return arrays_; }
  Array const* find(std::string_view key, int rank) const {
    for (Array const& array : arrays_)
      if (array.key == key && array.rank == rank) return &array;
    return nullptr;
  }
  std::span<std::byte const> small(Array const& array) const {
    st::Tensor tensor;
    return *generation_.small(array.key, tensor);
  }
  std::vector<Slab> slabs(Array const& array) const {
    if (array.rank >= 0) {
      auto const rank = static_cast<std::size_t>(array.rank);
      return {blocks_.own_slab(rank, generation_.shards()[rank].header().find(array.key))};
    }
    std::int64_t all = 0, together = 0;
    auto slabs = blocks_.slabs(array.key, all, together);
    if (together != all)
      throw px::FormatError(folder_, "'" + array.name() + "': there are " + std::to_string(together) + " of its " +
                                         std::to_string(all) + " rows");
    return slabs;
  }
  // f(numbers, rows) of each block, whose checksum is right. `numbers`: of the rows in the array.
  template <class F>
  void each_block(Array const& array, F&& f) const {
    std::vector<std::byte> rows;
    std::vector<std::int64_t> numbers;
    for (Slab const& slab : slabs(array))
      for (std::int64_t block = 0; block < slab.blocks; ++block) {
        rows.resize(blocks_.bytes(slab, block));
        auto const listed = blocks_.read(slab, block, rows);
        auto const [first, count] = blocks_.rows_in(slab, block);
        numbers.resize(static_cast<std::size_t>(count));
        if (!listed.empty()) std::copy(listed.begin(), listed.end(), numbers.begin());
        else if (array.rank < 0) slab.numbers.numbers(first, numbers);
        else
          for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = first + static_cast<std::int64_t>(i);
        for (std::int64_t const row : numbers)
          if (row < 0 || row >= array.rows)
            throw px::FormatError(folder_, "'" + array.name() + "' has no row " + std::to_string(row));
        f(std::span<std::int64_t const>{numbers}, std::span<std::byte const>{rows});
      }
  }

 private:
  Generation generation_;
  std::string folder_;
  mutable px::detail::BlockReader blocks_;
  std::vector<Array> arrays_;
};

// Says on a terminal how far a command has come.
class Progress {
 public:
  explicit Progress(std::uint64_t all) : all_{all} {}
  Progress(Progress&&) = delete;
  ~Progress() {
    if (shown_ >= 0) std::fputs("\r    \r", stderr);
  }
  void add(std::uint64_t bytes) {
    done_ += bytes;
    int const share = all_ > 0 ? static_cast<int>(100 * done_ / all_) : 100;
    if (!terminal_ || share == shown_) return;
    shown_ = share;
    std::fprintf(stderr, "\r%3d%%", share);
  }

 private:
  bool terminal_ = ::isatty(2) == 1;
  std::uint64_t all_, done_ = 0;
  int shown_ = -1;
};

inline std::uint64_t bytes_of(Opened const& opened) {
  std::uint64_t bytes = 0;
  for (Array const& array : opened.arrays()) bytes += static_cast<std::uint64_t>(array.rows) * array.row_bytes();
  return bytes;
}
// The names of variables and what they were made with.
inline std::vector<std::pair<std::string_view, std::string_view>> variables_of(Generation const& generation) {
  constexpr std::string_view begin = "signature of ";
  std::vector<std::pair<std::string_view, std::string_view>> variables;
  for (auto const& [key, text] : generation.header().metadata())
    if (key.starts_with(begin)) variables.emplace_back(key.substr(begin.size()), text);
  return variables;
}

// How many files of ranks are in this folder, as they were written.
inline std::size_t files_here(Generation const& generation, std::string const& folder) {
  std::size_t here = 0;
  for (std::size_t rank = 0; rank < generation.shards().size(); ++rank) {
    std::string why;
    here += px::detail::unless_passed(false, why, [&] {
              return px::detail::check_shard(generation, folder, rank), true;
            }).has_value();
  }
  return here;
}

inline int list(std::string const& folder) {
  auto const numbers = px::detail::generations_in(folder);
  if (numbers.empty()) throw px::FormatError(folder, "it has no generation of a checkpoint");
  std::printf("%12s %12s %6s %10s %10s\n", "generation", "step", "ranks", "variables", "MB");
  bool whole = true;
  for (std::int64_t const number : numbers) {
    try {
      Generation const generation = px::detail::open_generation(folder, number);
      std::size_t const files = generation.shards().size(), here = files_here(generation, folder);
      if (here == files || generation.facts().homes.empty()) px::detail::check_shards(generation, folder);
      std::uint64_t bytes = generation.bytes().size();
      for (auto const& shard : generation.shards()) bytes += shard.size();
      std::printf("%12lld %12lld %6zu %10zu %10.1f", static_cast<long long>(number),
                  static_cast<long long>(generation.facts().step), files, variables_of(generation).size(),
                  static_cast<double>(bytes) / 1e6);
      if (here < files) std::printf("  %zu of %zu files are here, the others on other hosts", here, files);
      std::printf("\n");
    } catch (px::FormatError const& error) {
      whole = false;
      std::printf("%12lld  not complete: %s\n", static_cast<long long>(number), error.what());
    }
  }
  for (std::string const& name : px::detail::names_in(folder))
    if (name.ends_with(px::detail::unfinished))
      std::printf("%s is what an interrupted save has left, or one that goes on\n", name.c_str());
  return whole ? 0 : 1;
}

// A small item as text: numbers, or characters where it is of some that can be printed.
inline std::string text_of(Array const& array, std::span<std::byte const> bytes) {
  std::string_view const characters{reinterpret_cast<char const*>(bytes.data()), bytes.size()};
  bool const printable = std::all_of(characters.begin(), characters.end(), [](char c) { return c >= ' ' && c != 127; });
  if (st::size_of(array.dtype) == 1 && printable && !bytes.empty()) return "\"" + std::string{characters} + "\"";
  std::string text;
  auto const add = [&]<class T>(T) {
    for (std::size_t at = 0; at + sizeof(T) <= bytes.size(); at += sizeof(T)) {
      if (text.size() > 60) return static_cast<void>(text += " …");
      T value;
      std::memcpy(&value, bytes.data() + at, sizeof(T));
      char number[32];
      if constexpr (std::is_floating_point_v<T>) std::snprintf(number, sizeof(number), "%.9g", static_cast<double>(value));
      else std::snprintf(number, sizeof(number), "%s", std::to_string(value).c_str());
      text += (text.empty() ? "" : " ") + std::string{number};
    }
  };
  switch (array.dtype) {
    case st::Dtype::f32: add(float{}); break;
    case st::Dtype::f64: add(double{}); break;
    case st::Dtype::i8: add(std::int8_t{}); break;
    case st::Dtype::i16: add(std::int16_t{}); break;
    case st::Dtype::i32: add(std::int32_t{}); break;
    case st::Dtype::i64: add(std::int64_t{}); break;
    case st::Dtype::u16: add(std::uint16_t{}); break;
    case st::Dtype::u32: add(std::uint32_t{}); break;
    case st::Dtype::u64: add(std::uint64_t{}); break;
    default: add(std::uint8_t{});
  }
  return text;
}

inline int show(Opened const& opened) {
  Generation const& generation = opened.generation();
  std::printf("generation %lld, step %lld, by %zu ranks\n", static_cast<long long>(generation.facts().number),
              static_cast<long long>(generation.facts().step), generation.shards().size());
  auto const print = [&](std::string_view prefix) {
    for (Array const& array : opened.arrays()) {
      std::string const name = array.name();
      if (!std::string_view{name}.starts_with(prefix) || array.key.ends_with(".length") || array.key.ends_with(".length@rank"))
        continue;
      std::string const value = array.small ? ": " + text_of(array, opened.small(array)) : "";
      std::printf("  %-40s %s%s\n", name.substr(prefix.size()).c_str(), array.shape().c_str(), value.c_str());
    }
  };
  for (auto const& [name, signature] : variables_of(generation)) {
    std::printf("variable %.*s: %.*s\n", static_cast<int>(name.size()), name.data(), static_cast<int>(signature.size()),
                signature.data());
    print(std::string{name} + "/");
  }
  std::printf("session\n");
  print("session.");
  std::printf("values of the trainer\n");
  print("value.");
  return 0;
}

inline int verify(Opened const& opened) {
  Progress progress{bytes_of(opened)};
  std::uint64_t blocks = 0;
  px::detail::RowsSeen seen;
  for (Array const& array : opened.arrays()) {
    if (array.small) continue;
    seen.begin(static_cast<std::size_t>(array.rows));
    opened.each_block(array, [&](std::span<std::int64_t const> numbers, std::span<std::byte const> rows) {
      for (std::int64_t const row : numbers)
        if (!seen.take(static_cast<std::size_t>(row), 1))
          throw px::FormatError(opened.folder(), "'" + array.name() + "': row " + std::to_string(row) + " is there twice");
      ++blocks;
      progress.add(rows.size());
    });
  }
  std::printf("generation %lld is right: %zu arrays, %llu blocks\n", static_cast<long long>(opened.generation().facts().number),
              opened.arrays().size(), static_cast<unsigned long long>(blocks));
  return 0;
}

// One array of a generation, any row of it: its files are read where the row lies. Has a word for each row whose number is listed.
class Rows {
 public:
  Rows(Opened const& opened, Array const& array) : opened_{&opened}, array_{&array} {
    if (array.small) return;
    for (Slab const& slab : opened.slabs(array)) {
      auto const& shard = opened.generation().shards()[slab.shard];
      st::Tensor const tensor = shard.header().tensor(slab.tensor);
      sources_.push_back(
          {px::detail::ReadFile{opened.folder() + "/" + px::detail::shard_name(static_cast<int>(slab.shard))}, tensor.begin});
      std::int64_t local = 0;
      if (array.rank >= 0) runs_.push_back({{0, 1, slab.rows}, 0, 0});
      else if (!slab.numbers.listed())
        slab.numbers.each_run(0, slab.rows, [&](px::detail::RowNumbers::Run const& run) {
          runs_.push_back({run, sources_.size() - 1, local});
          local += run.count;
        });
      else listed_ = true;
    }
    if (!listed_) return;
    places_.resize(static_cast<std::size_t>(array.rows));
    std::size_t source = 0;
    for (Slab const& slab : opened.slabs(array)) {
      auto const& shard = opened.generation().shards()[slab.shard];
      std::vector<std::int64_t> numbers(static_cast<std::size_t>(slab.rows));
      if (slab.numbers.listed()) {
        std::size_t const list = shard.header().find(px::detail::ShardFile::list_of(shard.header().tensor(slab.tensor).name));
        if (list == shard.header().size())
          throw px::FormatError(opened.folder(), "'" + array.name() + "': no list of its rows");
        sources_[source].file.read(shard.header().tensor(list).begin, std::as_writable_bytes(std::span{numbers}));
      } else {
        slab.numbers.numbers(0, numbers);
      }
      for (std::size_t i = 0; i < numbers.size(); ++i)
        if (numbers[i] >= 0 && numbers[i] < array.rows)
          places_[static_cast<std::size_t>(numbers[i])] = static_cast<std::int64_t>(i << 16 | source);
      ++source;
    }
  }
  // Fills `out` with rows, those side by side in a file by one call.
  void read(std::span<std::int64_t const> numbers, std::span<std::byte> out) {
    auto const row_bytes = static_cast<std::size_t>(array_->row_bytes());
    for (std::size_t i = 0; i < numbers.size();) {
      if (array_->small) {
        std::memcpy(out.data() + i * row_bytes,
                    opened_->small(*array_).data() + static_cast<std::size_t>(numbers[i]) * row_bytes, row_bytes);
        ++i;
        continue;
      }
      auto const [source, local] = place(numbers[i]);
      std::size_t count = 1;
      while (i + count < numbers.size() &&
             place(numbers[i + count]) == std::pair{source, local + static_cast<std::int64_t>(count)})
        ++count;
      sources_[source].file.read(sources_[source].begin + static_cast<std::uint64_t>(local) * row_bytes,
                                 out.subspan(i * row_bytes, count * row_bytes));
      i += count;
    }
  }

 private:
  struct Source {
    px::detail::ReadFile file;
    std::uint64_t begin;
  };
  struct Run {
    px::detail::RowNumbers::Run rows;
    std::size_t source;
    std::int64_t local;
  };
  std::pair<std::size_t, std::int64_t> place(std::int64_t row) const {
    if (listed_) {
      std::int64_t const there = places_[static_cast<std::size_t>(row)];
      return {static_cast<std::size_t>(there & 0xffff), there >> 16};
    }
    for (Run const& run : runs_) {
      std::int64_t const behind = row - run.rows.first;
      if (behind >= 0 && behind % run.rows.stride == 0 && behind / run.rows.stride < run.rows.count)
        return {run.source, run.local + behind / run.rows.stride};
    }
    throw px::FormatError(opened_->folder(), "'" + array_->name() + "' has no row " + std::to_string(row));
  }

  Opened const* opened_;
  Array const* array_;
  std::vector<Source> sources_;
  std::vector<Run> runs_;
  bool listed_ = false;
  std::vector<std::int64_t> places_;  // by row, where any are listed: the row in the file, and which file
};

// f(numbers, rows) of an array, wherever it is.
template <class F>
void each_block_of(Opened const& opened, Array const& array, F&& f) {
  if (!array.small) return opened.each_block(array, f);
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(array.rows));
  for (std::size_t i = 0; i < numbers.size(); ++i) numbers[i] = static_cast<std::int64_t>(i);
  f(std::span<std::int64_t const>{numbers}, opened.small(array));
}

// The largest difference of two runs of floats; of another dtype none.
inline double largest_difference(st::Dtype dtype, std::span<std::byte const> a, std::span<std::byte const> b) {
  double most = 0;
  auto const look = [&]<class T>(T) {
    for (std::size_t at = 0; at + sizeof(T) <= a.size(); at += sizeof(T)) {
      T one, other;
      std::memcpy(&one, a.data() + at, sizeof(T)), std::memcpy(&other, b.data() + at, sizeof(T));
      most = std::max(most, std::abs(static_cast<double>(one) - static_cast<double>(other)));
    }
  };
  if (dtype == st::Dtype::f32) look(float{});
  if (dtype == st::Dtype::f64) look(double{});
  return most;
}

inline int diff(Opened const& one, Opened const& other) {
  Progress progress{bytes_of(one)};
  bool alike = true;
  auto const say = [&](Array const& array, std::string const& what) {
    alike = false;
    std::printf("%s: %s\n", array.name().c_str(), what.c_str());
  };
  for (Array const& array : other.arrays())
    if (!one.find(array.key, array.rank)) say(array, "only in the second");
  for (Array const& array : one.arrays()) {
    Array const* const there = other.find(array.key, array.rank);
    if (!there) {
      say(array, "only in the first");
      continue;
    }
    if (there->rows != array.rows || there->width != array.width || there->dtype != array.dtype) {
      say(array, array.shape() + " in the first, " + there->shape() + " in the second");
      continue;
    }
    Rows rows_there{other, *there};
    std::vector<std::byte> second;
    std::int64_t differ = 0;
    double most = 0;
    auto const row_bytes = static_cast<std::size_t>(array.row_bytes());
    each_block_of(one, array, [&](std::span<std::int64_t const> numbers, std::span<std::byte const> first) {
      second.resize(first.size());
      rows_there.read(numbers, second);
      progress.add(first.size());
      if (first.empty() || std::memcmp(first.data(), second.data(), first.size()) == 0) return;
      for (std::size_t i = 0; i < numbers.size(); ++i)
        differ += std::memcmp(first.data() + i * row_bytes, second.data() + i * row_bytes, row_bytes) != 0;
      most = std::max(most, largest_difference(array.dtype, first, second));
    });
    if (differ == 0) continue;
    std::string what = std::to_string(differ) + " of " + std::to_string(array.rows) + " rows differ";
    char by[40];
    std::snprintf(by, sizeof(by), ", by up to %.9g", most);
    if (array.dtype == st::Dtype::f32 || array.dtype == st::Dtype::f64) what += by;
    say(array, what);
  }
  if (alike) std::printf("alike\n");
  return alike ? 0 : 1;
}

inline int convert(Opened const& opened, std::string const& path, std::string const& variable) {
  std::vector<st::Spec> specs;
  std::vector<Array const*> arrays;
  std::size_t left_out = 0;
  for (Array const& array : opened.arrays()) {
    if (!variable.empty() && !array.key.starts_with(variable + "/")) continue;
    if (array.rank >= 0) {
      ++left_out;
      continue;
    }
    specs.push_back({array.name(), array.dtype, {static_cast<std::uint64_t>(array.rows), array.width}});
    arrays.push_back(&array);
  }
  if (arrays.empty()) throw px::FormatError(opened.folder(), "it has no variable '" + variable + "'");
  auto const& facts = opened.generation().facts();
  st::Writer writer{path, specs, {{"generation", std::to_string(facts.number)}, {"step", std::to_string(facts.step)}}};
  Progress progress{bytes_of(opened)};
  for (std::size_t i = 0; i < arrays.size(); ++i) {
    std::uint64_t const row_bytes = arrays[i]->row_bytes();
    each_block_of(opened, *arrays[i], [&](std::span<std::int64_t const> numbers, std::span<std::byte const> rows) {
      for (std::size_t first = 0; first < numbers.size();) {  // rows side by side by one call
        std::size_t count = 1;
        while (first + count < numbers.size() && numbers[first + count] == numbers[first] + static_cast<std::int64_t>(count))
          ++count;
        writer.write(i, static_cast<std::uint64_t>(numbers[first]) * row_bytes,
                     rows.subspan(first * static_cast<std::size_t>(row_bytes), count * static_cast<std::size_t>(row_bytes)));
        first += count;
      }
      progress.add(rows.size());
    });
  }
  writer.finish();
  std::printf("%zu arrays in %s", arrays.size(), path.c_str());
  if (left_out > 0) std::printf("; %zu of single ranks are left out", left_out);
  std::printf("\n");
  return 0;
}

}  // namespace checkpoint_tool
