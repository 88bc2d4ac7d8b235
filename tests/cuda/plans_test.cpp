// What a step of tables on a device costs beside its arithmetic: bytes over the bus, waits of the host, operations in the stream,
// blocks of memory. Counted on the emulator, of indices that lie in the device's memory, whatever their number is.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "../catch.hpp"
#include "../equivalence/memory.hpp"
#include "../support/size.hpp"
#include "communicators.hpp"
#include "deferred.hpp"
#include "parallax/kernel/cuda.cuh"
#include "parallax/parallax.hpp"
#include "parallax/variable/stack.hpp"

namespace {

namespace px = parallax;
using parallax_test::Memory;

// What all ranks together have asked of the device so far. A sort of CUB's and a group of NCCL's are a launch each; what CUB makes of
// its own is counted beside.
struct Asked {
  std::int64_t bus_bytes, copies_to_host, stalls, copies, launches, sort_operations, blocks, scratch;

  static Asked now() {
    emulator::Locked const locked{emulator::mutex};
    return {emulator::bus_bytes,
            emulator::copies_to_host,
            emulator::synchronizations + emulator::event_stalls,
            emulator::copies,
            static_cast<std::int64_t>(emulator::launches) + emulator::nccl_operations,
            emulator::sort_operations,
            emulator::allocations - emulator::pool_allocations,
            emulator::pool_allocations};
  }
  // What one of so many has asked since, on average.
  Asked since(Asked const& before, std::int64_t times) const {
    auto const mean = [&](std::int64_t Asked::*what) { return (this->*what - before.*what) / times; };
    return {mean(&Asked::bus_bytes), mean(&Asked::copies_to_host),  mean(&Asked::stalls), mean(&Asked::copies),
            mean(&Asked::launches),  mean(&Asked::sort_operations), mean(&Asked::blocks), mean(&Asked::scratch)};
  }
};

// A step as a trainer takes it: indices in device memory, pulled from each of the tables, and a gradient for each of them.
struct Shape {
  std::size_t tables, indices;
  bool clips = false, counted = false;
  std::size_t bags = 0;  // of as many the mean is pulled, and a gradient given for each; 0: row by row
  // The tables are one variable, whose bags begin where numbers in device memory say; `bags` are of each table.
  bool stacked = false;
  std::uint32_t padded = 0;     // to so many rows of a rank
  std::vector<int> hosts = {};  // by rank, where they are several: then keys travel by two levels
};

// Of a steady step of one rank, the mean over ranks and over steps after the first ones.
template <class Policy = px::PsShard, class O = px::Adagrad, class Communicators>
Asked of_step(Communicators const& communicators, Shape const& shape) {
  constexpr std::int64_t rows = 5000, width = 8, warm = 3, steps = 2;
  Asked before{}, after{};
  communicators.run(std::chrono::minutes{2}, [&]<class C>(C& world) {
    px::Session<C> session{shape.hosts.empty() ? px::Topology<C>{world} : px::Topology<C>{world, shape.hosts},
                           {.non_finite = px::NonFinite::propagate}};
    px::RowOps<px::CudaSpace> const ops{world.queue()};
    using Table = px::Variable<px::Sparse, Policy, px::CudaSpace, O>;
    std::vector<Table> tables;
    if (shape.stacked) {
      px::Stack const stack{std::vector<px::Table>(shape.tables, {rows, width, px::uniform(-1, 1)})};
      if constexpr (Table::State::can_pad)
        if (shape.padded) tables.emplace_back(session, "tables", stack, px::Padded{shape.padded});
      if (tables.empty()) tables.emplace_back(session, "tables", stack);
    }
    for (std::size_t t = 0; t < shape.tables && !shape.stacked; ++t)
      tables.emplace_back(session, "table " + std::to_string(t), px::Table{rows, width, px::uniform(-1, 1)},
                          shape.counted ? px::Reduce::mean_by_count : px::Reduce::mean);
    std::mt19937_64 random{5 + static_cast<std::uint64_t>(world.rank())};
    std::vector<Memory<std::int64_t, px::CudaSpace>> batches;  // other indices in each step, of another number
    std::size_t const bags = shape.bags * (shape.stacked ? shape.tables : 1);
    std::vector<std::vector<std::int64_t>> offsets;
    std::vector<Memory<std::int64_t, px::CudaSpace>> offsets_there;
    for (std::int64_t step = 0; step < warm + steps; ++step) {
      std::vector<std::int64_t> ids(shape.indices - static_cast<std::size_t>(step));
      for (auto& id : ids) id = static_cast<std::int64_t>(random() % rows);
      batches.emplace_back(ops, ids);
      offsets.emplace_back();
      for (std::size_t bag = 0; bag <= bags && bags > 0; ++bag)
        offsets.back().push_back(static_cast<std::int64_t>(ids.size() * bag / bags));
      offsets_there.emplace_back(ops, offsets.back());
    }
    Memory<float, px::CudaSpace> const gradient{ops, std::vector<float>(shape.indices * width, 0.25f)};
    for (std::int64_t step = 0; step < warm + steps; ++step) {
      if (step == warm) {
        ops.wait();
        px::barrier(world);
        if (world.rank() == 0) before = Asked::now();
        px::barrier(world);
      }
      auto const ids = px::on_device(batches[static_cast<std::size_t>(step)].span());
      auto const train = [&](auto const& names, std::size_t rows_of_gradient) {  // all tables in one pull and one step
        std::vector<decltype(names(tables[0]))> batch;
        for (auto& table : tables) batch.push_back(names(table));
        auto const pulled = session.pull(batch);
        std::vector<decltype(px::grad(pulled[0], gradient.span()))> updates;
        for (auto& handle : pulled) updates.push_back(px::grad(handle, gradient.span().first(rows_of_gradient * width)));
        if (shape.clips) session.step(px::clip_by_global_norm(1, updates));
        else session.step(updates);
      };
      auto const batch = static_cast<std::size_t>(step);
      if (shape.stacked) {
        auto const begins = px::on_device(offsets_there[batch].span());
        train([&](auto& table) { return table.bags(ids, begins, px::Pool::mean); }, bags);
      } else if (bags > 0) {
        train([&](auto& table) { return table.bags(ids, offsets[batch], px::Pool::mean); }, bags);
      } else {
        train([&](auto& table) { return table.at(ids); }, ids.size());
      }
    }
    ops.wait();
    px::barrier(world);
    if (world.rank() == 0) after = Asked::now();
    px::barrier(world);
    session.finish();
  });
  return after.since(before, steps * communicators.ranks);
}

void print(std::string const& what, Asked const& asked) {
  std::printf("%-50s", what.c_str());
  for (std::int64_t const number : {asked.bus_bytes, asked.copies_to_host, asked.stalls, asked.copies, asked.launches,
                                    asked.sort_operations, asked.blocks, asked.scratch})
    std::printf(" %9lld", static_cast<long long>(number));
  std::printf("\n");
}

}  // namespace

