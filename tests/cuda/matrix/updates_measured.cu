// Instantiations of rules that measure rows.
#include "parallax/detail/optimizer/lamb.hpp"
#include "parallax/detail/optimizer/rowwise_adagrad.hpp"
#include "parallax/detail/optimizer/weight_decay.hpp"
#include "updates.hpp"

using namespace parallax;
#define PAIR Slots<float, float>
UPDATE(RowwiseAdagrad, float, float, std::int32_t, Slots<>, Slots<float>)
UPDATE(RowwiseAdagrad, double, double, std::int64_t, Slots<>, Slots<double>)
UPDATE(RowwiseAdagrad, __nv_bfloat16, __nv_bfloat16, std::int32_t, Slots<>, Slots<float>)
UPDATE(LazyLamb, float, float, std::int32_t, PAIR, Slots<>)
UPDATE(WeightDecay<RowwiseAdagrad>, float, float, std::int32_t, Slots<>, Slots<float>)
SETTLE(Lamb, float, std::int64_t, PAIR, Slots<>)
