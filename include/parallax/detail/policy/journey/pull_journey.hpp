// The journey of a pull: keys sent by `Session::pull` to the owners of rows, and their answers. A fetch has one for each of its
// tables, and calls its legs as `carry` asks for them.
#pragma once

#include <cstdint>
#include <new>
#include <optional>
#include <span>
#include <type_traits>

#include "parallax/detail/core/list.hpp"
#include "parallax/detail/policy/journey/legs.hpp"
#include "parallax/detail/policy/journey/lent.hpp"

namespace parallax::inline v0_2 {

// Access of a table's owner to the rows asked for, in memory of its space. A fetch has one for each of its tables, so that
// journeys do not depend on the table's update. E: the type of kept elements. All functions are local.
template <class Index, class T, class E, MemorySpace Space>
class RowSource {
 public:
  // The rows' place, for ranks that read them there.
  struct LentTable {
    // Row 0.
    E const* rows;
    // From keys to rows.
    Directory<Index> directory;
  };

  // Brings the rows of `keys` up to date.
  virtual void touch(typename Groups<Index, Space>::Keys const& keys) = 0;
  // Returns true if `touch` does anything, alike on all ranks.
  virtual bool touches() const = 0;
  // Writes the rows of `keys`, in memory of the space, to `out`, packed, of type PullJourney::Gathered.
  virtual void gather(std::span<Index const> keys, void* out) const = 0;
  // Returns the rows' place, the table's memory, valid until rows change.
  virtual LentTable lent() const = 0;

 protected:
  ~RowSource() = default;
};

// The journey of a pull: keys climb to the owners hop by hop, deduplicated on the way; rows come down the same way. If ranks
// read each other's memory, and nobody passes rows on, `lend` takes the place of all legs: owners read the keys, and the askers
// the rows, in place.
template <Communicator C, class Index, class T, class E, MemorySpace Space, class W = IdentityWire>
class PullJourney {
  using Plan = RowPlan<Index, Space>;
  using Ops = RowOps<Space>;
  using Source = RowSource<Index, T, E, Space>;

 public:
  // True if owners keep rows in the wire's form.
  static constexpr bool kept_as_sent = encodes<W> && std::same_as<typename W::template element<T>, E>;
  // The type of gathered elements.
  using Gathered = std::conditional_t<kept_as_sent, E, T>;
  // Written by the fetch: true if this journey has a leg in the transfer at hand.
  bool travelling = false;

  // True if rows of this type could be read in place.
  static constexpr bool can_lend = Space::host_readable && !encodes<W> && std::same_as<E, T>;

