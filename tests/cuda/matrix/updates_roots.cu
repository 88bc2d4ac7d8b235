// Instantiations of rules with divisions and square roots.
#include "parallax/detail/optimizer/adadelta.hpp"
#include "parallax/detail/optimizer/adagrad.hpp"
#include "parallax/detail/optimizer/adam.hpp"
#include "parallax/detail/optimizer/ftrl.hpp"
#include "parallax/detail/optimizer/proximal.hpp"
#include "parallax/detail/optimizer/rms_prop.hpp"
#include "updates.hpp"

using namespace parallax;
#define PAIR Slots<float, float>
#define PAIR_OF_DOUBLES Slots<double, double>
UPDATE(Adagrad, float, float, std::int32_t, Slots<float>, Slots<>)
UPDATE(Adagrad, __half, float, std::int32_t, Slots<float>, Slots<>)
UPDATE(Adagrad, float, BFloat16, std::int64_t, Slots<float>, Slots<>)
UPDATE(LazyAdam, float, Float16, std::int64_t, PAIR, Slots<>)
UPDATE(LazyRmsProp, float, float, std::int32_t, Slots<float>, Slots<>)
UPDATE(LazyCenteredRmsProp, float, float, std::int32_t, PAIR, Slots<>)
UPDATE(LazyAdadelta, float, float, std::int32_t, PAIR, Slots<>)
UPDATE(LazyProximalSgd, float, float, std::int32_t, Slots<>, Slots<>)
UPDATE(LazyProximalAdagrad, float, float, std::int32_t, Slots<float>, Slots<>)
UPDATE(LazyAdagradDa, float, float, std::int32_t, PAIR, Slots<>)
UPDATE(LazyAdam, float, float, std::int64_t, PAIR, Slots<>)
UPDATE(LazyAdam, double, double, std::int64_t, PAIR_OF_DOUBLES, Slots<>)
UPDATE(LazyAdamW, float, float, std::int32_t, PAIR, Slots<>)
UPDATE(Ftrl, float, float, std::int32_t, PAIR, Slots<>)
SETTLE(Adam, float, std::int64_t, PAIR, Slots<>)
SETTLE(Adam, double, std::int32_t, PAIR_OF_DOUBLES, Slots<>)
SETTLE(AdamW, BFloat16, std::int32_t, PAIR, Slots<>)
SETTLE(RmsProp, float, std::int32_t, Slots<float>, Slots<>)
SETTLE(Adadelta, float, std::uint32_t, PAIR, Slots<>)
