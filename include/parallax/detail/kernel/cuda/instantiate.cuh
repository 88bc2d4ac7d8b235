// PARALLAX_CUDA_INSTANTIATE: all kernels' functions for variables on a CUDA device, for files not compiled by nvcc. A program
// includes it, through kernel/cuda.cuh, in one file that nvcc compiles.
#pragma once

#include <cstddef>
#include <cstdint>
#include <tuple>
#include <type_traits>
#include <utility>

#include "parallax/detail/core/view.hpp"
#include "parallax/detail/kernel/cuda/operands.hpp"
#include "parallax/detail/kernel/cuda/row_ops.cuh"
#include "parallax/detail/partition/block.hpp"
#include "parallax/detail/partition/cyclic.hpp"
#include "parallax/detail/partition/hash.hpp"
#include "parallax/optimizer/optimizer.hpp"

// In one file that nvcc compiles, outside of all namespaces: all kernels called by variables of a scalar type, with tables
// indexed by `Index`, under each of the optimizers. All other files of the program then need only kernel/cuda/row_ops.hpp and
// an ordinary compiler.
//   PARALLAX_CUDA_INSTANTIATE(float, std::int64_t, parallax::Sgd, parallax::Adagrad)
// std::int64_t is the index of variables that name none. Further scalars, indices and optimizers: further lines. They may
// overlap, but not be equal. Without one the linker misses functions of parallax::RowOps<parallax::CudaSpace>; their names have
// the scalar, the index or the optimizer's rule to be added.
#define PARALLAX_CUDA_INSTANTIATE(...) template struct ::parallax::device::Instantiated<__VA_ARGS__>;

