// The kernels of one thread against what bounds them in the same run: memcpy, a += b, loops by hand, std::sort, a triad.
// Arrays lie in huge pages where the system grants them. Sizes are those of tables: far beyond every cache.
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "measure.hpp"
#include "parallax/kernel/host.hpp"
#include "parallax/optimizer/adam.hpp"

namespace px = parallax;
using Host = px::RowOps<px::HostSpace>;

namespace {

constexpr std::int64_t width = 128;
using Ids = std::vector<std::int32_t>;

// Id i of a vocabulary sorted by frequency has a probability of about 1 / (i + 1), or all have the same.
template <class Index>
std::vector<Index> draw(std::size_t count, std::int64_t rows, bool zipf, unsigned seed) {
  std::mt19937_64 random{seed};
  std::uniform_real_distribution<double> uniform{0, 1};
  std::vector<Index> ids(count);
  double const log_rows = std::log(static_cast<double>(rows));
  for (Index& id : ids) {
    double const u = uniform(random);
    double const at = zipf ? std::exp(u * log_rows) - 1 : u * static_cast<double>(rows);
    id = static_cast<Index>(std::min(static_cast<std::int64_t>(at), rows - 1));
  }
  return ids;
}

// What a careful programmer writes: the lines of the row eight further on are asked for, then the row is copied or added.
template <int write>
void ask_for(float const* row) {
  for (std::int64_t at = 0; at < width; at += 16) __builtin_prefetch(row + at, write);
}
void gather_by_hand(float const* table, Ids const& ids, float* out) {
  std::size_t const n = ids.size();
  for (std::size_t i = 0; i < n; ++i) {
    if (i + 8 < n) ask_for<0>(table + ids[i + 8] * width);
    std::memcpy(out + static_cast<std::int64_t>(i) * width, table + ids[i] * width, width * sizeof(float));
  }
}
void add_by_hand(float* table, Ids const& ids, float const* rows) {
  std::size_t const n = ids.size();
  for (std::size_t i = 0; i < n; ++i) {
    if (i + 8 < n) ask_for<1>(table + ids[i + 8] * width);
    float* __restrict const row = table + ids[i] * width;
    float const* __restrict const addend = rows + static_cast<std::int64_t>(i) * width;
    for (std::int64_t k = 0; k < width; ++k) row[k] += addend[k];
  }
}
void add_all(float* __restrict a, float const* __restrict b, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) a[i] += b[i];
}

// Small whole numbers: their sums are exact, so that every order gives the same.
void fill(px::Buffer<float>& buffer, std::uint32_t factor) {
  for (std::size_t i = 0; i < buffer.size(); ++i)
    buffer[i] = static_cast<float>(static_cast<std::uint32_t>(i) * factor >> 28);
}

void rows(measure::Options const& options, measure::Report& report) {
  std::int64_t const table_rows = options.smoke ? 1'000 : 524'288, elements = table_rows * width;  // 256 MB
  auto const count = static_cast<std::size_t>(elements);
  px::Buffer<float> table{count}, packed{count}, expected{count};
  fill(table, 0x9e3779b1u);
  px::RowsView<float> const view{table.data(), table_rows, width};
  auto const n = static_cast<std::size_t>(table_rows);

  struct Pattern {
    char const* name;
    Ids ids;
    double least, by_hand;
  };
  std::size_t const batch = options.smoke ? 100 : 4096;
  std::vector<Pattern> patterns{{"uniform ids", draw<std::int32_t>(n, table_rows, false, 1), 0.5, 0.95},
                                {"sorted Zipf ids", draw<std::int32_t>(n, table_rows, true, 2), 0.85, 0.95},
                                {"4096 uniform ids", draw<std::int32_t>(batch, table_rows, false, 3), 0, 0}};
  std::sort(patterns[1].ids.begin(), patterns[1].ids.end());

  for (Pattern const& pattern : patterns) {
    Ids const& ids = pattern.ids;
    std::span const indices{ids};
    std::string const what = std::string{"gather_rows, "} + pattern.name;
    std::size_t const bytes = ids.size() * width * sizeof(float);
    auto const times = measure::best_seconds(
        options.rounds * (ids.size() < n ? 20 : 1), [&] { Host::gather_rows(view, indices, 0, packed.data()); },
        [&] { gather_by_hand(table.data(), ids, packed.data()); }, [&] { std::memcpy(packed.data(), table.data(), bytes); });
    report.line(what, times[0], "memcpy", times[2], pattern.least);
    report.line(what, times[0], "loop by hand", times[1], pattern.by_hand);

    Host::gather_rows(view, indices, 0, packed.data());
    bool right = true;
    for (std::size_t i = 0; i < ids.size(); ++i)
      right = right && std::memcmp(&packed[i * width], view.row(ids[i]), width * sizeof(float)) == 0;
    report.result(what, right);
  }

  fill(packed, 0x85ebca6bu);
  for (Pattern const& pattern : patterns) {
    Ids const& ids = pattern.ids;
    std::span const indices{ids};
    std::string const what = std::string{"scatter_add_rows, "} + pattern.name;
    auto const moved = static_cast<std::int64_t>(ids.size()) * width;
    table.fill(0);
    auto const times = measure::best_seconds(
        options.rounds * (ids.size() < n ? 20 : 1), [&] { Host::scatter_add_rows(view, indices, 0, packed.data()); },
        [&] { add_by_hand(table.data(), ids, packed.data()); }, [&] { add_all(expected.data(), packed.data(), moved); });
    report.line(what, times[0], "a += b", times[2], pattern.least);
    report.line(what, times[0], "loop by hand", times[1], pattern.by_hand);

    table.fill(0), expected.fill(0);
    Host::scatter_add_rows(view, indices, 0, packed.data());
    add_by_hand(expected.data(), ids, packed.data());
    report.result(what, std::memcmp(table.data(), expected.data(), count * sizeof(float)) == 0);
  }
}

