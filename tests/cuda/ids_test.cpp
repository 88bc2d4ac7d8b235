// Indices in device memory: the plans, rows and errors of the same indices in the host's.
#include <barrier>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "../catch.hpp"
#include "../equivalence/memory.hpp"
#include "deferred.hpp"
#include "parallax/comm/cuda_thread.hpp"
#include "parallax/kernel/cuda.cuh"
#include "parallax/partition/greedy.hpp"
#include "parallax/variable/stack.hpp"
#include "../../benchmarks/baseline/naive_ps.hpp"

namespace {

namespace px = parallax;
using parallax_test::Memory, parallax_test::values_of;
using Ops = px::RowOps<px::CudaSpace>;

constexpr std::int64_t rows = 97, width = 3;

// What a rank saw of a training: rows, and where those of its indices are.
struct Seen {
  std::vector<float> values;
  std::vector<std::uint32_t> inverse;
  std::uint64_t dropped = 0;
};

// Four steps on ids of which some lie outside the table: pulled, and named ahead, in bags, and by the push alone.
template <class Policy, class P, class Id, class IndexType, bool on_device>
Seen train(px::CudaThreadCommunicator& world, px::BadIds bad, px::Reduce reduce, P const& partitioner, std::size_t most) {
  px::Session session{world};
  px::Variable<px::Sparse, Policy, px::CudaSpace, px::Adagrad, P, px::Index<IndexType>> words{
      session, "words", px::Table{rows, width, px::uniform(-1, 1)}, bad, reduce, partitioner};
  auto const& ops = words.state().ops();
  std::mt19937_64 random{11 + static_cast<std::uint64_t>(world.rank())};
  auto const draw = [&](std::size_t n) {
    std::vector<float> values(n * width);
    for (float& value : values) value = static_cast<float>(random() % 1000) / 100 - 5;
    return Memory<float, px::CudaSpace>{ops, values};
  };
  Seen seen;
  for (std::size_t const n : {std::size_t{40}, std::size_t{0}, std::size_t{1}, most}) {
    std::int64_t const drawn = bad == px::BadIds::error ? rows : rows + 30;
    std::vector<Id> ids(n);
    for (Id& id : ids) id = static_cast<Id>(static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(drawn)));
    if (bad != px::BadIds::error && n > 5) ids[5] = static_cast<Id>(-1);
    Memory<Id, px::CudaSpace> const there{ops, ids};
    auto const batch = [&] {
      if constexpr (on_device) return px::on_device(there.span());
      else return std::span<Id const>{ids};
    }();
    std::vector<int> const offsets{0, static_cast<int>(n / 3), static_cast<int>(n)};
    auto named = session.prefetch(words, batch);
    auto const [pulled, bags] = session.pull(words.at(batch), words.bags(batch, offsets, px::Pool::mean));
    std::vector<std::uint32_t> inverse(pulled.indices());
    ops.to_host(inverse.data(), pulled.inverse().data(), inverse.size());
    seen.inverse.insert(seen.inverse.end(), inverse.begin(), inverse.end());
    auto const of_pull = draw(n), of_bags = draw(2), of_push = draw(n), of_next = draw(n);
    session.step(px::grad(pulled, of_pull.span()), px::grad(bags, of_bags.span()), px::grad(words, batch, of_push.span()));
    auto const next = session.pull(std::move(named));
    session.step(px::grad(next, of_next.span()));
    for (auto const& values : {values_of(ops, pulled.values()), values_of(ops, bags.values()), values_of(ops, words.local())})
      seen.values.insert(seen.values.end(), values.begin(), values.end());
  }
  seen.dropped = words.dropped();
  session.finish();
  return seen;
}

template <class Policy, class P, class Id, class IndexType>
void check(px::BadIds bad, px::Reduce reduce, P const& partitioner = {}, std::size_t most = 300) {
  std::vector<Seen> host(2), device(2);
  px::run_cuda_threads(2, [&](px::CudaThreadCommunicator& world) {
    auto const rank = static_cast<std::size_t>(world.rank());
    host[rank] = train<Policy, P, Id, IndexType, false>(world, bad, reduce, partitioner, most);
    device[rank] = train<Policy, P, Id, IndexType, true>(world, bad, reduce, partitioner, most);
  });
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(device[rank].inverse == host[rank].inverse);
    CHECK(device[rank].dropped == host[rank].dropped);
    REQUIRE(device[rank].values.size() == host[rank].values.size());
    CHECK(std::memcmp(device[rank].values.data(), host[rank].values.data(), host[rank].values.size() * sizeof(float)) == 0);
  }
  if (bad == px::BadIds::drop_and_count) CHECK(host[0].dropped > 0);
}

}  // namespace

