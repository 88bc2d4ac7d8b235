// Trainings of mixed models on two ranks that share a device, cut in two: see ../../session/whole_state.hpp.
#pragma once

#include <string>
#include <type_traits>
#include <vector>

#include "../../catch.hpp"
#include "../../session/whole_state.hpp"
#include "../two_ranks.hpp"

namespace emulated {

// By rank: what was wrong. Every other model with a search for pieces over the cut.
template <std::size_t... models>
std::vector<std::string> complaints() {
  using namespace parallax_test::whole_state;
  return on_two_ranks<std::string>([](auto& world, auto const& ops) {
    using C = std::remove_cvref_t<decltype(world)>;
    return (std::string{} + ... + complaint<Model<models, C, px::CudaSpace>>(world, ops, models % 2 == 1));
  });
}

}  // namespace emulated
