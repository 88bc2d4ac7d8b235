// What changes no bit of a result: the run, the timing, how dense gradients are fused, and what is started early.
#include "../catch.hpp"
#include "../support/size.hpp"
#include "mixed_models.hpp"

using namespace parallax_test;

namespace {

// Three ranks or more, so that a sum has an order.
std::vector<Case> trainings() {
  using enum px::Reduce;
  int const steps = sized(7, 20, 20);
  return {{.ranks = 3, .reduce = mean, .clips = true, .seed = 101, .steps = steps},
          {.ranks = 4, .hosts = {0, 0, 1, 1}, .reduce = mean_by_count, .clips = true, .seed = 102, .steps = steps},
          {.ranks = 5, .hosts = {0, 0, 0, 1, 1}, .reduce = sum, .clips = true, .seed = 103, .steps = steps}};
}

template <class M>
void check_same(Case const& one, std::vector<Case> const& others) {
  auto const expected = train_on_threads<M>(one);
  for (Case const& other : others) {
    INFO(M::name() << "\n" << one.text() << "\n" << other.text());
    auto const found = train_on_threads<M>(other);
    for (std::size_t rank = 0; rank < expected.size(); ++rank) {
      INFO("rank " << rank);
      CHECK(same_bits(expected[rank], found[rank]));
    }
  }
}

}  // namespace

TEMPLATE_LIST_TEST_CASE("run after run gives the same bits, however ranks are delayed", "[equivalence][bits]", MixedModels) {
  for (Case const& training : trainings()) {
    Case delayed = training;
    delayed.delays = 7;
    check_same<TestType>(training, {training, delayed});
  }
}

TEMPLATE_LIST_TEST_CASE("how dense gradients are fused and cut changes no bit", "[equivalence][bits]", MixedModels) {
  std::size_t const huge = std::size_t{1} << 40;
  for (Case const& training : trainings()) {
    std::vector<Case> others(4, training);
    others[0].fusion = {};
    others[1].fusion = {huge, huge, huge};
    others[2].fusion = {64, 100, 40};
    others[3].fusion = {0, 0, training.hosts.empty() ? std::size_t{0} : std::size_t{24}};  // 0: piece by piece of one element
    check_same<TestType>(training, others);
  }
}

TEMPLATE_LIST_TEST_CASE("what is started early, and how long it is in flight, changes no bit", "[equivalence][bits]",
                        MixedModels) {
  for (Case const& training : trainings()) {
    Case at_once = training;
    at_once.overlap = false;
    Case delayed = at_once;
    delayed.delays = 8;
    check_same<TestType>(training, {at_once, delayed});
  }
}
