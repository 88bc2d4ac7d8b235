// expect: parallax: an optimizer names each of its slots
#include <parallax/parallax.hpp>

namespace px = parallax;

struct Forgetful {
  using axis = px::optimizer_axis;
  using element_slots = px::slot_types<px::scalar, px::scalar>;
  static constexpr std::string_view slot_names[] = {"m"};
  auto at(std::int64_t) const {
    return [](auto& p, auto g, auto& m, auto& v) noexcept { p -= m += v += g; };
  }
};
std::string name() { return px::slot_name<Forgetful>(1); }
