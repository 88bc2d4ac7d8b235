// Whole tables, layers and slots, taken out of sessions and put into them: held against a formula that knows every element,
// under every policy and partitioner; and what travels for it, how much memory it takes, and what is refused.
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>

#include "../catch.hpp"
#include "../interop/scratch.hpp"
#include "../support/size.hpp"
#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/interop/npy.hpp"
#include "parallax/interop/safetensors.hpp"
#include "parallax/parallax.hpp"
#include "parallax/partition/greedy.hpp"

namespace px = parallax;

namespace {

using World = px::ThreadCommunicator;
using Numbers = std::span<std::int64_t const>;
using Rows = px::RowsView<float const>;

constexpr std::int64_t width = 3, call_bytes = 400;
constexpr px::WholeAt everywhere[] = {px::WholeAt::rank_0, px::WholeAt::every_rank, px::WholeAt::parts};

// Element `column` of row `row` of table number `seed`; exact as a float.
float value(int seed, std::int64_t row, std::int64_t column) {
  return static_cast<float>(seed % 64) * 65536.0f + static_cast<float>(row * 16 + column);
}
void fill(int seed, Numbers numbers, px::RowsView<float> rows) {
  for (std::int64_t i = 0; i < rows.rows; ++i)
    for (std::int64_t c = 0; c < rows.width; ++c) rows.row(i)[c] = value(seed, numbers[static_cast<std::size_t>(i)], c);
}

// What all threads have said, or what was wrong on the first of which it was.
std::string on_ranks(int ranks, std::function<std::string(World&)> const& body) {
  std::vector<std::string> texts(static_cast<std::size_t>(ranks));
  px::run_threads(ranks, [&](World& world) { texts[static_cast<std::size_t>(world.rank())] = body(world); },
                  {.deadline = std::chrono::seconds{60}});
  for (std::size_t rank = 0; rank < texts.size(); ++rank)
    if (!texts[rank].empty()) return "rank " + std::to_string(rank) + " of " + std::to_string(ranks) + ": " + texts[rank];
  return {};
}

// The rows of a rank, by their numbers in ascending order.
struct Taken {
  std::vector<std::int64_t> numbers;
  std::vector<float> values;
  std::int64_t most = 0;  // in one call

