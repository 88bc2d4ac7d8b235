// Every optimizer with exact semantics: rows that steps passed by have the bits of rows that were moved in every step, for
// thousands of steps, with settings that change and without, at rest or not, and with so little room for notes that rows are
// swept.
#include "../catch.hpp"
#include "../support/size.hpp"
#include "replays.hpp"

namespace px = parallax;

PARALLAX_FEW_NOTES(px::Momentum);
PARALLAX_FEW_NOTES(px::Nesterov);
PARALLAX_FEW_NOTES(px::RmsProp);
PARALLAX_FEW_NOTES(px::CenteredRmsProp);
PARALLAX_FEW_NOTES(px::Adadelta);
PARALLAX_FEW_NOTES(px::Adam);
PARALLAX_FEW_NOTES(px::AdamW);
PARALLAX_FEW_NOTES(px::ProximalSgd);
PARALLAX_FEW_NOTES(px::ProximalAdagrad);
PARALLAX_FEW_NOTES(px::AdagradDa);
PARALLAX_FEW_NOTES(px::WeightDecay<px::Adam>);

namespace {

template <class O, class T = float>
void check(O const& optimizer, bool rests) {
  int const steps = parallax_test::sized(1'000, 5'000, 20'000);
  for (bool const changing : {false, true}) {
    unsigned const seed = changing ? 11 : 12;
    CAPTURE(px::optimizer_name<O>(), changing, seed, steps);
    px::Replays replays;
    CHECK(parallax_test::replays::differences<O, T>(optimizer, steps, changing, seed, &replays) == 0);
    if (rests && steps >= 5'000) CHECK(replays.resting > 0);  // fewer steps are too few for some
    if (!rests && !changing) CHECK(replays.resting == 0);     // a rate that changes is 0 for a while
  }
}

}  // namespace

TEST_CASE("every exact optimizer has the bits of one that moves every row in every step", "[variable][settle]") {
  check(px::Momentum{}, true);
  check(px::Nesterov{.momentum = 0.99}, true);
  check(px::RmsProp{}, true);
  check(px::CenteredRmsProp{}, true);
  check(px::Adadelta{}, true);
  check(px::Adam{}, true);
  check(px::Adam{.learning_rate = 0.01, .beta1 = 0.99, .beta2 = 0.9}, true);
  check<px::Adam, double>({}, true);
  check(px::AdamW{}, false);
  check(px::AdamW{.weight_decay = 0}, true);
  check(px::ProximalSgd{.l1 = 0.01}, false);
  check(px::ProximalAdagrad{.l1 = 0.01}, false);
  check(px::AdagradDa{.l1 = 0.01}, false);
  check(px::WeightDecay<px::Adam>{.rate = 0.01}, false);
}

TEST_CASE("an optimizer whose settings let no row rest has the bits of one that moves every row", "[variable][settle]") {
  check(px::Adam{.epsilon = 0}, false);               // 0 / 0 where nothing has happened yet
  check(px::Adam{.learning_rate = -0.001}, false);    // climbs
  check(px::Momentum{.learning_rate = 1e20}, false);  // may move by what rounding leaves
  check(px::RmsProp{.learning_rate = 0.01, .epsilon = 0}, false);
}
