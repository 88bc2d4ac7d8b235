// The legs of journeys of rows: each a transfer from level k of a plan over hop k, or to everybody. A journey owns its legs,
// opens the slips of the next one, writes, and reads its arrivals. All of it is local: the mail travels.
#pragma once

#include <cstdint>
#include <span>

#include "parallax/detail/core/function_ref.hpp"
#include "parallax/detail/core/list.hpp"
#include "parallax/detail/kernel/host/bags.hpp"
#include "parallax/detail/policy/journey/row_plan.hpp"
#include "parallax/detail/policy/update.hpp"
#include "parallax/detail/transfer/mail.hpp"
#include "parallax/detail/transfer/wire_slip.hpp"

namespace parallax::inline v0_2 {

// Rows that came in over one leg, and the number of indices of each. Owns them.
template <class T, MemorySpace Space>
struct ArrivedRows {
  // Packed rows of T, source after source, decoded if the wire encodes.
  Buffer<std::byte, Space> rows;
  // A number for each row, in the same memory; empty if rows are not counted.
  Buffer<std::byte, Space> counts;
  // Returns the first element of the first row.
  T const* first() const { return reinterpret_cast<T const*>(rows.data()); }
  // Returns the counts as numbers, in the order of the rows.
  std::span<std::uint32_t const> count_span() const {
    return {reinterpret_cast<std::uint32_t const*>(counts.data()), counts.size() / sizeof(std::uint32_t)};
  }
};

// Writes rows [begin, end) of level k of a plan to `out`, local: own rows summed by index at level 0, `arrived` ones summed by
// key above. `out` has room for them, packed, in memory of the space.
template <class Index, class T, MemorySpace Space>
void write_level(RowOps<Space> const& ops, RowPlan<Index, Space>& plan, std::size_t k, OwnRows<T> const& own,
                 ArrivedRows<T, Space> const& arrived, std::size_t begin, std::size_t end, T* out) {
  std::int64_t const width = own.values.width;
  if (k > 0) {
    RowsView<T const> const rows{arrived.first(), static_cast<std::int64_t>(plan.level(k).count()), width};
    ops.coalesce(rows, plan.level(k).there(ops), begin, end, out);
  } else if (own.per == RowsPer::bag) {
    ops.coalesce_terms(plan.bags.terms(own.values), plan.groups.there(ops), begin, end, out);
  } else if (own.per == RowsPer::index) {
    ops.coalesce(own.values, plan.groups.there(ops), begin, end, out);
  } else {
    ops.pack_rows(own.values, begin, end, out);
  }
}
// Writes to `out` the number of indices, of all ranks below, of each key [begin, end) of level k, in memory of the space.
template <class Index, class T, MemorySpace Space>
void write_level_counts(RowOps<Space> const& ops, RowPlan<Index, Space>& plan, std::size_t k,
                        ArrivedRows<T, Space> const& arrived, std::size_t begin, std::size_t end, std::uint32_t* out) {
  if (k > 0) ops.sum_counts(arrived.count_span(), plan.level(k).there(ops), begin, end, out);
  else plan.times_named(ops, begin, end, out);
}

// Counts reads in place as if sent, local: `bytes` bytes for each key of the runs of hop 0, from a rank that asks or pushes to
// the owners if `up`, else down from them.
template <Communicator C, class Plan>
[[gnu::noinline]] void count_lent_runs(Lane<C>& lane, Plan const& plan, std::size_t bytes, Payload payload, bool up) {
  Hop const& hop = plan.hops.front();
  auto const count = [&](int rank, std::size_t here, bool sends) {
    lane.count_lent(rank, sends ? here * bytes : 0, sends ? 0 : here * bytes, payload);
  };
  for (std::size_t t = 0; t < hop.targets.size(); ++t) count(hop.targets[t], plan.sent(0, t), up);
  for (std::size_t s = 0; s < hop.sources.size(); ++s) count(hop.sources[s], plan.received_from(0, s), !up);
}

// The leg of the numbers of keys of level k for each target of hop k. Control bytes.
template <Communicator C, class Plan>
struct CountsLeg {
  // The slip in the host's mail, of the transfer at hand.
  int slip = -1;
  // Opens a number for each target, and from each source.
  void open(Mail<C>& mail, Plan const& plan, std::size_t k) {
    slip = mail.open(sizeof(std::uint64_t), Payload::control);
    for (int const target : plan.hops[k].targets) mail.send(slip, target, sizeof(std::uint64_t));
    for (int const source : plan.hops[k].sources) mail.expect(slip, source, sizeof(std::uint64_t));
  }
  // Writes the lengths of this rank's runs; level k is cut by then.
  void write(Mail<C>& mail, Plan const& plan, std::size_t k) {
    auto const& targets = plan.hops[k].targets;
    for (std::size_t t = 0; t < targets.size(); ++t) *mail.template outgoing<std::uint64_t>(slip, targets[t]) = plan.sent(k, t);
  }
  // Has the plan expect each source's announced keys, so that they can follow.
  void read(Mail<C>& mail, Plan& plan, std::size_t k) {
    auto const& sources = plan.hops[k].sources;
    for (std::size_t s = 0; s < sources.size(); ++s)
      plan.expect(k, s, *mail.template incoming<std::uint64_t>(slip, sources[s]));
  }
};

// The leg of the keys of level k to the targets of hop k; on arrival they are merged into level k + 1.
template <Communicator C, class Plan>
struct KeysLeg {
  // The integer type of a key.
  using Index = typename Plan::index_type;
  // The space of travelling keys: they go in the mail of their table's memory.
  using Space = typename Plan::space;
  // Operations that sum rows in memory of the space.
  using Ops = RowOps<Space>;
  // The slip in the mail of the keys' space.
  int slip = -1;
  // Opens a run of keys for each target, and from each source; both sides know their lengths by the plan.
  void open(Mails<C>& mails, Plan const& plan, std::size_t k) {
    auto& mail = mails.template of<Space>();
    Hop const& hop = plan.hops[k];
    slip = mail.open(sizeof(Index), Payload::ids);
    for (std::size_t t = 0; t < hop.targets.size(); ++t) mail.send(slip, hop.targets[t], plan.sent(k, t) * sizeof(Index));
    for (std::size_t s = 0; s < hop.sources.size(); ++s)
      mail.expect(slip, hop.sources[s], plan.received_from(k, s) * sizeof(Index));
  }
  // Writes level k's keys, run after run.
  void write(Mails<C>& mails, Ops const& ops, Plan& plan, std::size_t k) {
    auto& mail = mails.template of<Space>();
    Hop const& hop = plan.hops[k];
    Index const* const keys = plan.level(k).keys_there(ops);
    auto copies = ops.copies();
    for (std::size_t t = 0; t < hop.targets.size(); ++t)
      if (std::size_t const n = plan.sent(k, t))
        copies.add(mail.template outgoing<Index>(slip, hop.targets[t]), keys + plan.runs[k].sent[t], n * sizeof(Index));
    copies.start();
  }
  // Takes the keys, less than `rows`, and merges them into level k + 1. From here on the ranks of the hop know its runs.
  void read(Mails<C>& mails, Ops const& ops, Plan& plan, std::size_t k, std::int64_t rows) {
    mails.template of<Space>().take(slip, plan.hops[k].sources, plan.received);
    plan.merge_received(ops, k, rows);
  }
};

// The leg of the rows of level k, and their counts if `counted`, to the targets of hop k. `arrived` has the rows over the hop
// below, and then the ones over this hop. Rows travel by the wire.
template <Communicator C, class Index, class T, MemorySpace Space, class W = IdentityWire>
struct RowsLeg {
  // The plan with the rows' levels.
  using Plan = RowPlan<Index, Space>;
  // The rows, in the mail of their memory.
  WireSlip<C, W, T, Space> rows_slip;
  // The counts, in the same mail.
  int counts_slip = -1;

