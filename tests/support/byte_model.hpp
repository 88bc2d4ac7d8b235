// How many bytes every rank must send and receive in an exchange, counted over the actual sets of indices, without the library.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <string>
#include <vector>

namespace parallax_test::bytes {

enum class Kind : unsigned char { dense, rows, ids, counts };
inline constexpr std::array<char const*, 4> kind_names = {"dense", "row", "id", "count"};

struct Count {
  std::uint64_t all = 0, between_hosts = 0;
  friend bool operator==(Count const&, Count const&) = default;
};

// What one rank sends and receives, by kind.
struct Flow {
  std::array<Count, 4> sent{}, received{};
  friend bool operator==(Flow const&, Flow const&) = default;

  std::uint64_t total_sent() const {
    std::uint64_t sum = 0;
    for (Count const& count : sent) sum += count.all;
    return sum;
  }
};

// Returns the bytes that a block of `size` takes on a connection between ranks over sockets: in parts of 256 KiB, each behind a
// header of 24 bytes, and with checksums before a sum of 4.
constexpr std::uint64_t on_connection(std::uint64_t size, bool checksums) {
  std::uint64_t const parts = (size + (256 << 10) - 1) / (256 << 10);
  return size + parts * (checksums ? 28 : 24);
}

using Indices = std::vector<std::int64_t>;
using Distinct = std::set<std::int64_t>;

// Ranks on hosts, and the bytes that have travelled between them. Without hosts every rank is one, and owner o is rank o.
// With hosts: of every host the first k ranks own, k being the size of the smallest; owner = slot · hosts + host.
class Network {
 public:
  explicit Network(int ranks, std::vector<int> const& host_of_rank = {})
      : two_levels_{!host_of_rank.empty()}, flows(static_cast<std::size_t>(ranks)) {
    std::vector<int> names;
    for (std::size_t rank = 0; rank < flows.size(); ++rank) {
      int const name = two_levels_ ? host_of_rank[rank] : static_cast<int>(rank);
      auto const at = static_cast<std::size_t>(std::find(names.begin(), names.end(), name) - names.begin());
      if (at == names.size()) {
        names.push_back(name);
        hosts_.emplace_back();
      }
      host_of_.push_back(at);
      hosts_[at].push_back(rank);
    }
    slots_ = hosts_[0].size();
    for (auto const& host : hosts_) slots_ = std::min(slots_, host.size());
  }

  std::size_t ranks() const { return flows.size(); }
  std::size_t owners() const { return slots_ * hosts_.size(); }
  std::size_t owner_rank(std::size_t owner) const { return hosts_[owner % hosts_.size()][owner / hosts_.size()]; }

  // ---- dense -----------------------------------------------------------------------------------------------------------

  // `size` elements of `bytes` each, dealt to the owners in runs of whole `unit`s: summed at the owners, then gathered by all.
  void reduce_and_gather(std::size_t size, std::size_t bytes, std::size_t unit = 1) {
    each_part(size, bytes, unit, [&](std::size_t rank, std::size_t owner, std::size_t part) {
      carry(rank, owner, Kind::dense, part);
      carry(owner, rank, Kind::dense, part);
    });
  }
  // The `number`-th tensor lies whole on one owner: past the hosts, each rank's gradient goes there, and the sum comes back.
  void sum_on_server(std::size_t number, std::size_t bytes) {
    std::size_t const server = owner_rank(number % owners());
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      carry(rank, server, Kind::dense, bytes);
      carry(server, rank, Kind::dense, bytes);
    }
  }
  // Rank 0 deals the parts, then all gather them.
  void broadcast(std::size_t size, std::size_t bytes) {
    for (std::size_t o = 0; o < owners(); ++o) carry(0, owner_rank(o), Kind::dense, part_size(size, o, 1) * bytes);
    each_part(size, bytes, 1,
              [&](std::size_t rank, std::size_t owner, std::size_t part) { carry(owner, rank, Kind::dense, part); });
  }

  // ---- rows ------------------------------------------------------------------------------------------------------------

  struct Table {
    std::size_t row_bytes, id_bytes;
    bool counted;                                    // 4 bytes more for every row pushed: how many indices named it
    std::function<std::size_t(std::int64_t)> owner;  // of a row
  };