  void operator()(Numbers these, Rows rows) {
    numbers.insert(numbers.end(), these.begin(), these.end());
    values.insert(values.end(), rows.data, rows.data + rows.rows * rows.width);
    most = std::max(most, rows.rows);
  }
};

// What a rank holds of an item, and what the variable is.
struct Held {
  std::int64_t rows, width;  // of all ranks
  bool dealt;
  std::vector<std::int64_t> numbers;
  std::vector<float> values;
};
template <class V>
Held held(V& variable, std::string const& slot) {
  auto& state = variable.state();
  Held found{};
  float const* data;
  std::int64_t here;
  if constexpr (std::same_as<typename V::kind, px::Sparse>) {
    auto const rows = slot.empty() ? variable.local() : variable.slot(slot);
    data = rows.data, here = rows.rows;
    found = {variable.rows(), rows.width, state.shards(), {}, {}};
    for (std::int64_t i = 0; i < here; ++i) found.numbers.push_back(variable.global_row(i));
  } else {
    auto const elements = slot.empty() ? variable.values() : variable.slot(slot);
    auto const unit = static_cast<std::int64_t>(state.unit());
    found = {static_cast<std::int64_t>(state.size()) / unit, unit, !slot.empty() && V::State::sharded, {}, {}};
    if (!slot.empty() && unit > 1) found.width = 1;  // of row slots
    data = elements.data(), here = static_cast<std::int64_t>(elements.size()) / found.width;
    for (std::int64_t i = 0; i < here; ++i)
      found.numbers.push_back((found.dealt ? static_cast<std::int64_t>(variable.first_owned()) / unit : 0) + i);
  }
  found.values.assign(data, data + here * found.width);
  return found;
}

struct Range {
  std::int64_t begin, end;
  std::int64_t size() const { return end - begin; }
  bool has(std::int64_t row) const { return row >= begin && row < end; }
};
Range range_of(px::WholeAt at, int rank, int ranks, std::int64_t rows) {
  if (at == px::WholeAt::parts) return {rows * rank / ranks, rows * (rank + 1) / ranks};
  return {0, at == px::WholeAt::rank_0 && rank > 0 ? 0 : rows};
}

// Scatters an item and gathers it, at all ranks that there are to choose from; the first complaint. `seed` grows.
template <class V>
std::string there_and_back(px::Session<World>& session, V& variable, std::string const& slot, int& seed) {
  int const rank = session.rank(), ranks = session.size();
  for (px::WholeAt const at : everywhere) {
    std::string const where = variable.name() + "/" + slot + " at " + std::string{to_string(at)} + ": ";
    px::WholeOptions const options{.slot = slot, .at = at, .call_bytes = call_bytes};
    Held const before = held(variable, slot);
    Range const mine = range_of(at, rank, ranks, before.rows);
    auto const row_bytes = static_cast<std::uint64_t>(before.width) * sizeof(float);
    auto const here = static_cast<std::int64_t>(before.numbers.size());
    auto const bytes = [&](std::int64_t rows) { return static_cast<std::uint64_t>(rows) * row_bytes; };
    auto sent = session.traffic().payload_sent(), received = session.traffic().payload_received();
    auto const moved = [&](std::uint64_t out, std::uint64_t in) {
      sent = session.traffic().payload_sent() - sent, received = session.traffic().payload_received() - received;
      if (sent == out && received == in) return std::string{};
      return where + std::to_string(sent) + " bytes were sent and " + std::to_string(received) + " received, not " +
             std::to_string(out) + " and " + std::to_string(in);
    };

    ++seed;
    std::vector<std::int64_t> asked;
    std::int64_t most = 0;
    session.scatter(variable, options, [&](Numbers numbers, px::RowsView<float> rows) {
      asked.insert(asked.end(), numbers.begin(), numbers.end());
      most = std::max(most, rows.rows);
      fill(seed, numbers, rows);
    });
    bool const by_holders = at == px::WholeAt::every_rank || (at == px::WholeAt::parts && before.dealt);
    std::int64_t out = 0, in = 0;
    if (!by_holders) {
      out = rank > 0 && at == px::WholeAt::rank_0 ? 0 : before.dealt ? before.rows - here : mine.size() * (ranks - 1);
      in = before.dealt ? (rank == 0 ? 0 : here) : before.rows - mine.size();
    }
    if (auto const wrong = moved(bytes(out), bytes(in)); !wrong.empty()) return "scatter of " + wrong;
    if (bytes(most) > call_bytes) return "scatter of " + where + std::to_string(most) + " rows at once";
    std::vector<std::int64_t> expected = before.numbers;
    if (!by_holders) {
      expected.clear();
      for (std::int64_t row = mine.begin; row < mine.end; ++row) expected.push_back(row);
    }
    if (asked != expected) return "scatter of " + where + "other rows were asked for";
    Held const after = held(variable, slot);
    for (std::size_t i = 0; i < after.numbers.size(); ++i)
      for (std::int64_t c = 0; c < after.width; ++c)
        if (after.values[i * static_cast<std::size_t>(after.width) + static_cast<std::size_t>(c)] !=
            value(seed, after.numbers[i], c))
          return "scatter of " + where + "row " + std::to_string(after.numbers[i]) + " is another";

    sent = session.traffic().payload_sent(), received = session.traffic().payload_received();
    Taken taken;
    session.gather(variable, options, taken);
    out = 0, in = 0;
    if (before.dealt) {
      for (int other = 0; other < ranks; ++other)
        for (std::int64_t const row : before.numbers) {
          bool const wanted = range_of(at, other, ranks, before.rows).has(row);
          out += wanted && other != rank;
          in -= wanted && other == rank;
        }
      in += mine.size();
    }
    if (auto const wrong = moved(bytes(out), bytes(in)); !wrong.empty()) return "gather of " + wrong;
    if (bytes(taken.most) > call_bytes) return "gather of " + where + std::to_string(taken.most) + " rows at once";
    if (static_cast<std::int64_t>(taken.numbers.size()) != mine.size()) return "gather of " + where + "other rows came";
    for (std::size_t i = 0; i < taken.numbers.size(); ++i) {
      std::int64_t const row = mine.begin + static_cast<std::int64_t>(i);
      if (taken.numbers[i] != row) return "gather of " + where + "row " + std::to_string(row) + " is missing";
      for (std::int64_t c = 0; c < before.width; ++c)
        if (taken.values[i * static_cast<std::size_t>(before.width) + static_cast<std::size_t>(c)] != value(seed, row, c))
          return "gather of " + where + "row " + std::to_string(row) + " is another";
    }
  }
  return {};
}

template <class P>
P partitioner_of([[maybe_unused]] std::int64_t rows) {
  if constexpr (std::same_as<P, px::Greedy>) {
    std::vector<double> weights(static_cast<std::size_t>(rows));
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = i % 10 == 3 ? 20.0 : 1.0 / static_cast<double>(1 + i);
    return px::Greedy{weights};
  } else {
    return P{};
  }
}

// A table of every policy, one after the other, by one partitioner.
template <class P>
std::string tables_by(int ranks, std::int64_t rows) {
  return on_ranks(ranks, [&](World& world) {
    px::Session session{world};
    px::Table const made{.rows = rows, .width = width, .initial = px::uniform(-1, 1)};
    P const dealt = partitioner_of<P>(rows);
    px::Variable<px::Sparse, px::PsShard, px::Adam, P> shard{session, "shard", made, dealt};
    px::Variable<px::Sparse, px::AllGather, px::Adagrad, P> gathered{session, "gathered", made, dealt};
    px::Variable<px::Sparse, px::AllReduce, px::RowwiseAdagrad, P> reduced{session, "reduced", made, dealt};
    px::Variable<px::Sparse, px::Auto, px::LazyAdam, P> chosen{session, "chosen", made, dealt};
    int seed = 0;
    std::string complaint;
    auto const check = [&](auto& variable, std::string const& slot) {
      if (complaint.empty()) complaint = there_and_back(session, variable, slot, seed);
    };
    check(shard, ""), check(shard, "m"), check(shard, "v");
    check(gathered, ""), check(gathered, "sum");
    check(reduced, ""), check(reduced, "sum");
    check(chosen, ""), check(chosen, "v");
    session.finish();
    return complaint;
  });
}

}  // namespace

