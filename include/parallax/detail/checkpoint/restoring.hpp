// The reading of a restore: each rank reads a part of each array, block by block, and the rows go to their present holders. The
// work of `Session::restore` shows it all items.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallax/detail/checkpoint/blocks.hpp"
#include "parallax/detail/checkpoint/common.hpp"
#include "parallax/detail/checkpoint/find_generation.hpp"
#include "parallax/detail/checkpoint/readers.hpp"
#include "parallax/detail/transfer/dense.hpp"

namespace parallax::inline v0_2::detail {

// The second look, an archive with the same items on all ranks; `item` is collective, and waits. Arrays are read together, each
// by all ranks, small ones equal on all many at once, before they are shown. Refers to core, generation and meaning.
template <Communicator C>
class Restoring {
 public:
  static constexpr bool reads = true, whole = true;

  // Collective if a rank does not see its own file; an error ends the session. `alike`: the items read many at once, in order.
  Restoring(SessionCore<C>& core, std::string folder, ReadableGeneration const& generation, Meaning const& meaning,
            std::vector<std::string> alike)
      : core_{&core},
        manifest_{&generation.manifest},
        readers_{&generation.readers},
        meaning_{&meaning},
        blocks_{generation.manifest, std::move(folder)},
        alike_{std::move(alike)},
        ranks_{static_cast<std::size_t>(core.topology.size())},
        rank_{static_cast<std::size_t>(core.topology.rank())},
        own_{generation, ranks_, rank_},
        bundles_(ranks_) {
    if (meaning.as_many() && own_.any_apart()) {
      note([&] { own_.collect(blocks_); });
      agree_so_far(*core_, "restore", own_error, true);
      own_.exchange(*core_);
    }
  }

  void item(Item const& item, std::span<std::byte> bytes) {
    if (meaning_->left_out(item.variable) || !meaning_->applies(item)) return;
    if (item.list && item.count < item.rows) return list_rows(item, bytes);
    std::string const key = meaning_->key(item);
    safetensors::Tensor tensor;
    if (auto const small = manifest_->small(key, tensor)) {
      auto const row_bytes = static_cast<std::size_t>(item.width) * item.type.bytes;
      if (item.share == Share::part && small->size() == static_cast<std::size_t>(item.rows) * row_bytes) {
        for (std::int64_t i = 0; i < item.count; ++i)
          std::memcpy(bytes.data() + static_cast<std::size_t>(i) * row_bytes,
                      small->data() + static_cast<std::size_t>(item.row(i)) * row_bytes, row_bytes);
        return;
      }
      if (small->size() != bytes.size())
        throw item_error(item.variable, item.name, joined({"it has ", small->size(), " bytes, not ", bytes.size()}));
      if (!bytes.empty()) std::memcpy(bytes.data(), small->data(), bytes.size());
    } else if (item.share == Share::own) {
      note([&] { read_own(item, key, bytes); });
    } else if (StoredArray const* const stored = read_before(key); stored && item.share != Share::part) {
      copy(item, *stored, bytes);
    } else {
      fetch(item, find(key), bytes);
    }
  }

  // This rank's error, told at the ranks' next talk, and at the end: the calls of all ranks do not depend on it.
  std::optional<Error> own_error;

 private:
  // Most bytes of all arrays read at once, unless a single one has more.
  static constexpr std::size_t most_at_once = std::size_t{1} << 22;
  // An array in the files.
  struct StoredArray {
    std::vector<Slab> slabs;
    std::int64_t rows = 0, together = 0;  // of the array; of all slabs
    std::vector<std::size_t> begins{};    // of the slabs in `at_once_`, if they are read there
  };
  // Place of an item's rows at this rank: refers to the item and to its memory.
  struct Target {
    Item const* item;
    std::span<std::byte> out;
    std::size_t row_bytes;
  };

  // Local. Runs `body`, unless `own_error` is set, and sets it to its error, to be told later.
  template <class Body>
  void note(Body&& body) {
    if (!own_error) own_error = caught(static_cast<int>(rank_), "restore", body);
  }

  // Fills a long list, shown in several calls: reads it as a whole at the first one. Collective unless it is a rank's own.
  void list_rows(Item const& item, std::span<std::byte> bytes) {
    std::size_t const row_bytes = static_cast<std::size_t>(item.width) * item.type.bytes;
    auto const first = static_cast<std::size_t>(item.row(0)) * row_bytes;
    if (first == 0) {
      check_length(item, row_bytes);
      list_.assign(static_cast<std::size_t>(item.rows) * row_bytes, std::byte{});
      Item all = item;
      all.count = item.rows;
      this->item(all, list_);
    }
    std::memcpy(bytes.data(), list_.data() + first, bytes.size());
  }

