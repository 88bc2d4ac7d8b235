// Tables of optimizers with exact semantics beside a loop that takes every row through every step as it comes, by the
// optimizer's rule and nothing else of the library's. Included by tests whose optimizers have little room for notes.
#pragma once

#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "parallax/parallax.hpp"

// Room for some 60 notes of the optimizer's settings in this program, so that sweeps begin.
#define PARALLAX_FEW_NOTES(...) \
  template <>                   \
  inline constexpr std::size_t parallax::most_note_bytes<__VA_ARGS__> = 60 * (sizeof(__VA_ARGS__) + 8)

namespace parallax_test::replays {

namespace px = parallax;

inline constexpr std::int64_t rows = 23, width = 19;

template <class O>
auto& rate_of(O& optimizer) {
  if constexpr (requires { optimizer.learning_rate; }) return optimizer.learning_rate;
  else return rate_of(optimizer.optimizer);
}
// Returns the settings of a step: a rate that rises and falls all the time, is 0 for a while, jumps now and then; and other
// settings that change seldom.
template <class O>
O at_step(O optimizer, int step, bool changing) {
  if (!changing) return optimizer;
  double& rate = rate_of(optimizer);
  rate *= (1 + step % 89) / 89.0;
  if (step % 1'000 > 940) rate = 0;
  if (step % 701 > 690) rate *= 300;
  if constexpr (requires { optimizer.beta1; })
    if (step % 600 > 500) optimizer.beta1 = 0.8;
  if constexpr (requires { optimizer.epsilon; })
    if (step % 900 > 800) optimizer.epsilon *= 2;
  return optimizer;
}

PARALLAX_STRICT_ARITHMETIC_BEGIN

// All rows, each moved in every step. T: as what they are kept.
template <class O, class T>
class EveryRow {
  using Wide = px::computed_type<T>;
  template <class>
  struct Arrays;
  template <class... S>
  struct Arrays<px::slot_types<S...>> {
    using type = std::tuple<std::vector<px::detail::slot_type<S, Wide>>...>;
  };

 public:
  explicit EveryRow(O const& optimizer, double first) : values(rows * width, static_cast<T>(static_cast<Wide>(first))) {
    std::apply([](auto&... slot) { (slot.resize(rows * width), ...); }, slots);
    if constexpr (requires { optimizer.initial(); }) [&]<std::size_t... I>(std::index_sequence<I...>) {
        auto const initial = optimizer.initial();
        ((std::get<I>(slots).assign(rows * width, static_cast<Wide>(std::get<I>(initial)))), ...);
      }
    (std::make_index_sequence<O::element_slots::count>{});
  }
  void step(O const& optimizer, std::int64_t number, std::vector<Wide> const& gradients) {
    auto const rule = optimizer.at(number);
    for (std::size_t i = 0; i < values.size(); ++i) {
      Wide value = static_cast<Wide>(values[i]);
      if constexpr (px::adopts<O, Wide>)  // first values are given from outside
        if (number == 1) std::apply([&](auto&... slot) { rule.adopt(value, slot[i]...); }, slots);
      std::apply([&](auto&... slot) { rule(value, gradients[i], slot[i]...); }, slots);
      values[i] = static_cast<T>(value);
    }
  }

  std::vector<T> values;
  typename Arrays<typename O::element_slots>::type slots;
};

PARALLAX_STRICT_ARITHMETIC_END

// Trains both, and returns in how many steps or slots they differ. A third of the rows are named nearly always, a third seldom,
// one row once, and some never.
template <class O, class T = float>
int differences(O const& optimizer, int steps, bool changing, unsigned seed, px::Replays* counted = nullptr) {
  using Wide = px::computed_type<T>;
  std::mt19937_64 random{seed};
  px::SelfCommunicator world;
  px::Session session{world};
  px::Variable<px::Sparse, O, T> table{session, "table", {rows, width, px::constant(0.375)}, optimizer};
  EveryRow<O, T> every{optimizer, 0.375};
  int wrong = 0;
  auto const compare = [&](std::int64_t row, T const* found) {
    return std::memcmp(found, every.values.data() + row * width, width * sizeof(T)) != 0;
  };
  for (int step = 0; step < steps; ++step) {
    std::vector<std::int64_t> ids;
    for (std::int64_t row = 0; row < 8; ++row)
      if (random() % 3) ids.push_back(row);
    if (random() % 50 == 0) ids.push_back(8 + static_cast<std::int64_t>(random() % 6));
    if (random() % 900 == 0) ids.push_back(14 + static_cast<std::int64_t>(random() % 4));
    if (step == 3) ids.push_back(18);
    std::vector<Wide> gradients(ids.size() * width), all(rows * width);
    for (Wide& g : gradients) g = random() % 4 ? static_cast<Wide>(static_cast<double>(random() % 2'001) / 1'000 - 1) : Wide{0};
    for (std::size_t i = 0; i < ids.size(); ++i)
      std::copy_n(gradients.data() + i * width, width, all.data() + static_cast<std::size_t>(ids[i]) * width);
    if (random() % 40 == 0) {
      std::vector<std::int64_t> const looked{static_cast<std::int64_t>(random() % rows)};
      auto const pulled = session.pull(table, looked);
      if constexpr (std::is_same_v<T, Wide>) wrong += compare(looked[0], &pulled[0][0]);
    }
    table.optimizer() = at_step(optimizer, step, changing);
    session.step(px::grad(table, ids, gradients));
    every.step(table.optimizer(), step + 1, all);
    if (random() % 1'500 == 0)
      for (std::int64_t row = 0; row < rows; ++row) wrong += compare(row, &table.local()[row][0]);
  }
  for (std::int64_t row = 0; row < rows; ++row) wrong += compare(row, &table.local()[row][0]);
  [&]<std::size_t... I>(std::index_sequence<I...>) {
    ((wrong += std::memcmp(table.template slot<Wide>(px::slot_name<O>(I)).data, std::get<I>(every.slots).data(),
                           rows * width * sizeof(Wide)) != 0),
     ...);
  }
  (std::make_index_sequence<O::element_slots::count>{});
  if (counted) *counted = table.state().replays();
  session.finish();
  return wrong;
}

}  // namespace parallax_test::replays
