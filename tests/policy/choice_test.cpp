#include "parallax/detail/policy/auto/choice.hpp"

#include <cstdint>
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

constexpr std::int64_t rows = 4000, width = 8;
constexpr auto& choices = px::Auto::exchange<px::Sparse>::choices;
constexpr std::size_t ps_shard = 0, all_gather = 1;  // of them
constexpr std::size_t drawn = 900;

// Bytes to other hosts, all ranks together, of a pull and a push of random ids under a policy.
template <class Policy>
std::uint64_t counted_bytes(int ranks, std::vector<int> const& hosts, bool pulls) {
  std::vector<std::uint64_t> sent(static_cast<std::size_t>(ranks));
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    px::Session session{hosts.empty() ? px::Topology{world} : px::Topology{world, hosts}};
    px::Variable<px::Sparse, Policy> table{session, "table", {rows, width}};
    std::mt19937_64 random{static_cast<std::uint64_t>(world.rank()) + 5};
    std::vector<std::int64_t> ids(drawn);
    for (auto& id : ids) id = static_cast<std::int64_t>(random() % 2000);
    std::vector<float> const gradient(drawn * width, 1.0f);
    if (pulls) {
      auto const pulled = session.pull(table, ids);
      session.step(px::grad(pulled, gradient));
    } else {
      session.step(px::grad(table, ids, gradient));
    }
    sent[static_cast<std::size_t>(world.rank())] = session.traffic().payload_sent_between_hosts();
    session.finish();
  });
  std::uint64_t sum = 0;
  for (auto const bytes : sent) sum += bytes;
  return sum;
}

// The use of the table in that step, counted by sets.
px::TableUse counted_use(int ranks, std::vector<int> const& hosts, bool pulls) {
  std::vector<std::vector<bool>> by_host(static_cast<std::size_t>(ranks), std::vector<bool>(rows)), all = {by_host[0]};
  px::TableUse use;
  double host_count = 0;
  for (int rank = 0; rank < ranks; ++rank) {
    std::mt19937_64 random{static_cast<std::uint64_t>(rank) + 5};
    std::vector<bool> own(rows);
    auto const host = static_cast<std::size_t>(hosts.empty() ? rank : hosts[static_cast<std::size_t>(rank)]);
    host_count = std::max(host_count, static_cast<double>(host + 1));
    for (std::size_t i = 0; i < drawn; ++i) {
      std::size_t const id = random() % 2000;
      own[id] = by_host[host][id] = all[0][id] = true;
    }
    use.pushed += static_cast<double>(std::count(own.begin(), own.end(), true)) / ranks;
  }
  for (auto const& host : by_host) use.by_host += static_cast<double>(std::count(host.begin(), host.end(), true)) / host_count;
  use.by_all = static_cast<double>(std::count(all[0].begin(), all[0].end(), true));
  use.pulled = pulls ? use.pushed : 0;
  return use;
}

}  // namespace

TEST_CASE("what a method is expected to send is what it sends", "[policy][auto]") {
  px::TableFacts const facts{static_cast<double>(rows), width * sizeof(float), width * sizeof(float), sizeof(std::int64_t)};
  for (auto const& hosts : std::vector<std::vector<int>>{{}, {0, 0, 1, 1}, {0, 1, 2, 0, 1, 2}, {0, 0, 0, 0, 1, 1, 1, 1}})
    for (bool const pulls : {true, false}) {
      int const ranks = hosts.empty() ? 4 : static_cast<int>(hosts.size());
      double const host_count = hosts.empty() ? 4 : 1 + *std::max_element(hosts.begin(), hosts.end());
      px::RankShape const shape{host_count, ranks / host_count};
      px::TableUse const use = counted_use(ranks, hosts, pulls);
      std::uint64_t const counted[] = {counted_bytes<px::PsShard>(ranks, hosts, pulls),
                                       counted_bytes<px::AllGather>(ranks, hosts, pulls),
                                       counted_bytes<px::AllReduce>(ranks, hosts, pulls)};
      for (std::size_t policy = 0; policy < std::size(choices); ++policy) {
        double const expected = ranks * choices[policy].predict(facts, use, shape, px::Costs{}).bytes,
                     is = static_cast<double>(counted[policy]);
        INFO(choices[policy].name << ", " << ranks << " ranks on " << host_count << " hosts" << (pulls ? ", pulled" : "")
                                   << ": expected " << expected << ", counted " << is);
        CHECK(expected > 0.95 * is);
        CHECK(expected < 1.05 * is);
      }
    }
}

