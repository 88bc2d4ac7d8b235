// Optimizers that lack something, in the type of a variable or in use.
#include "world.hpp"

std::vector<float> memory(4);

struct OnAxis {
  using axis = px::optimizer_axis;
  using element_slots = px::slot_types<>;
  double learning_rate = 0.1;
};

#if defined(adopt_that_may_throw)
// expect: parallax: an optimizer's adopt(p, slots...) is not noexcept
struct Forgetful : OnAxis {
  using element_slots = px::slot_types<px::scalar>;
  struct Rule {
    void operator()(auto& p, auto g, auto& sum) const noexcept { p = -(sum += g); }
    void adopt(auto p, auto& sum) const { sum = -p; }
  };
  Rule at(std::int64_t) const { return {}; }
};
px::Variable<px::Dense, Forgetful> layer{session, "layer", px::bind(memory)};
void train() { session.step(px::grad(layer, memory)); }
#elif defined(measure_that_may_throw)
// expect: parallax: the optimizer's rule does not fit: measure(auto& p, auto g, auto&... slots) is not noexcept
struct Careless : OnAxis {
  static constexpr px::Unit unit = px::Unit::row;
  struct Rule {
    px::Measures<1> measure(auto& /*p*/, auto g) const { return {static_cast<double>(g * g)}; }
    auto finish(px::Measures<1> const&, std::int64_t) const noexcept {
      return [](auto& p, auto g) noexcept { p -= g; };
    }
  };
  Rule at(std::int64_t) const { return {}; }
};
px::Variable<px::Sparse, Careless>* words;
#elif defined(option_of_no_axis)
// expect: parallax: an argument of Variable is no option: it looks like an optimizer, and lacks a public `using axis = parallax::optimizer_axis`
struct Mine : px::Sgd {
  struct axis {};
};
px::Variable<px::Dense, Mine> weights{session, "weights", px::bind(memory), Mine{}};
#elif defined(optimizer_without_a_rule)
// expect: parallax: the optimizer's rule does not fit: the optimizer lacks element_slots
struct Idle {
  using axis = px::optimizer_axis;
  double learning_rate = 0.1;
};
px::Variable<px::Sparse, Idle>* words;
#elif defined(optimizer_without_an_axis)
// expect: parallax: an argument of Variable is no option: it looks like an optimizer, and lacks a public `using axis = parallax::optimizer_axis`
struct Mine {
  double learning_rate = 0.1;
  auto at(std::int64_t) const {
    return [rate = learning_rate](auto& p, auto g) noexcept { p -= static_cast<decltype(g)>(rate) * g; };
  }
};
px::Variable<px::Dense, Mine> weights{session, "weights", px::bind(memory), Mine{.learning_rate = 0.5}, px::Reduce::sum};
px::Variable<px::Sparse, Mine> words{session, "words", {.rows = 4, .width = 2}, Mine{}};
void train(std::vector<int> const& ids, std::vector<float> const& gradient) {
  auto const rows = session.pull(words, ids);
  session.step(px::grad(weights, gradient), px::grad(rows, gradient));
}
#elif defined(rule_that_may_throw)
// expect: parallax: the optimizer's rule does not fit: rule(auto& p, auto g, auto&... slots) is not noexcept
struct Careless : OnAxis {
  auto at(std::int64_t) const {
    return [](auto& p, auto g) { p -= g; };
  }
};
px::Variable<px::Dense, Careless> weights{session, "weights", px::bind(memory), Careless{{.learning_rate = 0.2}}};
void train(std::vector<float> const& gradient) { session.step(px::grad(weights, gradient)); }
#elif defined(rule_with_a_slot_too_few)
// expect: parallax: the optimizer's rule does not fit: it cannot be called as rule(auto& p, auto g, auto&... slots)
struct Forgetful : OnAxis {
  using element_slots = px::slot_types<px::scalar, px::scalar>;
  auto at(std::int64_t) const {
    return [](auto& p, auto g, auto& sum) noexcept { p -= sum += g; };
  }
};
px::Variable<px::Sparse, Forgetful>* words;
#elif defined(slots_of_which_some_are_named)
// expect: parallax: an optimizer names each of its slots
struct Forgetful : OnAxis {
  using element_slots = px::slot_types<px::scalar, px::scalar>;
  static constexpr std::string_view slot_names[] = {"m"};
  auto at(std::int64_t) const {
    return [](auto& p, auto g, auto& m, auto& v) noexcept { p -= m += v += g; };
  }
};
std::string name() { return px::slot_name<Forgetful>(1); }
#elif defined(unit_without_a_measure)
// expect: parallax: the optimizer's rule does not fit: the optimizer has a unit, and its rule lacks measure(auto& p, auto g, auto&... slots)
struct Blind : OnAxis {
  static constexpr px::Unit unit = px::Unit::row;
  auto at(std::int64_t) const {
    return [](auto& p, auto g) noexcept { p -= g; };
  }
};
px::Variable<px::Sparse, Blind>* words;
#endif
