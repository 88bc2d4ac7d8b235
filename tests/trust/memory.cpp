// What a session keeps: never more than is documented, the same after a thousand steps as after a hundred, and nothing
// allocated in between.
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "../session/model.hpp"
#include "../support/size.hpp"
#include "table.hpp"
#include "../../benchmarks/baseline/naive_ps.hpp"

namespace parallax_test {
namespace {

// Of this thread, by operator new.
thread_local std::int64_t news = 0, live = 0, peak = 0;

void* counted_new(std::size_t bytes, std::size_t alignment) {
  std::size_t const rounded = (std::max<std::size_t>(bytes, 1) + alignment - 1) / alignment * alignment;
  void* const memory = std::aligned_alloc(alignment, rounded);
  if (!memory) throw std::bad_alloc{};
  ++news;
  live += static_cast<std::int64_t>(malloc_usable_size(memory));
  peak = std::max(peak, live);
  return memory;
}
void counted_delete(void* memory) noexcept {
  if (!memory) return;
  live -= static_cast<std::int64_t>(malloc_usable_size(memory));
  std::free(memory);
}

}  // namespace
}  // namespace parallax_test

[[gnu::noinline]] void* operator new(std::size_t bytes) { return parallax_test::counted_new(bytes, 16); }
[[gnu::noinline]] void* operator new[](std::size_t bytes) { return parallax_test::counted_new(bytes, 16); }
[[gnu::noinline]] void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return parallax_test::counted_new(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return parallax_test::counted_new(bytes, static_cast<std::size_t>(alignment));
}
[[gnu::noinline]] void operator delete(void* memory) noexcept { parallax_test::counted_delete(memory); }
[[gnu::noinline]] void operator delete[](void* memory) noexcept { parallax_test::counted_delete(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept { parallax_test::counted_delete(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::size_t) noexcept { parallax_test::counted_delete(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::align_val_t) noexcept { parallax_test::counted_delete(memory); }
[[gnu::noinline]] void operator delete[](void* memory, std::align_val_t) noexcept { parallax_test::counted_delete(memory); }
[[gnu::noinline]] void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  parallax_test::counted_delete(memory);
}
[[gnu::noinline]] void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  parallax_test::counted_delete(memory);
}

namespace parallax_test::trust_memory {
namespace {

using Threads = px::ThreadCommunicator;
using Layer = px::Variable<px::Dense>;
using Shard = px::Variable<px::Dense, px::PsShard>;

// Of the steps after the first hundred none may allocate.
constexpr int warm_up = 100;
int const steps = sized(200, 300, 1000);

std::int64_t resident_kib() {
  std::int64_t all = 0, resident = 0;
  std::ifstream{"/proc/self/statm"} >> all >> resident;
  return resident * (sysconf(_SC_PAGESIZE) / 1024);
}

struct MemoryUse {
  std::int64_t peak = 0, steady_news = 0, drift = 0, growth_kib = 0, batch_bytes = 0;
};

// Runs `step(i)` and measures what this thread holds on top of what it held before.
template <class Step>
MemoryUse measure(int rank, Step&& step) {
  MemoryUse held;
  std::int64_t const before = live;
  peak = live;
  std::int64_t news_before = 0, live_before = 0, resident = 0;
  for (int i = 0; i < steps; ++i) {
    if (i == warm_up) {
      resident = rank == 0 ? resident_kib() : 0;
      news_before = news, live_before = live;
    }
    step(i);
  }
  held.peak = peak - before;
  held.steady_news = news - news_before;
  held.drift = live - live_before;
  held.growth_kib = rank == 0 ? resident_kib() - resident : 0;
  return held;
}

struct Shape {
  std::string name;
  int ranks;
  std::vector<std::size_t> sizes;  // of the layers, in elements
  px::FusionOptions fusion;
};

// The formula of FusionOptions: a parcel of b bytes needs b / N for its sum, and b for the whole if it is fused or gathered;
// N min(round_bytes, b / N) for what arrives is scratch that parcels share. Buffers grow by half more than they need, and each
// layer has some bookkeeping.
std::int64_t documented(Shape const& shape, bool gathered) {
  auto const n = static_cast<std::size_t>(shape.ranks);
  std::size_t total = 0, scratch = 0, fused = 0;
  auto const parcel = [&](std::size_t bytes, bool direct) {
    total += bytes / n + ((!direct || (gathered && n > 1)) ? bytes : 0);
    std::size_t const part = bytes / n + sizeof(float) * shape.sizes.size();
    if (n > 1) scratch = std::max(scratch, n * std::min(shape.fusion.round_bytes, part));
  };
  for (std::size_t const size : shape.sizes) {
    std::size_t const bytes = size * sizeof(float);
    if (bytes >= shape.fusion.direct_bytes) {
      if (fused) parcel(fused, false), fused = 0;
      parcel(bytes, true);
    } else if (fused + bytes <= shape.fusion.fusion_bytes) {
      fused += bytes;
    } else {
      if (fused) parcel(fused, false);
      fused = bytes;
    }
  }
  if (fused) parcel(fused, false);
  std::size_t const bookkeeping = 15 * 1024 + shape.sizes.size() * (400 + n * 64) + n * 512;
  return static_cast<std::int64_t>((total + scratch) * 3 / 2 + bookkeeping);
}

template <class V>
std::vector<MemoryUse> train_dense(Shape const& shape) {
  return on_ranks(shape.ranks, [&](Threads& world) {
    px::Session session{world, {shape.fusion}};
    std::vector<std::vector<float>> memory, gradients;
    std::vector<V> layers;
    for (std::size_t i = 0; i < shape.sizes.size(); ++i) {
      memory.emplace_back(shape.sizes[i], 1.0f);
      gradients.emplace_back(shape.sizes[i], 0.5f);
    }
    for (std::size_t i = 0; i < shape.sizes.size(); ++i)
      layers.emplace_back(session, "a layer of some length, number " + std::to_string(i), px::bind(memory[i]));
    std::vector<decltype(px::grad(layers[0], gradients[0]))> updates;
    for (std::size_t i = 0; i < layers.size(); ++i) updates.push_back(px::grad(layers[i], gradients[i]));
    return measure(world.rank(), [&](int) { session.step(updates); });
  });
}

std::vector<Shape> shapes() {
  std::vector<Shape> all;
  px::FusionOptions const small{.fusion_bytes = 16384, .direct_bytes = 8192, .round_bytes = 2048};
  for (int const ranks : {1, 2, 3, 4}) {
    all.push_back({"one direct", ranks, {12'000}, {}});
    all.back().fusion.direct_bytes = 1;
    all.push_back({"one direct in small rounds", ranks, {12'000}, small});
    all.push_back({"one fused", ranks, {1'500}, small});
    all.push_back({"many fused", ranks, std::vector<std::size_t>(24, 700), small});
    all.push_back({"fused and direct", ranks, {700, 9'000, 40, 0, 3'000, 1, 1'999, 5'000}, small});
  }
  return all;
}

std::string complaint_of(std::vector<MemoryUse> const& held, std::int64_t bound) {
  for (std::size_t rank = 0; rank < held.size(); ++rank) {
    std::string const who = "rank " + std::to_string(rank) + " of " + std::to_string(held.size()) + ": ";
    if (bound >= 0 && held[rank].peak > bound)
      return who + "holds " + std::to_string(held[rank].peak) + " bytes where " + std::to_string(bound) + " are documented";
    if (held[rank].steady_news != 0) return who + std::to_string(held[rank].steady_news) + " allocations in steady steps";
    if (held[rank].drift != 0) return who + "drifts by " + std::to_string(held[rank].drift) + " bytes";
    if (held[rank].growth_kib > 512) return who + "the process grew by " + std::to_string(held[rank].growth_kib) + " KiB";
  }
  return {};
}

}  // namespace

TEST_CASE("R25 dense variables hold no more than is documented, and allocate nothing in steady steps", "[trust][memory]") {
  Table table{"R25 shapes of dense variables, " + std::to_string(steps) + " steps each"};
  double tightest = 0;
  for (Shape const& shape : shapes()) {
    auto const replicated = train_dense<Layer>(shape), sharded = train_dense<Shard>(shape);
    table.count(shape.name + ", AllReduce", complaint_of(replicated, documented(shape, true)));
    table.count(shape.name + ", PsShard", complaint_of(sharded, documented(shape, false)));
    for (MemoryUse const& each : replicated)
      tightest = std::max(tightest, static_cast<double>(each.peak) / static_cast<double>(documented(shape, true)));
  }
  std::printf("  the most that was held is %.0f %% of the bound\n", 100 * tightest);
  table.check(40);
}

namespace {

// Batches of `batch` indices at most, of few rows and of many.
template <class Policy, class Optimizer>
std::vector<MemoryUse> train_sparse(int ranks, std::int64_t rows, std::int64_t width, std::size_t batch) {
  return on_ranks(ranks, [&](Threads& world) {
    px::Session session{world};
    px::Variable<px::Sparse, Policy, Optimizer> words{session, "the embedding of the words", {rows, width}};
    std::vector<std::int64_t> all_ids(batch);
    std::vector<float> gradients(batch * static_cast<std::size_t>(width), 0.5f);
    std::mt19937_64 random{static_cast<std::uint64_t>(world.rank())};
    return measure(world.rank(), [&](int step) {
      // First the largest messages that there can be: everybody names each row once, or only rows of one owner.
      bool const largest = step < warm_up - 10;
      std::size_t const n = largest ? batch : batch / 2 + random() % (batch / 2 + 1);
      auto const& placement = words.state().placement();
      int const owner = step / 4 % placement.owners();
      for (std::size_t i = 0; i < n; ++i) {
        auto const at = static_cast<std::int64_t>(i);
        if (!largest) all_ids[i] = static_cast<std::int64_t>(random() >> 1) % rows;
        else if (step / 2 % 2) all_ids[i] = at % rows;
        else all_ids[i] = placement.global_row(owner, at % placement.local_rows(owner));
      }
      std::span const ids{all_ids.data(), n};
      auto const handle = session.pull(words, ids);
      session.step(px::grad(handle, std::span<float const>{gradients.data(), n * static_cast<std::size_t>(width)}));
    });
  });
}

}  // namespace

TEST_CASE("R25 sparse variables hold the same after many steps as after a hundred", "[trust][memory]") {
  Table table{"R25 shapes of sparse variables, " + std::to_string(steps) + " steps each"};
  for (int const ranks : {1, 2, 4})
    for (std::int64_t const width : {1, 16})
      for (std::size_t const batch : {std::size_t{40}, std::size_t{400}}) {
        std::string const shape = std::to_string(ranks) + " ranks";
        auto const count = [&](char const* policy, std::vector<MemoryUse> const& held) {
          table.count(policy, complaint_of(held, -1));
          auto const most = std::ranges::max_element(held, {}, &MemoryUse::peak)->peak;
          double const of_batch = static_cast<double>(batch * (8 + static_cast<std::size_t>(width) * 4));
          std::printf("  %-10s %d ranks, width %2d, batch %3zu: holds %8ld bytes, %.1f times the batch\n", policy, ranks,
                      static_cast<int>(width), batch, static_cast<long>(most), static_cast<double>(most) / of_batch);
        };
        count("PsShard", train_sparse<px::PsShard, px::Adam>(ranks, 300, width, batch));
        count("AllGather", train_sparse<px::AllGather, px::Adagrad>(ranks, 300, width, batch));
        count("AllReduce", train_sparse<px::AllReduce, px::LazyAdam>(ranks, 300, width, batch));
        count("NaivePs", train_sparse<baseline::NaivePs, px::Sgd>(ranks, 300, width, batch));
      }
  table.check(48);
}

}  // namespace parallax_test::trust_memory
