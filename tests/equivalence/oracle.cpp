// The oracle, compiled once and optimized.
#include "diary.hpp"

namespace parallax_test {

template struct Workload<float>;
template struct Workload<double>;
template class oracle::Training<float>;
template class oracle::Training<double>;
template Deviation deviation(std::vector<Diary<float>> const&, std::vector<oracle::Snapshot<float>> const&, Shape const&);
template Deviation deviation(std::vector<Diary<double>> const&, std::vector<oracle::Snapshot<double>> const&, Shape const&);

}  // namespace parallax_test
