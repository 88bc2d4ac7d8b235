// A checkpoint that was made in one world is restored in another one, of other ranks, policies and partitioners: values, slots and
// settings are the same, bit for bit, by the number of the row.
#include <cstdio>
#include <random>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "../interop/scratch.hpp"
#include "../support/size.hpp"
#include "worlds.hpp"

using namespace parallax_test;
using namespace parallax_test::worlds;

namespace parallax_test::worlds {
extern template Found work<0>(Task const&);
extern template Found work<1>(Task const&);
#if PARALLAX_TEST_ALL_WORLDS
extern template Found work<2>(Task const&);
extern template Found work<3>(Task const&);
inline constexpr Work works[] = {&work<0>, &work<1>, &work<2>, &work<3>};
#else
inline constexpr Work works[] = {&work<0>, &work<1>};
#endif
}  // namespace parallax_test::worlds

namespace {

constexpr int worlds_of[] = {1, 2, 3, 4, 7, 8};
constexpr std::int64_t blocks[] = {150, 1500, 1 << 20};
constexpr int steps = 9;

std::string text(std::size_t model, int ranks) {
  return "model " + std::to_string(model) + " on " + std::to_string(ranks) + " ranks";
}

}  // namespace

TEST_CASE("a checkpoint comes back in every other world", "[checkpoint][worlds]") {
  constexpr std::size_t known = std::size(works);
  struct Way {
    std::size_t model;
    int ranks;
  };
  std::vector<Way> ends;
  for (std::size_t model = 0; model < known; ++model)
    for (int const ranks : worlds_of) ends.push_back({model, ranks});
  // All pairs, or some of them: by a permutation, so that each world is saved in and restored in.
  unsigned const seed = std::random_device{}();
  std::mt19937_64 random{seed};
  std::printf("seed %u\n", seed);
  int const turns = known == 2 ? sized(1, 1, static_cast<int>(ends.size())) : sized(1, 3, static_cast<int>(ends.size()));
  std::size_t const shift = random() % ends.size();
  int restored = 0;
  for (std::size_t i = 0; i < ends.size(); ++i) {
    Scratch const scratch;
    Way const from = ends[i];
    px::SaveOptions const options{.block_bytes = blocks[(i + seed) % std::size(blocks)]};
    Found const before =
        works[from.model]({.ranks = from.ranks, .to = steps, .save_in = scratch.path("run"), .save_options = options});
    CHECK(before.complaint == "");
    if (from.ranks > 1) CHECK(before.decisions > 0);
    for (int turn = 0; turn < turns; ++turn) {
      Way const to = ends[(i * 7 + shift + static_cast<std::size_t>(turn)) % ends.size()];
      INFO("seed " << seed << ", " << text(from.model, from.ranks) << ", restored in " << text(to.model, to.ranks)
                   << ", blocks of " << options.block_bytes);
      Found const after = works[to.model]({.ranks = to.ranks, .restore_from = scratch.path("run"), .initial = 0.5f});
      CHECK(after.complaint == "");
      CHECK(difference(before.logical, after.logical) == "");
      ++restored;
    }
  }
  std::printf("%d pairs of worlds, each of 12 variables\n", restored);
}

TEST_CASE("a checkpoint that goes through worlds is the one that goes straight", "[checkpoint][worlds]") {
  Scratch const scratch;
  std::string const run = scratch.path("run");
  Found const before = works[0]({.ranks = 4, .to = 7, .save_in = run, .save_options = {.block_bytes = 200}});
  Found const direct = works[1]({.ranks = 1, .restore_from = run, .initial = 1});
  for (int const ranks : {3, 5, 1}) {
    Found const next = works[ranks == 5 ? 1 : 0]({.ranks = ranks, .save_in = run, .restore_from = run, .initial = 2});
    CHECK(next.complaint == "");
    CHECK(difference(before.logical, next.logical) == "");
  }
  CHECK(px::detail::generations_in(run) == std::vector<std::int64_t>{4, 3, 2, 1});
  CHECK(difference(before.logical, direct.logical) == "");
  // And training goes on alike: one rank knows nothing of the worlds before.
  Found const one = works[1]({.ranks = 1, .from = 7, .to = 10, .restore_from = run, .restore_options = {.generation = 1}});
  Found const other = works[1]({.ranks = 1, .from = 7, .to = 10, .restore_from = run, .restore_options = {.generation = 4}});
  CHECK(difference(one.logical, other.logical) == "");
}

TEST_CASE("a run that is stopped and goes on in the same world ends as one that was not, bit for bit", "[checkpoint][worlds]") {
  constexpr int whole = 12;
  for (int const ranks : sized(std::vector{2}, std::vector{1, 3}, std::vector{1, 2, 3, 4, 7, 8}))
    for (std::size_t model = 0; model < sized(std::size_t{1}, std::size(works) / 2, std::size(works)); ++model) {
      Found const straight = works[model]({.ranks = ranks, .to = whole, .archive = true});
      if (ranks > 1) CHECK(straight.decisions > 1);
      for (int const k : sized(std::vector{7}, std::vector{1, 7, 11}, std::vector{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})) {
        INFO(text(model, ranks) << ", stopped at " << k);
        Scratch const scratch;
        std::string const run = scratch.path("run");
        static_cast<void>(works[model]({.ranks = ranks, .to = k, .save_in = run, .save_options = {.block_bytes = 500}}));
        Found const resumed = works[model]({.ranks = ranks, .from = k, .to = whole, .restore_from = run, .archive = true});
        CHECK(resumed.lost.empty());
        CHECK(difference(straight.logical, resumed.logical) == "");
        CHECK(difference(straight.archives, resumed.archives) == "");
        CHECK(straight.decisions == resumed.decisions);
      }
    }
}
