// The language model of the examples: embedding, LSTM with projection, sampled softmax (Jozefowicz et al. 2016).
#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "lstm.hpp"
#include "matrix.hpp"
#include "random.hpp"
#include "sampler.hpp"
#include "shape.hpp"
#include "softmax.hpp"
#include "streams.hpp"

namespace lm {

// What is between the two tables, which live elsewhere: the model is given the rows that a batch uses, and returns
// gradients of them. A training step calls softmax_ids(), forward() and backward(), in this order.
//
// Rows come as those of the distinct ids, [u x width], and the row that each occurrence uses; gradients go by
// occurrence.
template <class Scalar>
class LanguageModel {
 public:
  explicit LanguageModel(ModelShape const& shape, std::uint64_t seed = 1)
      : shape_{shape}, lstm_{shape.lstm()}, softmax_{shape.projection}, sampler_{shape.vocabulary, shape.samples} {
    Random random{seed};
    lstm_.initialize(random);
  }

  ModelShape const& shape() const { return shape_; }
  Lstm<Scalar>& lstm() { return lstm_; }

  // The rows of the softmax table that a batch of T*B targets uses: the targets', then S samples'. [T*B + S]
  std::span<Id const> softmax_ids(Batch const& batch, std::uint64_t step_seed) {
    sampler_.draw(step_seed);
    softmax_ids_.assign(batch.targets.begin(), batch.targets.end());
    softmax_ids_.insert(softmax_ids_.end(), sampler_.ids().begin(), sampler_.ids().end());
    return softmax_ids_;
  }

  // The mean loss over the batch, from the state that the batch before has left. Words: rows of the embedding table [u
  // x E] and T*B indices; softmax: rows [u' x (P + 1)] and T*B + S indices, as softmax_ids() asked for. Gradients,
  // softmax_gradient() at once and those of backward(), are of gradient_scale * loss.
  double forward(Batch const& batch, std::span<Scalar const> word_rows, RowIndices word_indices,
                 std::span<Scalar const> softmax_rows, RowIndices softmax_indices, double gradient_scale = 1) {
    if (state_.cell.rows() != batch.streams) reset(batch.streams);
    auto const& outputs = run(batch, word_rows, word_indices, state_);
    return softmax_.loss(outputs, softmax_rows, softmax_indices, batch.targets, sampler_, gradient_scale);
  }

  // By the occurrences of softmax_ids(), [(T*B + S) x (P + 1)].
  std::span<Scalar const> softmax_gradient() const { return as_span(softmax_.rows_gradient()); }

  // By the words of the batch, [T*B x E], time-major; lstm().gradients() are filled. Calls `between_steps()` after each
  // of T steps.
  std::span<Scalar const> backward(std::function<void()> const& between_steps = [] {}) {
    return as_span(lstm_.backward(softmax_.outputs_gradient(), between_steps));
  }

  // The outputs [T*B x P] for a batch of held-out text; `state` is the evaluation's own. To be given to a FullSoftmax.
  Matrix<Scalar> const& run(Batch const& batch, std::span<Scalar const> word_rows, RowIndices word_indices,
                            LstmState<Scalar>& state) {
    words_.resize(batch.steps * batch.streams, shape_.embedding);
    gather(word_rows, word_indices, words_);
    return lstm_.forward(words_, state);
  }

  // What the model remembers of the batches before: to be saved, set again, or, for another text, reset.
  LstmState<Scalar> const& state() const { return state_; }
  void set_state(LstmState<Scalar> const& state) { state_ = state; }
  void reset(Index streams) { state_.reset(streams, shape_.lstm()); }

 private:
  ModelShape shape_;
  Lstm<Scalar> lstm_;
  SampledSoftmax<Scalar> softmax_;
  LogUniformSampler sampler_;
  LstmState<Scalar> state_;
  Matrix<Scalar> words_;         // [T*B x E]
  std::vector<Id> softmax_ids_;  // [T*B + S]
};

// Compiled in model.cpp, once for all trainings.
extern template class Lstm<float>;
extern template class SampledSoftmax<float>;
extern template class FullSoftmax<float>;

}  // namespace lm