TEST_CASE("every row of every table goes there and back once, and no byte more", "[checkpoint][whole]") {
  using parallax_test::sized;
  int worlds = 0;
  for (int const ranks : {1, 2, 3, 4})
    for (std::int64_t const rows : sized<std::vector<std::int64_t>>({3, 40}, {3, 40}, {0, 1, 2, 3, 40, 97, 700})) {
      INFO(ranks << " ranks, " << rows << " rows");
      CHECK(tables_by<px::Cyclic>(ranks, rows) == "");
      CHECK(tables_by<px::Block>(ranks, rows) == "");
      CHECK(tables_by<px::Hash>(ranks, rows) == "");
      CHECK(tables_by<px::Greedy>(ranks, rows) == "");
      worlds += 4;
    }
  std::printf("%d worlds, 9 items in each, each at 3 choices of ranks\n", worlds);
}

TEST_CASE("layers and their slots go there and back", "[checkpoint][whole]") {
  for (int const ranks : {1, 2, 3, 4})
    for (std::size_t const elements : {std::size_t{0}, std::size_t{4}, std::size_t{200}}) {
      INFO(ranks << " ranks, " << elements << " elements");
      CHECK(on_ranks(ranks, [&](World& world) {
              px::Session session{world};
              std::vector<std::vector<float>> memory(3, std::vector<float>(elements, 0.5f));
              px::Variable<px::Dense, px::AllReduce, px::Adam> replica{session, "replica", px::bind(memory[0])};
              px::Variable<px::Dense, px::PsShard, px::Adam> parted{session, "parted", px::bind(memory[1])};
              px::Variable<px::Dense, px::PsShard, px::RowwiseAdagrad> by_row{session, "by row", px::bind(memory[2], 4)};
              int seed = 0;
              std::string complaint;
              auto const check = [&](auto& variable, std::string const& slot) {
                if (complaint.empty()) complaint = there_and_back(session, variable, slot, seed);
              };
              check(replica, ""), check(replica, "m"), check(replica, "v");
              check(parted, ""), check(parted, "m"), check(parted, "v");
              check(by_row, "");
              if (elements > 0) check(by_row, "sum");
              session.finish();
              return complaint;
            }) == "");
    }
}

