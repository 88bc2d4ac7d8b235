// The journeys of a sparse gradient: summed hop by hop to the owners, straight to the owners, or gathered by everybody.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "parallax/kernel/host_bags.hpp"
#include "parallax/policy/row_plan.hpp"

namespace parallax {

// Does not own. What a rank ends with: distinct keys ascending, a row for each, in memory of the variable's space, and how many
// indices named it (null unless counted).
template <class Index, class T>
struct ReducedRows {
  std::span<Index const> keys;
  T* rows = nullptr;
  std::uint32_t const* counts = nullptr;
};

// What a row of a gradient belongs to: an index of the batch, a distinct index of it, or a bag of indices.
enum class RowsPer : unsigned char { index, distinct, bag };

// This rank's gradient rows on their way. Of bags, the gradient of index i is its factor · the row of its bag (both the plan's).
template <class T>
struct OwnRows {
  RowsView<T const> values;
  RowsPer per = RowsPer::index;

  bool distinct() const { return per == RowsPer::distinct; }
};

namespace detail {

// Rows and counts over one hop or one gathering, and their sums by a grouping. Owns what arrived.
template <class T, MemorySpace Space>
struct ArrivedRows {
  Buffer<std::byte, Space> rows;
  Buffer<std::byte> counts;
  T const* first() const { return reinterpret_cast<T const*>(rows.data()); }
  std::span<std::uint32_t const> count_span() const {
    return {reinterpret_cast<std::uint32_t const*>(counts.data()), counts.size() / sizeof(std::uint32_t)};
  }
};

// Writes rows [begin, end) of level k of a plan: this rank's own rows summed by index at the bottom, arrived rows above.
template <class Index, class T, MemorySpace Space>
void write_level(RowOps<Space> const& ops, RowPlan<Index, Space>& plan, std::size_t k, OwnRows<T> const& own,
                 ArrivedRows<T, Space> const& arrived, std::size_t begin, std::size_t end, T* out) {
  std::int64_t const width = own.values.width;
  if (k > 0) {
    RowsView<T const> const rows{arrived.first(), static_cast<std::int64_t>(plan.levels[k].count()), width};
    ops.coalesce(rows, plan.shown(k, ops), begin, end, out);
  } else if (own.per == RowsPer::bag) {
    ops.coalesce_terms(plan.bags.terms(ops, own.values), plan.shown(0, ops), begin, end, out);
  } else if (own.per == RowsPer::index) {
    ops.coalesce(own.values, plan.shown(0, ops), begin, end, out);
  } else {
    ops.pack_rows(own.values, begin, end, out);
  }
}

template <class Index, class T, MemorySpace Space>
void write_level_counts(RowPlan<Index, Space> const& plan, std::size_t k, ArrivedRows<T, Space> const& arrived,
                        std::size_t begin, std::size_t end, std::uint32_t* out) {
  if (k > 0) RowOps<HostSpace>::sum_counts(arrived.count_span(), plan.levels[k], begin, end, out);
  else RowOps<HostSpace>::run_lengths(plan.levels[0], begin, end, out);
}

}  // namespace detail

// What all three journeys share: the plan, the rows, and the result.
template <class Index, class T, MemorySpace Space>
class PushBase {
 public:
  using Plan = RowPlan<Index, Space>;
  using Ops = RowOps<Space>;

  bool travelling = false;

  // Local. `rows` is the bound of the keys; the row memory must stay until the journey has arrived.
  void begin(Ops const& ops, Plan& plan, OwnRows<T> own, std::span<Index const> bases, std::int64_t rows, bool counted) {
    ops_.emplace(ops);
    plan_ = &plan;
    own_ = own;
    bases_ = bases;
    rows_ = rows;
    counted_ = counted;
    hop_ = 0;
    finished_ = false;
    by_ = nullptr;
  }

