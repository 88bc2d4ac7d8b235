#include "mixed_models.hpp"

namespace parallax_test {

template Diary<MixedModel<0>::T> train<MixedModel<0>>(px::AnyCommunicator&, Case const&);
template Diary<MixedModel<1>::T> train<MixedModel<1>>(px::AnyCommunicator&, Case const&);
template Diary<MixedModel<2>::T> train<MixedModel<2>>(px::AnyCommunicator&, Case const&);
template Diary<MixedModel<3>::T> train<MixedModel<3>>(px::AnyCommunicator&, Case const&);

}  // namespace parallax_test
