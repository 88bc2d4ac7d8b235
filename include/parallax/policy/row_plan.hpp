// The exchange plan of a batch of indices: who needs which rows from whom, made once by a pull and reused by the push.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parallax/comm/mail.hpp"
#include "parallax/kernel/host.hpp"
#include "parallax/partition/placement.hpp"

namespace parallax {

// What a leg over one hop looked like: contiguous runs of this rank's sorted keys to the targets, and of received keys from
// the sources.
struct HopRuns {
  std::vector<std::size_t> sent;      // targets + 1 begins in the keys of the level below
  std::vector<std::size_t> received;  // sources + 1 begins in the received keys
};

// The bags of a pull, planned by the host: the indices of bag b are at positions begins[b] … begins[b + 1] - 1.
template <MemorySpace Space>
struct BagPlan {
  std::size_t count = 0;
  bool factored = false, mean = false;  // whether indices have factors; whether those are one over how many a bag has
  Buffer<std::uint32_t> begins;         // count + 1
  Buffer<std::uint32_t> of_index;       // by index: the number of its bag
  Buffer<std::uint32_t> kept;           // by bag: its indices that were not dropped, 1 if there are none
  Buffer<std::byte> factors;            // by index, of the variable's scalar type
  Buffer<std::byte, Space> pooled;      // the rows of each bag as one

  // Where operations in the space find them.
  template <class T>
  RowTerms<T> terms(RowOps<Space> const& ops, RowsView<T const> rows) {
    return {rows, shown_of_index_.of(ops, of_index.span()).data(), shown_factors<T>(ops)};
  }
  template <class T>
  T const* shown_factors(RowOps<Space> const& ops) {
    return factored ? reinterpret_cast<T const*>(shown_factors_.of(ops, factors.span()).data()) : nullptr;
  }
  std::span<std::uint32_t const> shown_begins(RowOps<Space> const& ops) { return shown_begins_.of(ops, begins.span()); }
  std::span<std::uint32_t const> shown_kept(RowOps<Space> const& ops) { return shown_kept_.of(ops, kept.span()); }
  // The host has made them anew.
  void renew() { shown_begins_.renew(), shown_of_index_.renew(), shown_kept_.renew(), shown_factors_.renew(); }

  void copy_from(BagPlan const& other) {
    count = other.count, factored = other.factored, mean = other.mean;
    auto const copy = [](auto const& from, auto& to) {
      to.resize_with_slack(from.size());
      std::copy_n(from.data(), from.size(), to.data());
    };
    copy(other.begins, begins), copy(other.of_index, of_index), copy(other.kept, kept), copy(other.factors, factors);
    renew();
  }

 private:
  Shown<std::uint32_t, Space> shown_begins_, shown_of_index_, shown_kept_;
  Shown<std::byte, Space> shown_factors_;
};

// Levels of distinct keys: level 0 are this rank's own, level k + 1 those that arrived over hop k, merged. Every level keeps
// the grouping by which rows are summed on the way up and spread on the way down. The host makes the plan; rows, and what moves
// and sums them, are in memory of the space. Owns its memory; pooled and reused.
template <class Index, MemorySpace Space = HostSpace>
struct RowPlan {
  using index_type = Index;
  using Ops = RowOps<Space>;

  std::vector<Grouping<Index>> levels;
  std::vector<HopRuns> runs;
  std::vector<Index> bounds;       // scratch: the keys at which a hop cuts
  Buffer<Index> keys;              // scratch: keys before grouping
  Buffer<std::byte> received;      // scratch: keys as they arrived
  Buffer<std::byte, Space> values;  // rows of level 0 after a pull: size() rows
  Buffer<std::byte, Space> below;  // scratch: rows on their way down, between two hops
  SortScratch<Index> sort;
  std::vector<Hop> const* hops = nullptr;
  std::size_t agreed = 0;          // hops whose runs are known on all their ranks
  std::size_t dropped = 0;         // indices outside the table that take no part; their inverse is size()
  int users = 0;                   // handles and updates that hold this plan
  bool retired = false;            // its keys are those of an earlier placement; `retired_rows` the table rows of level 0
  Buffer<Index> retired_rows;

  BagPlan<Space> bags;

