// A test of the test: mistakes planted into the oracle must be found, each by the check that should find it.
#include "equality.hpp"
#include "mixed_models.hpp"

using namespace parallax_test;

namespace {

// A workload whose rank 1 loses one row: the last of its first batch that has any, from step 20 on.
template <class T>
struct LosesARow : Workload<T> {
  Gradients<T> gradients(int step, int rank) const {
    auto all = Workload<T>::gradients(step, rank);
    if (rank != 1 || step != lossy_step()) return all;
    auto& [ids, rows, by_row] = all.batches[0];
    if (by_row) std::erase(ids, ascending_distinct(ids).back());
    else ids.pop_back();
    rows.resize(rows.size() - static_cast<std::size_t>(this->shape.width));
    return all;
  }
  int lossy_step() const {
    int step = 20;
    while (!has_rows(this->script(step), step)) ++step;
    return step;
  }

 private:
  bool has_rows(Script const& script, int step) const {
    return !script.batches.empty() && pushes(script.batches[0]) && !Workload<T>::gradients(step, 1).batches[0].ids.empty();
  }
};

Case const training = {.ranks = 4, .hosts = {0, 0, 1, 1}, .reduce = px::Reduce::mean, .seed = 201};

template <class M>
Deviation against(oracle::Settings const& settings) {
  return deviation(train_on_threads<M>(training), oracle::train(workload_of<M>(training), settings, training.steps),
                   training.shape);
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("without a planted mistake nothing is found", "[equivalence][planted]", MixedModels) {
  INFO(TestType::name() << ", seed " << training.seed);
  CHECK(against<TestType>(oracle_of<TestType>(training)).first == "");
}

TEMPLATE_LIST_TEST_CASE("a dropped row breaks the bound", "[equivalence][planted]", MixedModels) {
  using T = typename TestType::T;
  INFO(TestType::name() << ", seed " << training.seed);
  LosesARow<T> const lossy{workload_of<TestType>(training)};
  auto const snapshots = oracle::train(lossy, oracle_of<TestType>(training), training.steps);
  Deviation const found = deviation(train_on_threads<TestType>(training), snapshots, training.shape);
  REQUIRE(lossy.lossy_step() < training.steps);
  CHECK(found.largest > bound<T>(training.ranks, training.steps));
}

// Adam and Adagrad do not depend on the scale of all gradients, but for their epsilon: there only the bits tell.
TEMPLATE_LIST_TEST_CASE("a divisor of one rank too few breaks the bound", "[equivalence][planted]", MixedModels) {
  INFO(TestType::name() << ", seed " << training.seed);
  auto settings = oracle_of<TestType>(training);
  settings.divisor = training.ranks - 1;
  Deviation const found = against<TestType>(settings);
  CHECK(found.first != "");
  bool const scaled = std::is_same_v<typename TestType::Optimizer, Tempered>;
  if (scaled) CHECK(found.largest > bound<typename TestType::T>(training.ranks, training.steps));
}

TEMPLATE_LIST_TEST_CASE("another order of sums changes bits and stays within the bound", "[equivalence][planted]",
                        MixedModels) {
  INFO(TestType::name() << ", seed " << training.seed);
  for (auto const& hosts : {std::vector<int>{}, std::vector<int>{0, 1, 0, 1}}) {
    auto settings = oracle_of<TestType>(training);
    settings.hosts = hosts;
    Deviation const found = against<TestType>(settings);
    CHECK(found.first != "");
    CHECK(found.largest <= bound<typename TestType::T>(training.ranks, training.steps));
  }
}

TEST_CASE("rows that a lazy optimizer should have left alone are found", "[equivalence][planted]") {
  using M = MixedModel<2>;
  static_assert(std::is_same_v<M::Optimizer, px::LazyAdam>);
  auto settings = oracle_of<M>(training);
  settings.formula.rule = oracle::Rule::adam;
  CHECK(against<M>(settings).largest > bound<float>(training.ranks, training.steps));
}