  // Opens rows of `width` elements for each key of the runs. `counted`: with the number of indices of each key.
  void open(Mails<C>& mail, Plan const& plan, std::size_t k, std::int64_t width, bool counted) {
    Hop const& hop = plan.hops[k];
    auto& rows = mail.template of<Space>();
    auto const elements = static_cast<std::size_t>(width);
    rows_slip.open(rows, Payload::rows);
    if (counted) counts_slip = rows.open(sizeof(std::uint32_t), Payload::counts);
    for (std::size_t t = 0; t < hop.targets.size(); ++t) {
      rows_slip.send(rows, hop.targets[t], plan.sent(k, t) * elements);
      if (counted) rows.send(counts_slip, hop.targets[t], plan.sent(k, t) * sizeof(std::uint32_t));
    }
    for (std::size_t s = 0; s < hop.sources.size(); ++s) {
      rows_slip.expect(rows, hop.sources[s], plan.received_from(k, s) * elements);
      if (counted) rows.expect(counts_slip, hop.sources[s], plan.received_from(k, s) * sizeof(std::uint32_t));
    }
  }
  // Writes the runs. `own` are this rank's rows for level 0, `arrived` the rows of a level k above it.
  void write(Mails<C>& mail, RowOps<Space> const& ops, Plan& plan, std::size_t k, OwnRows<T> const& own,
             ArrivedRows<T, Space> const& arrived, bool counted) {
    Hop const& hop = plan.hops[k];
    List<std::size_t> const& begins = plan.runs[k].sent;
    rows_slip.write_runs(mail.template of<Space>(), hop.targets, [&](std::size_t first, std::size_t last, T* out) {
      write_level(ops, plan, k, own, arrived, begins[first], begins[last], out);
    });
    for (std::size_t t = 0; counted && t < hop.targets.size(); ++t)
      if (begins[t] < begins[t + 1])
        write_level_counts(ops, plan, k, arrived, begins[t], begins[t + 1],
                           mail.template of<Space>().template outgoing<std::uint32_t>(counts_slip, hop.targets[t]));
  }
  // Takes rows and counts, source after source, into `arrived`.
  void read(Mails<C>& mail, Plan const& plan, std::size_t k, ArrivedRows<T, Space>& arrived, bool counted) {
    auto const& sources = plan.hops[k].sources;
    rows_slip.take(mail.template of<Space>(), sources, arrived.rows);
    if (counted) mail.template of<Space>().take(counts_slip, sources, arrived.counts);
  }
};

// The leg of the same keys, rows and counts from a giver to all takers; a leg of sizes goes before if they are not known.
template <Communicator C, class Index, class T, MemorySpace Space, class W = IdentityWire>
struct GatherLeg {
  // This rank's gift; `rows(out)` and `counts(out)` write them.
  struct Given {
    // Distinct and ascending, in memory of the space.
    std::span<Index const> keys;
    // Called once, with room for a packed row of each key; must outlive the `write` only.
    FunctionRef<void(T*)> rows;
    // Called once if rows are counted, with room for a number of each key.
    FunctionRef<void(std::uint32_t*)> counts;
  };

