// `Session::restore`: ranks read a generation, a part of each array each, and its rows go to who holds them now. The session calls
// `CheckpointWork::run`.
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

#include "parallax/checkpoint/common.hpp"
#include "parallax/checkpoint/found.hpp"
#include "parallax/comm/transfer/dense.hpp"

namespace parallax::detail {

// The second look, an archive that all ranks show the same items: arrays are read together, each by all ranks.
template <Communicator C>
class Restoring {
 public:
  static constexpr bool reads = true, whole = true;

  Restoring(SessionCore<C>& core, std::string folder, Generation const& manifest, Meaning const& meaning)
      : core_{&core},
        folder_{std::move(folder)},
        manifest_{&manifest},
        meaning_{&meaning},
        ranks_{static_cast<std::size_t>(core.topology.size())},
        rank_{static_cast<std::size_t>(core.topology.rank())},
        parcels_(ranks_) {}

  void item(Item const& item, std::span<std::byte> bytes) {
    if (meaning_->left_out(item.variable) || !meaning_->applies(item)) return;
    if (item.list && item.count < item.rows) return piece(item, bytes);
    std::string const key = meaning_->key(item);
    safetensors::Tensor tensor;
    if (auto const* const small = manifest_->small(key, tensor)) {
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
      auto const found = caught(static_cast<int>(rank_), "restore", [&] { read_own(item, key, bytes); });
      if (found && !own_error) own_error = found;
    } else {
      fetch(item, key, bytes);
    }
  }

  // What this rank found wrong in its own file, for the agreement at the end: what all ranks do does not depend on it.
  std::optional<Error> own_error;

 private:
  // The rows of an array that a file has.
  struct Piece {
    std::size_t shard, tensor;
    RowNumbers numbers;
    std::int64_t blocks, first_block;  // among those of all pieces
  };
  // Rows on their way to a rank: where they belong there, and what they are.
  struct Parcel {
    std::vector<std::int64_t> places;
    std::vector<std::byte> rows;
  };

  // A long list is shown in pieces, one after the other, and read as a whole.
  void piece(Item const& item, std::span<std::byte> bytes) {
    std::size_t const row_bytes = static_cast<std::size_t>(item.width) * item.type.bytes;
    auto const first = static_cast<std::size_t>(item.row(0)) * row_bytes;
    if (first == 0) {
      list_.assign(static_cast<std::size_t>(item.rows) * row_bytes, std::byte{});
      Item all = item;
      all.count = item.rows;
      this->item(all, list_);
    }
    std::memcpy(bytes.data(), list_.data() + first, bytes.size());
  }

  // Not collective: this rank's own file has it.
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
    ReadFile const& file = opened(rank_);
    auto const row_bytes = static_cast<std::size_t>(shard.row_bytes(at));
    auto const in_block = static_cast<std::size_t>(rows_of_block(row_bytes, manifest_->facts().block_bytes)) * row_bytes;
    std::int64_t sum = shard.first_sum(at);
    for (std::size_t begin = 0; begin < bytes.size(); begin += in_block, ++sum) {
      auto const block = bytes.subspan(begin, std::min(in_block, bytes.size() - begin));
      file.read(tensor.begin + begin, block);
      if (block_sum(block, {}) != manifest_->sum(rank_, sum)) damaged(file, tensor.name, tensor.begin + begin, block.size());
    }
  }

