// Two functions whose machine code must be the same: same_code.sh looks at it.
#include "dense_step.hpp"

void by_library(Step& step) { step(); }

void by_hand(ByHand& hand) {
  MPI_Request request;
  MPI_Iallreduce(hand.gradient, hand.sums.data(), static_cast<int>(hand.sums.size()), MPI_FLOAT, MPI_SUM, hand.comm, &request);
  int done;
  do MPI_Test(&request, &done, MPI_STATUS_IGNORE);
  while (!done);

  double const rate = hand.weights->optimizer().learning_rate;
  float const ranks = hand.ranks;
  float const* const sums = hand.sums.data();
  float* const p = hand.weights->values().data();
  auto const n = static_cast<std::int64_t>(hand.sums.size());
  for (std::int64_t i = 0; i < n; ++i) {
    float const mean = sums[i] / ranks;
    p[i] -= static_cast<float>(rate) * mean;
  }
  hand.weights->end_update();
}
