// Instantiations of the kernels that place ids, group keys and read runs off them.
#include "parallax/detail/kernel/cuda/row_ops.cuh"
#include "parallax/detail/kernel/cuda/sort.cuh"
#include "parallax/detail/partition/block.hpp"
#include "parallax/detail/partition/cyclic.hpp"
#include "parallax/detail/partition/hash.hpp"

namespace pc = parallax::device;
using Ops = parallax::RowOps<parallax::CudaSpace>;

template <class Index>
void groups(cudaStream_t stream, Index const* keys, std::int64_t bound, pc::GroupingView<Index> const& out,
            std::uint32_t* numbers) {
  pc::group_keys(stream, keys, bound, out, nullptr);
  pc::run_lengths(stream, out, numbers);
  pc::sum_counts(stream, numbers, out, numbers);
  pc::bucket(stream, out.keys, out.count, keys, 3, numbers, out.distinct);
  Ops const ops{{stream}};
  ops.pad_groups(out, numbers, {4, 10, true}, bound, out, reinterpret_cast<pc::PaddingTally*>(numbers));
  ops.drop_padding(out, bound);
  ops.take_keys(keys, 5, numbers, static_cast<Index>(bound), out.keys);
  ops.cut_groups(out, keys, 1, 2, 3, bound, {numbers, 9}, numbers);
}
template void groups(cudaStream_t, std::int32_t const*, std::int64_t, pc::GroupingView<std::int32_t> const&, std::uint32_t*);
template void groups(cudaStream_t, std::int64_t const*, std::int64_t, pc::GroupingView<std::int64_t> const&, std::uint32_t*);

#define PLACE(P, Id, Index)                                                                                                  \
  template void pc::place_ids(cudaStream_t, Id const*, std::uint64_t, parallax::P::Layout const&, Index const*,              \
                              pc::StackView<Index> const&, bool, Index*);                                                    \
  template void Ops::rows_of_keys(Index const*, std::size_t, std::uint32_t const*, parallax::P::Layout const&, Index const*, \
                                  Index*) const;
template void Ops::take_offsets(std::int32_t const*, std::size_t, std::size_t, std::uint32_t*) const;
template void Ops::take_offsets(std::int64_t const*, std::size_t, std::size_t, std::uint32_t*) const;
PLACE(Cyclic, std::int64_t, std::int64_t)
PLACE(Hash, std::int64_t, std::int32_t)
PLACE(Block, std::int32_t, std::int64_t)