  List<std::size_t> expected;     // keys, by giver
  Buffer<std::byte, Space> keys;  // as they arrived, giver after giver

  // The keys' slip; in the leg of sizes the slip of their number, in the host's mail.
  int keys_slip = -1, counts_slip = -1;  // the counts' slip
  // The rows; like keys and counts they go in the mail of their memory.
  WireSlip<C, W, T, Space> rows_slip;

  // Opens the leg of sizes. The givers name this rank among their takers, and the takers name it among their givers.
  void open_sizes(Mail<C>& mail, Slice<int const> takers, Slice<int const> givers) {
    keys_slip = mail.open_shared(sizeof(std::uint64_t), Payload::control);
    for (int const rank : takers) mail.send(keys_slip, rank, sizeof(std::uint64_t));
    for (int const rank : givers) mail.expect(keys_slip, rank, sizeof(std::uint64_t));
  }
  // Writes the number of keys this rank is going to give.
  void write_size(Mail<C>& mail, std::size_t size) {
    mail.template write_shared<std::uint64_t>(keys_slip, [&](auto* out) { *out = size; });
  }
  // Fills `expected`, the number of keys of each giver, by the places of `givers`.
  void read_sizes(Mail<C>& mail, Slice<int const> givers) {
    expected.assign(givers.size(), 0);
    for (std::size_t s = 0; s < givers.size(); ++s) expected[s] = *mail.template incoming<std::uint64_t>(keys_slip, givers[s]);
  }

  // Opens the leg of keys: `gives` of this rank, the same for each taker, and `expected` ones from each giver.
  void open(Mails<C>& mail, std::size_t gives, Slice<int const> takers, Slice<int const> givers, std::int64_t width,
            bool counted) {
    auto& rows = mail.template of<Space>();
    auto const elements = static_cast<std::size_t>(width);
    keys_slip = rows.open_shared(sizeof(Index), Payload::ids);
    rows_slip.open_shared(rows, Payload::rows);
    if (counted) counts_slip = rows.open_shared(sizeof(std::uint32_t), Payload::counts);
    for (int const rank : takers) {
      rows.send(keys_slip, rank, gives * sizeof(Index));
      rows_slip.send(rows, rank, gives * elements);
      if (counted) rows.send(counts_slip, rank, gives * sizeof(std::uint32_t));
    }
    for (std::size_t s = 0; s < givers.size(); ++s) {
      rows.expect(keys_slip, givers[s], expected[s] * sizeof(Index));
      rows_slip.expect(rows, givers[s], expected[s] * elements);
      if (counted) rows.expect(counts_slip, givers[s], expected[s] * sizeof(std::uint32_t));
    }
  }
  // Writes the gift once, for all takers.
  void write(Mails<C>& mail, Given const& given, bool counted) {
    auto& rows = mail.template of<Space>();
    auto const queue = queue_of<Space>(rows.topology().world());
    rows.template write_shared<Index>(
        keys_slip, [&](Index* out) { copy_bytes(queue, out, given.keys.data(), given.keys.size() * sizeof(Index)); });
    rows_slip.write_shared(rows, given.rows);
    if (counted) rows.template write_shared<std::uint32_t>(counts_slip, given.counts);
  }
  // Takes keys into `keys`, rows and counts into `arrived`, giver after giver: a key of several givers comes as often.
  void read(Mails<C>& mail, Slice<int const> givers, ArrivedRows<T, Space>& arrived, bool counted) {
    auto& rows = mail.template of<Space>();
    rows.take(keys_slip, givers, keys);
    rows_slip.take(rows, givers, arrived.rows);
    if (counted) rows.take(counts_slip, givers, arrived.counts);
  }
  // Returns `keys` as numbers, a key for each arrived row, in memory of the space; this object's.
  std::span<Index const> arrived_keys() const {
    return {reinterpret_cast<Index const*>(keys.data()), keys.size() / sizeof(Index)};
  }
};

}  // namespace parallax
