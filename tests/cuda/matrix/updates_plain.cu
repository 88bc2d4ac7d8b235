// Instantiations of rules without a division or a square root, and of arithmetic on elements.
#include "parallax/detail/kernel/cuda/elements.cuh"
#include "parallax/detail/optimizer/momentum.hpp"
#include "parallax/detail/optimizer/weight_decay.hpp"
#include "parallax/optimizer/sgd.hpp"
#include "updates.hpp"

using namespace parallax;
UPDATE(Sgd, float, float, std::int32_t, Slots<>, Slots<>)
UPDATE(Sgd, double, double, std::int64_t, Slots<>, Slots<>)
UPDATE(Sgd, __nv_bfloat16, __nv_bfloat16, std::int32_t, Slots<>, Slots<>)
UPDATE(LazyMomentum, float, float, std::int32_t, Slots<float>, Slots<>)
UPDATE(LazyNesterov, float, float, std::int32_t, Slots<float>, Slots<>)
UPDATE(WeightDecay<Sgd>, float, float, std::int32_t, Slots<>, Slots<>)

template void pc::add_to(cudaStream_t, float*, float const*, std::uint64_t);
template void pc::add_to(cudaStream_t, double*, double const*, std::uint64_t);
template void pc::scale_down(cudaStream_t, float*, std::uint64_t, float);
template void pc::scale_down(cudaStream_t, __nv_bfloat16*, std::uint64_t, float);
template void pc::sum_of_squares(cudaStream_t, parallax::RowsView<float const>, double*);
template void pc::sum_of_squares(cudaStream_t, parallax::RowsView<double const>, double*);
