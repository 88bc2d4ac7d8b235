// The generation restored by all ranks, the readers of its files, and ranks' own items read for others: ranks need not see the
// same folder. `Session::restore` calls `find_for_all`.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallax/detail/checkpoint/blocks.hpp"
#include "parallax/detail/checkpoint/common.hpp"
#include "parallax/detail/checkpoint/find_generation.hpp"
#include "parallax/detail/transfer/dense.hpp"

namespace parallax::inline v0_2::detail {

// The readers of each file of a generation: ranks that see the same files read those together. Equal on all ranks.
class Readers {
 public:
  // Makes one group of readers, for `ranks` ranks that all see all of `files` files.
  Readers(std::size_t ranks, std::size_t files) : group_of_file_(files, 0), groups_(1) {
    for (std::size_t rank = 0; rank < ranks; ++rank) groups_[0].push_back(rank);
  }
  // Makes groups by seen[r][f], not 0 if rank r sees file f: the first rank that sees a file reads it, with all of equal sight.
  explicit Readers(std::vector<std::vector<std::byte>> seen) : seen_{std::move(seen)} {
    std::vector<std::size_t> group_of_rank(seen_.size(), none);
    for (std::size_t file = 0; file < seen_[0].size(); ++file) {
      std::size_t const first = first_reader(file);
      if (first == none) {
        group_of_file_.push_back(none);
        continue;
      }
      if (group_of_rank[first] == none) {
        std::vector<std::size_t> group;
        for (std::size_t rank = first; rank < seen_.size(); ++rank)
          if (seen_[rank] == seen_[first]) group.push_back(rank), group_of_rank[rank] = groups_.size();
        groups_.push_back(std::move(group));
      }
      group_of_file_.push_back(group_of_rank[first]);
    }
  }

  // Returns the groups of readers, each a list of ranks. `group_of`: number of a file's group; `none` if no rank sees the file.
  std::vector<std::vector<std::size_t>> const& groups() const { return groups_; }
  std::size_t group_of(std::size_t file) const { return group_of_file_[file]; }
  // Returns true if a rank sees a file.
  bool sees(std::size_t rank, std::size_t file) const { return seen_.empty() || seen_[rank][file] != std::byte{}; }
  // Returns the first rank that sees a file; `none` if no rank does.
  std::size_t first_reader(std::size_t file) const {
    for (std::size_t rank = 0; rank < seen_.size(); ++rank)
      if (sees(rank, file)) return rank;
    return seen_.empty() ? 0 : none;
  }
  static constexpr std::size_t none = std::numeric_limits<std::size_t>::max();

 private:
  std::vector<std::vector<std::byte>> seen_;  // empty: all
  std::vector<std::size_t> group_of_file_;
  std::vector<std::vector<std::size_t>> groups_;
};

// The generation for all ranks to restore. Owns its manifest.
struct ReadableGeneration {
  Generation manifest;
  Readers readers;
  std::vector<std::string> passed_over{};  // reasons for passing over newer ones
};

// The work of `find_for_all`. Refers to the core and to the folder's name.
template <Communicator C>
class GenerationFinder {
 public:
  GenerationFinder(SessionCore<C>& core, std::string const& directory, std::int64_t wanted, bool whole)
      : core_{&core}, directory_{&directory}, wanted_{wanted}, whole_{whole}, rank_{core.topology.rank()} {}

  ReadableGeneration find() {
    on_all(*core_, "restore", [&] {
      if (wanted_ == 0) mine_ = generations_in(*directory_);
    });
    PassedOver passed;
    std::vector<std::string> passed_over;
    for (std::int64_t below = most_generations; next(below); below = number_) {
      std::string why;
      if (auto found = look(why); found && (!whole_ || is_whole(*found, why))) {
        found->passed_over = std::move(passed_over);
        return std::move(*found);
      }
      passed.add(why);
      passed_over.push_back(std::move(why));
    }
    auto const error = caught(rank_, "restore", [&] { passed.fail(*directory_); });
    agree_so_far(*core_, "restore", error);
    throw Error{*error};
  }

