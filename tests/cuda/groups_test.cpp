#include <algorithm>
#include <span>
#include <vector>

#include "cases.hpp"
#include "grouped.hpp"
#include "parallax/detail/kernel/cuda/row_ops.cuh"
#include "parallax/detail/kernel/cuda/sort.cuh"
#include "parallax/detail/kernel/host.hpp"

namespace {

using Host = parallax::RowOps<parallax::HostSpace>;
namespace device = parallax::device;

using cases::Grouped;

// Of the same groups, in bags that are drawn, empty ones among them.
template <class Index>
void agree_on_bags(cases::Draw& draw, parallax::Grouping<Index> const& groups, Grouped<Index>& there) {
  auto const n = groups.count();
  std::vector<std::uint32_t> begins(static_cast<std::size_t>(1 + draw.below(40)));
  for (auto& begin : begins) begin = static_cast<std::uint32_t>(draw.below(static_cast<std::int64_t>(n) + 1));
  begins.front() = 0, begins.push_back(static_cast<std::uint32_t>(n));
  std::sort(begins.begin(), begins.end());
  std::size_t const bags = begins.size() - 1;
  std::vector<std::uint32_t> of_index(n), kept(bags), host_of_index(n), host_kept(bags);
  std::vector<double> shares(n), host_shares(n);
  Host::place_in_bags(begins, groups, host_of_index.data(), host_kept.data(), host_shares.data());
  parallax::RowOps<parallax::CudaSpace>{parallax::CudaQueue{}}.place_in_bags(begins, there.view(), of_index.data(), kept.data(),
                                                                             shares.data(), {});
  REQUIRE(of_index == host_of_index);
  REQUIRE(kept == host_kept);
  REQUIRE(shares == host_shares);
}

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

  // Of some of the keys, and beyond them.
  std::size_t const first = static_cast<std::size_t>(draw.below(static_cast<std::int64_t>(u) + 1)), last = keys.size();
  std::vector<std::uint32_t> some(last - first), some_sums(last - first);
  device::run_lengths(nullptr, found.view(), some.data(), static_cast<std::uint32_t>(first), static_cast<std::uint32_t>(u));
  device::sum_counts(nullptr, counts.data(), found.view(), some_sums.data(), static_cast<std::uint32_t>(first),
                     static_cast<std::uint32_t>(last));
  for (std::size_t k = first; k < last; ++k) {
    REQUIRE(some_sums[k - first] == (k < u ? host_sums[k] : 1));
    if (k < u) REQUIRE(some[k - first] == host_lengths[k]);
  }

  std::vector<Index> bases(static_cast<std::size_t>(1 + draw.below(9)));
  for (Index& base : bases) base = static_cast<Index>(draw.below(bound));
  std::sort(bases.begin(), bases.end());
  std::vector<std::size_t> host_begins(bases.size());
  std::vector<std::uint32_t> begins(bases.size());
  Host::bucket(std::span<Index const>{expected.keys.data(), u}, std::span<Index const>{bases}, host_begins);
  device::bucket(nullptr, found.keys.data(), static_cast<std::uint32_t>(keys.size()), bases.data(),
                 static_cast<std::uint32_t>(bases.size()), begins.data(), &found.distinct);
  REQUIRE(std::equal(begins.begin(), begins.end(), host_begins.begin()));

  // Cut at every second base, where the greatest key stands for what takes no part, or does not.
  for (bool const one_is_none : {false, true}) {
    if (u == 0) break;
    std::int64_t const last_key = expected.keys[u - 1], end = one_is_none ? last_key : last_key + 1;
    for (Index& base : bases) base = std::min(base, static_cast<Index>(end));
    Grouped<Index> cut{keys, bound};
    std::size_t const cuts = (bases.size() + 1) / 2;
    std::vector<std::uint32_t> told(cuts + 3);
    std::vector<std::uint32_t> const wrongs(static_cast<std::size_t>(draw.below(257)), 3);
    parallax::RowOps<parallax::CudaSpace> const ops{parallax::CudaQueue{}};
    ops.cut_groups(cut.view(), bases.data(), bases.size() % 2 == 0, 2, cuts, end, wrongs, told.data());
    std::span const distinct{expected.keys.data(), u - one_is_none};
    for (std::size_t k = 0; k < cuts; ++k) {
      std::size_t const at = (bases.size() % 2 == 0) + 2 * k;
      REQUIRE(told[k] == std::lower_bound(distinct.begin(), distinct.end(), bases[at]) - distinct.begin());
    }
    REQUIRE(told[cuts] == distinct.size());
    REQUIRE(cut.distinct == distinct.size());
    REQUIRE(told[cuts + 1] == keys.size() - expected.offsets[distinct.size()]);
    REQUIRE(told[cuts + 2] == 3 * wrongs.size());

    if (one_is_none) expected.keys.resize(u - 1);
    agree_on_bags(draw, expected, cut);
  }
}

}  // namespace

TEST_CASE("blocks that take several tiles of sorted keys find the runs of all", "[cuda][group]") {
  cases::Draw draw{"count_runs_kernel, emit_groups_kernel", 6};
  for (std::size_t i = 0; i < draw.count(); ++i) {
    draw.next();
    std::uint64_t const n = static_cast<std::uint64_t>(1 + draw.below(5 * device::detail::tile_keys));
    std::int64_t const bound = std::int64_t{1} << draw.below(20);
    std::vector<std::uint32_t> sorted(n), order(n), runs(5), offsets(n + 1), inverse(n), ordered(n);
    for (auto& key : sorted) key = static_cast<std::uint32_t>(draw.below(bound));
    std::sort(sorted.begin(), sorted.end());
    for (std::uint64_t p = 0; p < n; ++p) order[p] = static_cast<std::uint32_t>((p * 7919 + 5) % n);
    if (n % 7919 == 0) continue;  // which would name positions twice
    std::vector<std::int64_t> keys(n);
    std::uint32_t distinct = 0;
    std::uint64_t const stretch = 2 * device::detail::tile_keys;
    auto const blocks = static_cast<unsigned>((n + stretch - 1) / stretch);
    device::GroupingView<std::int64_t> const out{keys.data(),    offsets.data(), ordered.data(),
                                                 inverse.data(), &distinct,      static_cast<std::uint32_t>(n)};
    device::launch(nullptr, blocks, device::block_threads, 0, device::detail::count_runs_kernel<std::uint32_t>, sorted.data(),
                   n, stretch, runs.data());
    device::launch(nullptr, blocks, device::block_threads, 0, device::detail::emit_groups_kernel<std::uint32_t, std::int64_t>,
                   sorted.data(), order.data(), stretch, runs.data(), out);
    std::uint32_t run = 0;
    for (std::uint64_t p = 0; p < n; ++p) {
      if (p > 0 && sorted[p] != sorted[p - 1]) ++run;
      if (p == 0 || sorted[p] != sorted[p - 1]) {
        REQUIRE(keys[run] == sorted[p]);
        REQUIRE(offsets[run] == p);
      }
      REQUIRE(ordered[p] == order[p]);
      REQUIRE(inverse[order[p]] == run);
    }
    REQUIRE(distinct == run + 1);
    REQUIRE(offsets[distinct] == n);
  }
}

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
