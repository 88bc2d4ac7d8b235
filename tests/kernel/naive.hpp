// What the kernel tests compare with: references written as maps and scalar loops, and the data they run on.
#pragma once

#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <span>
#include <vector>

#include "parallax/detail/kernel/row_ops.hpp"

namespace naive {

// Equal to the last bit, so that 0 differs from -0.
template <class T>
bool same_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class T, class B>
std::vector<T> copied(B const& buffer) {
  return {buffer.data(), buffer.data() + buffer.size()};
}

// A value that has been rounded to T: the compiler can neither contract nor reorder across it.
template <class T>
T rounded(T value) {
  T const volatile stored = value;
  return stored;
}

// Ids as models have them: a few are frequent (one of them most of all), most are rare.
template <class Index>
std::vector<Index> skewed_keys(std::size_t count, std::int64_t bound, std::mt19937_64& random) {
  std::vector<Index> keys(count);
  for (Index& key : keys) {
    auto const any = static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(bound));
    int const kind = static_cast<int>(random() % 8);
    key = static_cast<Index>(kind == 0 ? bound - 1 : kind < 4 ? any % 17 % bound : any);
  }
  return keys;
}

template <class T>
std::vector<T> random_values(std::size_t count, std::mt19937_64& random) {
  std::uniform_real_distribution<T> uniform{-1, 1};
  std::vector<T> values(count);
  for (T& value : values) value = uniform(random);
  return values;
}

// Numbers added in groups of 64, each from its first to its last, then the sums of the groups likewise, until one is left.
inline double sum_in_groups(std::vector<double> const& numbers) {
  if (numbers.empty()) return 0;
  if (numbers.size() == 1) return numbers[0];
  std::vector<double> sums;
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    if (i % 64 == 0) sums.push_back(0);
    sums.back() = rounded(sums.back() + numbers[i]);
  }
  return sum_in_groups(sums);
}

template <class Index>
using Groups = std::map<Index, std::vector<std::uint32_t>>;

template <class Index>
Groups<Index> group(std::vector<Index> const& keys) {
  Groups<Index> groups;
  for (std::size_t i = 0; i < keys.size(); ++i) groups[keys[i]].push_back(static_cast<std::uint32_t>(i));
  return groups;
}

// True when the library's grouping says what the map says, in all four of its arrays.
template <class Index>
bool agrees(parallax::Grouping<Index> const& found, std::vector<Index> const& keys) {
  Groups<Index> const expected = group(keys);
  if (found.size() != expected.size()) return false;
  if (found.count() != keys.size() || found.inverse.size() != keys.size()) return false;
  if (found.offsets.size() != expected.size() + 1 || found.offsets[0] != 0) return false;
  std::size_t number = 0, at = 0;
  for (auto const& [key, positions] : expected) {
    if (found.keys[number] != key) return false;
    for (std::uint32_t const position : positions)
      if (found.order[at++] != position || found.inverse[position] != number) return false;
    if (found.offsets[++number] != at) return false;
  }
  return true;
}

// The documented order of a sum: chunks of 64, each from a copy of its first addend, then the chunks likewise.
template <class T>
T chunked_sum(std::vector<T> const& addends) {
  std::vector<T> chunks;
  for (std::size_t i = 0; i < addends.size(); ++i) {
    if (i % 64 == 0) chunks.push_back(addends[i]);
    else chunks.back() = rounded(chunks.back() + addends[i]);
  }
  T total = chunks[0];
  for (std::size_t c = 1; c < chunks.size(); ++c) total = rounded(total + chunks[c]);
  return total;
}

}  // namespace naive