template <class Index>
double grouping(measure::Options const& options, measure::Report& report, std::size_t count, bool zipf, double least) {
  constexpr std::int64_t vocabulary = 33'000'000;
  auto const ids = draw<Index>(count, vocabulary, zipf, 4);
  px::Grouping<Index> groups;
  px::SortScratch<Index> scratch;
  std::vector<Index> sorted(count);
  std::string const what = "unique_with_inverse, " + std::to_string(count) + " int" + std::to_string(8 * sizeof(Index)) +
                           (zipf ? " Zipf" : " uniform") + " of 33M";
  auto const times = measure::best_seconds(
      options.rounds, [&] { Host::unique_with_inverse(ids, vocabulary, groups, scratch); },
      [&] {
        std::copy(ids.begin(), ids.end(), sorted.begin());
        std::sort(sorted.begin(), sorted.end());
      });
  report.line(what, times[0], "std::sort of the ids", times[1], least);

  bool right = groups.count() == count && groups.offsets[groups.size()] == count;
  for (std::size_t k = 0; right && k < groups.size(); ++k)
    for (std::size_t i = groups.offsets[k]; right && i < groups.offsets[k + 1]; ++i)
      right = groups.keys[k] == sorted[i] && ids[groups.order[i]] == sorted[i] && groups.inverse[groups.order[i]] == k &&
              (i == groups.offsets[k] ? i == 0 || sorted[i - 1] < sorted[i] : groups.order[i - 1] < groups.order[i]);
  report.result(what, right);
  return times[0];
}

void adam(measure::Options const& options, measure::Report& report) {
  std::size_t const n = options.smoke ? 1'000 : std::size_t{16} << 20;  // 64 MB of parameters
  px::Buffer<float> p{n}, g{n}, m{n}, v{n};
  fill(p, 0x9e3779b1u), fill(g, 0x85ebca6bu), m.fill(0), v.fill(0);
  auto const rule = px::Adam{}.at(10);
  auto const count = static_cast<std::int64_t>(n);
  auto const traffic = [&](float* __restrict a, float const* __restrict b, float* __restrict c, float* __restrict d) {
    for (std::size_t i = 0; i < n; ++i) {
      a[i] += b[i] * 1e-6f;
      c[i] += b[i] * 1e-6f;
      d[i] += b[i] * 1e-6f;
    }
  };
  auto const times = measure::best_seconds(
      options.rounds,
      [&] { Host::apply_elements(count, p.data(), g.data(), 1, rule, m.data(), v.data()); },
      [&] { traffic(p.data(), g.data(), m.data(), v.data()); });
  report.line("apply_elements, Adam, 64 MB of parameters", times[0], "its traffic", times[1], 1 / 1.15);

  p.fill(1), m.fill(0), v.fill(0);
  Host::apply_elements(count, p.data(), g.data(), 1, rule, m.data(), v.data());
  bool right = true;
  for (std::size_t i = 0; right && i < n; i += 97) {
    float parameter = 1, first = 0, second = 0;
    rule(parameter, g[i], first, second);
    right = p[i] == parameter && m[i] == first && v[i] == second;
  }
  report.result("Adam", right);
}

}  // namespace

int main(int argc, char** argv) {
  measure::Options const options{argc, argv};
  measure::Report report{options};
  rows(options, report);
  for (std::size_t const count : {std::size_t{100'000}, std::size_t{1'000'000}})
    for (bool const zipf : {true, false}) {
      std::size_t const ids = options.smoke ? count / 100 : count;
      double const narrow = grouping<std::int32_t>(options, report, ids, zipf, 4);
      double const wide = grouping<std::int64_t>(options, report, ids, zipf, 2.5);
      report.line("  the same, int64", wide, "int32", narrow, 0.8);
    }
  adam(options, report);
  return report.exit_code();
}
