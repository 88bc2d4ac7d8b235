// Rows that are read and summed where ranks have them, against the same training by a communicator whose ranks send them: the same
// bits, and the same bytes counted.
#include <algorithm>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../catch.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

namespace {

constexpr std::int64_t rows = 41, width = 5;

// Ranks that are threads, by the five members that every communicator has: they cannot know that they share memory.
class Apart {
 public:
  explicit Apart(px::ThreadCommunicator& inside) : inside_{&inside} {}
  int rank() const { return inside_->rank(); }
  int size() const { return inside_->size(); }
  auto deadline() const { return inside_->deadline(); }
  auto ialltoallv(int channel, px::Transfer const& transfer) { return inside_->ialltoallv(channel, transfer); }
  void abort(px::Error const& reason) { inside_->abort(reason); }

 private:
  px::ThreadCommunicator* inside_;
};

struct Seen {
  std::vector<float> values;  // everything that was pulled, in order
  std::vector<std::uint64_t> bytes;
  friend bool operator==(Seen const&, Seen const&) = default;
};

// Batches with many duplicates, empty ones and ids outside the table; rows by index and by distinct index, bags, updates by ids,
// rows named ahead, updates that were started, a step that is refused, and a rank that changes its rows as soon as its pull returns.
template <class C>
Seen train(C& world, px::Topology<C> topology, std::uint64_t seed) {
  Seen seen;
  std::mt19937_64 random{seed + static_cast<std::uint64_t>(world.rank())};
  px::Session<C> session{std::move(topology)};
  px::Variable<px::Sparse, px::PsShard, px::Adam> words{
      session, "words", {rows, width, px::uniform(-1, 1)}, px::BadIds::drop_and_count};
  px::Variable<px::Sparse, px::PsShard, px::Adagrad> tags{
      session, "tags", {rows, width, px::uniform(-1, 1)}, px::Reduce::mean_by_count};
  auto const batch = [&](std::int64_t bound) {
    std::vector<std::int64_t> ids(random() % 4 == 0 ? 0 : random() % 300);
    for (auto& id : ids) id = std::min(static_cast<std::int64_t>(random() % 60), static_cast<std::int64_t>(random()) % bound);
    for (auto& id : ids) id = id < 0 ? 0 : id;
    return ids;
  };
  auto const gradient = [&](std::size_t count) {
    std::vector<float> values(count * width);
    for (float& value : values) value = static_cast<float>(random() % 2001) / 1000 - 1;
    return values;
  };
  auto const note = [&](auto const& pulled) {
    for (std::size_t i = 0; i < pulled.indices(); ++i)
      seen.values.insert(seen.values.end(), pulled[i].begin(), pulled[i].end());
  };
  for (int step = 0; step < 12; ++step) {
    auto const of_words = batch(rows + 4), of_tags = batch(rows), more = batch(rows), ahead = batch(rows);
    auto const [w, t] = session.pull(words.at(of_words), tags.at(of_tags));
    note(w), note(t);
    auto const of_index = gradient(of_words.size()), of_distinct = gradient(t.size()), of_more = gradient(more.size());
    auto next = session.prefetch(tags, ahead);
    if (step % 3 == 0) {
      session.step(px::grad(w, of_index), px::grad(t, px::distinct(of_distinct)));
    } else if (step % 3 == 1) {
      // What was started is dropped, as one rank refuses the step, and its memory serves for what is started next.
      session.start(px::grad(w, gradient(of_words.size())));
      std::vector<std::int64_t> const wrong{world.rank() == 0 ? rows : 0};
      try {
        session.step(px::grad(tags, wrong, gradient(1)));
        seen.values.push_back(-1);  // it was not refused
      } catch (px::Error const& error) {
        seen.values.push_back(error.code() == px::Errc::bad_id ? 1.0f : -2.0f);
      }
      session.start(px::grad(w, of_index));
      session.step(px::grad(tags, more, of_more));
    } else {
      session.step(px::grad(w, of_index), px::grad(t, px::distinct(of_distinct)), px::grad(tags, more, of_more));
    }
    note(session.pull(std::move(next)));
    std::vector<std::size_t> const offsets{0, more.size() / 3, more.size()};
    auto const bags = session.pull(tags.bags(more, offsets));
    session.step(px::grad(bags, gradient(2)));
    auto const again = session.pull(words, more);  // rows that the step has passed by, too
    for (float& value : std::span{words.local().data, static_cast<std::size_t>(words.local().rows * width)}) value *= 1.0625f;
    note(again);
  }
  auto const& traffic = session.traffic();
  for (auto const payload : {px::Payload::rows, px::Payload::ids, px::Payload::counts})
    seen.bytes.insert(seen.bytes.end(), {traffic.sent_of(payload).all, traffic.sent_of(payload).between_hosts,
                                         traffic.received_of(payload).all, traffic.received_of(payload).between_hosts});
  session.finish();
  return seen;
}

}  // namespace

TEST_CASE("rows that are read in place have the bits and the bytes of rows that travel", "[session][in_place]") {
  auto const seed = std::random_device{}();
  INFO("seed " << seed);
  for (int const ranks : {1, 2, 3}) {
    std::vector<Seen> in_place(static_cast<std::size_t>(ranks)), apart(in_place);
    px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
      auto const rank = static_cast<std::size_t>(world.rank());
      in_place[rank] = train(world, px::Topology{world}, seed);
      Apart far{world};
      apart[rank] = train(far, px::Topology{far}, seed);
    });
    CAPTURE(ranks);
    CHECK(in_place == apart);
  }
}

// A pull is an agreement, a transfer of ids, and one of rows, and a step by its handle an agreement, a transfer of rows, and the commit.
// What is read in place needs the agreement and the commit only, also where owners bring rows up to date first.
TEST_CASE("what is read in place needs no transfer", "[session][in_place]") {
  using Counts = std::vector<std::uint64_t>;  // of pulls and steps of two tables: by handles, then by ids
  auto const count = [](auto& world) {
    px::Session session{world};
    px::Variable<px::Sparse, px::Adagrad> kept{session, "kept", {rows, width}};
    px::Variable<px::Sparse, px::Adam> settled{session, "settled", {rows, width}};
    std::vector<std::int64_t> const ids{1, 2, 3};
    std::uint64_t last = session.traffic().transfers;
    std::vector<float> const gradient(3 * width, 0.5f);
    Counts counts;
    auto const note = [&] { counts.push_back(session.traffic().transfers - std::exchange(last, session.traffic().transfers)); };
    auto const train = [&](auto const& variable) {
      auto const pulled = session.pull(variable, ids);
      note();
      session.step(px::grad(pulled, gradient));
      note();
      session.step(px::grad(variable, ids, gradient));
      note();
    };
    train(kept);
    train(settled);
    session.finish();
    return counts;
  };
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    Apart far{world};
    auto const in_place = count(world), apart = count(far);
    if (world.rank() != 0) return;
    CHECK(in_place == Counts{1, 2, 2, 1, 2, 2});
    CHECK(apart == Counts{3, 3, 3, 3, 3, 3});
  });
}
