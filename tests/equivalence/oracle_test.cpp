// A model of each policy, its steps scripted at random, against the oracle.
#include "../support/size.hpp"
#include "equality.hpp"
#include "mixed_models.hpp"

using namespace parallax_test;

TEMPLATE_LIST_TEST_CASE("training on many ranks moves parameters as one process does", "[equivalence]", MixedModels) {
  for (Case training : cases()) {
    training.steps = sized(15, 50, 50);
    check_equality<TestType>(training, train_on_threads<TestType>(training));
  }
}