  Plan& plan() const { return *plan_; }
  // After `reduce`. On a device without rows as long as the sums are put off: what updates the table may make them as it needs
  // them, of the rows that arrived, `addends`, by `groups`.
  ReducedRows<Index, T> const& reduced() const { return reduced_; }
  bool puts_off() const { return by_ != nullptr; }
  RowsView<T const> addends() const { return {arrived_.first(), reduced_count_, own_.values.width}; }
  auto const& groups() const { return *by_; }
  void sum_up() {
    if (!by_) return;
    std::size_t const u = reduced_.keys.size();
    sums_.resize_with_slack(u * static_cast<std::size_t>(own_.values.width));
    ops().coalesce(addends(), *by_, 0, u, sums_.data());
    reduced_.rows = sums_.data();
    by_ = nullptr;
  }

 protected:
  std::size_t row_bytes() const { return static_cast<std::size_t>(own_.values.width) * sizeof(T); }

  Ops const& ops() const { return *ops_; }

  using Groups = std::remove_cvref_t<decltype(std::declval<Shown<Grouping<Index>, Space>&>().of(
      std::declval<Ops const&>(), std::declval<Grouping<Index> const&>()))>;

  // Sums what arrived by `groups`, on a device not yet. Both must stay until the sums are there.
  void sum_by(Grouping<Index> const& groups, Groups const& shown) {
    std::size_t const u = groups.size();
    by_ = &shown;
    reduced_count_ = static_cast<std::int64_t>(groups.count());
    reduced_ = {groups.keys.span(), nullptr, nullptr};
    if constexpr (Space::host_readable) sum_up();
    if (!counted_) return;
    count_sums_.resize_with_slack(u);
    RowOps<HostSpace>::sum_counts(arrived_.count_span(), groups, 0, u, count_sums_.data());
    reduced_.counts = count_sums_.data();
  }

  // What arrived is the result: distinct keys in order already.
  void keep(std::span<Index const> keys) {
    reduced_ = {keys, reinterpret_cast<T*>(arrived_.rows.data()), counted_ ? arrived_.count_span().data() : nullptr};
  }

  std::optional<Ops> ops_;
  Plan* plan_ = nullptr;
  OwnRows<T> own_;
  std::span<Index const> bases_;
  std::int64_t rows_ = 0;
  bool counted_ = false, finished_ = true;
  std::size_t hop_ = 0;
  detail::ArrivedRows<T, Space> arrived_;
  Buffer<T, Space> sums_;
  Buffer<std::uint32_t> count_sums_;
  ReducedRows<Index, T> reduced_;
  std::int64_t reduced_count_ = 0;  // of what they are the sums
  Groups const* by_ = nullptr;
};

// PsShard: rows climb to their owners, summed on every hop. Keys travel only where the plan is not known there yet.
template <Communicator C, class Index, class T, MemorySpace Space>
class ShardPush : public PushBase<Index, T, Space> {
  using Base = PushBase<Index, T, Space>;
  using Base::arrived_, Base::counted_, Base::finished_, Base::hop_, Base::own_, Base::plan_, Base::rows_, Base::row_bytes;

 public:
  void prepare() { counted_hop_ = false; }

  bool next(Mails<C>& mail) {
    if (finished_) return false;
    counting_ = hop_ > 0 && plan_->agreed <= hop_ && !counted_hop_;
    if (counting_) counts_leg_.open(mail.of(), *plan_, hop_);
    else open_rows(mail);
    return true;
  }

  void write(Mails<C>& mail) {
    if (counting_) return counts_leg_.write(mail.of(), *plan_, hop_);
    if (with_keys_) keys_leg_.write(mail.of(), *plan_, hop_);
    Hop const& hop = (*plan_->hops)[hop_];
    for (std::size_t t = 0; t < hop.targets.size(); ++t) {
      std::size_t const begin = plan_->runs[hop_].sent[t], end = plan_->runs[hop_].sent[t + 1];
      if (begin == end) continue;
      detail::write_level(this->ops(), *plan_, hop_, own_, arrived_, begin, end,
                          mail.template of<Space>().template outgoing<T>(rows_slip_, hop.targets[t]));
      if (counted_)
        detail::write_level_counts(*plan_, hop_, arrived_, begin, end,
                                   mail.of().template outgoing<std::uint32_t>(counts_slip_, hop.targets[t]));
    }
  }

