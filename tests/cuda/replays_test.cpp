// Rows of a device that steps have passed by: the bits of the host's, at rest or not and swept or not; and how many steps they take,
// counted by the rule itself.
#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <random>
#include <utility>
#include <vector>

#include "../catch.hpp"
#include "../equivalence/memory.hpp"
#include "../support/size.hpp"
#include "../variable/replays.hpp"
#include "deferred.hpp"
#include "parallax/comm/cuda_thread.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/kernel/cuda.cuh"

namespace {

namespace px = parallax;
using parallax_test::Memory, parallax_test::values_of;

std::atomic<std::int64_t> full, resting;  // elements that took a step without a gradient, and those that rested in one

// A rule that counts how often it is called.
template <class Inner>
struct CountingRule {
  Inner inner;
  PARALLAX_HOST_DEVICE void operator()(auto& p, auto g, auto&... slots) const noexcept {
    if (g == decltype(g){0}) ++full;
    inner(p, g, slots...);
  }
  px::Pace pace() const noexcept { return inner.pace(); }
  bool alike(CountingRule const& other) const noexcept { return inner.alike(other.inner); }
  PARALLAX_HOST_DEVICE bool rests(auto p, auto... slots) const noexcept { return inner.rests(p, slots...); }
  template <class T>
  PARALLAX_HOST_DEVICE T faded(std::size_t slot, T x) const noexcept {
    if (slot == 0) ++resting;
    return inner.faded(slot, x);
  }
};

template <int Number>
struct CountingAdam {
  using axis = px::optimizer_axis;
  using element_slots = px::slot_types<px::scalar, px::scalar>;
  static constexpr std::string_view name = "CountingAdam";
  static constexpr std::string_view slot_names[] = {"m", "v"};
  static constexpr px::Untouched untouched = px::Untouched::moves;
  double learning_rate = 0.001;
  auto at(std::int64_t step) const { return CountingRule<px::Adam::Rule>{px::Adam{learning_rate}.at(step)}; }
};
using Roomy = CountingAdam<0>;
using Few = CountingAdam<1>;  // whose notes are few before rows are settled for their sake

// One whose rule is another one only where its settings are.
struct Falling {
  using axis = px::optimizer_axis;
  using element_slots = px::slot_types<px::scalar>;
  static constexpr std::string_view name = "Falling";
  static constexpr std::string_view slot_names[] = {"v"};
  static constexpr px::Untouched untouched = px::Untouched::moves;
  double learning_rate = 0.01;
  auto at(std::int64_t step) const { return CountingRule<px::Momentum::Rule>{px::Momentum{learning_rate}.at(step)}; }
};

}  // namespace

template <>
inline constexpr std::size_t parallax::most_note_bytes<Few> = 4'000;

namespace {

constexpr std::int64_t rows = 700, width = 4;

struct Seen {
  std::vector<float> values;  // rows and slots in the end
  std::vector<std::int64_t> taken, missed,
      whole;  // step by step: those that rows took, of them in full; those that named ones had missed
};

// A step names 8 of all rows, or all of them at first. The settings change in each step, or never.
template <class O, class T, class Space, class C>
Seen train(C& world, px::RowOps<Space> const& ops, int steps, bool changing) {
  px::Session session{world};
  px::Variable<px::Sparse, O, T, Space> table{session, "table", {rows, width, px::constant(1)}};
  std::mt19937_64 random{9};
  std::vector<std::int64_t> last(rows, -1);
  Seen seen;
  for (int step = 0; step < steps; ++step) {
    std::vector<std::int64_t> ids(step == 0 ? 500 : 8);  // some are blank for some time
    for (std::size_t i = 0; i < ids.size(); ++i)
      ids[i] = step == 0 ? static_cast<std::int64_t>(i) : static_cast<std::int64_t>(random() % rows);
    if (changing) table.optimizer().learning_rate = 1e-3 * (1 + step % 11) * (step % 37 == 36 ? 300 : 1);
    std::vector<float> g(ids.size() * width);
    for (float& x : g) x = static_cast<float>(1 + random() % 7) / 16;
    std::int64_t missed = 0;
    for (std::int64_t const id : ids) {
      auto& named = last[static_cast<std::size_t>(id)];
      if (named >= 0 && named < step) missed += step - 1 - named;
      named = step;
    }
    std::int64_t const whole = full, at_rest = resting;
    Memory<float, Space> const gradient{ops, g};
    session.step(px::grad(table, ids, gradient.span()));
    if constexpr (!Space::host_readable) ops.wait();
    seen.whole.push_back((full - whole) / width);
    seen.taken.push_back((full - whole + resting - at_rest) / width);
    seen.missed.push_back(missed);
  }
  for (auto const value : values_of(ops, table.local())) seen.values.push_back(static_cast<float>(value));
  for (auto const slot : O::slot_names)
    for (float const value : values_of(ops, table.template slot<float>(slot))) seen.values.push_back(value);
  session.finish();
  return seen;
}

template <class O, class T = float>
Seen on_host(int steps, bool changing) {
  Seen seen;
  px::run_threads(
      1, [&](px::ThreadCommunicator& world) { seen = train<O, T>(world, px::RowOps<px::HostSpace>{}, steps, changing); });
  return seen;
}
template <class O, class T = float>
Seen on_device(int steps, bool changing) {
  Seen seen;
  px::run_cuda_threads(1, [&](px::CudaThreadCommunicator& world) {
    seen = train<O, T>(world, px::RowOps<px::CudaSpace>{world.queue()}, steps, changing);
  });
  return seen;
}

bool same(Seen const& a, Seen const& b) {
  return a.values.size() == b.values.size() &&
         std::memcmp(a.values.data(), b.values.data(), a.values.size() * sizeof(float)) == 0;
}
std::int64_t most_over(Seen const& seen) {
  std::int64_t most = 0;
  for (std::size_t step = 0; step < seen.taken.size(); ++step) most = std::max(most, seen.taken[step] - seen.missed[step]);
  return most;
}

}  // namespace

TEST_CASE("rows of a device take the steps that they have missed when they are named, and no others", "[cuda][settle]") {
  int const steps = parallax_test::sized(200, 1'300, 3'000);
  for (bool const changing : {true, false}) {
    CAPTURE(changing);
    Seen const found = on_device<Roomy>(steps, changing);
    CHECK(found.taken == found.missed);
    CHECK(same(found, on_host<Roomy>(steps, changing)));
    for (std::size_t step = 0; step < found.whole.size(); ++step) CHECK(found.whole[step] <= 8 * (changing ? 400 : 200));
  }
  Seen const falling = on_device<Falling>(steps, false);
  CHECK(falling.taken == falling.missed);
  CHECK(same(falling, on_host<Falling>(steps, false)));
}

TEST_CASE("rows of a device are swept in slices, and have the bits of the host's", "[cuda][settle]") {
  int const steps = parallax_test::sized(200, 600, 3'000);
  Seen const found = on_device<Few>(steps, true);
  CHECK(most_over(found) > 0);
  CHECK(most_over(found) <= 4'096);
  CHECK(same(found, on_host<Few>(steps, true)));
  CHECK(same(on_device<Few, px::BFloat16>(300, true), on_host<Roomy, px::BFloat16>(300, true)));
}