TEST_CASE("indices on a device stay there, and a step of their table waits for one copy of a few numbers", "[cuda][plans]") {
  std::printf("%-50s %9s %9s %9s %9s %9s %9s %9s %9s\n", "a step of a rank: pull and update", "bus bytes", "to host", "stalls",
              "copies", "kernels", "CUB's own", "blocks", "scratch");
  auto const check = [](std::string const& what, Asked const& asked, std::int64_t ranks, std::int64_t tables,
                        std::int64_t brought) {
    print(what, asked);
    CHECK(asked.bus_bytes <= 4096 + 16 * ranks * tables);
    CHECK(asked.copies_to_host == brought);
    CHECK(asked.stalls == 0);
    CHECK(asked.blocks == 0);
    CHECK(asked.copies + asked.launches <= 40 * tables);
  };
  emulated::Deferred const deferred{emulated::first_seed("plans")};  // a device that is not ready yet when it is asked
  communicators::CudaThreads const four{4}, two{2};
  std::size_t const many = parallax_test::sized(4000, 20000, 20000);
  check("1 table, 2,000 indices, 4 ranks", of_step(four, {1, 2000}), 4, 1, 1);
  check("1 table, many indices, 4 ranks", of_step(four, {1, many}), 4, 1, 1);
  if (parallax_test::full_size()) check("1 table, 1,000,000 indices, 4 ranks", of_step(four, {1, 1'000'000}), 4, 1, 1);
  check("the same, clipped, which asks for the norm", of_step(four, {1, many, true}), 4, 1, 2);
  check("the same, averaged by count", of_step(four, {1, many, false, true}), 4, 1, 1);
  check("the same under AllGather", of_step<px::AllGather>(four, {1, many}), 4, 1, 1);
  check("the same under AllReduce, in a table of zeros", of_step<px::AllReduce>(four, {1, many}), 4, 1, 1);
  check("the same by Adam, exact, whose rows are settled", of_step<px::PsShard, px::Adam>(four, {1, many}), 4, 1, 1);
  check("the same under AllGather", of_step<px::AllGather, px::Adam>(four, {1, many}), 4, 1, 1);
  check("the same under AllReduce", of_step<px::AllReduce, px::Adam>(four, {1, many}), 4, 1, 1);
  check("by Adagrad on two hosts of two ranks", of_step(four, {.tables = 1, .indices = many, .hosts = {0, 0, 1, 1}}), 4, 1, 2);
  Asked const bags = of_step(four, {1, many, false, false, 10});
  print("1 table, many indices in 10 bags, their means", bags);
  CHECK(bags.bus_bytes <= 4096 + 16 * 4 + 11 * 4);
  CHECK(bags.copies_to_host == 1);
  CHECK(bags.copies + bags.launches <= 40);
  check("1 table, 2,000 indices, NCCL, 2 devices", of_step(communicators::NcclThreads{2}, {1, 2000}), 2, 1, 1);
  check("26 tables, 500 indices each, 2 ranks", of_step(two, {26, 500}), 2, 26, 26);
  for (auto const& [tables, padded] : {std::pair{1u, 0u}, {26u, 0u}, {26u, 6000u}}) {
    Asked const stacked = of_step(four, {tables, many, false, false, 10, true, padded});
    print(std::to_string(tables) + " in a stack, in bags of device offsets" + (padded ? ", padded" : ""), stacked);
    CHECK(stacked.bus_bytes <= 4096 + 16 * 4);
    CHECK(stacked.copies_to_host <= 1);  // of padded ones none is waited for: see padded_test.cpp
    CHECK(stacked.stalls == 0);
    CHECK(stacked.blocks == 0);
    CHECK(stacked.copies + stacked.launches <= 60);
  }
}