  // Every rank's distinct ids once to the owners, the rows back the same way. `direct`: past the hosts.
  void pull(Table const& table, std::vector<Indices> const& by_rank, bool direct = false) {
    each_move(table, by_rank, direct, [&](std::size_t from, std::size_t to) {
      carry(from, to, Kind::ids, table.id_bytes);
      carry(to, from, Kind::rows, table.row_bytes);
    });
  }
  // Every rank's distinct rows to the owners; with their ids where these were not pulled before.
  void push(Table const& table, std::vector<Indices> const& by_rank, bool with_ids) {
    each_move(table, by_rank, false, [&](std::size_t from, std::size_t to) { give(table, from, to, with_ids); });
  }
  // Every occurrence with its id straight to the owner.
  void push_occurrences(Table const& table, std::vector<Indices> const& by_rank) {
    for (std::size_t rank = 0; rank < ranks(); ++rank)
      for (std::int64_t const id : by_rank[rank]) {
        carry(rank, owner_rank(table.owner(id)), Kind::ids, table.id_bytes);
        carry(rank, owner_rank(table.owner(id)), Kind::rows, table.row_bytes);
      }
  }
  // Every rank's distinct rows to every rank. On two levels: to the slots of the host, by the slots to the other hosts, and
  // what a slot has then to the ranks of its host.
  void gather(Table const& table, std::vector<Indices> const& by_rank) {
    if (!two_levels_) {
      for (std::size_t rank = 0; rank < ranks(); ++rank)
        for ([[maybe_unused]] std::int64_t const id : Distinct(by_rank[rank].begin(), by_rank[rank].end()))
          for (std::size_t other = 0; other < ranks(); ++other) give(table, rank, other, true);
      return;
    }
    auto const at_slots = climb(table, by_rank, [&](std::size_t from, std::size_t to) { give(table, from, to, true); });
    for (std::size_t slot = 0; slot < slots_; ++slot) {
      Distinct everywhere;
      for (std::size_t host = 0; host < hosts_.size(); ++host) {
        Distinct const& here = at_slots[hosts_[host][slot]];
        everywhere.insert(here.begin(), here.end());
        for ([[maybe_unused]] std::int64_t const id : here)
          for (auto const& other : hosts_) give(table, hosts_[host][slot], other[slot], true);
      }
      for (auto const& host : hosts_)
        for (std::size_t const rank : host)
          for (std::size_t n = 0; n < everywhere.size(); ++n) give(table, host[slot], rank, true);
    }
  }

 private:
  void carry(std::size_t from, std::size_t to, Kind kind, std::uint64_t bytes) {
    if (from == to) return;
    Count &out = flows[from].sent[static_cast<std::size_t>(kind)], &in = flows[to].received[static_cast<std::size_t>(kind)];
    out.all += bytes;
    in.all += bytes;
    if (host_of_[from] == host_of_[to]) return;
    out.between_hosts += bytes;
    in.between_hosts += bytes;
  }
  void give(Table const& table, std::size_t from, std::size_t to, bool with_id) {
    if (with_id) carry(from, to, Kind::ids, table.id_bytes);
    carry(from, to, Kind::rows, table.row_bytes);
    if (table.counted) carry(from, to, Kind::counts, 4);
  }

  std::size_t part_size(std::size_t size, std::size_t owner, std::size_t unit) const {
    std::size_t const units = unit ? size / unit : 0;
    return (units * (owner + 1) / owners() - units * owner / owners()) * unit;
  }
  // Calls f(rank, rank of the owner, bytes of the part) for every leg on which a part travels towards its owner.
  template <class F>
  void each_part(std::size_t size, std::size_t bytes, std::size_t unit, F&& f) const {
    for (std::size_t o = 0; o < owners(); ++o) {
      std::size_t const part = part_size(size, o, unit) * bytes, slot = o / hosts_.size();
      for (auto const& host : hosts_) {
        if (two_levels_)
          for (std::size_t const rank : host) f(rank, host[slot], part);
        f(host[slot], owner_rank(o), part);
      }
    }
  }

  // The distinct ids that reach each rank from the ranks of its host; f(from, to) for every id and move.
  template <class F>
  std::vector<Distinct> climb(Table const& table, std::vector<Indices> const& by_rank, F&& f) const {
    std::vector<Distinct> at_slots(ranks());
    for (auto const& host : hosts_)
      for (std::size_t const rank : host)
        for (std::int64_t const id : Distinct(by_rank[rank].begin(), by_rank[rank].end())) {
          std::size_t const slot = host[table.owner(id) / hosts_.size()];
          f(rank, slot);
          at_slots[slot].insert(id);
        }
    return at_slots;
  }
  // f(from, to) for every move of an id towards its owner.
  template <class F>
  void each_move(Table const& table, std::vector<Indices> const& by_rank, bool direct, F&& f) const {
    if (!two_levels_ || direct) {
      for (std::size_t rank = 0; rank < ranks(); ++rank)
        for (std::int64_t const id : Distinct(by_rank[rank].begin(), by_rank[rank].end())) f(rank, owner_rank(table.owner(id)));
      return;
    }
    auto const at_slots = climb(table, by_rank, f);
    for (std::size_t rank = 0; rank < ranks(); ++rank)
      for (std::int64_t const id : at_slots[rank]) f(rank, owner_rank(table.owner(id)));
  }

  bool two_levels_;
  std::vector<std::vector<std::size_t>> hosts_;  // ranks of each host, hosts in the order of their first rank
  std::vector<std::size_t> host_of_;
  std::size_t slots_ = 0;

 public:
  std::vector<Flow> flows;  // by rank
};

}  // namespace parallax_test::bytes
