// `Session::save`: every rank writes its part, and of the ranks that see one folder, a home, the first one, the leader, makes a
// generation of all files. The session calls `run` of CheckpointWork.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "parallax/detail/checkpoint/common.hpp"
#include "parallax/detail/checkpoint/folder.hpp"
#include "parallax/detail/checkpoint/shard.hpp"
#include "parallax/detail/core/birth.hpp"
#include "parallax/detail/core/math.hpp"

namespace parallax::inline v0_2::detail {

// The locks of folders that a session holds, on a leader. Owns the locks; the session's core owns this.
class FolderLocks final : public Held {
 public:
  // Takes the folder's lock, unless the session has it. Throws as the constructor of FolderLock.
  void take(std::string const& folder) {
    for (FolderLock const& lock : locks_)
      if (lock.is_of(folder)) return;
    locks_.emplace_back(folder);
  }

 private:
  std::vector<FolderLock> locks_;
};

// Local, on the first rank of all that see the folder. Keeps other sessions from saving in it, from now on until the session
// goes. Throws FileError, and FormatError with the name of the present holder.
template <Communicator C>
void hold_folder(SessionCore<C>& core, std::string const& folder) {
  if (!core.held) core.held = Owned<Held>{new FolderLocks};
  static_cast<FolderLocks&>(*core.held).take(folder);
}

// A folder of an unfinished generation, or a file for a moment. Removes it at the end of this object, unless it is kept, or
// this is a forked child.
class UnfinishedFolder {
 public:
  UnfinishedFolder() = default;
  explicit UnfinishedFolder(std::string path) : path_{std::move(path)} {}
  UnfinishedFolder(UnfinishedFolder&& other) noexcept : path_{std::exchange(other.path_, {})}, birth_{other.birth_} {}
  UnfinishedFolder& operator=(UnfinishedFolder&& other) noexcept {
    std::swap(path_, other.path_);
    std::swap(birth_, other.birth_);
    return *this;
  }
  ~UnfinishedFolder() {
    if (!path_.empty() && !birth_.in_child()) remove_folder(path_);
  }
  void keep() noexcept { path_.clear(); }

 private:
  std::string path_;
  Birth birth_;
};

// Local. Returns a line for each variable whole on every rank of this session, in memory of the host, with the checksum of its
// values and slots. Ranks compare the lines before they save, so no save of unequal replicas takes the place of a good
// checkpoint. Never updated variables are left to their first update. Tables with rows behind are left to
// SessionOptions::compare_replicas_every.
template <Communicator C>
std::string compared_replicas(SessionCore<C>& core) {
  std::string lines;
  if (!core.options.compare_replicas || core.topology.size() == 1) return lines;
  std::uint64_t sum = 0;
  for (auto const& known : core.registry.variables())
    if (known->state && !known->gone && known->updates(known->state) > 0 && known->replica(known->state, sum, false))
      append(lines, {"\n", known->name, "\tvalues and slots of checksum ", number_text(sum)});
  return lines;
}

// Homes: the ranks that see one folder are of one home. By rank, the first rank of its home, its leader.
struct Homes {
  bool one() const {
    return std::all_of(leaders.begin(), leaders.end(), [](int leader) { return leader == 0; });
  }
  int leader_of(int rank) const { return leaders[static_cast<std::size_t>(rank)]; }
  bool leads(int rank) const { return leader_of(rank) == rank; }

  std::vector<int> leaders;
};

// A generation in the making: the knowledge of all ranks, and the leaders' folders.
struct NewGeneration {
  // Returns the name of a rank's file in the unfinished folder.
  std::string shard(int rank) const { return making + "/" + shard_name(rank); }
  // Returns true if the options of the save ask for older generations to be removed: `keep` or `keep_for` is not 0.
  bool removes() const { return keep > 0 || keep_for > 0; }

