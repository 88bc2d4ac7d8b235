// The sizes of the language model.
#pragma once

#include <cstddef>

#include "text.hpp"

namespace lm {

using Index = std::ptrdiff_t;  // Eigen's as well

struct LstmShape {
  Index input = 64;       // E
  Index cell = 128;       // H
  Index projection = 64;  // P, the size of what comes out and of what goes back in
};

struct ModelShape {
  Id vocabulary = 8000;   // V, the rows of both tables
  Index embedding = 64;   // E, the width of the embedding table
  Index cell = 128;       // H
  Index projection = 64;  // P, one less than the width of the softmax table
  Id samples = 256;       // S

  Index softmax_width() const { return projection + 1; }
  LstmShape lstm() const { return {embedding, cell, projection}; }
};

}  // namespace lm
