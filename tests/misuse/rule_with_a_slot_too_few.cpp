// expect: parallax: the optimizer's rule does not fit: it cannot be called as rule(auto& p, auto g, auto&... slots)
#include <parallax/parallax.hpp>

namespace px = parallax;

struct Forgetful {
  using axis = px::optimizer_axis;
  using element_slots = px::slot_types<px::scalar, px::scalar>;
  auto at(std::int64_t) const {
    return [](auto& p, auto g, auto& sum) noexcept { p -= sum += g; };
  }
};
using Words = px::Variable<px::Sparse, Forgetful>;
Words* words;