  // Notes a record for each rank, local, before the agreement: the place of the keys for it, and of this rank's rows. Level 0
  // has the keys, hop 0 is cut. The plan owns the records; it and the rows stay until all ranks have read. May allocate.
  void lend(Plan& plan, Source const& table, int ranks) requires can_lend {
    plan_ = &plan;
    plan.lent = true;
    plan.lent_words.resize_with_slack(static_cast<std::size_t>(ranks) * sizeof(Word));
    Word own;
    own.lent = table.lent();
    for (int rank = 0; rank < ranks; ++rank) new (told_to(rank)) Word{own};
    auto const& targets = plan.hops[0].targets;
    for (std::size_t t = 0; t < targets.size(); ++t) {
      Word& word = *told_to(targets[t]);
      word.keys = plan.groups.keys.data() + plan.runs[0].sent[t];
      word.count = plan.sent(0, t);
    }
  }
  // Calls tell(rank, address) for every rank, with the address of this rank's record for it.
  template <class Tell>
  void tell_lent(Tell&& tell) const {
    for (int rank = 0; told_to(rank) != told_end(); ++rank) tell(rank, address_of(told_to(rank)));
  }
  // Takes the records' addresses once all have agreed: told(rank) is the one told by `rank`.
  template <class Told>
  void hear_lent(Told&& told) {
    plan_->heard_words.clear();
    for (int rank = 0; told_to(rank) != told_end(); ++rank) plan_->heard_words.push_back(record_at<Word>(told(rank)));
  }
  // Takes the keys as an owner, local, after `start`, under a Reading. Brings their rows up to date if it has to, and returns
  // true then: rows are read once all owners have done so.
  bool take_keys() requires can_lend {
    auto const& sources = plan_->hops[0].sources;
    plan_->copy_received([&](std::size_t s) -> LentKeys<Index> const* { return &word_of(sources[s]); });
    if (!table_->touches()) return false;
    plan_->merge_received(*ops_, 0, rows_);
    if (owner_ >= 0) table_->touch(plan_->top().named());
    return true;
  }
  // Copies the rows asked for from the owners' memory to the plan's `values`; local, under a Reading.
  void take_rows() requires can_lend {
    Hop const& hop = plan_->hops[0];
    plan_->values.resize_with_slack(plan_->size() * width_ * sizeof(T));
    T* const out = reinterpret_cast<T*>(plan_->values.data());
    for (std::size_t t = 0; t < hop.targets.size(); ++t) {
      std::size_t const first = plan_->runs[0].sent[t], n = plan_->sent(0, t);
      if (n == 0) continue;
      auto const& lent = word_of(hop.targets[t]).lent;
      std::span<Index const> const keys{plan_->groups.keys.data() + first, n};
      ops_->gather_rows(RowsView<T const>{lent.rows, rows_, static_cast<std::int64_t>(width_)}, keys, lent.directory,
                        out + first * width_);
    }
  }
  // Ends the journey, local, once this rank has read, with the work that needs no other rank's memory. Counts traffic as if
  // keys and rows had been sent.
  void end_lent(Lane<C>& lane) requires can_lend {
    if (!table_->touches()) plan_->merge_received(*ops_, 0, rows_);
    count_lent_runs(lane, *plan_, sizeof(Index), Payload::ids, true);
    count_lent_runs(lane, *plan_, width_ * sizeof(T), Payload::rows, false);
    finished_ = true;
  }

  // Starts, local. The plan's level 0 holds the keys; hop 0 is cut and its received counts are known. Plan, table and `bases`,
  // the owners' first keys, outlive the journey; `rows` bounds the keys; `owner` is this rank's number or -1. `held`: when all
  // keys have arrived the journey rests, as one that is over, until `release`.
  void start(Plan& plan, Source& table, Ops const& ops, std::span<Index const> bases, std::int64_t rows, std::int64_t width,
             int owner, bool held = false) {
    plan_ = &plan;
    table_ = &table;
    ops_.emplace(ops);
    bases_ = bases;
    rows_ = rows;
    width_ = static_cast<std::size_t>(width);
    owner_ = owner;
    hop_ = 0;
    leg_ = PullLoad::keys;
    finished_ = false;
    held_ = held;
  }
  // Lets rows come down, local: the owners' tables are ready for the pull. Does nothing to a journey that is not held.
  void release() { held_ = false; }
  // Ends the journey before its first leg, local: every rank has all rows of this table, and reads its own.
  void stop() { finished_ = true; }

  // Opens the next leg: keys on hop 0, then counts and keys on each hop above, then rows on each hop down. Returns false if all
  // rows have arrived, or if the journey is held.
  bool next(Mails<C>& mail) {
    if (finished_ || (held_ && leg_ == PullLoad::rows)) return false;
    if (leg_ == PullLoad::counts) counts_.open(mail.of(), *plan_, hop_);
    if (leg_ == PullLoad::keys) keys_.open(mail, *plan_, hop_);
    if (leg_ == PullLoad::rows) open_rows(mail.template of<Space>());
    return true;
  }

  // Fills the leg. Before rows an owner brings those asked for up to date, and gathers them.
  void write(Mails<C>& mail) {
    if (leg_ == PullLoad::counts) counts_.write(mail.of(), *plan_, hop_);
    if (leg_ == PullLoad::keys) keys_.write(mail, *ops_, *plan_, hop_);
    if (leg_ == PullLoad::rows && hop_ + 1 == plan_->hops.size() && owner_ >= 0) table_->touch(plan_->top().named());
    if (leg_ == PullLoad::rows) write_rows(mail.template of<Space>());
  }

