// `Session::save_async`: content is copied at once, and written behind the steps. The session calls CheckpointWork::run.
#pragma once

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "parallax/detail/checkpoint/save.hpp"
#include "parallax/detail/core/own_thread.hpp"

namespace parallax::inline v0_2::detail {

// A rank's file in memory. Owns the memory, which the next save uses again.
class ShardImage {
 public:
  // Makes room for the file, and fills in all bytes already known. Refers to the draft, which outlives `write`.
  void begin(ShardDraft& draft) {
    draft_ = &draft;
    bytes_.resize(static_cast<std::size_t>(draft.size()));
    draft.put_known([&](std::uint64_t at, std::span<std::byte const> bytes) { put(at, bytes); });
  }
  // Copies the rows `bytes` to their place in the file, from row `place` of the draft's part number `part` on.
  void rows(std::size_t part, std::int64_t place, std::span<std::byte const> bytes) {
    put(draft_->begin(part) + static_cast<std::uint64_t>(place) * draft_->row_bytes(part), bytes);
  }
  // Writes the file, waits for the disk, and takes the checksums. Throws FileError, and FormatError once asked to stop.
  void write(std::string path, StopToken stop) {
    NewFile file{std::move(path), bytes_.size()};
    for (std::size_t at = 0; at < bytes_.size(); at += written_at_once) {
      if (stop.stop_requested()) throw FormatError(file.path(), "the save was given up");
      file.write(at, std::span{bytes_}.subspan(at, std::min(written_at_once, bytes_.size() - at)));
    }
    for (std::size_t part = 0; part < draft_->parts().size(); ++part) {
      auto const row_bytes = static_cast<std::size_t>(draft_->row_bytes(part));
      std::int64_t const in_block = draft_->rows_of(part), rows = draft_->parts()[part].count;
      for (std::int64_t block = 0; block < draft_->blocks(part); ++block) {
        auto const first = static_cast<std::size_t>(block * in_block);
        auto const count = static_cast<std::size_t>(std::min(in_block, rows - block * in_block));
        draft_->take_sum(
            part, block,
            std::span{bytes_}.subspan(static_cast<std::size_t>(draft_->begin(part)) + first * row_bytes, count * row_bytes));
      }
    }
    file.finish();
  }

 private:
  static constexpr std::size_t written_at_once = std::size_t{1} << 20;

  void put(std::uint64_t at, std::span<std::byte const> bytes) {
    if (!bytes.empty()) std::memcpy(bytes_.data() + at, bytes.data(), bytes.size());
  }

  ShardDraft* draft_ = nullptr;
  std::vector<std::byte> bytes_;
};

// Returns the name of a rank's note to rank 0 about its file, a file beside it. Rank 0 removes it, and names the folder anew,
// as soon as it sees the last one: perhaps before `write_note` returns. Both functions throw FileError, and FormatError.
inline std::string note_name(int rank) { return shard_name(rank) + ".note"; }
void write_note(std::string path, WrittenShard const& shard);
WrittenShard read_note(std::string path);

// A rank's thread for writing the copy, and the memory of the copy. Refers to the core, which owns it from the first save on.
// Between two saves it has no thread. If all ranks see one folder rank 0's thread makes the generation; else `settle` does.
template <Communicator C>
class BackgroundSave final : public Behind {
 public:
  explicit BackgroundSave(SessionCore<C>& core) : core_{&core} {}

  // Local, once the last save is settled. Returns the next one's copy, owned here, to be filled. FormatError: it is too large.
  ShardImage& image(SavePlan&& plan, std::uint64_t id, std::int64_t block_bytes) {
    draft_.emplace(std::move(plan), id, block_bytes);
    image_.begin(*draft_);
    return image_;
  }
  ShardDraft const& draft() const { return *draft_; }
  // Local. Lets the thread write from here on; its error is kept for `settle`. If the system makes no thread, this call writes
  // itself, and waits. `at_most`: the seconds for rank 0's thread to wait for the others.
  void begin(NewGeneration&& made, double at_most) {
    made_ = std::move(made);
    at_most_ = at_most;
    stage_ = Stage::writing;
    begun_ = true;
    try {
      thread_.emplace([this](StopToken stop) { work(stop); });
    } catch (Error const&) {
      write_now();
    }
  }
  bool failed() const override { return begun_ && stage_ == Stage::failed; }
  // Returns the save's result, true once the save is settled.
  Saved saved() const { return {made_.facts.number, made_.facts.step, made_.path}; }

  bool busy() const override { return begun_ && stage_ == Stage::writing; }
  bool together() const override { return begun_ && apart(); }

  // Collective. Waits for all ranks' files first; then for the generation. Throws Refused on all ranks for one's failure.
  void settle(char const* operation) override {
    if (!begun_) return;
    core_->waiting.allow(patience(at_most_));
    begun_ = false;
    struct End {
      BackgroundSave* save;
      ~End() { save->end(); }
    } const end{this};
    await(operation, Stage::written);
    if (apart()) return make_generations(*core_, operation, made_, draft_->shard(), failure());
    agree_so_far(*core_, operation, failure());
    await(operation, Stage::done);
    std::optional<Error> const error = failure();
    this->end();
    agree_so_far(*core_, operation, error);
  }