  std::size_t indices() const { return levels.empty() ? 0 : levels[0].count(); }
  std::size_t size() const { return levels.empty() ? 0 : levels[0].size(); }

  // Where operations in the space find a level's grouping, and the keys that arrived last.
  decltype(auto) shown(std::size_t level, Ops const& ops) { return shown_levels_[level].of(ops, levels[level]); }
  std::span<Index const> shown_received(Ops const& ops) {
    return shown_received_.of(ops, {reinterpret_cast<Index const*>(received.data()), received.size() / sizeof(Index)});
  }
  // Keys of the host's, once.
  std::span<Index const> shown_keys(Ops const& ops, std::span<Index const> given) {
    shown_keys_.renew();
    return shown_keys_.of(ops, given);
  }
  // The host has changed a level.
  void renew(std::size_t level) { shown_levels_[level].renew(), shown_received_.renew(); }

  void prepare(std::vector<Hop> const& route) {
    hops = &route;
    levels.resize(route.size() + 1);
    shown_levels_.resize(levels.size());
    runs.resize(route.size());
    agreed = dropped = bags.count = 0;
    retired = false;
  }
  // Local. The placement is about to change: what still holds this plan finds its rows by number.
  template <class RowOf>
  void retire(RowOf&& row_of) {
    if (retired) return;
    retired_rows.resize_with_slack(size());
    for (std::size_t i = 0; i < size(); ++i) retired_rows[i] = row_of(levels[0].keys[i]);
    retired = true;
  }

  // Local. Groups the first `count` of `keys`; a key of `rows` stands for an index that was dropped.
  void group(std::size_t count, std::int64_t rows) {
    RowOps<HostSpace>::unique_with_inverse(std::span<Index const>{keys.data(), count}, rows + (dropped > 0), levels[0], sort);
    if (dropped > 0) levels[0].keys.resize(levels[0].keys.size() - 1);  // the last one
    renew(0);
  }
  // On a device: `place` writes there the keys of so many indices, `rows` for one outside the table. Their groups are taken once
  // they have arrived.
  template <class Place>
  void group_there(Ops const& ops, std::size_t count, std::int64_t rows, Place&& place) {
    placed_.resize_with_slack(count);
    place(placed_.data());
    shown_levels_[0].make(ops, std::span<Index const>{placed_.span()}, rows);
  }
  bool groups_arrived() const { return shown_levels_[0].arrived(); }
  void take_groups(Ops const& ops) {
    shown_levels_[0].take(ops, levels[0]);
    shown_received_.renew();
    dropped = levels[0].count() - levels[0].offsets[levels[0].size()];
  }
  // A row of zeros behind the pulled ones, which is what dropped indices get.
  void append_zeros(Ops const& ops, std::size_t row_bytes) {
    std::size_t const bytes = size() * row_bytes;
    if (values.capacity() < bytes + row_bytes) {
      Buffer<std::byte, Space> larger{bytes + row_bytes};
      ops.copy_bytes(larger.data(), values.data(), bytes);
      values.swap(larger);
    }
    values.resize(bytes + row_bytes);
    ops.clear(values.data() + bytes, row_bytes);
  }

  // Local. The runs of level k's keys that go to the targets of hop k.
  void cut(std::size_t k, std::span<Index const> bases) {
    Hop const& hop = (*hops)[k];
    HopRuns& run = runs[k];
    bounds.clear();
    for (std::size_t t = 0; t <= hop.targets.size(); ++t)
      bounds.push_back(bases[static_cast<std::size_t>(hop.base) + t * static_cast<std::size_t>(hop.stride)]);
    run.sent.resize(hop.targets.size() + 1);
    if (hop.targets.empty()) run.sent[0] = 0;
    else RowOps<HostSpace>::bucket(std::span<Index const>{levels[k].keys.span()}, bounds, run.sent);
    run.received.assign(hop.sources.size() + 1, 0);
  }

  std::size_t sent(std::size_t k, std::size_t target) const { return runs[k].sent[target + 1] - runs[k].sent[target]; }
  std::size_t received_from(std::size_t k, std::size_t source) const {
    return runs[k].received[source + 1] - runs[k].received[source];
  }
  void expect(std::size_t k, std::size_t source, std::size_t count) {
    runs[k].received[source + 1] = runs[k].received[source] + count;
  }

