// Instantiations of rules without a division or a square root.
#include "parallax/optimizer/momentum.hpp"
#include "parallax/optimizer/sgd.hpp"
#include "parallax/optimizer/weight_decay.hpp"
#include "updates.hpp"

using namespace parallax;
UPDATE(Sgd, float, float, std::int32_t, Slots<>, Slots<>)
UPDATE(Sgd, double, double, std::int64_t, Slots<>, Slots<>)
UPDATE(Sgd, __nv_bfloat16, __nv_bfloat16, std::int32_t, Slots<>, Slots<>)
UPDATE(LazyMomentum, float, float, std::int32_t, Slots<float>, Slots<>)
UPDATE(LazyNesterov, float, float, std::int32_t, Slots<float>, Slots<>)
UPDATE(WeightDecay<Sgd>, float, float, std::int32_t, Slots<>, Slots<>)
