// Shares of the data: together they are everything, once, also where a training is interrupted and goes on with other ranks.
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

struct World {
  int of_rank, ranks;
  int rank() const { return of_rank; }
  int size() const { return ranks; }
};

std::vector<int> numbers(int count) {
  std::vector<int> all(static_cast<std::size_t>(count));
  std::iota(all.begin(), all.end(), 0);
  return all;
}

// What one rank was given, and where it is afterwards.
struct Walk {
  std::vector<int> given;
  px::DataPosition position;
};
// Rank `rank` of `ranks` walks on from `position`; left by `break` in the body of its `steps`-th element.
Walk walk(std::vector<int> const& data, int rank, int ranks, px::DataPosition position, int steps = 1'000'000) {
  Walk all{{}, position};
  if (steps == 0) return all;
  for (int const element : px::shard(data, World{rank, ranks}, all.position)) {
    all.given.push_back(element);
    if (--steps == 0) break;
  }
  return all;
}

// Some ranks, for so many steps.
struct Part {
  int ranks, steps;
};
// By hand: in each step the next `ranks` of `count` elements are dealt, until too few are left for all ranks.
std::map<int, int> dealt_by_hand(int count, std::vector<Part> const& parts) {
  std::map<int, int> times;
  int next = 0;
  for (Part const part : parts)
    for (int step = 0; step < part.steps && next + part.ranks <= count; ++step)
      for (int rank = 0; rank < part.ranks; ++rank) ++times[next++];
  return times;
}

}  // namespace

TEST_CASE("blocks and cyclic shares of an index range cover it once, evenly", "[session][shard]") {
  for (int const ranks : {1, 2, 3, 7})
    for (std::size_t const n : {0u, 1u, 6u, 7u, 100u}) {
      CAPTURE(ranks, n);
      std::vector<int> in_blocks(n), in_cycles(n);
      std::size_t next = 0;
      for (int rank = 0; rank < ranks; ++rank) {
        auto const block = px::shard_block(n, World{rank, ranks}), cycle = px::shard_cyclic(n, World{rank, ranks});
        for (std::size_t const i : block) {
          CHECK(i == next++);
          ++in_blocks[i];
        }
        for (std::size_t const i : cycle) {
          CHECK(i % static_cast<std::size_t>(ranks) == static_cast<std::size_t>(rank));
          ++in_cycles[i];
        }
        auto const share = n / static_cast<std::size_t>(ranks);
        CHECK((block.size() == share || block.size() == share + 1));
        CHECK((cycle.size() == share || cycle.size() == share + 1));
      }
      CHECK(in_blocks == std::vector<int>(n, 1));
      CHECK(in_cycles == std::vector<int>(n, 1));
    }
}

TEST_CASE("every rank takes as many steps, and at most N - 1 elements are left out", "[session][shard]") {
  std::vector<std::string> const batches{"a", "b", "c", "d", "e", "f", "g", "h"};
  std::vector<std::string> dealt;
  for (int rank = 0; rank < 3; ++rank) {
    auto const mine = px::shard(batches, World{rank, 3});
    CHECK(mine.size() == 2);
    CHECK(mine[1] == batches[static_cast<std::size_t>(rank) + 3]);
    for (std::string const& batch : mine) dealt.push_back(batch);
  }
  CHECK(dealt == std::vector<std::string>{"a", "d", "b", "e", "c", "f"});
}

TEST_CASE("from a position on, a rank is given every N-th element of what is left, and the position is moved before the body",
          "[session][shard][position]") {
  std::vector<int> const data = numbers(11);
  px::DataPosition position{.epoch = 4, .taken = 2};
  auto rest = px::shard(data, World{1, 3}, position);
  CHECK(rest.size() == 3);
  CHECK(position == px::DataPosition{4, 2});  // nothing is taken before the loop begins
  std::vector<std::int64_t> taken;
  std::vector<int> given;
  for (int const element : rest) {
    given.push_back(element);
    taken.push_back(position.taken);
    CHECK(position.epoch == 4);
    CHECK(rest.size() == 3 - given.size());
  }
  CHECK(given == std::vector<int>{3, 6, 9});
  CHECK(taken == std::vector<std::int64_t>{5, 8, 11});
  CHECK(position == px::DataPosition{5, 0});
}

