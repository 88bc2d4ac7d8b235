// Sums of rows by reference, each with a factor: bags of rows are pooled so, and their gradients find back to the rows. A pull
// of bags calls them, and the push of such a pull's gradients.
#pragma once

#include <cstddef>
#include <cstdint>

#include "parallax/detail/core/algorithm.hpp"
#include "parallax/detail/kernel/host/loops.hpp"

PARALLAX_STRICT_ARITHMETIC_BEGIN

namespace parallax::inline v0_2 {

// Terms of sums; does not own. Term i is `factors[i] · rows[row_of[i]]`, or the row alone without factors.
template <class T>
struct RowTerms {
  // Rows of the terms: pulled rows, or the gradients of bags.
  RowsView<T const> rows;
  // By term, the number of its row in `rows`.
  std::uint32_t const* row_of = nullptr;
  // By term, the factor of its row; null for 1.
  T const* factors = nullptr;
};

namespace detail {

// Puts columns of term i into `out`, which begins with the first of them, or adds them there.
template <bool adds, class T>
inline void put_term(RowTerms<T> const& terms, std::size_t i, Columns columns, T* __restrict out) {
  PARALLAX_NO_CONTRACT
  T const* __restrict const row = terms.rows.row(terms.row_of[i]) + columns.begin;
  if (!terms.factors) {
    if constexpr (adds) add_elements(out, row, columns.count);
    else copy_elements(out, row, columns.count);
    return;
  }
  T const factor = terms.factors[i];
  for (std::int64_t c = 0; c < columns.count; ++c) {
    T const product = factor * row[c];
    if constexpr (adds) out[c] += product;
    else out[c] = product;
  }
}

}  // namespace detail

// Sets out = the sum of the terms with numbers at(begin), at(begin + 1), …, at(end - 1), without ever holding them all. The
// order is RowOps::coalesce's: chunks of 64 from the first, each started by a copy, chunk sums in order. No term: zeros.
template <class T, class At>
void sum_terms(RowTerms<T> const& terms, std::size_t begin, std::size_t end, At const& at, T* out) {
  constexpr std::int64_t tile = 256;
  alignas(detail::cache_line) T partial[tile];
  std::int64_t const width = terms.rows.width;
  if (begin == end) std::fill_n(out, width, T{});
  for (std::int64_t column = 0; column < width; column += tile) {
    detail::Columns const columns{column, std::min(tile, width - column)};
    for (std::size_t chunk = begin; chunk < end; chunk += sum_chunk) {
      T* const into = chunk == begin ? out + column : partial;
      detail::put_term<false>(terms, at(chunk), columns, into);
      for (std::size_t i = chunk + 1; i < std::min(end, chunk + sum_chunk); ++i) {
        if (i + detail::rows_ahead < end)
          detail::prefetch_row<detail::Access::read>(terms.rows.row(terms.row_of[at(i + detail::rows_ahead)]) + column,
                                                     columns.count);
        detail::put_term<true>(terms, at(i), columns, into);
      }
      if (chunk != begin) detail::add_elements(out + column, partial, columns.count);
    }
  }
}

}  // namespace parallax

PARALLAX_STRICT_ARITHMETIC_END