 private:
  std::vector<Shown<Grouping<Index>, Space>> shown_levels_;
  Shown<Index, Space> shown_received_, shown_keys_;
  Buffer<Index, Space> placed_;  // scratch: keys before grouping, on a device
};

namespace detail {

// A run of counts, one per peer of a hop: how many keys follow. Control bytes.
template <Communicator C, class Plan>
struct CountsLeg {
  int slip = -1;
  void open(Mail<C>& mail, Plan const& plan, std::size_t k) {
    slip = mail.open(sizeof(std::uint64_t), Payload::control);
    for (int const target : (*plan.hops)[k].targets) mail.send(slip, target, sizeof(std::uint64_t));
    for (int const source : (*plan.hops)[k].sources) mail.expect(slip, source, sizeof(std::uint64_t));
  }
  void write(Mail<C>& mail, Plan const& plan, std::size_t k) {
    auto const& targets = (*plan.hops)[k].targets;
    for (std::size_t t = 0; t < targets.size(); ++t)
      *mail.template outgoing<std::uint64_t>(slip, targets[t]) = plan.sent(k, t);
  }
  void read(Mail<C>& mail, Plan& plan, std::size_t k) {
    auto const& sources = (*plan.hops)[k].sources;
    for (std::size_t s = 0; s < sources.size(); ++s)
      plan.expect(k, s, *mail.template incoming<std::uint64_t>(slip, sources[s]));
  }
};

// The keys of level k to the targets of hop k; on arrival they are merged into level k + 1.
template <Communicator C, class Plan>
struct KeysLeg {
  using Index = typename Plan::index_type;
  int slip = -1;
  void open(Mail<C>& mail, Plan const& plan, std::size_t k) {
    Hop const& hop = (*plan.hops)[k];
    slip = mail.open(sizeof(Index), Payload::ids);
    for (std::size_t t = 0; t < hop.targets.size(); ++t) mail.send(slip, hop.targets[t], plan.sent(k, t) * sizeof(Index));
    for (std::size_t s = 0; s < hop.sources.size(); ++s)
      mail.expect(slip, hop.sources[s], plan.received_from(k, s) * sizeof(Index));
  }
  void write(Mail<C>& mail, Plan const& plan, std::size_t k) {
    Hop const& hop = (*plan.hops)[k];
    for (std::size_t t = 0; t < hop.targets.size(); ++t)
      if (std::size_t const n = plan.sent(k, t))
        std::memcpy(mail.template outgoing<Index>(slip, hop.targets[t]), plan.levels[k].keys.data() + plan.runs[k].sent[t],
                    n * sizeof(Index));
  }
  void read(Mail<C>& mail, Plan& plan, std::size_t k, std::int64_t rows) {
    mail.take(slip, (*plan.hops)[k].sources, plan.received);
    std::size_t const n = plan.received.size() / sizeof(Index);
    auto const* const first = reinterpret_cast<Index const*>(plan.received.data());
    RowOps<HostSpace>::unique_with_inverse(std::span{first, n}, rows, plan.levels[k + 1], plan.sort);
    plan.renew(k + 1);
    plan.agreed = k + 1;
  }
};

}  // namespace detail

// The journey of a pull: keys climb to the owners hop by hop, deduplicated on the way; rows come down the same way.
// `Table` is how the owner reads its rows, in memory of its space: ops(), touch(keys, base), gather(keys shown, base, out).
template <Communicator C, class Index, class T, class Table>
class PullJourney {
  using Space = typename Table::space;
  using Plan = RowPlan<Index, Space>;

 public:
  bool travelling = false;

  // Local. The plan's level 0 holds the keys; hop 0 is cut and its received counts are known. `held`: when all keys have
  // arrived the journey rests, as one that is over, until `release`.
  void start(Plan& plan, Table& table, std::span<Index const> bases, std::int64_t rows, std::int64_t width,
             int owner, bool held = false) {
    plan_ = &plan;
    table_ = &table;
    bases_ = bases;
    rows_ = rows;
    width_ = static_cast<std::size_t>(width);
    owner_ = owner;
    hop_ = 0;
    leg_ = Leg::keys;
    finished_ = false;
    held_ = held;
  }
  void release() { held_ = false; }
  void stop() { finished_ = true; }

