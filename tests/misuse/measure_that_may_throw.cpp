// expect: parallax: the optimizer's rule does not fit: measure(auto& p, auto g, auto&... slots) is not noexcept
#include <parallax/parallax.hpp>

namespace px = parallax;

struct Careless {
  using axis = px::optimizer_axis;
  using element_slots = px::slot_types<>;
  static constexpr px::Unit unit = px::Unit::row;
  struct Rule {
    px::Measures<1> measure(auto& /*p*/, auto g) const { return {static_cast<double>(g * g)}; }
    auto finish(px::Measures<1> const&, std::int64_t) const noexcept {
      return [](auto& p, auto g) noexcept { p -= g; };
    }
  };
  Rule at(std::int64_t) const { return {}; }
};
using Words = px::Variable<px::Sparse, Careless>;
Words* words;
