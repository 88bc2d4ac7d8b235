// Tables of a device that are kept in 16 bits end up with the bits of the host's.
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "../catch.hpp"
#include "communicators.hpp"
#include "deferred.hpp"

#include "parallax/kernel/cuda.cuh"
#include "parallax/parallax.hpp"
#include "parallax/variable/memory_archive.hpp"

namespace px = parallax;

namespace {

constexpr int steps = 8;
constexpr std::int64_t rows = 37;

// What a rank sees of a training on so many hosts: pulled rows, in the end its rows as they are kept, widened, and bytes that it has
// sent.
template <class T, class Space, class Policy, class O, class C, class Ops>
std::vector<float> train(C& world, Ops const& ops, int hosts, std::int64_t width, bool ids_there) {
  std::vector<int> host_of;
  for (int rank = 0; rank < world.size(); ++rank) host_of.push_back(rank * hosts / world.size());
  px::Session session{hosts > 1 ? px::Topology<C>{world, host_of} : px::Topology<C>{world}};
  px::Variable<px::Sparse, Policy, O, T, Space> table{
      session, "t", {.rows = rows, .width = width, .initial = px::uniform(-1, 1)}};
  std::vector<float> seen;
  auto const see = [&](float const* values, std::size_t n) {
    std::vector<float> here(n);
    ops.to_host(here.data(), values, n);
    seen.insert(seen.end(), here.begin(), here.end());
  };
  for (int step = 0; step < steps; ++step) {
    std::vector<int> const ids{(3 * step + world.rank()) % 37, step % 37, 5 + world.rank(), step % 37, 36};
    std::vector<float> gradient;
    for (std::size_t i = 0; i < ids.size() * static_cast<std::size_t>(width); ++i)
      gradient.push_back(static_cast<float>((step * 13 + world.rank() * 7 + static_cast<int>(i) * 5) % 29 - 14) / 64);
    px::Buffer<float, Space> there{gradient.size()};
    ops.from_host(there.data(), gradient.data(), gradient.size());
    std::span<float const> const of_ids{there.data(), gradient.size()};
    auto const go = [&](auto const& handle) {
      auto const values = handle.values();
      see(values.data, static_cast<std::size_t>(values.rows * values.width));
      session.step(px::grad(handle, of_ids));
    };
    if constexpr (!Space::host_readable)
      if (ids_there) {
        px::Buffer<int, Space> on_it{ids.size()};
        ops.from_host(on_it.data(), ids.data(), ids.size());
        go(session.pull(table, px::on_device(std::span<int const>{on_it.data(), ids.size()})));
        continue;
      }
    go(session.pull(table, ids));
  }
  px::MemoryArchive archive;  // which gives back what a broadcast finds there
  table.visit(archive.writer());
  ops.clear(table.local().data, static_cast<std::size_t>(table.local_rows() * width) * sizeof(T));
  table.visit(archive.reader());
  if constexpr (!decltype(table)::State::sharded) session.broadcast(table);
  auto const kept = table.local();
  std::vector<T> here(static_cast<std::size_t>(kept.rows * kept.width));
  ops.to_host(here.data(), kept.data, here.size());
  seen.insert(seen.end(), here.begin(), here.end());
  seen.push_back(static_cast<float>(session.traffic().sent_of(px::Payload::rows).all));
  session.finish();
  return seen;
}

template <class T, class Policy, class O>
void check(std::int64_t width, int ranks = 2, int hosts = 1) {
  auto const size = static_cast<std::size_t>(ranks);
  std::vector<std::vector<float>> expected(size), found(size);
  px::run_threads(ranks, [&](px::ThreadCommunicator& world) {
    expected[static_cast<std::size_t>(world.rank())] =
        train<T, px::HostSpace, Policy, O>(world, px::RowOps<px::HostSpace>{}, hosts, width, false);
  });
  for (bool const ids_there : {false, true}) {
    emulated::Deferred const deferred{emulated::first_seed("tables of 16 bits")};
    px::run_cuda_threads(ranks, [&](px::CudaThreadCommunicator& world) {
      found[static_cast<std::size_t>(world.rank())] =
          train<T, px::CudaSpace, Policy, O>(world, px::RowOps<px::CudaSpace>{world.queue()}, hosts, width, ids_there);
    });
    for (std::size_t rank = 0; rank < size; ++rank) {
      CAPTURE(rank, ids_there, width, Policy::name);
      REQUIRE(found[rank].size() == expected[rank].size());
      CHECK(std::memcmp(found[rank].data(), expected[rank].data(), found[rank].size() * sizeof(float)) == 0);
    }
  }
}

}  // namespace

TEMPLATE_TEST_CASE("tables of 16 bits on a device have the host's bits", "[cuda][short]", px::BFloat16, px::Float16) {
  for (std::int64_t const width : {1, 8, 37}) {
    check<TestType, px::PsShard, px::Sgd>(width);
    check<TestType, px::PsShard, px::Adagrad>(width);
    check<TestType, px::PsShard, px::Adagrad>(width, 4, 2);
    check<TestType, px::PsShard, px::RowwiseAdagrad>(width);
    check<TestType, px::AllReduce, px::Adam>(width);
    check<TestType, px::AllGather, px::Adam>(width);
  }
}
