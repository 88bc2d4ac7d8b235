// The row operations on a CUDA device, beside RowOps<HostSpace> (detail/kernel/host.hpp), with its documentation and the same
// bits. A leaf for files compiled by nvcc. Everything works on the caller's device memory, in the order of a given stream;
// nothing allocates or waits, or goes to the default stream, and sums use no atomics. A failed launch throws Error (device).
//
//   group_keys            groups keys by value (unique_with_inverse)       gather_rows       table rows by index, packed
//   coalesce              sums the rows of every run                       scatter_rows      packed rows to table rows
//   run_lengths           positions per distinct key                       scatter_add_rows  adds packed rows to table rows
//   sum_counts            sums given counts per run                        apply_rows        an optimizer's rule, row by row
//   bucket                cuts sorted keys at boundaries                   apply_elements    such a rule, by elements
//   update_runs           coalesce and apply_rows in one: sums of gradients are not stored
//   sum_terms             sums of rows by reference: the pooling of bags
//   place_ids             keys of a table's rows by ids
//   copy_all              many tensors copied at once, into one buffer or out of it
//   measure_elements      an optimizer's measures of elements, by blocks; add_blocks adds them
//   add_to · scale_down · sum_of_squares                                   arithmetic on contiguous elements
//
// RowOps<CudaSpace>, for variables on a device, is made of them; it takes scratch from its queue's pool, and waits only to
// return a number to the host. PARALLAX_CUDA_INSTANTIATE makes it for files of other compilers.
//
// The number u of distinct keys stays on the device: operations on runs read it there, and those on rows take it as `count`.
#pragma once

#include "parallax/detail/kernel/cuda/instantiate.cuh"
#include "parallax/detail/kernel/cuda/row_ops.cuh"

// Defined by the CMake target parallax::compiled_cuda: operations without an optimizer are then in that library, and so is
// CUB's sort, the slowest to compile; users of `group_keys` itself include its header.
#if !defined(PARALLAX_COMPILED_CUDA) || defined(PARALLAX_COMPILING_KERNELS)
#include "parallax/detail/kernel/cuda/sort.cuh"
#else
#include "parallax/detail/compiled/kernels.hpp"
#endif