  bool next(Mails<C>& mail) {
    if (finished_ || (held_ && leg_ == Leg::rows)) return false;
    switch (leg_) {
      case Leg::counts: counts_.open(mail.of(), *plan_, hop_); break;
      case Leg::keys: keys_.open(mail.of(), *plan_, hop_); break;
      case Leg::rows: open_rows(mail.template of<Space>()); break;
    }
    return true;
  }

  void write(Mails<C>& mail) {
    switch (leg_) {
      case Leg::counts: return counts_.write(mail.of(), *plan_, hop_);
      case Leg::keys: return keys_.write(mail.of(), *plan_, hop_);
      case Leg::rows: return write_rows(mail.template of<Space>());
    }
  }

  void read(Mails<C>& mail) {
    switch (leg_) {
      case Leg::counts:
        counts_.read(mail.of(), *plan_, hop_);
        leg_ = Leg::keys;
        return;
      case Leg::keys:
        keys_.read(mail.of(), *plan_, hop_, rows_);
        if (hop_ + 1 == plan_->hops->size()) {
          leg_ = Leg::rows;
        } else {
          plan_->cut(++hop_, bases_);
          leg_ = Leg::counts;
        }
        return;
      case Leg::rows:
        mail.template of<Space>().take(rows_slip_, (*plan_->hops)[hop_].targets, hop_ == 0 ? plan_->values : plan_->below);
        if (hop_-- == 0) finished_ = true;
        return;
    }
  }

 private:
  enum class Leg : unsigned char { counts, keys, rows };

  void open_rows(Mail<C, Space>& mail) {
    Hop const& hop = (*plan_->hops)[hop_];
    rows_slip_ = mail.open(sizeof(T), Payload::rows);
    for (std::size_t s = 0; s < hop.sources.size(); ++s)
      mail.send(rows_slip_, hop.sources[s], plan_->received_from(hop_, s) * width_ * sizeof(T));
    for (std::size_t t = 0; t < hop.targets.size(); ++t)
      mail.expect(rows_slip_, hop.targets[t], plan_->sent(hop_, t) * width_ * sizeof(T));
  }

  // At the top the rows come from the owner's table, further down from the rows that just arrived.
  void write_rows(Mail<C, Space>& mail) {
    Hop const& hop = (*plan_->hops)[hop_];
    Grouping<Index> const& level = plan_->levels[hop_ + 1];
    auto const& ops = table_->ops();
    bool const top = hop_ + 1 == plan_->hops->size();
    if (top && owner_ >= 0) table_->touch(level.keys.span(), bases_[static_cast<std::size_t>(owner_)]);
    for (std::size_t s = 0; s < hop.sources.size(); ++s) {
      std::size_t const n = plan_->received_from(hop_, s);
      if (n == 0) continue;
      T* const out = mail.template outgoing<T>(rows_slip_, hop.sources[s]);
      std::size_t const first = plan_->runs[hop_].received[s];
      if (top) {
        table_->gather(plan_->shown_received(ops).subspan(first, n), bases_[static_cast<std::size_t>(owner_)], out);
      } else {
        auto const width = static_cast<std::int64_t>(width_);
        auto const* const below = reinterpret_cast<T const*>(plan_->below.data());
        RowsView<T const> const rows{below, static_cast<std::int64_t>(level.size()), width};
        ops.gather_rows(rows, ops.inverse(plan_->shown(hop_ + 1, ops)).subspan(first, n), 0, out);
      }
    }
  }

  Plan* plan_ = nullptr;
  Table* table_ = nullptr;
  std::span<Index const> bases_;
  std::int64_t rows_ = 0;
  std::size_t width_ = 0, hop_ = 0;
  int owner_ = -1, rows_slip_ = -1;
  Leg leg_ = Leg::keys;
  bool finished_ = true, held_ = false;
  detail::CountsLeg<C, Plan> counts_;
  detail::KeysLeg<C, Plan> keys_;
};

}  // namespace parallax
