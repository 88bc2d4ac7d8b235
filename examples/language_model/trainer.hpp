// The distributed part of the language model: its variables, a training step, and its perplexity on held-out text.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include <parallax/comm/any.hpp>
#include <parallax/parallax.hpp>

#include "evaluation.hpp"
#include "model.hpp"
#include "options.hpp"
#include "saved_parts.hpp"
#include "streams.hpp"

namespace lm {

// One rank's replica of the network and its part of the two tables. `Preset` says how updates travel: dense and sparse
// each by the policy that the preset names. All functions are collective.
template <class Preset, class Scalar>
class Trainer {
  using Network = NetworkOf<Preset, Scalar>;
  using Rows = RowsOf<Preset, Scalar>;

 public:
  Trainer(px::AnyCommunicator& world, Options const& options, std::span<Token const> train)
      : options_{options},
        session_{world},
        model_{options.shape, options.seed},
        kernel_{session_, "kernel", px::bind(model_.lstm().parameters().kernel), adagrad(1.0)},
        bias_{session_, "bias", px::bind(model_.lstm().parameters().bias), adagrad(1.0)},
        projection_{session_, "projection", px::bind(model_.lstm().parameters().projection), adagrad(1.0)},
        embedding_{session_, "embedding", table(options.shape.embedding, 0.3), adagrad(1e-4)},
        softmax_{session_, "softmax", table(options.shape.softmax_width(), 0.0125), adagrad(1e-4)},
        streams_{train, options.streams, world.rank(), world.size()} {
    session_.broadcast(kernel_, bias_, projection_);
  }

  // Trains on the next batch of every rank; this rank's loss per word.
  double step() {
    streams_.next(options_.steps, batch_);
    auto const seed = options_.seed * 1'000'003 + static_cast<std::uint64_t>(session_.steps());
    auto const softmax_ids = model_.softmax_ids(batch_, seed);  // the same samples on all ranks
    auto const [words, classes] = session_.pull(embedding_.at(batch_.inputs), softmax_.at(softmax_ids));
    double const loss = model_.forward(batch_, elements<Scalar>(words), words.inverse(), elements<Scalar>(classes),
                                       classes.inverse(), static_cast<double>(options_.steps));

    session_.start(px::grad(classes, model_.softmax_gradient()));
    auto const word_gradient = model_.backward([&] { session_.poll(); });
    auto const gradients = model_.lstm().gradients();
    session_.step(px::clip_by_global_norm(options_.clip, px::grad(kernel_, gradients.kernel), px::grad(bias_, gradients.bias),
                                          px::grad(projection_, gradients.projection)),
                  px::grad(words, word_gradient));
    return loss;
  }

  // Over held-out text that ranks read together.
  double perplexity(std::span<Token const> text) {
    return lm::perplexity(session_, embedding_, softmax_, model_, options_, text);
  }

  // All that outlives a step, of a trainer under the policy `hybrid`. `memory` and `record` are the caller's.
  SavedParts parts(std::vector<Scalar>& memory, Record& record) {
    return {session_, kernel_, bias_, projection_, embedding_, softmax_, streams_, memory, record};
  }
  // What the model carries from one batch to the next, for this rank's streams: to be saved after a step.
  void recall(std::vector<Scalar>& memory) const {
    auto const& [cell, output] = model_.state();
    memory.assign(cell.data(), cell.data() + cell.size());
    memory.insert(memory.end(), output.data(), output.data() + output.size());
  }
  // Sets it. What is of other streams is forgotten.
  void remember(std::vector<Scalar> const& memory) {
    LstmState<Scalar> state;
    state.reset(options_.streams, options_.shape.lstm());
    auto const cells = static_cast<std::size_t>(state.cell.size());
    if (memory.size() == cells + static_cast<std::size_t>(state.output.size())) {
      std::copy_n(memory.data(), cells, state.cell.data());
      std::copy(memory.data() + cells, memory.data() + memory.size(), state.output.data());
    }
    model_.set_state(state);
  }

  px::Session<px::AnyCommunicator>& session() { return session_; }

 private:
  // Rows that are seldom touched learn fast from their first gradient on; the network's weights learn from all of them.
  px::Adagrad adagrad(double initial_accumulator) const {
    return {.learning_rate = options_.learning_rate, .initial_accumulator = initial_accumulator};
  }
  px::Table table(Index width, double range) const {
    return {.rows = options_.shape.vocabulary, .width = width, .initial = px::uniform(-range, range, options_.seed)};
  }

  Options options_;
  px::Session<px::AnyCommunicator> session_;
  LanguageModel<Scalar> model_;
  Network kernel_, bias_, projection_;
  Rows embedding_, softmax_;
  Streams streams_;
  Batch batch_;
};

}  // namespace lm
