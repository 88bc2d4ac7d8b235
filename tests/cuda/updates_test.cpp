#include <tuple>

#include "cases.hpp"
#include "grouped.hpp"
#include "parallax/detail/kernel/cuda/updates.cuh"
#include "parallax/detail/kernel/host.hpp"
#include "parallax/detail/kernel/host/measure.hpp"
#include "parallax/detail/optimizer/adadelta.hpp"
#include "parallax/detail/optimizer/adagrad.hpp"
#include "parallax/detail/optimizer/adam.hpp"
#include "parallax/detail/optimizer/ftrl.hpp"
#include "parallax/detail/optimizer/lamb.hpp"
#include "parallax/detail/optimizer/momentum.hpp"
#include "parallax/detail/optimizer/proximal.hpp"
#include "parallax/detail/optimizer/rms_prop.hpp"
#include "parallax/detail/optimizer/rowwise_adagrad.hpp"
#include "parallax/detail/optimizer/weight_decay.hpp"
#include "parallax/optimizer/sgd.hpp"

namespace {

using Host = parallax::RowOps<parallax::HostSpace>;
namespace device = parallax::device;

// Tables of an optimizer's slots, of positive numbers, for some are square roots' arguments.
template <class T, class... S>
auto drawn_slots(cases::Draw& draw, std::int64_t rows, std::int64_t width, parallax::slot_types<S...>) {
  [[maybe_unused]] auto const make = [&]<class Slot>(std::type_identity<Slot>) {
    cases::Table<Slot> table{draw, rows, width};
    for (auto& value : table.memory) value = value < Slot{0} ? -value : value;
    return table;
  };
  return std::tuple{make(std::type_identity<parallax::detail::slot_type<S, T>>{})...};
}
template <class... Tables>
auto slots_of(std::tuple<Tables...>& tables) {
  return std::apply([](auto&... each) { return device::Slots{each.view()...}; }, tables);
}
template <class... Tables>
bool same(std::tuple<Tables...> const& a, std::tuple<Tables...> const& b) {
  return [&]<std::size_t... I>(std::index_sequence<I...>) {
    return (cases::same_bits(std::get<I>(a).memory, std::get<I>(b).memory) && ...);
  }(std::index_sequence_for<Tables...>{});
}

// What the host makes of one row of gradients that are averaged: measures where the rule does, and applies the rule.
template <class C, class Rule, class Slots, class RowSlots>
void update_on_host(Rule const& rule, parallax::RowsView<C> table, std::int64_t row, C const* gradients, C scale, Slots& slots,
                    RowSlots& row_slots) {
  std::apply(
      [&](auto&... state) {
        auto const apply = [&](auto const& of_elements) {
          Host::apply_elements(table.width, table.row(row), gradients, scale, of_elements, state.view().row(row)...);
        };
        if constexpr (requires { rule.measure(*table.data, *table.data, *state.view().data...); }) {
          auto const sums = parallax::detail::measure_elements(table.width, table.row(row), gradients, scale, rule,
                                                               state.view().row(row)...);
          std::apply([&](auto&... of_row) { apply(rule.finish(sums, table.width, *of_row.view().row(row)...)); }, row_slots);
        } else {
          apply(rule);
        }
      },
      slots);
}

enum class Mean { none, of_ranks, by_count };

// One table updated by the host and by kernels, the gradients summed on the way and before.
template <class T, class V, class Index, class O>
void updates(cases::Draw& draw, O const& optimizer) {
  using C = device::Computed<T>;
  draw.next();
  std::int64_t const width = draw.width(), rows = 1 + draw.below(40);
  std::uint32_t const n = draw.keys(width);
  auto keys = draw.drawn_keys<Index>(n, rows);
  auto const base = static_cast<Index>(draw.one_in(2) ? 0 : draw.below(100));
  auto const mean = static_cast<Mean>(draw.below(3));
  C const scale = draw.one_in(2) ? C{1} : static_cast<C>(0.37);
  INFO(parallax::optimizer_name<O>() << ", width " << width << ", " << n << " keys of " << rows << " rows, mean "
                                     << static_cast<int>(mean) << ", scale " << scale);
  cases::Table<V> const values{draw, n, width};
  cases::Table<T> table{draw, rows, width};
  auto slots = drawn_slots<C>(draw, rows, width, typename O::element_slots{});
  auto row_slots = drawn_slots<C>(draw, rows, 1, parallax::row_slots<O>{});
  auto const rule = optimizer.at(3);

  parallax::Grouping<Index> groups;
  parallax::SortScratch<Index> sort_scratch;
  Host::unique_with_inverse(keys, rows, groups, sort_scratch);
  std::size_t const u = groups.size();
  auto wide = cases::widened(table, draw);
  auto const wide_values = cases::widened(values, draw);
  auto host_slots = slots;
  auto host_row_slots = row_slots;
  std::vector<C> sums(u * static_cast<std::size_t>(width));
  std::vector<std::uint32_t> counts(u);
  Host::coalesce<C>(wide_values.view(), groups, 0, u, sums.data());
  Host::run_lengths(groups, 0, u, counts.data());
  auto const stored = sums;
  for (std::size_t k = 0; k < u; ++k) {
    C* const gradients = sums.data() + k * static_cast<std::size_t>(width);
    if (mean != Mean::none) Host::scale_down(gradients, width, mean == Mean::of_ranks ? C{3} : static_cast<C>(counts[k]));
    update_on_host(rule, wide.view(), groups.keys[k], gradients, scale, host_slots, host_row_slots);
  }
  auto const expected = cases::narrowed<T>(wide.memory);

  for (Index& key : keys) key = static_cast<Index>(key + base);
  cases::Grouped<Index> grouped{keys, rows + base};
  C const divisor = mean == Mean::of_ranks ? C{3} : C{1};
  device::Scaling<C> const scaling{divisor, mean == Mean::by_count ? counts.data() : nullptr, scale};
  auto again = table;
  auto again_slots = slots;
  auto again_row_slots = row_slots;
  cases::Scratch const scratch{device::sums_scratch_bytes<V>(n, width)};
  device::update_runs(nullptr, values.view(), grouped.view(), {base}, scaling, table.view(), rule, slots_of(slots),
                      slots_of(row_slots), scratch.memory);
  REQUIRE(cases::same_bits(table.memory, expected));
  REQUIRE(same(slots, host_slots));
  REQUIRE(same(row_slots, host_row_slots));

  device::apply_rows(nullptr, std::span<Index const>{grouped.keys}, {base}, again.view(), stored.data(), scaling, rule,
                     slots_of(again_slots), slots_of(again_row_slots), &grouped.distinct);
  REQUIRE(cases::same_bits(again.memory, expected));
  REQUIRE(same(again_slots, host_slots));
  REQUIRE(same(again_row_slots, host_row_slots));
}

template <class O>
void updates_floats(cases::Draw& draw, O const& optimizer) {
  for (std::size_t i = 0; i < draw.count(); ++i) updates<float, float, std::int32_t>(draw, optimizer);
}

}  // namespace

