// The step of a table by rules that measure a row before they move it, beside rules by element: RowwiseAdagrad beside Adagrad, which
// keeps more state, and LazyLamb beside LazyAdam, which keeps as much. One rank alone, distinct ids drawn uniformly from a million.
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "measure.hpp"
#include "parallax/comm/self.hpp"
#include "parallax/parallax.hpp"
#include "parallax_bench/ids.hpp"

namespace px = parallax;

namespace {

using bench::Ids;
constexpr std::size_t batches = 4;
constexpr double rate = 0.01;

// Distinct ids, by batch.
std::vector<Ids> uniform_ids(std::int64_t rows, std::size_t count) {
  std::vector<Ids> ids(batches);
  std::vector<std::int64_t> all(static_cast<std::size_t>(rows));
  std::iota(all.begin(), all.end(), std::int64_t{0});
  bench::Random random{5, 0, 0};
  for (auto& batch : ids)
    for (std::size_t i = 0; i < count; ++i) {
      std::swap(all[i], all[i + random.next() % (all.size() - i)]);
      batch.push_back(all[i]);
    }
  return ids;
}
float gradient_at(std::size_t i) { return static_cast<float>((i * 7 + 3) % 17) / 16 - 0.46875f; }

template <class Optimizer>
struct Table {
  Table(std::int64_t rows, std::int64_t width, std::vector<Ids> const& all)
      : words{session, "words", {rows, width, px::constant(0.5)}, Optimizer{.learning_rate = rate}},
        ids{&all},
        gradient(all[0].size() * static_cast<std::size_t>(width)) {
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = gradient_at(i);
  }
  Table(Table&&) = delete;
  ~Table() { session.finish(); }

  void step() { session.step(px::grad(words, (*ids)[static_cast<std::size_t>(session.steps()) % batches], gradient)); }
  // Of the first step in a new table: true if each element has moved as `moved(gradient, squares of its row)` says.
  template <class F>
  bool first_is(F&& moved) {
    step();
    auto const width = static_cast<std::size_t>(words.width());
    auto const pulled = session.pull(words, (*ids)[0]);
    bool right = true;
    for (std::size_t i = 0; i < (*ids)[0].size(); ++i) {
      std::span const row{gradient.data() + i * width, width};
      double squares = 0;
      for (float const g : row) squares += static_cast<double>(g) * g;
      for (std::size_t c = 0; c < width; ++c)
        right = right && std::abs(pulled[i][c] - (0.5 - moved(row[c], squares / static_cast<double>(width)))) < 1e-5;
    }
    return right;
  }

  px::SelfCommunicator world;
  px::Session<px::SelfCommunicator> session{world};
  px::Variable<px::Sparse, px::PsShard, Optimizer> words;
  std::vector<Ids> const* ids;
  std::vector<float> gradient;
};

// Times the rule by row beside the one by element, and that one beside itself.
template <class ByRow, class ByElement>
void compare(measure::Report& report, measure::Options const& options, std::string const& rule, std::string const& twin,
             std::int64_t rows, std::int64_t width, std::size_t count, double goal, auto&&... moved) {
  auto const ids = uniform_ids(rows, count);
  Table<ByRow> one{rows, width, ids};
  Table<ByElement> other{rows, width, ids}, again{rows, width, ids};
  std::string const shape = std::to_string(count) + " ids of width " + std::to_string(width);
  (report.result(rule + ", " + shape, one.first_is(moved)), ...);
  int const steps = options.smoke ? 1 : static_cast<int>(200'000 / count) + 1;
  auto const repeated = [&](auto& table) {
    return [&table, steps] {
      for (int step = 0; step < steps; ++step) table.step();
    };
  };
  auto const best = measure::best_seconds(options.rounds, repeated(one), repeated(other), repeated(again));
  report.line(shape + ", " + twin + " against itself", best[2] / steps, twin, best[1] / steps);
  report.line(shape + ", " + rule, best[0] / steps, twin, best[1] / steps, goal);
}

}  // namespace

int main(int argc, char** argv) {
  measure::Options const options{argc, argv};
  measure::Report report{options};
  std::int64_t const rows = options.smoke ? 2'000 : 1'000'000;
  for (std::int64_t const width : {16, 32, 64, 128})
    for (std::size_t const count : {2'560, 10'240, 40'000}) {
      std::size_t const some = options.smoke ? 100 : count;
      compare<px::RowwiseAdagrad, px::Adagrad>(report, options, "RowwiseAdagrad", "Adagrad", rows, width, some, 1.0,
                                               [](double g, double mean) { return rate * g / (std::sqrt(mean) + 1e-10); });
      compare<px::LazyLamb, px::LazyAdam>(report, options, "LazyLamb", "LazyAdam", rows, width, some, 1 / 1.2);
    }
  return report.exit_code();
}