TEST_CASE("ranks that own nothing take and give all the same", "[checkpoint][whole]") {
  for (int const servers : {1, 2})
    CHECK(on_ranks(4, [&](World& world) {
            px::Session session{px::Topology{world, px::Servers{servers}}};
            std::vector<float> memory(50);
            px::Variable<px::Sparse, px::PsShard, px::Adam> words{session, "words", {.rows = 151, .width = width}};
            px::Variable<px::Dense, px::PsShard, px::Adam> layer{session, "layer", px::bind(memory)};
            int seed = 0;
            std::string complaint;
            for (char const* const slot : {"", "m"})
              complaint += there_and_back(session, words, slot, seed), complaint += there_and_back(session, layer, slot, seed);
            session.finish();
            return complaint;
          }) == "");
}

namespace {

// A training in which rows are left behind by an exact optimizer, and a table moves.
struct Trainer {
  static constexpr std::int64_t rows = 97;
  explicit Trainer(World& world) : session{world, {.choice = choice_of(0)}}, memory(30, 0.25f) {}

  // The table under Auto goes to all ranks, and back to owners.
  static px::AutoOptions choice_of(int step) {
    px::Costs costs;
    if (step / 4 % 2 == 1) costs.per_row = 1, costs.per_stream_byte = 1;
    else costs.round = 1;
    return {.first_step = 2, .interval = 4, .costs = costs, .device_costs = costs};
  }
  void step(int number) {
    session.options().choice = choice_of(number);
    std::mt19937_64 random{static_cast<std::uint64_t>(100 * number + session.rank())};
    std::vector<int> ids(random() % 6);
    for (int& id : ids) id = static_cast<int>(random() % rows);
    auto const draw = [&](std::size_t count) {
      std::vector<float> values(count);
      for (float& one : values) one = static_cast<float>(random() % 33) / 8 - 2;
      return values;
    };
    if (number == 3) words.optimizer().learning_rate /= 2;
    auto const pulled = session.pull(chosen, ids);
    session.step(px::grad(words, ids, draw(ids.size() * width)), px::grad(copy, ids, draw(ids.size() * width)),
                 px::grad(pulled, draw(ids.size() * width)), px::grad(layer, draw(30)));
  }
  template <class F>
  void each_item(F const& f) {
    for (char const* const slot : {"", "m", "v"}) f(words, slot), f(copy, slot), f(chosen, slot), f(layer, slot);
  }

  px::Session<World> session;
  std::vector<float> memory;
  px::Table made{.rows = rows, .width = width, .initial = px::uniform(-1, 1)};
  px::Variable<px::Sparse, px::PsShard, px::Adam, px::Hash> words{session, "words", made};
  px::Variable<px::Sparse, px::AllReduce, px::Adam> copy{session, "copy", made};
  px::Variable<px::Sparse, px::Auto, px::Adam, px::Block> chosen{session, "chosen", made};
  px::Variable<px::Dense, px::PsShard, px::Adam> layer{session, "layer", px::bind(memory)};
};
// All that a rank of a training holds in the end.
std::vector<float> end_of(Trainer& trainer) {
  std::vector<float> all;
  trainer.each_item([&](auto& variable, char const* slot) {
    Held const item = held(variable, slot);
    all.insert(all.end(), item.values.begin(), item.values.end());
  });
  trainer.session.finish();
  return all;
}

}  // namespace