namespace parallax::inline v0_2 {
namespace device {
namespace detail {

// Class of the functions in the lists below.
using Ops = RowOps<CudaSpace>;

// Returns the functions of all variables of a scalar.
template <class T>
constexpr auto functions_of_scalar() {
  return std::tuple{&Ops::fill<T>,
                    &Ops::copy_all<CopyList>,
                    &Ops::add_to<T>,
                    &Ops::put_bytes<ByteList>,
                    &Ops::scale_down<T>,
                    &Ops::scale_rows_down<T>,
                    &Ops::scale_counted_rows_down<T>,
                    &Ops::sum_terms<T>,
                    &Ops::first_non_finite<T>,
                    &Ops::sum_of_row_squares<T>};
}

// Returns the functions of tables: sums of gradients by key, and rows gathered and scattered.
template <class T, class Index>
constexpr auto functions_of_table() {
  return std::tuple{&Ops::coalesce<T, Index>,
                    &Ops::gather_rows<T, Index const>,
                    &Ops::gather_rows<T, std::uint32_t const>,
                    &Ops::scatter_rows<T, Index const>,
                    &Ops::group_keys<Index>,
                    &Ops::cut_groups<Index>,
                    &Ops::pad_groups<Index>,
                    &Ops::take_keys<Index>,
                    &Ops::drop_padding<Index>,
                    &Ops::run_lengths<Index>,
                    &Ops::sum_counts<Index>,
                    &Ops::fill<std::uint32_t>,
                    &Ops::place_in_bags<T, Index>};
}
// Returns the functions of ids on a device, of 32 or 64 bits with a sign.
template <class Index, class Layout>
constexpr auto functions_of_ids() {
  return std::tuple{&Ops::place_ids<std::int32_t, Layout, Index>, &Ops::place_ids<std::int64_t, Layout, Index>,
                    &Ops::take_offsets<std::int32_t>, &Ops::take_offsets<std::int64_t>, &Ops::rows_of_keys<Layout, Index>};
}

// Returns the functions that set an optimizer's slots to their first values.
template <class T, class... S>
constexpr auto filling(slot_types<S...>) {
  return std::tuple{&Ops::fill<parallax::detail::slot_type<S, T>>...};
}
// Returns apply_elements for a rule, its slots and a kind of scale.
template <class T, class Scale, class Rule, class... S>
constexpr auto updating_elements(slot_types<S...>) {
  return &Ops::apply_elements<T, Scale, Rule, parallax::detail::slot_type<S, computed_type<T>>...>;
}

// Returns the functions of a rule that measures a whole tensor: its sums, the rule made of them, and this rule applied.
template <class T, std::size_t sums, class Rule, class... S>
constexpr auto measuring(slot_types<S...>) {
  using Finished = Ops::Finished<sums, Rule>;
  return std::tuple{&Ops::measure_elements<T, Rule, parallax::detail::slot_type<S, T>...>, &Ops::finish_rule<sums, Rule>,
                    updating_elements<T, T, DeviceBuffer<Finished>>(slot_types<S...>{})};
}

// Returns an optimizer's functions: for its slots, for dense variables if it works on elements or the tensor, and for rows.
template <class T, class O>
constexpr auto functions_of_elements() {
  using Rule = PlacedRule<decltype(std::declval<O const&>().at(std::int64_t{1}))>;
  using ElementSlots = typename O::element_slots;
  if constexpr (unit<O> == Unit::element)
    return std::tuple{updating_elements<T, T, Rule>(ElementSlots{}), updating_elements<T, Averaged<T>, Rule>(ElementSlots{})};
  else if constexpr (unit<O> == Unit::tensor) return measuring<T, measure_count<O, T>, Rule>(ElementSlots{});
  else return std::tuple{};
}
// Returns slots of these types as operations on rows take them; named by its type alone.
template <class C, class... S>
Slots<parallax::detail::slot_type<S, C>...> tables_of(slot_types<S...>);
// Returns the functions for sparse variables, for any unit of the optimizer: rows that a step names are moved, others settled
// if the optimizer moves them, and parameters adopted if its rule does.
template <class T, class Index, class O>
constexpr auto functions_of_rows() {
  using Bare = decltype(std::declval<O const&>().at(std::int64_t{1}));
  using Rule = PlacedRule<Bare>;
  using E = decltype(tables_of<computed_type<T>>(typename O::element_slots{}));
  using R = decltype(tables_of<computed_type<T>>(row_slots<O>{}));
  std::tuple const updating{&Ops::apply_rows<T, Index const, Rule, E, R>, &Ops::apply_runs<T, Index, Rule, E, R>,
                            &Ops::apply_spaced_rows<T, Rule, E, R>};
  auto const settling = [] {
    if constexpr (untouched<O> == Untouched::moves)
      return std::tuple{&Ops::settle_rows<T, Index const, Bare, E, R>, &Ops::settle_all_rows<T, Bare, E, R>,
                        &Ops::fill<std::int64_t>};
    else return std::tuple{};
  }();
  auto const adopting = [] {  // parameters, of 16 bits too
    if constexpr (adopts<O, computed_type<T>>)
      return std::tuple{updating_elements<T, Unscaled, PlacedRule<AdoptingRule<Bare>>>(typename O::element_slots{})};
    else return std::tuple{};
  }();
  return std::tuple_cat(updating, settling, adopting);
}
// Returns all functions of an optimizer.
template <class T, class Index, class O>
constexpr auto functions_of_optimizer() {
  using C = computed_type<T>;
  auto const filled = std::tuple_cat(filling<C>(typename O::element_slots{}), filling<C>(row_slots<O>{}));
  if constexpr (is_short_float<T>) return std::tuple_cat(filled, functions_of_rows<T, Index, O>());
  else return std::tuple_cat(filled, functions_of_elements<T, O>(), functions_of_rows<T, Index, O>());
}
// Returns the further functions of tables of 16 bits: rows widened, or sent as they are.
template <class T, class Index>
constexpr auto functions_of_short_table() {
  if constexpr (is_short_float<T>)
    return std::tuple{&Ops::widen_rows<T, Index const>, &Ops::gather_rows<T, Index const>, &Ops::widen_elements<T>,
                      &Ops::narrow_elements<T>};
  else return std::tuple{};
}

// Returns the functions measured by `calibrate`, for tables under Auto.
constexpr auto functions_of_calibration() {
  return std::tuple{&Ops::fill<float>, &Ops::add_to<float>, &Ops::gather_rows<float, std::int64_t const>};
}

// True for a type of the elements of variables, and for one that numbers rows.
template <class T>
inline constexpr bool is_scalar = std::is_same_v<T, float> || std::is_same_v<T, double> || is_short_float<T>;
template <class Index>
inline constexpr bool is_index = std::is_same_v<Index, std::int32_t> || std::is_same_v<Index, std::int64_t>;
// True if the macro takes these arguments.
template <class T, class Index, class... O>
inline constexpr bool instantiable = is_scalar<T> && is_index<Index> && (true && ... && Optimizer<O>);
// Returns all functions of one line of the macro; none for wrong arguments: one sentence says so.
template <class T, class Index, class... O>
constexpr auto functions_of_variables() {
  if constexpr (instantiable<T, Index, O...>)
    return std::tuple_cat(functions_of_scalar<computed_type<T>>(), functions_of_table<computed_type<T>, Index>(),
                          functions_of_short_table<T, Index>(), functions_of_calibration(),
                          functions_of_ids<Index, Cyclic::Layout>(), functions_of_ids<Index, Hash::Layout>(),
                          functions_of_ids<Index, Block::Layout>(), functions_of_optimizer<T, Index, O>()...);
  else return std::tuple{};
}

}  // namespace detail

// Instances of one line: see PARALLAX_CUDA_INSTANTIATE. An instantiation holds the address of every function, so the compiler
// keeps them all.
template <class T, class Index, class... O>
struct Instantiated {
  static_assert(
      detail::instantiable<T, Index, O...>,
      "parallax: PARALLAX_CUDA_INSTANTIATE is given a scalar (float, double; of tables BFloat16, Float16), the index of "
      "tables (std::int32_t, std::int64_t) and optimizers");
  // Addresses of all functions, read by nobody.
  static constexpr auto functions = detail::functions_of_variables<T, Index, O...>();
};

}  // namespace device
}  // namespace parallax
