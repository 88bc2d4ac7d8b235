// The trainings of MixedModels, compiled once for all tests of them.
#pragma once

#include "training.hpp"

namespace parallax_test {

template <std::size_t number>
using MixedModel = std::tuple_element_t<number, MixedModels>;

extern template Diary<MixedModel<0>::T> train<MixedModel<0>>(px::AnyCommunicator&, Case const&);
extern template Diary<MixedModel<1>::T> train<MixedModel<1>>(px::AnyCommunicator&, Case const&);
extern template Diary<MixedModel<2>::T> train<MixedModel<2>>(px::AnyCommunicator&, Case const&);
extern template Diary<MixedModel<3>::T> train<MixedModel<3>>(px::AnyCommunicator&, Case const&);
static_assert(std::tuple_size_v<MixedModels> == 4);

}  // namespace parallax_test
