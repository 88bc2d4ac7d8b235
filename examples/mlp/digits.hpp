// Images of handwritten digits, 8 x 8 pixels each, as a network reads them: a part to learn from, another to test.
#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "../matrix.hpp"

namespace mlp {

using example::Index;
using example::Matrix;

inline constexpr Index pixels = 64;
inline constexpr Index classes = 10;

template <class Scalar>
struct Images {
  Matrix<Scalar> pixels;    // [n x 64], 0 white to 1 black
  std::vector<int> labels;  // [n], 0 to 9
};

template <class Scalar>
struct Digits {
  Images<Scalar> train;  // four of five images
  Images<Scalar> test;   // every fifth
};

// Where the sources of this example keep digits.txt.
inline std::filesystem::path default_digits() {
  return std::filesystem::path{__FILE__}.parent_path().parent_path() / "data" / "digits.txt";
}

namespace detail {

template <class Scalar>
void add_image(std::string const& line, Images<Scalar>& images) {
  Index const at = static_cast<Index>(images.labels.size());
  images.labels.push_back(line[0] - '0');
  for (Index k = 0; k < pixels; ++k) {
    char const c = line[static_cast<std::size_t>(k + 2)];
    images.pixels(at, k) = static_cast<Scalar>(c <= '9' ? c - '0' : c - 'a' + 10) / 16;
  }
}

}  // namespace detail

// Reads the format that examples/data/README.md describes. Throws std::runtime_error where the file is missing or
// another one.
template <class Scalar>
Digits<Scalar> read_digits(std::filesystem::path const& path = default_digits()) {
  std::ifstream file{path};
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.size() != pixels + 2) throw std::runtime_error{"this is not a file of digits: '" + path.string() + "'"};
    lines.push_back(line);
  }
  if (lines.empty()) throw std::runtime_error{"cannot read the digits '" + path.string() + "'"};
  Digits<Scalar> digits;
  auto const held_out = static_cast<Index>(lines.size() / 5);
  digits.test.pixels.resize(held_out, pixels);
  digits.train.pixels.resize(static_cast<Index>(lines.size()) - held_out, pixels);
  for (std::size_t k = 0; k < lines.size(); ++k) detail::add_image(lines[k], k % 5 == 4 ? digits.test : digits.train);
  return digits;
}

}  // namespace mlp
