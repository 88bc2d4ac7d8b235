// Contents of the library parallax::compiled for plans and row operations in host memory: of tables of float and double indexed
// by 64-bit numbers, as they are unless a variable says otherwise.
#pragma once

#include "parallax/detail/kernel/host.hpp"

#if !defined(PARALLAX_ROWS_ONCE)
#define PARALLAX_ROWS_ONCE extern template
#endif

namespace parallax::inline v0_2 {

PARALLAX_ROWS_ONCE void detail::group_keys(std::span<std::int64_t const>, std::int64_t, Grouping<std::int64_t>&,
                                           SortScratch<std::int64_t, HostSpace>&, std::span<std::size_t const>);
#define PARALLAX_ROWS_OF(T)                                                                                                 \
  PARALLAX_ROWS_ONCE void RowOps<HostSpace>::coalesce_lent(std::span<LentRows<T> const>, std::span<std::size_t const>,      \
                                                           Grouping<std::int64_t> const&, std::int64_t, T*);                \
  PARALLAX_ROWS_ONCE void RowOps<HostSpace>::gather_rows(RowsView<T const>, std::span<std::int64_t const>,                  \
                                                         Directory<std::int64_t>, T*);                                      \
  PARALLAX_ROWS_ONCE void RowOps<HostSpace>::gather_rows(RowsView<T const>, std::span<std::uint32_t const>,                 \
                                                         Directory<std::uint32_t>, T*);                                     \
  PARALLAX_ROWS_ONCE void RowOps<HostSpace>::coalesce(RowsView<T const>, Grouping<std::int64_t> const&, std::size_t,        \
                                                      std::size_t, T*);                                                     \
  PARALLAX_ROWS_ONCE void RowOps<HostSpace>::coalesce_terms(RowTerms<T> const&, Grouping<std::int64_t> const&, std::size_t, \
                                                            std::size_t, T*);
PARALLAX_ROWS_OF(float)
PARALLAX_ROWS_OF(double)
#undef PARALLAX_ROWS_OF

}  // namespace parallax