  void read(Mails<C>& mail) {
    if (counting_) {
      counted_hop_ = true;
      return counts_leg_.read(mail.of(), *plan_, hop_);
    }
    auto const& sources = (*plan_->hops)[hop_].sources;
    mail.template of<Space>().take(rows_slip_, sources, arrived_.rows);
    if (counted_) mail.of().take(counts_slip_, sources, arrived_.counts);
    if (with_keys_) keys_leg_.read(mail.of(), *plan_, hop_, rows_);
    counted_hop_ = false;
    finished_ = ++hop_ == plan_->hops->size();
    if (!finished_ && plan_->agreed <= hop_) plan_->cut(hop_, this->bases_);
  }

  // Local, after arrival: this owner's rows summed over all sources.
  void reduce() {
    Grouping<Index> const& top = plan_->levels.back();
    if (plan_->hops->back().sources.size() == 1) this->keep(top.keys.span());
    else this->sum_by(top, plan_->shown(plan_->levels.size() - 1, this->ops()));
  }

 private:
  void open_rows(Mails<C>& mail) {
    Hop const& hop = (*plan_->hops)[hop_];
    auto& rows = mail.template of<Space>();
    with_keys_ = plan_->agreed <= hop_;
    if (with_keys_) keys_leg_.open(mail.of(), *plan_, hop_);
    rows_slip_ = rows.open(sizeof(T), Payload::rows);
    if (counted_) counts_slip_ = mail.of().open(sizeof(std::uint32_t), Payload::counts);
    for (std::size_t t = 0; t < hop.targets.size(); ++t) {
      rows.send(rows_slip_, hop.targets[t], plan_->sent(hop_, t) * row_bytes());
      if (counted_) mail.of().send(counts_slip_, hop.targets[t], plan_->sent(hop_, t) * sizeof(std::uint32_t));
    }
    for (std::size_t s = 0; s < hop.sources.size(); ++s) {
      rows.expect(rows_slip_, hop.sources[s], plan_->received_from(hop_, s) * row_bytes());
      if (counted_) mail.of().expect(counts_slip_, hop.sources[s], plan_->received_from(hop_, s) * sizeof(std::uint32_t));
    }
  }

  bool counting_ = false, counted_hop_ = false, with_keys_ = false;
  int rows_slip_ = -1, counts_slip_ = -1;
  detail::CountsLeg<C, RowPlan<Index, Space>> counts_leg_;
  detail::KeysLeg<C, RowPlan<Index, Space>> keys_leg_;
};

// NaivePs: every occurrence, with its key, straight to the owner, which sums in the order (rank, position).
template <Communicator C, class Index, class T, MemorySpace Space>
class NaivePush : public PushBase<Index, T, Space> {
  using Base = PushBase<Index, T, Space>;
  using Base::arrived_, Base::counted_, Base::finished_, Base::own_, Base::plan_, Base::rows_, Base::row_bytes;

 public:
  // Local. How many occurrences go to each target; `expected` is filled from the agreement before the journey starts.
  void prepare() {
    Hop const& hop = plan_->hops->front();
    sent_.resize(hop.targets.size() + 1);
    expected_.assign(hop.sources.size(), 0);
    for (std::size_t t = 0; t <= hop.targets.size(); ++t)
      sent_[t] = plan_->levels[0].offsets[plan_->runs[0].sent[t]];
  }
  std::size_t sent(std::size_t target) const { return sent_[target + 1] - sent_[target]; }
  void expect(std::size_t source, std::size_t count) { expected_[source] = count; }

