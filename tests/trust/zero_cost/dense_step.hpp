// A dense variable trained by SGD, and two ways to write its step: with the library and by hand, over the same data.
#pragma once

#include <mpi.h>

#include <span>
#include <utility>
#include <vector>

#include "parallax/comm/mpi.hpp"
#include "parallax/parallax.hpp"

namespace px = parallax;

using Session = px::Session<px::MpiCommunicator>;
using Weights = px::Variable<px::Dense, px::Sgd>;
using Step = decltype(std::declval<Session&>().bind_step(
    px::grad(std::declval<Weights const&>(), std::declval<std::span<float const> const&>())));

struct ByHand {
  MPI_Comm comm;
  float const* gradient;
  px::Buffer<float> sums;
  Weights::State* weights;
  float ranks;
};

extern "C" {
void by_library(Step& step);
void by_hand(ByHand& hand);
}
