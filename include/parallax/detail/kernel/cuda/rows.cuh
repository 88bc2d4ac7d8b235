// Rows of tables by index on a CUDA device: gathered, scattered, added. Pulls gather by it, through RowOps<CudaSpace>.
#pragma once

#include <cstdint>
#include <span>
#include <type_traits>

#include "parallax/detail/kernel/cuda/launch.cuh"
#include "parallax/detail/kernel/cuda/packs.cuh"
#include "parallax/detail/kernel/cuda/strict.cuh"
#include "parallax/detail/kernel/row_ops.hpp"

PARALLAX_STRICT_ARITHMETIC_BEGIN

namespace parallax::inline v0_2::device {
namespace detail {

inline constexpr int rows_at_once = 4;  // loads of as many rows are under way in a thread

// Grid: a team of `lanes` threads takes four rows at a time, all teams stride over the rows. A thread moves every lanes-th unit
// of its rows, at most 16 bytes each. Memory: each row is read once and written once, neighbouring threads at neighbouring
// places. A gathered row not below `end` is zeros.
template <bool gather, class Unit, class Index>
__global__ void __launch_bounds__(block_threads)
    move_rows_kernel(Unit* table, std::int64_t stride, std::int64_t width, Index const* indices, Directory<Index> directory,
                     std::int64_t end, Count count, Unit* rows, unsigned lanes) {
  Team const team{lanes};
  if (team.idle) return;
  std::uint64_t const n = count();
  for (std::uint64_t first = team.number; first < n; first += rows_at_once * team.count) {
    Unit* from[rows_at_once];
    Unit* to[rows_at_once];
    for (int u = 0; u < rows_at_once; ++u) {
      std::uint64_t const i = first + u * team.count;
      std::int64_t const row = i < n ? static_cast<std::int64_t>(directory(indices[i])) : end;
      Unit* const in_table = i < n && (!gather || row < end) ? table + row * stride : nullptr;
      Unit* const packed = i < n ? rows + i * width : nullptr;
      from[u] = gather || !in_table ? in_table : packed;
      to[u] = gather ? packed : in_table;
    }
    for (std::int64_t at = team.lane; at < width; at += lanes) {
      Unit held[rows_at_once];
      for (int u = 0; u < rows_at_once; ++u) held[u] = from[u] ? from[u][at] : Unit{};
      for (int u = 0; u < rows_at_once; ++u)
        if (to[u]) to[u][at] = held[u];
    }
  }
}

// Launches the move in units of `Unit`; returns false instead if not all rows are aligned whole units. Throws Error (device).
template <bool gather, class Unit, class T, class Index>
bool try_move_rows(cudaStream_t stream, RowsView<T> table, std::span<Index const> indices, Directory<Index> directory,
                   Count count, T* rows) {
  RowsView<T> const packed{rows, static_cast<std::int64_t>(indices.size()), table.width};
  if (!rows_aligned(table, sizeof(Unit)) || !rows_aligned(packed, sizeof(Unit))) return false;
  constexpr auto elements = static_cast<std::int64_t>(sizeof(Unit) / sizeof(T));
  launch_teams(stream, ceil_div(indices.size(), rows_at_once), table.width / elements, move_rows_kernel<gather, Unit, Index>,
               reinterpret_cast<Unit*>(table.data), table.stride / elements, table.width / elements, indices.data(), directory,
               table.rows, count, reinterpret_cast<Unit*>(rows));
  return true;
}

// Gathers rows of the table, or scatters them to it, in the widest units that fit all rows. Throws Error (device).
template <bool gather, class T, class Index>
void move_rows(cudaStream_t stream, RowsView<T> table, std::span<Index const> indices, Directory<Index> directory, Count count,
               T* rows) {
  if (indices.empty() || table.width == 0) return;
  if (try_move_rows<gather, Pack<std::uint32_t, 4>>(stream, table, indices, directory, count, rows)) return;
  if constexpr (sizeof(T) < 8)
    if (try_move_rows<gather, std::uint64_t>(stream, table, indices, directory, count, rows)) return;
  if constexpr (sizeof(T) < 4)
    if (try_move_rows<gather, std::uint32_t>(stream, table, indices, directory, count, rows)) return;
  using Element =
      std::conditional_t<sizeof(T) == 8, std::uint64_t, std::conditional_t<sizeof(T) == 4, std::uint32_t, std::uint16_t>>;
  static_assert(sizeof(T) == sizeof(Element), "parallax: elements of rows have 2, 4 or 8 bytes");
  static_cast<void>(try_move_rows<gather, Element>(stream, table, indices, directory, count, rows));
}

// Grid: a team of `lanes` threads takes a row at a time, in packs of N elements; all teams stride over the rows. Memory: both
// rows are read once, the table's is written once.
template <int N, class T, class Index>
__global__ void __launch_bounds__(block_threads)
    add_rows_kernel(RowsView<T> table, Index const* indices, Directory<Index> directory, Count count, T const* rows,
                    unsigned lanes) {
  Team const team{lanes};
  if (team.idle) return;
  std::uint64_t const n = count();
  for (std::uint64_t i = team.number; i < n; i += team.count) {
    T* const row = table.row(directory(indices[i]));
    T const* const addend = rows + i * table.width;
    for (std::int64_t at = std::int64_t{team.lane} * N; at < table.width; at += std::int64_t{lanes} * N) {
      Pack<T, N> sum = load<N>(row + at);
      add_pack(sum, load<N>(addend + at));
      store<N>(row + at, sum);
    }
  }
}

// Grid: a team of `lanes` threads takes four rows at a time, in packs of N elements; all teams stride over the rows. Memory:
// each row is read once and written once. A missing row is zeros.
template <int N, class W, class Index>
__global__ void __launch_bounds__(block_threads)
    widen_rows_kernel(RowsView<W const> table, Index const* indices, Directory<Index> directory, std::uint64_t n,
                      Computed<W>* rows, unsigned lanes) {
  Team const team{lanes};
  if (team.idle) return;
  for (std::uint64_t first = team.number; first < n; first += rows_at_once * team.count) {
    W const* in_table[rows_at_once];
    for (int u = 0; u < rows_at_once; ++u) {
      std::uint64_t const i = first + u * team.count;
      std::int64_t const row = i < n ? static_cast<std::int64_t>(directory(indices[i])) : table.rows;
      in_table[u] = row < table.rows ? table.row(row) : nullptr;
    }
    for (std::int64_t at = std::int64_t{team.lane} * N; at < table.width; at += std::int64_t{lanes} * N) {
      Pack<W, N> held[rows_at_once];
      for (int u = 0; u < rows_at_once; ++u)
        if (in_table[u]) held[u] = load<N>(in_table[u] + at);
      for (int u = 0; u < rows_at_once; ++u) {
        if (first + u * team.count >= n) continue;
        Pack<Computed<W>, N> wide{};
        for (int k = 0; k < N && in_table[u]; ++k) wide.at[k] = widened(held[u].at[k]);
        store<N>(rows + (first + u * team.count) * static_cast<std::uint64_t>(table.width) + at, wide);
      }
    }
  }
}

}  // namespace detail

// All of these: pointers are to memory of the device, `rows` and `out` are packed, `indices` are int32, int64 or uint32, table
// row = directory(index), widths may be odd, elements have 2, 4 or 8 bytes. With `count`, a number in device memory of at most
// indices.size(), only the first *count indices are used. Memory read never overlaps memory written. All throw Error (device).

// Sets row i of out = table row directory(indices[i]), zeros if it is not below table.rows; indices may repeat.
template <class T, class Index>
void gather_rows(cudaStream_t stream, RowsView<std::type_identity_t<T> const> table, std::span<Index const> indices,
                 Directory<std::type_identity_t<Index>> directory, T* out, std::uint32_t const* count = nullptr) {
  RowsView<T> const from{const_cast<T*>(table.data), table.rows, table.width, table.stride};  // is only read
  detail::move_rows<true>(stream, from, indices, directory, {indices.size(), count}, out);
}

// Sets table row directory(indices[i]) = row i of rows; the indices differ.
template <class T, class Index>
void scatter_rows(cudaStream_t stream, RowsView<T> table, std::span<Index const> indices,
                  Directory<std::type_identity_t<Index>> directory, std::type_identity_t<T> const* rows,
                  std::uint32_t const* count = nullptr) {
  auto* const from = const_cast<T*>(rows);  // is only read
  detail::move_rows<false>(stream, table, indices, directory, {indices.size(), count}, from);
}

// Adds row i of rows to table row directory(indices[i]); the indices differ. 16-bit elements are added in float, rounded once.
template <class T, class Index>
void scatter_add_rows(cudaStream_t stream, RowsView<T> table, std::span<Index const> indices,
                      Directory<std::type_identity_t<Index>> directory, std::type_identity_t<T> const* rows,
                      std::uint32_t const* count = nullptr) {
  if (indices.empty() || table.width == 0) return;
  detail::with_packs(
      [&]<int N>() {
        detail::launch_teams(stream, indices.size(), table.width / N, detail::add_rows_kernel<N, T, Index>, table,
                             indices.data(), directory, detail::Count{indices.size(), count}, rows);
      },
      table, RowsView<T const>{rows, static_cast<std::int64_t>(indices.size()), table.width});
}

}  // namespace parallax::device

PARALLAX_STRICT_ARITHMETIC_END
