// expect: parallax: the optimizer's rule does not fit: the optimizer has a unit, and its rule lacks measure(auto& p, auto g, auto&... slots)
#include <parallax/parallax.hpp>

namespace px = parallax;

struct Blind {
  using axis = px::optimizer_axis;
  using element_slots = px::slot_types<>;
  static constexpr px::Unit unit = px::Unit::row;
  auto at(std::int64_t) const {
    return [](auto& p, auto g) noexcept { p -= g; };
  }
};
using Words = px::Variable<px::Sparse, Blind>;
Words* words;
