// `Session::save`: every rank writes what it holds, and rank 0 makes a generation of it. The session calls `run` of CheckpointWork.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallax/checkpoint/common.hpp"
#include "parallax/comm/transfer/dense.hpp"

namespace parallax::detail {

// The first look at what is saved, an archive: which tensors this rank's file will have, which of their rows, and the small items.
// Of what all ranks have alike, each writes a part.
class SavePlan {
 public:
  static constexpr bool reads = false;

  // An item of this rank's file.
  struct Part {
    std::string key;
    ElementType type;
    std::int64_t rows, width;   // of the whole item
    std::int64_t first, count;  // of what all ranks have alike: the part that is written here; else 0 and all rows here
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
    // Rows of replicas may be as of another step on each rank: one rank's are kept of each row, of all arrays beside it.
    if (alike && (item.list || item.rows <= 1) && size <= most_small_bytes) {
      if (!next) small_.push_back({std::move(key), item.type, item.rows, item.width, {}});
      small_.back().bytes.insert(small_.back().bytes.end(), bytes.begin(), bytes.end());
      if (small_.back().bytes.size() > size) throw item_error(item.variable, item.name, "it is shown twice");
      return;
    }
    if (!next) {
      Part part{std::move(key), item.type, item.rows, item.width, 0, 0, own, {}};
      if (alike) {
        auto const rows = static_cast<std::size_t>(item.rows);
        bool const split = rows > 1;  // else it is rank 0's, as what is in the manifest
        part.first = split ? static_cast<std::int64_t>(part_begin(rows, rank_, ranks_)) : 0;
        part.count = split        ? static_cast<std::int64_t>(part_begin(rows, rank_ + 1, ranks_)) - part.first
                     : rank_ == 0 ? item.rows
                                  : 0;
        for (std::int64_t i = 0; i < part.count; ++i) part.numbers.add(part.first + i);
      }
      parts_.push_back(std::move(part));
    }
    if (alike) return;
    parts_.back().count += item.count;
    for (std::int64_t i = 0; i < item.count; ++i) parts_.back().numbers.add(item.row(i));
  }

  std::vector<Part>& parts() { return parts_; }
  std::vector<SmallItem> const& small() const { return small_; }

 private:
  int rank_, ranks_;
  std::string last_;
  std::vector<Part> parts_;
  std::vector<SmallItem> small_;
};

// The second look, an archive as well: writes the file that was planned, from the memory where the items are, and takes checksums on
// the way.
class ShardWriter {
 public:
  static constexpr bool reads = false;

  // Creates the file. `plan` outlives this. Throws FileError.
  ShardWriter(std::string path, SavePlan& plan, std::uint64_t id, std::int64_t block_bytes)
      : plan_{&plan}, block_bytes_{block_bytes}, writer_{std::move(path), specs(plan), metadata(plan, id)} {
    auto const text = writer_.layout().header();
    shard_.text.resize(text.size());
    std::memcpy(shard_.text.data(), text.data(), text.size());
    shard_.size = writer_.layout().file_size();
    ShardFile const parsed{shard_.text, shard_.size, block_bytes, "shard"};
    shard_.sums.resize(static_cast<std::size_t>(parsed.first_sum(parsed.header().size())));
    for (SavePlan::Part const& part : plan.parts())
      first_sums_.push_back(static_cast<std::size_t>(parsed.first_sum(parsed.header().find(part.key))));
    for (SavePlan::Part const& part : plan.parts())
      if (part.numbers.listed()) writer_.write(part.list, 0, std::as_bytes(part.numbers.list()));
  }

  void item(Item const& item, std::span<std::byte const> bytes) {
    bool const own = item.share == Share::own;
    if (at_ < plan_->parts().size() && started_ && !is(plan_->parts()[at_], item, own)) ++at_, started_ = false, rows_seen_ = 0;
    if (at_ == plan_->parts().size() || !is(plan_->parts()[at_], item, own)) return;  // a small one
    started_ = true;
    SavePlan::Part const& part = plan_->parts()[at_];
    auto const row_bytes = static_cast<std::size_t>(item.width) * item.type.bytes;
    std::int64_t const from = std::clamp<std::int64_t>(part.first - rows_seen_, 0, item.count);
    std::int64_t const to = std::clamp<std::int64_t>(part.first + part.count - rows_seen_, from, item.count);
    std::int64_t const place = std::max<std::int64_t>(rows_seen_ - part.first, 0);
    rows_seen_ += item.count;
    bytes = bytes.subspan(static_cast<std::size_t>(from) * row_bytes, static_cast<std::size_t>(to - from) * row_bytes);
    if (bytes.empty()) return;
    writer_.write(part.tensor, static_cast<std::uint64_t>(place) * row_bytes, bytes);
    sum(part, place, bytes, row_bytes);
  }