TEST_CASE("a training whose indices are on the device has the bits of one whose indices are the host's", "[cuda][ids]") {
  check<px::PsShard, px::Cyclic, std::int64_t, std::int64_t>(px::BadIds::error, px::Reduce::mean, {}, 9000);  // sorted by CUB
  check<px::PsShard, px::Hash, std::int32_t, std::int64_t>(px::BadIds::drop_and_count, px::Reduce::mean_by_count);
  check<px::AllGather, px::Block, std::int64_t, std::int32_t>(px::BadIds::hash, px::Reduce::sum, {.pieces = 5});
  check<px::AllReduce, px::Cyclic, std::uint32_t, std::int32_t>(px::BadIds::drop_and_count, px::Reduce::mean_by_count,
                                                                {.pieces = 7});
  check<baseline::NaivePs, px::Cyclic, std::int64_t, std::int64_t>(px::BadIds::drop_and_count, px::Reduce::mean);
  constexpr std::size_t many = Ops::most_planned_by_host + 1;  // of the host's, which then go to the device
  check<px::PsShard, px::Cyclic, std::int32_t, std::int64_t>(px::BadIds::error, px::Reduce::mean, {}, many);
  check<px::PsShard, px::Hash, std::uint64_t, std::int32_t>(px::BadIds::hash, px::Reduce::mean_by_count, {}, many);
  check<px::AllGather, px::Block, std::int16_t, std::int64_t>(px::BadIds::drop_and_count, px::Reduce::sum, {}, many);
  std::vector<double> weights(rows);
  for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<double>(1 + i % 13);
  check<px::PsShard, px::Greedy, std::int64_t, std::int64_t>(px::BadIds::drop_and_count, px::Reduce::mean, px::Greedy{weights});
}

TEST_CASE("indices on the device are read in the order of streams, whatever it is", "[cuda][ids]") {
  std::uint64_t const first = emulated::first_seed("orders of streams");
  for (std::uint64_t seed = first; seed < first + 6; ++seed) {
    INFO("PARALLAX_SEED=" << seed);
    emulated::Deferred const deferred{seed};
    check<px::PsShard, px::Hash, std::int64_t, std::int64_t>(px::BadIds::drop_and_count, px::Reduce::mean_by_count);
  }
  emulated::Deferred const deferred{first};  // a device that is not ready yet when it is asked, and CUB's sort afterwards
  check<px::PsShard, px::Cyclic, std::int64_t, std::int64_t>(px::BadIds::error, px::Reduce::mean, {}, 9000);
}

TEST_CASE("many indices of the host's are planned on the device, few are not, and one outside the table has the host's words",
          "[cuda][ids]") {
  constexpr std::size_t few = Ops::most_planned_by_host, many = few + 1;
  static_assert(rows < few);
  std::barrier ranks{2};
  struct Told {
    std::int64_t copies_of_few, copies_of_many;
    std::size_t mixed;
    bool right;  // the rows that a pull of few says
    std::string refused, negative;
  };
  std::vector<Told> told(2);
  px::run_cuda_threads(2, [&](px::CudaThreadCommunicator& world) {
    px::Session session{world};
    px::Variable<px::Sparse, px::CudaSpace> words{session, "words", px::Table{rows, width, px::uniform(-1, 1)}};
    auto const copies_of = [&](auto const& ids) {  // to the host, by a pull of all ranks
      auto const now = [&] {
        ranks.arrive_and_wait();
        emulator::Locked const locked{emulator::mutex};
        return emulator::copies_to_host;
      };
      auto const before = now();
      ranks.arrive_and_wait();
      static_cast<void>(session.pull(words, ids));
      return now() - before;
    };
    std::vector<std::uint64_t> ids(many);
    for (std::size_t i = 0; i < many; ++i) ids[i] = i * 31 % rows;
    Told& own = told[static_cast<std::size_t>(world.rank())];
    own.copies_of_few = copies_of(std::span{ids}.first(few)), own.copies_of_many = copies_of(std::span{ids});
    // One rank's are planned by the host, and the other's on the device.
    auto const mixed = session.pull(words, std::span{ids}.first(world.rank() == 0 ? few : many));
    own.mixed = mixed.size();
    auto const& ops = words.state().ops();
    auto const here = [&](auto numbers) {
      std::vector<std::uint32_t> copy(numbers.size());
      ops.to_host(copy.data(), numbers.data(), copy.size());
      return copy;
    };
    auto const all = session.pull(words, std::span{ids}.first(rows)), of_many = session.pull(words, std::span{ids});
    auto const wanted = values_of(ops, all.values()), found = values_of(ops, of_many.values());
    auto const all_at = here(all.inverse()), many_at = here(of_many.inverse());
    own.right = true;
    for (std::size_t i = 0; i < many; ++i)
      own.right =
          own.right && std::memcmp(&wanted[all_at[i % rows] * width], &found[many_at[i] * width], width * sizeof(float)) == 0;
    auto const refusal_of = [&](std::uint64_t wrong) {
      ids[many - 5] = wrong, ids[many - 3] = rows + 9;
      try {
        static_cast<void>(session.pull(words, std::span{ids}));
      } catch (px::Error const& error) {
        return std::string{error.what()};
      }
      return std::string{"no error"};
    };
    own.refused = refusal_of(97), own.negative = refusal_of(~std::uint64_t{0});
    session.finish();
  });
  std::string const place = " at position " + std::to_string(many - 5) + " is outside [0, 97)";
  for (Told const& own : told) {
    CHECK(own.copies_of_few == 0);
    CHECK(own.copies_of_many == 2);  // the lengths of each rank's runs
    CHECK(own.mixed == rows);
    CHECK(own.right);
    CHECK(own.refused.ends_with("in pull of 'words': index 97" + place));
    CHECK(own.negative.ends_with("in pull of 'words': index 18446744073709551615" + place));
  }
}