TEST_CASE("rules of elements have the host's bits where gradients are summed on the way", "[cuda][update]") {
  cases::Draw draw{"update_runs, apply_rows: rules of elements, each", 8};
  updates_floats(draw, parallax::Sgd{0.1});
  updates_floats(draw, parallax::LazyMomentum{0.1, 0.9});
  updates_floats(draw, parallax::Nesterov{0.1, 0.9});
  updates_floats(draw, parallax::Adagrad{});
  updates_floats(draw, parallax::RmsProp{});
  updates_floats(draw, parallax::CenteredRmsProp{});
  updates_floats(draw, parallax::LazyAdadelta{});
  updates_floats(draw, parallax::ProximalSgd{.learning_rate = 0.1, .l1 = 0.3, .l2 = 0.1});
  updates_floats(draw, parallax::LazyProximalAdagrad{.learning_rate = 0.1, .l1 = 0.3, .l2 = 0.1});
  updates_floats(draw, parallax::AdagradDa{.learning_rate = 0.1, .l1 = 0.3, .l2 = 0.1});
  updates_floats(draw, parallax::Adam{});
  updates_floats(draw, parallax::LazyAdamW{});
  updates_floats(draw, parallax::Ftrl{.l1 = 0.3, .l2 = 0.1});
  updates_floats(draw, parallax::WeightDecay<parallax::Adagrad>{.rate = 0.01});
}