TEST_CASE("a training goes on to the same bits after its state was taken and put back", "[checkpoint][whole]") {
  for (int const ranks : {1, 2, 3})
    CHECK(on_ranks(ranks, [&](World& world) {
            std::vector<float> straight;
            std::size_t moves = 0;
            {
              Trainer trainer{world};
              for (int step = 0; step < 12; ++step) trainer.step(step);
              moves = trainer.session.decisions().size();
              straight = end_of(trainer);
            }
            if (ranks > 1 && moves < 2) return std::string{"the table did not move"};
            for (px::WholeAt const at : everywhere) {
              Trainer trainer{world}, silent{world};
              for (int step = 0; step < 12; ++step) {
                trainer.step(step), silent.step(step);
                if (step % 3 != 1) continue;
                std::string wrong;
                trainer.each_item([&](auto& variable, char const* slot) {
                  // What came is put back. A rank may be asked for any row, so that all take all.
                  Taken taken, rest;
                  trainer.session.gather(variable, {.slot = slot, .at = at, .call_bytes = call_bytes}, taken);
                  trainer.session.gather(variable, {.slot = slot, .at = px::WholeAt::every_rank, .call_bytes = 99}, rest);
                  auto const row = rest.numbers.empty() ? 0 : rest.values.size() / rest.numbers.size();
                  for (std::size_t i = 0; i < taken.numbers.size(); ++i)
                    if (!std::equal(taken.values.begin() + static_cast<std::ptrdiff_t>(i * row),
                                    taken.values.begin() + static_cast<std::ptrdiff_t>((i + 1) * row),
                                    rest.values.begin() + static_cast<std::ptrdiff_t>(row) * taken.numbers[i]))
                      wrong = "what two gathers took differs";
                  trainer.session.scatter(
                      variable, {.slot = slot, .at = at, .call_bytes = call_bytes},
                      [&](Numbers numbers, px::RowsView<float> rows) {
                        for (std::int64_t i = 0; i < rows.rows; ++i)
                          std::copy_n(rest.values.data() + row * static_cast<std::size_t>(numbers[static_cast<std::size_t>(i)]),
                                      row, rows.row(i));
                      });
                });
                // And it is what a session shows that nobody has asked before.
                trainer.each_item([&](auto& variable, char const* slot) {
                  silent.each_item([&](auto& other, char const* its_slot) {
                    if constexpr (std::same_as<decltype(variable), decltype(other)>)
                      if (variable.name() == other.name() && std::string{slot} == its_slot && step == 10)
                        if (held(variable, slot).values != held(other, slot).values) wrong = variable.name() + " differs";
                  });
                });
                if (!wrong.empty()) return wrong;
              }
              silent.session.finish();
              if (end_of(trainer) != straight) return "a training at " + std::string{to_string(at)} + " ends otherwise";
            }
            return std::string{};
          }) == "");
}

