// Trainings on threads, compared with the oracle.
#pragma once

#include <vector>

#include "../catch.hpp"
#include "training.hpp"

namespace parallax_test {

// Whether the norm of the clipped gradients is exact, whatever the order of its sum.
inline bool exact_norm(Case const& c) {
  bool const power_of_two = (c.ranks & (c.ranks - 1)) == 0;
  return !c.clips || (c.integers && (c.reduce == px::Reduce::sum || (c.reduce == px::Reduce::mean && power_of_two)));
}

// Compares what ranks saw with the oracle in the documented order and with one process that sums one after another.
template <class M>
void check_equality(Case const& c, std::vector<Diary<typename M::T>> const& diaries) {
  using T = typename M::T;
  INFO(M::name() << ", " << c.text());
  auto const workload = workload_of<M>(c);
  oracle::Settings settings = oracle_of<M>(c);
  CHECK(rows_are_held(diaries, c.shape, M::Words::State::sharded));

  Deviation const documented = deviation(diaries, oracle::train(workload, settings, c.steps), c.shape);
  if (exact_norm(c)) CHECK(documented.first == "");
  else CHECK(documented.largest <= bound<T>(c.ranks, c.steps));

  settings.one_after_another = true;
  Deviation const one_process = deviation(diaries, oracle::train(workload, settings, c.steps), c.shape);
  if (c.integers && c.reduce == px::Reduce::sum) CHECK(one_process.first == "");
  else CHECK(one_process.largest <= bound<T>(c.ranks, c.steps));
}

// The trainings that every kind of variable must pass.
inline std::vector<Case> const& cases() {
  using enum px::Reduce;
  static std::vector<Case> const all = {
      {.ranks = 1, .reduce = mean, .seed = 1},
      {.ranks = 1, .reduce = mean_by_count, .clips = true, .seed = 2},
      {.ranks = 2, .reduce = mean, .clips = true, .seed = 3, .in_place = true},
      {.ranks = 2, .reduce = sum, .integers = true, .clips = true, .seed = 4, .overlap = false},
      {.ranks = 3, .reduce = mean, .seed = 5, .in_place = true},
      {.ranks = 3, .reduce = sum, .integers = true, .seed = 6, .pieces = 7},
      {.ranks = 3, .reduce = mean_by_count, .seed = 7, .lent = true},
      {.ranks = 4, .reduce = mean, .integers = true, .clips = true, .seed = 8, .fusion = {}},
      {.ranks = 4, .reduce = sum, .seed = 9, .overlap = false, .fusion = {}, .lent = true, .in_place = true},
      {.ranks = 8, .reduce = mean, .seed = 10, .fusion = {}, .in_place = true},
      {.ranks = 8, .reduce = sum, .integers = true, .clips = true, .seed = 11},
      {.ranks = 8, .reduce = mean_by_count, .seed = 12, .pieces = 5},
      {.ranks = 3, .hosts = {5, 5, 5}, .reduce = mean, .seed = 13},
      {.ranks = 3, .hosts = {2, 1, 0}, .reduce = mean_by_count, .seed = 14},
      {.ranks = 4, .hosts = {0, 0, 1, 1}, .reduce = mean, .seed = 15},
      {.ranks = 4, .hosts = {0, 1, 0, 1}, .reduce = mean_by_count, .seed = 16, .overlap = false, .in_place = true},
      {.ranks = 4, .hosts = {0, 0, 1, 1}, .reduce = sum, .integers = true, .clips = true, .seed = 17},
      {.ranks = 5, .hosts = {0, 0, 0, 1, 1}, .reduce = mean, .clips = true, .seed = 18},
      {.ranks = 5, .hosts = {0, 0, 0, 1, 1}, .reduce = sum, .integers = true, .seed = 19, .lent = true},
      {.ranks = 5, .hosts = {1, 0, 0, 0, 1}, .reduce = mean_by_count, .seed = 20},
      {.ranks = 8, .hosts = {0, 0, 0, 1, 1, 2, 2, 2}, .reduce = mean, .seed = 21},
      {.ranks = 8, .hosts = {0, 1, 0, 1, 0, 1, 0, 1}, .reduce = sum, .integers = true, .seed = 22},
  };
  return all;
}

}  // namespace parallax_test