  // Local. Throws Error (mismatch) unless the checkpoint has item.rows rows, before they have room: it may be any number.
  void check_length(Item const& item, std::size_t row_bytes) const {
    std::string const key = meaning_->key(item);
    std::uint64_t there = 0;
    safetensors::Tensor tensor;
    if (auto const small = manifest_->small(key, tensor)) {
      there = small->size();
    } else {
      for (std::size_t shard = 0; shard < manifest_->shards().size(); ++shard) {
        if (item.share == Share::own && shard != rank_) continue;
        ShardFile const& file = manifest_->shards()[shard];
        if (std::size_t const at = file.header().find(key); at < file.header().size())
          there += static_cast<std::uint64_t>(file.rows(at)) * file.row_bytes(at);
      }
    }
    if (item.rows < 0 || there / row_bytes != static_cast<std::uint64_t>(item.rows))
      throw item_error(item.variable, item.name, joined({"it has ", there / row_bytes, " rows, not ", item.rows}));
  }

  // Local. Reads an own item, from this rank's own file or as brought by another rank. Throws Error (mismatch), FormatError.
  void read_own(Item const& item, std::string const& key, std::span<std::byte> bytes) {
    ShardFile const& shard = manifest_->shards()[rank_];
    std::size_t const at = shard.header().find(key);
    if (at == shard.header().size()) {
      if (!bytes.empty()) throw item_error(item.variable, item.name, joined({"the checkpoint has no ", shown(key)}));
      return;
    }
    safetensors::Tensor const tensor = shard.header().tensor(at);
    if (tensor.end - tensor.begin != bytes.size())
      throw item_error(item.variable, item.name, joined({"it has ", tensor.end - tensor.begin, " bytes, not ", bytes.size()}));
    own_.read(blocks_, at, bytes);
  }

  // Local. Returns the array of this name, slabs by groups of readers. Throws Error (file) on all ranks: all have one manifest.
  StoredArray find(std::string_view key) const {
    StoredArray stored;
    auto const error =
        caught(static_cast<int>(rank_), "restore", [&] { stored.slabs = blocks_.slabs(key, stored.rows, stored.together); });
    if (error) throw Error{*error};
    if (readers_->groups().size() == 1) return stored;
    std::stable_sort(stored.slabs.begin(), stored.slabs.end(),
                     [&](Slab const& a, Slab const& b) { return group_of(a) < group_of(b); });
    std::int64_t first = 0;
    for (Slab& slab : stored.slabs) first += (slab.first_block = first, slab.blocks);
    return stored;
  }
  std::size_t group_of(Slab const& slab) const { return readers_->group_of(slab.shard); }
  // Local. Returns the place of an item's rows, `out`. Throws Error (mismatch) on all ranks if the files have another item.
  Target target(Item const& item, StoredArray const& stored, std::span<std::byte> out) {
    auto const row_bytes = static_cast<std::size_t>(item.width) * item.type.bytes;
    auto const refuse = [&](std::string const& what) { throw item_error(item.variable, item.name, what); };
    auto const error = caught(static_cast<int>(rank_), "restore", [&] {
      if (!stored.slabs.empty() && (blocks_.row_bytes(stored.slabs[0]) != row_bytes || stored.rows != item.rows))
        refuse("the files of the checkpoint have it in several shapes");
      if (stored.together != item.rows && row_bytes > 0 && !(item.list && stored.slabs.empty()))
        refuse(joined({"the checkpoint has ", stored.together, " of its ", item.rows, " rows"}));
      seen_.begin(row_bytes > 0 ? out.size() / row_bytes : 0);
    });
    if (error) throw Error{*error};
    return {&item, out, row_bytes};
  }
  // Local. Puts rows into this rank's, from number `first` on. Throws FormatError if one is not this rank's, or was there.
  void place(Target const& target, std::int64_t first, std::span<std::byte const> rows) {
    std::size_t const count = rows.size() / target.row_bytes, all = target.out.size() / target.row_bytes;
    if (first < 0 || static_cast<std::size_t>(first) > all || count > all - static_cast<std::size_t>(first))
      throw FormatError(manifest_->path(),
                        joined({"row ", first, " of ", shown(meaning_->key(*target.item)), " is none of this rank's"}));
    if (!seen_.take(static_cast<std::size_t>(first), count))
      throw FormatError(manifest_->path(), joined({"a row of ", shown(meaning_->key(*target.item)), " is there twice"}));
    std::memcpy(target.out.data() + static_cast<std::size_t>(first) * target.row_bytes, rows.data(), rows.size());
  }
  // Local. Sets `own_error` unless all rows have come.
  void complete(Target const& target) {
    if (own_error || seen_.count() * target.row_bytes == target.out.size() || target.row_bytes == 0) return;
    own_error = Error{Errc::file, static_cast<int>(rank_), "restore", target.item->variable,
                      joined({"item '", target.item->name, "': ", seen_.count(), " rows of ",
                              target.out.size() / target.row_bytes, " have come"})};
  }

