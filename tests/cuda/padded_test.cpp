// Padded tables on a device: the bits of tables that are not, a host that waits for nothing, and what is told of batches that do
// not fit.
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "../catch.hpp"
#include "../equivalence/memory.hpp"
#include "../support/size.hpp"
#include "communicators.hpp"
#include "deferred.hpp"
#include "parallax/kernel/cuda.cuh"
#include "parallax/parallax.hpp"

namespace {

namespace px = parallax;
using parallax_test::Memory, parallax_test::values_of;
using Ops = px::RowOps<px::CudaSpace>;

constexpr std::int64_t rows = 97, width = 4;

struct Seen {
  std::vector<float> values;
  std::uint64_t dropped = 0;
};

// Steps of every kind: pulled, in bags, named ahead, and by the push alone; of batches that fit, some of them empty.
template <class O, class P, class Id, bool padded, class C>
Seen train(C& world, px::BadIds bad, px::Reduce reduce) {
  px::Session<C> session{world, {.non_finite = px::NonFinite::propagate}};
  using Words = px::Variable<px::Sparse, px::CudaSpace, O, P>;
  px::Table const table{rows, width, px::uniform(-1, 1)};
  Words words = [&] {
    if constexpr (padded) return Words{session, "words", table, bad, reduce, px::Padded{world.size() == 1 ? 97u : 70u}};
    else return Words{session, "words", table, bad, reduce};
  }();
  auto const& ops = words.state().ops();
  std::mt19937_64 random{11 + static_cast<std::uint64_t>(world.rank())};
  auto const draw = [&](std::size_t n) {
    std::vector<float> values(n * width);
    for (float& value : values) value = static_cast<float>(random() % 1000) / 100 - 5;
    return Memory<float, px::CudaSpace>{ops, values};
  };
  Seen seen;
  for (std::size_t const n : {40, 0, 1, 200, 3000, 90}) {
    auto const drawn = static_cast<std::uint64_t>(bad == px::BadIds::error ? rows : rows + 30);
    std::vector<Id> ids(n);
    for (Id& id : ids) id = static_cast<Id>(random() % drawn);
    Memory<Id, px::CudaSpace> const there{ops, ids}, offsets{ops, {0, static_cast<Id>(n / 3), static_cast<Id>(n)}};
    auto const batch = px::on_device(there.span());
    auto named = session.prefetch(words, batch);
    auto const pulled = session.pull(words, batch);
    auto const [again, bags] = session.pull(words.at(batch), words.bags(batch, px::on_device(offsets.span()), px::Pool::mean));
    auto const of_pull = draw(n), of_bags = draw(2), of_push = draw(n), of_next = draw(n);
    session.step(px::grad(pulled, of_pull.span()));
    session.step(px::grad(bags, of_bags.span()));
    session.step(px::grad(words, batch, of_push.span()));
    auto const next = session.pull(std::move(named));
    session.step(px::grad(next, of_next.span()), px::grad(again, of_pull.span()));
    std::vector<std::uint32_t> inverse(n);
    ops.to_host(inverse.data(), pulled.inverse().data(), n);
    auto const distinct = values_of(
        ops, px::RowsView<float const>{pulled.values().data, pulled.values().rows + (padded || pulled.dropped() > 0), width});
    for (std::uint32_t const number : inverse)
      seen.values.insert(seen.values.end(), distinct.begin() + number * width, distinct.begin() + (number + 1) * width);
    for (auto const& values : {values_of(ops, bags.values()), values_of(ops, words.local())})
      seen.values.insert(seen.values.end(), values.begin(), values.end());
  }
  session.finish();
  seen.dropped = words.dropped();
  return seen;
}

template <class O, class P = px::Cyclic, class Id = std::int64_t, class Communicators>
void check(Communicators const& communicators, px::BadIds bad, px::Reduce reduce) {
  auto const ranks = static_cast<std::size_t>(communicators.ranks);
  std::vector<Seen> expected(ranks), found(ranks);
  communicators.run(std::chrono::minutes{1}, [&](auto& world) {
    auto const rank = static_cast<std::size_t>(world.rank());
    expected[rank] = train<O, P, Id, false>(world, bad, reduce);
    found[rank] = train<O, P, Id, true>(world, bad, reduce);
  });
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    CAPTURE(ranks, rank, px::to_string(bad), px::to_string(reduce));
    CHECK(found[rank].dropped == expected[rank].dropped);
    CHECK((bad != px::BadIds::drop_and_count || expected[rank].dropped > 0));
    REQUIRE(found[rank].values.size() == expected[rank].values.size());
    CHECK(std::memcmp(found[rank].values.data(), expected[rank].values.data(), found[rank].values.size() * sizeof(float)) == 0);
  }
}

}  // namespace