TEST_CASE("a choice is kept while another is hardly better, and while moving costs more than it saves", "[policy][auto]") {
  px::TableFacts const facts{1000, 100, 100, 8};
  px::RankShape const shape{4, 1};
  px::AutoOptions options;
  options.costs = {.round = 1, .per_byte = 1e-3};
  auto const words = [](double pushed) {
    return [pushed](int) {
      static thread_local double seen[4];
      seen[0] = seen[1] = pushed, seen[2] = 0, seen[3] = pushed;
      return static_cast<double const*>(seen);
    };
  };
  auto const chooses = [&](double pushed, px::AutoOptions const& under, std::size_t current, bool first) {
    px::Chooser chooser;
    chooser.observe(choices[current], facts, shape, 4, words(1));
    if (!first) static_cast<void>(chooser.choose(choices, all_gather, facts, shape, under));
    for (int i = 0; i < 100; ++i) chooser.observe(choices[current], facts, shape, 4, words(pushed));
    auto const change = chooser.choose(choices, current, facts, shape, under);
    return change ? change->to : current;
  };
  // A few rows: AllGather's one round against three. Rows by the hundred: PsShard's bytes.
  options.horizon = 1e9;
  CHECK(chooses(2, options, ps_shard, true) == all_gather);
  CHECK(chooses(600, options, all_gather, true) == ps_shard);
  options.horizon = 1;
  CHECK(chooses(2, options, ps_shard, true) == ps_shard);
  options.horizon = 1e9;
  options.margin = 100;
  CHECK(chooses(2, options, ps_shard, true) == all_gather);  // the first choice needs no margin
  CHECK(chooses(2, options, ps_shard, false) == ps_shard);
  options.margin = 1.1;
  CHECK(chooses(2, options, ps_shard, false) == all_gather);
}

TEST_CASE("costs are measured alike on all ranks, and kept in a file", "[policy][auto]") {
  std::string const path = "choice_test.costs";
  std::remove(path.c_str());
  for (bool const hosts : {false, true}) {
    std::vector<px::Costs> measured(4), kept(4);
    px::run_threads(4, [&](px::ThreadCommunicator& world) {
      auto const topology = hosts ? px::Topology{world, {0, 0, 1, 1}} : px::Topology{world};
      auto const rank = static_cast<std::size_t>(world.rank());
      measured[rank] = px::calibrate(topology, path);
      kept[rank] = px::calibrate(topology, path);
    });
    std::remove(path.c_str());
    for (std::size_t rank = 0; rank < 4; ++rank) {
      CHECK(measured[rank] == measured[0]);
      CHECK(kept[rank] == measured[0]);
    }
    px::Costs const& costs = measured[0];
    CHECK(costs.round > 0);
    CHECK((costs.host_round > 0) == hosts);
    CHECK(costs.per_key > 0);
    CHECK(costs.per_row_byte > 0);
    CHECK(costs.per_stream_byte > 0);
  }
  px::Costs const exact{1e-6, 1.0 / 3, 0, 5e-300, 0.1, 7, 8, 9};
  CHECK(px::costs_from_text(px::to_text(exact)) == exact);
  for (char const* const text :
       {"", "parallax costs 1", "parallax costs 1 1 2 3 4 5 6 7", "parallax costs 1 1 2 3 4 5 6 7 8 9",
        "parallax costs 1 1 2 3 4 5 6 7 -8", "parallax costs 1 1 2 3 4 5 6 7 nan", "parallax costs 2 1 2 3 4 5 6 7 8"})
    CHECK(!px::costs_from_text(text).measured());
}