 private:
  // Stages of the thread. written: this rank's file is; done: so is, on rank 0, the generation, if its thread makes it.
  enum class Stage : int { writing, written, done, failed };

  // Subject of a wait for the thread: `waiting_for` names this rank, for the others wait for it.
  struct Thread {
    int waiting_for() const { return rank; }
    int rank;
  };
  void await(char const* operation, Stage stage) {
    Thread const thread{core_->topology.rank()};
    auto const names = [] { return std::string{"a save in the background"}; };
    core_->waiting.drive(operation, [&] { return stage_ >= stage; }, {thread, names});
  }
  bool apart() const { return !made_.homes.one(); }
  std::optional<Error> failure() const { return stage_ == Stage::failed ? error_ : std::nullopt; }
  // Local. Ends the thread, and removes its unfinished work.
  void end() {
    thread_.reset();
    made_.folder = {};
  }

  // Writes without a thread. Meanwhile the other ranks, unaware, wait for this one.
  void write_now() {
    auto& world = core_->topology.world();
    auto const pause = [&](std::string_view what, std::chrono::nanoseconds at_most) {
      world.journal().pause(what, at_most.count(), core_->waiting.clock());
      if (world.size() > 1) world.announce();
    };
    bool const own = world.journal().status().pause == 0;  // the trainer is in none of its own
    if (own) pause("save_async", patience(at_most_));
    work({});
    if (own) pause({}, std::chrono::nanoseconds{0});
  }
  // Writes this rank's file, and on rank 0, if all see one folder, the generation. Keeps its error. Run by the thread.
  void work(StopToken stop) noexcept {
    int const rank = core_->topology.rank();
    error_ = caught(rank, "save", [&] {
      image_.write(made_.shard(rank), stop);
      if (apart()) return;
      if (rank != 0) return write_note(made_.making + "/" + note_name(rank), draft_->shard());
      stage_ = Stage::written;
      std::vector<WrittenShard> shards(made_.facts.hosts.size());
      shards[0] = std::move(draft_->shard());
      auto const latest = std::chrono::steady_clock::now() + patience(at_most_);
      for (std::size_t r = 1; r < shards.size(); ++r) {
        std::string const note = made_.making + "/" + note_name(static_cast<int>(r));
        await_file(note, stop, latest);
        shards[r] = read_note(note);
        if (::unlink(note.c_str()) != 0) throw FileError(note, "unlink", errno);
      }
      write_manifest(made_, shards), give_name(made_);
      if (!made_.removes()) return;
      for (std::int64_t const number : unname_old(made_, generations_in(made_.directory)))
        remove_folder(made_.directory + "/" + generation_name(number) + std::string{unfinished});
    });
    stage_ = error_ ? Stage::failed : Stage::done;
  }
  static void await_file(std::string const& path, StopToken stop, std::chrono::steady_clock::time_point latest) {
    struct ::stat status;
    while (::stat(path.c_str(), &status) != 0) {
      if (errno != ENOENT) throw FileError(path, "stat", errno);
      if (stop.stop_requested()) throw FormatError(path, "the save was given up");
      if (std::chrono::steady_clock::now() > latest) throw FormatError(path, "it has not come");
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
  }

  SessionCore<C>* core_;
  std::optional<ShardDraft> draft_;
  ShardImage image_;
  NewGeneration made_{};
  double at_most_ = 0;
  std::optional<Error> error_;  // of the thread, set before the stage
  std::atomic<Stage> stage_{Stage::done};
  bool begun_ = false;
  std::optional<OwnThread> thread_;  // first to go, for it works on all of the above
};

// The work of `Session::save_async`.
template <>
struct CheckpointWork<Operation::save_async> : WorkOnThings<Operation::save_async, Saved, SaveOptions> {
  // Collective, and waits. Returns once the content is copied; the result is true once the save is settled. Throws Refused.
  template <Communicator C, class... Things>
  static Saved work(SessionCore<C>& core, std::string const& directory, SaveOptions const& options, Things&... things) {
    SavePlan plan{core.topology.rank(), core.topology.size()};
    NewGeneration made = begin_save(core, Operation::save_async, directory, options, plan, things...);
    on_all(core, "save_async", [&] {
      if (!core.behind) core.behind = Owned<Behind>{new BackgroundSave<C>{core}};
      auto& saving = static_cast<BackgroundSave<C>&>(*core.behind);
      ShardImage& image = saving.image(std::move(plan), made.facts.id, options.block_bytes);
      ShardRows rows{saving.draft(), image};
      visit_things(core, rows, things...);
    });
    auto& saving = static_cast<BackgroundSave<C>&>(*core.behind);
    saving.begin(std::move(made), options.at_most);
    return saving.saved();
  }
};

}  // namespace parallax::detail

#if !defined(PARALLAX_COMPILED)
#include "parallax/detail/checkpoint/background-inl.hpp"
#endif
