#include "cases.hpp"
#include "grouped.hpp"
#include "parallax/kernel/cuda/runs.cuh"
#include "parallax/kernel/cuda/sort.cuh"
#include "parallax/kernel/host.hpp"

namespace {

using Host = parallax::RowOps<parallax::HostSpace>;
namespace device = parallax::device;

using cases::Grouped;

template <class Index>
void agrees_with_the_host(cases::Draw& draw, std::vector<Index> const& keys, std::int64_t bound) {
  draw.next();
  INFO(keys.size() << " keys below " << bound);
  parallax::Grouping<Index> expected;
  parallax::SortScratch<Index> scratch;
  Host::unique_with_inverse(keys, bound, expected, scratch);
  Grouped<Index> found{keys, bound};
  REQUIRE(found.distinct == expected.size());
  std::size_t const u = expected.size();
  found.keys.resize(u);
  found.offsets.resize(u + 1);
  REQUIRE(std::equal(found.keys.begin(), found.keys.end(), expected.keys.data()));
  REQUIRE(std::equal(found.offsets.begin(), found.offsets.end(), expected.offsets.data()));
  REQUIRE(std::equal(found.order.begin(), found.order.end(), expected.order.data()));
  REQUIRE(std::equal(found.inverse.begin(), found.inverse.end(), expected.inverse.data()));

  std::vector<std::uint32_t> counts(keys.size()), lengths(u), sums(u), host_lengths(u), host_sums(u);
  for (auto& count : counts) count = static_cast<std::uint32_t>(draw.below(std::int64_t{1} << 32));
  device::run_lengths(nullptr, found.view(), lengths.data());
  device::sum_counts(nullptr, counts.data(), found.view(), sums.data());
  Host::run_lengths(expected, 0, u, host_lengths.data());
  Host::sum_counts(counts, expected, 0, u, host_sums.data());
  REQUIRE(lengths == host_lengths);
  REQUIRE(sums == host_sums);

  std::vector<Index> bases(static_cast<std::size_t>(1 + draw.below(9)));
  for (Index& base : bases) base = static_cast<Index>(draw.below(bound));
  std::sort(bases.begin(), bases.end());
  std::vector<std::size_t> host_begins(bases.size());
  std::vector<std::uint32_t> begins(bases.size());
  Host::bucket(std::span<Index const>{expected.keys.data(), u}, std::span<Index const>{bases}, host_begins);
  device::bucket(nullptr, found.keys.data(), static_cast<std::uint32_t>(keys.size()), bases.data(),
                 static_cast<std::uint32_t>(bases.size()), begins.data(), &found.distinct);
  REQUIRE(std::equal(begins.begin(), begins.end(), host_begins.begin()));
}

}  // namespace

TEST_CASE("few keys are grouped in one block as on the host", "[cuda][group]") {
  cases::Draw draw{"group_keys, run_lengths, sum_counts, bucket", 30};
  for (std::size_t i = 0; i < draw.count(); ++i) {
    std::int64_t const bound = std::int64_t{1} << draw.below(31);
    agrees_with_the_host(draw, draw.drawn_keys<std::int32_t>(draw.keys(8), bound), bound);
    agrees_with_the_host(draw, draw.drawn_keys<std::int64_t>(draw.keys(8), bound << 20), bound << 20);
  }
}

TEST_CASE("keys are grouped in one block up to its last place, and by passes beyond it", "[cuda][group]") {
  cases::Draw draw{"group_keys, many"};
  for (std::uint32_t const n : {1024u, 1025u, 8192u, 8193u, 20'000u})
    agrees_with_the_host(draw, draw.drawn_keys<std::int32_t>(n, 1 << 14), 1 << 14);
  for (std::uint32_t const n : {4096u, 4097u})
    agrees_with_the_host(draw, draw.drawn_keys<std::int64_t>(n, std::int64_t{1} << 45), std::int64_t{1} << 45);
}

TEST_CASE("keys outside the bound make no stray access", "[cuda][group]") {
  std::vector<std::int32_t> keys{5, -1, 1 << 30, 7, -1};
  Grouped<std::int32_t> found{keys, 8};
  CHECK(found.distinct <= keys.size());
  std::vector<std::int64_t> many(9000, -3);
  Grouped<std::int64_t> const more{many, 8};
  CHECK(more.distinct == 1);
}
