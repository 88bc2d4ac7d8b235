// How a text is cut into parallel streams, and the streams into batches, the same for any number of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <stdexcept>
#include <vector>

#include <parallax/core/fields.hpp>
#include <parallax/data/split.hpp>

#include "text.hpp"

namespace lm {

namespace px = parallax;

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
      : tokens_{tokens}, all_{streams * ranks}, first_{rank * streams}, position_(static_cast<std::size_t>(streams)) {
    if (streams < 1 || length() < 1) throw std::invalid_argument{"the text is too short for that many streams"};
    go_to({});
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
    read_ += steps;
  }

  // How far all ranks together have read: passes, and tokens of the next one.
  px::DataPosition position() const { return {read_ / length(), read_ % length() * all_}; }

  // Reads on from there. Where there are as many streams in all as before, on however many ranks, each of them reads what it would have
  // read. Where there are not, the text is cut otherwise: each stream then goes on as far into its part as all were before, so that in
  // this pass some words come twice, and others not.
  void go_to(px::DataPosition const& position) {
    read_ = static_cast<std::ptrdiff_t>(position.epoch) * length() + static_cast<std::ptrdiff_t>(position.taken) / all_;
    for (std::size_t b = 0; b < position_.size(); ++b) {
      auto const begin = (first_ + static_cast<std::ptrdiff_t>(b)) * length();
      position_[b] = static_cast<std::size_t>(begin + read_) % tokens_.size();
    }
  }

  // What a checkpoint keeps, on all ranks alike: the position, and of which text it is.
  template <class Items>
  void visit(Items& items) {
    std::uint64_t const here = fingerprint();
    std::uint64_t text = here;
    items.number("fingerprint", text);
    if (text != here) throw std::invalid_argument{"the checkpoint is of another text, or of another vocabulary"};
    px::DataPosition position = this->position();
    items.fields("position", position);
    if constexpr (Items::reads) go_to(position);
  }

 private:
  std::uint64_t fingerprint() const {
    px::Fingerprint hash;
    for (Token const token : tokens_) hash.fold(static_cast<std::uint64_t>(token));
    return hash.value();
  }

  std::span<Token const> tokens_;
  std::ptrdiff_t all_, first_;         // streams of all ranks; the number of this rank's first among them
  std::ptrdiff_t read_ = 0;            // by each stream
  std::vector<std::size_t> position_;  // of each stream's next input
};

}  // namespace lm
