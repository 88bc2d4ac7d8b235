// `Session::save`: every rank writes what it holds, and rank 0 makes a generation of it. The session calls `run` of CheckpointWork.
#pragma once

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
#include "parallax/checkpoint/shard.hpp"

namespace parallax::detail {

// A folder of a generation that is being made: gone with this, unless it is kept.
class UnfinishedFolder {
 public:
  UnfinishedFolder() = default;
  explicit UnfinishedFolder(std::string path) : path_{std::move(path)} {}
  UnfinishedFolder(UnfinishedFolder&& other) noexcept : path_{std::exchange(other.path_, {})} {}
  UnfinishedFolder& operator=(UnfinishedFolder&& other) noexcept {
    std::swap(path_, other.path_);
    return *this;
  }
  ~UnfinishedFolder() {
    if (!path_.empty()) remove_folder(path_);
  }
  void keep() noexcept { path_.clear(); }

 private:
  std::string path_;
};

// A generation that is being made: what all ranks know of it, and rank 0's folder.
struct NewGeneration {
  // The name of a rank's file in the folder that is being filled.
  std::string shard(int rank) const { return making + "/" + shard_name(rank); }

  GenerationFacts facts;
  std::string directory, path, making;  // path: where it will be; making: where its files are until then
  std::size_t keep = 0;                 // how many generations stay; 0: all
  double keep_for = 0;                  // and for how many seconds; 0: for ever
  std::vector<SmallItem> small;
  std::vector<std::pair<std::string, std::string>> signatures;
  UnfinishedFolder folder;
};

// Local, on rank 0, once all files are on the disk. `shards`: by rank. The generation has its manifest and its name, and older ones are
// gone. Throws FileError; of what is thrown once it has its name, it is there all the same.
inline void make_generation(NewGeneration& made, std::span<WrittenShard const> shards) {
  auto const manifest = Generation::encoded(made.facts, made.small, made.signatures, shards);
  NewFile file{made.making + "/" + std::string{manifest_name}, manifest.size()};
  file.write(0, manifest);
  file.finish();
  sync_folder(made.making);
  if (::rename(made.making.c_str(), made.path.c_str()) != 0) throw FileError(made.path, "rename", errno);
  made.folder.keep();
  sync_folder(made.directory);
  remove_old(made.directory, made.facts.number, made.keep, made.keep_for);
}

// Collective. The beginning of a save, in the background or not: all ranks mean the same, nothing else goes on behind the steps, this
// rank's part is planned, and rank 0 has made the folder.
template <Communicator C, class... Things>
NewGeneration begin_save(SessionCore<C>& core, Operation operation, std::string const& directory, SaveOptions const& options,
                         SavePlan& plan, Things&... things) {
  char const* const word = to_string(operation).data();
  int const rank = core.topology.rank();
  begin_checkpoint(core, operation, joined({word, " in '", directory, "', ", fields_text(options)}), [&] {
    auto const refuse = [&](char const* why) { throw Error{Errc::invalid_argument, rank, word, "", why}; };
    if (directory.empty()) refuse("the folder has no name");
    if (options.keep < 0) refuse("at least one generation is kept");
    if (!(options.keep_for >= 0)) refuse("keep_for is a time");
    if (options.block_bytes < 1 || options.block_bytes > (1 << 20)) refuse("block_bytes is from 1 to 1 MiB");
    if (!(options.at_most > 0)) refuse("at_most is a time");
    check_things(core, word, false, things...);
    visit_things(core, plan, things...);
  });
  core.settle_behind(word);
  core.waiting.allow(patience(options.at_most));

  NewGeneration made;
  made.facts = {0, core.steps, options.block_bytes, 0, {}};
  std::optional<Error> const error = caught(rank, word, [&] {
    for (int const host : core.topology.hosts()) made.facts.hosts.push_back(host);
    made.directory = directory, made.keep = static_cast<std::size_t>(options.keep), made.keep_for = options.keep_for;
    if (rank != 0) return;
    make_folder(directory);
    remove_unfinished(directory);
    auto const numbers = generations_in(directory);
    made.facts.number = numbers.empty() ? 1 : numbers.front() + 1;
    std::random_device random;
    made.facts.id = (std::uint64_t{random()} << 32 | random()) >> 12;  // exact as a double
    std::string const making = directory + "/" + generation_name(made.facts.number) + std::string{unfinished};
    if (::mkdir(making.c_str(), 0777) != 0) throw FileError(making, "mkdir", errno);
    made.folder = UnfinishedFolder{making};
    made.small = plan.small();
    for (auto const& known : core.registry.variables())
      if (!known->gone) made.signatures.emplace_back(known->name, known->signature);
  });
  agree_so_far(core, word, error);
  core.rounds.words.assign({static_cast<double>(made.facts.number), static_cast<double>(made.facts.id)});
  core.rounds.tell_all(word, [] { return std::string{}; });
  made.facts.number = static_cast<std::int64_t>(core.rounds.told(0)[0]);
  made.facts.id = static_cast<std::uint64_t>(core.rounds.told(0)[1]);
  made.path = directory + "/" + generation_name(made.facts.number);
  made.making = made.path + std::string{unfinished};
  return made;
}

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
    int const rank = core.topology.rank();
    SavePlan plan{rank, core.topology.size()};
    NewGeneration made = begin_save(core, Operation::save, directory, options, plan, things...);

    // All write, and say what they have written.
    WrittenShard mine;
    std::optional<Error> error = caught(rank, "save", [&] {
      ShardDraft draft{std::move(plan), made.facts.id, options.block_bytes};
      ShardWriter writer{made.shard(rank), draft};
      ShardRows rows{draft, writer};
      visit_things(core, rows, things...);
      writer.finish();
      mine = std::move(draft.shard());
    });
    agree_so_far(core, "save", error);
    auto texts = gathered_bytes(core, "save", mine.text);
    auto const sums = gathered_bytes(core, "save", std::as_bytes(std::span{mine.sums}));
    auto const sizes = gathered_bytes(core, "save", std::as_bytes(std::span{&mine.size, 1}));

    // Rank 0 makes a generation of it.
    error = caught(rank, "save", [&] {
      if (rank != 0) return;
      std::vector<WrittenShard> shards(made.facts.hosts.size());
      for (std::size_t r = 0; r < shards.size(); ++r) {
        shards[r].text = std::move(texts[r]);
        shards[r].sums.resize(sums[r].size() / 8);
        if (!sums[r].empty()) std::memcpy(shards[r].sums.data(), sums[r].data(), sums[r].size());
        std::memcpy(&shards[r].size, sizes[r].data(), 8);
      }
      make_generation(made, shards);
    });
    agree_so_far(core, "save", error);
    return {made.facts.number, made.facts.step, made.path};
  }
};

}  // namespace parallax::detail
