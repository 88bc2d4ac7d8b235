// What the tests of faults train: a dense variable of each policy and two tables, on thread ranks that may be hostile.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "../comm/hostile.hpp"
#include "../session/model.hpp"
#include "table.hpp"

namespace parallax_test {

// Steps are by plain SGD of exact numbers where a test looks at values; `words` and `other` have state.
template <px::Communicator C>
struct Desk {
  explicit Desk(C& world) : session{world} {}
  explicit Desk(px::Topology<C> topology) : session{std::move(topology)} {}

  static constexpr std::int64_t rows = 11, width = 2;

  px::Session<C> session;
  std::vector<float> layer_memory = std::vector<float>(24, 2.0f), other_memory = std::vector<float>(17, 1.0f);
  px::Variable<px::Dense> layer{session, "layer", px::bind(layer_memory), px::Sgd{.learning_rate = 0.25}};
  px::Variable<px::Dense, px::PsShard, px::Adagrad> other{session, "other", px::bind(other_memory)};
  px::Variable<px::Sparse, px::Adam> words{session, "words", {rows, width, px::uniform(-1, 1, 3)}};
  px::Variable<px::Sparse, px::AllGather> copy{session, "copy", {rows, width, px::constant(0.5)}};

  std::vector<float> layer_gradient = std::vector<float>(24, 1.0f), other_gradient = std::vector<float>(17, 0.5f);
  std::vector<int> ids{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 3};  // every rank needs rows of every other, of up to 8
  std::vector<float> row_gradients = std::vector<float>(24, 0.25f);

  auto layer_update() const { return px::grad(layer, layer_gradient); }
  auto other_update() const { return px::grad(other, other_gradient); }
  auto words_update() const { return px::grad(words, ids, row_gradients); }
  auto copy_update() const { return px::grad(copy, ids, row_gradients); }
  void step() { session.step(layer_update(), words_update()); }

  // Every bit of this rank's parameters and optimizer state, and the numbers of steps.
  std::uint64_t hash() {
    px::Fingerprint all;
    auto const bits = [&](auto values) {
      auto const bytes = std::as_bytes(std::span{values});
      all.add(std::string_view{reinterpret_cast<char const*>(bytes.data()), bytes.size()});
    };
    auto const table = [&](auto& variable) {
      auto const local = variable.local();
      bits(std::span{local.data, static_cast<std::size_t>(local.rows * local.width)});
    };
    bits(std::span{layer_memory});
    bits(std::span{other_memory});
    bits(std::span{layer_gradient});
    bits(std::span{row_gradients});
    table(words), table(copy);
    bits(other.state().optimizer_state().template span<0>());
    bits(words.state().optimizer_state().template span<0>());
    bits(words.state().optimizer_state().template span<1>());
    for (std::int64_t const steps : {layer.steps(), other.steps(), words.steps(), copy.steps(), session.steps()})
      all.add(static_cast<std::uint64_t>(steps));
    return all.value();
  }
};


}  // namespace parallax_test