  // Collective. Returns the array `key` if it is one to be read at once with others, valid until the next call; else null.
  StoredArray const* read_before(std::string const& key) {
    if (next_ == alike_.size() || alike_[next_] != key) return nullptr;
    if (next_ == read_) read_at_once();
    StoredArray const& stored = stored_[next_++ - (read_ - stored_.size())];
    return stored.slabs.empty() ? nullptr : &stored;
  }
  // Collective, and waits. Reads the next arrays: each rank its part of all bytes, for all. Any rank's error ends the session.
  void read_at_once() {
    stored_.clear();
    std::size_t total = 0;
    std::vector<std::size_t> bytes_of_group(readers_->groups().size());
    for (; read_ < alike_.size(); ++read_) {
      StoredArray stored = find(alike_[read_]);
      std::size_t bytes = 0;
      bool listed = false;
      for (Slab const& slab : stored.slabs) {
        bytes += static_cast<std::size_t>(slab.rows) * static_cast<std::size_t>(blocks_.row_bytes(slab));
        listed = listed || slab.numbers.listed();
      }
      if (listed) stored.slabs.clear(), bytes = 0;  // they travel with their numbers
      if (!stored_.empty() && total + bytes > most_at_once) break;
      total += bytes;
      for (Slab const& slab : stored.slabs)
        bytes_of_group[group_of(slab)] +=
            static_cast<std::size_t>(slab.rows) * static_cast<std::size_t>(blocks_.row_bytes(slab));
      stored.begins.resize(stored.slabs.size());
      stored_.push_back(std::move(stored));
    }
    if (total == 0) return;
    note([&] { at_once_.resize(total); });
    agree_so_far(*core_, "restore", own_error, true);
    struct Section {
      std::size_t begin = 0, end = 0;
    };
    std::vector<Section> parts(ranks_);  // of `at_once_`, by the reading rank
    std::size_t at = 0;
    for (std::size_t group = 0; group < readers_->groups().size(); ++group) {
      auto const& ranks = readers_->groups()[group];
      std::size_t const begin = at, size = bytes_of_group[group];
      for (StoredArray& stored : stored_) {
        for (std::size_t i = 0; i < stored.slabs.size(); ++i) {
          Slab const& slab = stored.slabs[i];
          if (group_of(slab) != group) continue;
          stored.begins[i] = at;
          for (std::int64_t block = 0; block < slab.blocks; ++block) {
            std::size_t const bytes = blocks_.bytes(slab, block), reader = ranks[(at - begin) * ranks.size() / size];
            Section& part = parts[reader];
            if (part.end == 0) part.begin = at;
            part.end = at + bytes;
            if (reader == rank_) note([&] { blocks_.read(slab, block, std::span{at_once_}.subspan(at, bytes)); });
            at += bytes;
          }
        }
      }
    }
    agree_so_far(*core_, "restore", own_error, true);
    Lane<C>& lane = core_->dense;
    lane.clear();
    Section const mine = parts[rank_];
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      auto const other = static_cast<int>(rank);
      Section const theirs = parts[rank];
      if (rank == rank_) continue;
      if (mine.end > mine.begin) lane.send(other, mine.begin, mine.end - mine.begin, Payload::rows);
      if (theirs.end > theirs.begin) lane.expect(other, theirs.begin, theirs.end - theirs.begin, Payload::rows);
    }
    lane.post(at_once_.data(), at_once_.data());
    core_->waiting.drive("restore", [&] { return lane.test(); }, {lane, [] { return std::string{}; }});
  }
  // Local. Copies an array already read to `out`. Throws as `target`; any other error is told later.
  void copy(Item const& item, StoredArray const& stored, std::span<std::byte> out) {
    Target const target = this->target(item, stored, out);
    note([&] {
      for (std::size_t i = 0; i < stored.slabs.size(); ++i) {
        std::size_t at = stored.begins[i];
        stored.slabs[i].numbers.each_run(0, stored.slabs[i].rows, [&](RowNumbers::Run const& run) {
          auto const rows =
              std::span<std::byte const>{at_once_}.subspan(at, static_cast<std::size_t>(run.count) * target.row_bytes);
          place_run(target, run, rows);
          at += rows.size();
        });
      }
    });
    complete(target);
  }
  void place_run(Target const& target, RowNumbers::Run const& run, std::span<std::byte const> rows) {
    if (run.stride == 1) return place(target, run.first, rows);
    for (std::int64_t i = 0; i < run.count; ++i)
      place(target, run.first + i * run.stride, rows.subspan(static_cast<std::size_t>(i) * target.row_bytes, target.row_bytes));
  }

