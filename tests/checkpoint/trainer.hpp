// A small training whose saves are killed, refused or cut off by a loss of power, and a number for all of its state.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallax/checkpoint/checkpoint.hpp"
#include "parallax/comm/thread.hpp"
#include "parallax/parallax.hpp"

namespace parallax_test {

namespace px = parallax;

template <class C = px::ThreadCommunicator>
struct Trainer {
  explicit Trainer(C& world) : session{world} {}

  void train_to(std::int64_t steps) {
    while (session.steps() < steps) {
      std::vector<std::int64_t> const ids{7 * session.rank() + session.steps(), 5, 199};
      session.step(px::grad(words, ids, std::vector<float>(12, 0.25f)), px::grad(bias, std::vector<float>(1100, 0.5f)));
      ++epoch;
    }
  }
  px::Saved save(std::string const& folder, int keep = 1) {
    return session.save(folder, {.keep = keep, .at_most = at_most}, words, bias, px::shared_value("epoch", epoch));
  }
  // Behind the steps, and its end.
  void save_behind(std::string const& folder) {
    session.save_async(folder, {.keep = 1}, words, bias, px::shared_value("epoch", epoch));
    session.finish();
  }
  px::Restored restore(std::string const& folder, std::int64_t generation = 0) {
    return session.restore(folder, {.generation = generation}, words, bias, px::shared_value("epoch", epoch));
  }
  // The sum over all ranks of a hash of each row, and of what all ranks have: a number for the whole state.
  std::uint64_t digest() {
    std::uint64_t sum = 0;
    auto const rows = words.local(), slots = words.slot("sum");
    for (std::int64_t i = 0; i < rows.rows; ++i) {
      std::uint64_t const odd = 2 * static_cast<std::uint64_t>(words.global_row(i)) + 1;
      sum += px::detail::checksum(rows.row(i), 16) * odd + px::detail::checksum(slots.row(i), 16) * 3 * odd;
    }
    if (session.rank() == 0)
      sum += px::detail::checksum(memory.data(), 4400) + static_cast<std::uint64_t>(1000 * epoch) +
             static_cast<std::uint64_t>(session.steps());
    return sum;
  }

  px::Session<C> session;
  std::vector<float> memory = std::vector<float>(1100, 1.0f);
  px::Variable<px::Sparse, px::Adagrad, px::Hash> words{session, "words", {200, 4, px::uniform(0, 1, 3)}};
  px::Variable<px::Dense, px::Momentum> bias{session, "bias", px::bind(memory)};
  int epoch = 0;
  double at_most = 600;  // seconds that a save may take
};

}  // namespace parallax_test
