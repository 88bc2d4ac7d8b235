#include "language_model_in_double.hpp"

namespace lm {

template class Lstm<double>;
template class SampledSoftmax<double>;
template class FullSoftmax<double>;

}  // namespace lm
