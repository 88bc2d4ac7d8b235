// How well a model predicts held-out text that its ranks read together.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <span>
#include <vector>

#include <parallax/parallax.hpp>

#include "model.hpp"
#include "options.hpp"
#include "streams.hpp"

namespace lm {

namespace px = parallax;

// The elements of pulled rows, one behind the other.
template <class Scalar>
std::span<Scalar const> elements(auto const& pulled) {
  auto const rows = pulled.values();
  return {rows.data, static_cast<std::size_t>(rows.rows * rows.width)};
}

// exp of the mean loss per word of the whole softmax. Collective.
template <class Scalar, class Session, class Rows>
double perplexity(Session& session, Rows& embedding, Rows& softmax_table, LanguageModel<Scalar>& model, Options const& options,
                  std::span<Token const> text) {
  Streams streams{text, options.streams, session.rank(), session.size()};
  LstmState<Scalar> state;
  state.reset(options.streams, options.shape.lstm());
  FullSoftmax<Scalar> softmax;
  Batch batch;
  for (auto left = streams.length(); left > 0; left -= batch.steps) {
    streams.next(std::min<std::ptrdiff_t>(left, 4 * options.steps), batch);
    auto const words = session.pull(embedding, batch.inputs);
    softmax.add(model.run(batch, elements<Scalar>(words), words.inverse(), state), batch.targets);
  }
  constexpr Id block = 4096;
  std::vector<Id> ids;
  std::vector<Scalar> rows;
  for (Id first = 0; first < options.shape.vocabulary; first += block) {
    ids.resize(static_cast<std::size_t>(std::min(block, options.shape.vocabulary - first)));
    std::iota(ids.begin(), ids.end(), first);
    auto const classes = session.pull(softmax_table, ids);
    rows.clear();
    for (std::size_t i = 0; i < ids.size(); ++i) rows.insert(rows.end(), classes[i].begin(), classes[i].end());
    softmax.add_block(first, rows);
  }
  std::vector<double> sums{softmax.loss_sum(), static_cast<double>(softmax.size())};
  px::allreduce(session.topology().world(), std::span{sums});
  return std::exp(sums[0] / sums[1]);
}

}  // namespace lm