  // Collective, and waits. Reads an array by blocks, and brings their rows to `out` of their ranks. Each group of readers reads
  // its blocks, and each rank its part of them, one after the other. Throws as `target` and `deliver`.
  void fetch(Item const& item, StoredArray const& stored, std::span<std::byte> out) {
    Target const target = this->target(item, stored, out);
    if (target.row_bytes == 0) return;
    std::int64_t next = 0, end = 0, rounds = 0, before = 0;  // this rank's blocks; those of groups before
    for (std::size_t group = 0; group < readers_->groups().size(); ++group) {
      auto const& ranks = readers_->groups()[group];
      std::int64_t blocks = 0;
      for (Slab const& slab : stored.slabs) blocks += group_of(slab) == group ? slab.blocks : 0;
      auto const begin = [&](std::size_t i) {
        return before + static_cast<std::int64_t>(
                            part_begin(static_cast<std::size_t>(blocks), static_cast<int>(i), static_cast<int>(ranks.size())));
      };
      for (std::size_t i = 0; i < ranks.size(); ++i) {
        rounds = std::max(rounds, begin(i + 1) - begin(i));
        if (ranks[i] == rank_) next = begin(i), end = begin(i + 1);
      }
      before += blocks;
    }
    for (std::int64_t round = 0; round < rounds; ++round) {
      for (Bundle& bundle : bundles_) bundle.clear();
      if (next < end) note([&] { deal(target, stored.slabs, next++); });
      deliver(target);
    }
    complete(target);
  }

  // Local. Reads block `number` of all slabs, and puts its rows in their places: here, or into bundles. Throws FormatError.
  void deal(Target const& target, std::vector<Slab> const& slabs, std::int64_t number) {
    auto const slab = std::upper_bound(slabs.begin(), slabs.end(), number, [](std::int64_t block, Slab const& one) {
      return block < one.first_block + one.blocks;
    });
    number -= slab->first_block;
    auto const [first, count] = blocks_.rows_in(*slab, number);
    block_.resize(blocks_.bytes(*slab, number));
    auto const listed = blocks_.read(*slab, number, block_);
    std::size_t at = 0;  // in the block
    auto const one_by_one = [&](std::int64_t rows, auto&& number_of) {
      Going going{};
      for (std::int64_t i = 0; i < rows; ++i) {
        std::int64_t const row = number_of(i);
        if (row < 0 || row >= target.item->rows)
          throw FormatError(manifest_->path(),
                            joined({"row ", row, " of ", target.item->rows, " of ", shown(meaning_->key(*target.item))}));
        RowPlace const there = target.item->where(row);
        auto const rank = static_cast<std::size_t>(core_->topology.owner_rank(there.owner));
        if (going.count > 0 && (rank != going.rank || there.local != going.first + going.count)) at += send(target, going, at);
        if (going.count == 0) going = {rank, there.local, 0};
        ++going.count;
      }
      at += send(target, going, at);
    };
    auto const to_all = [&](std::int64_t row, std::int64_t rows) {
      std::size_t bytes = 0;
      for (std::size_t rank = 0; rank < ranks_; ++rank) {
        Going going{rank, row, rows};
        bytes = send(target, going, at);
      }
      at += bytes;
    };
    bool const part = target.item->share == Share::part;
    if (slab->numbers.listed()) {
      if (part) return one_by_one(count, [&](std::int64_t i) { return listed[static_cast<std::size_t>(i)]; });
      for (std::int64_t const row : listed) to_all(row, 1);
      return;
    }
    slab->numbers.each_run(first, count, [&](RowNumbers::Run const& run) {
      if (part) return one_by_one(run.count, [&](std::int64_t i) { return run.first + i * run.stride; });
      if (run.stride == 1) return to_all(run.first, run.count);
      for (std::int64_t i = 0; i < run.count; ++i) to_all(run.first + i * run.stride, 1);
    });
  }
  // Rows side by side in a block and at their rank.
  struct Going {
    std::size_t rank;
    std::int64_t first, count;
  };
  // Local. Puts the rows `going`, at byte `at` of the block, here or into a bundle. Returns their bytes; none are left to go.
  std::size_t send(Target const& target, Going& going, std::size_t at) {
    std::size_t const bytes = static_cast<std::size_t>(going.count) * target.row_bytes;
    auto const rows = std::span<std::byte const>{block_}.subspan(at, bytes);
    if (going.count > 0) {
      if (going.rank == rank_) place(target, going.first, rows);
      else bundles_[going.rank].add(going.first, going.count, rows);
    }
    going.count = 0;
    return bytes;
  }

