// Who owns and which way leads to the owner: on a flat topology, on equal and unequal hosts, and on one host.
#include "parallax/comm/topology.hpp"

#include <algorithm>
#include <set>
#include <vector>

#include "../catch.hpp"
#include "parallax/comm/self.hpp"

namespace px = parallax;

namespace {

// A rank that never communicates.
struct Quiet {
  struct Request {
    bool test() { return true; }
    int waiting_for() const { return -1; }
  };
  int rank_ = 0, size_ = 1;
  int rank() const { return rank_; }
  int size() const { return size_; }
  Request ialltoallv(int, px::Transfer const&) { return {}; }
  void abort(px::Error const&) {}
  std::chrono::nanoseconds deadline() const { return {}; }
};

struct World {
  explicit World(std::vector<int> const& given, bool flat = false) : hosts{given} {
    int const size = static_cast<int>(hosts.size());
    for (int rank = 0; rank < size; ++rank) ranks.push_back({rank, size});
    for (Quiet& rank : ranks) topologies.push_back(flat ? px::Topology{rank} : px::Topology{rank, hosts});
  }
  std::vector<int> hosts;
  std::vector<Quiet> ranks;
  std::vector<px::Topology<Quiet>> topologies;

  px::Topology<Quiet> const& at(int rank) const { return topologies[static_cast<std::size_t>(rank)]; }
  // Where what `rank` has for `owner` ends after all hops.
  int carried(int rank, int owner) const {
    for (std::size_t k = 0; k < at(0).hops().size(); ++k) {
      px::Hop const& hop = at(rank).hops()[k];
      REQUIRE_FALSE(hop.targets.empty());
      REQUIRE(owner >= hop.base);
      auto const digit = static_cast<std::size_t>((owner - hop.base) / hop.stride);
      REQUIRE(digit < hop.targets.size());
      int const next = hop.targets[digit];
      px::Hop const& there = at(next).hops()[k];
      REQUIRE(std::ranges::count(there.sources, rank) == 1);
      REQUIRE(there.self == static_cast<int>(digit));
      rank = next;
    }
    return rank;
  }
  void check() const {
    for (int rank = 0; rank < at(0).size(); ++rank) {
      CHECK(at(rank).owners() == at(0).owners());
      for (int owner = 0; owner < at(0).owners(); ++owner) CHECK(carried(rank, owner) == at(0).owner_rank(owner));
      CHECK(at(rank).direct().size() == 1);
      CHECK(at(rank).direct()[0].targets.size() == static_cast<std::size_t>(at(0).owners()));
      int const owner = at(rank).owner();
      if (owner >= 0) CHECK(at(rank).owner_rank(owner) == rank);
      for (px::Hop const& hop : at(rank).hops()) CHECK(std::ranges::is_sorted(hop.sources));
    }
    std::set<int> owners;
    for (int owner = 0; owner < at(0).owners(); ++owner) owners.insert(at(0).owner_rank(owner));
    CHECK(owners.size() == static_cast<std::size_t>(at(0).owners()));
  }
};

std::vector<int> owner_ranks(px::Topology<Quiet> const& topology) {
  std::vector<int> result;
  for (int owner = 0; owner < topology.owners(); ++owner) result.push_back(topology.owner_rank(owner));
  return result;
}

}  // namespace

TEST_CASE("on a flat topology every rank owns, and one hop leads from all to all", "[comm][topology]") {
  for (int size : {1, 2, 5}) {
    World const world{std::vector<int>(static_cast<std::size_t>(size)), true};
    world.check();
    CHECK(world.at(0).hops().size() == 1);
    CHECK(world.at(size - 1).owner() == size - 1);
    CHECK(world.at(0).hops()[0].sources.size() == static_cast<std::size_t>(size));
    for (int rank = 0; rank < size; ++rank) CHECK(world.at(0).same_host(rank) == (rank == 0));
  }
}

TEST_CASE("on equal hosts an owner is a slot and a host, slots first", "[comm][topology]") {
  World const world{{0, 0, 1, 1}};
  world.check();
  CHECK(owner_ranks(world.at(0)) == std::vector{0, 2, 1, 3});
  CHECK(world.at(3).owner() == 3);
  CHECK(world.at(2).hops()[0].targets == std::vector{2, 3});
  CHECK(world.at(2).hops()[1].targets == std::vector{0, 2});
  CHECK(world.at(3).hops()[1].base == 2);
  CHECK(world.at(0).same_host(1));
  CHECK_FALSE(world.at(0).same_host(2));
}

TEST_CASE("hosts may be interleaved and named by any numbers; they are ordered by their first rank", "[comm][topology]") {
  World const world{{9, -4, 9, -4, 9, -4}};
  world.check();
  CHECK(owner_ranks(world.at(0)) == std::vector{0, 1, 2, 3, 4, 5});
  CHECK(world.at(4).hops()[0].targets == std::vector{0, 2, 4});
}

TEST_CASE("on unequal hosts the smallest one gives the slots, and further ranks own nothing", "[comm][topology]") {
  World const world{{0, 0, 0, 1, 1}};
  world.check();
  CHECK(owner_ranks(world.at(0)) == std::vector{0, 3, 1, 4});
  CHECK(world.at(2).owner() == -1);
  CHECK(world.at(2).hops()[0].targets == std::vector{0, 1});
  CHECK(world.at(2).hops()[0].sources.empty());
  CHECK(world.at(2).hops()[1].targets.empty());
  World const lonely{{0, 1, 1, 1}};
  lonely.check();
  CHECK(owner_ranks(lonely.at(0)) == std::vector{0, 1});
}

TEST_CASE("one host, or hosts of one rank, are two hops of which one stays put", "[comm][topology]") {
  World const one{{3, 3, 3}};
  one.check();
  CHECK(owner_ranks(one.at(0)) == std::vector{0, 1, 2});
  CHECK(one.at(1).hops()[1].targets == std::vector{1});
  World const many{{0, 1, 2}};
  many.check();
  CHECK(owner_ranks(many.at(0)) == std::vector{0, 1, 2});
  CHECK(many.at(1).hops()[0].targets == std::vector{1});
}

TEST_CASE("hosts are named for every rank", "[comm][topology]") {
  px::SelfCommunicator self;
  CHECK_THROWS_AS((px::Topology{self, {0, 1}}), px::Error);
}
