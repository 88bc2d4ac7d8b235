// What of a training is saved: all that outlives a step.
#pragma once

#include <cstdint>
#include <vector>

#include <parallax/comm/any.hpp>
#include <parallax/parallax.hpp>

#include "streams.hpp"

namespace lm {

namespace px = parallax;

// The variables of the model. `Preset` says how updates travel: dense and sparse each by the policy that the preset names.
template <class Preset, class Scalar>
using NetworkOf = px::Variable<px::Dense, Preset, px::Adagrad, Scalar>;
template <class Preset, class Scalar>
using RowsOf = px::Variable<px::Sparse, Preset, px::Adagrad, Scalar>;

// What a training has done so far, without its evaluations and its checkpoints. Of one that goes on with as many ranks as before, all
// of it; with others, since then.
struct Record {
  std::int64_t batches = 0;
  double seconds = 0;
  double bytes_sent = 0;  // by this rank
  double loss = 0;        // of this rank per word, smoothed
};

// Owns nothing. The words that a step's samples are made from follow from the step's number, which the session keeps.
struct SavedParts {
  using Network = NetworkOf<px::presets::hybrid, float>;
  using Rows = RowsOf<px::presets::hybrid, float>;

  px::Session<px::AnyCommunicator>& session;
  Network &kernel, &bias, &projection;
  Rows &embedding, &softmax;
  Streams& streams;            // alike on all ranks, as far as it is saved
  std::vector<float>& memory;  // of this rank's streams: what the model carries from one batch to the next
  Record& record;              // this rank's
};

}  // namespace lm