namespace {

// What is said where the host asks for keys that the device has, and the stream never comes to them.
template <class Communicators>
std::string said_of_a_stuck_stream(Communicators const& communicators) {
  std::string said = "no error";
  communicators.run(std::chrono::milliseconds{200}, [&]<class C>(C& world) {
    px::RowOps<px::CudaSpace> const ops{world.queue()};
    Memory<int, px::CudaSpace> const ids{ops, {3, 1, 3}};
    std::atomic<bool> over{false};
    px::Session<C> session{world};
    px::Variable<px::Sparse, px::CudaSpace> words{session, "words", {10, 2}};
    auto const rows = session.pull(words, px::on_device(ids.span()));
    emulator::put(emulator::of(world.queue().stream), {{}, nullptr, 0, [&] { return over.load(); }});
    try {
      static_cast<void>(rows.id(0));
    } catch (px::Error const& error) {
      said = error.code() == px::Errc::timeout ? error.what() : "another error";
    }
    over = true;
    ops.wait();
  });
  return said;
}

}  // namespace

TEST_CASE("keys that are asked for are waited for as long as the communicator waits", "[cuda][plans]") {
  using parallax_test::contains;
  CHECK_THAT(said_of_a_stuck_stream(communicators::CudaThreads{1}), contains("in wait for the device: rank 0 waited longer"));
  CHECK_THAT(said_of_a_stuck_stream(communicators::StagedThreads{1}), contains("in wait for the device: rank 0 waited longer"));
  CHECK_THAT(said_of_a_stuck_stream(communicators::NcclThreads{1}), contains("in synchronize: rank 0 waited longer"));
}

namespace {

// The rows of a rank after ten steps on batches of the host's indices, in weighted bags, with nothing read in between.
template <class Space, class C>
std::vector<float> train_without_looking(C& world, px::RowOps<Space> const& ops) {
  constexpr std::int64_t rows = 300, width = 5;
  constexpr std::size_t bags = 7;
  px::Session<C> session{world, {.non_finite = px::NonFinite::propagate}};
  px::Variable<px::Sparse, Space, px::Adagrad> words{session, "words", px::Table{rows, width, px::uniform(-1, 1)}};
  std::mt19937_64 random{7 + static_cast<std::uint64_t>(world.rank())};
  Memory<float, Space> const gradient{ops, std::vector<float>(bags * width, 0.25f)};
  for (int step = 0; step < 10; ++step) {
    std::vector<int> ids(200);
    std::vector<float> weights(ids.size());
    std::vector<std::size_t> offsets{0};
    for (int& id : ids) id = static_cast<int>(random() % rows);
    for (float& weight : weights) weight = static_cast<float>(random() % 16) / 8;
    for (std::size_t bag = 1; bag < bags; ++bag) offsets.push_back(random() % (ids.size() + 1));
    offsets.push_back(ids.size());
    std::sort(offsets.begin(), offsets.end());
    auto const pooled = session.pull(words.bags(ids, offsets, weights));
    session.step(px::grad(pooled, gradient.span()));
  }
  auto const values = parallax_test::values_of(ops, words.local());
  session.finish();
  return values;
}

}  // namespace

TEST_CASE("what the host sends of its batches is not written again before a late device has read it", "[cuda][plans]") {
  std::vector<std::vector<float>> expected(2), found(2);
  px::run_threads(2, [&](px::ThreadCommunicator& world) {
    expected[static_cast<std::size_t>(world.rank())] = train_without_looking<px::HostSpace>(world, {});
  });
  std::uint64_t const first = emulated::first_seed("late devices");
  for (std::uint64_t seed = first; seed < first + 4; ++seed) {
    CAPTURE(seed);
    emulated::Deferred const deferred{seed};
    px::run_cuda_threads(2, [&](px::CudaThreadCommunicator& world) {
      found[static_cast<std::size_t>(world.rank())] =
          train_without_looking<px::CudaSpace>(world, px::RowOps<px::CudaSpace>{world.queue()});
    });
    for (std::size_t const rank : {0u, 1u}) {
      REQUIRE(found[rank].size() == expected[rank].size());
      CHECK(std::memcmp(found[rank].data(), expected[rank].data(), found[rank].size() * sizeof(float)) == 0);
    }
  }
}
