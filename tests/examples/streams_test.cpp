// Streams: each rank reads its part, all ranks together read what one rank would.
#include "language_model/streams.hpp"

#include <numeric>
#include <set>
#include <vector>

#include "../catch.hpp"

namespace {

std::vector<lm::Token> counting(std::size_t count) {
  std::vector<lm::Token> tokens(count);
  std::iota(tokens.begin(), tokens.end(), 0);
  return tokens;
}

}  // namespace

TEST_CASE("a stream reads on where its last batch ended, and targets are the tokens that follow", "[examples][streams]") {
  auto const tokens = counting(21);
  lm::Streams streams{tokens, 2};
  CHECK(streams.length() == 10);
  lm::Batch batch;
  streams.next(3, batch);
  CHECK(batch.inputs == std::vector<lm::Id>{0, 10, 1, 11, 2, 12});
  CHECK(batch.targets == std::vector<lm::Id>{1, 11, 2, 12, 3, 13});
  streams.next(1, batch);
  CHECK(batch.inputs == std::vector<lm::Id>{3, 13});
}

TEST_CASE("a stream that comes to the end of its part reads the next one, after the last the first", "[examples][streams]") {
  auto const tokens = counting(5);
  lm::Streams streams{tokens, 2};
  lm::Batch batch;
  streams.next(4, batch);
  CHECK(batch.inputs == std::vector<lm::Id>{0, 2, 1, 3, 2, 4, 3, 0});
  CHECK(batch.targets == std::vector<lm::Id>{1, 3, 2, 4, 3, 0, 4, 1});
}

TEST_CASE("the batches of all ranks, side by side, are the batch of one rank with all streams", "[examples][streams]") {
  auto const tokens = counting(103);
  for (int const ranks : {1, 2, 3, 4}) {
    lm::Streams all{tokens, 12};
    lm::Batch whole, part;
    std::vector<lm::Streams> parts;
    for (int r = 0; r < ranks; ++r) parts.emplace_back(tokens, 12 / ranks, r, ranks);
    for (int step = 0; step < 6; ++step) {
      all.next(5, whole);
      std::vector<lm::Id> inputs(60), targets(60);
      for (int r = 0; r < ranks; ++r) {
        parts[static_cast<std::size_t>(r)].next(5, part);
        for (std::size_t k = 0; k < part.inputs.size(); ++k) {
          auto const streams = static_cast<std::size_t>(12 / ranks);
          std::size_t const at = k / streams * 12 + static_cast<std::size_t>(r) * streams + k % streams;
          inputs[at] = part.inputs[k];
          targets[at] = part.targets[k];
        }
      }
      REQUIRE(inputs == whole.inputs);
      REQUIRE(targets == whole.targets);
    }
  }
}

TEST_CASE("one pass reads every target once, but for fewer than there are streams", "[examples][streams]") {
  auto const tokens = counting(100);
  std::multiset<lm::Id> seen;
  std::size_t covered = 0;
  for (int r = 0; r < 2; ++r) {
    lm::Streams streams{tokens, 4, r, 2};
    lm::Batch batch;
    streams.next(streams.length(), batch);
    seen.insert(batch.targets.begin(), batch.targets.end());
    covered = streams.covered();
  }
  CHECK(covered == 97);
  CHECK(seen.size() == covered - 1);
  for (lm::Id id = 1; id < static_cast<lm::Id>(covered); ++id) REQUIRE(seen.count(id) == 1);
}

TEST_CASE("a text with fewer tokens than streams is refused", "[examples][streams]") {
  auto const tokens = counting(4);
  CHECK_THROWS(lm::Streams{tokens, 4});
  CHECK_NOTHROW(lm::Streams{tokens, 3});
}

TEST_CASE("a position is the same on all ranks, and streams that go to it read what they would have read",
          "[examples][streams]") {
  auto const tokens = counting(62);
  for (int const steps : {0, 1, 7, 10, 11, 25})
    for (std::ptrdiff_t const ranks : {1, 2, 3}) {  // six streams in all
      CAPTURE(steps, ranks);
      for (std::ptrdiff_t rank = 0; rank < ranks; ++rank) {
        lm::Streams walked{tokens, 6 / ranks, rank, ranks};
        lm::Batch expected, found;
        for (int step = 0; step < steps; ++step) walked.next(1, expected);
        CHECK(walked.position() == lm::px::DataPosition{steps / 10, steps % 10 * 6});
        lm::Streams streams{tokens, 6 / ranks, rank, ranks};
        streams.go_to({steps / 10, steps % 10 * 6});
        walked.next(4, expected);
        streams.next(4, found);
        CHECK(found.inputs == expected.inputs);
        CHECK(found.targets == expected.targets);
        CHECK(streams.position() == walked.position());
      }
    }
}

TEST_CASE("of another number of streams each goes on as far into its part as the others were", "[examples][streams]") {
  auto const tokens = counting(61);
  lm::Streams streams{tokens, 3};  // of 20 tokens, begun at 0, 20, 40
  streams.go_to({0, 6 * 5});       // six streams have read 5 of 10 tokens each
  lm::Batch batch;
  streams.next(1, batch);
  CHECK(batch.inputs == std::vector<lm::Id>{10, 30, 50});
}
