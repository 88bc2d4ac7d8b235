// How a text is cut into parallel streams, and the streams into batches, the same for any number of ranks.
#pragma once

#include <cstddef>
#include <span>
#include <stdexcept>
#include <vector>

#include "text.hpp"

namespace lm {

// `steps` tokens of each of `streams` streams, time-major: element t * streams + b is stream b's at time t.
struct Batch {
  std::ptrdiff_t steps = 0;
  std::ptrdiff_t streams = 0;
  std::vector<Id> inputs;   // [steps * streams]
  std::vector<Id> targets;  // [steps * streams], the tokens that follow
};

// The part that one rank reads of a text that all ranks read together. Does not own the tokens.
//
// With N ranks of B streams there are N * B streams; stream b of rank r is number r * B + b of all, and starts that
// many N * B-ths into the text. So N ranks with B streams read what one rank with N * B streams reads. At the end of
// its part a stream reads on in the next one's, and after the end of the text at its beginning: no state needs to be
// reset.
class Streams {
 public:
  // Throws std::invalid_argument when the text is too short to give every stream a token and its successor.
  Streams(std::span<Token const> tokens, std::ptrdiff_t streams, std::ptrdiff_t rank = 0, std::ptrdiff_t ranks = 1)
      : tokens_{tokens}, all_{streams * ranks}, position_(static_cast<std::size_t>(streams)) {
    if (streams < 1 || length() < 1) throw std::invalid_argument{"the text is too short for that many streams"};
    for (std::size_t b = 0; b < position_.size(); ++b) {
      position_[b] = static_cast<std::size_t>((rank * streams + static_cast<std::ptrdiff_t>(b)) * length());
    }
  }

  // Steps of one pass: after so many, every target in tokens()[1, covered()) was read once, by one stream of one rank.
  std::ptrdiff_t length() const { return (static_cast<std::ptrdiff_t>(tokens_.size()) - 1) / all_; }

  std::size_t covered() const { return static_cast<std::size_t>(all_ * length() + 1); }

  std::span<Token const> tokens() const { return tokens_; }

  // Reads the next `steps` tokens of every stream.
  void next(std::ptrdiff_t steps, Batch& batch) {
    batch.steps = steps;
    batch.streams = static_cast<std::ptrdiff_t>(position_.size());
    batch.inputs.resize(static_cast<std::size_t>(steps * batch.streams));
    batch.targets.resize(batch.inputs.size());
    std::size_t at = 0;
    for (std::ptrdiff_t t = 0; t < steps; ++t) {
      for (std::size_t& position : position_) {
        batch.inputs[at] = tokens_[position];
        position = position + 1 < tokens_.size() ? position + 1 : 0;
        batch.targets[at++] = tokens_[position];
      }
    }
  }

 private:
  std::span<Token const> tokens_;
  std::ptrdiff_t all_;
  std::vector<std::size_t> position_;  // of each stream's next input
};

}  // namespace lm