  // Collective, and waits. Brings all bundles to their ranks, and puts the rows in their places. If a rank has an error all
  // throw it, and the session ends.
  void deliver(Target const& target) {
    auto& words = core_->rounds.words;
    words.assign(2 * ranks_ + 1, 0.0);
    words[2 * ranks_] = own_error ? 0.0 : 1.0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      words[2 * rank] = static_cast<double>(bundles_[rank].words.size());
      words[2 * rank + 1] = static_cast<double>(bundles_[rank].rows.size());
    }
    core_->rounds.tell_all("restore", [] { return std::string{}; });
    bool any = false, right = true;
    std::vector<std::uint64_t> offsets(ranks_), sizes(ranks_), expected(ranks_), numbers(ranks_);
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      auto const told = core_->rounds.told(static_cast<int>(rank));
      for (std::size_t to = 0; to < ranks_; ++to) any = any || told[2 * to] > 0;
      right = right && told[2 * ranks_] != 0;
      numbers[rank] = static_cast<std::uint64_t>(told[2 * rank_]);
      expected[rank] = 8 * numbers[rank] + static_cast<std::uint64_t>(told[2 * rank_ + 1]);
    }
    if (!right) agree_so_far(*core_, "restore", own_error, true);
    if (!any) return;
    out_.clear();
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      Bundle const& bundle = bundles_[rank];
      offsets[rank] = out_.size(), sizes[rank] = bundle.size();
      auto const places = std::as_bytes(std::span{bundle.words});
      out_.insert(out_.end(), places.begin(), places.end());
      out_.insert(out_.end(), bundle.rows.begin(), bundle.rows.end());
    }
    swap_bytes(*core_, "restore", out_, offsets, sizes, expected, in_);
    std::size_t at = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      if (rank == rank_) continue;
      note([&] { unpack(target, numbers[rank], std::span<std::byte const>{in_}.subspan(at, expected[rank])); });
      at += static_cast<std::size_t>(expected[rank]);
    }
  }
  // Local. Puts the rows of a bundle that came as `bytes`, `words` words first, in their places. Throws as `place`.
  void unpack(Target const& target, std::size_t words, std::span<std::byte const> bytes) {
    auto rows = bytes.subspan(8 * words);
    auto const word = [&](std::size_t i) {
      std::int64_t value;
      std::memcpy(&value, bytes.data() + 8 * i, 8);
      return value;
    };
    for (std::size_t i = 0; i < words; ++i) {
      std::int64_t const first = word(i), count = first < 0 ? -first : 1;
      std::size_t const size = static_cast<std::size_t>(count) * target.row_bytes;
      place(target, first < 0 ? word(++i) : first, rows.first(size));
      rows = rows.subspan(size);
    }
  }

  SessionCore<C>* core_;
  Generation const* manifest_;
  Readers const* readers_;
  Meaning const* meaning_;
  BlockReader blocks_;
  std::vector<std::string> alike_;
  std::size_t next_ = 0, read_ = 0;  // of `alike_`: the next to be shown; the first unread one
  std::vector<StoredArray> stored_;  // those before `read_`
  std::vector<std::byte> at_once_;   // their bytes
  std::size_t ranks_, rank_;
  OwnItems own_;
  std::vector<Bundle> bundles_;  // by rank
  std::vector<std::byte> block_, out_, in_, list_;
  RowsSeen seen_;
};

}  // namespace parallax::detail
