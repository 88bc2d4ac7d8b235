// The parts of the language model in double precision, which finite differences need: compiled once for all tests.
#pragma once

#include "language_model/model.hpp"

namespace lm {

extern template class Lstm<double>;
extern template class SampledSoftmax<double>;
extern template class FullSoftmax<double>;

}  // namespace lm
