// The language model where every rank trains at its own pace: its variables in an AsyncSession, and what a worker does with them.
#pragma once

#include <cmath>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include <parallax/async/async_session.hpp>
#include <parallax/comm/any.hpp>
#include <parallax/parallax.hpp>

#include "evaluation.hpp"
#include "model.hpp"
#include "options.hpp"
#include "streams.hpp"

namespace lm {

// One rank's replica of the network and its part of the variables. Ranks that serve have a part alone. All functions are collective.
template <class Scalar>
class ApartTrainer {
  using Network = px::Variable<px::Dense, px::PsShard, px::Adagrad, Scalar>;
  using Rows = px::Variable<px::Sparse, px::Adagrad, Scalar>;

 public:
  ApartTrainer(px::AnyCommunicator& world, Options const& options, std::span<Token const> train)
      : options_{options},
        session_{make(world, options)},
        model_{options.shape, options.seed},
        kernel_{*session_, "kernel", px::bind(model_.lstm().parameters().kernel), adagrad(1.0)},
        bias_{*session_, "bias", px::bind(model_.lstm().parameters().bias), adagrad(1.0)},
        projection_{*session_, "projection", px::bind(model_.lstm().parameters().projection), adagrad(1.0)},
        embedding_{*session_, "embedding", table(options.shape.embedding, 0.3), adagrad(1e-4)},
        softmax_{*session_, "softmax", table(options.shape.softmax_width(), 0.0125), adagrad(1e-4)},
        text_{train} {}

  // Each worker trains on so many batches, and calls after_step(clock, loss per word) after each.
  void train(std::int64_t batches, std::function<void(std::int64_t, double)> const& after_step) {
    session_->train([&](auto& worker) {
      if (!streams_) streams_.emplace(text_, options_.streams, worker.rank(), worker.size());
      for (std::int64_t const until = worker.clock() + batches; worker.clock() < until;) {
        streams_->next(options_.steps, batch_);
        auto const seed = options_.seed * 1'000'003 + static_cast<std::uint64_t>(worker.clock());
        auto const softmax_ids = model_.softmax_ids(batch_, seed);
        auto const [words, classes] =
            worker.pull(embedding_.at(batch_.inputs), softmax_.at(softmax_ids), kernel_, bias_, projection_);
        double const loss = model_.forward(batch_, elements<Scalar>(words), words.inverse(), elements<Scalar>(classes),
                                           classes.inverse(), static_cast<double>(options_.steps));
        auto const word_gradient = model_.backward([&] { worker.poll(); });
        auto const gradients = model_.lstm().gradients();
        clip({gradients.kernel, gradients.bias, gradients.projection});
        worker.push(px::grad(kernel_, gradients.kernel), px::grad(bias_, gradients.bias),
                    px::grad(projection_, gradients.projection), px::grad(words, word_gradient),
                    px::grad(classes, model_.softmax_gradient()));
        after_step(worker.clock(), loss);
      }
    });
  }

  double perplexity(std::span<Token const> text) {
    double found = 0;
    session_->together([&](auto& all) { found = lm::perplexity(all, embedding_, softmax_, model_, options_, text); });
    return found;
  }

  px::AsyncSession<px::AnyCommunicator>& session() { return *session_; }

 private:
  static std::unique_ptr<px::AsyncSession<px::AnyCommunicator>> make(px::AnyCommunicator& world, Options const& options) {
    using Session = px::AsyncSession<px::AnyCommunicator>;
    px::AsyncOptions const how{.scale = options.by_staleness ? px::PushScale::by_staleness : px::PushScale::one};
    auto const by = [&](auto const& rule) {
      if (options.servers == 0) return std::make_unique<Session>(world, rule, how);
      return std::make_unique<Session>(world, rule, px::Servers{options.servers}, how);
    };
    if (options.backup > 0) return by(px::Backup{options.backup});
    if (options.staleness < 0) return by(px::Asp{});
    return by(px::Ssp{options.staleness});
  }
  // Of this rank's gradients alone: nobody knows the norm over all.
  void clip(std::initializer_list<std::span<Scalar>> gradients) const {
    double squares = 0;
    for (auto const& gradient : gradients)
      for (Scalar const value : gradient) squares += static_cast<double>(value) * static_cast<double>(value);
    if (double const norm = std::sqrt(squares); norm > options_.clip)
      for (auto const& gradient : gradients)
        for (Scalar& value : gradient) value *= static_cast<Scalar>(options_.clip / norm);
  }
  px::Adagrad adagrad(double initial_accumulator) const {
    return {.learning_rate = options_.learning_rate, .initial_accumulator = initial_accumulator};
  }
  px::Table table(Index width, double range) const {
    return {.rows = options_.shape.vocabulary, .width = width, .initial = px::uniform(-range, range, options_.seed)};
  }

  Options options_;
  std::unique_ptr<px::AsyncSession<px::AnyCommunicator>> session_;
  LanguageModel<Scalar> model_;
  Network kernel_, bias_, projection_;
  Rows embedding_, softmax_;
  std::span<Token const> text_;
  std::optional<Streams> streams_;
  Batch batch_;
};

}  // namespace lm