  // Brings the file to the disk, under its name.
  void finish() { writer_.finish(); }
  // What the manifest says of it.
  WrittenShard& shard() { return shard_; }

 private:
  static bool is(SavePlan::Part const& part, Item const& item, bool own) {
    return part.own == own && part.key == key_of(item.variable, item.name, own);
  }
  static std::vector<safetensors::Spec> specs(SavePlan& plan) {
    std::vector<safetensors::Spec> specs;
    for (SavePlan::Part& part : plan.parts()) {
      part.tensor = specs.size();
      specs.push_back({part.key, dtype_of(part.type), shape_of(part.type, part.count, part.width)});
      if (!part.numbers.listed()) continue;
      part.list = specs.size();
      specs.push_back({ShardFile::list_of(part.key), safetensors::Dtype::i64, {static_cast<std::uint64_t>(part.count), 1}});
    }
    return specs;
  }
  static safetensors::Metadata metadata(SavePlan& plan, std::uint64_t id) {
    safetensors::Metadata metadata{{"format", "parallax shard"}, {"id", std::to_string(id)}};
    for (SavePlan::Part const& part : plan.parts())
      if (!part.own) metadata.emplace_back(part.key, part.numbers.text(part.rows));
    return metadata;
  }
  // Checksums of rows from number `place` of the file's tensor on: of whole blocks where they lie, of what is left in `rest_`.
  void sum(SavePlan::Part const& part, std::int64_t place, std::span<std::byte const> bytes, std::size_t row_bytes) {
    std::int64_t const in_block = rows_of_block(row_bytes, block_bytes_);
    if (place == 0) rest_.clear();
    while (!bytes.empty()) {
      std::int64_t const block = place / in_block;
      std::int64_t const here = std::min(in_block, part.count - block * in_block);
      std::size_t const wanted = static_cast<std::size_t>(here) * row_bytes - rest_.size();
      std::size_t const taken = std::min(wanted, bytes.size());
      std::span<std::byte const> whole = bytes.first(taken);
      place += static_cast<std::int64_t>(taken / row_bytes);
      bytes = bytes.subspan(taken);
      if (!rest_.empty() || taken < wanted) {
        rest_.insert(rest_.end(), whole.begin(), whole.end());
        if (taken < wanted) return;
        whole = rest_;
      }
      auto listed = part.numbers.list();
      if (!listed.empty()) listed = listed.subspan(static_cast<std::size_t>(block * in_block), static_cast<std::size_t>(here));
      shard_.sums[first_sums_[at_] + static_cast<std::size_t>(block)] = block_sum(whole, listed);
      rest_.clear();
    }
  }

  SavePlan* plan_;
  std::int64_t block_bytes_;
  safetensors::Writer writer_;
  WrittenShard shard_;
  std::vector<std::size_t> first_sums_;  // by part
  std::size_t at_ = 0;                   // the part whose item is shown
  bool started_ = false;
  std::int64_t rows_seen_ = 0;
  std::vector<std::byte> rest_;  // of a block that has come in part
};

// A folder of a generation that is being made: gone with this, unless it is kept.
class UnfinishedFolder {
 public:
  explicit UnfinishedFolder(std::string path) : path_{std::move(path)} {}
  UnfinishedFolder(UnfinishedFolder&&) = delete;
  ~UnfinishedFolder() {
    if (!path_.empty()) remove_folder(path_);
  }
  void keep() noexcept { path_.clear(); }

 private:
  std::string path_;
};

// The work of `Session::save`.
template <>
struct CheckpointWork<Operation::save> {
  // Collective. Called by the session.
  template <class S, class... Things>
  static Saved run(S& session, std::string const& directory, SaveOptions const& options, Things&... things) {
    if constexpr (check_saved<Things...>())
      return session.core().waiting.guarded("save", [&] { return save(session.core(), directory, options, things...); });
    else return {};
  }