TEST_CASE("an index on the device that is outside the table is refused with its place", "[cuda][ids]") {
  std::vector<std::string> told(2);
  px::run_cuda_threads(2, [&](px::CudaThreadCommunicator& world) {
    px::Session session{world};
    px::Variable<px::Sparse, px::CudaSpace> words{session, "words", {rows, width}};
    px::Variable<px::Sparse, px::CudaSpace> none{session, "none", {0, width}, px::BadIds::hash};
    auto const& ops = words.state().ops();
    Memory<int, px::CudaSpace> const wrong{ops, {3, 96, world.rank() == 1 ? 97 : 5, -4 * world.rank()}}, right{ops, {1, 96}};
    auto& text = told[static_cast<std::size_t>(world.rank())];
    auto const refusal_of = [&](auto const& table, auto const& ids) {
      try {
        static_cast<void>(session.pull(table, px::on_device(ids.span())));
      } catch (px::Error const& error) {
        return std::string{error.what()} + "\n";
      }
      return std::string{"no error\n"};
    };
    text = refusal_of(words, wrong) + refusal_of(none, right) + refusal_of(words, right);
    session.finish();
  });
  for (std::string const& text : told) {
    CAPTURE(text);
    CHECK(text.find("(rank 1) in pull of 'words': index 97 at position 2 is outside [0, 97)\n") != std::string::npos);
    CHECK(text.find("in pull of 'none': index 1 at position 0 is outside [0, 0)\n") != std::string::npos);
    CHECK(text.ends_with("no error\n"));
  }
}

namespace {

// A stack of three tables, pulled in bags of which the host knows neither the indices nor the offsets, or all of them.
template <class Policy, class P, class Offset, bool on_device>
Seen train_stack(px::CudaThreadCommunicator& world, px::BadIds bad, P const& partitioner) {
  px::Session session{world};
  px::Variable<px::Sparse, Policy, px::CudaSpace, px::Adagrad, P> words{
      session, "words", px::Stack{{{30, width, px::uniform(-1, 1)}, {5, width}, {62, width, px::constant(1)}}}, bad,
      partitioner};
  auto const& ops = words.state().ops();
  std::mt19937_64 random{17 + static_cast<std::uint64_t>(world.rank())};
  Seen seen;
  for (std::size_t const bags : {4, 1, 0, 2000, 7}) {  // of each table
    std::vector<std::int64_t> ids;
    std::vector<Offset> offsets{0};
    for (std::size_t bag = 0; bag < 3 * bags; ++bag) {
      auto const table_rows = static_cast<std::uint64_t>(words.first_row(bag / bags + 1) - words.first_row(bag / bags));
      for (std::size_t i = random() % 4; i > 0; --i)
        ids.push_back(static_cast<std::int64_t>(random() % (table_rows + (bad == px::BadIds::error ? 0 : 3))));
      offsets.push_back(static_cast<Offset>(ids.size()));
    }
    std::vector<float> gradient(3 * bags * width);
    for (float& g : gradient) g = static_cast<float>(random() % 1000) / 100 - 5;
    Memory<float, px::CudaSpace> const gradient_there{ops, gradient};
    Memory<std::int64_t, px::CudaSpace> const ids_there{ops, ids};
    Memory<Offset, px::CudaSpace> const offsets_there{ops, offsets};
    auto const pooled = [&] {
      if constexpr (on_device)
        return session.pull(words.bags(px::on_device(ids_there.span()), px::on_device(offsets_there.span()), px::Pool::mean));
      else return session.pull(words.bags(ids, offsets, px::Pool::mean));
    }();
    session.step(px::grad(pooled, gradient_there.span()));
    for (auto const& values : {values_of(ops, pooled.values(2)), values_of(ops, words.local())})
      seen.values.insert(seen.values.end(), values.begin(), values.end());
  }
  seen.dropped = words.dropped();
  session.finish();
  return seen;
}

template <class Policy, class P, class Offset>
void check_stack(px::BadIds bad, P const& partitioner = {}) {
  std::vector<Seen> host(2), device(2);
  px::run_cuda_threads(2, [&](px::CudaThreadCommunicator& world) {
    auto const rank = static_cast<std::size_t>(world.rank());
    host[rank] = train_stack<Policy, P, Offset, false>(world, bad, partitioner);
    device[rank] = train_stack<Policy, P, Offset, true>(world, bad, partitioner);
  });
  for (std::size_t rank = 0; rank < 2; ++rank) {
    CHECK(device[rank].dropped == host[rank].dropped);
    CHECK((bad != px::BadIds::drop_and_count || host[rank].dropped > 0));
    REQUIRE(device[rank].values.size() == host[rank].values.size());
    CHECK(std::memcmp(device[rank].values.data(), host[rank].values.data(), host[rank].values.size() * sizeof(float)) == 0);
  }
}

}  // namespace