  // Collective. Reads an array by blocks, one after the other by each rank of its part of all of them, and deals their rows.
  void fetch(Item const& item, std::string const& key, std::span<std::byte> out) {
    auto const row_bytes = static_cast<std::size_t>(item.width) * item.type.bytes;
    std::vector<Piece> pieces;
    std::int64_t blocks = 0, wanted = 0;
    std::optional<Error> error = caught(static_cast<int>(rank_), "restore", [&] {
      for (std::size_t shard = 0; shard < manifest_->shards().size(); ++shard) {
        ShardFile const& file = manifest_->shards()[shard];
        std::size_t const at = file.header().find(key);
        if (at == file.header().size()) continue;
        std::int64_t rows = 0;
        RowNumbers numbers = file.numbers(at, rows, manifest_->path());
        if (file.row_bytes(at) != row_bytes || rows != item.rows)
          throw item_error(item.variable, item.name, "the files of the checkpoint have it in several shapes");
        std::int64_t const here = blocks_of(file.rows(at), row_bytes, manifest_->facts().block_bytes);
        pieces.push_back({shard, at, std::move(numbers), here, blocks});
        blocks += here, wanted += file.rows(at);
      }
      if (wanted != item.rows && row_bytes > 0 && !(item.list && pieces.empty()))
        throw item_error(item.variable, item.name, joined({"the checkpoint has ", wanted, " of its ", item.rows, " rows"}));
    });
    if (error) throw Error{*error};  // on all ranks, for all have the same manifest
    auto const begin = [&](std::size_t rank) {
      return static_cast<std::int64_t>(
          part_begin(static_cast<std::size_t>(blocks), static_cast<int>(rank), static_cast<int>(ranks_)));
    };
    std::int64_t next = begin(rank_), rounds = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) rounds = std::max(rounds, begin(rank + 1) - begin(rank));
    std::int64_t arrived = 0;
    auto const place = [&](std::int64_t local, std::span<std::byte const> row) {
      if (local < 0 || static_cast<std::size_t>(local) >= out.size() / row_bytes)
        throw FormatError(manifest_->path(), joined({"row ", local, " of ", shown(key), " is none of this rank's"}));
      std::memcpy(out.data() + static_cast<std::size_t>(local) * row_bytes, row.data(), row_bytes);
      ++arrived;
    };
    for (std::int64_t round = 0; round < rounds; ++round) {
      for (Parcel& parcel : parcels_) parcel.places.clear(), parcel.rows.clear();
      if (!error && next < begin(rank_ + 1))
        error = caught(static_cast<int>(rank_), "restore", [&] { deal(item, pieces, next++, row_bytes, place); });
      deliver(row_bytes, error, place);
    }
    if (!error && static_cast<std::size_t>(arrived) * row_bytes != out.size() && row_bytes > 0)
      error = Error{Errc::file, static_cast<int>(rank_), "restore", item.variable,
                    joined({"item '", item.name, "': ", arrived, " rows of ", out.size() / row_bytes, " have come"})};
    agree_so_far(*core_, "restore", error, true);
  }

  // Local. Reads a block, and puts its rows where they belong: here, or into parcels.
  template <class Place>
  void deal(Item const& item, std::vector<Piece> const& pieces, std::int64_t block, std::size_t row_bytes, Place const& place) {
    auto const piece = std::upper_bound(pieces.begin(), pieces.end(), block, [](std::int64_t number, Piece const& one) {
      return number < one.first_block + one.blocks;
    });
    ShardFile const& shard = manifest_->shards()[piece->shard];
    safetensors::Tensor const tensor = shard.header().tensor(piece->tensor);
    ReadFile const& file = opened(piece->shard);
    std::int64_t const number = block - piece->first_block;
    std::int64_t const in_block = rows_of_block(row_bytes, manifest_->facts().block_bytes);
    std::int64_t const first = number * in_block, count = std::min(in_block, shard.rows(piece->tensor) - first);
    block_.resize(static_cast<std::size_t>(count) * row_bytes);
    numbers_.resize(static_cast<std::size_t>(count));
    std::uint64_t const at = tensor.begin + static_cast<std::uint64_t>(first) * row_bytes;
    file.read(at, block_);
    bool const listed = piece->numbers.listed();
    if (listed) {
      std::size_t const list = shard.header().find(ShardFile::list_of(tensor.name));
      if (list == shard.header().size() || shard.rows(list) != shard.rows(piece->tensor) || shard.row_bytes(list) != 8)
        throw FormatError(file.path(), "tensor " + shown(tensor.name) + ": there is no list of its rows");
      file.read(shard.header().tensor(list).begin + static_cast<std::uint64_t>(first) * 8,
                std::as_writable_bytes(std::span{numbers_}));
    } else {
      piece->numbers.numbers(first, numbers_);
    }
    std::span<std::int64_t const> const numbers{numbers_};
    if (block_sum(block_, listed ? numbers : std::span<std::int64_t const>{}) !=
        manifest_->sum(piece->shard, shard.first_sum(piece->tensor) + number))
      damaged(file, tensor.name, at, block_.size());
    for (std::size_t i = 0; i < numbers.size(); ++i) {
      std::span<std::byte const> const row{block_.data() + i * row_bytes, row_bytes};
      if (numbers[i] < 0 || numbers[i] >= item.rows)
        throw FormatError(file.path(), joined({"tensor ", shown(tensor.name), ": row ", numbers[i], " of ", item.rows}));
      auto const send = [&](std::size_t rank, std::int64_t local) {
        if (rank == rank_) return place(local, row);
        parcels_[rank].places.push_back(local);
        parcels_[rank].rows.insert(parcels_[rank].rows.end(), row.begin(), row.end());
      };
      if (item.share == Share::part) {
        RowPlace const there = item.where(numbers[i]);
        send(static_cast<std::size_t>(core_->topology.owner_rank(there.owner)), there.local);
      } else {
        for (std::size_t rank = 0; rank < ranks_; ++rank) send(rank, numbers[i]);
      }
    }
  }

  // Collective. All parcels go to their ranks, which put the rows where they belong. `error`: this rank's; where any has one all
  // throw it, and the session ends.
  template <class Place>
  void deliver(std::size_t row_bytes, std::optional<Error>& error, Place const& place) {
    auto& words = core_->rounds.words;
    words.assign(ranks_ + 1, 0.0);
    words[ranks_] = error ? 0.0 : 1.0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) words[rank] = static_cast<double>(parcels_[rank].places.size());
    core_->rounds.tell_all("restore", [] { return std::string{}; });
    bool any = false, right = true;
    std::vector<std::uint64_t> offsets(ranks_), sizes(ranks_), expected(ranks_);
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      auto const told = core_->rounds.told(static_cast<int>(rank));
      for (std::size_t to = 0; to < ranks_; ++to) any = any || told[to] > 0;
      right = right && told[ranks_] != 0;
      expected[rank] = static_cast<std::uint64_t>(told[rank_]) * (8 + row_bytes);
    }
    if (!right) agree_so_far(*core_, "restore", error, true);
    if (!any) return;
    out_.clear();
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      Parcel const& parcel = parcels_[rank];
      offsets[rank] = out_.size(), sizes[rank] = parcel.places.size() * (8 + row_bytes);
      auto const places = std::as_bytes(std::span{parcel.places});
      out_.insert(out_.end(), places.begin(), places.end());
      out_.insert(out_.end(), parcel.rows.begin(), parcel.rows.end());
    }
    swap_bytes(*core_, "restore", out_, offsets, sizes, expected, in_);
    std::size_t at = 0;
    for (std::size_t rank = 0; rank < ranks_; ++rank) {
      if (rank == rank_) continue;
      std::size_t const count = static_cast<std::size_t>(expected[rank]) / (8 + row_bytes);
      auto const taken = caught(static_cast<int>(rank_), "restore", [&] {
        for (std::size_t i = 0; i < count; ++i) {
          std::int64_t local;
          std::memcpy(&local, in_.data() + at + 8 * i, 8);
          place(local, std::span<std::byte const>{in_.data() + at + 8 * count + i * row_bytes, row_bytes});
        }
      });
      if (taken && !error) error = taken;
      at += static_cast<std::size_t>(expected[rank]);
    }
  }

  // A rank's file, whose beginning is compared with what the manifest knows of it.
  ReadFile const& opened(std::size_t shard) {
    if (file_ && opened_ == shard) return *file_;
    file_.reset();
    file_.emplace(folder_ + "/" + shard_name(static_cast<int>(shard)));
    opened_ = shard;
    auto const text = manifest_->shards()[shard].text();
    std::vector<std::byte> there(text.size());
    file_->read(0, there);
    if (std::memcmp(there.data(), text.data(), text.size()) != 0)
      throw FormatError(file_->path(), "its header is not that which was written with this generation");
    return *file_;
  }
  [[noreturn]] static void damaged(ReadFile const& file, std::string_view tensor, std::uint64_t at, std::size_t bytes) {
    throw FormatError(file.path(), joined({"tensor ", shown(tensor), ": the checksum of ", bytes, " bytes from byte ", at,
                                           " on is wrong: they are damaged"}));
  }

  SessionCore<C>* core_;
  std::string folder_;
  Generation const* manifest_;
  Meaning const* meaning_;
  std::size_t ranks_, rank_;
  std::vector<Parcel> parcels_;  // by rank
  std::vector<std::byte> block_, out_, in_, list_;
  std::vector<std::int64_t> numbers_;
  std::optional<ReadFile> file_;
  std::size_t opened_ = 0;
};