  bool next(Mails<C>& mail) {
    if (finished_) return false;
    Hop const& hop = plan_->hops->front();
    auto& rows = mail.template of<Space>();
    keys_slip_ = mail.of().open(sizeof(Index), Payload::ids);
    rows_slip_ = rows.open(sizeof(T), Payload::rows);
    for (std::size_t t = 0; t < hop.targets.size(); ++t) {
      mail.of().send(keys_slip_, hop.targets[t], (sent_[t + 1] - sent_[t]) * sizeof(Index));
      rows.send(rows_slip_, hop.targets[t], (sent_[t + 1] - sent_[t]) * row_bytes());
    }
    for (std::size_t s = 0; s < hop.sources.size(); ++s) {
      mail.of().expect(keys_slip_, hop.sources[s], expected_[s] * sizeof(Index));
      rows.expect(rows_slip_, hop.sources[s], expected_[s] * row_bytes());
    }
    return true;
  }

  void write(Mails<C>& mail) {
    Hop const& hop = plan_->hops->front();
    Grouping<Index> const& own = plan_->levels[0];
    for (std::size_t t = 0; t < hop.targets.size(); ++t) {
      std::size_t const n = sent_[t + 1] - sent_[t];
      if (n == 0) continue;
      auto* const keys = mail.of().template outgoing<Index>(keys_slip_, hop.targets[t]);
      for (std::size_t i = 0; i < n; ++i) keys[i] = own.keys[own.inverse[own.order[sent_[t] + i]]];
      T* const rows = mail.template of<Space>().template outgoing<T>(rows_slip_, hop.targets[t]);
      auto const& ops = this->ops();
      auto const positions = ops.order(plan_->shown(0, ops)).subspan(sent_[t], n);
      if (own_.per == RowsPer::bag) ops.gather_terms(plan_->bags.terms(ops, own_.values), positions, rows);
      else ops.gather_rows(own_.values, positions, 0, rows);
    }
  }

  void read(Mails<C>& mail) {
    auto const& sources = plan_->hops->front().sources;
    mail.of().take(keys_slip_, sources, arrived_keys_);
    mail.template of<Space>().take(rows_slip_, sources, arrived_.rows);
    finished_ = true;
  }

  void reduce() {
    std::size_t const n = arrived_keys_.size() / sizeof(Index);
    std::span const keys{reinterpret_cast<Index const*>(arrived_keys_.data()), n};
    RowOps<HostSpace>::unique_with_inverse(keys, rows_, groups_, plan_->sort);
    if (counted_) {
      arrived_.counts.resize_with_slack(n * sizeof(std::uint32_t));
      std::fill_n(reinterpret_cast<std::uint32_t*>(arrived_.counts.data()), n, 1u);
    }
    shown_.renew();
    this->sum_by(groups_, shown_.of(this->ops(), groups_));
  }

 private:
  int keys_slip_ = -1, rows_slip_ = -1;
  std::vector<std::size_t> sent_, expected_;
  Buffer<std::byte> arrived_keys_;
  Grouping<Index> groups_;
  Shown<Grouping<Index>, Space> shown_;
};

// AllGather: rows climb as far as the last hop, are gathered there by all ranks of it and merged, and what one slot has
// merged is gathered by all ranks of the host. On a flat topology: one allgatherv.
template <Communicator C, class Index, class T, MemorySpace Space>
class GatherPush : public PushBase<Index, T, Space> {
  using Base = PushBase<Index, T, Space>;
  using Base::arrived_, Base::counted_, Base::finished_, Base::hop_, Base::own_, Base::plan_, Base::rows_, Base::row_bytes;

 public:
  // Before the journey: the number of distinct rows of this rank, and on a flat topology those of all others.
  void expect(std::size_t source, std::size_t count) { expected_[source] = count; }
  void prepare() {
    stage_ = plan_->hops->size() == 1 ? Stage::gather : Stage::climb;
    counted_stage_ = plan_->hops->size() == 1;
    expected_.assign(plan_->hops->front().sources.size(), 0);
  }

  bool next(Mails<C>& mail) {
    if (finished_) return false;
    if (stage_ == Stage::climb) open_climb(mail);
    else if (!counted_stage_) open_counts(mail);
    else open_gather(mail);
    return true;
  }