TEST_CASE("a position at the beginning gives what a shard without one gives", "[session][shard][position]") {
  for (int const ranks : {1, 2, 3, 7})
    for (int const count : {0, 1, 6, 7, 50})
      for (int rank = 0; rank < ranks; ++rank) {
        CAPTURE(ranks, count, rank);
        std::vector<int> const data = numbers(count);
        std::vector<int> expected;
        for (int const element : px::shard(data, World{rank, ranks})) expected.push_back(element);
        Walk const all = walk(data, rank, ranks, {});
        CHECK(all.given == expected);
        CHECK(all.position == px::DataPosition{1, 0});
      }
}

TEST_CASE("interrupted after any element, by as many ranks, an epoch goes on as if it had not been",
          "[session][shard][position]") {
  int const ranks = 3, count = 23;
  std::vector<int> const data = numbers(count);
  for (int rank = 0; rank < ranks; ++rank) {
    std::vector<int> const whole = walk(data, rank, ranks, {}).given;
    REQUIRE(whole.size() == 7);
    for (int k = 0; k <= 7; ++k) {
      CAPTURE(rank, k);
      Walk const first = walk(data, rank, ranks, {}, k);
      CHECK(first.position == px::DataPosition{0, k * ranks});  // all ranks alike
      Walk const second = walk(data, rank, ranks, first.position);
      std::vector<int> both = first.given;
      both.insert(both.end(), second.given.begin(), second.given.end());
      CHECK(both == whole);
      CHECK(second.position == px::DataPosition{1, 0});
    }
  }
}

TEST_CASE("4 ranks, then 3, then 5 take each element of an epoch once, but for fewer than there are ranks at its end",
          "[session][shard][position]") {
  for (int const count : {0, 3, 40, 41, 57})
    for (int first = 0; 4 * first <= count; ++first)
      for (int second = 0; 4 * first + 3 * second <= count; ++second) {
        CAPTURE(count, first, second);
        std::vector<int> const data = numbers(count);
        std::vector<Part> const parts{{4, first}, {3, second}, {5, 1'000'000}};
        std::map<int, int> times;
        px::DataPosition position;
        bool alike = true;
        for (Part const part : parts) {
          px::DataPosition const begun = position;
          for (int rank = 0; rank < part.ranks; ++rank) {
            Walk const mine = walk(data, rank, part.ranks, begun, part.steps);
            alike = alike && (rank == 0 || mine.position == position);
            position = mine.position;
            for (int const element : mine.given) ++times[element];
          }
        }
        CHECK(alike);
        CHECK(position == px::DataPosition{1, 0});
        CHECK(times == dealt_by_hand(count, parts));
        CHECK(static_cast<int>(times.size()) > count - 5);
      }
}

TEST_CASE("a loop over epochs counts them, and one that finds too few elements for all ranks is over at once",
          "[session][shard][position]") {
  std::vector<int> const data = numbers(7);
  px::DataPosition position{.epoch = 0, .taken = 6};
  std::vector<std::int64_t> epochs;
  while (position.epoch < 3)
    for (int const element : px::shard(data, World{0, 2}, position)) epochs.push_back(10 * position.epoch + element);
  CHECK(epochs == std::vector<std::int64_t>{10, 12, 14, 20, 22, 24});
}

TEST_CASE("elements are those of the sequence, and a body that sets the position goes on from there",
          "[session][shard][position]") {
  std::vector<std::string> words{"a", "b", "c", "d"};
  px::DataPosition position;
  for (std::string& word : px::shard(words, World{1, 2}, position)) word += "!";
  CHECK(words == std::vector<std::string>{"a", "b!", "c", "d!"});

  position = {};
  std::string said;
  for (std::string const& word : px::shard(words, World{0, 1}, position)) {
    said += word;
    if (said == "ab!c") position.taken = 1;  // as a restore in the loop would
  }
  CHECK(said == "ab!cb!cd!");
}

TEST_CASE("a position outside of the sequence is refused by a sentence", "[session][shard][position]") {
  std::vector<int> const data = numbers(5);
  auto const refusal = [&](std::int64_t taken) {
    px::DataPosition position{2, taken};
    try {
      px::shard(data, World{1, 2}, position);
    } catch (px::Error const& error) {
      CHECK(error.code() == px::Errc::invalid_argument);
      CHECK(error.rank() == 1);
      CHECK(position == px::DataPosition{2, taken});
      return std::string{error.what()};
    }
    return std::string{};
  };
  CHECK(refusal(0).empty());
  CHECK(refusal(5).empty());
  CHECK(refusal(6) == "parallax: invalid argument (rank 1) in shard: the position has taken 6 elements of a sequence of 5");
  CHECK(refusal(-1) == "parallax: invalid argument (rank 1) in shard: the position has taken -1 elements of a sequence of 5");
}