TEST_CASE("rules that measure rows have the host's bits", "[cuda][update]") {
  cases::Draw draw{"update_runs, apply_rows: rules of rows, each", 8};
  updates_floats(draw, parallax::RowwiseAdagrad{});
  updates_floats(draw, parallax::LazyLamb{});
  updates_floats(draw, parallax::WeightDecay<parallax::RowwiseAdagrad>{.rate = 0.01});
}

TEST_CASE("other scalars have the host's bits: double, and 16 bits by way of float", "[cuda][update]") {
  cases::Draw draw{"update_runs, apply_rows: other scalars, each", 8};
  for (std::size_t i = 0; i < draw.count(); ++i) {
    updates<double, double, std::int64_t>(draw, parallax::Adam{});
    updates<double, double, std::int64_t>(draw, parallax::Lamb{});
    updates<__nv_bfloat16, __nv_bfloat16, std::int32_t>(draw, parallax::Adagrad{});
    updates<float, __half, std::int32_t>(draw, parallax::Sgd{});
    updates<__half, float, std::int32_t>(draw, parallax::RowwiseAdagrad{});
  }
}

TEST_CASE("elements of dense tensors are updated wherever they begin", "[cuda][update]") {
  cases::Draw draw{"apply_elements", 60};
  for (std::size_t i = 0; i < draw.count(); ++i) {
    draw.next();
    std::int64_t const n = draw.below(3000);
    cases::Table<float> parameters{draw, 1, n}, gradients{draw, 1, n};
    auto slots = drawn_slots<float>(draw, 1, n, parallax::Adam::element_slots{});
    auto& [m, v] = slots;
    auto expected = parameters;
    auto host_m = m, host_v = v;
    float const scale = draw.one_in(2) ? 1.0f : 0.3f, divisor = draw.one_in(2) ? 1.0f : 3.0f;
    auto const rule = parallax::Adam{}.at(7);
    std::vector<float> averaged(gradients.data(), gradients.data() + n);
    if (divisor != 1.0f) Host::scale_down(averaged.data(), n, divisor);
    Host::apply_elements(n, expected.data(), averaged.data(), scale, rule, host_m.data(), host_v.data());
    device::apply_elements(nullptr, static_cast<std::uint64_t>(n), parameters.data(), gradients.data(),
                           {divisor, nullptr, scale}, rule, m.data(), v.data());
    REQUIRE(cases::same_bits(parameters.memory, expected.memory));
    REQUIRE((cases::same_bits(m.memory, host_m.memory) && cases::same_bits(v.memory, host_v.memory)));
  }
}

TEST_CASE("a rule that is written for floats alone is called with floats", "[cuda][update]") {
  float parameters[] = {1, 2, 3}, gradients[] = {1, 1, 2}, slots[] = {0, 1, 0};
  auto const rule = [](float& parameter, float gradient, float& slot) noexcept {
    slot += gradient;
    parameter -= slot;
  };
  device::apply_elements(nullptr, 3, parameters, gradients, {}, rule, slots);
  CHECK(std::vector<float>(parameters, parameters + 3) == std::vector<float>{0, 0, 1});
  CHECK(std::vector<float>(slots, slots + 3) == std::vector<float>{1, 2, 2});
}

TEST_CASE("a row that no block's memory holds is not measured", "[cuda][update]") {
  std::int64_t const width = 13'000;
  std::vector<float> table(static_cast<std::size_t>(width)), gradients(table.size());
  float sum = 0;
  std::int32_t const index = 0;
  auto const update = [&] {
    device::apply_rows(nullptr, std::span<std::int32_t const>{&index, 1}, {}, parallax::RowsView<float>{table.data(), 1, width},
                       gradients.data(), {}, parallax::RowwiseAdagrad{}.at(1), device::Slots<>{},
                       device::Slots{parallax::RowsView<float>{&sum, 1, 1}});
  };
  CHECK_THROWS_WITH(update(), parallax_test::contains("at most 12288 fit a block's memory"));
}