  // Takes the leg's arrivals, local: counts are noted, keys merged and cut for the next hop, rows kept for the hop below. After
  // the last leg the plan's `values` have a row for each distinct key, in order. Waits and throws as the plan's `cut` does.
  void read(Mails<C>& mail) {
    switch (leg_) {
      case PullLoad::counts:
        counts_.read(mail.of(), *plan_, hop_);
        leg_ = PullLoad::keys;
        return;
      case PullLoad::keys:
        keys_.read(mail, *ops_, *plan_, hop_, rows_);
        if (hop_ + 1 == plan_->hops.size()) {
          leg_ = PullLoad::rows;
        } else {
          plan_->cut(++hop_, *ops_, bases_, rows_);
          leg_ = PullLoad::counts;
        }
        return;
      case PullLoad::rows:
        rows_slip_.take(mail.template of<Space>(), plan_->hops[hop_].targets, hop_ == 0 ? plan_->values : plan_->below);
        if (hop_-- == 0) finished_ = true;
        return;
    }
  }

 private:
  // The cargo of the next transfer. Rows go down the hops that counts and keys went up.
  enum class PullLoad : unsigned char { counts, keys, rows };

  // A rank's record for another: keys of the rows it asks the other for, and the place of its own rows.
  struct Word : LentKeys<Index> {
    typename Source::LentTable lent{};
  };

  // Returns this rank's record for another, in memory of the plan; `word_of`: the record told by that rank.
  Word* told_to(int rank) const { return reinterpret_cast<Word*>(plan_->lent_words.data()) + rank; }
  Word* told_end() const { return reinterpret_cast<Word*>(plan_->lent_words.data() + plan_->lent_words.size()); }
  Word const& word_of(int rank) const { return *static_cast<Word const*>(plan_->heard_words[static_cast<std::size_t>(rank)]); }

  // Opens the rows' leg: rows go to the sources of the hop, and come from its targets, the keys' way backwards.
  void open_rows(Mail<C, Space>& mail) {
    Hop const& hop = plan_->hops[hop_];
    rows_slip_.open(mail, Payload::rows);
    for (std::size_t s = 0; s < hop.sources.size(); ++s)
      rows_slip_.send(mail, hop.sources[s], plan_->received_from(hop_, s) * width_);
    for (std::size_t t = 0; t < hop.targets.size(); ++t) rows_slip_.expect(mail, hop.targets[t], plan_->sent(hop_, t) * width_);
  }

  // Writes rows: at the top from the owner's table, further down from the rows that just arrived.
  void write_rows(Mail<C, Space>& mail) {
    Hop const& hop = plan_->hops[hop_];
    auto& level = plan_->level(hop_ + 1);
    Ops const& ops = *ops_;
    bool const top = hop_ + 1 == plan_->hops.size();
    auto const part = [&](auto const& all, std::size_t first, std::size_t last) {
      List<std::size_t> const& begins = plan_->runs[hop_].received;
      return all.subspan(begins[first], begins[last] - begins[first]);
    };
    auto const gather = [&](std::size_t first, std::size_t last, auto* out) {
      table_->gather(part(plan_->received_keys(), first, last), out);
    };
    if constexpr (kept_as_sent)
      if (top) return rows_slip_.write_runs_encoded(mail, hop.sources, gather);
    rows_slip_.write_runs(mail, hop.sources, [&](std::size_t first, std::size_t last, T* out) {
      if (top) return gather(first, last, out);
      auto const* const below = reinterpret_cast<T const*>(plan_->below.data());
      RowsView<T const> const rows{below, static_cast<std::int64_t>(level.size()), static_cast<std::int64_t>(width_)};
      ops.gather_rows(rows, part(ops.inverse(level.there(ops)), first, last), {}, out);
    });
  }

  // Not owned, like the table: the handle of the pull keeps both.
  Plan* plan_ = nullptr;
  Source* table_ = nullptr;
  std::optional<Ops> ops_;  // by the table's queue, from `start` on
  std::span<Index const> bases_;
  std::int64_t rows_ = 0;
  std::size_t width_ = 0, hop_ = 0;
  int owner_ = -1;
  WireSlip<C, W, T, Space> rows_slip_;
  PullLoad leg_ = PullLoad::keys;
  bool finished_ = true,     // nothing is left to travel
      held_ = false;         // rows wait for `release`
  CountsLeg<C, Plan> counts_;
  KeysLeg<C, Plan> keys_;
};

}  // namespace parallax
