// The parts of the model in the precision that it is trained in: Eigen, which takes long to compile, is compiled here,
// apart from the policies.
#include "model.hpp"

namespace lm {

template class Lstm<float>;
template class SampledSoftmax<float>;
template class FullSoftmax<float>;

}  // namespace lm