  void write(Mails<C>& mail) {
    if (stage_ == Stage::climb) return write_climb(mail);
    if (!counted_stage_) return mail.of().template write_shared<std::uint64_t>(keys_slip_, [&](auto* out) { *out = gives(); });
    mail.of().template write_shared<Index>(keys_slip_, [&](Index* out) { std::copy_n(given_keys(), gives(), out); });
    mail.template of<Space>().template write_shared<T>(rows_slip_, [&](T* out) { write_given(out); });
    if (counted_)
      mail.of().template write_shared<std::uint32_t>(counts_slip_, [&](std::uint32_t* out) { write_given_counts(out); });
  }

  void read(Mails<C>& mail) {
    if (stage_ == Stage::climb) return read_climb(mail);
    std::vector<int> const& givers = givers_of_stage();
    if (!counted_stage_) {
      expected_.assign(givers.size(), 0);
      for (std::size_t s = 0; s < givers.size(); ++s)
        expected_[s] = *mail.of().template incoming<std::uint64_t>(keys_slip_, givers[s]);
      counted_stage_ = true;
      return;
    }
    mail.of().take(keys_slip_, givers, arrived_keys_);
    mail.template of<Space>().take(rows_slip_, givers, arrived_.rows);
    if (counted_) mail.of().take(counts_slip_, givers, arrived_.counts);
    if (stage_ == Stage::gather && plan_->hops->size() > 1) {
      merge();
      stage_ = Stage::spread;
      counted_stage_ = false;
    } else {
      finished_ = true;
    }
  }

  void reduce() {
    std::span const keys{reinterpret_cast<Index const*>(arrived_keys_.data()), arrived_keys_.size() / sizeof(Index)};
    if (stage_ == Stage::spread) this->keep(keys);  // slots ascend, so their keys do
    else merge();
  }

 private:
  enum class Stage : unsigned char { climb, gather, spread };

  Hop const& gather_hop() const { return plan_->hops->back(); }
  std::size_t level() const { return plan_->hops->size() - 1; }  // what climbed so far
  std::size_t gives() const {
    if (stage_ == Stage::spread) return gives_here() ? this->reduced_.keys.size() : 0;
    return plan_->levels[level()].size();
  }
  bool gives_here() const { return plan_->hops->front().self >= 0; }
  Index const* given_keys() const {
    return stage_ == Stage::spread ? this->reduced_.keys.data() : plan_->levels[level()].keys.data();
  }
  void write_given(T* out) const {
    if (stage_ == Stage::spread) this->ops().copy_bytes(out, this->reduced_.rows, gives() * row_bytes());
    else detail::write_level(this->ops(), *plan_, level(), own_, arrived_, 0, gives(), out);
  }
  void write_given_counts(std::uint32_t* out) const {
    if (stage_ == Stage::spread) std::memcpy(out, this->reduced_.counts, gives() * sizeof(std::uint32_t));
    else detail::write_level_counts(*plan_, level(), arrived_, 0, gives(), out);
  }

  // In the gathering the ranks of the last hop give to each other; in the spreading every slot gives to its host.
  std::vector<int> const& givers_of_stage() const {
    return stage_ == Stage::spread ? plan_->hops->front().targets : gather_hop().sources;
  }
  std::vector<int> const& takers_of_stage() const {
    return stage_ == Stage::spread ? plan_->hops->front().sources : gather_hop().targets;
  }