// The work of `Session::restore`.
template <>
struct CheckpointWork<Operation::restore> {
  // Collective. Called by the session.
  template <class S, class... Things>
  static Restored run(S& session, std::string const& directory, RestoreOptions const& options, Things&... things) {
    if constexpr (check_saved<Things...>())
      return session.core().waiting.guarded("restore", [&] { return restore(session.core(), directory, options, things...); });
    else return {};
  }

 private:
  template <Communicator C, class... Things>
  static Restored restore(SessionCore<C>& core, std::string const& directory, RestoreOptions const& options,
                          Things&... things) {
    int const rank = core.topology.rank();
    std::string text =
        joined({"restore from '", directory, "', generation ", options.generation, options.partial ? ", partial" : ""});
    for (auto const& [now, then] : options.names) append(text, {", '", now, "' there '", then, "'"});
    begin_checkpoint(core, Operation::restore, text, [&] {
      if (options.generation < 0)
        throw Error{Errc::invalid_argument, rank, "restore", "", joined({"there is no generation ", options.generation})};
      if (!(options.at_most > 0)) throw Error{Errc::invalid_argument, rank, "restore", "", "at_most is a time"};
      if (directory.empty()) throw Error{Errc::invalid_argument, rank, "restore", "", "the folder has no name"};
      check_things(core, "restore", options.partial, things...);
    });
    core.settle_behind("restore");
    core.waiting.allow(patience(options.at_most));

    // Rank 0 finds the generation, and tells all of it.
    std::optional<Generation> manifest;
    std::optional<Error> error = caught(rank, "restore", [&] {
      if (rank == 0) manifest.emplace(find_generation(directory, options.generation));
    });
    agree_so_far(core, "restore", error);
    auto told = gathered_bytes(core, "restore", manifest ? std::span{manifest->bytes()} : std::span<std::byte const>{}, true);
    std::vector<std::string> lost;
    std::vector<int> hosts;
    for (int const host : core.topology.hosts()) hosts.push_back(host);
    std::optional<Meaning> meaning;
    error = caught(rank, "restore", [&] {
      if (!manifest) manifest.emplace(std::move(told[0]), directory);
      meaning.emplace(*manifest, options, hosts, core.registry.variables());
      RestoreCheck check{*manifest, *meaning};
      visit_things(core, check, things...);
      lost = std::move(check.lost);
    });
    agree_so_far(core, "restore", error);

    // From here on what fails ends the session.
    Restoring<C> restoring{core, directory + "/" + generation_name(manifest->facts().number), *manifest, *meaning};
    visit_things(core, restoring, things...);
    auto const began = [&](auto& thing) {  // a search goes on by this session's clock
      if constexpr (requires { thing.state().step_began; }) thing.state().step_began = core.waiting.seconds();
    };
    (began(things), ...);
    agree_so_far(core, "restore", restoring.own_error, true);
    return {manifest->facts().number, manifest->facts().step, std::move(lost)};
  }
};

}  // namespace parallax::detail
