// The agreement of all ranks before an exchange: equal operations, no refusal, and the sizes to follow. The rounds of an engine
// hold one, and so does each flight.
#pragma once

#include <cstdint>
#include <cstring>

#include "parallax/core/fields.hpp"
#include "parallax/detail/comm/journal.hpp"
#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/transfer/lane.hpp"

namespace parallax::inline v0_2 {

// One round: every rank tells every other {hash of its next work, flags for its ability and its data, counts}. Ranks agree when
// all are ok and all hashes are equal; every rank sees the same words and reaches the same verdict. A rank can leave out work
// named ahead, and then all do. Control bytes.
template <Communicator C>
class Agreement {
 public:
  // Numbers for each rank that travel with the first round; more take a second one.
  static constexpr std::size_t inline_counts = 6;

  // Local. Refers to the topology and to the counts of bytes, which must outlive it. Nothing else may use the channel while a
  // round is in flight.
  Agreement(Topology<C> const& topology, int channel, Traffic& traffic)
      : lane_{topology, channel, traffic}, out_(ranks()), in_(ranks()) {}

  // Local. Makes room for so many numbers for each rank, so that `begin` allocates nothing.
  void reserve(std::size_t counts) {
    extra_out_.reserve(extra_words(counts));
    extra_in_.reserve(extra_words(counts));
  }
  // Local. Begins a round. `ok`: this rank can do its work; `ahead`: and work named ahead; `joined`: it has no data of its own.
  void begin(std::uint64_t hash, bool ok, bool joined, std::size_t counts, bool ahead = true);
  // Local, between `begin` and `post`. Sets number `which` (from 0) for rank `rank`; a number not told is 0.
  void tell(int rank, std::size_t which, std::uint64_t count) { slot(out_, extra_out_, rank, which) = count; }
  // Returns number `which` from rank `rank`, once `poll` is true. Numbers beyond `inline_counts` are there only if the round
  // was unanimous.
  std::uint64_t told(int rank, std::size_t which) { return slot(in_, extra_in_, rank, which); }

  // Collective in the channel's order. Posts the round; does not wait. `clock`: this rank's, ns. Throws as Lane::post.
  void post(std::int64_t clock) {
    for (Record& record : out_) record.flags |= static_cast<std::uint64_t>(clock) << flag_bits;
    post_words(out_.data(), in_.data(), sizeof(Record));
  }
  // Makes progress; returns true once all words are here. Starts the second round if there is one. Throws the errors of a
  // Request's `test`.
  bool poll();
  // Returns rank 0's clock as it was when that rank posted. Valid once `poll` is true.
  ToldClock first_clock() const { return {in_.front().flags >> flag_bits}; }
  // Returns true if something is posted and not complete on this rank.
  bool in_flight() const { return lane_.in_flight(); }
  // Returns a rank whose words have not come, or -1: for the report of a wait.
  int waiting_for() const { return lane_.waiting_for(); }
  // Gives the round up, after an abort alone; returns once no peer touches its memory any more.
  void withdraw() noexcept { lane_.withdraw(); }

  // Returns true if all ranks can, and do the same. Valid once `poll` is true; the same on every rank.
  bool unanimous() const {
    return detail::all_of(in_, [&](Record const& r) { return (r.flags & is_ok) && r.hash == in_.front().hash; });
  }
  // Returns true if every rank can do the work named ahead. Valid once `poll` is true; the same on every rank.
  bool ahead() const {
    return detail::all_of(in_, [](Record const& r) { return (r.flags & looks_ahead) != 0; });
  }
  // Returns the number of ranks with data. Valid once `poll` is true; the same on every rank.
  int active() const {
    return static_cast<int>(std::count_if(in_.begin(), in_.end(), [](Record const& r) { return !(r.flags & has_joined); }));
  }

 private:
  // Bits of a record: the rank can, it has no data of its own, it can do the work named ahead.
  enum Flag : std::uint64_t { is_ok = 1, has_joined = 2, looks_ahead = 4 };
  // The bits of a record's flags below its rank's clock.
  static constexpr int flag_bits = 8;
  // Words of one rank to another in the first round: 64 bytes of control.
  struct Record {
    std::uint64_t hash = 0, flags = 0;
    std::uint64_t counts[inline_counts] = {};
  };
  // Stages of `poll`: it waits for the records, for the words beyond them, or for nothing.
  enum class Stage : unsigned char { records, extra, done };

  // Returns the number of ranks of the world: one record goes to each, and one comes from each.
  std::size_t ranks() const { return static_cast<std::size_t>(lane_.topology().size()); }
  // Returns the words of a second round, all ranks together; 0: it is left out.
  std::size_t extra_words(std::size_t counts) const { return counts > inline_counts ? (counts - inline_counts) * ranks() : 0; }
  // Returns the place of a number: in the rank's record, or behind it if it does not fit.
  std::uint64_t& slot(List<Record>& records, List<std::uint64_t>& extra, int rank, std::size_t which) {
    auto const r = static_cast<std::size_t>(rank);
    if (which < inline_counts) return records[r].counts[which];
    return extra[r * (counts_ - inline_counts) + which - inline_counts];
  }
  // Posts `bytes` for each rank, packed in the order of ranks at both ends, and does not wait; bytes for this rank are copied.
  void post_words(void const* out, void* in, std::size_t bytes);

  Lane<C> lane_;
  // Numbers for each rank, as given to `begin`.
  std::size_t counts_ = 0;
  Stage stage_ = Stage::done;
  // By receiver, and by sender.
  List<Record> out_, in_;
  // The numbers that do not fit into a record, rank after rank.
  List<std::uint64_t> extra_out_, extra_in_;
};

template <Communicator C>
void Agreement<C>::begin(std::uint64_t hash, bool ok, bool joined, std::size_t counts, bool ahead) {
  counts_ = counts;
  std::uint64_t const flags =
      is_ok * std::uint64_t{ok} + has_joined * std::uint64_t{joined} + looks_ahead * std::uint64_t{ahead};
  for (Record& record : out_) record = {hash, flags, {}};
  extra_out_.assign(extra_words(counts), 0);
  extra_in_.assign(extra_out_.size(), 0);
  stage_ = Stage::records;
}

template <Communicator C>
bool Agreement<C>::poll() {
  while (stage_ != Stage::done) {
    if (!lane_.test()) return false;
    if (stage_ == Stage::records && unanimous() && !extra_out_.empty()) {
      stage_ = Stage::extra;
      post_words(extra_out_.data(), extra_in_.data(), extra_out_.size() / ranks() * sizeof(std::uint64_t));
    } else {
      stage_ = Stage::done;
    }
  }
  return true;
}

template <Communicator C>
void Agreement<C>::post_words(void const* out, void* in, std::size_t bytes) {
  int const self = lane_.topology().rank();
  lane_.clear();
  for (int rank = 0; rank < lane_.topology().size(); ++rank) {
    if (rank == self) continue;
    lane_.send(rank, static_cast<std::size_t>(rank) * bytes, bytes, Payload::control);
    lane_.expect(rank, static_cast<std::size_t>(rank) * bytes, bytes, Payload::control);
  }
  std::memcpy(static_cast<std::byte*>(in) + static_cast<std::size_t>(self) * bytes,
              static_cast<std::byte const*>(out) + static_cast<std::size_t>(self) * bytes, bytes);
  lane_.post(out, in);
}

}  // namespace parallax