 private:
  template <Communicator C, class... Things>
  static Saved save(SessionCore<C>& core, std::string const& directory, SaveOptions const& options, Things&... things) {
    int const rank = core.topology.rank(), ranks = core.topology.size();
    bool const first = rank == 0;
    SavePlan plan{rank, ranks};
    begin_checkpoint(core, Operation::save, joined({"save in '", directory, "', ", fields_text(options)}), [&] {
      auto const refuse = [&](char const* why) { throw Error{Errc::invalid_argument, rank, "save", "", why}; };
      if (directory.empty()) refuse("the folder has no name");
      if (options.keep < 0) refuse("at least one generation is kept");
      if (options.block_bytes < 1 || options.block_bytes > (1 << 20)) refuse("block_bytes is from 1 to 1 MiB");
      if (!(options.at_most > 0)) refuse("at_most is a time");
      check_things(core, "save", false, things...);
      visit_things(core, plan, things...);
    });
    core.waiting.allow(patience(options.at_most));

    // Rank 0 makes the folder, and says how the generation is called.
    std::int64_t number = 0;
    std::uint64_t id = 0;
    std::optional<UnfinishedFolder> unfinished_folder;
    std::optional<Error> error = caught(rank, "save", [&] {
      if (!first) return;
      make_folder(directory);
      remove_unfinished(directory);
      auto const numbers = generations_in(directory);
      number = numbers.empty() ? 1 : numbers.front() + 1;
      std::random_device random;
      id = (std::uint64_t{random()} << 32 | random()) >> 12;  // exact as a double
      std::string const path = directory + "/" + generation_name(number) + std::string{unfinished};
      if (::mkdir(path.c_str(), 0777) != 0) throw FileError(path, "mkdir", errno);
      unfinished_folder.emplace(path);
    });
    agree_so_far(core, "save", error);
    core.rounds.words.assign({static_cast<double>(number), static_cast<double>(id)});
    core.rounds.tell_all("save", [] { return std::string{}; });
    number = static_cast<std::int64_t>(core.rounds.told(0)[0]);
    id = static_cast<std::uint64_t>(core.rounds.told(0)[1]);
    std::string const path = directory + "/" + generation_name(number), making = path + std::string{unfinished};

    // All write, and say what they have written.
    WrittenShard mine;
    error = caught(rank, "save", [&] {
      ShardWriter writer{making + "/" + shard_name(rank), plan, id, options.block_bytes};
      visit_things(core, writer, things...);
      writer.finish();
      mine = std::move(writer.shard());
    });
    agree_so_far(core, "save", error);
    auto texts = gathered_bytes(core, "save", mine.text);
    auto const sums = gathered_bytes(core, "save", std::as_bytes(std::span{mine.sums}));
    auto const sizes = gathered_bytes(core, "save", std::as_bytes(std::span{&mine.size, 1}));

    // Rank 0 makes a generation of it.
    error = caught(rank, "save", [&] {
      if (!first) return;
      std::vector<WrittenShard> shards(static_cast<std::size_t>(ranks));
      for (std::size_t r = 0; r < shards.size(); ++r) {
        shards[r].text = std::move(texts[r]);
        shards[r].sums.resize(sums[r].size() / 8);
        if (!sums[r].empty()) std::memcpy(shards[r].sums.data(), sums[r].data(), sums[r].size());
        std::memcpy(&shards[r].size, sizes[r].data(), 8);
      }
      std::vector<std::pair<std::string, std::string>> signatures;
      for (auto const& known : core.registry.variables())
        if (!known->gone) signatures.emplace_back(known->name, known->signature);
      GenerationFacts facts{number, core.steps, options.block_bytes, id, {}};
      for (int const host : core.topology.hosts()) facts.hosts.push_back(host);
      auto const manifest = Generation::encoded(facts, plan.small(), signatures, shards);
      NewFile file{making + "/" + std::string{manifest_name}, manifest.size()};
      file.write(0, manifest);
      file.finish();
      sync_folder(making);
      if (::rename(making.c_str(), path.c_str()) != 0) throw FileError(path, "rename", errno);
      unfinished_folder->keep();
      sync_folder(directory);
      if (options.keep > 0) remove_old(directory, static_cast<std::size_t>(options.keep));
    });
    agree_so_far(core, "save", error);
    return {number, core.steps, path};
  }
};

}  // namespace parallax::detail