TEST_CASE("rows that steps have passed by are not moved after they were set", "[checkpoint][whole]") {
  for (px::WholeAt const at : everywhere)
    CHECK(on_ranks(3, [&](World& world) {
            Trainer trainer{world};
            for (int step = 0; step < 7; ++step) trainer.step(step);
            auto& session = trainer.session;
            auto const put = [&](auto& table, int seed) {
              session.scatter(table, {.at = at, .call_bytes = call_bytes},
                              [&](Numbers numbers, px::RowsView<float> rows) { fill(seed, numbers, rows); });
              std::vector<std::int64_t> ids(Trainer::rows);
              for (std::size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<std::int64_t>(i);
              auto const pulled = session.pull(table, ids);
              for (std::size_t i = 0; i < ids.size(); ++i)
                for (std::int64_t c = 0; c < width; ++c)
                  if (pulled[i][static_cast<std::size_t>(c)] != value(seed, ids[i], c))
                    return "row " + std::to_string(i) + " was moved; ";
              return std::string{};
            };
            std::string complaint = put(trainer.words, 1) + put(trainer.copy, 2) + put(trainer.chosen, 3);
            // Nor are rows shown that were named ahead, and fetched, before they were set.
            std::vector<int> const ids{3, 96, 4};
            auto next = session.prefetch(trainer.words, ids);
            trainer.step(7);
            complaint += put(trainer.words, 4);
            auto const rows = session.pull(std::move(next));
            for (std::size_t i = 0; i < ids.size(); ++i)
              if (rows[i][0] != value(4, ids[i], 0)) complaint += "a row that was named ahead is old; ";
            session.finish();
            return complaint;
          }) == "");
}

TEST_CASE("a table passes through the memory of a few calls", "[checkpoint][whole]") {
  constexpr std::int64_t rows = 50'000, columns = 16, bytes = 1 << 16;
  constexpr int ranks = 4;
  // By all threads. Sanitizers have heaps of their own: glibc's would be first asked, and so set up, by several threads at once.
  auto const in_use = [] {
    if constexpr (!parallax_test::resident_is_ours) return std::int64_t{0};
    auto const info = ::mallinfo2();
    return static_cast<std::int64_t>(info.uordblks + info.hblkhd);
  };
  CHECK(on_ranks(ranks, [&](World& world) {
          px::Session session{world};
          px::Variable<px::Sparse, px::PsShard, px::Hash> words{session, "words", {.rows = rows, .width = columns}};
          px::Variable<px::Sparse, px::AllGather> copy{session, "copy", {.rows = rows, .width = columns}};
          std::string complaint;
          auto const check = [&](auto& table, px::WholeAt at, bool gathers) {
            session.gather(table, {.slot = "", .at = px::WholeAt::parts, .call_bytes = bytes}, [](auto, auto) {});
            static_cast<void>(session.pull(table, std::vector<int>{}));  // all are here
            std::int64_t const before = in_use();
            std::int64_t most = 0, largest = 0, calls = 0;
            auto const see = [&](Numbers numbers, auto given) {
              if (++calls % 7 == 1) most = std::max(most, in_use() - before);
              largest = std::max(largest, given.rows * columns * 4 + static_cast<std::int64_t>(numbers.size_bytes()));
            };
            if (gathers) session.gather(table, {.at = at, .call_bytes = bytes}, see);
            else
              session.scatter(table, {.at = at, .call_bytes = bytes}, [&](Numbers numbers, px::RowsView<float> given) {
                see(numbers, given);
                fill(1, numbers, given);
              });
            if (world.rank() == 0)
              std::printf("%s of %s at %s: %lld calls, at most %lld bytes in one, %lld more on the heap of %d ranks\n",
                          gathers ? "gather" : "scatter", table.name().c_str(), std::string{to_string(at)}.c_str(),
                          static_cast<long long>(calls), static_cast<long long>(largest), static_cast<long long>(most), ranks);
            if (largest > bytes) complaint += "a call is of " + std::to_string(largest) + " bytes; ";
            if (most > ranks * 4 * bytes + 50'000) complaint += std::to_string(most) + " bytes more are in use; ";
          };
          for (px::WholeAt const at : everywhere)
            for (bool const gathers : {true, false}) check(words, at, gathers), check(copy, at, gathers);
          session.finish();
          return complaint;
        }) == "");
}

namespace {

// Keeps a slot of another type than its parameters.
struct Counting {
  using axis = px::optimizer_axis;
  using element_slots = px::slot_types<px::scalar, std::int32_t>;
  static constexpr std::string_view name = "Counting", slot_names[] = {"last", "times"};
  double rate = 1;
  auto at(std::int64_t) const {
    return [](auto& p, auto g, auto& last, std::int32_t& times) noexcept { p -= last = g, ++times; };
  }
};

// What all ranks were told by `operation`, and "otherwise" where they were told several things; the session then goes on.
std::string said(int ranks, std::function<void(Trainer&)> const& operation) {
  std::vector<std::string> texts(static_cast<std::size_t>(ranks));
  std::string const wrong = on_ranks(ranks, [&](World& world) {
    std::string& text = texts[static_cast<std::size_t>(world.rank())];
    Trainer trainer{world};
    trainer.step(0);
    try {
      operation(trainer);
      text = "accepted";
    } catch (px::Error const& error) {
      text = error.what();
    }
    int seed = 0;
    std::string const after = there_and_back(trainer.session, trainer.words, "", seed);
    trainer.step(1);
    trainer.session.finish();
    return after;
  });
  if (!wrong.empty()) return wrong;
  for (std::string const& text : texts)
    if (text != texts[0]) return "otherwise: " + texts[0] + " | " + text;
  return texts[0];
}

}  // namespace

TEST_CASE("what a callable throws on one rank all ranks are told, and the session goes on", "[checkpoint][whole]") {
  for (px::WholeAt const at : everywhere)
    for (int const call_of_error : {0, 2}) {
      INFO(to_string(at) << ", call " << call_of_error);
      px::WholeOptions const options{.at = at, .call_bytes = 200};
      int const guilty = at == px::WholeAt::rank_0 ? 0 : 2;
      auto const throws = [&](Trainer& t) {
        return [rank = t.session.rank(), guilty, call_of_error, calls = 0](Numbers, auto) mutable {
          if (rank == guilty && calls++ == call_of_error) throw std::runtime_error{"the pen is empty"};
          if (rank == guilty && calls > call_of_error + 1) throw std::runtime_error{"called again"};
        };
      };
      std::string const by = "(rank " + std::to_string(guilty) + ") in ";
      CHECK(said(3, [&](Trainer& t) { t.session.gather(t.words, options, throws(t)); }) ==
            "parallax: exception in user code " + by + "gather of 'words': the pen is empty");
      CHECK(said(3, [&](Trainer& t) { t.session.gather(t.copy, options, throws(t)); }) ==
            "parallax: exception in user code " + by + "gather of 'copy': the pen is empty");
      auto const gives = [&](Trainer& t) {
        return [inner = throws(t)](Numbers numbers, px::RowsView<float> rows) mutable {
          fill(9, numbers, rows);
          inner(numbers, rows);
        };
      };
      CHECK(said(3, [&](Trainer& t) { t.session.scatter(t.words, options, gives(t)); }) ==
            "parallax: exception in user code " + by + "scatter of 'words': the pen is empty");
      CHECK(said(3, [&](Trainer& t) {
              std::string told;
              try {
                t.session.scatter(t.copy, options, gives(t));
              } catch (px::Error const& error) {
                told = error.what();
              }
              // All ranks have the same of it.
              std::vector<float> const mine = held(t.copy, "").values;
              Taken of_all;
              t.session.gather(t.copy, {.at = px::WholeAt::parts}, of_all);
              t.session.broadcast(t.copy);
              if (held(t.copy, "").values != mine) told += ", and replicas differ";
              throw px::Error{px::Errc::misuse, 0, "", "", told};
            }) == "parallax: misuse (rank 0): parallax: exception in user code " + by + "scatter of 'copy': the pen is empty");
    }
  parallax_test::Scratch const scratch;
  CHECK(said(2, [&](Trainer& t) {
          t.session.gather(t.words, {}, [&](Numbers, Rows) { px::npy::Reader{scratch.path("none")}; });
        }).find("parallax: file (rank 0) in gather of 'words': " + scratch.path("none")) == 0);
}

TEST_CASE("what cannot be taken or given is refused on all ranks", "[checkpoint][whole]") {
  auto const nothing = [](Numbers, auto) {};
  CHECK(said(2, [&](Trainer& t) { t.session.gather(t.words, {.slot = "sum"}, nothing); }) ==
        "parallax: invalid argument (rank 0) in gather of 'words': Adam has no slot 'sum'; its slots: m, v");
  CHECK(said(2, [&](Trainer& t) { t.session.scatter(t.layer, {.slot = "M"}, nothing); }) ==
        "parallax: invalid argument (rank 0) in scatter of 'layer': Adam has no slot 'M'; its slots: m, v");
  CHECK(said(2, [&](Trainer& t) { t.session.gather(t.words, {.call_bytes = 0}, nothing); }) ==
        "parallax: invalid argument (rank 0) in gather of 'words': call_bytes is at least 1");
  CHECK(said(2, [&](Trainer& t) { t.session.gather(t.words, {.at_most = 0}, nothing); }) ==
        "parallax: invalid argument (rank 0) in gather of 'words': at_most is a time");
  CHECK(said(2,
             [&](Trainer& t) {
               std::string told;
               t.session.start(px::grad(t.layer, std::vector<float>(30, 1.0f)));
               try {
                 t.session.gather(t.words, {}, nothing);
               } catch (px::Error const& error) {
                 told = error.what();
               }
               t.session.step();
               throw px::Error{px::Errc::misuse, 0, "", "", told};
             }) ==
        "parallax: misuse (rank 0): parallax: misuse (rank 0) in gather of 'layer': updates were started and no step "
        "completed them");
  std::string const different =
      said(2, [&](Trainer& t) { t.session.gather(t.words, {.slot = t.session.rank() == 0 ? "m" : "v"}, nothing); });
  CHECK_THAT(different, parallax_test::contains("parallax: mismatch between ranks"));
  CHECK_THAT(different, parallax_test::contains("slot 'm', to rank 0"));
  CHECK_THAT(different, parallax_test::contains("slot 'v', to rank 0"));
  CHECK(said(3,
             [&](Trainer& t) {
               t.session.scatter(t.copy, {.at = px::WholeAt::every_rank, .call_bytes = 280},
                                 [&](Numbers numbers, px::RowsView<float> rows) {
                                   fill(1, numbers, rows);
                                   if (t.session.rank() == 2 && numbers.front() > 0) rows.row(0)[0] = -1;
                                 });
             }) ==
        "parallax: mismatch between ranks (rank 2) in scatter of 'copy': of the rows 10 to 19 rank 2 gives others than rank 0");
}

TEST_CASE("ranks that mean two tables alike are told so", "[checkpoint][whole]") {
  std::string const told = on_ranks(2, [&](World& world) {
    px::Session session{world};
    px::Table const made{.rows = 9, .width = width};
    px::Variable<px::Sparse> one{session, "one", made}, other{session, "other", made};
    std::string complaint;
    try {
      session.gather(world.rank() == 0 ? one : other, {}, [](Numbers, Rows) {});
    } catch (px::Error const& error) {
      complaint = error.what();
    }
    session.finish();
    return complaint;
  });
  CHECK_THAT(told, parallax_test::contains("mismatch between ranks"));
}

TEST_CASE("a slot of another type than its parameters is taken and given as it is", "[checkpoint][whole]") {
  CHECK(on_ranks(2, [&](World& world) {
          px::Session session{world};
          px::Variable<px::Sparse, Counting> words{session, "words", {.rows = 20, .width = 2}};
          session.step(px::grad(words, std::vector<int>{3, world.rank()}, std::vector<float>(4, 1.0f)));
          std::vector<std::int32_t> times;
          session.gather(words, {.slot = "times"}, [&](Numbers, px::RowsView<std::int32_t const> rows) {
            times.insert(times.end(), rows.data, rows.data + rows.rows * rows.width);
          });
          session.scatter(words, {.slot = "times"}, [&](Numbers numbers, px::RowsView<std::int32_t> rows) {
            for (std::int64_t i = 0; i < rows.rows * 2; ++i)
              rows.data[i] = static_cast<std::int32_t>(numbers[static_cast<std::size_t>(i / 2)]);
          });
          std::string complaint;
          for (std::int64_t i = 0; i < words.local_rows(); ++i)
            if (words.template slot<std::int32_t>("times").row(i)[1] != words.global_row(i)) complaint += "another row; ";
          if (world.rank() == 0 && (times.size() != 40 || times[6] != 1 || times[0] != 1 || times[8] != 0))
            complaint += "other counts; ";
          try {
            session.gather(words, {.slot = "times"}, [](Numbers, Rows) {});
            complaint += "accepted; ";
          } catch (px::Error const& error) {
            if (std::string{error.what()} !=
                "parallax: invalid argument (rank 0) in gather of 'words': the slot is of i32, and the callable is for rows of "
                "something else")
              complaint += error.what();
          }
          session.finish();
          return complaint;
        }) == "");
}

TEST_CASE("a table goes through a file from one world to another", "[checkpoint][whole]") {
  namespace st = px::safetensors;
  parallax_test::Scratch const scratch;
  std::string const path = scratch.path("table.safetensors");
  CHECK(on_ranks(3, [&](World& world) {
          px::Session session{world};
          px::Variable<px::Sparse, px::Hash> words{
              session, "words", {.rows = 500, .width = width, .initial = px::uniform(-1, 1)}};
          std::optional<st::Writer> file;
          if (world.rank() == 0) file.emplace(path, std::vector<st::Spec>{{"words", st::Dtype::f32, {500, 3}}});
          session.gather(words, {.call_bytes = 1000}, [&](Numbers numbers, Rows rows) {
            file->write(0, static_cast<std::uint64_t>(numbers[0]) * 12,
                        std::as_bytes(std::span{rows.data, static_cast<std::size_t>(rows.rows * rows.width)}));
          });
          if (file) file->finish();
          session.finish();
          return std::string{};
        }) == "");
  CHECK(on_ranks(2, [&](World& world) {
          px::Session session{world};
          px::Variable<px::Sparse> words{session, "words", {.rows = 500, .width = width}};
          {
            st::Reader const file{path};
            auto const table = file.values<float>("words");
            session.scatter(words, {.at = px::WholeAt::every_rank}, [&](Numbers numbers, px::RowsView<float> rows) {
              for (std::int64_t i = 0; i < rows.rows; ++i)
                std::copy_n(table.data() + 3 * numbers[static_cast<std::size_t>(i)], 3, rows.row(i));
            });
          }
          Taken all;
          session.gather(words, {.at = px::WholeAt::every_rank}, all);
          session.finish();
          st::Reader const file{path};
          auto const table = file.values<float>("words");
          if (!std::equal(all.values.begin(), all.values.end(), table.begin(), table.end())) return "other rows";
          return "";
        }) == "");
}