  GenerationFacts facts;
  Homes homes;
  std::string directory, path, making;  // path: its final place; making: the place of its files until then
  std::size_t keep = 0;                 // number of generations to stay; 0: all
  double keep_for = 0;                  // and their seconds; 0: for ever
  std::vector<SmallItem> small;
  std::vector<std::pair<std::string, std::string>> signatures;
  UnfinishedFolder folder;
};

// Local, on a leader, once its home's files are on the disk. Writes the manifest. `shards`: by rank. Throws FormatError.
void write_manifest(NewGeneration const& made, std::span<WrittenShard const> shards);
// Local, on a leader. Gives the generation its name. Throws FileError; after an error behind the naming, it is there.
void give_name(NewGeneration& made);

// Local, on a leader, once it has its name everywhere. Takes the names from older generations. They go if there are `keep`
// newer ones among `complete`, or if they are older by `keep_for`, by their manifests' times. Returns their numbers. So none is
// ever there in part, while their files are removed. `complete`: the numbers of restorable generations. Throws FileError.
std::vector<std::int64_t> unname_old(NewGeneration const& made, std::span<std::int64_t const> complete);

// Collective, and waits. Removes the leader's generations `gone`, nameless by now, by all ranks of its home at the same time.
template <Communicator C>
void remove_together(SessionCore<C>& core, char const* operation, NewGeneration const& made,
                     std::span<std::int64_t const> gone) {
  int const rank = core.topology.rank(), leader = made.homes.leader_of(rank);
  auto const all = gathered_bytes(core, operation, std::as_bytes(gone), true);
  std::size_t turn = 0, turns = 0;
  for (int r = 0; r < core.topology.size(); ++r)
    if (made.homes.leader_of(r) == leader) turn += r < rank, ++turns;
  auto const numbers = values_of<std::int64_t>(all[static_cast<std::size_t>(leader)]);
  for (std::int64_t const number : numbers) remove_files(made.directory, number, turn, turns);
  if (std::all_of(all.begin(), all.end(), [](auto const& bytes) { return bytes.empty(); })) return;
  agree_so_far(core, operation, std::nullopt);
  if (rank != leader) return;
  for (std::int64_t const number : numbers)
    remove_folder(made.directory + "/" + generation_name(number) + std::string{unfinished});
}

// Collective, and waits. Makes a generation of all ranks' files, by the leaders. Every rank has written its file, told as
// `mine`, or has met `error`. In several homes each step is done in all before the next begins: the manifests, the names, and
// the removal of old generations, which stay until the new one has its name everywhere. Throws Refused.
template <Communicator C>
void make_generations(SessionCore<C>& core, char const* operation, NewGeneration& made, WrittenShard const& mine,
                      std::optional<Error> const& error) {
  int const rank = core.topology.rank();
  bool const leads = made.homes.leads(rank), apart = !made.homes.one();
  agree_so_far(core, operation, error);
  auto texts = gathered_bytes(core, operation, mine.text, apart);
  auto const sums = gathered_bytes(core, operation, std::as_bytes(std::span{mine.sums}), apart);
  auto const sizes = gathered_bytes(core, operation, std::as_bytes(std::span{&mine.size, 1}), apart);
  std::vector<WrittenShard> shards(leads ? made.facts.hosts.size() : 0);
  auto const by_leaders = [&](auto&& body) {
    on_all(core, operation, [&] {
      if (leads) body();
    });
  };
  auto const put_together = [&] {
    for (std::size_t r = 0; r < shards.size(); ++r) {
      shards[r].text = std::move(texts[r]);
      shards[r].sums = values_of<std::uint64_t>(sums[r]);
      std::memcpy(&shards[r].size, sizes[r].data(), 8);
    }
  };
  std::vector<std::int64_t> complete, gone;  // complete: in all homes
  if (!apart) {
    by_leaders([&] {
      put_together(), write_manifest(made, shards), give_name(made);
      if (made.removes()) gone = unname_old(made, generations_in(made.directory));
    });
    if (made.removes()) remove_together(core, operation, made, gone);
    return;
  }
  by_leaders([&] { put_together(), write_manifest(made, shards); });
  by_leaders([&] { give_name(made); });
  if (!made.removes()) return;
  by_leaders([&] { complete = generations_in(made.directory); });
  auto const all = gathered_bytes(core, operation, std::as_bytes(std::span{complete}), true);
  by_leaders([&] {
    for (std::size_t r = 0; r < all.size(); ++r) {
      if (!made.homes.leads(static_cast<int>(r))) continue;
      auto const there = values_of<std::int64_t>(all[r]);
      std::erase_if(complete,
                    [&](std::int64_t number) { return std::find(there.begin(), there.end(), number) == there.end(); });
    }
    gone = unname_old(made, complete);
  });
  remove_together(core, operation, made, gone);
}

// Collective, and waits. Returns the homes: rank 0 makes a file, and so does each rank that does not see it. Afterwards the
// folder is there, without left files, and the session has its lock. `id`: of the save, for these files. Throws Refused.
template <Communicator C>
Homes find_homes(SessionCore<C>& core, char const* operation, std::string const& directory, std::uint64_t id) {
  int const rank = core.topology.rank(), ranks = core.topology.size();
  auto const file = [&](int of) { return directory + "/" + sign_name(id, of); };
  UnfinishedFolder sign;
  auto const make = [&](bool makes) {
    on_all(core, operation, [&] {
      if (!makes) return;
      make_folder(directory);
      if (rank == 0) hold_folder(core, directory), remove_unfinished(directory);
      if (ranks == 1) return;
      Descriptor const made = make_file(file(rank), 0);
      if (!made.is_open()) throw FileError(file(rank), "open", errno);
      sign = UnfinishedFolder{file(rank)};
    });
  };
  auto const seen = [&](int of) {
    if (rank == of) return true;
    struct ::stat status;
    if (::stat(file(of).c_str(), &status) == 0) return true;
    if (errno != ENOENT) throw FileError(file(of), "stat", errno);
    return false;
  };
  Homes homes{std::vector<int>(static_cast<std::size_t>(ranks), 0)};
  auto const tell = [&](auto&& find) {
    int leader = rank;
    on_all(core, operation, [&] { leader = find(); });
    auto const& told = told_by_all(core, operation, {static_cast<double>(leader)});
    std::transform(told.begin(), told.end(), homes.leaders.begin(), [](double word) { return static_cast<int>(word); });
  };
  make(rank == 0);
  if (ranks == 1) return homes;
  tell([&] { return seen(0) ? 0 : rank; });
  if (homes.one()) return homes;
  std::vector<int> const first = homes.leaders;
  int const leader = first[static_cast<std::size_t>(rank)];
  make(leader == rank && rank != 0);
  tell([&] {
    for (int r = 1; r < leader; ++r)
      if (first[static_cast<std::size_t>(r)] == r && seen(r)) return r;
    return leader;
  });
  return homes;
}

// Collective, and waits. Begins a save, in the background or not: all ranks mean the same, nothing else goes on behind the
// steps, `plan` has this rank's part, and the leaders have made the folders. Throws Refused for any rank's failure.
template <Communicator C, class... Things>
NewGeneration begin_save(SessionCore<C>& core, Operation operation, std::string const& directory, SaveOptions const& options,
                         SavePlan& plan, Things&... things) {
  char const* const word = to_string(operation).data();
  int const rank = core.topology.rank();
  std::string const text = joined({word, " in '", directory, "', ", fields_text(options), compared_replicas(core)});
  begin_checkpoint(core, operation, text, [&] {
    auto const refuse = [&](char const* why) { throw Error{Errc::invalid_argument, rank, word, "", why}; };
    if (directory.empty()) refuse("the folder has no name");
    if (options.keep < 0) refuse("at least one generation is kept");
    if (!is_not_negative(options.keep_for)) refuse("keep_for is a time");
    if (options.block_bytes < 1 || options.block_bytes > (1 << 20)) refuse("block_bytes is from 1 to 1 MiB");
    if (!is_positive(options.at_most)) refuse("at_most is a time");
    check_things(core, word, false, things...);
    visit_things(core, plan, things...);
  });
  core.settle_behind(word);
  core.waiting.allow(patience(options.at_most));

  NewGeneration made;
  std::random_device random;
  std::uint64_t const mine = (std::uint64_t{random()} << 32 | random()) >> 12;  // exact as a double
  auto const id = static_cast<std::uint64_t>(told_by_all(core, word, {static_cast<double>(mine)})[0]);
  made.facts = {0, core.steps, options.block_bytes, id};
  made.directory = directory, made.keep = static_cast<std::size_t>(options.keep), made.keep_for = options.keep_for;
  made.homes = find_homes(core, word, directory, made.facts.id);
  bool const leads = made.homes.leads(rank);

  // A number new in all homes.
  std::int64_t newest = 0;
  on_all(core, word, [&] {
    if (!leads) return;
    if (rank != 0) hold_folder(core, directory), remove_unfinished(directory);
    auto const numbers = numbers_in(directory);
    if (!numbers.empty()) newest = numbers.front();
  });
  auto const& told = told_by_all(core, word, {static_cast<double>(newest)});
  made.facts.number = static_cast<std::int64_t>(*std::max_element(told.begin(), told.end())) + 1;
  made.path = directory + "/" + generation_name(made.facts.number);
  made.making = made.path + std::string{unfinished};
  on_all(core, word, [&] {
    for (int const host : core.topology.hosts()) made.facts.hosts.push_back(host);
    if (!made.homes.one()) made.facts.homes = made.homes.leaders;
    if (!leads) return;
    if (::mkdir(made.making.c_str(), 0777) != 0) throw FileError(made.making, "mkdir", errno);
    made.folder = UnfinishedFolder{made.making};
    made.small = plan.small;
    for (auto const& known : core.registry.variables())
      if (!known->gone) made.signatures.emplace_back(known->name, known->signature);
  });
  return made;
}

// The work of `Session::save`.
template <>
struct CheckpointWork<Operation::save> : WorkOnThings<Operation::save, Saved, SaveOptions> {
  // Collective, and waits. Returns once the generation has its name. Throws Refused, and the session goes on, if a rank fails.
  template <Communicator C, class... Things>
  static Saved work(SessionCore<C>& core, std::string const& directory, SaveOptions const& options, Things&... things) {
    int const rank = core.topology.rank();
    SavePlan plan{rank, core.topology.size()};
    NewGeneration made = begin_save(core, Operation::save, directory, options, plan, things...);

    // All write, and tell their results.
    WrittenShard mine;
    std::optional<Error> const error = caught(rank, "save", [&] {
      ShardDraft draft{std::move(plan), made.facts.id, options.block_bytes};
      ShardWriter writer{made.shard(rank), draft};
      ShardRows rows{draft, writer};
      visit_things(core, rows, things...);
      writer.finish();
      mine = std::move(draft.shard());
    });
    make_generations(core, "save", made, mine, error);
    return {made.facts.number, made.facts.step, made.path};
  }
};

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/checkpoint/save-inl.hpp"
#endif
