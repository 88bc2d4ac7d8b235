// parallax-bench kernels: the row operations of one thread beside what bounds them in the same run: memcpy, a += b, loops by
// hand, std::sort, a triad. Beside what does the same work they have goals.
#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <vector>

#include "../measure.hpp"
#include "commands.hpp"
#include "fastest.hpp"
#include "ids.hpp"
#include "parallax/detail/kernel/host.hpp"
#include "parallax/detail/optimizer/adam.hpp"
#include "report.hpp"

namespace bench {

namespace px = parallax;

// Arrays lie in huge pages where the system grants them. Sizes are those of tables, far beyond every cache, unless --rows says
// otherwise. Times are the best of so many rounds in which the contenders take turns.
class KernelCommand {
  using Host = px::RowOps<px::HostSpace>;
  using RowIds = std::vector<std::int32_t>;

 public:
  KernelCommand(Options const& options, bool prints, Report& report, Progress& progress)
      : smoke_{options.smoke},
        rounds_{options.iterations ? options.iterations
                : smoke_           ? 1
                                   : 15},
        rows_{options.rows ? std::min<std::int64_t>(options.rows, 1 << 30)
              : smoke_     ? 1'000
                           : 524'288},
        width_{options.width ? options.width : 128},
        skew_{options.skew},
        report_{report},
        progress_{progress},
        table_{"row operations of one thread, a table of " + std::to_string(rows_) + " x " + std::to_string(width_) +
                   " floats, best of " + std::to_string(rounds_) + " rounds",
               {{"kernel", 19, true},
                {"ids", 22, true},
                {"size(B)", 10},
                {"time(us)", 10},
                {"algbw(GB/s)", 11},
                {"beside", 18, true},
                {"time(us)", 10},
                {"speed", 6},
                {"goal", 14, true},
                {"#wrong", 6}},
               prints,
               progress} {}

  void run() {
    progress_.begin("kernels", 15);
    move_rows();
    for (std::size_t const count : {std::size_t{100'000}, std::size_t{1'000'000}})
      for (double const skew : {skew_, 0.0}) {
        group<std::int32_t>(smoke_ ? count / 100 : count, skew, "int32");
        group<std::int64_t>(smoke_ ? count / 100 : count, skew, "int64");
      }
    adam();
    report_.found(sentence_of(duels_, "A row operation", "what stands beside it", "rows of the table", within_rule(same)));
    if (goals_ > 0) report_.found(std::to_string(goals_ - missed_) + " of " + std::to_string(goals_) + " goals are reached.");
    report_.section({}, table_);
  }

 private:
  static constexpr double same = 0.05;  // best times tie that are no further apart
  struct Beside {
    std::string name;
    double seconds;
    double goal = 0;  // the least speed beside it, where there is one
  };
  static constexpr double as_by_hand = 0.95, as_traffic = 0.9, as_sort = 2;  // goals
  // `bytes` are read and written once in `seconds`.
  void line(std::string const& kernel, std::string const& ids, std::size_t bytes, double seconds,
            std::vector<Beside> const& beside, bool right) {
    for (auto const& other : beside) {
      duels_.push_back({kernel + " of " + ids, {kernel, within(same, seconds)}, {other.name, within(same, other.seconds)}});
      double const algbw = real(bytes) / seconds / 1e9, speed = duels_.back().speed();
      std::string goal;
      if (other.goal > 0 && !smoke_) {
        ++goals_, missed_ += speed < other.goal;
        goal = ">= " + shown(other.goal) + (speed < other.goal ? " MISSED" : "");
      }
      table_.row({kernel, ids, std::to_string(bytes), fixed(seconds * 1e6, 1), fixed(algbw, 2), other.name,
                  fixed(other.seconds * 1e6, 1), fixed(speed, 2), goal, right ? "0" : "1"});
      report_.add({{"command", "kernels"},
                   {"kernel", kernel},
                   {"ids", ids},
                   {"rows", rows_},
                   {"width", width_},
                   {"size_bytes", static_cast<std::int64_t>(bytes)},
                   {"time_us", seconds * 1e6},
                   {"algbw_GBps", algbw},
                   {"beside", other.name},
                   {"beside_us", other.seconds * 1e6},
                   {"speed", speed},
                   {"goal", goal},
                   {"wrong", std::int64_t{!right}}});
    }
    report_.wrong(!right);
    progress_.advance();
  }

  template <class Index>
  static std::vector<Index> draw(std::size_t count, std::int64_t rows, double skew, int seed) {
    Zipf const zipf{rows, skew};
    Random random{seed};
    std::vector<Index> ids(count);
    for (Index& id : ids) id = static_cast<Index>(zipf.draw(random));
    return ids;
  }
  static std::string distribution(double skew) { return skew == 0 ? "uniform" : "Zipf " + shown(skew); }

  // What a careful programmer writes: the lines of the row eight further on are asked for, then the row is copied or added.
  template <int write>
  void ask_for(float const* row) const {
    for (std::int64_t at = 0; at < width_; at += 16) __builtin_prefetch(row + at, write);
  }
  void gather_by_hand(float const* table, RowIds const& ids, float* out) const {
    std::size_t const n = ids.size(), bytes = at(width_) * sizeof(float);
    for (std::size_t i = 0; i < n; ++i) {
      if (i + 8 < n) ask_for<0>(table + ids[i + 8] * width_);
      std::memcpy(out + static_cast<std::int64_t>(i) * width_, table + ids[i] * width_, bytes);
    }
  }
  void add_by_hand(float* table, RowIds const& ids, float const* rows) const {
    std::size_t const n = ids.size();
    for (std::size_t i = 0; i < n; ++i) {
      if (i + 8 < n) ask_for<1>(table + ids[i + 8] * width_);
      float* __restrict const row = table + ids[i] * width_;
      float const* __restrict const addend = rows + static_cast<std::int64_t>(i) * width_;
      for (std::int64_t k = 0; k < width_; ++k) row[k] += addend[k];
    }
  }
  static void add_all(float* __restrict a, float const* __restrict b, std::int64_t n) {
    for (std::int64_t i = 0; i < n; ++i) a[i] += b[i];
  }

  // Small whole numbers: their sums are exact, so that every order gives the same.
  static void fill(px::Buffer<float>& buffer, std::uint32_t factor) {
    for (std::size_t i = 0; i < buffer.size(); ++i)
      buffer[i] = static_cast<float>(static_cast<std::uint32_t>(i) * factor >> 28);
  }

  void move_rows() {
    auto const n = at(rows_), count = n * at(width_);
    px::Buffer<float> table{count}, packed{count}, expected{count};
    fill(table, 0x9e3779b1u);
    px::RowsView<float> const view{table.data(), rows_, width_};
    struct Pattern {
      std::string name;
      RowIds ids;
    };
    std::size_t const batch = std::min<std::size_t>(n, smoke_ ? 100 : 4096);
    std::vector<Pattern> patterns{{"uniform", draw<std::int32_t>(n, rows_, 0, 1)},
                                  {"sorted " + distribution(skew_), draw<std::int32_t>(n, rows_, skew_, 2)},
                                  {std::to_string(batch) + " uniform", draw<std::int32_t>(batch, rows_, 0, 3)}};
    std::sort(patterns[1].ids.begin(), patterns[1].ids.end());
    auto const rounds = [&](RowIds const& ids) { return rounds_ * (ids.size() < n ? 20 : 1); };

    for (auto const& [name, ids] : patterns) {
      std::span const indices{ids};
      std::size_t const bytes = ids.size() * at(width_) * sizeof(float);
      auto const times = measure::best_seconds(
          rounds(ids), [&, &drawn = ids] { gather_by_hand(table.data(), drawn, packed.data()); },
          [&] { std::memcpy(packed.data(), table.data(), bytes); },
          [&] { Host::gather_rows(view, indices, {}, packed.data()); });
      bool right = true;
      for (std::size_t i = 0; i < ids.size(); ++i)
        right = right && std::memcmp(&packed[i * at(width_)], view.row(ids[i]), at(width_) * sizeof(float)) == 0;
      line("gather_rows", name, 2 * bytes, times[2], {{"memcpy", times[1]}, {"loop by hand", times[0], as_by_hand}}, right);
    }

    fill(packed, 0x85ebca6bu);
    for (auto const& [name, ids] : patterns) {
      std::span const indices{ids};
      auto const moved = static_cast<std::int64_t>(ids.size()) * width_;
      table.fill(0);
      auto const times = measure::best_seconds(
          rounds(ids), [&] { Host::scatter_add_rows(view, indices, {}, packed.data()); },
          [&, &drawn = ids] { add_by_hand(table.data(), drawn, packed.data()); },
          [&] { add_all(expected.data(), packed.data(), moved); });
      table.fill(0), expected.fill(0);
      Host::scatter_add_rows(view, indices, {}, packed.data());
      add_by_hand(expected.data(), ids, packed.data());
      line("scatter_add_rows", name, 3 * at(moved) * sizeof(float), times[0],
           {{"a += b", times[2]}, {"loop by hand", times[1], as_by_hand}},
           std::memcmp(table.data(), expected.data(), count * sizeof(float)) == 0);
    }
  }

  template <class Index>
  void group(std::size_t count, double skew, char const* type) {
    std::int64_t const vocabulary = smoke_ ? 100'000 : 33'000'000;
    auto const ids = draw<Index>(count, vocabulary, skew, 4);
    px::Grouping<Index> groups;
    px::SortScratch<Index> scratch;
    std::vector<Index> sorted(count);
    auto const times = measure::best_seconds(
        rounds_, [&] { Host::unique_with_inverse(ids, vocabulary, groups, scratch); },
        [&] {
          std::copy(ids.begin(), ids.end(), sorted.begin());
          std::sort(sorted.begin(), sorted.end());
        });
    bool right = groups.count() == count && groups.offsets[groups.size()] == count;
    for (std::size_t k = 0; right && k < groups.size(); ++k)
      for (std::size_t i = groups.offsets[k]; right && i < groups.offsets[k + 1]; ++i)
        right = groups.keys[k] == sorted[i] && ids[groups.order[i]] == sorted[i] && groups.inverse[groups.order[i]] == k &&
                (i == groups.offsets[k] ? i == 0 || sorted[i - 1] < sorted[i] : groups.order[i - 1] < groups.order[i]);
    line("unique_with_inverse", std::to_string(count) + ' ' + type + ' ' + distribution(skew), count * sizeof(Index), times[0],
         {{"std::sort alone", times[1], as_sort}}, right);
  }

  void adam() {
    std::size_t const n = smoke_ ? 1'000 : std::size_t{16} << 20;  // 64 MB of parameters
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
        rounds_, [&] { Host::apply_elements(count, p.data(), g.data(), 1, rule, m.data(), v.data()); },
        [&] { traffic(p.data(), g.data(), m.data(), v.data()); });
    p.fill(1), m.fill(0), v.fill(0);
    Host::apply_elements(count, p.data(), g.data(), 1, rule, m.data(), v.data());
    bool right = true;
    for (std::size_t i = 0; right && i < n; i += 97) {
      float parameter = 1, first = 0, second = 0;
      rule(parameter, g[i], first, second);
      right = p[i] == parameter && m[i] == first && v[i] == second;
    }
    line("apply_elements", "Adam", 7 * n * sizeof(float), times[0], {{"its traffic", times[1], as_traffic}}, right);
  }

  bool smoke_;
  int rounds_;
  std::int64_t rows_, width_;
  double skew_;
  Report& report_;
  Progress& progress_;
  Table table_;
  std::vector<Duel> duels_;
  int goals_ = 0, missed_ = 0;
};

namespace {

[[maybe_unused]] bool const here = bring("kernels", [](Run const& run) {
  KernelCommand{run.options, run.prints, run.report, run.progress}.run();
});

}  // namespace

}  // namespace bench