 private:
  // Collective, and waits. Finds the newest generation below the number `below` on any rank, or the wanted one, and the ranks
  // that see the same manifest as the first of these. Returns false if there is none.
  bool next(std::int64_t below) {
    auto const at = std::find_if(mine_.begin(), mine_.end(), [&](std::int64_t number) { return number < below; });
    std::int64_t const newest = wanted_ > 0 ? wanted_ : at == mine_.end() ? 0 : *at;
    std::uint64_t tag = 0;
    on_all(*core_, "restore", [&] {
      if (newest > 0) tag = manifest_tag(*directory_, newest);
    });
    double const word = wanted_ > 0 ? 1.0 : static_cast<double>(newest);  // any number may be wanted
    told_by_all(*core_, "restore", {word, static_cast<double>(tag >> 32), static_cast<double>(tag & 0xffff'ffffu)});
    double most = 0;
    for (int rank = 0; rank < core_->topology.size(); ++rank) most = std::max(most, core_->rounds.told(rank)[0]);
    number_ = wanted_ > 0 ? wanted_ : static_cast<std::int64_t>(most);
    // The first rank that sees its manifest leads, else the first that sees the generation.
    leader_ = -1;
    auto const told = [&](int rank) { return core_->rounds.told(rank); };
    auto const sees = [&](int rank) { return told(rank)[0] == most; };
    auto const has = [&](int rank) { return sees(rank) && (told(rank)[1] != 0 || told(rank)[2] != 0); };
    for (int rank = core_->topology.size() - 1; rank >= 0; --rank)
      if (has(rank) || (sees(rank) && (leader_ < 0 || !has(leader_)))) leader_ = rank;
    all_see_ = true, sees_ = false;
    for (int rank = 0; number_ > 0 && rank < core_->topology.size(); ++rank) {
      bool const alike = sees(rank) && told(rank)[1] == told(leader_)[1] && told(rank)[2] == told(leader_)[2];
      all_see_ = all_see_ && alike;
      if (rank == rank_) sees_ = alike;
    }
    return number_ > 0;
  }

  // Collective, and waits. Returns the present generation; nothing, with the reason in `why`, if it is passed over. Throws
  // Refused of other errors, after which the session goes on.
  std::optional<ReadableGeneration> look(std::string& why) {
    std::optional<Generation> manifest;
    on_all(*core_, "restore", [&] {
      if (rank_ != leader_) return;
      auto read = unless_passed(wanted_ > 0, why, [&] {
        Generation opened = open_generation(*directory_, number_);
        if (in_one_folder(opened)) check_shards(opened, *directory_);
        return opened;
      });
      if (read) manifest.emplace(std::move(*read));
    });
    bool const passed = told_by_all(*core_, "restore", {manifest ? 1.0 : 0.0})[static_cast<std::size_t>(leader_)] == 0;
    auto told = gathered_bytes(*core_, "restore",
                               manifest ? std::span{std::as_const(*manifest).bytes()} : std::as_bytes(std::span{why}), true);
    std::vector<std::byte>& leaders = told[static_cast<std::size_t>(leader_)];
    if (passed) {
      why.assign(reinterpret_cast<char const*>(leaders.data()), leaders.size());
      return std::nullopt;
    }
    on_all(*core_, "restore", [&] {
      if (!manifest) manifest.emplace(std::move(leaders), *directory_ + "/" + generation_name(number_));
    });
    if (!in_one_folder(*manifest)) return apart(std::move(*manifest), why);
    Readers all{static_cast<std::size_t>(core_->topology.size()), manifest->shards().size()};
    return ReadableGeneration{std::move(*manifest), std::move(all)};
  }

  // Returns true, alike on all ranks, if all of them see all files in one folder.
  bool in_one_folder(Generation const& manifest) const { return all_see_ && manifest.facts().homes.empty(); }

  // Collective, and waits. Finds the files that each rank sees; each has to be seen by one. Returns, and throws, as `look`.
  std::optional<ReadableGeneration> apart(Generation&& manifest, std::string& why) {
    std::vector<std::byte> seen(manifest.shards().size());
    on_all(*core_, "restore", [&] {
      for (std::size_t file = 0; sees_ && file < seen.size(); ++file) {
        std::string other;
        bool const there =
            unless_passed(false, other, [&] { return check_shard(manifest, *directory_, file), true; }).has_value();
        seen[file] = static_cast<std::byte>(there);
      }
    });
    Readers readers{gathered_bytes(*core_, "restore", seen, true)};
    for (std::size_t file = 0; file < seen.size(); ++file) {
      if (readers.group_of(file) != Readers::none) continue;
      on_all(*core_, "restore", [&] {
        FormatError const none{*directory_ + "/" + generation_name(number_) + "/" + shard_name(static_cast<int>(file)),
                               "no rank sees it as it was written"};
        if (wanted_ > 0) throw none;
        why = none.what();
      });
      return std::nullopt;
    }
    return ReadableGeneration{std::move(manifest), std::move(readers)};
  }

  // Collective, and waits. Returns true if every block of every file is as it was written, else false with the reason in `why`.
  // Each rank reads a part of the blocks in its sight. Throws Refused for a wanted generation that is not whole.
  bool is_whole(ReadableGeneration const& found, std::string& why) {
    std::string damage;
    on_all(*core_, "restore", [&] {
      try {
        read_part(found);
      } catch (FileError const& failed) {
        if (failed.code() != EIO) throw;
        damage = failed.what();
      } catch (FormatError const& failed) {
        damage = failed.what();
      }
    });
    for (auto const& told : gathered_bytes(*core_, "restore", std::as_bytes(std::span{damage}), true)) {
      if (told.empty()) continue;
      why.assign(reinterpret_cast<char const*>(told.data()), told.size());
      break;
    }
    if (why.empty()) return true;
    if (wanted_ == 0) return false;
    throw Refused{{Errc::file, rank_, "restore", "", why}};
  }
  // Local. Reads this rank's part of the blocks. Throws FormatError of a damaged block, and FileError.
  void read_part(ReadableGeneration const& found) const {
    auto const rank = static_cast<std::size_t>(rank_);
    BlockReader blocks{found.manifest, *directory_ + "/" + generation_name(found.manifest.facts().number)};
    auto const each_slab = [&](auto&& f) {
      for (std::size_t file = 0; file < found.manifest.shards().size(); ++file) {
        auto const& readers = found.readers.groups()[found.readers.group_of(file)];
        auto const at = std::find(readers.begin(), readers.end(), rank);
        ShardFile const& shard = found.manifest.shards()[file];
        for (std::size_t tensor = 0; at != readers.end() && tensor < shard.header().size(); ++tensor)
          if (!shard.is_list(tensor)) f(blocks.slab(file, tensor), at - readers.begin(), readers.size());
      }
    };
    std::int64_t all = 0, number = 0;
    each_slab([&](Slab const& slab, std::ptrdiff_t, std::size_t) { all += slab.blocks; });
    std::vector<std::byte> rows;
    each_slab([&](Slab const& slab, std::ptrdiff_t at, std::size_t of) {
      auto const begin = [&](std::ptrdiff_t part) {
        return static_cast<std::int64_t>(
            part_begin(static_cast<std::size_t>(all), static_cast<int>(part), static_cast<int>(of)));
      };
      for (std::int64_t block = 0; block < slab.blocks; ++block, ++number) {
        if (number < begin(at) || number >= begin(at + 1)) continue;
        rows.resize(blocks.bytes(slab, block));
        blocks.read(slab, block, rows);
      }
    });
  }

  SessionCore<C>* core_;
  std::string const* directory_;
  std::int64_t wanted_;
  bool whole_;
  int rank_;
  std::vector<std::int64_t> mine_;     // the generations seen by this rank, from the newest on
  std::int64_t number_ = 0;            // the present one
  int leader_ = 0;                     // the reader of its manifest
  bool all_see_ = true, sees_ = true;  // its manifest: all ranks, and this one
};

// Collective, and waits. Returns the generation `wanted`, or for 0 the newest with every file seen by a rank, the same on all
// ranks. With `whole` each block is as it was written. Throws Refused (file) if there is none, after which the session goes on.
template <Communicator C>
ReadableGeneration find_for_all(SessionCore<C>& core, std::string const& directory, std::int64_t wanted, bool whole) {
  return GenerationFinder<C>{core, directory, wanted, whole}.find();
}

// Items of ranks' own, for ranks that do not see their own files: the first rank that sees a file reads it for them. A restore
// on as many ranks brings it before it shows any item. Refers to the generation. Members but `any_apart` and the constructor
// need as many files as ranks.
class OwnItems {
 public:
  OwnItems(ReadableGeneration const& generation, std::size_t ranks, std::size_t rank)
      : manifest_{&generation.manifest}, readers_{&generation.readers}, ranks_{ranks}, rank_{rank} {}

  // Returns true, alike on all ranks, if a rank does not see its own file.
  bool any_apart() const {
    for (std::size_t rank = 0; rank < ranks_; ++rank)
      if (!readers_->sees(rank, rank)) return true;
    return false;
  }
  // Local. Reads other ranks' items for them, and keeps them for `exchange`. Throws FormatError of damage, and FileError.
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
  // Collective, and waits, after `collect`. Brings the items to their ranks, which keep them for `read`.
  template <Communicator C>
  void exchange(SessionCore<C>& core) {
    std::vector<std::uint64_t> expected(ranks_);
    brought_ = !readers_->sees(rank_, rank_);
    if (brought_) each(rank_, [&](std::size_t, std::size_t bytes) { expected[readers_->first_reader(rank_)] += bytes; });
    swap_bytes(core, "restore", for_others_, offsets_, sizes_, expected, mine_);
    for_others_ = {};
  }
  // Local. Fills `bytes` with all of tensor `tensor`, an own item of this rank's file. Throws FormatError, and FileError.
  void read(BlockReader& blocks, std::size_t tensor, std::span<std::byte> bytes) const {
    if (!brought_) return read_file(blocks, rank_, tensor, bytes);
    std::size_t begin = 0;
    each(rank_, [&](std::size_t other, std::size_t size) { begin += other < tensor ? size : 0; });
    if (!bytes.empty()) std::memcpy(bytes.data(), mine_.data() + begin, bytes.size());
  }

 private:
  // Calls f(number of the tensor, number of its bytes) for each own item in the file of a rank.
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
