// expect: parallax: the optimizer's rule does not fit
#include <parallax/parallax.hpp>

namespace px = parallax;

struct Careless {
  using axis = px::optimizer_axis;
  using element_slots = px::slots<>;
  auto at(std::int64_t) const {
    return [](auto& p, auto g) { p -= g; };
  }
};
using Words = px::Variable<px::Sparse, Careless>;
Words* words;
