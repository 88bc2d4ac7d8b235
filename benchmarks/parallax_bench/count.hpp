// How many bytes every rank must send and receive in a step, counted over the id sets of all ranks, without the library.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "ids.hpp"

namespace bench {

struct Bytes {
  std::uint64_t all = 0, between_hosts = 0;
  friend bool operator==(Bytes const&, Bytes const&) = default;
};
struct Flow {
  Bytes sent, received;
  friend bool operator==(Flow const&, Flow const&) = default;
};

// Ranks on hosts, and what has travelled between them. Without hosts every rank is one, and owner o is rank o. With hosts, the
// first k ranks of every host own, k being the size of the smallest; owner = slot · hosts + host; what is summed on the way to
// an owner passes the rank of its slot on the same host. What crosses is what leaves a machine; by default every host is one.
class ByteCount {
 public:
  ByteCount(int ranks, std::vector<int> const& host_of_rank, std::vector<int> const& machine_of_rank = {})
      : flows(at(ranks)), two_levels_{!host_of_rank.empty()} {
    std::vector<int> names;
    for (std::size_t rank = 0; rank < flows.size(); ++rank) {
      int const name = two_levels_ ? host_of_rank[rank] : static_cast<int>(rank);
      auto const host = at(std::find(names.begin(), names.end(), name) - names.begin());
      if (host == names.size()) names.push_back(name), hosts_.emplace_back();
      host_of_.push_back(host);
      hosts_[host].push_back(rank);
    }
    slots_ = hosts_[0].size();
    for (auto const& host : hosts_) slots_ = std::min(slots_, host.size());
    machine_of_ = host_of_;
    for (std::size_t rank = 0; rank < machine_of_rank.size(); ++rank) machine_of_[rank] = at(machine_of_rank[rank]);
  }

  std::size_t ranks() const { return flows.size(); }
  std::size_t hosts() const { return hosts_.size(); }
  std::size_t owners() const { return slots_ * hosts_.size(); }
  std::size_t host_of(std::size_t rank) const { return host_of_[rank]; }

  // What another count of the same ranks has found.
  void add(ByteCount const& other) {
    auto const sum = [](Bytes& to, Bytes const& from) { to.all += from.all, to.between_hosts += from.between_hosts; };
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      sum(flows[rank].sent, other.flows[rank].sent);
      sum(flows[rank].received, other.flows[rank].received);
    }
  }

  // A tensor of `units` units of `unit_bytes`: summed part by part at the owners, the parts gathered by all.
  void dense(std::uint64_t units, std::uint64_t unit_bytes) {
    for (std::size_t owner = 0; owner < owners(); ++owner) {
      std::uint64_t const part = (units * (owner + 1) / owners() - units * owner / owners()) * unit_bytes;
      for (auto const& host : hosts_) {
        std::size_t const slot = host[owner / hosts_.size()];
        if (two_levels_)
          for (std::size_t const rank : host) exchange(rank, slot, part, part);
        exchange(slot, owner_rank(owner), part, part);
      }
    }
  }

  // A tensor, the `number`-th, that lies whole on one owner: every rank's gradient goes there, past the hosts, and comes back.
  void dense_whole(std::uint64_t bytes, std::size_t number) {
    for (std::size_t rank = 0; rank < ranks(); ++rank) exchange(rank, owner_rank(number % owners()), bytes, bytes);
  }

  // What a batch asks of a table: the distinct ids of every rank, ascending, and how many it drew.
  template <class Owner>
  struct Rows {
    std::uint64_t row_bytes, id_bytes;
    std::vector<Ids> const& distinct;
    std::vector<Ids> const& drawn;
    Owner owner;  // of a row
  };

  // Every distinct id travels once to its owner and brings its row; the gradient goes the same way without the id.
  template <class Owner>
  void pull_and_push(Rows<Owner> const& rows) {
    auto const moves = [&](std::size_t from, std::size_t to, std::uint64_t n) {
      exchange(from, to, n * (rows.id_bytes + rows.row_bytes), n * rows.row_bytes);
    };
    if (!two_levels_) return to_owners(rows, rows.distinct, moves);
    to_owners(rows, to_slots(rows, moves), moves);
  }

  // Past the hosts: every distinct id travels to its owner and brings its row; every occurrence is pushed with its id.
  template <class Owner>
  void pull_directly(Rows<Owner> const& rows) {
    to_owners(rows, rows.distinct, [&](std::size_t from, std::size_t to, std::uint64_t n) {
      exchange(from, to, n * rows.id_bytes, n * rows.row_bytes);
    });
  }
  template <class Owner>
  void push_occurrences(Rows<Owner> const& rows) {
    to_owners(rows, rows.drawn, [&](std::size_t from, std::size_t to, std::uint64_t n) {
      exchange(from, to, n * (rows.id_bytes + rows.row_bytes), 0);
    });
  }

  // Every distinct (id, row) to every rank. On two levels: to the slots of the host, from the slots to those of other hosts,
  // and what a slot has then to the ranks of its host.
  template <class Owner>
  void gather(Rows<Owner> const& rows) {
    std::uint64_t const pair = rows.id_bytes + rows.row_bytes;
    if (!two_levels_) {
      for (std::size_t from = 0; from < ranks(); ++from)
        for (std::size_t to = 0; to < ranks(); ++to) exchange(from, to, rows.distinct[from].size() * pair, 0);
      return;
    }
    auto const held =
        to_slots(rows, [&](std::size_t from, std::size_t to, std::uint64_t n) { exchange(from, to, n * pair, 0); });
    for (std::size_t slot = 0; slot < slots_; ++slot)
      for (auto const& host : hosts_)
        for (auto const& other : hosts_) exchange(host[slot], other[slot], held[host[slot]].size() * pair, 0);
    hand_to_ranks(rows);
  }