TEST_CASE("a padded table has the bits of one whose batches travel as they are", "[cuda][padded]") {
  std::uint64_t const first = emulated::first_seed("padded");
  for (std::uint64_t seed = first; seed < first + parallax_test::sized(1u, 2u, 2u); ++seed) {
    INFO("PARALLAX_SEED=" << seed);
    emulated::Deferred const deferred{seed};
    for (int const ranks : {1, 2, 3}) {
      communicators::CudaThreads const threads{ranks};
      check<px::Sgd>(threads, px::BadIds::error, px::Reduce::mean);
      check<px::Adagrad, px::Hash, std::int32_t>(threads, px::BadIds::drop_and_count, px::Reduce::mean_by_count);
      check<px::RowwiseAdagrad, px::Block>(threads, px::BadIds::hash, px::Reduce::sum);
    }
    check<px::LazyAdam>(communicators::CudaThreads{2}, px::BadIds::drop_and_count, px::Reduce::mean);
    check<px::AdamW>(communicators::CudaThreads{2}, px::BadIds::drop_and_count, px::Reduce::mean_by_count);
    check<px::Lamb>(communicators::CudaThreads{2}, px::BadIds::hash, px::Reduce::mean);
    check<px::Adagrad>(communicators::StagedThreads{2}, px::BadIds::drop_and_count, px::Reduce::mean);
    check<px::Adagrad>(communicators::NcclThreads{2}, px::BadIds::drop_and_count, px::Reduce::mean);
  }
}

TEST_CASE("the host takes steps of a padded table while the device has not begun the first", "[cuda][padded]") {
  std::atomic<bool> over{false};
  std::atomic<int> ahead{0};
  communicators::CudaThreads{2}.run(std::chrono::minutes{1}, [&]<class C>(C& world) {
    px::Session<C> session{world, {.non_finite = px::NonFinite::propagate}};
    px::Variable<px::Sparse, px::CudaSpace, px::Adagrad> words{session, "words", {rows, width}, px::Padded{50}};
    px::Variable<px::Sparse, px::CudaSpace, px::Adam> exact{session, "exact", {rows, width}, px::Padded{50}};
    auto const& ops = words.state().ops();
    Memory<int, px::CudaSpace> const ids{ops, {3, 1, 3, 96}}, offsets{ops, {0, 1, 4}};
    Memory<float, px::CudaSpace> const gradient{ops, std::vector<float>(4 * width, 1)};
    auto const step = [&] {
      auto const pull = [&] { return session.pull(words, px::on_device(ids.span())); };
      auto const pull_bags = [&] { return session.pull(words.bags(px::on_device(ids.span()), px::on_device(offsets.span()))); };
      session.step(px::grad(pull(), gradient.span()));
      session.step(px::grad(pull_bags(), gradient.span().first(2 * width)));
      auto const pulled = pull();
      auto const bags = pull_bags();
      session.step(px::grad(pulled, gradient.span()), px::grad(bags, gradient.span().first(2 * width)));
      session.step(px::grad(session.pull(exact, px::on_device(ids.span())), gradient.span()));
    };
    for (int warm = 0; warm < 3; ++warm)
      session.step(px::grad(words, px::on_device(ids.span()), gradient.span()),
                   px::grad(exact, px::on_device(ids.span()), gradient.span()));
    ops.wait();
    px::barrier(world);
    emulator::put(emulator::of(world.queue().stream), {{}, nullptr, 0, [&] { return over.load(); }});
    for (int i = 0; i < 3; ++i) step();
    ++ahead;
    if (world.rank() == 0) {
      while (ahead < 2) std::this_thread::yield();
      over = true;
    }
    session.finish();
  });
  CHECK(ahead == 2);
}

namespace {

using Words = px::Variable<px::Sparse, px::CudaSpace, px::Adagrad>;

// On two ranks: what rank 1 does wrong in a step, between steps that are right, and what each rank is told of it.
struct Told {
  std::vector<float> before, after, at_end;
  std::vector<std::string> errors;
};
template <class Wrong>
std::vector<Told> told_of(px::BadIds bad, Wrong&& wrong) {
  std::vector<Told> told(2);
  communicators::CudaThreads{2}.run(std::chrono::minutes{1}, [&]<class C>(C& world) {
    auto& mine = told[static_cast<std::size_t>(world.rank())];
    px::Session<C> session{world, {.non_finite = px::NonFinite::propagate}};
    Words words{session, "words", px::Table{rows, width, px::uniform(-1, 1)}, bad, px::Padded{2}};
    auto const& ops = words.state().ops();
    Memory<int, px::CudaSpace> const right{ops, {3, 1, 3, 96}};  // two rows of each rank
    Memory<float, px::CudaSpace> const gradient{ops, std::vector<float>(5 * width, 1)};
    auto const attempt = [&](auto&& call) {
      try {
        call();
        mine.errors.emplace_back("no error");
      } catch (px::Error const& error) {
        mine.errors.emplace_back(error.what());
      }
    };
    auto const step = [&](auto const& pulled, std::size_t n) {
      session.step(px::grad(pulled, gradient.span().first(n * width)));
    };
    auto const right_step = [&] { step(session.pull(words, px::on_device(right.span())), 4); };
    right_step();
    mine.before = values_of(ops, words.local());
    wrong(session, words, ops, world.rank(), step);
    mine.after = values_of(ops, words.local());  // waits for the stream
    px::barrier(world);
    attempt(right_step);
    attempt(right_step);
    wrong(session, words, ops, world.rank(), step);
    attempt([&] { session.finish(); });
    attempt([&] { session.finish(); });
    mine.at_end = values_of(ops, words.local());
  });
  return told;
}

}  // namespace

