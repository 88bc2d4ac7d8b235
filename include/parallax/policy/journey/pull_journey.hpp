// The journey of a pull: what `Session::pull` sends to the owners of rows, and what they answer. A fetch has one for each of
// its tables, and calls its legs as `carry` asks for them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <type_traits>

#include "parallax/policy/journey/legs.hpp"

namespace parallax {

// How the owner of a table reads the rows that are asked for, in memory of its space. A fetch has one for each of its tables, so
// that journeys do not depend on how a table is updated. E: what its elements are kept as.
template <class Index, class T, class E, MemorySpace Space>
class RowSource {
 public:
  // Where rows lie, for ranks that read them there.
  struct Lent {
    // Row 0.
    E const* rows;
    // From keys to rows.
    Directory<Index> directory;
  };

  // Brings rows up to date that were asked for.
  virtual void touch(typename Groups<Index, Space>::Keys const& keys) = 0;
  // Whether `touch` does anything, alike on all ranks.
  virtual bool touches() const = 0;
  // Writes the rows of `keys`, shown, to `out`, packed, of the type that PullJourney::Gathered says.
  virtual void gather(std::span<Index const> keys, void* out) const = 0;
  // Valid until rows change.
  virtual Lent lent() const = 0;

 protected:
  ~RowSource() = default;
};

// The journey of a pull: keys climb to the owners hop by hop, deduplicated on the way; rows come down the same way. Rows are read
// where they lie if ranks can, the pull is over before their owner goes on, and nobody passes them on.
template <Communicator C, class Index, class T, class E, MemorySpace Space, class W = IdentityWire>
class PullJourney {
  using Plan = RowPlan<Index, Space>;
  using Ops = RowOps<Space>;
  using Lent = typename RowSource<Index, T, E, Space>::Lent;

 public:
  // Whether owners keep rows as the wire has them.
  static constexpr bool kept_as_sent = encodes<W> && std::same_as<typename W::template element<T>, E>;
  // The elements that owners gather.
  using Gathered = std::conditional_t<kept_as_sent, E, T>;
  // Written by the fetch: whether this journey has a leg in the transfer at hand.
  bool travelling = false;

  // Local. The plan's level 0 holds the keys; hop 0 is cut and its received counts are known. `held`: when all keys have
  // arrived the journey rests, as one that is over, until `release`.
  void start(Plan& plan, RowSource<Index, T, E, Space>& table, Ops const& ops, std::span<Index const> bases, std::int64_t rows,
             std::int64_t width, int owner, bool held = false) {
    plan_ = &plan;
    table_ = &table;
    ops_.emplace(ops);
    bases_ = bases;
    rows_ = rows;
    width_ = static_cast<std::size_t>(width);
    owner_ = owner;
    hop_ = 0;
    leg_ = Leg::keys;
    finished_ = false;
    held_ = held_once_ = held;
  }
  // Local. Rows may come down: the owners' tables are as the pull is to see them. Of a journey that is not held nothing
  // changes.
  void release() { held_ = false; }
  // Local. There is nothing to travel: every rank has all rows of this table, and reads its own.
  void stop() { finished_ = true; }

  // Declares the next leg: keys on hop 0, then counts and keys on each hop above, then rows on each hop down. Where rows that
  // nobody need touch are read where they lie, they are with the keys. False where it has arrived, or is held.
  bool next(Mails<C>& mail) {
    if (finished_ || (held_ && leg_ == Leg::rows)) return false;
    lends_ = can_lend && leg_ != Leg::counts && mail.reads_in_place() && !held_once_ && plan_->hops.size() == 1;
    if (leg_ == Leg::counts) counts_.open(mail.of(), *plan_, hop_);
    if (leg_ == Leg::keys) keys_.open(mail, *plan_, hop_);
    if (leg_ == Leg::rows && !lends_) open_rows(mail.template of<Space>());
    if constexpr (can_lend)
      if (has_lent()) open_lent(mail.of());
    return true;
  }

  // Fills the leg. Before rows an owner brings those that were asked for up to date, and gathers them, unless who asked reads
  // them in place.
  void write(Mails<C>& mail) {
    if (leg_ == Leg::counts) counts_.write(mail.of(), *plan_, hop_);
    if (leg_ == Leg::keys) keys_.write(mail, *ops_, *plan_, hop_);
    if (leg_ == Leg::rows && hop_ + 1 == plan_->hops.size() && owner_ >= 0) table_->touch(plan_->top().named());
    if (leg_ == Leg::rows && !lends_) write_rows(mail.template of<Space>());
    if constexpr (can_lend)
      if (has_lent()) write_lent(mail.of());
  }