  void open_climb(Mails<C>& mail) {
    Hop const& hop = plan_->hops->front();
    auto& rows = mail.template of<Space>();
    keys_leg_.open(mail.of(), *plan_, 0);
    rows_slip_ = rows.open(sizeof(T), Payload::rows);
    if (counted_) counts_slip_ = mail.of().open(sizeof(std::uint32_t), Payload::counts);
    for (std::size_t t = 0; t < hop.targets.size(); ++t) {
      rows.send(rows_slip_, hop.targets[t], plan_->sent(0, t) * row_bytes());
      if (counted_) mail.of().send(counts_slip_, hop.targets[t], plan_->sent(0, t) * sizeof(std::uint32_t));
    }
    for (std::size_t s = 0; s < hop.sources.size(); ++s) {
      rows.expect(rows_slip_, hop.sources[s], plan_->received_from(0, s) * row_bytes());
      if (counted_) mail.of().expect(counts_slip_, hop.sources[s], plan_->received_from(0, s) * sizeof(std::uint32_t));
    }
  }
  void write_climb(Mails<C>& mail) {
    Hop const& hop = plan_->hops->front();
    keys_leg_.write(mail.of(), *plan_, 0);
    for (std::size_t t = 0; t < hop.targets.size(); ++t) {
      std::size_t const begin = plan_->runs[0].sent[t], end = plan_->runs[0].sent[t + 1];
      if (begin == end) continue;
      detail::write_level(this->ops(), *plan_, 0, own_, arrived_, begin, end,
                          mail.template of<Space>().template outgoing<T>(rows_slip_, hop.targets[t]));
      if (counted_)
        detail::write_level_counts(*plan_, 0, arrived_, begin, end,
                                   mail.of().template outgoing<std::uint32_t>(counts_slip_, hop.targets[t]));
    }
  }
  void read_climb(Mails<C>& mail) {
    auto const& sources = plan_->hops->front().sources;
    mail.template of<Space>().take(rows_slip_, sources, arrived_.rows);
    if (counted_) mail.of().take(counts_slip_, sources, arrived_.counts);
    keys_leg_.read(mail.of(), *plan_, 0, rows_);
    stage_ = Stage::gather;
    counted_stage_ = false;
  }

  void open_counts(Mails<C>& mail) {
    keys_slip_ = mail.of().open_shared(sizeof(std::uint64_t), Payload::control);
    if (is_giver())
      for (int const rank : takers_of_stage()) mail.of().send(keys_slip_, rank, sizeof(std::uint64_t));
    for (int const rank : givers_of_stage()) mail.of().expect(keys_slip_, rank, sizeof(std::uint64_t));
  }
  void open_gather(Mails<C>& mail) {
    auto& rows = mail.template of<Space>();
    keys_slip_ = mail.of().open_shared(sizeof(Index), Payload::ids);
    rows_slip_ = rows.open_shared(sizeof(T), Payload::rows);
    if (counted_) counts_slip_ = mail.of().open_shared(sizeof(std::uint32_t), Payload::counts);
    if (is_giver())
      for (int const rank : takers_of_stage()) {
        mail.of().send(keys_slip_, rank, gives() * sizeof(Index));
        rows.send(rows_slip_, rank, gives() * row_bytes());
        if (counted_) mail.of().send(counts_slip_, rank, gives() * sizeof(std::uint32_t));
      }
    auto const& givers = givers_of_stage();
    for (std::size_t s = 0; s < givers.size(); ++s) {
      mail.of().expect(keys_slip_, givers[s], expected_[s] * sizeof(Index));
      rows.expect(rows_slip_, givers[s], expected_[s] * row_bytes());
      if (counted_) mail.of().expect(counts_slip_, givers[s], expected_[s] * sizeof(std::uint32_t));
    }
  }
  bool is_giver() const { return stage_ == Stage::spread ? gives_here() : gather_hop().self >= 0; }

  void merge() {
    std::span const keys{reinterpret_cast<Index const*>(arrived_keys_.data()), arrived_keys_.size() / sizeof(Index)};
    RowOps<HostSpace>::unique_with_inverse(keys, rows_, groups_, plan_->sort);
    shown_.renew();
    this->sum_by(groups_, shown_.of(this->ops(), groups_));
    this->sum_up();
  }

  Stage stage_ = Stage::gather;
  bool counted_stage_ = false;
  int keys_slip_ = -1, rows_slip_ = -1, counts_slip_ = -1;
  std::vector<std::size_t> expected_;
  Buffer<std::byte> arrived_keys_;
  Grouping<Index> groups_;
  Shown<Grouping<Index>, Space> shown_;
  detail::KeysLeg<C, RowPlan<Index, Space>> keys_leg_;
};

}  // namespace parallax