TEST_CASE("a padded batch that does not fit is left out on all ranks, and told by a later call", "[cuda][padded]") {
  struct Case {
    std::vector<int> ids, offsets;
    std::string said;
  };
  std::string const left_out = "; their updates of the table were left out on all ranks";
  for (Case const& one :
       {Case{{3, 1, 5, 7, 2}, {}, "earlier batches named more rows of one rank than the 2 of px::Padded, up to 4" + left_out},
        Case{{3, 97, 1, -1, 2}, {}, "earlier batches named 2 indices that are outside the table" + left_out},
        Case{{3, 1, 2, 2, 3},
             {1, 4, 3, 5},
             "earlier batches had offsets of bags that do not ascend from 0 to the number of indices" + left_out}}) {
    auto const& ids = one.ids;
    auto const& offsets = one.offsets;
    auto const& said = one.said;
    CAPTURE(said);
    auto const told = told_of(px::BadIds::error, [&](auto& session, Words& words, Ops const& ops, int rank, auto const& step) {
      std::vector<int> const right{1, 1, 3, 3, 2}, right_offsets{0, 1, 4, 5};
      Memory<int, px::CudaSpace> const there{ops, rank == 1 ? ids : right},
          begins{ops, rank == 1 && !offsets.empty() ? offsets : right_offsets};
      if (offsets.empty()) step(session.pull(words, px::on_device(there.span())), 5);
      else step(session.pull(words.bags(px::on_device(there.span()), px::on_device(begins.span()))), 3);
    });
    for (auto const& [before, after, at_end, errors] : told) {
      CHECK(before == after);
      REQUIRE(errors.size() == 4);
      CHECK_THAT(errors[0], parallax_test::contains("(rank 1) in pull of 'words': " + said));
      CHECK(errors[1] == "no error");
      CHECK(at_end != before);
      CHECK_THAT(errors[2], parallax_test::contains("(rank 1) in finish of 'words': " + said));
      CHECK(errors[3] == "no error");
    }
  }
}

TEST_CASE("what a padded table cannot be is told", "[cuda][padded]") {
  std::vector<std::vector<std::string>> told(2);
  communicators::CudaThreads{2}.run(std::chrono::minutes{1}, [&]<class C>(C& world) {
    auto const attempt = [&](auto&& call) {
      try {
        call();
        told[static_cast<std::size_t>(world.rank())].emplace_back("no error");
      } catch (px::Error const& error) {
        told[static_cast<std::size_t>(world.rank())].emplace_back(error.detail());
      }
    };
    px::Session<C> session{world};
    attempt([&] { Words const words(session, "none", {rows, width}, px::Padded{0}); });
    attempt([&] {
      px::Variable<px::Sparse, px::CudaSpace, px::Index<std::int32_t>> const words(session, "many", {0x7ffffffe, 0},
                                                                                   px::Padded{1});
    });
    Words words{session, "words", {rows, width}, px::Padded{static_cast<std::uint32_t>(3 + world.rank())}};
    Memory<int, px::CudaSpace> const ids{words.state().ops(), {1}};
    attempt([&] { static_cast<void>(session.pull(words, px::on_device(ids.span()))); });
  });
  for (auto const& texts : told) {
    REQUIRE(texts.size() == 3);
    CHECK(texts[0] == "batches are padded to 0 rows of a rank");
    CHECK(texts[1] == "2147483646 rows leave the index type no room for the keys of padding");
    CHECK((texts[2].find("padded to 3") != std::string::npos && texts[2].find("padded to 4") != std::string::npos));
  }
  std::string host;
  communicators::CudaThreads{1}.run(std::chrono::minutes{1}, [&]<class C>(C& world) {
    px::Session<C> session{world};
    Words words{session, "words", {rows, width}, px::Padded{3}};
    try {
      static_cast<void>(session.pull(words, std::vector<int>{1}));
    } catch (px::Error const& error) {
      host = error.detail();
    }
    session.finish();
  });
  CHECK(host == "a padded table is indexed on its device: px::on_device(ids)");
}