  // Takes what came in: counts are noted, keys merged and cut for the next hop, rows kept for the hop below. After the last leg
  // the plan's `values` have a row for each of its distinct keys, in their order.
  void read(Mails<C>& mail) {
    if constexpr (can_lend)
      if (has_lent()) read_lent(mail.of());
    switch (leg_) {
      case Leg::counts:
        counts_.read(mail.of(), *plan_, hop_);
        leg_ = Leg::keys;
        return;
      case Leg::keys:
        finished_ = has_lent();
        keys_.read(mail, *ops_, *plan_, hop_, rows_);
        if (hop_ + 1 == plan_->hops.size()) {
          leg_ = Leg::rows;
        } else {
          plan_->cut(++hop_, *ops_, bases_, rows_);
          leg_ = Leg::counts;
        }
        return;
      case Leg::rows:
        if (!lends_)
          rows_slip_.take(mail.template of<Space>(), plan_->hops[hop_].targets, hop_ == 0 ? plan_->values : plan_->below);
        if (hop_-- == 0) finished_ = true;
        return;
    }
  }

 private:
  // What the next transfer carries. Rows go down the hops that counts and keys went up.
  enum class Leg : unsigned char { counts, keys, rows };

  // Whether rows of this type could be read where they lie; the mail says whether ranks can.
  static constexpr bool can_lend = Space::host_readable && !encodes<W> && std::same_as<E, T>;

  // Whether who asked reads rows in the leg at hand where they lie.
  bool has_lent() const { return lends_ && (leg_ == Leg::rows || !table_->touches()); }
  // Owners say where their rows lie, and who asked for some gathers them.
  void open_lent(Mail<C>& mail) {
    Hop const& hop = plan_->hops.front();
    lent_slip_ = mail.template open_lent<Lent>();
    for (std::size_t s = 0; s < hop.sources.size(); ++s)
      if (plan_->received_from(0, s) > 0) mail.send(lent_slip_, hop.sources[s], sizeof(Lent));
    for (std::size_t t = 0; t < hop.targets.size(); ++t)
      if (plan_->sent(0, t) > 0) mail.expect(lent_slip_, hop.targets[t], sizeof(Lent));
  }
  void write_lent(Mail<C>& mail) {
    Hop const& hop = plan_->hops.front();
    for (std::size_t s = 0; s < hop.sources.size(); ++s) {
      std::size_t const n = plan_->received_from(0, s);
      if (n > 0) *mail.template outgoing<Lent>(lent_slip_, hop.sources[s]) = table_->lent();
      mail.count_lent(hop.sources[s], n * width_ * sizeof(T), 0, Payload::rows);
    }
    for (std::size_t t = 0; t < hop.targets.size(); ++t)
      mail.count_lent(hop.targets[t], 0, plan_->sent(0, t) * width_ * sizeof(T), Payload::rows);
  }
  void read_lent(Mail<C>& mail) {
    Hop const& hop = plan_->hops.front();
    plan_->values.resize_with_slack(plan_->size() * width_ * sizeof(T));
    T* const out = reinterpret_cast<T*>(plan_->values.data());
    for (std::size_t t = 0; t < hop.targets.size(); ++t) {
      std::size_t const first = plan_->runs[0].sent[t], n = plan_->sent(0, t);
      if (n == 0) continue;
      Lent const& lent = *mail.template incoming<Lent>(lent_slip_, hop.targets[t]);
      std::span<Index const> const keys{plan_->groups.keys.data() + first, n};
      ops_->gather_rows(RowsView<T const>{lent.rows, rows_, static_cast<std::int64_t>(width_)}, keys, lent.directory,
                        out + first * width_);
    }
  }

  // Rows go to the sources of the hop, and come from its targets: the keys' way, backwards.
  void open_rows(Mail<C, Space>& mail) {
    Hop const& hop = plan_->hops[hop_];
    rows_slip_.open(mail, Payload::rows);
    for (std::size_t s = 0; s < hop.sources.size(); ++s)
      rows_slip_.send(mail, hop.sources[s], plan_->received_from(hop_, s) * width_);
    for (std::size_t t = 0; t < hop.targets.size(); ++t) rows_slip_.expect(mail, hop.targets[t], plan_->sent(hop_, t) * width_);
  }

  // At the top the rows come from the owner's table, further down from the rows that just arrived.
  void write_rows(Mail<C, Space>& mail) {
    Hop const& hop = plan_->hops[hop_];
    auto& level = plan_->level(hop_ + 1);
    Ops const& ops = *ops_;
    bool const top = hop_ + 1 == plan_->hops.size();
    auto const part = [&](auto const& all, std::size_t first, std::size_t last) {
      std::vector<std::size_t> const& begins = plan_->runs[hop_].received;
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
  RowSource<Index, T, E, Space>* table_ = nullptr;
  std::optional<Ops> ops_;  // by the table's queue, from `start` on
  std::span<Index const> bases_;
  std::int64_t rows_ = 0;
  std::size_t width_ = 0, hop_ = 0;
  int owner_ = -1;
  WireSlip<W, T, Space> rows_slip_;
  Leg leg_ = Leg::keys;
  bool finished_ = true,   // nothing is left to travel
      held_ = false,       // rows wait for `release`
      held_once_ = false,  // they have waited for it, or do: such rows are not read in place
      lends_ = false;      // who asked reads rows where they lie
  int lent_slip_ = -1;
  CountsLeg<C, Plan> counts_;
  KeysLeg<C, Plan> keys_;
};

}  // namespace parallax