TEST_CASE("bags of a stack whose indices and offsets are on the device have the bits of those that the host knows",
          "[cuda][ids]") {
  std::uint64_t const first = emulated::first_seed("offsets there");
  for (std::uint64_t seed = first; seed < first + 2; ++seed) {
    INFO("PARALLAX_SEED=" << seed);
    emulated::Deferred const deferred{seed};
    check_stack<px::PsShard, px::Cyclic, std::int64_t>(px::BadIds::error);
    check_stack<px::PsShard, px::Hash, std::int32_t>(px::BadIds::drop_and_count);
    check_stack<px::AllGather, px::Block, std::int32_t>(px::BadIds::hash, {.pieces = 5});
    std::vector<double> weights(rows);
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = static_cast<double>(1 + i % 13);
    check_stack<px::PsShard, px::Greedy, std::int64_t>(px::BadIds::drop_and_count, px::Greedy{weights});  // planned by the host
  }
}

TEST_CASE("offsets on the device that do not fit, and indices outside their table, are told as those of the host",
          "[cuda][ids]") {
  std::vector<std::vector<std::string>> told(2);
  px::run_cuda_threads(2, [&](px::CudaThreadCommunicator& world) {
    px::Session session{world};
    px::Variable<px::Sparse, px::CudaSpace> words{session, "words", px::Stack{{{10, width}, {4, width}}}};
    auto const& ops = words.state().ops();
    auto const pull = [&](std::vector<int> const& ids, std::vector<int> const& offsets) {
      Memory<int, px::CudaSpace> const ids_there{ops, ids}, offsets_there{ops, offsets};
      std::string text = "no error";
      try {
        static_cast<void>(session.pull(words.bags(px::on_device(ids_there.span()), px::on_device(offsets_there.span()))));
      } catch (px::Error const& error) {
        text = error.detail();
      }
      told[static_cast<std::size_t>(world.rank())].push_back(text);
    };
    bool const other = world.rank() == 1;
    pull({9, 3, 1}, {0, other ? 3 : 1, other ? 1 : 2, 2, 3});
    pull({9, 3, 1}, {other ? 1 : 0, 1, 3});
    pull({9, 3, 1}, {0, 1, other ? 2 : 3});
    pull({9, 3, 1}, {0, other ? -1 : 1, 3});
    pull({9, 3, 1}, {0, 1, other ? 300 : 3});
    pull({9, 3, 1}, {0, 1, 2, 3});
    pull({9, 3, other ? 4 : 1}, {0, 1, 3});
    pull({}, {0, other ? 1 : 0, 0});
    pull({}, {0, 0, 0});
    pull({9, 3, 1}, {0, 1, 3});
    session.finish();
  });
  for (auto const& texts : told) {
    std::string const ends = "offsets of bags begin with 0 and end with the number of indices, 3";
    std::vector<std::string> const expected{"the offsets of bags descend from 3 to 1 at bag 1",
                                            ends,
                                            ends,
                                            "the offsets of bags descend from 0 to -1 at bag 0",
                                            ends,
                                            "3 bags for a stack of 2 tables, which have as many each",
                                            "index 4 at position 2 is outside [0, 4) of table 1",
                                            "the offsets of bags descend from 1 to 0 at bag 1",
                                            "no error",
                                            "no error"};
    CHECK(texts == expected);
  }
}