  // The last part of it on two levels: the (id, row) of all ranks from the slots of a host to its ranks.
  template <class Owner>
  void hand_to_ranks(Rows<Owner> const& rows) {
    if (!two_levels_) return;
    Ids all;
    for (Ids const& ids : rows.distinct) all.insert(all.end(), ids.begin(), ids.end());
    std::vector<std::uint64_t> counts(slots_);
    for (std::int64_t const id : sorted_distinct(std::move(all))) ++counts[rows.owner(id) / hosts_.size()];
    for (auto const& host : hosts_)
      for (std::size_t slot = 0; slot < slots_; ++slot)
        for (std::size_t const rank : host) exchange(host[slot], rank, counts[slot] * (rows.id_bytes + rows.row_bytes), 0);
  }

  // As Parallax was published: every rank pulls its distinct rows from a server on the owner's host, one rank of a host sums
  // what its ranks push and sends it with the ids. `rows.owner` is a host.
  template <class Owner>
  void pull_by_rank_push_by_host(Rows<Owner> const& rows) {
    for (auto const& host : hosts_) {
      Ids all;
      for (std::size_t const rank : host) {
        to_servers(rows, rows.distinct[rank], [&](std::size_t server, std::uint64_t n) {
          exchange(rank, server, n * rows.id_bytes, n * rows.row_bytes);
        });
        exchange(rank, host[0], rows.distinct[rank].size() * (rows.id_bytes + rows.row_bytes), 0);
        all.insert(all.end(), rows.distinct[rank].begin(), rows.distinct[rank].end());
      }
      to_servers(rows, sorted_distinct(std::move(all)), [&](std::size_t server, std::uint64_t n) {
        exchange(host[0], server, n * (rows.id_bytes + rows.row_bytes), 0);
      });
    }
  }

  // Every (id, row) of all ranks around a ring of the ranks, host by host.
  template <class Owner>
  void gather_by_ring(Rows<Owner> const& rows) {
    std::uint64_t pairs = 0;
    for (Ids const& ids : rows.distinct) pairs += ids.size();
    for (std::size_t from = 0; from < ranks(); ++from) {  // all but those of the rank that it hands to
      std::size_t const to = (from + 1) % ranks();
      exchange(from, to, (pairs - rows.distinct[to].size()) * (rows.id_bytes + rows.row_bytes), 0);
    }
  }

  std::vector<Flow> flows;  // by rank

 private:
  std::size_t owner_rank(std::size_t owner) const { return hosts_[owner % hosts_.size()][owner / hosts_.size()]; }

  // `there` bytes from one rank to another, and `back` bytes the other way.
  void exchange(std::size_t from, std::size_t to, std::uint64_t there, std::uint64_t back) {
    if (from == to) return;
    auto const carry = [&](std::size_t a, std::size_t b, std::uint64_t bytes) {
      flows[a].sent.all += bytes;
      flows[b].received.all += bytes;
      if (machine_of_[a] == machine_of_[b]) return;
      flows[a].sent.between_hosts += bytes;
      flows[b].received.between_hosts += bytes;
    };
    carry(from, to, there);
    carry(to, from, back);
  }

  // f(from, to, how many) for the ids of every rank on their way to the owners.
  template <class Owner, class F>
  void to_owners(Rows<Owner> const& rows, std::vector<Ids> const& ids, F&& f) const {
    std::vector<std::uint64_t> counts(owners());
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      std::fill(counts.begin(), counts.end(), 0);
      for (std::int64_t const id : ids[rank]) ++counts[rows.owner(id)];
      for (std::size_t owner = 0; owner < owners(); ++owner) f(rank, owner_rank(owner), counts[owner]);
    }
  }
  // The same to the slots of each rank's host; returns the distinct ids that a rank has as a slot.
  template <class Owner, class F>
  std::vector<Ids> to_slots(Rows<Owner> const& rows, F&& f) const {
    std::vector<Ids> held(ranks());
    std::vector<std::uint64_t> counts(slots_);
    for (auto const& host : hosts_) {
      for (std::size_t const rank : host) {
        std::fill(counts.begin(), counts.end(), 0);
        for (std::int64_t const id : rows.distinct[rank]) {
          std::size_t const slot = rows.owner(id) / hosts_.size();
          ++counts[slot];
          held[host[slot]].push_back(id);
        }
        for (std::size_t slot = 0; slot < slots_; ++slot) f(rank, host[slot], counts[slot]);
      }
    }
    for (Ids& ids : held) ids = sorted_distinct(std::move(ids));
    return held;
  }

  // f(first rank of the host that owns, how many) for these ids.
  template <class Owner, class F>
  void to_servers(Rows<Owner> const& rows, Ids const& ids, F&& f) const {
    std::vector<std::uint64_t> counts(hosts());
    for (std::int64_t const id : ids) ++counts[rows.owner(id)];
    for (std::size_t host = 0; host < hosts(); ++host) f(hosts_[host][0], counts[host]);
  }

  bool two_levels_;
  std::vector<std::vector<std::size_t>> hosts_;  // ranks of each, in the order of their first rank
  std::vector<std::size_t> host_of_, machine_of_;
  std::size_t slots_ = 0;
};

}  // namespace bench
